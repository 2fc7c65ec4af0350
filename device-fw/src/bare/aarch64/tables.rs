//! Translation tables: every address is mapped to itself. What they add is memory types, since
//! atomics need normal memory, and holes: page zero, and the pages below the serve stack and below
//! those of tasks. A table of the last level with guards of tasks is in the first of them.
//!
//! Made once, before translation is on: see `boot` for what this code may not do.

#![expect(unsafe_code)]
// UNSAFETY: the processor reads the tables, and the linker fills in the list of regions.

use crate::bare::{guard_pages, module_memory};
#[cfg(feature = "modules")]
use core::arch::asm;
use core::arch::global_asm;
use core::cell::UnsafeCell;
#[cfg(feature = "modules")]
use core::ptr::with_exposed_provenance_mut;

/// Bits of an address.
const ADDRESS_BITS: u32 = 40;
/// Tables of the last level contain pages, and have no tables below them.
const LAST_LEVEL: u32 = 3;
/// One of level 0 and two of level 1 cover everything. Below, a table is needed where a region
/// begins or ends inside of an entry: at most four on level 2 (zero and RAM) and six on level 3
/// (RAM, text, read-only data and the guard), with room for a board whose cached memory begins or
/// ends inside of one. Modules have pages in at most two more of level 3.
const TABLES: usize = if cfg!(feature = "modules") { 18 } else { 16 };

/// Bits of an entry.
const VALID: u64 = 1 << 0;
/// A table, or on the last level a page.
const TABLE_OR_PAGE: u64 = 1 << 1;
/// MAIR_EL1's attribute 1.
const NORMAL: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 7;
const INNER_SHAREABLE: u64 = 3 << 8;
/// Without it the first access traps.
const ACCESSED: u64 = 1 << 10;
const NEVER_EXECUTE: u64 = 3 << 53;
/// The address in an entry that refers to a table.
#[cfg(feature = "modules")]
const TABLE_ADDRESS: u64 = ((1 << ADDRESS_BITS) - 1) & !0xFFF;

/// What regions are.
const NOTHING: u64 = 0;
const DEVICE: u64 = VALID | ACCESSED | NEVER_EXECUTE;
pub(super) const CODE: u64 = VALID | ACCESSED | NORMAL | INNER_SHAREABLE | READ_ONLY;
pub(super) const DATA: u64 = VALID | ACCESSED | NORMAL | INNER_SHAREABLE | NEVER_EXECUTE;
const CONSTANTS: u64 = DATA | READ_ONLY;

/// Addresses that are the same.
#[repr(C)]
struct Region {
    start: u64,
    end: u64,
    is: u64,
}
const _: () = assert!(size_of::<Region>() == 24);

// In assembly, because the linker knows most of the numbers, and some are farther away than code
// can reach: the compiler would have to be kept from computing them itself.
global_asm!(
    r#"
    .section .rodata.__hamr_regions, "a"
    .balign 8
    .globl __hamr_regions
__hamr_regions:
    // Every address without a later entry: peripherals may be anywhere, and only the board knows
    // where.
    .quad 0, 1 << {bits}, {device}
    // More than a page, so that fields of what a null pointer points to trap too.
    .quad 0, 0x200000, {nothing}
    .quad __hamr_ram_start, __hamr_ram_end, {data}
    .quad __hamr_cached_start, __hamr_cached_end, {data}
    .quad __hamr_image_start, __hamr_text_end, {code}
    .quad __hamr_text_end, __hamr_data_start, {constants}
    .quad __hamr_serve_guard, __hamr_serve_stack, {nothing}
"#,
    bits = const ADDRESS_BITS,
    nothing = const NOTHING,
    device = const DEVICE,
    data = const DATA,
    code = const CODE,
    constants = const CONSTANTS,
);

unsafe extern "C" {
    /// The array above. A later region takes precedence.
    #[link_name = "__hamr_regions"]
    safe static REGIONS: [Region; 7];
}

/// One table, of any level.
#[repr(C, align(4096))]
struct Table([u64; 512]);

struct Pool(UnsafeCell<[Table; TABLES]>);

