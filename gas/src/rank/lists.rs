//! Transfers of lists of pieces (`gex_VIS_…`).

use super::Rank;
use super::event::{BLOCKING, Event, Which};
use super::rma::Source;
use crate::GasError;
use crate::message::SegRange;
use core::iter::Enumerate;
use hamr_comm::world::RankId;

/// Pieces of a list, by their lengths, to be taken one behind the other.
#[doc(hidden)]
pub struct Pieces<I> {
    lens: Enumerate<I>,
    /// The piece that was begun: its number, where it goes on, its end.
    nth: usize,
    at: u64,
    end: u64,
}

impl<I: Iterator<Item = u64>> Pieces<I> {
    pub fn new(lens: I) -> Self {
        Self { lens: lens.enumerate(), nth: 0, at: 0, end: 0 }
    }

    /// The next bytes of one piece, at most so many: which, from where on, how many. `None`: there are no more.
    pub fn take(&mut self, most: u64) -> Option<(usize, u64, u64)> {
        while self.at == self.end {
            let (nth, len) = self.lens.next()?;
            (self.nth, self.at, self.end) = (nth, 0, len);
        }
        let (at, len) = (self.at, most.min(self.end - self.at));
        self.at += len;
        Some((self.nth, at, len))
    }
}

impl<S> Rank<'_, S> {
    /// Copies pieces of private memory, one behind the other, into pieces of a segment (`gex_VIS_VectorPut`). Both lists
    /// have equally many bytes. Where pieces of the segment overlap, any of them remains.
    ///
    /// # Errors
    /// [`GasError::Lists`], and [`GasError::Reach`] of any piece: nothing was written.
    pub fn put_vector(&mut self, to: RankId, there: &[SegRange], here: &[&[u8]]) -> Result<(), GasError> {
        self.put_list(to, there, here, BLOCKING)?;
        self.wait_while(|rank| !rank.events.is_done(BLOCKING))
    }

    /// [`Self::put_vector`] without waiting. The bytes given may be used again when this returns.
    pub fn put_vector_nb(&mut self, to: RankId, there: &[SegRange], here: &[&[u8]]) -> Result<Event, GasError> {
        self.counted(Which::Puts, |rank, counter| rank.put_list(to, there, here, counter))
    }

    /// Copies pieces of a segment, one behind the other, into pieces of private memory (`gex_VIS_VectorGet`).
    ///
    /// # Errors
    /// As of [`Self::put_vector`]: nothing was read.
    pub fn get_vector(&mut self, from: RankId, there: &[SegRange], here: &mut [&mut [u8]]) -> Result<(), GasError> {
        self.check_lists(from, there, here.iter().map(|piece| piece.len()))?;
        let mut pieces = Pieces::new(there.iter().map(|range| range.len));
        for piece in here {
            let mut left = &mut **piece;
            while !left.is_empty()
                && let Some((nth, at, len)) = pieces.take(left.len() as u64)
            {
                let (to, rest) = left.split_at_mut(len as usize);
                let begin = there.get(nth).map_or(0, |range| range.off);
                self.get(from, begin + at, to)?;
                left = rest;
            }
        }
        Ok(())
    }

    /// [`Self::put_vector`] into pieces of `len` bytes of the segment, at these offsets (`gex_VIS_IndexedPut`).
    pub fn put_indexed(&mut self, to: RankId, there: &[u64], len: u64, here: &[u8]) -> Result<(), GasError> {
        self.check_indexed(to, there, len, here.len())?;
        for (off, piece) in there.iter().zip(here.chunks(len.max(1) as usize)) {
            self.put_pieces(to, *off, Source::Private(piece), len, BLOCKING)?;
        }
        self.wait_while(|rank| !rank.events.is_done(BLOCKING))
    }

    /// [`Self::get_vector`] out of such pieces (`gex_VIS_IndexedGet`).
    pub fn get_indexed(&mut self, from: RankId, there: &[u64], len: u64, here: &mut [u8]) -> Result<(), GasError> {
        self.check_indexed(from, there, len, here.len())?;
        let mut pieces = there.iter().zip(here.chunks_mut(len.max(1) as usize));
        pieces.try_for_each(|(off, piece)| self.get(from, *off, piece))
    }

    fn put_list(&mut self, to: RankId, there: &[SegRange], here: &[&[u8]], counter: u8) -> Result<(), GasError> {
        self.check_lists(to, there, here.iter().map(|piece| piece.len()))?;
        let mut pieces = Pieces::new(there.iter().map(|range| range.len));
        for piece in here {
            let mut left = *piece;
            while !left.is_empty()
                && let Some((nth, at, len)) = pieces.take(left.len() as u64)
            {
                let (from, rest) = left.split_at(len as usize);
                let begin = there.get(nth).map_or(0, |range| range.off);
                self.put_pieces(to, begin + at, Source::Private(from), len, counter)?;
                left = rest;
            }
        }
        Ok(())
    }

    /// Do the pieces lie in the segment, and are the lists equally long?
    fn check_lists(&self, rank: RankId, there: &[SegRange], here: impl Iterator<Item = usize>) -> Result<(), GasError> {
        there.iter().try_for_each(|range| self.check(rank, range.off, range.len))?;
        let sum = |sum: u64, len: u64| sum.saturating_add(len);
        let (here, there) = (here.map(|len| len as u64).fold(0, sum), there.iter().map(|range| range.len).fold(0, sum));
        if here == there { Ok(()) } else { Err(GasError::Lists { here, there }) }
    }

    fn check_indexed(&self, rank: RankId, there: &[u64], len: u64, here: usize) -> Result<(), GasError> {
        there.iter().try_for_each(|off| self.check(rank, *off, len))?;
        let (here, there) = (here as u64, len.saturating_mul(there.len() as u64));
        if here == there { Ok(()) } else { Err(GasError::Lists { here, there }) }
    }
}
