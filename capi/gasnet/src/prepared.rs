//! Messages whose payload is negotiated: prepared, filled, committed.

#![expect(unsafe_code)]
// UNSAFETY: prepared messages are pointers in C.

use crate::die::die;
use crate::handlers::CToken;
use crate::job::{self, restriction};
use crate::messages::{
    self, check_args, hamr_gex_reply_long, hamr_gex_reply_medium, hamr_gex_request_long, hamr_gex_request_medium,
};
use crate::progress;
use crate::segments::max_long;
use crate::team::Team;
use hamr_comm::world::RankId;
use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

/// `GEX_EVENT_NOW`.
const NOW: *mut *mut c_void = std::ptr::without_provenance_mut(1);

/// `gex_AM_SrcDesc_t`.
pub(crate) struct Prepared {
    at: *mut c_void,
    len: usize,
    /// The payload, where the program has none; aligned for any type.
    _own: Vec<u128>,
    /// Where a long one goes, if that was said.
    target: *mut c_void,
    to: To,
    lc_opt: *mut *mut c_void,
    args: c_uint,
}

#[derive(Clone, Copy)]
enum To {
    Rank(*const Team, u32),
    Token(*mut CToken<'static>),
}

std::thread_local! {
    /// The request whose commit was refused, until it is committed or cancelled, or another is prepared. Replies, which a
    /// handler may prepare meanwhile, are never refused.
    static REFUSED: Cell<*mut Prepared> = const { Cell::new(null_mut()) };
}

/// The program may try again, give it up, or forget it.
fn keep(message: Box<Prepared>) {
    REFUSED.set(Box::into_raw(message));
}

fn forget() {
    let message = REFUSED.replace(null_mut());
    if !message.is_null() {
        // SAFETY: `keep` has made it of a box, and `take`, which takes it, too, clears this.
        drop(unsafe { Box::from_raw(message) });
    }
}

/// What all four calls have in common.
struct Wish {
    function: &'static str,
    is_long: bool,
    buffer: *const c_void,
    least: usize,
    most: usize,
    target: *mut c_void,
    lc_opt: *mut *mut c_void,
    flags: u32,
    args: c_uint,
}

fn prepare(to: To, wish: Wish) -> *mut Prepared {
    let Wish { function, is_long, buffer, least, most, target, lc_opt, flags, args } = wish;
    match to {
        To::Rank(..) => job::check(function),
        To::Token(_) if job::restriction() & (restriction::LOCK | restriction::PREPARED) != 0 => job::check(function),
        To::Token(_) => {}
    }
    check_args(function, args);
    let max = if is_long { max_long() } else { messages::max_medium() };
    if least > max || most < least {
        die(&format!("{function}: expected a payload of at most {max} bytes, got {least} to {most}"));
    }
    let len = most.min(max);
    let mut own = Vec::new();
    let (at, lc_opt) = match buffer.is_null() {
        true if !lc_opt.is_null() => {
            die(&format!("{function}: expected NULL for the event of a buffer of the library"))
        }
        true => {
            // The system gives it no memory before it is written.
            own = vec![0u128; len.div_ceil(size_of::<u128>()).max(1)];
            (own.as_mut_ptr().cast(), NOW)
        }
        false => (buffer.cast_mut(), lc_opt),
    };
    if let To::Rank(tm, rank) = to {
        // SAFETY: a team (contract of C).
        let rank = RankId(unsafe { Team::of(tm) }.jobrank(function, rank));
        let has_room = job::with_rank(function, |gas| gas.has_room(rank));
        let has_room = has_room.unwrap_or_else(|why| job::failed(function, &why));
        if flags & messages::IMMEDIATE != 0 && !has_room {
            return null_mut();
        }
        forget();
    }
    job::restrict(restriction::PREPARED);
    Box::into_raw(Box::new(Prepared { at, len, _own: own, target, to, lc_opt, args }))
}

/// A medium request.
///
/// # Safety
/// A team; `most` bytes at `buffer`, or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_AM_PrepareRequestMedium(
    tm: *const Team,
    rank: u32,
    buffer: *const c_void,
    least: usize,
    most: usize,
    lc_opt: *mut *mut c_void,
    flags: u32,
    args: c_uint,
) -> *mut Prepared {
    let function = "gex_AM_PrepareRequestMedium";
    prepare(
        To::Rank(tm, rank),
        Wish { function, is_long: false, buffer, least, most, target: null_mut(), lc_opt, flags, args },
    )
}

/// A long request.
///
/// # Safety
/// As [`gex_AM_PrepareRequestMedium`].
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_AM_PrepareRequestLong(
    tm: *const Team,
    rank: u32,
    buffer: *const c_void,
    least: usize,
    most: usize,
    target: *mut c_void,
    lc_opt: *mut *mut c_void,
    flags: u32,
    args: c_uint,
) -> *mut Prepared {
    let function = "gex_AM_PrepareRequestLong";
    prepare(To::Rank(tm, rank), Wish { function, is_long: true, buffer, least, most, target, lc_opt, flags, args })
}

