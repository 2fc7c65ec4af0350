//! The heap as handlers see it: checked views (abi §5).

#![expect(unsafe_code)]
// UNSAFETY: as in `window`, whose contracts these are.

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, compiler_fence};

use bytemuck::Pod;

use super::{LentWindow, Loan, OutOfWindow, Window, Words};
use crate::split::Tail;

/// The heap as a device sees it: the one place where window memory becomes Rust references, and
/// only through `&mut self`, so the borrow checker keeps them apart.
pub struct Heap<K> {
    pub(super) region: Region,
    /// What it was split off, to be joined again.
    pub(super) whole: Window<Loan>,
    pub(super) keep: K,
}

/// A heap for the time of a borrow, without the type of what keeps it mapped: one pointer, made at
/// every call. Opaque, so that it cannot be swapped with another heap's.
pub struct LentHeap<'h> {
    region: &'h mut Region,
}

/// The memory of a heap. A task may take its end out of it ([`LentHeap::take_from`]), and may be ended between
/// any two instructions: the length of `open` alone says whether one has.
pub(super) struct Region {
    /// What is not taken: every access through the heap is checked against it.
    open: Window<Loan>,
    /// Bytes of the heap, taken or not.
    len: u64,
    /// The number that the last taker gave.
    taker: usize,
}

impl Region {
    pub(super) const fn new(base: NonNull<u8>, len: u64) -> Self {
        Self { open: Window { base, len, tail: Tail::NONE, keep: Loan(()) }, len, taker: usize::MAX }
    }
}

/// A heap without a byte.
pub struct NoHeap(Region);

impl Default for NoHeap {
    fn default() -> Self {
        Self(Region::new(NonNull::dangling(), 0))
    }
}

impl NoHeap {
    /// It as any other heap.
    pub const fn lend(&mut self) -> LentHeap<'_> {
        LentHeap { region: &mut self.0 }
    }
}

/// A range that a handler needs a view of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Bytes from the start of the heap.
    pub off: u64,
    /// Bytes.
    pub bytes: u64,
    /// Written to; such a range may overlap no other.
    pub writable: bool,
}

/// Why a claim is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimError {
    /// A claim leaves the heap, or what is not taken of it: then it does not end behind it.
    Outside {
        /// Where it ends, in bytes from the start of the heap; saturates.
        end: u64,
        /// Bytes of the heap, taken or not.
        heap: u64,
    },
    /// Two claims overlap and one of them is writable.
    Overlap {
        /// Positions in the list of claims.
        first: usize,
        /// The later one.
        second: usize,
    },
    /// The range does not start at a multiple of the element's alignment, or is no whole number of
    /// elements.
    Misaligned {
        /// Bytes from the start of the heap.
        off: u64,
        /// Alignment needed.
        align: u64,
    },
    /// The range was claimed to be read, and is asked for to be written.
    ReadOnly {
        /// Bytes from the start of the heap.
        off: u64,
    },
}

/// A checked range, exclusive for `'h`.
pub struct Claimed<'h> {
    at: NonNull<u8>,
    bytes: usize,
    off: u64,
    writable: bool,
    _heap: PhantomData<&'h mut ()>,
}

impl<K> Heap<K> {
    /// Bytes.
    pub fn len(&self) -> u64 {
        self.region.len
    }

    /// No bytes.
    pub fn is_empty(&self) -> bool {
        self.region.len == 0
    }

    /// What keeps it mapped.
    pub fn keep(&self) -> &K {
        &self.keep
    }

    /// The same heap for the time of the borrow.
    #[inline(always)]
    pub fn lend(&mut self) -> LentHeap<'_> {
        LentHeap { region: &mut self.region }
    }

    /// Copies bytes out of the heap.
    pub fn read_bytes(&self, off: u64, to: &mut [u8]) -> Result<(), OutOfWindow> {
        self.region.open.read_bytes(off, to)
    }

    /// Copies bytes into the heap.
    pub fn write_bytes(&self, off: u64, from: &[u8]) -> Result<(), OutOfWindow> {
        self.region.open.write_bytes(off, from)
    }
}

