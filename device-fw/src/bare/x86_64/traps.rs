//! Traps: every exception ends the handler that caused it; the timer's interrupt ends timed sleeps
//! and runaways.

#![expect(unsafe_code)]
// UNSAFETY: the entries run on no stack of Rust's, and CR2 and the table's register have no
// intrinsics.

use super::interrupts::{notified, spurious};
use super::segments::{CODE, TIMER_STACK, TRAP_STACK};
use crate::arch::apic::{DOORBELL_VECTOR, END_OF_INTERRUPT, SPURIOUS_VECTOR, TIMER_VECTOR};
use crate::bare::fault::{self, Trap};
use crate::bare::tick as bare_tick;
use core::arch::{asm, global_asm, naked_asm};
use core::sync::atomic::{AtomicU64, Ordering};

/// Exceptions of the processor: the first vectors.
const EXCEPTIONS: usize = 32;
const VECTORS: usize = 0x30;
const PAGE_FAULT: u64 = 14;

/// Present, interrupt gate: interrupts are off behind it.
const GATE: u64 = 0x8E;

/// What an exception leaves on the trap stack: what [`exception`] pushed, then what the processor
/// did. Debuggers find the interrupted code's registers here.
#[repr(C)]
struct Frame {
    vectors: [u8; 512],
    general: [u64; 15],
    vector: u64,
    error: u64,
    pc: u64,
    code: u64,
    flags: u64,
    stack: u64,
    data: u64,
}
// The processor starts at a multiple of 16; FXSAVE and calls need one.
const _: () = assert!(size_of::<Frame>().is_multiple_of(16));

/// The interrupt descriptor table, one gate in two words.
static TABLE: [[AtomicU64; 2]; VECTORS] = [const { [const { AtomicU64::new(0) }; 2] }; VECTORS];

unsafe extern "C" {
    /// One entry of 16 bytes for each exception.
    static __hamr_exceptions: [[u8; 16]; EXCEPTIONS];
}

// 0x60227D00: the exceptions with an error code. The others push one too, so that all frames have
// one layout.
global_asm!(
    r#"
    .section .text.hamr.exceptions, "ax"
    .balign 16
    .globl __hamr_exceptions
__hamr_exceptions:
    .set hamr_vector, 0
    .rept 32
    .balign 16
    .ifeq (0x60227D00 >> hamr_vector) & 1
    push $0
    .endif
    push $hamr_vector
    jmp {exception}
    .set hamr_vector, hamr_vector + 1
    .endr
"#,
    exception = sym exception,
    options(att_syntax)
);

/// The general registers of [`Frame`], in the order of their pushes.
macro_rules! registers {
    ($wrap:ident) => {
        $wrap!(rax rbx rcx rdx rsi rdi rbp r8 r9 r10 r11 r12 r13 r14 r15)
    };
}
macro_rules! push {
    ($($register:ident)*) => { concat!($("push ", stringify!($register), "\n",)*) };
}
macro_rules! pop {
    ($first:ident $($register:ident)*) => { concat!(pop!($($register)*), "pop ", stringify!($first), "\n") };
    () => { "" };
}

/// Pushes what code may be using; the vector registers have the lowest address.
macro_rules! save {
    () => {
        concat!(registers!(push), "sub rsp, 512\n", "fxsave64 [rsp]\n", "cld")
    };
}

/// The reverse of [`save!`].
macro_rules! restore {
    () => {
        concat!("fxrstor64 [rsp]\n", "add rsp, 512\n", registers!(pop))
    };
}

/// Where all exceptions meet, on the trap stack, which they never leave by returning.
#[unsafe(naked)]
unsafe extern "C" fn exception() -> ! {
    naked_asm!(
        save!(),
        "mov rdi, rsp",
        // The processor blocks further NMIs until IRETQ. No trap returns, so this returns to the
        // next line.
        "mov eax, ss",
        "push rax",
        "push rdi",
        "pushfq",
        "mov eax, cs",
        "push rax",
        "lea rax, [rip + 2f]",
        "push rax",
        "iretq",
        "2:",
        "xor ebp, ebp",
        "push 0",
        "jmp {trap}",
        trap = sym trap,
    )
}

