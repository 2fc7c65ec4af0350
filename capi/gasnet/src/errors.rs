//! Numbers of errors, and results in memory of C.

#![expect(unsafe_code)]
// UNSAFETY: exported names; results go to memory of C.

use crate::die::{name, say};
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

pub(crate) const ERR_NOT_INIT: c_int = 10001;
pub(crate) const ERR_RESOURCE: c_int = 10002;
pub(crate) const ERR_BAD_ARG: c_int = 10003;
pub(crate) const ERR_NOT_READY: c_int = 10004;
pub(crate) const ERR_BARRIER_MISMATCH: c_int = 10005;

static IS_VERBOSE: AtomicI32 = AtomicI32::new(1);

/// Says why an error is returned.
pub(crate) fn complain(why: &str) {
    if IS_VERBOSE.load(Relaxed) != 0 {
        say(&format!("{}: {why}", name()));
    }
}

/// Writes a result where the program wants it.
///
/// # Safety
/// NULL, or a place for a value.
pub(crate) unsafe fn give<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe { to.write(value) };
    }
}

#[unsafe(no_mangle)]
extern "C" fn gex_System_GetVerboseErrors() -> c_int {
    IS_VERBOSE.load(Relaxed)
}
#[unsafe(no_mangle)]
extern "C" fn gex_System_SetVerboseErrors(enable: c_int) {
    IS_VERBOSE.store(enable, Relaxed);
}

fn error(number: c_int) -> (&'static CStr, &'static CStr) {
    match number {
        0 => (c"GASNET_OK", c"No error"),
        ERR_RESOURCE => (c"GASNET_ERR_RESOURCE", c"A resource of the system or of the job is missing"),
        ERR_BAD_ARG => (c"GASNET_ERR_BAD_ARG", c"An argument is invalid"),
        ERR_NOT_INIT => (c"GASNET_ERR_NOT_INIT", c"The library is not initialised, or has no segment"),
        ERR_BARRIER_MISMATCH => (c"GASNET_ERR_BARRIER_MISMATCH", c"The names of a barrier differ"),
        ERR_NOT_READY => (c"GASNET_ERR_NOT_READY", c"The operation is not complete"),
        _ => (c"*unknown*", c"No such error"),
    }
}
#[unsafe(no_mangle)]
extern "C" fn gasnet_ErrorName(number: c_int) -> *mut c_char {
    // Programs may not write there.
    error(number).0.as_ptr().cast_mut()
}
#[unsafe(no_mangle)]
extern "C" fn gasnet_ErrorDesc(number: c_int) -> *mut c_char {
    error(number).1.as_ptr().cast_mut()
}
