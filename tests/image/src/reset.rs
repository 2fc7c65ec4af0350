//! The same handlers in an image that begins a new epoch after each fault, in which no call takes
//! longer than 200 ms, and with as many tasks as riscv64 guards.
#![no_std]
#![no_main]

use hamr_kernels as _;
use hamr_tests_kernels as _;

hamr_device_fw::image!(on_fault = reset, longest_call_ms = 200, tasks = 10, task_stack = 16 << 10);
