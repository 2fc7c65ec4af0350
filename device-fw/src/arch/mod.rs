//! The processor, apart from the board around it. Every instruction set has the same files:
//!
//! - `stack`: runs the serve loop on a stack of its own, and abandons it (contract
//!   "abandoning");
//! - `timer`: time, and sleeping for a while;
//! - `barriers`: what orders accesses that the host sees.
//!
//! Without the feature `image` only the last is there: a program that has a start of its own has
//! the others too. The start, traps and the tick are in `bare/<isa>`, since they call the runtime.
//!
//! # The window
//!
//! What a processor can reach, and what else a board has to know of it:
//!
//! - **x86_64**: the first 512 GiB; caching as firmware set it. The window may be anywhere in them;
//!   `microvm`'s 64-bit PCI window, at 768 GiB, is beyond.
//! - **aarch64**: 40 bits, except the first 2 MiB: RAM of `memory.x` as normal memory, the rest as device
//!   memory, which has no atomics and no unaligned accesses. So the window must lie in RAM or
//!   `__hamr_cached_start..end`.
//! - **riscv64**: no translation. The window must lie in what the hardware defines as main memory. The image
//!   is entered in machine mode, in which `start` and the timer's `set_compare` are called. The serve loop
//!   and handlers run in supervisor mode, on a hart without it, or with fewer than 16 PMP entries, in
//!   machine mode: a board's `acknowledge`, `console` and `exit` use no register of the latter.
//! - **arm**: ARMv7-M with floating point in hardware (Cortex-M4F, M7). The window must lie in normal
//!   memory. With a memory protection unit the guards of stacks and the first 64 bytes trap; constants can
//!   be written. `Timer::new` has SysTick, once in a millisecond, and a counter of 32 bits of the board, or
//!   DWT's of the processor. Interrupts that a handler leaves masked come back when the device rests: until
//!   then no runaway is found, and with FAULTMASK a fault is the end.

// Contract "processors".
// - Boot code runs alone, first, on one processor, and leaves what `bare/mod.rs` lists.
//   Translation tables are written only before they are used.
// - Interrupts are on while calls are served, for the tick, and for a moment of x86_64's timed sleeps.
//   Entries save every register that compiled code may use, run on their own stack (compiled code uses
//   the red zone), and return or abandon the serve stack. Other interrupts stay pending and masked.
// - arm's exceptions run on the main stack, all else on the process stack. An exception that is left
//   for good returns to `stack::back` with a frame of our own; one that has interrupted another ends
//   the image.
// - riscv64's `machine_mode` calls a closure on the caller's stack, with interrupts masked, and goes
//   on in the mode before. The trap's entry tells its `ecall` from a handler's by the address.
// - `mem.rs` defines `memcpy`, `memmove`, `memset`, `memcmp`, `bcmp` and `strlen` with those
//   contracts.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "arm")]
mod arm;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as isa;
#[cfg(target_arch = "arm")]
use arm as isa;
#[cfg(target_arch = "riscv64")]
use riscv64 as isa;
#[cfg(target_arch = "x86_64")]
use x86_64 as isa;

#[cfg(feature = "image")]
mod timed_sleep;

// What an instruction set's file does not repeat is documented here.

#[cfg(all(target_arch = "x86_64", feature = "image"))]
pub(crate) use isa::apic;
/// The order of accesses to a window that is memory of a PCI function. The host observes it from
/// behind a bus, where the order that Release and Acquire give among processors need not apply.
/// `publish` orders all stores before the word, `observe` all accesses after the load,
/// `full` all accesses before it and after it.
pub use isa::barriers::BusOrder;
#[cfg(all(target_arch = "riscv64", feature = "image"))]
pub use isa::imsic;
#[cfg(all(target_arch = "riscv64", feature = "image"))]
pub(crate) use isa::machine_mode::{MACHINE, SERVE_MODE, SUPERVISOR, machine_mode};
/// Leaves the stack that [`run`] switched to: that call returns.
///
/// # Safety
/// Called inside `run`: on its stack, on one that code there has switched to, or in a trap taken from
/// either. The abandoned frames own nothing whose leak is unsound.
#[cfg(feature = "image")]
pub(crate) use isa::stack::abort;
/// The frame pointer of the calling function.
#[cfg(feature = "image")]
pub(crate) use isa::stack::frame_pointer;
/// `run(top, f, arg)` runs `f(arg)` on the stack that ends at `top`. It returns when [`abort`] is
/// called.
///
/// # Safety
/// `top` ends a stack that nothing else uses, aligned to 16. `f` never returns. Everything that the
/// frames of `f` own when they are abandoned is leaked, never dropped; the caller treats what `arg`
/// points to as touched at any point of `f`.
#[cfg(feature = "image")]
pub(crate) use isa::stack::run;
/// Where a frame stores the pointer to the frame around it, and its return address: offsets from
/// the address in its frame pointer; and the bits of a return address that are one.
#[cfg(feature = "image")]
pub(crate) use isa::stack::{CODE_BITS, SAVED_FRAME, SAVED_RETURN};
#[cfg(all(target_arch = "x86_64", feature = "image"))]
pub use isa::timer::DOORBELL;
#[cfg(all(target_arch = "riscv64", feature = "image"))]
pub(crate) use isa::timer::INTERRUPTS;
#[cfg(feature = "image")]
pub use isa::timer::Timer;
#[cfg(feature = "image")]
pub(crate) use isa::timer::now;
#[cfg(all(target_arch = "arm", feature = "image"))]
pub(crate) use isa::{registers, timer};
#[cfg(feature = "image")]
pub(crate) use timed_sleep::SPIN_ROUNDS;
#[cfg(feature = "image")]
pub use timed_sleep::TimedSleep;

/// Stack pointer of the frame of [`run`] while `f` runs; stored there and read by [`abort`], both
/// in assembly.
#[cfg(feature = "image")]
static ANCHOR: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
