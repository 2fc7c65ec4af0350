//! From a PVH loader to Rust: 32-bit code that makes page tables and enters long mode, then tables
//! that trap.

#![expect(unsafe_code)]
// UNSAFETY: before there is a stack there is only assembly.

use super::pages::{DIRECTORIES, ROOT};
use super::segments::{CODE, DATA, GDT, GDT_BYTES};
use super::{pages, segments, traps};
use core::arch::global_asm;

// The loader's state (Xen, "x86/HVM direct boot ABI"): 32-bit, flat segments, no paging, interrupts
// off, no stack. The image lies below 4 GiB, so 32-bit addresses reach all of it. Page tables are
// in `.bss`, hence zeroing comes first.
//
// A processor without pages of 1 GiB faults at the first instruction under paging and resets.
global_asm!(
    r#"
    .section .note.pvh, "a", @note
    .balign 4
    # XEN_ELFNOTE_PHYS32_ENTRY: a name of 4 bytes, a value of 4 bytes.
    .long 4, 4, 18
    .asciz "Xen"
    .long _start

    .section .rodata.hamr.gdt, "a"
    .balign 8
1:  .word {gdt_bytes} - 1
    .long {gdt}

    .section .text.hamr.entry, "ax"
    .code32
    .globl _start
_start:
    cli
    cld
    mov $__hamr_bss_start, %edi
    mov $__hamr_bss_end, %ecx
    sub %edi, %ecx
    shr $2, %ecx
    xor %eax, %eax
    rep stosl

    # 512 pages of 1 GiB: present, writable, large.
    mov ${directories}, %edi
    mov $0x83, %eax
    xor %edx, %edx
    mov $512, %ecx
2:  mov %eax, (%edi)
    mov %edx, 4(%edi)
    add $8, %edi
    add $0x40000000, %eax
    adc $0, %edx
    dec %ecx
    jnz 2b
    mov ${directories} + 3, %eax
    mov %eax, {root}
    mov ${root}, %eax
    mov %eax, %cr3

    # CR4: PAE, OSFXSR, OSXMMEXCPT.
    mov $0x620, %eax
    mov %eax, %cr4
    # EFER: long mode, no-execute pages.
    mov $0xC0000080, %ecx
    rdmsr
    or $0x900, %eax
    wrmsr
    # CR0: protection, MP, ET, NE, WP, paging. EM, TS and the cache's off switches stay clear.
    mov $0x80010033, %eax
    mov %eax, %cr0
    lgdt 1b
    ljmp ${code}, $3f

    .code64
3:  mov ${data}, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    xor %eax, %eax
    mov %eax, %fs
    mov %eax, %gs
    fninit
    lea __hamr_boot_stack_top(%rip), %rsp
    # Ends chains of frames.
    xor %ebp, %ebp
    push $0
    jmp {start}
"#,
    gdt = sym GDT,
    gdt_bytes = const GDT_BYTES,
    code = const CODE,
    data = const DATA,
    root = sym ROOT,
    directories = sym DIRECTORIES,
    start = sym start,
    options(att_syntax)
);

extern "C" fn start() -> ! {
    // Traps first: a mistake in the page tables is then reported.
    segments::load();
    traps::load();
    pages::protect();
    crate::bare::entry()
}
