//! The demo image: the device runtime with the handlers of `hamr-kernels`, without those of
//! `hamr-bench`. The same file hosted and on every instruction set.
#![no_std]
#![no_main]

// Without this line the linker never sees the handlers.
use hamr_kernels as _;

hamr_device_fw::image!();
