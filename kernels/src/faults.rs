//! Handlers that fail on purpose, and slow ones: for tests, and to show what a fault looks like to
//! a user.

use hamr_comm::{BufferPtr, Context, Fault, Migratable, Resource, Task, offload};

/// A handler's own error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Migratable)]
pub enum DivideError {
    /// The divisor was zero.
    ByZero {
        /// The dividend.
        dividend: i64,
    },
    /// The quotient does not fit.
    Overflow,
}

/// `a / b`, with an error of its own.
#[offload]
pub fn divide(_cx: &mut Context, a: i64, b: i64) -> Result<i64, DivideError> {
    if b == 0 {
        return Err(DivideError::ByZero { dividend: a });
    }
    a.checked_div(b).ok_or(DivideError::Overflow)
}

/// Panics with a message that names `n`.
#[offload]
pub fn panics(_cx: &mut Context, n: u32) -> u32 {
    assert!(n == u32::MAX, "asked to panic with {n}");
    n
}

/// The same as a task: its stream continues, and its ticket slot becomes free.
#[offload]
pub fn panics_task(task: &mut Task, n: u32) -> u32 {
    task.inline(|cx| panics(cx, n))
}

/// Runs until it is cancelled, or for `rounds` checks: a long handler that cooperates.
#[offload]
pub fn spin_until_cancelled(cx: &mut Context, rounds: u64) -> u64 {
    let mut looks = 0;
    while looks < rounds && !cx.cancelled() {
        looks += 1;
        core::hint::spin_loop();
    }
    looks
}

/// A task: its own stream waits for it, other streams do not.
#[offload]
pub fn long_sum(task: &mut Task, x: BufferPtr<u64>) -> Result<u64, Fault> {
    Ok(task.view(x)?.iter().fold(0, |sum, v| sum.wrapping_add(*v)))
}

/// A short task; later calls may overtake it.
#[offload(unordered)]
pub fn background(_task: &mut Task, v: u64) -> u64 {
    v.wrapping_mul(3)
}

/// Returns its argument: 800 bytes each way, through the staging chunks.
#[offload]
pub fn echo_many(_cx: &mut Context, values: [u64; 100]) -> [u64; 100] {
    values
}

/// Returns 8 KiB made from `seed`: longer than a staging chunk.
#[offload]
pub fn make_many(_cx: &mut Context, seed: u64) -> [u64; 1024] {
    core::array::from_fn(|i| seed.wrapping_add(i as u64))
}

static COUNTER: Resource<u64> = Resource::new(0);

/// Takes a resource and adds to it; on request, panics while it has the resource.
#[offload]
pub fn bump(cx: &mut Context, by: u64, then_panic: bool) -> Result<u64, Fault> {
    cx.with(&COUNTER, |counter| {
        *counter += by;
        assert!(!then_panic, "asked to panic while holding a resource");
        *counter
    })
}

/// Whether [`bump()`]'s resource is poisoned. Clears it and sets the value to `fresh`.
#[offload]
pub fn mend(cx: &mut Context, fresh: u64) -> bool {
    let was_poisoned = COUNTER.is_poisoned();
    cx.clear_poison(&COUNTER, fresh);
    was_poisoned
}
