//! The image of the conformance suite: the handlers of `hamr-kernels` and of `tests/kernels`, and
//! some that use the board.
#![no_std]
#![no_main]

mod driver;
mod marks;

use hamr_kernels as _;
use hamr_tests_kernels as _;

hamr_device_fw::image!();
