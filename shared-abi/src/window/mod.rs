//! The mapped region and the only raw memory access in the wire layers (abi §3, §4;
//! contract "window").
//!
//! Three kinds of access, and no other:
//! - control words: 32-bit atomics, each with one writer, always the same; in coherent memory a
//!   slot's header and published word together as a 64-bit one;
//! - payload words of a slot: relaxed atomics, by the side that owns the slot;
//! - bulk bytes (chunks, heap): `copy_nonoverlapping` into or out of private memory, stores around
//!   the caches, or a [`Claimed`] view.
//!
//! A peer that breaks the ownership rules can garble the *values* that come out. It cannot move an
//! access outside the region: every offset is checked here against the length this side mapped,
//! never against a length the peer wrote.
//!
//! `access` is what the protocol needs of a queue pair, `cells` values that are stored as one,
//! `slots` the slots and chunks of one in a window, `payload` the words of a request, `device` the
//! end that has a heap, `heap` the views that handlers get, `copies` what hosts copy,
//! `streamed` large copies of them, `private` windows over this program's own memory.
//!
//! `K` keeps the region mapped: an `Arc` of the mapping on a host, `()` on a device whose window is
//! never unmapped.

#![expect(unsafe_code)]
// UNSAFETY: a window is raw memory that another program writes, and offsets must become pointers.
// That happens here, in one module, behind safe checked methods. The contracts that a caller must
// keep are on `Window::new` and `DeviceWindow::new`.
//
// Contract "window". A `Window` is a base, a length and a keeper. Obligations, and what meets them:
// - S1: the memory stays mapped, readable, writable as long as anything made of it. Callers of
//   `Window::new`; `Queue` and `Heap` clone the keeper, `Word` and `Slot` borrow, `Window::lend`
//   borrows the lender. A `Window<()>`, which may be copied, is of memory that is mapped for good:
//   `Window::leak`, or an unsafe constructor.
// - S2: an access lies inside. `at`, by the length that this side mapped; slots, second lines and
//   chunks are checked when a `Queue` is made, then indexed below the checked counts.
// - S3: it is aligned. A base aligned to 64 (callers of `new`), a checked offset.
// - S4: no Rust reference covers memory that a peer may write, except views of the heap, and those of
//   contract "registered memory". Only `Claimed` and `Piece` (contract "claims of segments") make
//   references. `DeviceWindow::split`
//   leaves a window that ends where the heap begins; `split_home` leaves three disjoint parts: a
//   rank's home with its heap, and the memory before and behind it. `LentHeap::part` borrows the heap
//   shared, so no view exists then; a `WorldRef` takes that borrow again for each access.
// - S5: a live word is accessed in one width: a 32-bit atomic; a slot's header and published word are
//   one 64-bit atomic where memory is coherent and the target has them (`Order::PAIRED`); payload has
//   one width per target, except the second line (abi §4.7) and data for the heap, which are copied in
//   bulk. `Word` and `Slot` are the only ways once a peer is attached; no `Word` is made of a slot.
//   `HdrWord` loads the pair in any memory; where memory is not paired, this program is the device,
//   which stores request words of host queues only, and no `HdrWord` is made of these. Numbers of a
//   segment (`cells.rs`) are atomics of the program's width.
// - S6: views of the heap do not alias. One `DeviceWindow` per region (callers of `new`), one heap at
//   a time (`split`, `join`). `claim` takes `&mut self` and checks its ranges together; words borrow
//   `&self`.
// - S7: any bytes are a value of the element type. `Pod`; zerocopy's traits for wire structs.
// Types do not force: a `Window::part` or `Queue` survives another split of the window for the next
// epoch (`Device` drops both before); contract "both ends in one program".
// Tests: `shared-abi` (bounds, claims, alignment), `tests/tests/protocol/handshake.rs` (sections and
// descriptors that leave, overlap or wrap), `tests/tests/protocol/hostile.rs` (random bytes
// everywhere; only the device's own parts may change).

// Atomics over foreign bytes cannot be a model checker's: the model runs the protocol on typed
// slots instead.
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::slot::SLOT_BYTES;
use crate::split::Tail;

mod access;
mod cells;
#[cfg(not(any(target_os = "none", hamr_bare)))]
mod copies;
mod device;
mod heap;
mod lent;
mod payload;
#[cfg(any(feature = "driven", not(any(target_os = "none", hamr_bare))))]
mod private;
mod slots;
#[cfg(all(target_arch = "x86_64", not(any(target_os = "none", hamr_bare))))]
mod streamed;
#[cfg(test)]
mod tests;

