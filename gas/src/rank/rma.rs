//! Transfers into and out of segments: by a copy, or over messages.
//!
//! All ranks map all segments, so a transfer is a copy, and done when its call returns. The path over
//! messages is that of a rank whose segment is not mapped: each piece is a request of the library, which
//! the other rank serves when it polls. [`Rank::use_messages`] has a program take it.

use super::Rank;
use super::event::{BLOCKING, Event, GETS, PUTS, Which};
use super::pieces::{Data, FILL, GET, Op, PUT, Piece};
use crate::GasError;
use crate::message::SegRange;
use hamr_comm::world::{OutOfReach, RankId, Value};

/// Bytes that are filled by one copy.
const FILLED: usize = 512;

/// Where the bytes of a put are.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Private(&'a [u8]),
    Own(u64),
}

impl<S> Rank<'_, S> {
    /// Has transfers of this rank go over messages from now on, as to a rank whose segment is not mapped;
    /// or by copies again.
    pub fn use_messages(&mut self, on: bool) {
        self.over_messages = on;
    }

    /// Copies bytes into a segment (`gex_RMA_PutBlocking`). They are there when this returns. 1, 2, 4 and 8
    /// bytes at a multiple of their number are one store.
    #[inline]
    pub fn put(&mut self, to: RankId, off: u64, from: &[u8]) -> Result<(), GasError> {
        if !self.goes_by_messages(to) {
            return self.world.put(to, off, from).map_err(|why| reach(to, why));
        }
        self.put_pieces(to, off, Source::Private(from), from.len() as u64, BLOCKING)?;
        self.wait_while(|rank| !rank.events.is_done(BLOCKING))
    }

    /// Copies bytes out of a segment (`gex_RMA_GetBlocking`).
    #[inline]
    pub fn get(&mut self, from: RankId, off: u64, to: &mut [u8]) -> Result<(), GasError> {
        if !self.goes_by_messages(from) {
            return self.world.get(from, off, to).map_err(|why| reach(from, why));
        }
        self.get_by_messages(from, off, to)
    }

    /// Stores a number (`gex_RMA_PutBlockingVal`).
    #[inline]
    pub fn put_value<T: Value>(&mut self, to: RankId, off: u64, value: T) -> Result<(), GasError> {
        if !self.over_messages && off.is_multiple_of(size_of::<T>() as u64) {
            return self.world.put_value(to, off, value).map_err(|why| reach(to, why));
        }
        self.put(to, off, bytemuck::bytes_of(&value))
    }

    /// Loads a number (`gex_RMA_GetBlockingVal`).
    #[inline]
    pub fn get_value<T: Value>(&mut self, from: RankId, off: u64) -> Result<T, GasError> {
        if !self.over_messages && off.is_multiple_of(size_of::<T>() as u64) {
            return self.world.get_value(from, off).map_err(|why| reach(from, why));
        }
        let mut value = T::zeroed();
        self.get(from, off, bytemuck::bytes_of_mut(&mut value))?;
        Ok(value)
    }

    /// Fills a part of a segment with a byte (`gasnet_memset`).
    pub fn fill(&mut self, to: RankId, off: u64, byte: u8, len: u64) -> Result<(), GasError> {
        self.fill_counted(to, off, byte, len, BLOCKING)?;
        self.wait_while(|rank| !rank.events.is_done(BLOCKING))
    }

    /// [`Self::put`] without waiting (`gex_RMA_PutNB`). The bytes given may be used again when this returns.
    pub fn put_nb(&mut self, to: RankId, off: u64, from: &[u8]) -> Result<Event, GasError> {
        self.counted(Which::Puts, |rank, counter| {
            rank.put_pieces(to, off, Source::Private(from), from.len() as u64, counter)
        })
    }

    /// The same out of this rank's segment, which must not change before it is done
    /// (`gasnet_put_nb_bulk`).
    pub fn put_nb_from(&mut self, to: RankId, off: u64, own: SegRange) -> Result<Event, GasError> {
        self.counted(Which::Puts, |rank, counter| rank.put_pieces(to, off, Source::Own(own.off), own.len, counter))
    }

    /// A get into this rank's segment without waiting (`gex_RMA_GetNB`).
    pub fn get_nb_into(&mut self, from: RankId, off: u64, own: SegRange) -> Result<Event, GasError> {
        self.counted(Which::Gets, |rank, counter| rank.get_pieces(from, off, own, counter))
    }

    /// [`Self::put_value`] without waiting.
    pub fn put_value_nb<T: Value>(&mut self, to: RankId, off: u64, value: T) -> Result<Event, GasError> {
        self.put_nb(to, off, bytemuck::bytes_of(&value))
    }

    /// [`Self::fill`] without waiting.
    pub fn fill_nb(&mut self, to: RankId, off: u64, byte: u8, len: u64) -> Result<Event, GasError> {
        self.counted(Which::Puts, |rank, counter| rank.fill_counted(to, off, byte, len, counter))
    }

    /// [`Self::put_nb`] without an event (`gex_RMA_PutNBI`): [`Self::wait_nbi`] waits for it.
    pub fn put_nbi(&mut self, to: RankId, off: u64, from: &[u8]) -> Result<(), GasError> {
        let counter = self.events.region.map_or(PUTS, |[puts, _]| puts);
        self.put_pieces(to, off, Source::Private(from), from.len() as u64, counter)
    }

    /// [`Self::put_nb_from`], likewise.
    pub fn put_nbi_from(&mut self, to: RankId, off: u64, own: SegRange) -> Result<(), GasError> {
        let counter = self.events.region.map_or(PUTS, |[puts, _]| puts);
        self.put_pieces(to, off, Source::Own(own.off), own.len, counter)
    }

    /// [`Self::get_nb_into`], likewise (`gex_RMA_GetNBI`).
    pub fn get_nbi_into(&mut self, from: RankId, off: u64, own: SegRange) -> Result<(), GasError> {
        let counter = self.events.region.map_or(GETS, |[_, gets]| gets);
        self.get_pieces(from, off, own, counter)
    }

    /// [`Self::put_value_nb`], likewise (`gex_RMA_PutNBIVal`).
    pub fn put_value_nbi<T: Value>(&mut self, to: RankId, off: u64, value: T) -> Result<(), GasError> {
        self.put_nbi(to, off, bytemuck::bytes_of(&value))
    }

    /// [`Self::fill_nb`], likewise.
    pub fn fill_nbi(&mut self, to: RankId, off: u64, byte: u8, len: u64) -> Result<(), GasError> {
        let counter = self.events.region.map_or(PUTS, |[puts, _]| puts);
        self.fill_counted(to, off, byte, len, counter)
    }

    /// The event of what `f` begins. Without a counter left it is waited for.
    pub(super) fn counted(
        &mut self,
        which: Which,
        f: impl FnOnce(&mut Self, u8) -> Result<(), GasError>,
    ) -> Result<Event, GasError> {
        if !self.over_messages {
            // All of it is done on return, so nothing is counted.
            return f(self, BLOCKING).map(|()| Event::DONE);
        }
        let Some(counter) = self.events.take() else {
            f(self, BLOCKING)?;
            self.wait_while(|rank| !rank.events.is_done(BLOCKING))?;
            return Ok(Event::DONE);
        };
        let result = f(self, counter);
        let event = self.events.event(if which == Which::Gets { [0, counter] } else { [counter, 0] });
        if let Err(why) = result {
            self.wait(event)?;
            return Err(why);
        }
        Ok(event)
    }

    pub(super) fn put_pieces(
        &mut self,
        to: RankId,
        off: u64,
        from: Source<'_>,
        len: u64,
        counter: u8,
    ) -> Result<(), GasError> {
        self.check(to, off, len)?;
        if let Source::Own(own) = from {
            self.check(self.me(), own, len)?;
        }
        if !self.goes_by_messages(to) {
            return match from {
                Source::Private(from) => self.world.put(to, off, from).map_err(|why| reach(to, why)),
                Source::Own(own) => self.copy(self.me(), own, to, off, len),
            };
        }
        self.attached()?;
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(self.replies.medium as u64);
            let data = match from {
                Source::Private(from) => {
                    Data::Bytes(from.get(done as usize..(done + piece) as usize).unwrap_or_default())
                }
                Source::Own(own) => Data::Own(own + done),
            };
            self.ask(to, Piece { key: PUT, off: off + done, len: piece, data }, Op::Put(counter))?;
            done += piece;
        }
        Ok(())
    }

    fn get_pieces(&mut self, from: RankId, off: u64, own: SegRange, counter: u8) -> Result<(), GasError> {
        self.check(from, off, own.len)?;
        self.check(self.me(), own.off, own.len)?;
        if !self.goes_by_messages(from) {
            return self.copy(from, off, self.me(), own.off, own.len);
        }
        self.attached()?;
        let mut done = 0;
        while done < own.len {
            let piece = (own.len - done).min(self.replies.medium as u64);
            let request = Piece { key: GET, off: off + done, len: piece, data: Data::None };
            self.ask(from, request, Op::Get { counter, len: piece as u16, to: own.off + done })?;
            done += piece;
        }
        Ok(())
    }

    fn fill_counted(&mut self, to: RankId, off: u64, byte: u8, len: u64, counter: u8) -> Result<(), GasError> {
        self.check(to, off, len)?;
        if self.goes_by_messages(to) {
            self.attached()?;
            let filler = [byte];
            let request = Piece { key: FILL, off, len, data: Data::Bytes(&filler) };
            return if len == 0 { Ok(()) } else { self.ask(to, request, Op::Put(counter)) };
        }
        let (bytes, mut done) = ([byte; FILLED], 0);
        while done < len {
            let (piece, _) = bytes.split_at((len - done).min(FILLED as u64) as usize);
            self.world.put(to, off + done, piece).map_err(|why| reach(to, why))?;
            done += piece.len() as u64;
        }
        Ok(())
    }

    fn get_by_messages(&mut self, from: RankId, off: u64, to: &mut [u8]) -> Result<(), GasError> {
        self.check(from, off, to.len() as u64)?;
        self.attached()?;
        let mut off = off;
        for piece in to.chunks_mut(self.replies.medium.max(1)) {
            let len = piece.len() as u64;
            self.ask(from, Piece { key: GET, off, len, data: Data::None }, Op::Held)?;
            self.wait_while(|rank| rank.held.is_none())?;
            self.take_held(from, piece);
            off += len;
        }
        Ok(())
    }

    /// This rank's own segment is always reached by copies.
    #[inline(always)]
    fn goes_by_messages(&self, rank: RankId) -> bool {
        self.over_messages && rank != self.me()
    }

    fn copy(&mut self, from: RankId, at: u64, to: RankId, off: u64, len: u64) -> Result<(), GasError> {
        let addr = |rank, off| hamr_comm::world::SegAddr { rank, off };
        self.world.copy(addr(from, at), addr(to, off), len).map_err(|why| reach(to, why))
    }

    /// Does a transfer stay in the segment? The other side checks it again.
    pub(super) fn check(&self, rank: RankId, off: u64, bytes: u64) -> Result<(), GasError> {
        let len = self.segment_len(rank)?;
        match off.checked_add(bytes) {
            Some(end) if end <= len => Ok(()),
            end => Err(reach(rank, OutOfReach::Segment { end: end.unwrap_or(u64::MAX), len })),
        }
    }
}

#[cold]
fn reach(rank: RankId, why: OutOfReach) -> GasError {
    GasError::Reach { rank: rank.0, why }
}
