//! Domains of remote atomics. The operations are inlined by the header.

#![expect(unsafe_code)]
// UNSAFETY: domains are pointers in C.

use crate::die::die;
use crate::errors::give;
use crate::job;
use crate::segments::mapped;
use crate::team::Team;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

const RANK_IS_JOBRANK: u32 = 1 << 17;

/// `gex_AD_t`.
struct Domain {
    tm: *const Team,
    data_type: u32,
    ops: u32,
    flags: u32,
    cdata: AtomicPtr<c_void>,
}

/// Makes a domain; all members of the team call it.
///
/// # Safety
/// A team, and a place for the domain.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_AD_Create(to: *mut *mut Domain, tm: *const Team, data_type: u32, ops: u32, flags: u32) {
    job::check("gex_AD_Create");
    if !matches!(data_type, 0x01 | 0x02 | 0x04 | 0x08 | 0x10 | 0x20) {
        die(&format!("gex_AD_Create: expected a data type of atomics, got {data_type:#x}"));
    }
    let domain = Domain { tm, data_type, ops, flags, cdata: AtomicPtr::new(null_mut()) };
    // SAFETY: the caller's promise.
    unsafe { give(to, Box::into_raw(Box::new(domain))) };
}

/// Ends a domain.
///
/// # Safety
/// A domain.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_AD_Destroy(domain: *mut Domain) {
    job::check("gex_AD_Destroy");
    // SAFETY: the caller's promise; `gex_AD_Create` made it.
    drop(unsafe { Box::from_raw(domain) });
}

/// Where the number of an operation is here.
///
/// # Safety
/// A domain.
#[unsafe(no_mangle)]
unsafe extern "C" fn hamr_gex_ad_at(
    domain: *const Domain,
    data_type: u32,
    rank: u32,
    address: *mut c_void,
    op: u32,
    flags: u32,
) -> *mut u8 {
    const FUNCTION: &str = "gex_AD_Op";
    // SAFETY: the caller's promise.
    let domain = unsafe { &*domain };
    // SAFETY: the domain's team lasts as long (contract of C).
    let tm = unsafe { Team::of(domain.tm) };
    if domain.data_type != data_type || domain.ops & op == 0 || !op.is_power_of_two() {
        die(&format!(
            "{FUNCTION}: expected data type {:#x} and one operation of {:#x}, as at the domain's creation, got {data_type:#x} and {op:#x}",
            domain.data_type, domain.ops
        ));
    }
    let jobrank = if flags & RANK_IS_JOBRANK != 0 { rank } else { tm.jobrank(FUNCTION, rank) };
    let bytes = if matches!(data_type, 0x01 | 0x02 | 0x10) { 4 } else { 8 };
    let of = mapped(jobrank);
    match of.offset(address.addr(), bytes) {
        Some(off) if off.is_multiple_of(bytes as u64) => of.local().wrapping_add(off as usize),
        _ => die(&format!(
            "{FUNCTION}: expected {bytes} aligned bytes in the segment of rank {jobrank}, {:#x} to {:#x}, got {address:p}",
            of.owner(),
            of.owner() + of.size()
        )),
    }
}

macro_rules! queries {
    ($($name:ident($domain:ident $(, $arg:ident: $t:ty)?) -> $r:ty = $value:expr;)*) => {$(
        /// A query of the specification.
        ///
        /// # Safety
        /// A domain.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(domain: *const Domain $(, $arg: $t)?) -> $r {
            // SAFETY: the caller's promise.
            let $domain = unsafe { &*domain };
            $value
        }
    )*};
}
queries! {
    gex_AD_QueryFlags(domain) -> u32 = domain.flags;
    gex_AD_QueryTM(domain) -> *const Team = domain.tm;
    gex_AD_QueryDT(domain) -> u32 = domain.data_type;
    gex_AD_QueryOps(domain) -> u32 = domain.ops;
    gex_AD_SetCData(domain, value: *mut c_void) -> () = domain.cdata.store(value, Relaxed);
    gex_AD_QueryCData(domain) -> *mut c_void = domain.cdata.load(Relaxed);
}