pub use access::{SlotAccess, Slots};
pub use cells::{AtomicOp, AtomicValue, Value};
#[cfg(not(any(target_os = "none", hamr_bare)))]
pub use copies::{Copies, CopyError, STREAMED};
pub use device::{DeviceWindow, SplitWorld};
pub use heap::{Claim, ClaimError, Claimed, Heap, LentHeap, NoHeap};
pub use lent::LentWindow;
pub use payload::{Payload, Unread};
#[cfg(any(feature = "driven", not(any(target_os = "none", hamr_bare))))]
pub use private::{CopyGate, Private, Shared};
pub use slots::{HdrWord, Queue, Slot};

/// An access that does not lie in the region. Carries what was asked and what there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfWindow {
    /// First byte asked for.
    pub off: u64,
    /// Bytes asked for.
    pub want: u64,
    /// Bytes of the region.
    pub len: u64,
}

impl core::fmt::Display for OutOfWindow {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{} bytes at offset {:#x} leave a region of {:#x} bytes (or are misaligned in it)",
            self.want, self.off, self.len
        )
    }
}

impl core::error::Error for OutOfWindow {}

/// A mapped region, seen by offset.
pub struct Window<K> {
    base: NonNull<u8>,
    len: u64,
    /// Bytes of the region behind `len`, of which those between are not its own.
    tail: Tail,
    keep: K,
}

// SAFETY: the pointer is to memory that `keep` keeps mapped and that every method accesses through
// atomics or copies; the region has no thread affinity. Racing bulk copies garble values only (see
// `docs/unsafe.md`, "racing copies").
unsafe impl<K: Send> Send for Window<K> {}
// SAFETY: as above; `&Window` offers nothing that `Window` does not.
unsafe impl<K: Sync> Sync for Window<K> {}

impl<K> Window<K> {
    /// The same window; it stays mapped for good.
    pub fn leak(self) -> Window<()> {
        core::mem::forget(self.keep);
        Window { base: self.base, len: self.len, tail: self.tail, keep: () }
    }
}

impl<K: Clone> Window<K> {
    /// A window that is mapped for good, as one of this kind.
    pub fn beside_leaked(&self, leaked: &Window<()>) -> Self {
        Self { base: leaked.base, len: leaked.len, tail: leaked.tail, keep: self.keep.clone() }
    }
}

/// What a lent window has for `K`: no clone of it exists, so nothing can be made of the window that
/// outlives the loan.
pub struct Loan(());

static_assertions::assert_not_impl_any!(Loan: Clone);

impl<K> Window<K> {
    /// A window over `len` bytes at `base`.
    ///
    /// # Safety
    /// - `base..base + len` stays readable and writable as long as `keep` or a clone of it exists,
    ///   and `base` is aligned to 64.
    /// - No byte is accessed through it while a Rust reference of this program covers the byte:
    ///   where this program is also the device, while a view of the device's heap does.
    pub unsafe fn new(base: NonNull<u8>, len: usize, keep: K) -> Self {
        debug_assert!(base.as_ptr().addr().is_multiple_of(SLOT_BYTES));
        Self { base, len: len as u64, tail: Tail::NONE, keep }
    }

    /// Bytes of the region.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Where the region begins in this program, for code in other languages, which keeps the contract of
    /// [`Self::new`] itself.
    pub fn address(&self) -> NonNull<u8> {
        self.base
    }

