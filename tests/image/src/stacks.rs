//! Handlers that run on the stacks of tasks, which only bare-metal images have.
//!
//! Tests include this file as well, for its signatures.

use hamr_comm::{Context, Fault, offload};

/// What [`runs`] does on the stack.
pub(crate) const PANICS: u32 = 1;
pub(crate) const READS_NULL: u32 = 2;
pub(crate) const IS_ILLEGAL: u32 = 3;
pub(crate) const OVERFLOWS: u32 = 4;
pub(crate) const LEAPS: u32 = 5;
pub(crate) const LOOPS: u32 = 6;

/// Suspends `rounds` times on the stack of `task`, then does `what` there. Returns how often the
/// stack was resumed, the nanoseconds that took, and a sum over numbers that stayed on the stack.
#[offload(device, name = "hamr_checks::stacks::runs")]
pub(crate) fn runs(cx: &mut Context, task: u32, rounds: u32, what: u32) -> Result<(u32, u64, f64), Fault> {
    use hamr_device_fw::hal::Delay;
    use hamr_tests_kernels::crashes;
    let begin = Delay::now_ns();
    let mut sum = 0.0;
    let resumed = on_task_stack(task as usize, |suspend| {
        let mut numbers = [0.0; 16];
        for round in 0..rounds {
            for (place, number) in numbers.iter_mut().enumerate() {
                *number += f64::from(round) * place as f64;
            }
            suspend();
        }
        sum = numbers.iter().sum();
        sum += match what {
            PANICS => f64::from(hamr_kernels::faults::panics(cx, task)),
            READS_NULL => crashes::read_null() as f64,
            IS_ILLEGAL => crashes::illegal(cx) as f64,
            OVERFLOWS => crashes::overflows(cx, u64::MAX) as f64,
            LEAPS => crashes::leaps(cx, 12) as f64,
            LOOPS => crashes::loops(cx) as f64,
            _ => 0.0,
        }
    });
    let resumed = resumed.ok_or(Fault::msg("no such stack"))?;
    Ok((resumed, Delay::now_ns() - begin, sum))
}

#[cfg(all(feature = "device", hamr_bare))]
use hamr_device_fw::bare::on_task_stack;

/// A process has no such stacks.
#[cfg(all(feature = "device", not(any(target_os = "none", hamr_bare))))]
fn on_task_stack(_task: usize, _f: impl FnOnce(&dyn Fn())) -> Option<u32> {
    None
}
