//! What a program can ask of its job. All ranks are on one machine, and share memory.

#![expect(unsafe_code)]
// UNSAFETY: exported names; results go to memory of C.

use crate::errors::{ERR_BAD_ARG, ERR_RESOURCE, give};
use crate::job::has_threads;
use crate::objects::gex_Client_QueryFlags;
use crate::team::{me, size};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// The ranks of the job: `gex_RankInfo_t`.
static RANKS: [u32; 64] = {
    let mut ranks = [0; 64];
    let mut rank = 0;
    while rank < 64 {
        ranks[rank] = rank as u32;
        rank += 1;
    }
    ranks
};

#[unsafe(no_mangle)]
extern "C" fn gex_System_QueryMaxThreads() -> u64 {
    // In PAR there is no limit; a program may make a table of so many.
    if has_threads() { 256 } else { 1 }
}
#[unsafe(no_mangle)]
extern "C" fn gex_System_QueryHiddenAMConcurrencyLevel() -> c_int {
    0
}

/// The ranks that share memory.
///
/// # Safety
/// Places for the results, or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_System_QueryNbrhdInfo(info_p: *mut *const u32, count_p: *mut u32, index_p: *mut u32) {
    // SAFETY: the caller's promise.
    unsafe { give(info_p, RANKS.as_ptr()) };
    // SAFETY: the caller's promise.
    unsafe { give(count_p, size()) };
    // SAFETY: the caller's promise.
    unsafe { give(index_p, me()) };
}

/// The ranks of this machine.
///
/// # Safety
/// As [`gex_System_QueryNbrhdInfo`].
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_System_QueryHostInfo(info_p: *mut *const u32, count_p: *mut u32, index_p: *mut u32) {
    // SAFETY: the caller's promise.
    unsafe { gex_System_QueryNbrhdInfo(info_p, count_p, index_p) };
}

/// The one neighbourhood and the one machine.
///
/// # Safety
/// Places for the results, or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_System_QueryMyPosition(a: *mut u32, b: *mut u32, c: *mut u32, d: *mut u32) {
    for (to, value) in [(a, 1), (b, 0), (c, 1), (d, 0)] {
        // SAFETY: the caller's promise.
        unsafe { give(to, value) };
    }
}

/// Threads that a program must start which has asked for that: there are none.
///
/// # Safety
/// Places for the results, or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_System_QueryProgressThreads(
    client: *mut c_void,
    count_p: *mut c_uint,
    info_p: *mut *const c_void,
    flags: u32,
) -> c_int {
    const DEFER_THREADS: u32 = 1 << 1;
    if count_p.is_null() || info_p.is_null() || flags != 0 {
        return ERR_BAD_ARG;
    }
    if gex_Client_QueryFlags(client) & DEFER_THREADS == 0 {
        return ERR_RESOURCE;
    }
    // SAFETY: the caller's promise.
    unsafe { give(count_p, 0) };
    0
}

/// A variable of the environment.
///
/// # Safety
/// A string of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn gasnet_getenv(name: *const c_char) -> *mut c_char {
    // SAFETY: the caller's promise.
    unsafe { libc::getenv(name) }
}

#[unsafe(no_mangle)]
extern "C" fn gasnet_set_waitmode(mode: c_int) -> c_int {
    // A hint: waits spin, and yield where ranks outnumber processors.
    if (0..=2).contains(&mode) { 0 } else { ERR_BAD_ARG }
}