/// A medium reply.
///
/// # Safety
/// The token of a handler that runs; `most` bytes at `buffer`, or NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_AM_PrepareReplyMedium(
    token: *mut CToken<'static>,
    buffer: *const c_void,
    least: usize,
    most: usize,
    lc_opt: *mut *mut c_void,
    flags: u32,
    args: c_uint,
) -> *mut Prepared {
    let function = "gex_AM_PrepareReplyMedium";
    prepare(
        To::Token(token),
        Wish { function, is_long: false, buffer, least, most, target: null_mut(), lc_opt, flags, args },
    )
}

/// A long reply.
///
/// # Safety
/// As [`gex_AM_PrepareReplyMedium`].
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_AM_PrepareReplyLong(
    token: *mut CToken<'static>,
    buffer: *const c_void,
    least: usize,
    most: usize,
    target: *mut c_void,
    lc_opt: *mut *mut c_void,
    flags: u32,
    args: c_uint,
) -> *mut Prepared {
    let function = "gex_AM_PrepareReplyLong";
    prepare(To::Token(token), Wish { function, is_long: true, buffer, least, most, target, lc_opt, flags, args })
}

/// Where its payload goes.
///
/// # Safety
/// A prepared message.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_AM_SrcDescAddr(message: *const Prepared) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { &*message }.at
}

/// How long that may be.
///
/// # Safety
/// A prepared message.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_AM_SrcDescSize(message: *const Prepared) -> usize {
    // SAFETY: the caller's promise.
    unsafe { &*message }.len
}

/// The message is used up.
///
/// # Safety
/// A prepared message.
unsafe fn take(function: &str, message: *mut Prepared, len: usize, count: c_uint) -> Box<Prepared> {
    if message.is_null() {
        die(&format!("{function}: expected a prepared message, got GEX_AM_SRCDESC_NO_OP"));
    }
    if message == REFUSED.get() {
        REFUSED.set(null_mut());
    }
    // SAFETY: the caller's promise; `prepare` made it.
    let message = unsafe { Box::from_raw(message) };
    if len > message.len || count != message.args {
        die(&format!(
            "{function}: expected at most {} bytes and {} arguments, as prepared, got {len} and {count}",
            message.len, message.args
        ));
    }
    job::lift(restriction::PREPARED);
    message
}

/// A target that was said when a message was prepared is that of its commit.
fn check_target(function: &str, said: *mut c_void, target: *mut c_void) {
    if !said.is_null() && said != target {
        die(&format!("{function}: expected the destination of the prepared message, {said:p}, got {target:p}"));
    }
}

macro_rules! commits {
    ($($name:ident $function:literal $medium_or_long:ident $($target:ident)?;)*) => {$(
        /// Sends a prepared message: room may be gone since then. 1: it would have waited, and may not
        /// (`GEX_FLAG_IMMEDIATE` in `flags`).
        ///
        /// # Safety
        /// A prepared message of this kind, and `count` arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            message: *mut Prepared,
            handler: u8,
            len: usize,
            $($target: *mut c_void,)?
            flags: u32,
            count: c_uint,
            args: *const i32,
        ) -> c_int {
            // SAFETY: the caller's promise.
            let message = unsafe { take($function, message, len, count) };
            let Prepared { at, to, lc_opt, .. } = *message;
            $(check_target($function, message.target, $target);)?
            let result = match to {
                // SAFETY: what the program has prepared, and passes here.
                To::Rank(tm, rank) => unsafe {
                    commits!(@rank $medium_or_long)(tm, rank, handler, at, len, $($target,)? lc_opt, flags, count, args)
                },
                // SAFETY: as above.
                To::Token(token) => unsafe {
                    commits!(@token $medium_or_long)(token, handler, at, len, $($target,)? lc_opt, flags, count, args)
                },
            };
            if result != 0 {
                keep(message);
                // A program may do nothing else until there is room, so that comes from here.
                progress::poll($function);
            }
            result
        }
    )*};
    (@rank medium) => { hamr_gex_request_medium };
    (@rank long) => { hamr_gex_request_long };
    (@token medium) => { hamr_gex_reply_medium };
    (@token long) => { hamr_gex_reply_long };
}
commits! {
    hamr_gex_commit_request_medium "gex_AM_CommitRequestMedium" medium;
    hamr_gex_commit_request_long "gex_AM_CommitRequestLong" long target;
    hamr_gex_commit_reply_medium "gex_AM_CommitReplyMedium" medium;
    hamr_gex_commit_reply_long "gex_AM_CommitReplyLong" long target;
}

macro_rules! cancels {
    ($($name:ident $function:literal;)*) => {$(
        /// Sends nothing.
        ///
        /// # Safety
        /// A prepared message.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(message: *mut Prepared, _flags: u32) -> c_int {
            let args = match message.is_null() {
                true => 0,
                // SAFETY: the caller's promise.
                false => unsafe { &*message }.args,
            };
            // SAFETY: the caller's promise.
            let _ = unsafe { take($function, message, 0, args) };
            0
        }
    )*};
}
cancels! {
    gex_AM_CancelRequestMedium "gex_AM_CancelRequestMedium";
    gex_AM_CancelRequestLong "gex_AM_CancelRequestLong";
    gex_AM_CancelReplyMedium "gex_AM_CancelReplyMedium";
    gex_AM_CancelReplyLong "gex_AM_CancelReplyLong";
}
