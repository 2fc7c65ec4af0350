//! A board that the runtime does not know, as somebody else would add it: QEMU's `microvm`, with the handlers that the
//! conformance suite calls (`docs/porting.md`; `tests/tests/qemu_microvm.rs` runs it). Hosted, it is an image like any other.
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
