//! Page tables: the first 512 GiB at their own addresses, but for what must trap (Intel SDM volume
//! 3, chapter 4).
//!
//! Boot code maps everything in pages of 1 GiB, the highest base address register included.
//! [`protect`] then splits the first GiB, where the image is, as far as its parts differ: no page
//! 0, no guard page, code that cannot be written, data that cannot be run. The table of a large page
//! with guards of tasks is in the first of them. Caching follows the memory type range registers that
//! firmware has set.

#![expect(unsafe_code)]
// UNSAFETY: linker symbols, and CR3 has no intrinsic.

use crate::bare::{guard_pages, module_memory};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

unsafe extern "C" {
    static __hamr_image_start: [u8; 0];
    static __hamr_serve_guard: [u8; 0];
    // Of `linker/scripts/x86_64.x`.
    static __hamr_rodata_start: [u8; 0];
    static __hamr_data_start: [u8; 0];
}

const ENTRIES: usize = 512;
const PAGE: usize = 4096;
const LARGE: usize = PAGE * ENTRIES;

/// Flags of an entry.
const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const IS_LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;

/// Large pages that may have to be split: the one of page 0, and of each address where the image's
/// parts meet (code's start and end, data's start, the guard). Modules have pages in at most two more.
const SPLITS: usize = if cfg!(feature = "modules") { 7 } else { 5 };

/// One table. Atomics, because the processor writes its marks into entries.
#[repr(C, align(4096))]
pub(super) struct Table([AtomicU64; ENTRIES]);

impl Table {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; ENTRIES])
    }

    fn pointer(&'static self) -> u64 {
        (&raw const *self).addr() as u64 | PRESENT | WRITABLE
    }
}

/// The root, and what its first entry points to. Boot code fills both.
pub(super) static ROOT: Table = Table::new();
pub(super) static DIRECTORIES: Table = Table::new();
/// The first GiB.
static FIRST: Table = Table::new();
static SMALL: [Table; SPLITS] = [const { Table::new() }; SPLITS];

/// Where the image's parts are.
struct Parts {
    code: usize,
    rodata: usize,
    data: usize,
    guard: usize,
}

impl Parts {
    fn of_this_image() -> Self {
        Self {
            code: (&raw const __hamr_image_start).addr(),
            rodata: (&raw const __hamr_rodata_start).addr(),
            data: (&raw const __hamr_data_start).addr(),
            guard: (&raw const __hamr_serve_guard).addr(),
        }
    }

    /// What the small page at `at` allows: flags of its entry.
    fn flags(&self, at: usize) -> u64 {
        match at {
            0 => 0,
            at if at == self.guard || guard_pages::guard_in(at, PAGE).is_some() => 0,
            at if at < self.code => PRESENT | WRITABLE | NO_EXECUTE,
            at if at < self.rodata => PRESENT,
            at if at < self.data => PRESENT | NO_EXECUTE,
            _ => PRESENT | WRITABLE | NO_EXECUTE,
        }
    }

    /// Whether all of the large page at `at` allows the same.
    fn is_even(&self, at: usize) -> bool {
        let inside = |address: usize| at < address && address < at + LARGE;
        at != 0
            && ![self.code, self.rodata, self.data].into_iter().any(inside)
            && !(at..at + LARGE).contains(&self.guard)
            && guard_pages::guard_in(at, LARGE).is_none()
            && !module_memory::overlaps(at, LARGE)
    }
}

/// Removes the rights that no code needs.
pub(super) fn protect() {
    let parts = Parts::of_this_image();
    let mut small = SMALL.iter();
    for (number, entry) in FIRST.0.iter().enumerate() {
        let base = number * LARGE;
        let table = match guard_pages::guard_in(base, LARGE) {
            _ if parts.is_even(base) => None,
            Some(guard) if !module_memory::overlaps(base, LARGE) => {
                // SAFETY: each large page is looked at once, and the old tables map all of memory.
                Some(&*unsafe { guard_pages::page::<Table>(guard) })
            }
            _ => small.next(),
        };
        let value = match table {
            Some(table) => {
                for (page, entry) in table.0.iter().enumerate() {
                    let at = base + page * PAGE;
                    entry.store(at as u64 | parts.flags(at), Ordering::Relaxed);
                }
                table.pointer()
            }
            None => base as u64 | parts.flags(base) | IS_LARGE,
        };
        entry.store(value, Ordering::Relaxed);
    }
    let [first, rest @ ..] = &DIRECTORIES.0;
    first.store(FIRST.pointer(), Ordering::Relaxed);
    for entry in rest {
        entry.fetch_or(NO_EXECUTE, Ordering::Relaxed);
    }
    load();
}

/// Gives whole pages, which a table of small pages maps, other rights.
#[cfg(feature = "modules")]
pub(super) fn set(first: usize, bytes: usize, flags: u64) {
    for page in (first..first + bytes).step_by(PAGE) {
        // Memory of modules is in these tables, since its large pages are split.
        let entry = FIRST.0.get(page / LARGE).map(|entry| entry.load(Ordering::Relaxed) & !(PAGE as u64 - 1));
        let table = SMALL.iter().find(|table| Some((&raw const **table).addr() as u64) == entry);
        if let Some(entry) = table.and_then(|table| table.0.get(page % LARGE / PAGE)) {
            entry.store(page as u64 | flags, Ordering::Relaxed);
        }
    }
    load();
}

/// Flags of pages of modules: code and constants, which are not written; all else.
#[cfg(feature = "modules")]
pub(super) const CODE: u64 = PRESENT;
#[cfg(feature = "modules")]
pub(super) const DATA: u64 = PRESENT | WRITABLE | NO_EXECUTE;

/// Has the processor use the tables as they are.
fn load() {
    let root = (&raw const ROOT).addr();
    // SAFETY: the tables map all that Rust knows of at the address it had: code to be run,
    // constants to be read, the rest to be written. Without `nomem` they are in memory by now;
    // writing CR3 drops what the processor remembers of the old ones.
    unsafe { asm!("mov cr3, {}", in(reg) root, options(nostack, preserves_flags)) };
}
