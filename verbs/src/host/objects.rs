//! What there is of a device's section: its arena, and the objects in it.

use super::FabricError;
use crate::ids::Name;
use crate::wire::{
    ARENA, Access, Command, FABRIC_STATE, FabricState, Kind, LINE, Object, REGION_HANDLES, RemoteEnd, Reply, Verb,
    WORD, word_of,
};
use hamr::side::Ranges;
use hamr_comm::abi::window::{Shared, Window};
use rustix::fd::OwnedFd;
use rustix::net::SendFlags;
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;
use std::sync::atomic::{Ordering, fence};
use std::vec::Vec;
use zerocopy::IntoBytes;

/// What the device has opened.
pub(super) struct Ends {
    pub(super) section: Window<Shared>,
    /// A socket that notifies the device.
    pub(super) device: OwnedFd,
    pub(super) off: u64,
    pub(super) node: u16,
    pub(super) epoch: u16,
    /// Of its wire.
    pub(super) address: Option<Ipv4Addr>,
    pub(super) mtu: u16,
    /// Handlers were told that it serves.
    pub(super) is_attached: bool,
    /// What of the section nothing uses.
    pub(super) free: Ranges,
    /// Objects by kind, index and generation.
    pub(super) places: Vec<Place>,
    pub(super) keys: RandomState,
}

/// A place for objects. The ring of one that was destroyed is used again for one of its kind and index only, so that it
/// has another tag. The memory of a region has no tags: it is free when no handle of it is open, and in this epoch never if
/// handlers may have viewed it.
pub(super) struct Place {
    pub(super) object: Object,
    /// What it has of the arena, 0 bytes of which are none.
    pub(super) bytes: u64,
    pub(super) is_live: bool,
    /// The adapter may make its object, or have made it: see [`Ends::take_back`].
    is_late: bool,
}

impl Place {
    /// May there be another object in it?
    fn is_left(&self) -> bool {
        !self.is_live && !self.is_late && self.object.generation < u16::MAX
    }
}

impl Ends {
    /// Takes so many bytes of the arena, none of none.
    fn take(&mut self, bytes: u64) -> Result<u64, FabricError> {
        if bytes == 0 {
            return Ok(ARENA);
        }
        let range = bytes.checked_next_multiple_of(LINE).and_then(|len| self.free.allocate(len));
        let all = self.section.len().saturating_sub(ARENA);
        let (what, most) = if bytes > all {
            ("bytes (Options::verbs)", all)
        } else {
            ("bytes that are free in one piece (Options::verbs)", self.free.longest())
        };
        range.map(|range| range.start).ok_or(FabricError::Limit { what, most, wanted: bytes })
    }

    /// Frees the memory of regions that were destroyed and that no handler has open. The adapter has said that it does
    /// not access them any more, and handlers find none there.
    fn free_regions(&mut self) -> Result<(), FabricError> {
        // H2, whose partner is H1 at the device.
        fence(Ordering::SeqCst);
        for place in self.places.iter_mut().filter(|place| place.object.kind == Kind::REGION && place.bytes != 0) {
            let handles = self.section.word(word_of(REGION_HANDLES, place.object.index))?;
            // A view goes on behind its handle.
            let is_viewed = place.object.access.has(Access::VIEW);
            if place.is_left() && !is_viewed && handles.observe() == 0 {
                let bytes = std::mem::take(&mut place.bytes).next_multiple_of(LINE);
                self.free.free(place.object.off..place.object.off + bytes);
            }
        }
        Ok(())
    }

    /// The place of a new object over so many zeros, which is not live yet: its kind, index, generation and memory are
    /// set.
    pub(super) fn place(&mut self, kind: Kind, bytes: u64) -> Result<usize, FabricError> {
        self.free_regions()?;
        let of_kind = self.places.iter().filter(|place| place.object.kind == kind).count();
        let can_be_next = |place: &Place| place.object.kind == kind && place.is_left();
        let has_memory = |place: &Place| can_be_next(place) && place.bytes >= bytes && kind != Kind::REGION;
        // What handlers may have viewed is not free again in this epoch, whoever has its place.
        let is_lost = |place: &Place| place.bytes == 0 || place.object.access.has(Access::VIEW);
        let has_none = |place: &Place| can_be_next(place) && (is_lost(place) || kind != Kind::REGION);
        let is_full = of_kind >= usize::from(kind.most());
        let all = self.places.iter().enumerate();
        let same = all.filter(|(_, place)| has_memory(place)).min_by_key(|(_, place)| place.bytes).map(|(at, _)| at);
        let former = same.or_else(|| self.places.iter().position(has_none).filter(|_| is_full));
        if former.is_none() && is_full {
            let most = u64::from(kind.most());
            return Err(FabricError::Limit { what: "objects of a kind", most, wanted: most + 1 });
        }
        let (index, generation) = match former.and_then(|at| self.places.get(at)) {
            Some(Place { object, .. }) => (object.index, object.generation + 1),
            None => (of_kind as u16, 1),
        };
        let kept = same.and_then(|at| self.places.get(at)).map(|place| (place.object.off, place.bytes));
        // All of its memory stays with the place, for longer ones.
        let (off, bytes) = kept.map_or_else(|| Ok((self.take(bytes)?, bytes)), Ok::<_, FabricError>)?;
        self.section.zero(off, bytes)?;
        let object = Object { kind, index, generation, off, ..Object::default() };
        let place = Place { object, bytes, is_live: false, is_late: false };
        let at = former.unwrap_or(self.places.len());
        match self.places.get_mut(at) {
            Some(former) => *former = place,
            None => self.places.push(place),
        }
        Ok(at)
    }

