//! Client and endpoint, of which a process has one each, and queries of bound segments.

#![expect(unsafe_code)]
// UNSAFETY: exported names; C passes pointers to what is to be written.

use crate::die::die;
use crate::errors::{ERR_BAD_ARG, ERR_NOT_INIT, give};
use crate::job;
use crate::segments::{bound, longest, mapped};
use crate::team::{self, Team};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

/// What clients keep in an object.
pub(crate) struct Object {
    flags: AtomicU32,
    cdata: AtomicPtr<c_void>,
}

impl Object {
    const fn new() -> Self {
        Self { flags: AtomicU32::new(0), cdata: AtomicPtr::new(null_mut()) }
    }
    fn handle(&'static self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

static CLIENT: Object = Object::new();
static ENDPOINT: Object = Object::new();
static NAME: OnceLock<CString> = OnceLock::new();

pub(crate) fn client() -> *mut c_void {
    CLIENT.handle()
}
pub(crate) fn endpoint() -> *mut c_void {
    ENDPOINT.handle()
}
pub(crate) fn set_client_flags(flags: u32) {
    CLIENT.flags.store(flags, Relaxed);
}
pub(crate) fn set_client_name(name: &CStr) {
    // It is set once, as the library is.
    let _ = NAME.set(name.to_owned());
}

/// `gasnet_seginfo_t`.
#[repr(C)]
struct Seginfo {
    addr: *mut c_void,
    size: usize,
}

/// The segments of all ranks, as their owners see them.
///
/// # Safety
/// Place for `count` entries.
#[unsafe(no_mangle)]
unsafe extern "C" fn gasnet_getSegmentInfo(table: *mut Seginfo, count: c_int) -> c_int {
    if bound().is_null() {
        return ERR_NOT_INIT;
    }
    for rank in 0..team::size().min(u32::try_from(count).unwrap_or(0)) {
        let from = mapped(rank);
        // SAFETY: the caller's promise; `rank` is below the count.
        let to = unsafe { table.add(rank as usize) };
        // SAFETY: as above.
        unsafe { to.write(Seginfo { addr: std::ptr::with_exposed_provenance_mut(from.owner()), size: from.size() }) };
    }
    0
}

/// `gasnet_nodeinfo_t`.
#[repr(C)]
struct NodeInfo {
    host: u32,
    supernode: u32,
    offset: isize,
}

/// Where all ranks are: on one host, with shared memory. Before there are segments, they are nowhere else than here.
///
/// # Safety
/// Place for `count` entries.
#[unsafe(no_mangle)]
unsafe extern "C" fn gasnet_getNodeInfo(table: *mut NodeInfo, count: c_int) -> c_int {
    let Ok(count) = u32::try_from(count) else { return ERR_BAD_ARG };
    for rank in 0..team::size().min(count) {
        let of = mapped(rank);
        // SAFETY: the caller's promise; `rank` is below the count.
        let to = unsafe { table.add(rank as usize) };
        let offset = of.local().addr().wrapping_sub(of.owner()) as isize;
        // SAFETY: as above.
        unsafe { to.write(NodeInfo { host: 0, supernode: 0, offset }) };
    }
    0
}

/// The objects of this process.
///
/// # Safety
/// Places for handles, or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn gasnet_QueryGexObjects(
    client_p: *mut *mut c_void,
    ep_p: *mut *mut c_void,
    tm_p: *mut *const Team,
    segment_p: *mut *mut c_void,
) {
    // SAFETY: the caller's promise.
    unsafe { give(client_p, client()) };
    // SAFETY: the caller's promise.
    unsafe { give(ep_p, endpoint()) };
    // SAFETY: the caller's promise.
    unsafe { give(tm_p, team::all()) };
    // SAFETY: the caller's promise.
    unsafe { give(segment_p, bound()) };
}

#[unsafe(no_mangle)]
extern "C" fn gasnet_getMaxLocalSegmentSize() -> usize {
    longest() as usize
}
#[unsafe(no_mangle)]
extern "C" fn gasnet_getMaxGlobalSegmentSize() -> usize {
    longest() as usize
}
#[unsafe(no_mangle)]
pub(crate) extern "C" fn gex_Client_QueryFlags(_: *mut c_void) -> u32 {
    CLIENT.flags.load(Relaxed)
}
#[unsafe(no_mangle)]
extern "C" fn gex_Client_QueryName(_: *mut c_void) -> *const c_char {
    NAME.get().map_or(c"".as_ptr(), |name| name.as_ptr())
}
#[unsafe(no_mangle)]
extern "C" fn gex_Segment_QueryClient(_: *mut c_void) -> *mut c_void {
    client()
}
#[unsafe(no_mangle)]
extern "C" fn gex_EP_QueryClient(_: *mut c_void) -> *mut c_void {
    client()
}
#[unsafe(no_mangle)]
extern "C" fn gex_EP_QueryFlags(_: *mut c_void) -> u32 {
    0
}
#[unsafe(no_mangle)]
extern "C" fn gex_EP_QuerySegment(_: *mut c_void) -> *mut c_void {
    bound()
}
#[unsafe(no_mangle)]
extern "C" fn gex_EP_QueryIndex(_: *mut c_void) -> u16 {
    0
}
#[unsafe(no_mangle)]
extern "C" fn gex_EP_QueryCapabilities(_: *mut c_void) -> u32 {
    31
}

macro_rules! cdata {
    ($($object:ident: $set:ident $query:ident;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $set(_: *mut c_void, value: *mut c_void) {
            $object.cdata.store(value, Relaxed);
        }
        #[unsafe(no_mangle)]
        extern "C" fn $query(_: *mut c_void) -> *mut c_void {
            $object.cdata.load(Relaxed)
        }
    )*};
}
cdata! {
    CLIENT: gex_Client_SetCData gex_Client_QueryCData;
    ENDPOINT: gex_EP_SetCData gex_EP_QueryCData;
}

/// Where a segment is, and its bytes: 0 for success.
///
/// # Safety
/// A team, and places for the results or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_Segment_QueryBound(
    tm: *const Team,
    rank: u32,
    owner_p: *mut *mut c_void,
    local_p: *mut *mut u8,
    size_p: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let tm = unsafe { Team::of(tm) };
    let of = mapped(tm.jobrank("gex_Segment_QueryBound", rank));
    if of.size() == 0 {
        return 1;
    }
    // SAFETY: the caller's promise.
    unsafe { give(owner_p, std::ptr::with_exposed_provenance_mut(of.owner())) };
    // SAFETY: the caller's promise.
    unsafe { give(local_p, of.local()) };
    // SAFETY: the caller's promise.
    unsafe { give(size_p, of.size()) };
    0
}

