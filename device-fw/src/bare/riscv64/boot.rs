//! From reset to Rust: hart 0 alone, floating point on, `.bss` zero, traps caught.

#![expect(unsafe_code)]
// UNSAFETY: before there is a stack there is only assembly.

use core::arch::global_asm;

/// A naturally aligned 4 KiB in pmpaddr: its address in words, and below it ones, as many as the
/// size has.
const PAGE: u32 = 4096 / 8;
/// pmpcfg: locked, and neither read nor written nor run. Of a naturally aligned power of two; from
/// the address of the entry before to its own.
const NO_PAGE: u64 = 1 << 7 | 3 << 3;
const NO_RANGE: u64 = 1 << 7 | 1 << 3;
/// The same that may be read and run; read. Entries 1 and 3 are such addresses, and off.
const CODE: u64 = NO_RANGE | 1 << 2 | 1;
const CONSTANTS: u64 = NO_RANGE | 1;

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
    .if {modules}
    # mseccfg.RLB: locked entries can be changed, for another image in the place of this one (`next_image`). A hart
    # without the register goes on at 6.
    la t0, 6f
    csrw mtvec, t0
    csrsi 0x747, 4
    .balign 4
6:
    .endif
    # Locked entries of physical memory protection, which bind machine mode too: no access to page 0
    # or to the guard below the serve stack. A hart without such entries goes on at 4. Entries from 6
    # on are for the guards of tasks (`guards`).
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
    # No code writes code or constants, or runs constants.
    la t0, __hamr_image_start
    srli t0, t0, 2
    csrw pmpaddr3, t0
    la t0, __hamr_code_end
    srli t0, t0, 2
    csrw pmpaddr4, t0
    la t0, __hamr_data_start
    srli t0, t0, 2
    csrw pmpaddr5, t0
    li t0, {protected}
    csrw pmpcfg0, t0
    .balign 4
4:  la t0, {trap}
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
    modules = const cfg!(feature = "modules") as u32,
    protected = const NO_PAGE | NO_RANGE << 16 | CODE << 32 | CONSTANTS << 40,
    trap = sym super::traps::entry,
    main = sym crate::bare::entry,
);