    /// A region of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    fn at(&self, off: u64, want: u64) -> Result<NonNull<u8>, OutOfWindow> {
        if (off > self.len || want > self.len - off) && !self.tail.has(off, want) {
            return Err(OutOfWindow { off, want, len: self.len });
        }
        // SAFETY: off <= len, or in the tail, and the region is one mapping (contract of `new`), so the
        // sum stays inside or one past it.
        Ok(unsafe { self.base.add(off as usize) })
    }

    #[inline(always)]
    fn at_aligned(&self, off: u64, want: u64, align: u64) -> Result<NonNull<u8>, OutOfWindow> {
        if !off.is_multiple_of(align) {
            return Err(OutOfWindow { off, want, len: self.len });
        }
        self.at(off, want)
    }

    /// The control word at `off`, a multiple of 4.
    pub fn word(&self, off: u64) -> Result<Word<'_>, OutOfWindow> {
        let at = self.at_aligned(off, 4, 4)?;
        Ok(Word { at, _window: PhantomData })
    }

    /// [`Self::word`], to be kept beside the window.
    pub fn keep_word(&self, off: u64) -> Result<KeptWord<K>, OutOfWindow>
    where
        K: Clone,
    {
        let at = self.at_aligned(off, 4, 4)?;
        Ok(KeptWord { at, _keep: self.keep.clone() })
    }

    /// `count` consecutive control words from `off`, a multiple of 4.
    pub fn words(&self, off: u64, count: u64) -> Result<Words<'_>, OutOfWindow> {
        let bytes = count.checked_mul(4).ok_or(OutOfWindow { off, want: u64::MAX, len: self.len })?;
        let at = self.at_aligned(off, bytes, 4)?;
        Ok(Words { at, count: count as usize, _window: PhantomData })
    }

    /// Copies bytes out into private memory.
    #[inline(always)]
    pub fn read_bytes(&self, off: u64, to: &mut [u8]) -> Result<(), OutOfWindow> {
        let at = self.at(off, to.len() as u64)?;
        // SAFETY: `at` has to.len() readable bytes (checked above), `to` is private memory of the
        // caller and no reference covers the region (contract of `new`), so the two do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(at.as_ptr(), to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies bytes in.
    #[inline(always)]
    pub fn write_bytes(&self, off: u64, from: &[u8]) -> Result<(), OutOfWindow> {
        let at = self.at(off, from.len() as u64)?;
        // SAFETY: as in `read_bytes`, the other way round; the region is writable.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), at.as_ptr(), from.len()) };
        Ok(())
    }

    /// Stores words, at a multiple of 4, each by one relaxed store: a line that was just made of narrower values is not loaded
    /// wider than they were stored, which would wait for the stores.
    #[inline(always)]
    pub fn write_words(&self, off: u64, from: &[u32]) -> Result<(), OutOfWindow> {
        let to = self.words(off, from.len() as u64)?;
        for (i, word) in from.iter().enumerate() {
            if let Some(to) = to.get(i) {
                to.store(*word);
            }
        }
        Ok(())
    }

    /// Copies inside the region; the two ranges may overlap.
    pub fn copy_within(&self, from: u64, to: u64, bytes: u64) -> Result<(), OutOfWindow> {
        self.copy_to(from, self, to, bytes)
    }

    /// Copies into another window, or this one; the two ranges may overlap.
    pub fn copy_to<L>(&self, from: u64, other: &Window<L>, to: u64, bytes: u64) -> Result<(), OutOfWindow> {
        let src = self.at(from, bytes)?;
        let dst = other.at(to, bytes)?;
        // SAFETY: both ranges were checked, each against its region; `copy` allows overlap.
        unsafe { core::ptr::copy(src.as_ptr(), dst.as_ptr(), bytes as usize) };
        Ok(())
    }

    /// Fills a range with zeros.
    pub fn zero(&self, off: u64, bytes: u64) -> Result<(), OutOfWindow> {
        let at = self.at(off, bytes)?;
        // SAFETY: the range was checked and is writable.
        unsafe { core::ptr::write_bytes(at.as_ptr(), 0, bytes as usize) };
        Ok(())
    }

    /// Copies a wire struct out. Validate the copy, then use the copy.
    pub fn read<T: FromBytes + IntoBytes>(&self, off: u64) -> Result<T, OutOfWindow> {
        let mut value = T::new_zeroed();
        self.read_into(off, &mut value)?;
        Ok(value)
    }

    /// [`Self::read`] into a struct that exists already: a result that contains a large one is
    /// copied once more.
    pub fn read_into<T: FromBytes + IntoBytes>(&self, off: u64, to: &mut T) -> Result<(), OutOfWindow> {
        self.lend().read_outlined(off, to.as_mut_bytes())
    }

    /// Copies a wire struct, or a run of bytes, in.
    pub fn write<T: IntoBytes + Immutable + ?Sized>(&self, off: u64, value: &T) -> Result<(), OutOfWindow> {
        self.lend().write_outlined(off, value.as_bytes())
    }

    /// A window over a part of this one, `off` a multiple of 64.
    pub fn part(&self, off: u64, len: u64) -> Result<Self, OutOfWindow>
    where
        K: Clone,
    {
        let base = self.at_aligned(off, len, SLOT_BYTES as u64)?;
        Ok(Self { base, len, tail: Tail::NONE, keep: self.keep.clone() })
    }
}

