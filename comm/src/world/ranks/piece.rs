//! Memory of a claim, which is divided without overlap, and typed pieces of it.
//!
//! Neither is a reference, so other ranks may write it while it exists. References are made for as long
//! as a piece is borrowed; who lends pieces to other ranks lets them write only while it has them
//! mutably, and makes none then.

#![expect(unsafe_code)]
// UNSAFETY: references to claimed bytes (contract "claims of segments").
//
// Contract "claims of segments". A claim takes the end of the heap out of it (`LentHeap::take_from`),
// so S4 and S6 hold by the heap's own check, until it is dropped or its task has ended. The length of
// what is left is the one word that says so; the taker is stored before. So a task that is ended at
// any instruction has taken nothing, or its place's end gives it back. A drop gives back only what
// begins where the claim does, of the heap that it was taken from. The list of claims has what lasts
// across waits: claims of buffers, and words of the segment.
// References borrow a `Piece`, copies and atomics that write it do so mutably. Other ranks, also
// threads, are other programs: what they write at the wrong time is a racing copy (`docs/unsafe.md`, "racing copies"), as are
// writes of other images to elements under a view of a coarray. An array of a program is closed before
// a rank is told that it may write there, and opened where all have; memory of a scope that has failed
// is not taken again.

use crate::world::{AtomicOp, AtomicValue, OutOfReach, RankId, Strided, WorldRef};
use bytemuck::Pod;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::NonNull;
use hamr_shared_abi::window::Window;

/// Bytes of a large page, at a multiple of them in the address space and in the file.
#[cfg(all(target_os = "linux", not(hamr_bare)))]
const LARGE_PAGE: usize = 2 << 20;

/// Bytes of the segment that only this value reaches, in this rank.
pub struct Memory<'c> {
    at: NonNull<u8>,
    bytes: usize,
    off: u64,
    _claim: PhantomData<&'c mut [u8]>,
}

/// Elements of the segment that only this value reaches, in this rank.
pub struct Piece<'c, T> {
    at: NonNull<T>,
    len: usize,
    off: u64,
    _claim: PhantomData<&'c mut [T]>,
}

impl<'c> Memory<'c> {
    /// `bytes` at `at`, which is byte `off` of the segment.
    ///
    /// # Safety
    /// For `'c` they are mapped, and in this rank reached through the result alone. `at` is a multiple
    /// of 64.
    pub(in crate::world) const unsafe fn new(at: NonNull<u8>, bytes: usize, off: u64) -> Self {
        Self { at, bytes, off, _claim: PhantomData }
    }

    /// Bytes.
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// No bytes.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Where it begins, in bytes from the start of the segment.
    pub const fn off(&self) -> u64 {
        self.off
    }

    /// The same memory for the time of the borrow.
    pub const fn lend(&mut self) -> Memory<'_> {
        // SAFETY: this value is borrowed mutably as long as the result lives.
        unsafe { Memory::new(self.at, self.bytes, self.off) }
    }

    /// Cuts `bytes`, a multiple of 64, off the front.
    pub fn take_front(&mut self, bytes: usize) -> Option<Self> {
        let rest = self.bytes.checked_sub(bytes).filter(|_| bytes.is_multiple_of(64))?;
        // SAFETY: these bytes are `self`'s, whose other bytes are kept below; alignment as checked.
        let front = unsafe { Self::new(self.at, bytes, self.off) };
        // SAFETY: not behind the end of the memory.
        let at = unsafe { self.at.add(bytes) };
        // SAFETY: the rest of `self`'s, as above.
        *self = unsafe { Self::new(at, rest, self.off + bytes as u64) };
        Some(front)
    }

    /// Cuts `bytes` off the end, such that what remains is a multiple of 64.
    pub fn take_end(&mut self, bytes: usize) -> Option<Self> {
        let rest = self.bytes.checked_sub(bytes)? / 64 * 64;
        let mut all = core::mem::replace(self, Self { bytes: 0, ..*self });
        *self = all.take_front(rest)?;
        Some(all)
    }

    /// Asks the system for large pages below this memory, where it is longer than one. No byte changes, and a
    /// system that has none goes on as before.
    pub fn use_large_pages(&self) {
        #[cfg(all(target_os = "linux", not(hamr_bare)))]
        if self.bytes >= LARGE_PAGE {
            let begin = self.at.addr().get() % LARGE_PAGE;
            for byte in (0..self.bytes).step_by(LARGE_PAGE) {
                // SAFETY: within the memory.
                let at = unsafe { self.at.add(byte) };
                // SAFETY: its bytes are mapped (contract of `new`). The read brings a page: the system makes a
                // large one only of what has one.
                unsafe { at.read_volatile() };
            }
            let first = self.at.as_ptr().wrapping_sub(begin);
            let bytes = (begin + self.bytes).next_multiple_of(LARGE_PAGE);
            // SAFETY: other pages are put below these addresses, with the same bytes: no access sees it. What
            // is not mapped of the first and the last page is refused.
            unsafe { libc::madvise(first.cast(), bytes, libc::MADV_COLLAPSE) };
        }
    }

    /// All of it as elements, as many as there are whole ones.
    pub fn piece<T: Pod>(self) -> Piece<'c, T> {
        const { assert!(size_of::<T>() != 0 && align_of::<T>() <= 64, "elements have bytes, and no special alignment") };
        Piece { at: self.at.cast(), len: self.bytes / size_of::<T>(), off: self.off, _claim: PhantomData }
    }
}

