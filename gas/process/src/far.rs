//! Transfers to exposed memory of other processes, through a registration cache.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::Range;

use hamr_gas::firehose::{Acquired, InUse, Lease, Limits, MOVES, Move, Moving, Refused, Remote, Slot};

use crate::attach::Peer;

/// Why a transfer was not made, or not wholly.
#[derive(Debug)]
pub enum FarError<E> {
    /// The cache gives no lease.
    Refused(Refused),
    /// The system did not copy.
    Copy(io::Error),
    /// The owner was not reached.
    Ask(E),
}

impl<E: fmt::Display> fmt::Display for FarError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(Refused::Full) => f.write_str("too much memory is in transfers"),
            Self::Refused(Refused::Range) => f.write_str("a range that cannot be pinned"),
            Self::Refused(Refused::Pin) => f.write_str("the owner does not pin this range"),
            Self::Copy(error) => write!(f, "the copy failed: {error}"),
            Self::Ask(error) => write!(f, "the owner was not asked: {error}"),
        }
    }
}

impl<E: fmt::Display + fmt::Debug> std::error::Error for FarError<E> {}

/// What an owner is asked: to unpin, in this order, then perhaps to pin.
#[derive(Debug)]
pub struct Ask {
    /// Whose memory it is.
    pub peer: u32,
    /// To unpin: [`MOVES`] at most.
    pub unpin: Vec<Range<u64>>,
    /// To pin.
    pub pin: Option<Range<u64>>,
}

/// The pinned memory of other processes (see the module). Each owner is a number of the program's own, as a rank.
pub struct Far<'m> {
    remote: Remote<'m>,
    owed: Owed,
    piece: u64,
}

/// Regions that have left the cache, or that an owner may have pinned in a question without an answer: each goes with
/// every question to its owner until one is answered. An owner that has not pinned it for this side unpins nothing.
#[derive(Default)]
struct Owed(Vec<(u32, Range<u64>)>);

impl Owed {
    /// The owner to whom this is owed. It pins a range for this side once at most: each question asks to unpin first.
    fn add(&mut self, peer: u32, range: Range<u64>) -> u32 {
        let owed = (peer, range);
        if !self.0.contains(&owed) {
            self.0.push(owed);
        }
        peer
    }

    /// Asks an owner to unpin all that is owed to it, [`MOVES`] in a question, and then perhaps to pin.
    fn ask<E>(
        &mut self,
        peer: u32,
        pin: Option<Range<u64>>,
        ask: &mut impl FnMut(Ask) -> Result<bool, E>,
    ) -> Result<bool, FarError<E>> {
        loop {
            let of_peer = |(owner, _): &&(u32, Range<u64>)| *owner == peer;
            let unpin: Vec<_> = self.0.iter().filter(of_peer).take(MOVES).map(|(_, range)| range.clone()).collect();
            let is_last = self.0.iter().filter(of_peer).count() == unpin.len();
            if is_last && unpin.is_empty() && pin.is_none() {
                return Ok(true);
            }
            let (asked, pin) = (unpin.len(), pin.clone().filter(|_| is_last));
            let answer = ask(Ask { peer, unpin, pin }).map_err(FarError::Ask)?;
            let mut left = asked;
            self.0.retain(|(owner, _)| {
                let is_done = *owner == peer && left > 0;
                left -= usize::from(is_done);
                !is_done
            });
            if is_last {
                return Ok(answer);
            }
        }
    }
}

/// A region that its owner is asked to pin. Without an answer it leaves the cache, and is owed.
struct Pinning<'f, 'm> {
    remote: &'f mut Remote<'m>,
    owed: &'f mut Owed,
    peer: u32,
    moving: Option<Moving>,
}

impl Pinning<'_, '_> {
    fn answered(mut self, is_pinned: bool) -> Option<Result<Lease, Refused>> {
        let moving = self.moving.take()?;
        Some(self.remote.moved(moving, is_pinned.then_some(0)))
    }
}

impl Drop for Pinning<'_, '_> {
    fn drop(&mut self) {
        if let Some(moving) = self.moving.take() {
            self.owed.add(self.peer, moving.range());
            // Refused, as is known.
            let _ = self.remote.moved(moving, None);
        }
    }
}

impl<'m> Far<'m> {
    /// Nothing is pinned yet.
    ///
    /// # Panics
    /// As [`Remote::new`].
    pub fn new(limits: Limits, slots: &'m mut [Slot<u64>]) -> Self {
        let remote = Remote::new(limits, slots);
        let most = limits.region_bytes.min(limits.bytes);
        // Regions are whole pages.
        Self { remote, owed: Owed::default(), piece: most - most % limits.page }
    }

