//! A device's end of a window, from which the heap is split (abi §5; contract "window").

#![expect(unsafe_code)]
// UNSAFETY: as in `window`, whose contracts these are.

use core::ops::{Deref, Range};
use core::ptr::NonNull;

use super::heap::Region;
use super::{Heap, KeptWord, Loan, OutOfWindow, Window};
use crate::preamble::PREAMBLE_BYTES;
use crate::slot::SLOT_BYTES;
use crate::split::Tail;

/// A whole region that a device serves: before its heap is split off, and again once that was
/// joined.
///
/// There is one for a region, and it is consumed by [`Self::split`]: so no two heaps, whose views
/// are Rust references, cover the same bytes. A [`Window`] has no way to a heap. While it is whole,
/// it lends a window whose accesses end with the borrow: nothing made of it reaches the heap
/// afterwards.
pub struct DeviceWindow<K> {
    pub(super) whole: Window<Loan>,
    pub(super) keep: K,
}

static_assertions::assert_not_impl_any!(DeviceWindow<()>: Clone);

/// A world that was split by [`DeviceWindow::split_home`]: three parts that share no byte.
pub struct SplitWorld<K> {
    /// What is before the rank's home.
    pub before: Window<K>,
    /// The rank's home.
    pub home: DeviceWindow<K>,
    /// What is behind it.
    pub behind: Window<K>,
}

impl<K> Deref for DeviceWindow<K> {
    type Target = Window<Loan>;
    fn deref(&self) -> &Window<Loan> {
        &self.whole
    }
}

impl<K: Clone> DeviceWindow<K> {
    /// The device's end over `len` bytes at `base`.
    ///
    /// # Safety
    /// - `base..base + len` stays readable and writable as long as `keep` or a clone of it exists,
    ///   and `base` is aligned to 64.
    /// - This is the only `DeviceWindow` over any of these bytes, and no Rust reference of this
    ///   program covers one.
    /// - Where this program has a [`Window`] over them as well, it does not access a byte through
    ///   it while a view covers the byte.
    pub unsafe fn new(base: NonNull<u8>, len: usize, keep: K) -> Self {
        // SAFETY: passed on; views are made by the heap alone.
        let whole = unsafe { Window::new(base, len, Loan(())) };
        Self { whole, keep }
    }

    /// Splits `len` bytes from `off` on off as the heap. What lies before it is the window; what
    /// lies behind it belongs to neither, since a mapping may be longer than its layout, but for the bytes
    /// `at_host`, which are the window's too. `off` is a multiple of 64, behind the preamble.
    pub fn split(self, off: u64, len: u64, at_host: &Range<u64>) -> Result<(Window<K>, Heap<K>), (OutOfWindow, Self)> {
        let base = match self.whole.at_aligned(off, len, SLOT_BYTES as u64) {
            Ok(base) if off >= PREAMBLE_BYTES => base,
            Ok(_) => return Err((OutOfWindow { off, want: len, len: self.whole.len }, self)),
            Err(why) => return Err((why, self)),
        };
        let tail = match at_host.start >= off + len && at_host.end <= self.whole.len {
            true => Tail::new(at_host),
            false => Tail::NONE,
        };
        let front = Window { base: self.whole.base, len: off, tail, keep: self.keep.clone() };
        let heap = Heap { region: Region::new(base, len), whole: self.whole, keep: self.keep };
        Ok((front, heap))
    }

    /// Takes the rank's home, `len` bytes from `home` on, out of a world (abi §13). `home` and `len` are
    /// multiples of 64.
    pub fn split_home(self, home: u64, len: u64) -> Result<SplitWorld<K>, (OutOfWindow, Self)> {
        let end = home.saturating_add(len);
        let line = SLOT_BYTES as u64;
        let place = self.whole.at_aligned(home, len, line);
        let behind = self.whole.at_aligned(end, self.whole.len.saturating_sub(end), line);
        let (base, behind) = match place.and_then(|base| Ok((base, behind?))) {
            Ok(found) => found,
            Err(why) => return Err((why, self)),
        };
        let window = |base, len| Window { base, len, tail: Tail::NONE, keep: self.keep.clone() };
        let (before, behind) = (window(self.whole.base, home), window(behind, self.whole.len - end));
        let home = Self { whole: Window { base, len, tail: Tail::NONE, keep: Loan(()) }, keep: self.keep };
        Ok(SplitWorld { before, home, behind })
    }

    /// A word of the preamble, to be kept beside the window: no heap covers it.
    pub fn keep_word(&self, off: u64) -> Result<KeptWord<K>, OutOfWindow> {
        let at = self.whole.at_aligned(off, 4, 4)?;
        if off >= PREAMBLE_BYTES {
            return Err(OutOfWindow { off, want: 4, len: PREAMBLE_BYTES });
        }
        Ok(KeptWord { at, _keep: self.keep.clone() })
    }

    /// A window over the same bytes, which lasts when the heap is split off.
    ///
    /// # Safety
    /// No byte is accessed through it while a view of the heap covers the byte.
    pub unsafe fn beside(&self) -> Window<K> {
        Window { base: self.whole.base, len: self.whole.len, tail: Tail::NONE, keep: self.keep.clone() }
    }
}

impl<K> Heap<K> {
    /// Undoes [`DeviceWindow::split`]: the heap is consumed, so its views are gone.
    pub fn join(self) -> DeviceWindow<K> {
        DeviceWindow { whole: self.whole, keep: self.keep }
    }
}
