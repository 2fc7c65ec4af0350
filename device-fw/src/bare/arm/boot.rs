//! From reset to Rust: floating point on, `.bss` zero, faults caught. Exceptions run on the main stack, everything else on the
//! process stack. Where the processor has a memory protection unit, region 0 is the guard of the serve stack, region 1 the first
//! 64 bytes of all addresses, where a processor finds vectors in any case, and those behind are the guards of tasks (`guards`).

#![expect(unsafe_code)]
// UNSAFETY: before there is a stack there is only assembly.

use core::arch::global_asm;

/// MPU_RASR of 64 bytes: the same.
const NULL: u32 = 1 << 28 | 5 << 1 | 1;
/// MPU_RASR of a guard of 4 KiB: no access, no execution.
pub(super) const GUARD: u32 = 1 << 28 | 11 << 1 | 1;

global_asm!(
    r#"
    .section .text.__hamr_vectors, "ax"
    .balign 128
    .globl __hamr_vectors
__hamr_vectors:
    .4byte __hamr_trap_stack_top
    .4byte _start
    @ NMI, and the faults.
    .rept 5
    .4byte {trap}
    .endr
    .4byte 0, 0, 0, 0
    @ SVCall, DebugMonitor.
    .4byte {trap}, {trap}, 0
    @ PendSV, SysTick.
    .4byte {trap}, {systick}

    .section .text.hamr.entry, "ax"
    .globl _start
    .type _start, %function
    .thumb_func
_start:
    cpsid i
    @ The System Control Space.
    movw r4, #0xE000
    movt r4, #0xE000
    @ VTOR.
    movw r0, :lower16:__hamr_vectors
    movt r0, :upper16:__hamr_vectors
    str.w r0, [r4, #0xD08]
    @ CPACR: floating point on.
    ldr.w r0, [r4, #0xD88]
    orr r0, r0, #0xF00000
    str.w r0, [r4, #0xD88]
    dsb
    isb
    @ FPCCR: its state is saved at each exception, and not later: an exception that is left for good would leave that undone.
    mov.w r0, #0x80000000
    str.w r0, [r4, #0xF34]
    @ SHCSR: memory management, bus and usage faults on. SHPR3: SysTick interrupts no fault.
    mov.w r0, #0x70000
    str.w r0, [r4, #0xD24]
    mov.w r0, #0xFF000000
    str.w r0, [r4, #0xD20]
    movw r0, :lower16:__hamr_bss_start
    movt r0, :upper16:__hamr_bss_start
    movw r1, :lower16:__hamr_bss_end
    movt r1, :upper16:__hamr_bss_end
    movs r2, #0
1:  cmp r0, r1
    bhs 2f
    str r2, [r0], #4
    b 1b
2:  @ MPU: RNR, RBAR, RASR, CTRL: the usual map behind the regions. Without one these have no effect.
    str.w r2, [r4, #0xD98]
    movw r0, :lower16:__hamr_serve_guard
    movt r0, :upper16:__hamr_serve_guard
    str.w r0, [r4, #0xD9C]
    movw r0, #{guard_low}
    movt r0, #{guard_high}
    str.w r0, [r4, #0xDA0]
    movs r0, #1
    str.w r0, [r4, #0xD98]
    str.w r2, [r4, #0xD9C]
    movw r0, #{null_low}
    movt r0, #{null_high}
    str.w r0, [r4, #0xDA0]
    movs r0, #5
    str.w r0, [r4, #0xD94]
    movw r0, :lower16:__hamr_trap_stack_top
    movt r0, :upper16:__hamr_trap_stack_top
    msr msp, r0
    movw r0, :lower16:__hamr_boot_stack_top
    movt r0, :upper16:__hamr_boot_stack_top
    msr psp, r0
    movs r0, #2
    msr control, r0
    dsb
    isb
    cpsie i
    @ Ends chains of frames.
    movs r7, #0
    mov lr, r7
    b {main}
"#,
    trap = sym super::traps::entry,
    systick = sym super::traps::systick,
    guard_low = const GUARD & 0xFFFF,
    null_low = const NULL & 0xFFFF,
    null_high = const NULL >> 16,
    guard_high = const GUARD >> 16,
    main = sym crate::bare::entry,
);
