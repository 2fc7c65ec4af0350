//! What there is of a device's section: its arena, and the objects in it.

use super::FabricError;
use crate::ids::Name;
use crate::wire::{ARENA, FABRIC_STATE, FabricState, Kind, LINE, Object, Reply, WORD};
use hamr_comm::abi::window::{Shared, Window};
use rustix::fd::OwnedFd;
use rustix::net::SendFlags;
use std::hash::RandomState;
use std::net::Ipv4Addr;
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
    /// Handlers were told that it serves.
    pub(super) is_attached: bool,
    /// Arena that is used.
    pub(super) used: u64,
    /// Objects by kind, index and generation.
    pub(super) places: Vec<Place>,
    pub(super) keys: RandomState,
}

/// A place for objects. The memory of one that was destroyed is used again for one of its kind and index only, so that
/// it has another tag; that of a region, which has no tags, not in this epoch: handlers may copy or view it.
pub(super) struct Place {
    pub(super) object: Object,
    pub(super) bytes: u64,
    pub(super) is_live: bool,
}

impl Ends {
    /// Takes so many bytes of the arena.
    pub(super) fn take(&mut self, bytes: u64) -> Result<u64, FabricError> {
        let has = self.section.len();
        let end =
            self.used.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(LINE)).filter(|end| *end <= has);
        let wanted = self.used.saturating_add(bytes).saturating_sub(ARENA);
        let limit = FabricError::Limit { what: "bytes (Options::verbs)", most: has.saturating_sub(ARENA), wanted };
        Ok(std::mem::replace(&mut self.used, end.ok_or(limit)?))
    }

    /// The place of a new object over so many zeros, which is not live yet: its kind, index, generation and memory are
    /// set.
    pub(super) fn place(&mut self, kind: Kind, bytes: u64) -> Result<usize, FabricError> {
        let of_kind = self.places.iter().filter(|place| place.object.kind == kind).count();
        let can_be_next =
            |place: &Place| place.object.kind == kind && !place.is_live && place.object.generation < u16::MAX;
        let has_memory = |place: &Place| can_be_next(place) && place.bytes == bytes && kind != Kind::REGION;
        let is_full = of_kind >= usize::from(kind.most());
        let same = self.places.iter().position(has_memory);
        let former = same.or_else(|| self.places.iter().position(can_be_next).filter(|_| is_full));
        if former.is_none() && is_full {
            let most = u64::from(kind.most());
            return Err(FabricError::Limit { what: "objects of a kind", most, wanted: most + 1 });
        }
        let (index, generation) = match former.and_then(|at| self.places.get(at)) {
            Some(Place { object, .. }) => (object.index, object.generation + 1),
            None => (of_kind as u16, 1),
        };
        let kept = same.and_then(|at| Some(self.places.get(at)?.object.off));
        let off = kept.map_or_else(|| self.take(bytes), Ok)?;
        self.section.zero(off, bytes)?;
        let object = Object { kind, index, generation, off, ..Object::default() };
        let place = Place { object, bytes, is_live: false };
        let at = former.unwrap_or(self.places.len());
        match self.places.get_mut(at) {
            Some(former) => *former = place,
            None => self.places.push(place),
        }
        Ok(at)
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

    /// Behind an answer that has not come the adapter may do what it was asked for, or not: nobody uses the place again.
    pub(super) fn settle(&mut self, at: usize, done: Result<(), FabricError>) -> Result<(), FabricError> {
        if matches!(done, Err(FabricError::Late))
            && let Some(place) = self.places.get_mut(at)
        {
            let word = Object::given_up(place.object.generation);
            (place.is_live, place.object.generation) = (false, u16::MAX);
            let object = place.object;
            self.forget(&object, word)?;
        }
        done
    }

    /// Has handlers find no object in a place, but this word.
    pub(super) fn forget(&self, object: &Object, word: u32) -> Result<(), FabricError> {
        let off = object.kind.place(object.index).ok_or(FabricError::Foreign)?;
        self.section.word(off + WORD)?.publish(word);
        Ok(())
    }

    /// The adapter writes nothing any more: handlers find that, also of a device that sleeps.
    pub(super) fn tell_lost(&self) {
        if self.is_attached
            && let Ok(word) = self.section.word(FABRIC_STATE)
        {
            word.publish(FabricState::LOST.0);
            // Always, so that no fence is needed. An error means that the device is being notified already, or gone.
            let _ = rustix::net::send(&self.device, &1_u64.to_ne_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }
}
