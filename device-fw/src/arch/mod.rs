//! The processor, apart from the board around it. Every instruction set has the same files:
//!
//! - `boot`: from the first instruction to Rust code;
//! - `stack`: runs the serve loop on a stack of its own, and abandons it;
//! - `traps`: what ends a handler that did what it must not;
//! - `timer`: time, and sleeping for a while;
//! - `barriers`: what orders accesses that the host sees.

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

mod naps;

pub use isa::barriers::Device;
#[cfg(target_arch = "riscv64")]
pub use isa::imsic;
pub(crate) use isa::stack::{abandon, run};
#[cfg(target_arch = "x86_64")]
pub use isa::timer::DOORBELL;
pub use isa::timer::Timer;
pub use naps::Naps;
