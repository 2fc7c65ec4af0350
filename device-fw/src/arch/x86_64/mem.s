# Moving and comparing bytes, in AT&T syntax (arguments: rdi, rsi, rdx; result: rax). What mem.rs gives C's names.
#
# Loads and stores of 8 bytes, since an emulator runs string instructions byte by byte and moves vectors through memory of its own.
# Every length is covered by blocks that may overlap: the last (or first) bytes are loaded before anything is stored, and stored
# at the end.

    .section .text.hamr.mem, "ax"

# memcpy and memmove: copies rdx bytes from rsi to rdi, which may overlap. Returns rdi.
    .balign 16
    .globl __hamr_move
__hamr_move:
    mov %rdi, %rax
    cmp $16, %rdx
    jb 4f
    mov %rdi, %rcx
    sub %rsi, %rcx
    cmp %rdx, %rcx
    jb 2f
    # Upwards: the destination does not begin inside the source.
    mov -16(%rsi,%rdx), %r8
    mov -8(%rsi,%rdx), %r9
    lea -16(%rdi,%rdx), %rdx
1:  mov (%rsi), %r10
    mov 8(%rsi), %r11
    mov %r10, (%rdi)
    mov %r11, 8(%rdi)
    add $16, %rsi
    add $16, %rdi
    cmp %rdx, %rdi
    jb 1b
    mov %r8, (%rdx)
    mov %r9, 8(%rdx)
    ret
    # Downwards.
2:  mov (%rsi), %r8
    mov 8(%rsi), %r9
3:  mov -16(%rsi,%rdx), %r10
    mov -8(%rsi,%rdx), %r11
    mov %r10, -16(%rdi,%rdx)
    mov %r11, -8(%rdi,%rdx)
    sub $16, %rdx
    cmp $16, %rdx
    ja 3b
    mov %r8, (%rdi)
    mov %r9, 8(%rdi)
    ret
    # Below 16 bytes: two loads, then two stores.
4:  cmp $8, %edx
    jb 5f
    mov (%rsi), %rcx
    mov -8(%rsi,%rdx), %r8
    mov %rcx, (%rdi)
    mov %r8, -8(%rdi,%rdx)
    ret
5:  cmp $4, %edx
    jb 6f
    mov (%rsi), %ecx
    mov -4(%rsi,%rdx), %r8d
    mov %ecx, (%rdi)
    mov %r8d, -4(%rdi,%rdx)
    ret
6:  cmp $2, %edx
    jb 7f
    movzwl (%rsi), %ecx
    movzwl -2(%rsi,%rdx), %r8d
    mov %cx, (%rdi)
    mov %r8w, -2(%rdi,%rdx)
    ret
7:  test %edx, %edx
    jz 8f
    movzbl (%rsi), %ecx
    mov %cl, (%rdi)
8:  ret

# memset: sets rdx bytes at rdi to the low byte of esi. Returns rdi.
    .balign 16
    .globl __hamr_set
__hamr_set:
    mov %rdi, %rax
    movzbl %sil, %esi
    movabs $0x0101010101010101, %rcx
    imul %rsi, %rcx
    cmp $16, %rdx
    jb 2f
    lea -16(%rdi,%rdx), %rdx
1:  mov %rcx, (%rdi)
    mov %rcx, 8(%rdi)
    add $16, %rdi
    cmp %rdx, %rdi
    jb 1b
    mov %rcx, (%rdx)
    mov %rcx, 8(%rdx)
    ret
2:  cmp $8, %edx
    jb 3f
    mov %rcx, (%rdi)
    mov %rcx, -8(%rdi,%rdx)
    ret
3:  test %edx, %edx
    jz 5f
4:  mov %cl, -1(%rdi,%rdx)
    dec %edx
    jnz 4b
5:  ret

# memcmp and bcmp: compares rdx bytes. Returns less than, equal to or greater than zero.
    .balign 16
    .globl __hamr_compare
__hamr_compare:
    cmp $8, %rdx
    jb 3f
    # Where the last 8 bytes begin.
    lea -8(%rdx), %r8
    xor %r9d, %r9d
1:  mov (%rdi,%r9), %rax
    mov (%rsi,%r9), %rcx
    cmp %rcx, %rax
    jne 2f
    cmp %r8, %r9
    je 4f
    add $8, %r9
    cmp %r8, %r9
    cmova %r8, %r9
    jmp 1b
    # The first byte that differs decides: make it the highest.
2:  bswap %rax
    bswap %rcx
    cmp %rcx, %rax
    sbb %eax, %eax
    or $1, %eax
    ret
3:  xor %r9d, %r9d
5:  cmp %rdx, %r9
    je 4f
    movzbl (%rdi,%r9), %eax
    movzbl (%rsi,%r9), %ecx
    inc %r9
    sub %ecx, %eax
    jz 5b
    ret
4:  xor %eax, %eax
    ret

# strlen: bytes before the first zero at rdi.
    .balign 16
    .globl __hamr_length
__hamr_length:
    xor %eax, %eax
    jmp 2f
1:  inc %rax
2:  cmpb $0, (%rdi,%rax)
    jne 1b
    ret
