//! What the compiler calls by itself in a module for x86_64, whose target usually gets it from an
//! operating system. An image has its own (`device-fw/src/arch/x86_64/mem.rs`), so this is part of
//! `module!`, and of no library.

/// Assembly, because a compiler that sees a loop over bytes may make a call of it: to itself, here.
#[cfg(all(hamr_bare, target_arch = "x86_64"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __module_mem {
    () => {
        ::core::arch::global_asm!(
            r#"
    .section .text.hamr.module_mem, "ax"
    .globl memcpy, memmove, memset, memcmp, bcmp, strlen, rust_eh_personality

    # rdi: to, rsi: from, rdx: bytes. Returns rdi.
memcpy:
memmove:
    mov %rdi, %rax
    mov %rdx, %rcx
    mov %rdi, %r8
    sub %rsi, %r8
    cmp %rdx, %r8
    jb 1f
    rep movsb
    ret
    # Downwards: the destination begins inside of the source.
1:  lea -1(%rdi,%rdx), %rdi
    lea -1(%rsi,%rdx), %rsi
    std
    rep movsb
    cld
    ret

    # rdi: to, esi: the byte, rdx: bytes. Returns rdi.
memset:
    mov %rdi, %r8
    mov %esi, %eax
    mov %rdx, %rcx
    rep stosb
    mov %r8, %rax
    ret

    # rdi and rsi: bytes, rdx: their number. Returns the difference of the first that differ.
memcmp:
bcmp:
    xor %eax, %eax
2:  test %rdx, %rdx
    jz 3f
    movzbl (%rdi), %eax
    movzbl (%rsi), %ecx
    inc %rdi
    inc %rsi
    dec %rdx
    sub %ecx, %eax
    jz 2b
3:  ret

    # rdi: bytes that end in zero. Returns the number before that.
strlen:
    mov %rdi, %rax
4:  cmpb $0, (%rax)
    je 5f
    inc %rax
    jmp 4b
5:  sub %rdi, %rax
    ret

    # Named by the tables of the prebuilt `core`; nothing unwinds here.
rust_eh_personality:
    ret
    .text
"#,
            options(att_syntax)
        );
    };
}

/// Other targets have it.
#[cfg(not(all(hamr_bare, target_arch = "x86_64")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __module_mem {
    () => {};
}
