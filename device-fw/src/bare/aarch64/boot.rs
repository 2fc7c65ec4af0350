//! From reset to Rust: exception level 1, floating point and translation on, `.bss` zero, traps
//! caught.

#![expect(unsafe_code)]
// UNSAFETY: before there is a stack there is only assembly.

use core::arch::global_asm;

/// SCTLR_EL1 with all that can be off off: only the bits that read as one in ARMv8.0.
const SCTLR_RESET: u64 = 0x30D0_0800;
/// The same with translation (M), data and instruction caches (C, I) and the check of the stack
/// pointer's alignment (SA).
const SCTLR_RUN: u64 = SCTLR_RESET | 1 << 0 | 1 << 2 | 1 << 3 | 1 << 12;
/// MAIR_EL1: attribute 0 is device memory (nGnRE), attribute 1 normal write-back memory.
const MAIR: u64 = 0x04 | 0xFF << 8;
/// TCR_EL1: 4 KiB pages; 40 bits of virtual (T0SZ) and of physical (IPS) addresses; tables are read
/// through the caches, inner shareable; nothing in the upper half of the address space (EPD1).
const TCR: u64 = 24 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 | 2 << 32;
/// HCR_EL2: exception level 1 is 64-bit (RW), and nothing of it is trapped.
const HCR: u64 = 1 << 31;
/// CPTR_EL2 whose only set bits are those that read as one: floating point is not trapped.
const CPTR: u64 = 0x33FF;
/// SPSR_EL2: to exception level 1 with its own stack pointer, everything masked.
const SPSR: u64 = 0x3C5;

// Other processors are off until PSCI starts them, so this one is alone. The loader has left
// nothing of the image's RAM in caches (Linux demands the same of its loaders), else lines from
// before would appear when they are turned on.
//
// Code runs with SP_EL0, and exceptions switch to SP_EL1 by themselves: a stack that overflowed can
// still be reported.
//
// Before translation is on, memory counts as device memory: no atomics, and nothing unaligned,
// which the target rules out (strict-align). `tables::make` is written to that.
global_asm!(
    r#"
    .section .text.hamr.entry, "ax"
    .globl _start
_start:
    msr daifset, #15
    ldr x0, ={sctlr_reset}
    msr sctlr_el1, x0
    mrs x0, CurrentEL
    cmp x0, #(2 << 2)
    b.ne 1f
    ldr x0, ={hcr}
    msr hcr_el2, x0
    ldr x0, ={cptr}
    msr cptr_el2, x0
    // Counters and timers are exception level 1's, without an offset.
    mov x0, #3
    msr cnthctl_el2, x0
    msr cntvoff_el2, xzr
    ldr x0, ={spsr}
    msr spsr_el2, x0
    adr x0, 1f
    msr elr_el2, x0
    eret
1:  isb
    // CPACR_EL1.FPEN: floating point is not trapped.
    mov x0, #(3 << 20)
    msr cpacr_el1, x0
    isb
    msr fpcr, xzr
    adrp x0, __hamr_bss_start
    add x0, x0, :lo12:__hamr_bss_start
    adrp x1, __hamr_bss_end
    add x1, x1, :lo12:__hamr_bss_end
2:  cmp x0, x1
    b.hs 3f
    str xzr, [x0], #8
    b 2b
3:  adrp x0, __hamr_vectors
    add x0, x0, :lo12:__hamr_vectors
    msr vbar_el1, x0
    msr spsel, #0
    adrp x0, __hamr_boot_stack_top
    add x0, x0, :lo12:__hamr_boot_stack_top
    mov sp, x0
    // Ends chains of frames.
    mov x29, xzr
    mov x30, xzr
    bl {tables}
    msr ttbr0_el1, x0
    ldr x0, ={mair}
    msr mair_el1, x0
    ldr x0, ={tcr}
    msr tcr_el1, x0
    dsb ish
    tlbi vmalle1
    ic iallu
    dsb ish
    isb
    ldr x0, ={sctlr_run}
    msr sctlr_el1, x0
    isb
    mov x30, xzr
    b {main}
    .ltorg
"#,
    sctlr_reset = const SCTLR_RESET,
    sctlr_run = const SCTLR_RUN,
    mair = const MAIR,
    tcr = const TCR,
    hcr = const HCR,
    cptr = const CPTR,
    spsr = const SPSR,
    tables = sym super::tables::make,
    main = sym crate::bare::entry,
);
