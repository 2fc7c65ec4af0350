//! Requests and replies of any number of arguments, and their limits.

#![expect(unsafe_code)]
// UNSAFETY: payloads and arguments are pointers of C.

use crate::die::die;
use crate::handlers::{CToken, FIRST, MAX_ARGS};
use crate::job;
use crate::progress;
use crate::segments::{mapped, max_long};
use crate::team::Team;
use hamr_comm::world::RankId;
use hamr_gas::GasError;
use std::ffi::{c_int, c_uint, c_void};

/// `GEX_FLAG_IMMEDIATE`.
pub(crate) const IMMEDIATE: u32 = 1;
/// `GEX_EVENT_GROUP`: the last of the constants that stand in the place of a pointer to an event.
const LAST_CONSTANT: usize = 3;

/// A message's payload, of C, for the time of the call.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    Short,
    Medium(&'a [u8]),
    /// With its address at the target.
    Long(&'a [u8], usize),
}

/// A number of arguments of a message.
pub(crate) fn check_args(function: &str, count: c_uint) -> usize {
    match count as usize {
        count @ ..=MAX_ARGS => count,
        count => die(&format!("{function}: expected at most {} arguments, got {count}", MAX_ARGS)),
    }
}

/// Bytes of the program.
///
/// # Safety
/// `len` bytes at `at`, which do not change during the call.
pub(crate) unsafe fn bytes<'a>(at: *const c_void, len: usize) -> &'a [u8] {
    match len {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(at.cast(), len) },
    }
}

/// The arguments of a message.
///
/// # Safety
/// `count` arguments at `args`.
pub(crate) unsafe fn arguments<'a>(function: &str, count: c_uint, args: *const i32) -> &'a [i32] {
    match check_args(function, count) {
        0 => &[],
        // SAFETY: the caller's promise.
        count => unsafe { std::slice::from_raw_parts(args, count) },
    }
}

/// The payload is free when a call returns, so its event has happened.
///
/// # Safety
/// A constant of the specification, or a place for an event.
pub(crate) unsafe fn leaf(lc_opt: *mut *mut c_void) {
    if lc_opt.addr() > LAST_CONSTANT {
        // SAFETY: the caller's promise.
        unsafe { lc_opt.write(std::ptr::null_mut()) };
    }
}

/// Where a long payload goes in a rank's segment; without bytes the address itself.
fn destination(function: &str, to: u32, data: &[u8], address: usize) -> u64 {
    if data.is_empty() {
        return address as u64;
    }
    let of = mapped(to);
    of.offset(address, data.len()).map(|off| of.off() + off).unwrap_or_else(|| {
        die(&format!(
            "{function}: expected a destination in the segment of rank {to}, {:#x} to {:#x}, got {} bytes at {address:#x}",
            of.owner(),
            of.owner() + of.size(),
            data.len()
        ))
    })
}

fn check_medium(function: &str, data: &[u8]) {
    let max = max_medium();
    if data.len() > max {
        die(&format!("{function}: expected a payload of at most {max} bytes, got {}", data.len()));
    }
}

fn check_long(function: &str, data: &[u8]) {
    if data.len() > max_long() {
        die(&format!("{function}: expected at most {} bytes, got {}", max_long(), data.len()));
    }
}

/// Sends a request. 1: it would have waited, and may not. A copy for each category.
#[inline(always)]
pub(crate) fn request(
    function: &str,
    tm: &Team,
    rank: u32,
    handler: u8,
    payload: Payload<'_>,
    flags: u32,
    args: &[i32],
) -> c_int {
    let to = RankId(tm.jobrank(function, rank));
    if handler < FIRST {
        die(&format!("{function}: expected a handler of 128 to 255, got {handler}"));
    }
    loop {
        let is_sent = job::with_rank(function, |gas| {
            let sent = match payload {
                Payload::Short => gas.try_request_short(to, handler, args),
                Payload::Medium(data) => {
                    check_medium(function, data);
                    gas.try_request_medium(to, handler, args, data)
                }
                Payload::Long(data, at) => {
                    check_long(function, data);
                    gas.try_request_long(to, handler, args, data, destination(function, to.0, data, at))
                }
            };
            match sent {
                Ok(()) => true,
                Err(GasError::Busy) => false,
                Err(why) => job::failed(function, &why),
            }
        });
        if is_sent {
            return 0;
        }
        if flags & IMMEDIATE != 0 {
            return 1;
        }
        // Other threads may use the library between two polls.
        progress::poll_idle(function);
    }
}