/// The same at once, as an event that has happened; no bytes: there is no segment.
///
/// # Safety
/// As [`gex_Segment_QueryBound`].
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_EP_QueryBoundSegmentNB(
    tm: *const Team,
    rank: u32,
    owner_p: *mut *mut c_void,
    local_p: *mut *mut u8,
    size_p: *mut usize,
    _flags: u32,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    if unsafe { gex_Segment_QueryBound(tm, rank, owner_p, local_p, size_p) } != 0 {
        // SAFETY: the caller's promise.
        unsafe { give(size_p, 0) };
    }
    null_mut()
}

/// Where bytes of a rank's segment are in this process: for the header, which knows by itself where most are.
///
/// # Safety
/// A string of C, and a team.
#[unsafe(no_mangle)]
unsafe extern "C" fn hamr_gex_reach(
    function: *const c_char,
    tm: *const Team,
    rank: u32,
    address: *const c_void,
    bytes: usize,
) -> *mut u8 {
    // SAFETY: the caller's promise.
    let team = unsafe { Team::of(tm) };
    let member = (rank < team.size()).then(|| mapped(team.jobrank("", rank)));
    let off = member.and_then(|of| of.offset(address.addr(), bytes));
    match (job::restriction(), member, off) {
        (0, Some(of), Some(off)) => of.local().wrapping_add(off as usize),
        // Any memory.
        (0, Some(_), None) if bytes == 0 => mapped(0).local(),
        // SAFETY: as above.
        _ => unsafe { hamr_gex_unreached(function, tm, rank, address, bytes) },
    }
}

/// A call that is not allowed now, or leaves the segment.
///
/// # Safety
/// As [`hamr_gex_reach`].
#[cold]
#[unsafe(no_mangle)]
unsafe extern "C" fn hamr_gex_unreached(
    function: *const c_char,
    tm: *const Team,
    rank: u32,
    address: *const c_void,
    bytes: usize,
) -> ! {
    // SAFETY: the caller's promise.
    let function = unsafe { CStr::from_ptr(function) }.to_string_lossy();
    job::check(&function);
    // SAFETY: the caller's promise.
    let jobrank = unsafe { Team::of(tm) }.jobrank(&function, rank);
    let of = mapped(jobrank);
    die(&format!(
        "{function}: expected bytes in the segment of rank {jobrank}, {:#x} to {:#x}, got {bytes} at {address:p}",
        of.owner(),
        of.owner() + of.size()
    ))
}
