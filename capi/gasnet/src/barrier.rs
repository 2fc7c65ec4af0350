//! The barrier of GASNet-1: named or anonymous, in two phases.

#![expect(unsafe_code)]
// UNSAFETY: exported names; the result goes to memory of C.

use crate::die::die;
use crate::errors::{ERR_BARRIER_MISMATCH, ERR_NOT_READY, give};
use crate::{job, progress};
use hamr_gas::{BarrierName, GasError};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const ANONYMOUS: c_int = 1;
const MISMATCH: c_int = 2;

/// The name of the last barrier; [`NO_NAME`]: it had none; [`OTHER_NAMES`]: a mismatch.
static LAST: AtomicU64 = AtomicU64::new(NO_NAME);
const NO_NAME: u64 = 1 << 32;
const OTHER_NAMES: u64 = 2 << 32;

fn name(id: c_int, flags: c_int) -> BarrierName {
    match flags {
        flags if flags & MISMATCH != 0 => BarrierName::Mismatch,
        flags if flags & ANONYMOUS != 0 => BarrierName::Anonymous,
        _ => BarrierName::Named(id as u32),
    }
}

#[unsafe(no_mangle)]
extern "C" fn gasnet_barrier_notify(id: c_int, flags: c_int) {
    const FUNCTION: &str = "gasnet_barrier_notify";
    job::with_rank(FUNCTION, |rank| {
        if let Err(why) = rank.barrier_notify(name(id, flags)) {
            failed(FUNCTION, &why);
        }
    });
}

#[cold]
fn failed(function: &str, why: &GasError) -> ! {
    match why {
        GasError::BarrierOrder { notified: true } => {
            die(&format!("{function}: the last barrier was notified and not waited for"))
        }
        GasError::BarrierOrder { notified: false } => die(&format!("{function}: no barrier was notified")),
        why => job::failed(function, why),
    }
}

/// How the barrier ended, if it has. Not while another thread is in the library.
fn end(function: &str, id: c_int, flags: c_int) -> Option<c_int> {
    let last = job::try_rank(function, |rank| match rank.barrier_try(name(id, flags)) {
        Ok(ended) => ended.map(|name| name.map_or(NO_NAME, u64::from)),
        Err(GasError::BarrierNames { .. }) => Some(OTHER_NAMES),
        Err(why) => failed(function, &why),
    })??;
    LAST.store(last, Relaxed);
    Some(if last == OTHER_NAMES { ERR_BARRIER_MISMATCH } else { 0 })
}

#[unsafe(no_mangle)]
extern "C" fn gasnet_barrier_wait(id: c_int, flags: c_int) -> c_int {
    const FUNCTION: &str = "gasnet_barrier_wait";
    job::check(FUNCTION);
    loop {
        match end(FUNCTION, id, flags) {
            Some(result) => return result,
            None => progress::poll_idle(FUNCTION),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn gasnet_barrier_try(id: c_int, flags: c_int) -> c_int {
    const FUNCTION: &str = "gasnet_barrier_try";
    progress::poll(FUNCTION);
    end(FUNCTION, id, flags).unwrap_or(ERR_NOT_READY)
}

#[unsafe(no_mangle)]
extern "C" fn gasnet_barrier(id: c_int, flags: c_int) -> c_int {
    gasnet_barrier_notify(id, flags);
    gasnet_barrier_wait(id, flags)
}

/// The name of the last barrier: 1 if it had none.
///
/// # Safety
/// A place for the name.
#[unsafe(no_mangle)]
unsafe extern "C" fn gasnet_barrier_result(id: *mut c_int) -> c_int {
    match LAST.load(Relaxed) {
        NO_NAME => 1,
        OTHER_NAMES => 0,
        name => {
            // SAFETY: the caller's promise.
            unsafe { give(id, name as c_int) };
            0
        }
    }
}
