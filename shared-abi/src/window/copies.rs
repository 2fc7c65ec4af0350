//! Copies of a host into and out of a heap (abi §5).

use super::{Loan, OutOfWindow, Shared, Window, Words};
use crate::split::Tail;

/// Copies into a window of at least so many bytes go around the caches, where the processor can: the
/// caches hold less than both ends, so that each line would be fetched to be overwritten. A shorter
/// copy that is read at once is read from the caches, and faster after a plain copy. The length of
/// the last cache where this was measured (`docs/performance.md`).
pub const STREAMED: usize = 32 << 20;

/// A range of a window for copies only: what a host keeps at hand for transfers, without asking its
/// link for the window.
pub struct Copies<K> {
    /// A loan: nothing of it outlives `keep`.
    region: Window<Loan>,
    keep: K,
}

/// Why nothing was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyError {
    /// It leaves the range.
    Outside(OutOfWindow),
    /// Both ends are in one program, and this thread runs a handler, which may have a view of these
    /// bytes.
    Busy,
}

impl From<OutOfWindow> for CopyError {
    fn from(e: OutOfWindow) -> Self {
        Self::Outside(e)
    }
}

impl Window<Shared> {
    /// The range `off..off + len`, for copies.
    pub fn copies(&self, off: u64, len: u64) -> Result<Copies<Shared>, OutOfWindow> {
        let base = self.at(off, len)?;
        Ok(Copies { region: Window { base, len, tail: Tail::NONE, keep: Loan(()) }, keep: self.keep.clone() })
    }
}

impl Copies<Shared> {
    /// Copies bytes out, from an offset in the range.
    #[inline(always)]
    pub fn read_bytes(&self, off: u64, to: &mut [u8]) -> Result<(), CopyError> {
        Ok(self.open()?.read_bytes(off, to)?)
    }

    /// Copies bytes in; from [`STREAMED`] of them on, around the caches.
    #[inline(always)]
    pub fn write_bytes(&self, off: u64, from: &[u8]) -> Result<(), CopyError> {
        let region = self.open()?;
        #[cfg(target_arch = "x86_64")]
        if from.len() >= STREAMED {
            return Ok(region.write_streamed(off, from)?);
        }
        Ok(region.write_bytes(off, from)?)
    }

    /// Copies inside the range; source and destination may overlap.
    pub fn copy_within(&self, from: u64, to: u64, bytes: u64) -> Result<(), CopyError> {
        Ok(self.open()?.copy_within(from, to, bytes)?)
    }

    /// Copies into another range.
    pub fn copy_to(&self, from: u64, other: &Self, to: u64, bytes: u64) -> Result<(), CopyError> {
        Ok(self.open()?.copy_to(from, other.open()?, to, bytes)?)
    }

    /// The address of `bytes` from an offset on in this program, if they lie in the range.
    pub fn address(&self, off: u64, bytes: u64) -> Option<usize> {
        Some(self.region.at(off, bytes).ok()?.addr().get())
    }

    /// Consecutive words of the range, from `off`, a multiple of 4.
    pub fn words(&self, off: u64, count: u64) -> Result<Words<'_>, CopyError> {
        Ok(self.open()?.words(off, count)?)
    }

    /// Runs `copy` with the range while no handler of the device runs in this program: for buffers that a running
    /// call may name. What `copy` waits for is taken behind the gate.
    pub fn alone<R, E: From<CopyError>>(&self, copy: impl FnOnce(&Self) -> Result<R, E>) -> Result<R, E> {
        let Some(gate) = &self.keep.gate else { return copy(self) };
        let (mut copy, mut copied) = (Some(copy), Err(CopyError::Busy.into()));
        gate.alone(&mut || {
            if let Some(copy) = copy.take() {
                copied = copy(self);
            }
        });
        copied
    }

    /// The range itself, where no gate is to be asked. For copies in that are shorter than
    /// [`STREAMED`]. It is lent, so nothing made of it outlives what keeps the memory mapped:
    ///
    /// ```compile_fail,E0277
    /// use hamr_shared_abi::window::Window;
    /// let window = Window::private(4096).share();
    /// let copies = window.copies(0, 4096).expect("inside");
    /// copies.ungated().expect("no gate").part(0, 4096);
    /// ```
    #[inline(always)]
    pub fn ungated(&self) -> Option<&Window<Loan>> {
        self.keep.gate.is_none().then_some(&self.region)
    }

    #[inline(always)]
    fn open(&self) -> Result<&Window<Loan>, CopyError> {
        match &self.keep.gate {
            Some(gate) if !gate.is_open() => Err(CopyError::Busy),
            _ => Ok(&self.region),
        }
    }
}
