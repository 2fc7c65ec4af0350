#![no_std]
#![no_main]
use kernels as _; // without it the linker never sees the handlers
hamr_device_fw::image!();