/// The timer, on a stack of its own: saves what code may be using, and returns to it, unless
/// [`tick`] does not.
#[unsafe(naked)]
unsafe extern "C" fn timer() -> ! {
    naked_asm!(
        // An error code and a vector, so that the frame has the layout of an exception's.
        "push 0",
        "push {vector}",
        save!(),
        "mov eax, {end}",
        "mov dword ptr [rax], 0",
        "mov rdi, rsp",
        "call {tick}",
        restore!(),
        "add rsp, 16",
        "iretq",
        vector = const TIMER_VECTOR,
        end = const END_OF_INTERRUPT,
        tick = sym tick,
    )
}

extern "C" fn tick(frame: &Frame) {
    let &Frame { general: [.., base, _, _, _, _, _, _], pc, stack, .. } = frame;
    if super::tick::next() {
        bare_tick::tick(Trap { name: "", cause: 0, pc, address: 0, stack, frame: base, link: None });
    }
}

/// Makes the processor use the table.
pub(super) fn load() {
    let exceptions = (&raw const __hamr_exceptions).addr();
    for (vector, gate) in TABLE.iter().enumerate().take(EXCEPTIONS) {
        set(gate, exceptions + 16 * vector, TRAP_STACK);
    }
    let interrupts: [(u8, unsafe extern "C" fn() -> !); 3] =
        [(TIMER_VECTOR, timer), (DOORBELL_VECTOR, notified), (SPURIOUS_VECTOR, spurious)];
    for (vector, entry) in interrupts {
        if let Some(gate) = TABLE.get(usize::from(vector)) {
            set(gate, entry as usize, TIMER_STACK);
        }
    }
    /// What LIDT reads.
    #[repr(C, packed)]
    struct Pointer {
        limit: u16,
        base: usize,
    }
    let pointer = Pointer { limit: size_of_val(&TABLE) as u16 - 1, base: (&raw const TABLE).addr() };
    // SAFETY: the table is static and each of its gates leads to an entry above; without `nomem`
    // they are stored by now.
    unsafe { asm!("lidt [{}]", in(reg) &raw const pointer, options(readonly, nostack, preserves_flags)) };
}

fn set([low, high]: &[AtomicU64; 2], entry: usize, stack: u64) {
    let entry = entry as u64;
    let word = entry & 0xFFFF | u64::from(CODE) << 16 | stack << 32 | GATE << 40 | (entry >> 16 & 0xFFFF) << 48;
    low.store(word, Ordering::Relaxed);
    high.store(entry >> 32, Ordering::Relaxed);
}

extern "C" fn trap(frame: &Frame) -> ! {
    let &Frame { general: [.., base, _, _, _, _, _, _], vector, error, pc, stack, .. } = frame;
    // Of a page fault the error code is in the name. Elsewhere it is a selector: what the processor
    // could not use.
    let address = if vector == PAGE_FAULT { fault_address() } else { error };
    fault::trapped(Trap {
        name: name(vector, error),
        cause: vector as u32,
        pc,
        address,
        stack,
        frame: base,
        link: None,
    })
}

fn fault_address() -> u64 {
    let address;
    // SAFETY: reads a control register.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags)) };
    address
}

/// Names of the Intel SDM, volume 3, table 6-1, by the number of the vector. Empty: what only old coprocessors raise, or
/// nothing does.
const NAMES: [&str; 22] = [
    "divide error",
    "debug exception",
    "non-maskable interrupt",
    "breakpoint",
    "overflow",
    "bound range exceeded",
    "invalid opcode",
    "device not available",
    "double fault",
    "",
    "invalid task state segment",
    "segment not present",
    "stack segment fault",
    "general protection fault",
    "load page fault",
    "",
    "x87 floating-point error",
    "alignment check",
    "machine check",
    "SIMD floating-point exception",
    "virtualization exception",
    "control protection exception",
];

fn name(vector: u64, error: u64) -> &'static str {
    match vector {
        // Bits of the error code: present, write, user, reserved, fetch.
        PAGE_FAULT if error & 1 << 3 != 0 => "page fault, broken page table",
        PAGE_FAULT if error & 1 << 4 != 0 => "instruction page fault",
        PAGE_FAULT if error & 1 << 1 != 0 => "store page fault",
        _ => NAMES.get(vector as usize).filter(|name| !name.is_empty()).unwrap_or(&"unknown trap"),
    }
}
