//! An execution policy of one's own: the first parameter of a handler says when it runs.
//! `cargo run --release --example policy`: the handlers are of this program, on the device `loopback`.

mod help;

use hamr::{Image, Runtime};
use hamr_comm::{Context, Fault, Program, Task, offload};
use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many handlers may begin.
static QUOTA: AtomicU32 = AtomicU32::new(0);

/// A handler with this parameter begins when [`admit()`] allows it; others run meanwhile.
pub struct Admitted<'c> {
    _task: &'c Task<'c>,
}

impl Program for Admitted<'static> {
    type This<'c> = Admitted<'c>;

    fn enter<R>(task: &mut Task<'_>, f: impl FnOnce(&mut Admitted<'_>) -> R) -> Result<R, Fault> {
        task.wait_until(|| QUOTA.load(Ordering::Relaxed) > 0)?;
        // A device's handlers run on one thread, so none was between.
        QUOTA.fetch_sub(1, Ordering::Relaxed);
        Ok(f(&mut Admitted { _task: task }))
    }
}

/// The square, when it is admitted.
#[offload(unordered)]
pub fn square(_: &mut Admitted, value: u64) -> u64 {
    value * value
}

/// Admits so many more.
#[offload]
pub fn admit(_: &mut Context, more: u32) {
    QUOTA.fetch_add(more, Ordering::Relaxed);
}

fn main() -> Result<(), Box<dyn Error>> {
    if help::is_wanted("policy") {
        return Ok(());
    }
    let dev = Runtime::new()?.open("loopback", Image::find("none")?)?;
    let waiting = (1..=3).map(|n| dev.offload(square::with(n))).collect::<Result<Vec<_>, _>>()?;
    dev.ping()?;
    println!("without quota: {} of 3 done", waiting.iter().filter(|call| call.is_done()).count());
    dev.sync(admit::with(3))?;
    let squares = waiting.into_iter().map(|call| call.wait()).collect::<Result<Vec<_>, _>>()?;
    println!("admitted: {squares:?}");
    Ok(())
}