/// Makes the one reply to a request.
pub(crate) fn reply(function: &str, token: &mut CToken<'_>, handler: u8, payload: Payload<'_>, args: &[i32]) -> c_int {
    if job::restriction() & (job::restriction::LOCK | job::restriction::PREPARED) != 0 {
        job::check(function);
    }
    if handler < FIRST {
        die(&format!("{function}: expected a handler of 128 to 255, got {handler}"));
    }
    let Some(reply) = token.reply.take() else {
        match token.is_request {
            true => die(&format!("{function}: the handler has replied already")),
            false => die(&format!("{function}: a handler of a reply may not reply")),
        }
    };
    let at = handler - FIRST;
    match payload {
        Payload::Short => reply.reply_short(at, args),
        Payload::Medium(data) => {
            check_medium(function, data);
            reply.reply_medium(at, args, data);
        }
        Payload::Long(data, address) => {
            check_long(function, data);
            reply.reply_long(at, args, data, destination(function, token.source, data, address));
        }
    }
    0
}

/// A short request.
///
/// # Safety
/// A team, and `count` arguments.
#[unsafe(no_mangle)]
unsafe extern "C" fn hamr_gex_request_short(
    tm: *const Team,
    rank: u32,
    handler: u8,
    flags: u32,
    count: c_uint,
    args: *const i32,
) -> c_int {
    const FUNCTION: &str = "gex_AM_RequestShort";
    // SAFETY: the caller's promise.
    let tm = unsafe { Team::of(tm) };
    // SAFETY: the caller's promise.
    let args = unsafe { arguments(FUNCTION, count, args) };
    request(FUNCTION, tm, rank, handler, Payload::Short, flags, args)
}

/// A medium request.
///
/// # Safety
/// A team, `len` bytes, `count` arguments, and a constant or place for an event.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hamr_gex_request_medium(
    tm: *const Team,
    rank: u32,
    handler: u8,
    source: *const c_void,
    len: usize,
    lc_opt: *mut *mut c_void,
    flags: u32,
    count: c_uint,
    args: *const i32,
) -> c_int {
    const FUNCTION: &str = "gex_AM_RequestMedium";
    // SAFETY: the caller's promise.
    let tm = unsafe { Team::of(tm) };
    // SAFETY: the caller's promise.
    let args = unsafe { arguments(FUNCTION, count, args) };
    // SAFETY: the caller's promise.
    let data = unsafe { bytes(source, len) };
    let result = request(FUNCTION, tm, rank, handler, Payload::Medium(data), flags, args);
    // SAFETY: the caller's promise.
    unsafe { leaf(lc_opt) };
    result
}

/// A long request.
///
/// # Safety
/// As [`hamr_gex_request_medium`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hamr_gex_request_long(
    tm: *const Team,
    rank: u32,
    handler: u8,
    source: *const c_void,
    len: usize,
    target: *mut c_void,
    lc_opt: *mut *mut c_void,
    flags: u32,
    count: c_uint,
    args: *const i32,
) -> c_int {
    const FUNCTION: &str = "gex_AM_RequestLong";
    // SAFETY: the caller's promise.
    let tm = unsafe { Team::of(tm) };
    // SAFETY: the caller's promise.
    let args = unsafe { arguments(FUNCTION, count, args) };
    // SAFETY: the caller's promise.
    let data = unsafe { bytes(source, len) };
    let result = request(FUNCTION, tm, rank, handler, Payload::Long(data, target.addr()), flags, args);
    // SAFETY: the caller's promise.
    unsafe { leaf(lc_opt) };
    result
}

