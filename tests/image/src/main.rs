//! The image of the conformance suite: the handlers of `hamr-kernels` and of `tests/kernels`, the
//! programs of `tests/xacc`, and handlers that use the board.
#![no_std]
#![no_main]

#[cfg(all(hamr_bare, target_arch = "riscv64"))]
extern crate alloc;

#[cfg(hamr_bare)]
mod board;
mod driver;
#[cfg(all(hamr_bare, target_arch = "riscv64"))]
mod edu;
mod marks;
mod variant;

use hamr_kernels as _;
use hamr_tests_kernels as _;
use hamr_tests_xacc as _;

// Programs have their arrays' descriptions on their stack. On bare metal as many tasks as riscv64 guards.
hamr_device_fw::image!(
    board = board::Checks,
    tasks = if cfg!(hamr_bare) { 10 } else { 16 },
    task_stack = if cfg!(hamr_bare) { 64 << 10 } else { 256 << 10 },
    claims = 48,
    longest_message = 1 << 20,
    window = 24 << 20,
    driven = 20 << 20,
    at_start = variant::settings
);
