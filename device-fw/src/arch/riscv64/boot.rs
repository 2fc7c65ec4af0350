//! From reset to Rust: hart 0 alone, floating point on, `.bss` zero, traps caught.

#![expect(unsafe_code)]
// UNSAFETY: before there is a stack there is only assembly.

use core::arch::global_asm;

// Zeroing starts before the trap vector is set: a fault this early could be reported nowhere.
global_asm!(
    r#"
    .section .text.hamr.entry, "ax"
    .globl _start
_start:
    csrw mie, zero
    csrr t0, mhartid
    bnez t0, 3f
    .option push
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
2:  la t0, {trap}
    csrw mtvec, t0
    la t0, __hamr_trap_stack_top
    csrw mscratch, t0
    la sp, __hamr_boot_stack_top
    # Ends chains of frames.
    li s0, 0
    li ra, 0
    tail {main}
    # The other harts have nothing to do.
3:  wfi
    j 3b
"#,
    trap = sym super::traps::entry,
    main = sym crate::bare::entry,
);