    /// The key of a region, which begins random, and is another one in each generation: what names an earlier one is
    /// refused.
    pub(super) fn key(&self, index: u16, generation: u16) -> u32 {
        let half = |of: u32, round: u32| self.keys.hash_one((index, round, of)) as u32 & 0xFFF;
        let begin = (u32::from(generation) >> 12, u32::from(generation) & 0xFFF);
        // Rounds of a Feistel cipher: no two numbers of 24 bits become one.
        let (left, right) = (0..4).fold(begin, |(left, right), round| (right, left ^ half(right, round)));
        (left << 12 | right) << 8 | u32::from(index)
    }

    /// The place of a live object.
    pub(super) fn live(&self, kind: Kind, name: Name) -> Result<usize, FabricError> {
        let is_named = |place: &Place| {
            let Object { index, generation, .. } = place.object;
            place.is_live && place.object.kind == kind && (index, generation) == (name.index, name.generation)
        };
        let is_here = name.node == self.node && name.epoch == self.epoch;
        self.places.iter().position(is_named).filter(|_| is_here).ok_or(FabricError::Foreign)
    }

    /// Tells handlers of an object.
    pub(super) fn tell(&mut self, at: usize, object: Object) -> Result<Name, FabricError> {
        let Object { kind, index, generation, .. } = object;
        let off = kind.place(index).ok_or(FabricError::Refused(Reply::MALFORMED))?;
        self.section.write(off, object.as_bytes().get(..WORD as usize).unwrap_or_default())?;
        self.section.word(off + WORD)?.publish(Object::live(generation));
        if let Some(place) = self.places.get_mut(at) {
            (place.object, place.is_live) = (object, true);
        }
        Ok(Name { index, generation, node: self.node, epoch: self.epoch })
    }

    /// Behind an answer that has not come the adapter may do what it was asked for, or not: nobody uses the place of an object that
    /// was there again, and that of a new one when it is taken back.
    pub(super) fn settle(&mut self, at: usize, done: Result<(), FabricError>) -> Result<(), FabricError> {
        if matches!(done, Err(FabricError::Late))
            && let Some(place) = self.places.get_mut(at)
        {
            let (word, was_live) = (Object::given_up(place.object.generation), place.is_live);
            (place.is_live, place.is_late) = (false, !was_live);
            if was_live {
                place.object.generation = u16::MAX;
            }
            let object = place.object;
            self.forget(&object, word)?;
        }
        done
    }

    /// Has the adapter destroy what it has made too late: it answers in order, so it has made it by then, or never does.
    pub(super) fn take_back(
        &mut self,
        adapter: &dyn Fn(Command) -> Result<(), FabricError>,
    ) -> Result<(), FabricError> {
        while let Some(at) = self.places.iter().position(|place| place.is_late) {
            let Some(place) = self.places.get_mut(at) else { break };
            let object = place.object;
            match adapter(Command { verb: Verb::DESTROY, peer: 0, object, remote: RemoteEnd::default() }) {
                Ok(()) | Err(FabricError::Refused(_)) => place.is_late = false,
                Err(why) => return Err(why),
            }
            self.forget(&object, 0)?;
        }
        Ok(())
    }

    /// Has handlers find no object in a place, but this word.
    pub(super) fn forget(&self, object: &Object, word: u32) -> Result<(), FabricError> {
        let off = object.kind.place(object.index).ok_or(FabricError::Foreign)?;
        self.section.word(off + WORD)?.publish(word);
        self.notify();
        Ok(())
    }

    /// The adapter writes nothing any more: handlers find that, also of a device that sleeps.
    pub(super) fn tell_lost(&self) {
        if self.is_attached
            && let Ok(word) = self.section.word(FABRIC_STATE)
        {
            word.publish(FabricState::LOST.0);
            self.notify();
        }
    }

    /// Behind what tasks of the device may wait for, which may sleep. Always, so that no fence is needed.
    fn notify(&self) {
        // An error means that the device is being notified already, or gone.
        let _ = rustix::net::send(&self.device, &1_u64.to_ne_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}