impl LentHeap<'_> {
    /// The same heap for the time of the borrow.
    #[inline(always)]
    pub const fn lend(&mut self) -> LentHeap<'_> {
        LentHeap { region: self.region }
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.region.len
    }

    /// No bytes.
    pub fn is_empty(&self) -> bool {
        self.region.len == 0
    }

    /// Checks `N` ranges together: each inside the heap, and no writable one overlapping another.
    // Always inlined: a handler then keeps the numbers of an error in registers, instead of an error
    // that it takes apart. Each handler with buffers has this code.
    #[inline(always)]
    pub fn claim<const N: usize>(&mut self, claims: [Claim; N]) -> Result<[Claimed<'_>; N], ClaimError> {
        for (second, b) in claims.iter().enumerate() {
            if self.region.open.at(b.off, b.bytes).is_err() {
                return Err(ClaimError::Outside { end: b.off.saturating_add(b.bytes), heap: self.region.len });
            }
            for (first, a) in claims.iter().take(second).enumerate() {
                // Both lie inside the heap or the loop has ended, so neither sum overflows.
                let apart = a.off + a.bytes <= b.off || b.off + b.bytes <= a.off || a.bytes == 0 || b.bytes == 0;
                if !apart && (a.writable || b.writable) {
                    return Err(ClaimError::Overlap { first, second });
                }
            }
        }
        Ok(claims.map(|c| {
            // SAFETY: the loop above checked that c.off is inside the region.
            let at = unsafe { self.region.open.base.add(c.off as usize) };
            Claimed { at, bytes: c.bytes as usize, off: c.off, writable: c.writable, _heap: PhantomData }
        }))
    }

    /// The address of `bytes` from `off` on in this program, if they lie in the heap.
    pub fn address(&self, off: u64, bytes: u64) -> Option<usize> {
        Some(self.at(off, bytes)?.addr().get())
    }

    /// Copies bytes out of the heap.
    pub fn read_bytes(&self, off: u64, to: &mut [u8]) -> Result<(), OutOfWindow> {
        self.region.open.read_bytes(off, to)
    }

    /// Copies bytes into the heap.
    pub fn write_bytes(&self, off: u64, from: &[u8]) -> Result<(), OutOfWindow> {
        self.region.open.write_bytes(off, from)
    }

    /// A part of the heap for copies, words and atomics, `off` a multiple of 64. No view exists while
    /// it does: `claim` borrows the heap mutably.
    pub fn part(&self, off: u64, len: u64) -> Result<LentWindow<'_>, OutOfWindow> {
        self.region.open.lend_part(off, len)
    }

    /// Bytes at its front that nobody has taken.
    pub fn open_len(&self) -> u64 {
        self.region.open.len
    }

    /// Takes all from byte `off` on out of the heap, and returns where that is: views, copies and words of it are
    /// refused until [`Self::give_back`]. `None`: some is taken already, or there is no such byte.
    pub fn take_from(&mut self, off: u64, taker: usize) -> Option<NonNull<u8>> {
        let at = self.region.open.at(off, 1).ok()?;
        if self.taken().is_some() {
            return None;
        }
        self.region.taker = taker;
        // Ended between the two, the task has taken nothing.
        compiler_fence(Ordering::Release);
        self.region.open.len = off;
        Some(at)
    }

    /// Where what is taken begins.
    pub fn taken(&self) -> Option<NonNull<u8>> {
        let Region { open, len, .. } = &*self.region;
        // SAFETY: not behind the end of the heap, which is one mapping.
        (open.len != *len).then(|| unsafe { open.base.add(open.len as usize) })
    }

    /// The number that the last taker gave, which may have given it back.
    #[inline(always)]
    pub fn last_taker(&self) -> usize {
        self.region.taker
    }

    /// The heap is whole again.
    ///
    /// # Safety
    /// What was made of the bytes that were taken is not used any more.
    pub unsafe fn give_back(&mut self) {
        self.region.open.len = self.region.len;
    }

    /// Where `bytes` from `off` begin, if they lie in the heap.
    #[inline(always)]
    pub(super) fn at(&self, off: u64, bytes: u64) -> Option<NonNull<u8>> {
        self.region.open.at(off, bytes).ok()
    }

    /// Words of the heap for signalling between the two sides while a handler runs. `&self` is
    /// enough for a word, which is an atomic. No view may cover it at the same time, which
    /// `claim`'s `&mut self` ensures.
    pub fn words(&self, off: u64, count: u64) -> Result<Words<'_>, OutOfWindow> {
        self.region.open.words(off, count)
    }
}

impl<K> Window<K> {
    /// A range of a window that is no heap, as [`LentHeap::claim`] has one of a heap.
    ///
    /// # Safety
    /// For `'v` the window is mapped and nothing else writes the range; nothing else in this program accesses one that is
    /// writable.
    pub unsafe fn claim<'v>(&self, claim: Claim) -> Result<Claimed<'v>, ClaimError> {
        let Claim { off, bytes, writable } = claim;
        match self.at(off, bytes) {
            Ok(at) => Ok(Claimed { at, bytes: bytes as usize, off, writable, _heap: PhantomData }),
            Err(_) => Err(ClaimError::Outside { end: off.saturating_add(bytes), heap: self.len }),
        }
    }
}

impl<'h> Claimed<'h> {
    fn elements<T: Pod>(&self) -> Result<usize, ClaimError> {
        let align = align_of::<T>();
        let size = size_of::<T>();
        let whole = size != 0 && self.bytes.is_multiple_of(size);
        if !whole || !self.at.as_ptr().addr().is_multiple_of(align) {
            return Err(ClaimError::Misaligned { off: self.off, align: align as u64 });
        }
        Ok(self.bytes / size)
    }

    /// The range as elements to read.
    pub fn shared<T: Pod>(self) -> Result<&'h [T], ClaimError> {
        let n = self.elements::<T>()?;
        // SAFETY: in the region for 'h (claimed), aligned and whole (elements), any bytes are a T
        // (Pod); no `&mut` view overlaps it (claim), and the peer keeps off while the call runs
        // (abi §5; a peer that does not garbles values).
        Ok(unsafe { core::slice::from_raw_parts(self.at.as_ptr().cast(), n) })
    }

    /// The range as elements to write; refused unless it was claimed writable.
    pub fn exclusive<T: Pod>(self) -> Result<&'h mut [T], ClaimError> {
        let n = self.elements::<T>()?;
        if !self.writable {
            return Err(ClaimError::ReadOnly { off: self.off });
        }
        // SAFETY: as in `shared`; a writable claim overlaps no other claim, so this is the only
        // reference to the range.
        Ok(unsafe { core::slice::from_raw_parts_mut(self.at.as_ptr().cast(), n) })
    }
}