impl<'c, T: Pod> Piece<'c, T> {
    /// Elements.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// No elements.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it begins, in bytes from the start of the segment.
    pub const fn off(&self) -> u64 {
        self.off
    }

    /// The elements. No rank is allowed to write them while the result lives.
    #[inline(always)]
    pub const fn as_slice(&self) -> &[T] {
        // SAFETY: `len` elements at `at` are mapped for 'c and reached through `self` alone (contract of
        // `Memory::new`), which is borrowed; aligned to 64, of which the element's alignment is a
        // divisor (`Memory::piece`); any bytes are a T. What another rank does meanwhile: "racing copies".
        unsafe { core::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }

    /// The elements, to be written.
    #[inline(always)]
    pub const fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`; `self` is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }

    /// Some of the elements: no reference covers the others. `None`: the range leaves the piece.
    #[inline(always)]
    pub fn part(&self, range: Range<usize>) -> Option<&[T]> {
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= self.len)?;
        // SAFETY: the range lies within the elements (checked above).
        let at = unsafe { self.at.add(range.start) };
        // SAFETY: as in `as_slice`, of which these are a part.
        Some(unsafe { core::slice::from_raw_parts(at.as_ptr(), len) })
    }

    /// [`Self::part`], to be written.
    #[inline(always)]
    pub fn part_mut(&mut self, range: Range<usize>) -> Option<&mut [T]> {
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= self.len)?;
        // SAFETY: the range lies within the elements (checked above).
        let at = unsafe { self.at.add(range.start) };
        // SAFETY: as in `part`; `self` is borrowed mutably.
        Some(unsafe { core::slice::from_raw_parts_mut(at.as_ptr(), len) })
    }

    /// The elements for good, of a piece that no rank is told of.
    pub const fn into_mut_slice(self) -> &'c mut [T] {
        // SAFETY: as in `as_slice`; `self` ends here.
        unsafe { core::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }

    /// Copies runs from byte `from` of this piece to byte `off` of a rank's segment: a
    /// [`WorldRef::put_strided`] that makes no reference, so that ranks may write other elements.
    ///
    /// # Errors
    /// The copy leaves the piece or the segment, or is malformed. To the rank itself: the elements are
    /// those of a piece, which no other way leads to.
    pub fn put_strided(
        &self,
        world: &WorldRef<'_>,
        from: usize,
        to: RankId,
        off: u64,
        shape: &Strided<'_>,
    ) -> Result<(), OutOfReach> {
        world.in_segment(to, |segment| Ok(shape.copy(&self.window().lend(), from as u64, segment, off)))?
    }

    /// Copies runs from byte `off` of a rank's segment to byte `to` of this piece.
    ///
    /// # Errors
    /// As [`Self::put_strided`].
    pub fn get_strided(
        &mut self,
        world: &WorldRef<'_>,
        to: usize,
        from: RankId,
        off: u64,
        shape: &Strided<'_>,
    ) -> Result<(), OutOfReach> {
        let turned = Strided { here: shape.there, there: shape.here, ..*shape };
        world.in_segment(from, |segment| Ok(turned.copy(segment, off, &self.window().lend(), to as u64)))?
    }

    /// Copies runs from byte `from` to byte `to` of this piece.
    ///
    /// # Errors
    /// The copy leaves the piece or is malformed.
    pub fn copy_strided(&mut self, from: usize, to: usize, shape: &Strided<'_>) -> Result<(), OutOfReach> {
        let window = self.window();
        shape.copy(&window.lend(), from as u64, &window.lend(), to as u64)
    }

    /// An atomic access to an element, which other ranks may access so at the same time; see
    /// [`WorldRef::atomic`].
    ///
    /// # Errors
    /// There is no such element.
    pub fn atomic(&mut self, at: usize, op: AtomicOp<T>) -> Result<T, OutOfReach>
    where
        T: AtomicValue,
    {
        let off = at.checked_mul(size_of::<T>()).ok_or(OutOfReach::Shape)?;
        Ok(self.window().atomic(off as u64, op)?)
    }

    fn window(&self) -> Window<()> {
        // SAFETY: the bytes are mapped, and at a multiple of 64 (contract of `Memory::new`). The window
        // stays in the functions above: those that copy out of it borrow the piece, so that no mutable
        // reference exists, and those that write into it borrow it mutably, so that none exists.
        unsafe { Window::new(self.at.cast(), self.len * size_of::<T>(), ()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct Line([u64; 8]);

    const LINE: Line = Line([0; 8]);

    fn memory(bytes: &mut [Line]) -> Memory<'_> {
        let len = bytes.len() * 64;
        let at = NonNull::from(bytes).cast();
        // SAFETY: borrowed mutably as long as the result lives. The tests use bytes only.
        unsafe { Memory::new(at, len, 4096) }
    }

    #[cfg(not(miri))]
    #[test]
    fn bytes_on_large_pages_are_as_before() {
        // One page more than there are whole ones, wherever it begins.
        let mut bytes = vec![LINE; 3 * LARGE_PAGE / 64 + 1];
        bytes.iter_mut().enumerate().for_each(|(at, line)| line.0[1] = at as u64);
        let mut all = memory(&mut bytes);
        for part in [all.take_front(64), all.take_end(LARGE_PAGE), Some(all)] {
            part.expect("room").use_large_pages();
        }
        assert!(bytes.iter().enumerate().all(|(at, line)| line.0 == [0, at as u64, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn memory_is_divided_without_overlap() {
        let mut bytes = [LINE; 8];
        let mut all = memory(&mut bytes);
        assert!(all.take_front(63).is_none() && all.take_front(576).is_none() && all.take_end(513).is_none());
        let front = all.take_front(128).expect("room");
        let end = all.take_end(100).expect("room");
        assert_eq!((front.off(), front.len()), (4096, 128));
        assert_eq!((all.off(), all.len()), (4096 + 128, 256));
        assert_eq!((end.off(), end.len()), (4096 + 384, 128), "the end begins at a multiple of 64");
        assert!(all.lend().take_front(256).is_some());
        assert_eq!(all.len(), 256, "a loan leaves it as it was");
        let (mut a, mut b, mut c) = (front.piece::<u8>(), all.piece::<u8>(), end.piece::<u32>());
        a.as_mut_slice().fill(1);
        b.as_mut_slice().fill(2);
        c.as_mut_slice().fill(0x0303_0303);
        assert_eq!((a.len(), b.len(), c.len()), (128, 256, 32));
        assert!(a.as_slice().iter().all(|x| *x == 1) && b.into_mut_slice().iter().all(|x| *x == 2));
        assert_eq!((bytes[5].0[7], bytes[6].0[0]), (0x0202_0202_0202_0202, 0x0303_0303_0303_0303));
    }

    #[test]
    fn an_atomic_access_stays_in_its_piece() {
        let mut bytes = [LINE; 1];
        let mut piece = memory(&mut bytes).piece::<u32>();
        assert_eq!(piece.atomic(15, AtomicOp::Add(7)), Ok(0));
        assert_eq!(piece.atomic(15, AtomicOp::CompareSwap { expected: 7, new: 9 }), Ok(7));
        assert_eq!(piece.as_slice()[14..], [0, 9]);
        assert!(piece.atomic(16, AtomicOp::Load).is_err() && piece.atomic(usize::MAX / 2, AtomicOp::Load).is_err());
    }

    #[test]
    fn a_copy_stays_in_its_piece() {
        let mut bytes = [LINE; 2];
        let mut piece = memory(&mut bytes).piece::<u16>();
        piece.as_mut_slice().iter_mut().zip(0..).for_each(|(x, i)| *x = i);
        let shape = Strided { run: 2, counts: &[4], here: &[4], there: &[6] };
        piece.copy_strided(0, 64, &shape).expect("inside");
        assert_eq!(piece.as_slice()[32..42], [0, 33, 34, 2, 36, 37, 4, 39, 40, 6]);
        assert_eq!((piece.part(62..64).map(<[u16]>::len), piece.part(62..65)), (Some(2), None));
        assert!(piece.part_mut(Range { start: 3, end: 2 }).is_none() && piece.part(64..64).is_some());
        assert!(piece.copy_strided(116, 0, &shape).is_err());
        assert!(piece.copy_strided(0, 112, &shape).is_err());
    }
}
