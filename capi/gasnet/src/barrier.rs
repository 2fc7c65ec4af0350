//! The barrier of GASNet-1: named or anonymous, in two phases.

#![expect(unsafe_code)]
// UNSAFETY: exported names; the result goes to memory of C.

use crate::die::die;
use crate::errors::{ERR_BARRIER_MISMATCH, ERR_NOT_READY, give};
use crate::job::{self, common};
use crate::progress;
use hamr_gas::{BarrierName, GasError};
use std::ffi::c_int;
use std::sync::Mutex;

const ANONYMOUS: c_int = 1;
const MISMATCH: c_int = 2;

/// The name of the last barrier, if it had one; an error: a mismatch.
static LAST: Mutex<Result<Option<u32>, ()>> = Mutex::new(Ok(None));

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
    let notified = job::with_rank(FUNCTION, |rank| rank.barrier_notify(name(id, flags)));
    notified.unwrap_or_else(|why| failed(FUNCTION, &why));
}

fn failed(function: &str, why: &GasError) -> ! {
    match why {
        GasError::BarrierOrder { notified: true } => {
            die(&format!("{function}: the last barrier was notified and not waited for"))
        }
        GasError::BarrierOrder { notified: false } => die(&format!("{function}: no barrier was notified")),
        why => die(&format!("{function}: {why}")),
    }
}

/// How the barrier ended, if it has. Not while another thread is in the library.
fn end(function: &str, id: c_int, flags: c_int) -> Option<c_int> {
    let last = match job::try_rank(function, |rank| rank.barrier_try(name(id, flags)))? {
        Ok(None) => return None,
        Ok(Some(name)) => Ok(name),
        Err(GasError::BarrierNames { .. }) => Err(()),
        Err(why) => failed(function, &why),
    };
    *common(&LAST) = last;
    Some(if last.is_err() { ERR_BARRIER_MISMATCH } else { 0 })
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
    match *common(&LAST) {
        Ok(Some(name)) => {
            // SAFETY: the caller's promise.
            unsafe { give(id, name as c_int) };
            0
        }
        Ok(None) => 1,
        Err(()) => 0,
    }
}
