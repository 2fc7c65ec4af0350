//! How a rank begins: it meets the others, registers handlers, attaches a segment.

#![expect(unsafe_code)]
// UNSAFETY: exported names; tables and results are memory of C.

use crate::die::die;
use crate::errors::{ERR_BAD_ARG, ERR_NOT_INIT, ERR_RESOURCE, complain, give};
use crate::handlers::{self, ANY, Entry, Function};
use crate::segments::{bound, set_boards, set_limit};
use crate::team::{self, Team};
use crate::{bind, board, job, objects, start};
use hamr_gas::GasError;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static IS_INIT: AtomicBool = AtomicBool::new(false);

/// Meets the other ranks, with messages between them from then on.
///
/// # Safety
/// `mode` is a string of C.
unsafe fn init(mode: *const c_char) -> c_int {
    if !job::is_here() {
        die("expected the thread of main, which is a rank; is the program's main called by another language's start?");
    }
    if IS_INIT.swap(true, Relaxed) {
        complain("the library is initialised already");
        return ERR_RESOURCE;
    }
    job::with_world(|world| {
        set_boards(board::segment_len(world, world.me().0) - board::BYTES);
        // The program may have set it since its ranks have started.
        match start::segment(world.size() as usize) {
            Ok(bytes) => bytes.into_iter().for_each(set_limit),
            Err(why) => die(&why),
        }
    });
    // SAFETY: the caller's promise.
    if unsafe { CStr::from_ptr(mode) } != c"SEQ" {
        job::allow_threads();
    }
    let attached: Result<_, GasError> = job::with_rank("gex_Client_Init", |rank| {
        rank.attach(&handlers::TABLE)?;
        team::begin(rank)?;
        Ok(rank.max_medium())
    });
    match attached {
        Ok(bytes) => {
            job::set_max_medium(bytes);
            0
        }
        Err(why @ GasError::Interrupted(_)) => job::failed("gex_Client_Init", &why),
        Err(why) => {
            complain(&why.to_string());
            ERR_RESOURCE
        }
    }
}

/// `gex_Client_Init`.
///
/// # Safety
/// Strings of C, and places for handles or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn hamr_gex_client_init(
    client_p: *mut *mut c_void,
    ep_p: *mut *mut c_void,
    tm_p: *mut *const Team,
    name: *const c_char,
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    flags: u32,
    mode: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { init(mode) };
    if result != 0 {
        return result;
    }
    objects::set_client_flags(flags);
    if !name.is_null() {
        // SAFETY: the caller's promise.
        let name = unsafe { CStr::from_ptr(name) };
        objects::set_client_name(name);
    }
    // SAFETY: the caller's promise.
    unsafe { give(client_p, objects::client()) };
    // SAFETY: the caller's promise.
    unsafe { give(ep_p, objects::endpoint()) };
    // SAFETY: the caller's promise.
    unsafe { give(tm_p, team::all()) };
    0
}

/// `gasnet_init`.
///
/// # Safety
/// A string of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn hamr_gasnet_init(_argc: *mut c_int, _argv: *mut *mut *mut c_char, mode: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { init(mode) }
}

/// Binds a segment of each rank of the job.
///
/// # Safety
/// A place for the handle, or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_Segment_Attach(segment_p: *mut *mut c_void, _tm: *const Team, size: usize) -> c_int {
    if !IS_INIT.load(Relaxed) {
        return ERR_NOT_INIT;
    }
    if size == 0 {
        complain("gex_Segment_Attach: expected a segment of some pages, got none");
        return ERR_BAD_ARG;
    }
    let result = bind::attach(size);
    if result == 0 {
        // SAFETY: the caller's promise.
        unsafe { give(segment_p, bound()) };
    }
    result
}

/// `gasnet_handlerentry_t`.
#[repr(C)]
struct Entry1 {
    index: u8,
    function: Option<Function>,
}

/// Registers handlers and binds a segment of each rank; all call it.
///
/// # Safety
/// `count` entries at `table`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gasnet_attach(table: *mut Entry1, count: c_int, size: usize, _minheapoffset: usize) -> c_int {
    if !IS_INIT.load(Relaxed) {
        return ERR_NOT_INIT;
    }
    if let Ok(count @ 1..) = usize::try_from(count) {
        // SAFETY: the caller's promise.
        let table = unsafe { std::slice::from_raw_parts_mut(table, count) };
        let (cdata, name) = (std::ptr::null(), std::ptr::null());
        let entry =
            |row: &Entry1| Entry { index: row.index, function: row.function, flags: 31, args: ANY, cdata, name };
        let result = handlers::register_all(table, |row| row.index, entry, |row, at| row.index = at);
        if result != 0 {
            return result;
        }
    }
    bind::attach(size)
}
