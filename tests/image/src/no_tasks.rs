//! An image without places for tasks.
#![no_std]
#![no_main]

use hamr_kernels as _;

hamr_device_fw::image!(tasks = 0);
