//! Domains of remote atomics, with the operations of `hamr_gas::AtomicDomain`. They need no lock and no rank, so any thread may
//! call them.

#![expect(unsafe_code)]
// UNSAFETY: domains are pointers in C, as are numbers in segments.

use crate::die::die;
use crate::errors::give;
use crate::job;
use crate::operations::{What, begin_detached};
use crate::segments::mapped;
use crate::team::Team;
use hamr_comm::abi::window::Window;
use hamr_gas::{Amo, Collective, CollectiveCall};
use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

const RANK_IS_JOBRANK: u32 = 1 << 13;

/// `struct hamr_gex_ad` of the header, and behind it what only the library reads.
#[repr(C)]
struct Domain {
    data_type: u32,
    ops: u32,
    /// Of the team, which lasts as long (contract of C).
    jobranks: *const u32,
    size: u32,
    flags: u32,
    tm: *const Team,
    cdata: AtomicPtr<c_void>,
}

const _: () = {
    assert!(offset_of!(Domain, data_type) == 0 && offset_of!(Domain, ops) == 4);
    assert!(offset_of!(Domain, jobranks) == 8 && offset_of!(Domain, size) == 16);
};

/// Makes a domain; all members of the team call it, with the same type and operations, and none waits for another. They are
/// compared when all have come.
///
/// # Safety
/// A team, and a place for the domain.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_AD_Create(to: *mut *mut Domain, tm: *const Team, data_type: u32, ops: u32, flags: u32) {
    const FUNCTION: &str = "gex_AD_Create";
    job::check(FUNCTION);
    if !matches!(data_type, 0x01 | 0x02 | 0x04 | 0x08 | 0x10 | 0x20) {
        die(&format!("{FUNCTION}: expected a data type of atomics, got {data_type:#x}"));
    }
    if data_type >= FLOATS && (ops | ops >> TO_PLAIN) & (AND | OR | XOR) != 0 {
        die(&format!("{FUNCTION}: expected no bitwise operation of data type {data_type:#x}, got {ops:#x}"));
    }
    // SAFETY: the caller's promise.
    let team = unsafe { Team::of(tm) };
    let call = CollectiveCall::new(Collective::Domain, ops as usize, data_type as usize, None);
    begin_detached(FUNCTION, team, What::Meet(call));
    let (jobranks, size) = (team.jobranks(), team.size());
    let domain = Domain { data_type, ops, jobranks, size, flags, tm, cdata: AtomicPtr::new(null_mut()) };
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

/// A number of an operation: where it is in the segment that holds it, as this rank maps it.
fn number(domain: &Domain, data_type: u32, rank: u32, address: *mut c_void, op: u32, flags: u32) -> (Window<()>, u64) {
    const FUNCTION: &str = "gex_AD_Op";
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
    let off = of.offset(address.addr(), bytes).filter(|_| address.addr().is_multiple_of(bytes));
    // The rank's segment of the world begins so many bytes before.
    match (off, NonNull::new(of.local().wrapping_sub(of.off() as usize))) {
        (Some(off), Some(base)) => {
            // SAFETY: a world's segment is at pages, and mapped as long as the process; no reference covers it (contract of C).
            let window = unsafe { Window::new(base, of.off() as usize + of.size(), ()) };
            (window, of.off() + off)
        }
        _ => die(&format!(
            "{FUNCTION}: expected {bytes} aligned bytes in the segment of rank {jobrank}, {:#x} to {:#x}, got {address:p}",
            of.owner(),
            of.owner() + of.size()
        )),
    }
}

const AND: u32 = 1 << 0;
const OR: u32 = 1 << 1;
const XOR: u32 = 1 << 2;
const ADD: u32 = 1 << 3;
const SUB: u32 = 1 << 4;
const MULT: u32 = 1 << 5;
const MIN: u32 = 1 << 6;
const MAX: u32 = 1 << 7;
const INC: u32 = 1 << 8;
const DEC: u32 = 1 << 9;
const SET: u32 = 1 << 10;
const CAS: u32 = 1 << 11;
const GET: u32 = 1 << 27;
/// The first that gives the value before, and how many bits below it is the same without.
const FETCHES: u32 = 1 << TO_PLAIN;
const TO_PLAIN: u32 = 15;
/// `GEX_DT_FLT`.
const FLOATS: u32 = 0x10;

fn operation<T>(op: u32, first: T, second: T) -> Amo<T> {
    match if op < FETCHES || op == GET { op } else { op >> TO_PLAIN } {
        GET => Amo::Get,
        ADD => Amo::Add(first),
        MULT => Amo::Mult(first),
        MIN => Amo::Min(first),
        MAX => Amo::Max(first),
        SUB => Amo::Sub(first),
        INC => Amo::Inc,
        DEC => Amo::Dec,
        AND => Amo::And(first),
        OR => Amo::Or(first),
        XOR => Amo::Xor(first),
        SET if op < FETCHES => Amo::Set(first),
        SET => Amo::Swap(first),
        CAS => Amo::CompareSwap { expected: first, new: second },
        _ => die(&format!("gex_AD_Op: there is no operation {op:#x}")),
    }
}

macro_rules! operations {
    ($($name:ident: $t:ty = $data_type:literal;)*) => {$(
        /// An operation, done when this returns.
        ///
        /// # Safety
        /// A domain; a place for the result of an operation that has one.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            domain: *const Domain,
            result: *mut $t,
            rank: u32,
            address: *mut c_void,
            op: u32,
            first: $t,
            second: $t,
            flags: u32,
        ) {
            // SAFETY: the caller's promise.
            let domain = unsafe { &*domain };
            let (window, off) = number(domain, $data_type, rank, address, op, flags);
            let done = operation(op, first, second).apply_to(|op| window.atomic(off, op));
            let was = done.unwrap_or_else(|why| die(&format!("gex_AD_Op: {why}")));
            if op >= FETCHES {
                // SAFETY: the caller's promise.
                unsafe { give(result, was) };
            }
        }
    )*};
}
operations! {
    hamr_gex_ad_I32: i32 = 0x01;
    hamr_gex_ad_U32: u32 = 0x02;
    hamr_gex_ad_I64: i64 = 0x04;
    hamr_gex_ad_U64: u64 = 0x08;
    hamr_gex_ad_FLT: f32 = 0x10;
    hamr_gex_ad_DBL: f64 = 0x20;
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
