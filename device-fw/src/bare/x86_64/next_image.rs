//! Leaves long mode for the state that a PVH loader leaves (`boot`), moves the next image to its place and
//! enters it.

#![expect(unsafe_code)]
// UNSAFETY: behind this image's end there is only assembly.

use crate::bare::mover::{Code, NextImage};
use core::arch::global_asm;

unsafe extern "C" {
    // Where they are is used; no code calls them.
    safe fn __hamr_mover();
    safe fn __hamr_mover_end();
    fn __hamr_leave(to: usize, from: usize, double_words: usize, entry: usize, mover: usize) -> !;
}

/// Runs in 32-bit code without paging.
pub(in crate::bare) const MOVER: Code = Code::between(__hamr_mover, __hamr_mover_end);

/// Can this image be left?
pub(in crate::bare) fn can_leave() -> bool {
    true
}

/// Ends this image.
///
/// # Safety
/// No code of this image runs behind it, interrupts are masked, the bytes and the mover are where `next`
/// says, below 4 GiB and outside of both images.
pub(in crate::bare) unsafe fn leave(next: &NextImage) -> ! {
    let &NextImage { from, ref to, bytes, entry, mover } = next;
    // SAFETY: the contract. The linker script has all RAM below 4 GiB.
    unsafe { __hamr_leave(to.start, from, bytes / 4, entry, mover) }
}

// Translation is turned off in this image, whose addresses are physical, because only its code may be run.
// The mover then is in memory without rights.
global_asm!(
    r#"
    .section .rodata.hamr.leave, "a"
    .balign 8
1:  .quad 0, 0x00CF9B000000FFFF, 0x00CF93000000FFFF
2:  .word 23
    .quad 1b

    .section .text.hamr.leave, "ax"
    .globl __hamr_leave, __hamr_mover, __hamr_mover_end
    .code64
__hamr_leave:
    cli
    mov %ecx, %ebp
    mov %r8d, %ebx
    lgdt 2b
    push $8
    lea 3f(%rip), %rax
    push %rax
    lretq
    .code32
3:  mov $16, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    mov %eax, %fs
    mov %eax, %gs
    # No stack any more.
    mov %edx, %esp
    mov %cr0, %eax
    and $0x7FFFFFFF, %eax
    mov %eax, %cr0
    # EFER: no long mode.
    mov $0xC0000080, %ecx
    xor %eax, %eax
    xor %edx, %edx
    wrmsr
    mov %eax, %cr4
    mov %esp, %ecx
    jmp *%ebx
__hamr_mover:
    mov (%esi), %eax
    mov %eax, (%edi)
    add $4, %esi
    add $4, %edi
    dec %ecx
    jnz __hamr_mover
    jmp *%ebp
__hamr_mover_end:
    .code64
"#,
    options(att_syntax)
);
