//! Transfers to exposed memory of other processes, through a registration cache.

use std::fmt;
use std::io;
use std::ops::Range;

use hamr_gas::firehose::{Acquired, InUse, Lease, Limits, Refused, Remote, Slot, Unpin};

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
    /// To unpin.
    pub unpin: Vec<Range<u64>>,
    /// To pin.
    pub pin: Option<Range<u64>>,
}

/// The pinned memory of other processes (see the module). Each owner is a number of the program's own, as a rank.
pub struct Far<'m> {
    remote: Remote<'m>,
    piece: u64,
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
        Self { remote, piece: most - most % limits.page }
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
    /// [`FarError::Ask`]: the rest is pinned as before.
    pub fn invalidate<E>(
        &mut self,
        peer: u32,
        range: Range<u64>,
        mut ask: impl FnMut(Ask) -> Result<bool, E>,
    ) -> Result<(), FarError<E>> {
        // A lease is out during a transfer only, which has this cache.
        let in_use = |InUse| FarError::Refused(Refused::Full);
        while let Some(Unpin { peer, range, .. }) = self.remote.invalidate(peer, range.clone()).map_err(in_use)? {
            ask(Ask { peer, unpin: vec![range], pin: None }).map_err(FarError::Ask)?;
        }
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
            if let Some(Unpin { peer, range, .. }) = self.remote.release(lease) {
                ask(Ask { peer, unpin: vec![range], pin: None }).map_err(FarError::Ask)?;
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
            let (unpin, pin) = match self.remote.acquire(peer, range.clone()).map_err(FarError::Refused)? {
                Acquired::Lease(lease) => return Ok(lease),
                Acquired::Move(to_send) => (to_send.unpin, to_send.pin),
            };
            let mut mine = Vec::new();
            let mut sent = Ok(());
            for unpin in unpin.into_iter().flatten() {
                if unpin.peer == peer {
                    mine.push(unpin.range);
                } else if sent.is_ok() {
                    sent = ask(Ask { peer: unpin.peer, unpin: vec![unpin.range], pin: None }).map(|_| ());
                }
            }
            let wanted = pin.as_ref().map(|moving| moving.range());
            let is_pinned = sent.and_then(|()| ask(Ask { peer, unpin: mine, pin: wanted }));
            let Some(moving) = pin else {
                is_pinned.map_err(FarError::Ask)?;
                continue;
            };
            // Whatever has failed, the region is not moving any more.
            let handle = is_pinned.as_ref().is_ok_and(|is_pinned| *is_pinned).then_some(0);
            let lease = self.remote.moved(moving, handle);
            is_pinned.map_err(FarError::Ask)?;
            return lease.map_err(FarError::Refused);
        }
    }
}