    /// Copies bytes to `at` in the memory of `peer`, which `process` is. They are there when this returns. `ask`
    /// brings a question to an owner, and its answer.
    ///
    /// # Errors
    /// See [`FarError`]; a part may have been copied.
    pub fn put<E>(
        &mut self,
        (peer, process): (u32, &Peer),
        at: u64,
        bytes: &[u8],
        ask: impl FnMut(Ask) -> Result<bool, E>,
    ) -> Result<(), FarError<E>> {
        self.pieces(peer, at, bytes.len(), ask, |from, piece| process.write(from, &bytes[piece]))
    }

    /// Copies bytes from `at` in the memory of `peer`; else as [`Far::put`].
    ///
    /// # Errors
    /// See [`FarError`]; a part may have been copied.
    pub fn get<E>(
        &mut self,
        (peer, process): (u32, &Peer),
        at: u64,
        into: &mut [u8],
        ask: impl FnMut(Ask) -> Result<bool, E>,
    ) -> Result<(), FarError<E>> {
        self.pieces(peer, at, into.len(), ask, |from, piece| process.read(from, &mut into[piece]))
    }

    /// Has what is pinned of a range of `peer` unpinned, and forgets it: the owner may give the memory back to the system.
    ///
    /// # Errors
    /// [`FarError::Ask`]: it may be pinned still, and the same call asks again.
    pub fn invalidate<E>(
        &mut self,
        peer: u32,
        range: Range<u64>,
        mut ask: impl FnMut(Ask) -> Result<bool, E>,
    ) -> Result<(), FarError<E>> {
        // A lease is out during a transfer only, which has this cache.
        let in_use = |InUse| FarError::Refused(Refused::Full);
        while let Some(unpin) = self.remote.invalidate(peer, range.clone()).map_err(in_use)? {
            self.owed.add(unpin.peer, unpin.range);
        }
        self.owed.ask(peer, None, &mut ask)?;
        Ok(())
    }

    /// Copies by pieces that lie in one region each; `copy` gets the address and the part of the bytes.
    fn pieces<E>(
        &mut self,
        peer: u32,
        at: u64,
        len: usize,
        mut ask: impl FnMut(Ask) -> Result<bool, E>,
        mut copy: impl FnMut(u64, Range<usize>) -> io::Result<()>,
    ) -> Result<(), FarError<E>> {
        let mut done = 0;
        while done < len {
            if self.piece == 0 {
                return Err(FarError::Refused(Refused::Range));
            }
            // Pieces end at multiples of their length, so that they are the same ones for each transfer.
            let from = at.checked_add(done as u64).ok_or(FarError::Refused(Refused::Range))?;
            let piece = (self.piece - from % self.piece).min((len - done) as u64);
            let end = from.checked_add(piece).ok_or(FarError::Refused(Refused::Range))?;
            let lease = self.acquire(peer, from..end, &mut ask)?;
            let next = done + piece as usize;
            let copied = copy(from, done..next);
            if let Some(unpin) = self.remote.release(lease) {
                self.owed.add(unpin.peer, unpin.range);
                self.owed.ask(peer, None, &mut ask)?;
            }
            copied.map_err(FarError::Copy)?;
            done = next;
        }
        Ok(())
    }

    fn acquire<E>(
        &mut self,
        peer: u32,
        range: Range<u64>,
        ask: &mut impl FnMut(Ask) -> Result<bool, E>,
    ) -> Result<Lease, FarError<E>> {
        loop {
            let Move { unpin, pin } = match self.remote.acquire(peer, range.clone()).map_err(FarError::Refused)? {
                Acquired::Lease(lease) => return Ok(lease),
                Acquired::Move(to_send) => to_send,
            };
            let Self { remote, owed, .. } = self;
            let left = unpin.into_iter().flatten();
            let owners: Vec<u32> = left.map(|unpin| owed.add(unpin.peer, unpin.range)).collect();
            let wanted = pin.as_ref().map(Moving::range);
            let pinning = Pinning { remote, owed, peer, moving: pin };
            let others: BTreeSet<u32> = pinning.owed.0.iter().map(|(owner, _)| *owner).collect();
            for other in others.into_iter().filter(|owner| *owner != peer) {
                let told = pinning.owed.ask(other, None, ask);
                // What was owed before is asked for again, and is none of this transfer's.
                if owners.contains(&other) {
                    told?;
                }
            }
            let is_pinned = pinning.owed.ask(peer, wanted, ask)?;
            if let Some(lease) = pinning.answered(is_pinned) {
                return lease.map_err(FarError::Refused);
            }
        }
    }
}
