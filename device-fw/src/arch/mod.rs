//! The processor, apart from the board around it. Every instruction set has the same files:
//!
//! - `boot`: from the first instruction to Rust code;
//! - `stack`: runs the serve loop on a stack of its own, and abandons it;
//! - `traps`: what ends a handler that did what it must not;
//! - `tick`: interrupts that find runaways;
//! - `timer`: time, and sleeping for a while;
//! - `barriers`: what orders accesses that the host sees.
//!
//! Without the feature `image` only the last is there: a program that has a start of its own has the others too.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as isa;
#[cfg(target_arch = "riscv64")]
use riscv64 as isa;
#[cfg(target_arch = "x86_64")]
use x86_64 as isa;

#[cfg(feature = "image")]
mod timed_sleep;

pub use isa::barriers::BusOrder;
#[cfg(all(target_arch = "riscv64", feature = "image"))]
pub use isa::imsic;
#[cfg(feature = "image")]
pub(crate) use isa::stack::{SAVED_FRAME, SAVED_RETURN, abort, frame_pointer, run};
#[cfg(feature = "image")]
pub(crate) use isa::tick;
#[cfg(all(target_arch = "x86_64", feature = "image"))]
pub use isa::timer::DOORBELL;
#[cfg(feature = "image")]
pub use isa::timer::Timer;
#[cfg(feature = "image")]
pub(crate) use isa::timer::now;
#[cfg(feature = "image")]
pub(crate) use timed_sleep::SPIN_ROUNDS;
#[cfg(feature = "image")]
pub use timed_sleep::TimedSleep;

/// Stack pointer of the frame of [`run`] while it is out; stored there and read by [`abort`], both in assembly.
#[cfg(feature = "image")]
static ANCHOR: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
