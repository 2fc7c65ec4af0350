//! The image of the programs.
#![no_std]
#![no_main]

use hamr_programs as _;

hamr_device_fw::image!(tasks = 2, task_stack = 128 << 10);