/// A short reply.
///
/// # Safety
/// The token of a handler that runs, and `count` arguments.
#[unsafe(no_mangle)]
unsafe extern "C" fn hamr_gex_reply_short(
    token: *mut CToken<'_>,
    handler: u8,
    _flags: u32,
    count: c_uint,
    args: *const i32,
) -> c_int {
    const FUNCTION: &str = "gex_AM_ReplyShort";
    // SAFETY: the caller's promise.
    let token = unsafe { &mut *token };
    // SAFETY: the caller's promise.
    let args = unsafe { arguments(FUNCTION, count, args) };
    reply(FUNCTION, token, handler, Payload::Short, args)
}

/// A medium reply.
///
/// # Safety
/// The token of a handler that runs, `len` bytes, `count` arguments, and a constant or place for an event.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hamr_gex_reply_medium(
    token: *mut CToken<'_>,
    handler: u8,
    source: *const c_void,
    len: usize,
    lc_opt: *mut *mut c_void,
    _flags: u32,
    count: c_uint,
    args: *const i32,
) -> c_int {
    const FUNCTION: &str = "gex_AM_ReplyMedium";
    // SAFETY: the caller's promise.
    let token = unsafe { &mut *token };
    // SAFETY: the caller's promise.
    let args = unsafe { arguments(FUNCTION, count, args) };
    // SAFETY: the caller's promise.
    let data = unsafe { bytes(source, len) };
    // SAFETY: the caller's promise.
    unsafe { leaf(lc_opt) };
    reply(FUNCTION, token, handler, Payload::Medium(data), args)
}

/// A long reply.
///
/// # Safety
/// As [`hamr_gex_reply_medium`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hamr_gex_reply_long(
    token: *mut CToken<'_>,
    handler: u8,
    source: *const c_void,
    len: usize,
    target: *mut c_void,
    lc_opt: *mut *mut c_void,
    _flags: u32,
    count: c_uint,
    args: *const i32,
) -> c_int {
    const FUNCTION: &str = "gex_AM_ReplyLong";
    // SAFETY: the caller's promise.
    let token = unsafe { &mut *token };
    // SAFETY: the caller's promise.
    let args = unsafe { arguments(FUNCTION, count, args) };
    // SAFETY: the caller's promise.
    let data = unsafe { bytes(source, len) };
    // SAFETY: the caller's promise.
    unsafe { leaf(lc_opt) };
    reply(FUNCTION, token, handler, Payload::Long(data, target.addr()), args)
}

/// The longest medium payload: a rank learns it when it begins.
pub(crate) fn max_medium() -> usize {
    job::max_medium()
}

#[unsafe(no_mangle)]
extern "C" fn gex_AM_MaxArgs() -> c_uint {
    MAX_ARGS as c_uint
}

/// Limits are the same for all ranks and numbers of arguments.
macro_rules! limits {
    ($($name:ident($($t:ty),*) = $value:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($(_: $t),*) -> usize {
            $value
        }
    )*};
}
limits! {
    gex_AM_MaxRequestLong(*const Team, u32, *const c_void, u32, c_uint) = max_long();
    gex_AM_MaxReplyLong(*const Team, u32, *const c_void, u32, c_uint) = max_long();
    gex_AM_MaxRequestMedium(*const Team, u32, *const c_void, u32, c_uint) = max_medium();
    gex_AM_MaxReplyMedium(*const Team, u32, *const c_void, u32, c_uint) = max_medium();
    gex_Token_MaxReplyLong(*const c_void, *const c_void, u32, c_uint) = max_long();
    gex_Token_MaxReplyMedium(*const c_void, *const c_void, u32, c_uint) = max_medium();
    gex_AM_LUBRequestLong() = max_long();
    gex_AM_LUBReplyLong() = max_long();
    gex_AM_LUBRequestMedium() = max_medium();
    gex_AM_LUBReplyMedium() = max_medium();
    gasnet_AMMaxArgs() = MAX_ARGS;
    gasnet_AMMaxMedium() = max_medium();
    gasnet_AMMaxLongRequest() = max_long();
    gasnet_AMMaxLongReply() = max_long();
}
