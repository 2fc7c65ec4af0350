//! Functions that the compiler calls by itself: those of the C library for bytes, and one of the
//! unwinder. This target's programs usually get them from the operating system.

#![expect(unsafe_code)]
// UNSAFETY: unmangled names that compilers know.

use core::arch::global_asm;

// Assembly, because a compiler that sees a loop over bytes may make a call of it: to itself, here.
global_asm!(include_str!("mem.s"), options(att_syntax));
global_asm!(
    r#"
    .globl memcpy, memmove, memset, memcmp, bcmp, strlen
    .set memcpy, __hamr_move
    .set memmove, __hamr_move
    .set memset, __hamr_set
    .set memcmp, __hamr_compare
    .set bcmp, __hamr_compare
    .set strlen, __hamr_length
"#
);

/// Named by the tables of the prebuilt `core`; nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