impl Window<Loan> {
    /// [`Self::read_bytes`], one copy for all kinds of windows: where a processor has no unaligned
    /// loads, an inlined copy of a struct is a load and a store for each byte.
    #[inline(never)]
    fn read_outlined(&self, off: u64, to: &mut [u8]) -> Result<(), OutOfWindow> {
        self.read_bytes(off, to)
    }

    /// The same for [`Self::write_bytes`].
    #[inline(never)]
    fn write_outlined(&self, off: u64, from: &[u8]) -> Result<(), OutOfWindow> {
        self.write_bytes(off, from)
    }
}

// A second heap over the same bytes would hand out aliasing views.
static_assertions::assert_not_impl_any!(Heap<()>: Clone, Copy);
static_assertions::assert_not_impl_any!(LentHeap<'static>: Clone, Copy);
static_assertions::assert_impl_all!(Window<()>: Send, Sync);
static_assertions::assert_impl_all!(Queue<()>: Send, Sync);

/// One 32-bit control word.
#[derive(Clone, Copy)]
pub struct Word<'w> {
    at: NonNull<u8>,
    _window: PhantomData<&'w ()>,
}

impl<'w> Word<'w> {
    #[inline(always)]
    fn atomic(self) -> &'w AtomicU32 {
        // SAFETY: `at` is 4-aligned and inside the region for 'w (checked when made); the word is
        // only ever accessed as a 32-bit atomic by this program (S5: no mixed sizes).
        unsafe { AtomicU32::from_ptr(self.at.as_ptr().cast()) }
    }

    /// Relaxed load.
    #[inline(always)]
    pub fn load(self) -> u32 {
        self.atomic().load(Ordering::Relaxed)
    }

    /// Acquire load: pairs with the writer's [`Self::publish`].
    #[inline(always)]
    pub fn observe(self) -> u32 {
        self.atomic().load(Ordering::Acquire)
    }

    /// Relaxed store, by the word's one writer.
    #[inline(always)]
    pub fn store(self, value: u32) {
        self.atomic().store(value, Ordering::Relaxed);
    }

    /// Release store, by the word's one writer: pairs with the reader's [`Self::observe`].
    #[inline(always)]
    pub fn publish(self, value: u32) {
        self.atomic().store(value, Ordering::Release);
    }

    /// Sets bits, behind every earlier access, in a word of several writers in one coherent machine's
    /// memory. Returns what it was.
    #[inline(always)]
    pub fn set_bits(self, bits: u32) -> u32 {
        self.atomic().fetch_or(bits, Ordering::AcqRel)
    }

    /// Clears such a word, before every later access. Returns what it was.
    #[inline(always)]
    pub fn take_bits(self) -> u32 {
        self.atomic().swap(0, Ordering::AcqRel)
    }

    /// [`Self::observe`] in another kind of memory.
    #[inline(always)]
    pub fn observe_ordered<F: crate::sync::Order>(self) -> u32 {
        F::observe(self.atomic())
    }

    /// [`Self::publish`] in another kind of memory.
    #[inline(always)]
    pub fn publish_ordered<F: crate::sync::Order>(self, value: u32) {
        F::publish(self.atomic(), value);
    }
}

/// One 32-bit control word that keeps its window mapped, for code that loads it often.
pub struct KeptWord<K> {
    at: NonNull<u8>,
    _keep: K,
}

// SAFETY: as for `Window`: the word is accessed as an atomic only, in memory that `keep` keeps
// mapped.
unsafe impl<K: Send> Send for KeptWord<K> {}
// SAFETY: as above.
unsafe impl<K: Sync> Sync for KeptWord<K> {}

impl<K> KeptWord<K> {
    /// The word.
    #[inline(always)]
    pub fn word(&self) -> Word<'_> {
        Word { at: self.at, _window: PhantomData }
    }
}

/// Consecutive 32-bit words, checked once.
#[derive(Clone, Copy)]
pub struct Words<'w> {
    at: NonNull<u8>,
    count: usize,
    _window: PhantomData<&'w ()>,
}

impl<'w> Words<'w> {
    /// How many.
    pub fn len(self) -> usize {
        self.count
    }

    /// None.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Word `i`, or `None` past the end.
    #[inline(always)]
    pub fn get(self, i: usize) -> Option<Word<'w>> {
        if i >= self.count {
            return None;
        }
        // SAFETY: i < count, and count words from `at` lie in the region (checked when made).
        let at = unsafe { self.at.add(i * 4) };
        Some(Word { at, _window: PhantomData })
    }
}
