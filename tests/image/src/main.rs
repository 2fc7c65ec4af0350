//! The image of the conformance suite: the handlers of `hamr-kernels` and of `tests/kernels`, the
//! programs of `tests/xacc`, and handlers that use the board.
#![no_std]
#![no_main]

mod driver;
mod marks;

use hamr_kernels as _;
use hamr_tests_kernels as _;
use hamr_tests_xacc as _;

// Programs have their arrays' descriptions on their stack.
hamr_device_fw::image!(
    claims = 48,
    task_stack = if cfg!(hamr_bare) { 64 << 10 } else { 256 << 10 },
    longest_message = 1 << 20
);
