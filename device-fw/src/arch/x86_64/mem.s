# Moving and comparing bytes, in AT&T syntax (arguments: rdi, rsi, rdx; result: rax). What mem.rs gives C's names.
#
# Loads and stores of 16 bytes, since an emulator runs string instructions byte by byte. Every length is covered by blocks that
# may overlap: the last (or first) 16 bytes are loaded before anything is stored, and stored at the end.

    .section .text.hamr.mem, "ax"

# memcpy and memmove: copies rdx bytes from rsi to rdi, which may overlap. Returns rdi.
    .balign 16
    .globl __hamr_move
__hamr_move:
    mov %rdi, %rax
    cmp $16, %rdx
    jb 6f
    cmp $32, %rdx
    ja 1f
    movups (%rsi), %xmm0
    movups -16(%rsi,%rdx), %xmm1
    movups %xmm0, (%rdi)
    movups %xmm1, -16(%rdi,%rdx)
    ret
1:  mov %rdi, %rcx
    sub %rsi, %rcx
    cmp %rdx, %rcx
    jb 4f
    # Upwards: the destination does not begin inside the source.
    movups -16(%rsi,%rdx), %xmm4
    lea -16(%rdi,%rdx), %r8
    sub $64, %rdx
    jbe 3f
2:  movups (%rsi), %xmm0
    movups 16(%rsi), %xmm1
    movups 32(%rsi), %xmm2
    movups 48(%rsi), %xmm3
    movups %xmm0, (%rdi)
    movups %xmm1, 16(%rdi)
    movups %xmm2, 32(%rdi)
    movups %xmm3, 48(%rdi)
    add $64, %rsi
    add $64, %rdi
    sub $64, %rdx
    ja 2b
    # 1 to 64 bytes are left, and rdx is 64 less.
3:  add $48, %rdx
    jle 8f
9:  movups (%rsi), %xmm0
    movups %xmm0, (%rdi)
    add $16, %rsi
    add $16, %rdi
    sub $16, %rdx
    jg 9b
8:  movups %xmm4, (%r8)
    ret
    # Downwards.
4:  movups (%rsi), %xmm4
    sub $64, %rdx
    jbe 5f
2:  movups (%rsi,%rdx), %xmm0
    movups 16(%rsi,%rdx), %xmm1
    movups 32(%rsi,%rdx), %xmm2
    movups 48(%rsi,%rdx), %xmm3
    movups %xmm0, (%rdi,%rdx)
    movups %xmm1, 16(%rdi,%rdx)
    movups %xmm2, 32(%rdi,%rdx)
    movups %xmm3, 48(%rdi,%rdx)
    sub $64, %rdx
    ja 2b
5:  add $48, %rdx
    jle 8f
9:  movups (%rsi,%rdx), %xmm0
    movups %xmm0, (%rdi,%rdx)
    sub $16, %rdx
    jg 9b
8:  movups %xmm4, (%rdi)
    ret
    # Below 16 bytes: two loads, then two stores.
6:  cmp $8, %edx
    jb 7f
    mov (%rsi), %rcx
    mov -8(%rsi,%rdx), %r8
    mov %rcx, (%rdi)
    mov %r8, -8(%rdi,%rdx)
    ret
7:  cmp $4, %edx
    jb 7f
    mov (%rsi), %ecx
    mov -4(%rsi,%rdx), %r8d
    mov %ecx, (%rdi)
    mov %r8d, -4(%rdi,%rdx)
    ret
7:  cmp $2, %edx
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
    jb 5f
    movq %rcx, %xmm0
    punpcklqdq %xmm0, %xmm0
    lea -16(%rdi,%rdx), %r8
    sub $64, %rdx
    jbe 2f
1:  movups %xmm0, (%rdi)
    movups %xmm0, 16(%rdi)
    movups %xmm0, 32(%rdi)
    movups %xmm0, 48(%rdi)
    add $64, %rdi
    sub $64, %rdx
    ja 1b
2:  add $48, %rdx
    jle 4f
3:  movups %xmm0, (%rdi)
    add $16, %rdi
    sub $16, %rdx
    jg 3b
4:  movups %xmm0, (%r8)
    ret
5:  cmp $8, %edx
    jb 6f
    mov %rcx, (%rdi)
    mov %rcx, -8(%rdi,%rdx)
    ret
6:  cmp $4, %edx
    jb 6f
    mov %ecx, (%rdi)
    mov %ecx, -4(%rdi,%rdx)
    ret
6:  test %edx, %edx
    jz 7f
    mov %cl, (%rdi)
    mov %cl, -1(%rdi,%rdx)
    cmp $3, %edx
    jb 7f
    mov %cl, 1(%rdi)
7:  ret

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
