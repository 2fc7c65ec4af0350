//! The image of the smallest device: eight handlers, and a window of 16 KiB (`tests/src/few.rs` calls it).
#![no_std]
#![no_main]

mod handlers;

hamr_device_fw::image!(window = 16 << 10);
