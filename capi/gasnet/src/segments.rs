//! Where segments are: the table that the header's puts and gets use.

#![expect(unsafe_code)]
// UNSAFETY: an exported name.

use crate::die::die;
use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Where a rank's segment is, as `struct hamr_gex_mapped` of the header: a line.
#[repr(C, align(64))]
pub(crate) struct Mapped {
    owner: AtomicUsize,
    /// Offsets at which [`SHORT`] bytes may begin.
    words: AtomicUsize,
    local: AtomicPtr<u8>,
    size: AtomicUsize,
    off: AtomicU64,
}

/// The header finds by one comparison whether so many bytes are inside.
const SHORT: usize = 16;

impl Mapped {
    /// Its address at its owner.
    pub(crate) fn owner(&self) -> usize {
        self.owner.load(Relaxed)
    }
    /// Its address here.
    pub(crate) fn local(&self) -> *mut u8 {
        self.local.load(Relaxed)
    }
    /// Where it is in its rank's segment of the world.
    pub(crate) fn off(&self) -> u64 {
        self.off.load(Relaxed)
    }
    /// Its bytes; 0: there is none.
    pub(crate) fn size(&self) -> usize {
        self.size.load(Relaxed)
    }
    /// Sets all.
    pub(crate) fn set(&self, owner: usize, local: *mut u8, off: u64, size: usize) {
        self.owner.store(owner, Relaxed);
        self.off.store(off, Relaxed);
        self.local.store(local, Relaxed);
        self.size.store(size, Relaxed);
        self.words.store(size.saturating_sub(SHORT - 1), Relaxed);
    }
    /// The offset of bytes, by their address at the owner.
    pub(crate) fn offset(&self, address: usize, bytes: usize) -> Option<u64> {
        let off = address.wrapping_sub(self.owner());
        let fits = off <= self.size() && bytes <= self.size() - off;
        fits.then_some(off as u64)
    }
}

impl Mapped {
    const fn none() -> Self {
        Self {
            owner: AtomicUsize::new(0),
            words: AtomicUsize::new(0),
            local: AtomicPtr::new(null_mut()),
            size: AtomicUsize::new(0),
            off: AtomicU64::new(0),
        }
    }
}

/// `GASNET_MAXNODES`.
pub(crate) const MAX_RANKS: usize = 64;

#[unsafe(export_name = "hamr_gex_mapped")]
static MAPPED: [Mapped; MAX_RANKS] = [const { Mapped::none() }; MAX_RANKS];
/// That of no rank.
pub(crate) static NO_SEGMENT: Mapped = Mapped::none();
// The header's structures, as `tests/names.c` asserts them there.
const _: () = {
    assert!(size_of::<Mapped>() == 64);
    assert!(offset_of!(Mapped, owner) == 0 && offset_of!(Mapped, words) == 8);
    assert!(offset_of!(Mapped, local) == 16 && offset_of!(Mapped, size) == 24);
};

/// The segment of a rank of the job.
pub(crate) fn mapped(rank: u32) -> &'static Mapped {
    MAPPED.get(rank as usize).unwrap_or_else(|| die(&format!("there is no rank {rank}")))
}

/// The segment of the endpoint, or NULL.
static BOUND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

pub(crate) fn bound() -> *mut c_void {
    BOUND.load(Relaxed)
}

/// False: there is one, which stays.
pub(crate) fn set_bound(segment: *mut c_void) -> bool {
    BOUND.compare_exchange(null_mut(), segment, Relaxed, Relaxed).is_ok()
}

/// Where the boards begin in all segments.
static BOARDS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn set_boards(off: u64) {
    BOARDS.store(off, Relaxed);
}

/// What a program has set as the longest segment, when it began.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

pub(crate) fn set_limit(bytes: u64) {
    LIMIT.store(bytes, Relaxed);
}

/// The longest segment that a program can have.
pub(crate) fn longest() -> u64 {
    BOARDS.load(Relaxed).min(LIMIT.load(Relaxed))
}

/// The longest long message, to any rank: what a segment can have.
pub(crate) fn max_long() -> usize {
    BOARDS.load(Relaxed).min(i32::MAX as u64) as usize
}
