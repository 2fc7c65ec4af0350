//! How ranks begin: all clear what they write for each other, meet, and compare their handlers.

use super::{BarrierName, MAX_MEDIUM, MAX_RANKS, Peer, Rank};
use crate::GasError;
use crate::error::Name;
use crate::handlers::Handlers;
use hamr_comm::abi::window::{OutOfWindow, SlotAccess, Slots};
use hamr_comm::abi::world::{ARGS_BYTES, GasHead, GasName};
use hamr_comm::world::{RankId, RankSet};

/// A layout was checked when the rank joined: an access that leaves it is this rank's own.
fn outside(_: OutOfWindow) -> GasError {
    GasError::NoWorld
}

impl<S> Rank<'_, S> {
    /// Makes messages possible (`gex_EP_RegisterHandlers`, `gasnet_attach`). All ranks call it, once,
    /// with tables that have the same indices, kinds and names. It waits for all.
    ///
    /// # Errors
    /// [`GasError::Names`] on every rank if the tables differ.
    #[track_caller]
    pub fn attach(&mut self, table: &'static Handlers<S>) -> Result<(), GasError> {
        if self.table.is_some() {
            return Err(GasError::AlreadyAttached);
        }
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        let size = self.size();
        if size as usize > MAX_RANKS {
            return Err(GasError::TooManyRanks { size, max: MAX_RANKS as u32 });
        }
        // All have ended what they ran before, so no message of it is cleared that a rank waits for.
        self.task().barrier()?;
        self.peers.clear();
        self.senders = self.gas.are_announced().then_some(RankSet::EMPTY);
        for rank in (0..size).map(RankId) {
            self.open(rank)?;
        }
        self.is_pair = size == 2 && self.senders.is_none();
        if self.is_pair {
            self.last = usize::from(self.me().0 == 0);
        }
        self.clear_barriers().ok_or(GasError::NoWorld)?;
        self.describe(table)?;
        self.task().barrier()?;
        self.compare()?;
        (self.table, self.replies.info) = (Some(table), &table.info);
        Ok(())
    }

    /// Adds handlers (`gex_EP_RegisterHandlers` behind the attach). All ranks call it with tables that are equal, as
    /// in [`Self::attach`], and have all handlers that there are with the same indices, kinds and names. Messages are
    /// served meanwhile, and until all have come the new handlers get none.
    ///
    /// # Errors
    /// [`GasError::Names`]: a handler of before is missing or another one, which this rank finds alone, before anything
    /// changes; or the tables differ, which every rank finds. Then the handlers are those of before.
    pub fn register(&mut self, table: &'static Handlers<S>) -> Result<(), GasError> {
        let before = self.attached()?;
        let me = self.me().0;
        let rows = before.info.iter().zip(&table.info).zip(0..=255);
        let text = |info: &crate::kinds::Info| name(&info.wire());
        for ((old, new), at) in rows.filter(|((old, _), _)| old.kinds != 0) {
            if (old.kinds, old.name) != (new.kinds, new.name) {
                return Err(GasError::Names { at, one: (me, text(old)), other: (me, text(new)) });
            }
        }
        // Behind it none compares the tables of before any more.
        self.barrier(BarrierName::Anonymous)?;
        self.describe(table)?;
        self.barrier(BarrierName::Anonymous)?;
        let compared = self.compare();
        if compared.is_ok() {
            (self.table, self.replies.info) = (Some(table), &table.info);
        } else {
            // No rank reads them behind the barrier below.
            self.barrier(BarrierName::Anonymous)?;
            self.describe(before)?;
        }
        // A rank that sends to a new handler finds it at all ranks.
        self.barrier(BarrierName::Anonymous)?;
        compared
    }

    /// Opens both ends between this rank and another, and clears what this one writes in them.
    fn open(&mut self, rank: RankId) -> Result<(), GasError> {
        let peer = Peer::open(self.gas, rank).ok_or(GasError::NoWorld)?;
        let Peer { requester, responder, .. } = &peer;
        // Messages of an earlier program.
        requester.slots().hot().publish_request(0, 0);
        for i in 0..requester.slots().ring_len() {
            requester.slots().ring(i).publish_request(0, 0);
        }
        responder.clear();
        // There is room: the size was checked.
        #[cfg(hamr_bare)]
        let _ = self.peers.push(peer);
        #[cfg(not(hamr_bare))]
        self.peers.push(peer);
        Ok(())
    }

    /// States this rank's limits and handlers.
    fn describe(&self, table: &Handlers<S>) -> Result<(), GasError> {
        let (window, layout, me) = (self.gas.window(), self.gas.layout(), self.me());
        let medium = MAX_MEDIUM.min((layout.chunk_len() - ARGS_BYTES) as usize) as u32;
        for (at, info) in (0..=255).zip(&table.info) {
            let to = layout.name(me, at).ok_or(GasError::NoWorld)?;
            window.write(to, &info.wire()).map_err(outside)?;
        }
        let head = GasHead { fingerprint: table.fingerprint(), medium, ..GasHead::default() };
        window.write(layout.head(me).ok_or(GasError::NoWorld)?, &head).map_err(outside)
    }

    /// Compares all tables with that of rank 0, so that all ranks find the same.
    fn compare(&mut self) -> Result<(), GasError> {
        let first = self.head(RankId(0))?;
        if first.medium == 0 {
            return Err(GasError::Corrupt(0));
        }
        self.replies.medium = first.medium as usize;
        for rank in (1..self.size()).map(RankId) {
            let head = self.head(rank)?;
            if head.medium == 0 {
                return Err(GasError::Corrupt(rank.0));
            }
            self.replies.medium = self.replies.medium.min(head.medium as usize);
            if head.fingerprint != first.fingerprint {
                return Err(self.difference(rank)?.unwrap_or(GasError::Corrupt(rank.0)));
            }
        }
        self.replies.medium = self.replies.medium.min(MAX_MEDIUM);
        Ok(())
    }

    fn head(&self, of: RankId) -> Result<GasHead, GasError> {
        self.gas.window().read(self.gas.layout().head(of).ok_or(GasError::NoWorld)?).map_err(outside)
    }

    fn difference(&self, rank: RankId) -> Result<Option<GasError>, GasError> {
        for at in 0..=255 {
            let [one, other] = [RankId(0), rank].map(|rank| {
                let from = self.gas.layout().name(rank, at).ok_or(GasError::NoWorld)?;
                self.gas.window().read::<GasName>(from).map_err(outside)
            });
            let (one, other) = (one?, other?);
            if (one.hash, one.kinds) != (other.hash, other.kinds) {
                return Ok(Some(GasError::Names { at, one: (0, name(&one)), other: (rank.0, name(&other)) }));
            }
        }
        Ok(None)
    }
}

/// The end of a name, as far as there is room.
fn name(of: &GasName) -> Name {
    let bytes = of.name.get(..usize::from(of.len)).unwrap_or_default();
    let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let end = text.ceil_char_boundary(text.len().saturating_sub(Name::new().capacity()));
    Name::try_from(text.get(end..).unwrap_or_default()).unwrap_or_default()
}
