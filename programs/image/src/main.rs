//! The image of the programs.
#![no_std]
#![no_main]

hamr_programs::handlers!();
hamr_device_fw::image!(tasks = 2, task_stack = 128 << 10);
