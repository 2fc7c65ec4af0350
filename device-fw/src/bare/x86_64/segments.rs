//! Segments, which long mode reduces to two descriptors, and the stacks that traps switch to (Intel
//! SDM volume 3, chapters 3 and 8).

#![expect(unsafe_code)]
// UNSAFETY: the task register has no intrinsic, and a stack's end is a linker symbol.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Selectors.
pub(super) const CODE: u16 = 8;
pub(super) const DATA: u16 = 16;
const TASK: u16 = 24;

/// Entries of the interrupt stack table: for exceptions; for the timer's interrupt.
pub(super) const TRAP_STACK: u64 = 1;
pub(super) const TIMER_STACK: u64 = 2;

/// What [`GDT`] takes.
pub(super) const GDT_BYTES: usize = size_of::<[AtomicU64; 5]>();

/// Null, code, data, and the task state in two entries. Atomics, because the processor writes into
/// it too: it marks the task state busy. "Accessed" is set already in the others.
pub(super) static GDT: [AtomicU64; 5] = [
    AtomicU64::new(0),
    AtomicU64::new(0x00AF_9B00_0000_FFFF),
    AtomicU64::new(0x00CF_9300_0000_FFFF),
    AtomicU64::new(0),
    AtomicU64::new(0),
];

/// The 64-bit task state segment, in words: of its fields only the interrupt stack table is used.
static TASK_STATE: [AtomicU32; 26] = [const { AtomicU32::new(0) }; 26];
const TASK_STATE_BYTES: u64 = 104;
const _: () = assert!(size_of_val(&TASK_STATE) as u64 == TASK_STATE_BYTES);
/// Word of the interrupt stack table's entry 1, and the one whose upper half is the offset of the
/// I/O map.
const FIRST_STACK: usize = 9;
const IO_MAP: usize = 25;

/// What the timer's interrupt needs: all registers, a fault's text and trace, and what carries for a host whose memory the image drives.
#[repr(align(16))]
struct Stack(#[expect(dead_code, reason = "the processor's")] [AtomicU64; 2048]);
static TIMER: Stack = Stack([const { AtomicU64::new(0) }; 2048]);

unsafe extern "C" {
    static __hamr_trap_stack_top: [u8; 0];
}

/// Makes traps switch stacks.
pub(super) fn load() {
    set_stack(TRAP_STACK, (&raw const __hamr_trap_stack_top).addr());
    set_stack(TIMER_STACK, (&raw const TIMER).addr() + size_of::<Stack>());
    // Behind the segment's end: there is no map.
    set(&TASK_STATE, IO_MAP, (TASK_STATE_BYTES as u32) << 16);
    let base = (&raw const TASK_STATE).addr() as u64;
    // Present, available 64-bit task state.
    let low = (TASK_STATE_BYTES - 1) | (base & 0xFF_FFFF) << 16 | 0x89 << 40 | (base >> 24 & 0xFF) << 56;
    let [_, _, _, task_low, task_high] = &GDT;
    task_low.store(low, Ordering::Relaxed);
    task_high.store(base >> 32, Ordering::Relaxed);
    // SAFETY: the selector's descriptor was just made; without `nomem` the compiler has stored it
    // by now.
    unsafe { asm!("ltr {:x}", in(reg) TASK, options(nostack, preserves_flags)) };
}

/// Sets an entry of the interrupt stack table.
fn set_stack(entry: u64, top: usize) {
    let at = FIRST_STACK + 2 * (entry as usize - 1);
    set(&TASK_STATE, at, top as u32);
    set(&TASK_STATE, at + 1, (top as u64 >> 32) as u32);
}

fn set(words: &[AtomicU32], at: usize, value: u32) {
    if let Some(word) = words.get(at) {
        word.store(value, Ordering::Relaxed);
    }
}
