//! How the bytes of a device's heap are reached: mapped, or over a connection.

use crate::BufferError;
use hamr_comm::abi::window::{Copies, Loan, OutOfWindow, Shared, Window, Words};
use std::sync::Arc;

/// Bytes of one piece of a copy between heaps of which one is not mapped.
const PIECE: u64 = 256 << 10;

/// The window of a device that this program does not map, as far as its heap goes. Offsets are in the window. A call returns when the other end has the bytes, or
/// this one.
pub trait FarHeap: Send + Sync {
    /// Fills `to`.
    ///
    /// # Errors
    /// The heap is not reached any more, or has no such range.
    fn read(&self, off: u64, to: &mut [u8]) -> Result<(), String>;
    /// Stores `from`: messages published afterwards find it there.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn write(&self, off: u64, from: &[u8]) -> Result<(), String>;
    /// The device is lost: transfers of other threads end.
    fn end(&self) {}
    /// As [`crate::link::Link::if_memory_is_other`].
    fn if_it_is_other(&self, _lose: &dyn Fn()) {}
}

/// The heap of a device, as its link reaches it.
pub struct Heap {
    /// Of a far heap nothing, so that no attempt to copy at once succeeds, and none asks which kind it is.
    mapped: Copies<Shared>,
    far: Option<Arc<dyn FarHeap>>,
    /// Where a far one begins.
    off: u64,
}

impl Heap {
    /// A range of a window.
    pub fn mapped(mapped: Copies<Shared>) -> Self {
        Self { mapped, far: None, off: 0 }
    }

    /// One that is not mapped, from this offset in the device's window on.
    ///
    /// # Errors
    /// None: a window has a range of no bytes.
    pub fn far(far: Arc<dyn FarHeap>, off: u64) -> Result<Self, OutOfWindow> {
        Ok(Self { mapped: Window::private(0).share().copies(0, 0)?, far: Some(far), off })
    }

    /// Of a mapped heap, its copies.
    pub fn copies(&self) -> Option<&Copies<Shared>> {
        self.far.is_none().then_some(&self.mapped)
    }

    /// The range itself, where nothing is to be asked ([`Copies::ungated`]).
    #[inline(always)]
    pub(super) fn ungated(&self) -> Option<&Window<Loan>> {
        self.mapped.ungated()
    }

    pub(crate) fn read_bytes(&self, off: u64, to: &mut [u8]) -> Result<(), BufferError> {
        match &self.far {
            None => Ok(self.mapped.read_bytes(off, to)?),
            Some(far) => far.read(self.off + off, to).map_err(|_| BufferError::Unreachable),
        }
    }

    pub(crate) fn write_bytes(&self, off: u64, from: &[u8]) -> Result<(), BufferError> {
        match &self.far {
            None => Ok(self.mapped.write_bytes(off, from)?),
            Some(far) => far.write(self.off + off, from).map_err(|_| BufferError::Unreachable),
        }
    }

    /// Source and destination may overlap.
    pub(super) fn copy_within(&self, from: u64, to: u64, bytes: u64) -> Result<(), BufferError> {
        match &self.far {
            None => Ok(self.mapped.copy_within(from, to, bytes)?),
            Some(_) => self.copy_pieces(from, self, to, bytes),
        }
    }

    pub(super) fn copy_to(&self, from: u64, other: &Self, to: u64, bytes: u64) -> Result<(), BufferError> {
        match (&self.far, &other.far) {
            (None, None) => Ok(self.mapped.copy_to(from, &other.mapped, to, bytes)?),
            _ => self.copy_pieces(from, other, to, bytes),
        }
    }

    fn copy_pieces(&self, from: u64, other: &Self, to: u64, bytes: u64) -> Result<(), BufferError> {
        let mut piece = vec![0; bytes.min(PIECE) as usize];
        let pieces = bytes.div_ceil(PIECE);
        for i in 0..pieces {
            // Where they overlap, none is overwritten before it was read.
            let at = PIECE * if to > from { pieces - 1 - i } else { i };
            let Some(piece) = piece.get_mut(..(bytes - at).min(PIECE) as usize) else { break };
            self.read_bytes(from + at, piece)?;
            other.write_bytes(to + at, piece)?;
        }
        Ok(())
    }

    /// Where a range is in this program.
    pub(super) fn address(&self, off: u64, bytes: u64) -> Option<usize> {
        self.mapped.address(off, bytes)
    }

    pub(super) fn words(&self, off: u64, count: u64) -> Result<Words<'_>, BufferError> {
        match &self.far {
            None => Ok(self.mapped.words(off, count)?),
            Some(_) => Err(BufferError::NotMapped),
        }
    }

    /// Runs `copy` while no handler of the device runs in this program ([`Copies::alone`]).
    pub(super) fn alone<R>(&self, copy: impl FnOnce(&Self) -> Result<R, BufferError>) -> Result<R, BufferError> {
        match &self.far {
            None => self.mapped.alone(|_| copy(self)),
            Some(_) => copy(self),
        }
    }
}
