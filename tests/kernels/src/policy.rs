//! An execution policy of one's own: the first parameter of a handler says when it runs.

use hamr_comm::abi::sync::{AtomicU32, Ordering};
use hamr_comm::{Context, Fault, Program, Task, offload};

/// How many handlers may begin. Only the device's thread uses it.
static QUOTA: AtomicU32 = AtomicU32::new(0);

/// A handler with this parameter begins when the device admits it ([`admit()`]).
pub struct Admitted<'c> {
    task: &'c Task<'c>,
    /// What was left behind this one.
    pub left: u32,
}

impl Program for Admitted<'static> {
    type This<'c> = Admitted<'c>;

    fn enter<R>(task: &mut Task<'_>, f: impl FnOnce(&mut Admitted<'_>) -> R) -> Result<R, Fault> {
        task.wait_until(|| QUOTA.load(Ordering::Relaxed) > 0)?;
        let left = QUOTA.load(Ordering::Relaxed) - 1;
        QUOTA.store(left, Ordering::Relaxed);
        Ok(f(&mut Admitted { task, left }))
    }
}

/// Returns `value`, and how many may begin behind it.
#[offload(unordered)]
pub fn admitted(policy: &mut Admitted, value: u64) -> Result<(u64, u32), Fault> {
    policy.task.yield_now()?;
    Ok((value, policy.left))
}

/// Admits so many more.
#[offload]
pub fn admit(_: &mut Context, more: u32) -> u32 {
    let quota = QUOTA.load(Ordering::Relaxed) + more;
    QUOTA.store(quota, Ordering::Relaxed);
    quota
}
