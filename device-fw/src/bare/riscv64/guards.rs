//! Guards below the stacks of tasks: one entry of physical memory protection each, a naturally
//! aligned power of two. The compiler does not touch each page of a frame, so a guard is as wide as
//! its stack, as below the serve stack (`linker/scripts/riscv64.x`).

#![expect(unsafe_code)]
// UNSAFETY: control registers have no intrinsics.

use crate::arch::{MACHINE, SERVE_MODE};
use crate::bare::stacks::Stacks;
use core::arch::asm;
use core::sync::atomic::Ordering;

/// Those of a hart's 16 entries that `boot` does not take: behind its first, before its last.
const FIRST: usize = 5;
const ENTRIES: usize = 10;
/// pmpcfg: neither read nor written nor run; of a naturally aligned power of two.
const NOTHING: u128 = 3 << 3;
/// Binds machine mode too.
const LOCKED: u128 = 1 << 7;

/// Bytes of the guard below a stack of `stack` bytes.
pub(in crate::bare) const fn bytes(stack: usize) -> usize {
    stack
}

/// Ends the build when there are too few entries, or one cannot describe a guard.
pub(in crate::bare) const fn check(count: usize, stack: usize) {
    assert!(count <= ENTRIES, "hamr: riscv64 guards at most 10 task stacks: lower `tasks`");
    assert!(stack.is_power_of_two(), "hamr: on riscv64 `task_stack` is a power of two");
}

/// Sets the guards. Returns how many of the first ones there are: a hart may have fewer entries, or
/// none.
pub(in crate::bare) fn set(stacks: &Stacks) -> usize {
    let &Stacks { first, count, guard, stride } = stacks;
    // An address is in units of 4 bytes; ones below it, up to a zero, give the size.
    let address = first >> 2 | ((guard >> 3) - 1);
    let nothing = NOTHING | if SERVE_MODE.load(Ordering::Relaxed) == MACHINE { LOCKED } else { 0 };
    let wanted = (0..count).fold(0, |all, task| all | nothing << (8 * (FIRST + task)));
    let (mut low, mut high) = (wanted as u64, (wanted >> 64) as u64);
    let works: u64;
    // SAFETY: the entries bind no memory but the guards, which nothing uses: `count` of them are
    // turned on, and those of `boot` stay. On a hart without these registers the first access
    // traps, to the end of this code, and nothing was set. A hart without translation traps at the last, which it
    // does not need.
    unsafe {
        asm!(
            "csrr {vector}, mtvec",
            "lla {scratch}, 2f",
            "csrw mtvec, {scratch}",
            "li {scratch}, 0",
            ".set hamr_entry, 0x3B0 + {entry}",
            ".rept {entries}",
            "csrw hamr_entry, {address}",
            "add {address}, {address}, {step}",
            ".set hamr_entry, hamr_entry + 1",
            ".endr",
            "csrs pmpcfg0, {low}",
            "csrs pmpcfg2, {high}",
            "csrr {low}, pmpcfg0",
            "csrr {high}, pmpcfg2",
            "li {scratch}, 1",
            "sfence.vma",
            ".balign 4",
            "2:",
            "csrw mtvec, {vector}",
            vector = out(reg) _, scratch = out(reg) works, address = inout(reg) address => _, step = in(reg) stride.get() >> 2,
            low = inout(reg) low, high = inout(reg) high, entry = const FIRST, entries = const ENTRIES, options(nostack)
        );
    }
    let found = if works != 0 { u128::from(low) | u128::from(high) << 64 } else { 0 };
    (0..count).take_while(|task| found >> (8 * (FIRST + task)) & 0xFF == nothing).count()
}
