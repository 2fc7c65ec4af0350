//! From reset to Rust: hart 0 alone, floating point on, `.bss` zero, traps caught.
//!
//! Entries of physical memory protection, the first that fits an access counts:
//!
//! ```text
//!  0      page 0                       nothing
//!  1, 2   the guard of the serve stack nothing
//!  3, 4   code and constants           read, run
//!  5–14   guards of tasks (`guards`)   nothing
//!  15     all                          read, write; run, where there are modules
//! ```

#![expect(unsafe_code)]
// UNSAFETY: before there is a stack there is only assembly.

use crate::arch::{MACHINE, SERVE_MODE, SUPERVISOR};
use core::arch::global_asm;

/// A naturally aligned 4 KiB in pmpaddr: its address in words, and below it ones, as many as the
/// size has.
const PAGE: u32 = 4096 / 8;
/// pmpcfg: neither read nor written nor run. Of a naturally aligned power of two; from the address of the
/// entry before to its own.
const NO_PAGE: u64 = 3 << 3;
const NO_RANGE: u64 = 1 << 3;
/// The same that may be read and run. Entries 1 and 3 are the first addresses, and off.
const CODE: u64 = NO_RANGE | 1 << 2 | 1;
/// Read and written; as modules are in memory of the image, also run.
const ALL: u64 = NO_PAGE | if cfg!(feature = "modules") { 7 } else { 3 };
/// Binds machine mode too, until a reset.
const LOCKED: u64 = 1 << 7;

// Zeroing starts before the trap vector is set: a fault this early could be reported nowhere.
global_asm!(
    r#"
    .section .text.hamr.entry, "ax"
    .globl _start
_start:
    csrw mie, zero
    csrr t0, mhartid
    beqz t0, 5f
    # The other harts have nothing to do. Here, in the first bytes of every image, another image in the place
    # of this one does not change what they run.
3:  wfi
    j 3b
5:  .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    # mstatus.FS = dirty: floating point on, its state never saved lazily.
    li t0, 3 << 13
    csrs mstatus, t0
    csrw fcsr, zero
    la t0, __hamr_bss_start
    la t1, __hamr_bss_end
1:  bgeu t0, t1, 2f
    sd zero, 0(t0)
    addi t0, t0, 8
    j 1b
2:
    # A hart without entries goes on at 4.
    li s1, {machine}
    la t0, 4f
    csrw mtvec, t0
    li t0, {page} - 1
    csrw pmpaddr0, t0
    la t0, __hamr_serve_guard
    srli t0, t0, 2
    csrw pmpaddr1, t0
    la t0, __hamr_serve_stack
    srli t0, t0, 2
    csrw pmpaddr2, t0
    la t0, __hamr_image_start
    srli t0, t0, 2
    csrw pmpaddr3, t0
    la t0, __hamr_data_start
    srli t0, t0, 2
    csrw pmpaddr4, t0
    li t0, -1
    csrw pmpaddr15, t0
    li t1, {protected}
    # misa.S, and the last entry, without which supervisor mode reaches nothing. Else machine mode serves.
    csrr t0, misa
    slli t0, t0, 63 - 18
    bgez t0, 6f
    li t0, {all}
    csrw pmpcfg2, t0
    csrr t2, pmpcfg2
    bne t0, t2, 6f
    # Supervisor mode has no translation and no traps of its own, and reads the clock.
    csrw satp, zero
    csrw medeleg, zero
    csrw mideleg, zero
    csrwi mcounteren, 7
    csrw pmpcfg0, t1
    sfence.vma
    li s1, {supervisor}
    j 4f
6:  li t0, {locked}
    or t1, t1, t0
    csrw pmpcfg0, t1
    .balign 4
4:  la t0, {mode}
    sd s1, 0(t0)
    la t0, {trap}
    csrw mtvec, t0
    la t0, __hamr_trap_stack_top
    csrw mscratch, t0
    la sp, __hamr_boot_stack_top
    # Ends chains of frames.
    li s0, 0
    li ra, 0
    tail {main}
"#,
    page = const PAGE,
    machine = const MACHINE,
    supervisor = const SUPERVISOR,
    mode = sym SERVE_MODE,
    protected = const NO_PAGE | NO_RANGE << 16 | CODE << 32,
    all = const ALL << 56,
    locked = const LOCKED | LOCKED << 16 | LOCKED << 32,
    trap = sym super::traps::entry,
    main = sym crate::bare::entry,
);
