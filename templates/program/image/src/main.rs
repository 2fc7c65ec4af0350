#![no_std]
#![no_main]
use kernels as _; // without it the linker never sees the programs
hamr_device_fw::image!(tasks = 2, task_stack = 128 << 10);
