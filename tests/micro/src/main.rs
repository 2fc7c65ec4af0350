//! The image of a microcontroller: handlers of the conformance suite, and a window in the image's own memory
//! (`tests/tests/qemu/arm.rs` runs it). Hosted, it is an image like any other.
#![no_std]
#![no_main]

use hamr_kernels as _;
use hamr_tests_kernels as _;

hamr_device_fw::image!(window = 16 << 20);
