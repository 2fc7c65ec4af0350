//! A board that is not part of the runtime, as a user would add one: QEMU's `microvm`, with the
//! handlers of the conformance suite (`docs/porting.md`; `tests/tests/qemu/microvm.rs` runs it).
//! Hosted, it is an image like any other.
#![no_std]
#![no_main]

#[cfg(hamr_bare)]
mod address;
#[cfg(hamr_bare)]
mod board;
#[cfg(hamr_bare)]
mod clock;

use hamr_kernels as _;
use hamr_tests_kernels as _;

hamr_device_fw::image!(board = board::Microvm);