// SAFETY: only `make` takes a reference, and runs once.
unsafe impl Sync for Pool {}

static POOL: Pool = Pool(UnsafeCell::new([const { Table([0; 512]) }; TABLES]));

/// Makes the tables; the address of the first. Called by `boot`, once.
pub(super) extern "C" fn make() -> u64 {
    // SAFETY: called once, and nothing else refers to the pool; the processor does not read it
    // before this returned.
    let pool = unsafe { &mut *POOL.0.get() };
    table(&mut pool.iter_mut(), 0, 0)
}

/// Gives whole pages, which tables of the last level map, other rights.
///
/// # Safety
/// They are memory of modules, and nothing relies on the rights that they had.
#[cfg(feature = "modules")]
pub(super) unsafe fn set(first: usize, bytes: usize, is: u64) {
    let root: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, ttbr0_el1", out(reg) root, options(nomem, nostack, preserves_flags)) };
    for page in (first..first + bytes).step_by(size_of::<Table>()) {
        let entry = |table: u64, level: u32| {
            let index = page >> (12 + 9 * (LAST_LEVEL - level)) & 511;
            with_exposed_provenance_mut::<u64>((table & TABLE_ADDRESS) as usize + index * size_of::<u64>())
        };
        let mut table = root;
        for level in 0..LAST_LEVEL {
            // SAFETY: an entry of a table that `make` has made: `same` has no answer for memory of modules
            // above the last level, so there is a table below. No reference to a table is left.
            table = unsafe { entry(table, level).read_volatile() };
        }
        // SAFETY: as above.
        unsafe { entry(table, LAST_LEVEL).write_volatile(page as u64 | is | TABLE_OR_PAGE) };
    }
    // SAFETY: completes the stores, forgets the old rights and what was fetched ahead.
    unsafe { asm!("dsb ish", "tlbi vmalle1", "ic iallu", "dsb ish", "isb", options(nostack, preserves_flags)) };
}

/// Makes a table of `level` for the addresses from `base` on; its address, or 0, an entry that maps
/// nothing, when none is left.
fn table(pool: &mut core::slice::IterMut<'static, Table>, level: u32, base: u64) -> u64 {
    let covers = size_of::<Table>() << 9;
    let table = match guard_pages::guard_in(base as usize, covers) {
        Some(guard) if level == LAST_LEVEL && !module_memory::overlaps(base as usize, covers) => {
            // SAFETY: each table is made once, before translation is on.
            Some(unsafe { guard_pages::page(guard) })
        }
        _ => pool.next(),
    };
    let Some(Table(entries)) = table else { return 0 };
    let bytes = 1 << (12 + 9 * (LAST_LEVEL - level));
    let starts = (base..1 << ADDRESS_BITS).step_by(bytes as usize);
    for (entry, start) in entries.iter_mut().zip(starts) {
        *entry = match level {
            LAST_LEVEL => same(start, 1).filter(|is| *is != NOTHING).map_or(0, |is| start | is | TABLE_OR_PAGE),
            // Level 0 knows tables only.
            0 => below(pool, level, start),
            _ => match same(start, bytes) {
                Some(NOTHING) => 0,
                Some(is) => start | is,
                None => below(pool, level, start),
            },
        };
    }
    entries.as_ptr().addr() as u64
}

/// An entry that refers to a table.
fn below(pool: &mut core::slice::IterMut<'static, Table>, level: u32, base: u64) -> u64 {
    match table(pool, level + 1, base) {
        0 => 0,
        address => address | VALID | TABLE_OR_PAGE,
    }
}

/// What `bytes` addresses from `start` on are, when all are the same.
fn same(start: u64, bytes: u64) -> Option<u64> {
    let end = start + bytes;
    if guard_pages::guard_in(start as usize, bytes as usize).is_some() {
        return (bytes == 1).then_some(NOTHING);
    }
    if bytes > 1 && module_memory::overlaps(start as usize, bytes as usize) {
        // The rights of its pages change.
        return None;
    }
    let region = REGIONS.iter().rev().find(|region| region.start < end && start < region.end)?;
    (region.start <= start && end <= region.end).then_some(region.is)
}
