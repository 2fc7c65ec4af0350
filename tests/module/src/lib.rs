//! A module of handlers, which tests load beside a running image.
#![no_std]

use core::sync::atomic::{AtomicU64, Ordering};
use hamr_comm::{BufferPtr, Context, Fault, Resource, offload};

#[cfg(not(any(target_os = "none", hamr_bare)))]
extern crate std;

hamr_comm::module!();

static CALLS: AtomicU64 = AtomicU64::new(0);

/// Twice the value.
#[offload]
pub fn twice(_cx: &mut Context, value: i64) -> i64 {
    value.wrapping_mul(2)
}

/// How often it was called since the module was loaded, this call included.
#[offload]
pub fn calls(_cx: &mut Context) -> u64 {
    CALLS.fetch_add(1, Ordering::Relaxed) + 1
}

/// Multiplies each element; a table of functions, which a module's loader has to relocate.
#[offload]
pub fn scale(cx: &mut Context, how: u8, x: BufferPtr<f64>) -> Result<(), Fault> {
    static HOW: [fn(f64) -> f64; 2] = [|x| x * 2.0, |x| x / 2.0];
    let how = HOW.get(usize::from(how)).ok_or_else(|| Fault::msg("no such way"))?;
    cx.view_mut(x)?.iter_mut().for_each(|x| *x = how(*x));
    Ok(())
}

/// More arguments than the slot has room for.
#[offload]
pub fn sum(_cx: &mut Context, values: [u64; 12]) -> u64 {
    values.iter().sum()
}

/// Panics.
#[offload]
pub fn panics(_cx: &mut Context, value: u32) -> u32 {
    assert!(value == 0, "the module was given {value}");
    value
}

/// Counts in word 16 that it is here, then runs until the host sets word 0.
#[offload]
pub fn until_open(cx: &mut Context, gate: BufferPtr<u32>) -> Result<u32, Fault> {
    let words = cx.words(gate)?;
    let (Some(open), Some(arrived)) = (words.get(0), words.get(16)) else { return Err(Fault::msg("no gate")) };
    arrived.publish(arrived.load() + 1);
    while open.observe() == 0 {
        core::hint::spin_loop();
    }
    Ok(open.load())
}

static KEPT: Resource<u32> = Resource::new(7);

/// Adds to a resource of the module; panics inside if it is to.
#[offload]
pub fn in_resource(cx: &mut Context, panics: bool) -> Result<u32, Fault> {
    cx.with(&KEPT, |value| {
        assert!(!panics, "asked to");
        *value += 1;
        *value
    })
}

/// Clears that resource; was it poisoned?
#[offload]
pub fn clear_resource(cx: &mut Context) -> bool {
    let was = KEPT.is_poisoned();
    cx.clear_poison(&KEPT, 1);
    was
}

/// Asks what a context knows.
#[offload]
pub fn asks(cx: &mut Context, x: BufferPtr<u32>) -> Result<u64, Fault> {
    let known = u64::from(cx.world().is_some()) + u64::from(cx.cancelled()) + u64::from(cx.deadline_us());
    let mut copy = [0];
    cx.copy_out(x, &mut copy)?;
    cx.copy_in(&copy, x)?;
    Ok(known + u64::from(copy[0]) + cx.words(x)?.get(0).map_or(0, |word| u64::from(word.load())))
}

/// In a process: uses a variable of the thread that has a destructor.
#[offload]
pub fn of_thread(_cx: &mut Context) -> u64 {
    #[cfg(not(any(target_os = "none", hamr_bare)))]
    {
        std::thread_local! {
            static OWN: std::boxed::Box<u64> = std::boxed::Box::new(5);
        }
        OWN.with(|own| **own)
    }
    #[cfg(any(target_os = "none", hamr_bare))]
    5
}
