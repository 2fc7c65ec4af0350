//! An image that takes the place of `hamr-checks` while a device runs: the handlers of `hamr-kernels`
//! and its own, and none of `tests/kernels`.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU64, Ordering};
use hamr_comm::{BufferPtr, Context, Fault, Task, offload};
use hamr_kernels as _;

/// What an image starts with.
static CALLS: AtomicU64 = AtomicU64::new(40);
/// What boot code clears.
static LAST: AtomicU64 = AtomicU64::new(0);

/// 40, and how often it was called since the image started, this call included; the argument of the call
/// before, 0 of the first.
#[offload(name = "hamr_checks_next::calls")]
pub fn calls(_cx: &mut Context, value: u64) -> (u64, u64) {
    (CALLS.fetch_add(1, Ordering::Relaxed) + 1, LAST.swap(value, Ordering::Relaxed))
}

/// The sum of a buffer's numbers.
#[offload(name = "hamr_checks_next::sum")]
pub fn sum(cx: &mut Context, x: BufferPtr<u64>) -> Result<u64, Fault> {
    Ok(cx.view(x)?.iter().sum())
}

/// Waits once.
#[offload(name = "hamr_checks_next::yields")]
pub fn yields(cx: &mut Task, value: u32) -> Result<u32, Fault> {
    cx.yield_now()?;
    Ok(value)
}

/// Panics.
#[offload(name = "hamr_checks_next::panics")]
pub fn panics(_cx: &mut Context, value: u32) -> u32 {
    assert!(value == 0, "the next image was given {value}");
    value
}

// Less than that image has.
hamr_device_fw::image!(task_stack = if cfg!(hamr_bare) { 32 << 10 } else { 128 << 10 });
