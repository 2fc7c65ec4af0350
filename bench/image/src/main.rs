//! The image of `hamr-bench`: the handlers of the demo image and those that are measured.
#![no_std]
#![no_main]

hamr_kernels::bench_handlers!();

hamr_device_fw::image!();
