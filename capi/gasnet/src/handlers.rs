//! Handlers of C programs, and how they are called.
//!
//! Any client handler may be for requests, replies, or both, and is registered when the program likes,
//! where `hamr_gas::Handlers` is one constant whose handlers are for one of them. So the constant has a
//! row per client index and side: request handler 128 + i at 128 + i, reply handler 128 + i at i.

#![expect(unsafe_code)]
// UNSAFETY: C functions are called by pointers, with as many arguments as a message has.

use crate::die::die;
use crate::job::{self, restriction};
use crate::segments::mapped;
use crate::{errors, objects};
use hamr_gas::{Handlers, Kinds, Msg, Token};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// Clients have the indices from here on (`GEX_AM_INDEX_BASE`).
pub(crate) const FIRST: u8 = 128;
/// `gex_AM_MaxArgs`.
pub(crate) const MAX_ARGS: usize = 16;

/// A handler of C, of any type.
pub(crate) type Function = unsafe extern "C" fn();

/// `gex_AM_Entry_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) index: u8,
    pub(crate) function: Option<Function>,
    /// Kinds in bits 0 to 2, sides in bits 3 and 4.
    pub(crate) flags: u32,
    /// [`ANY`]: not known.
    pub(crate) args: c_uint,
    pub(crate) cdata: *const c_void,
    pub(crate) name: *const c_char,
}

/// Arguments of a message that tells the target of a put that it is complete: the library's own, which the
/// handler does not get.
pub(crate) const NOTE_ARGS: [i32; MAX_ARGS] = [0x4e6f_7465; MAX_ARGS];

/// Handlers of `gasnet_attach` state no number of arguments.
pub(crate) const ANY: c_uint = c_uint::MAX;
const REQUEST: u32 = 8;
const REPLY: u32 = 16;

// SAFETY: the library follows none of its pointers; the function is called as the program says.
unsafe impl Send for Entry {}
// SAFETY: as above; it does not change.
unsafe impl Sync for Entry {}

/// By client index. They stay: programs get pointers to them.
static ENTRIES: [OnceLock<Entry>; 128] = [const { OnceLock::new() }; 128];

/// Registers a handler; the highest free index for 0. `Err`: the index is taken, or none is free.
pub(crate) fn register(entry: Entry) -> Result<u8, &'static str> {
    let take = |index: u8, row: &OnceLock<Entry>| row.set(Entry { index, ..entry }).is_ok().then_some(index);
    match entry.index.checked_sub(FIRST) {
        Some(at) => ENTRIES.get(usize::from(at)).and_then(|row| take(entry.index, row)).ok_or("the index is taken"),
        None if entry.index != 0 => Err("an index below 128 is the library's"),
        None => {
            let mut rows = (FIRST..=255).zip(&ENTRIES).rev();
            rows.find_map(|(index, row)| take(index, row)).ok_or("all indices are taken")
        }
    }
}

/// The token of a message (`gex_Token_t`), as long as its handler runs.
pub(crate) struct CToken<'m> {
    pub(crate) source: u32,
    pub(crate) is_request: bool,
    pub(crate) is_long: bool,
    pub(crate) entry: *const Entry,
    /// Of a request without a reply so far.
    pub(crate) reply: Option<Token<'m>>,
}

/// The handlers of all C programs. Their names are equal everywhere.
pub(crate) static TABLE: Handlers<()> = table();

const fn table() -> Handlers<()> {
    let mut table = Handlers::new();
    macro_rules! rows {
        ($($at:literal)*) => {$(
            table = table.request(FIRST + $at, Kinds::ANY, "of C", request::<{ FIRST + $at }>);
            table = table.reply($at, Kinds::ANY, "of C", reply::<{ FIRST + $at }>);
        )*};
    }
    rows! {
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42
        43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82
        83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116
        117 118 119 120 121 122 123 124 125 126 127
    }
    table
}

fn request<const AT: u8>(_: &mut (), message: Msg<'_>, token: Token<'_>) {
    run(AT, message, Some(token));
}

fn reply<const AT: u8>(_: &mut (), message: Msg<'_>) {
    run(AT, message, None);
}

fn run(at: u8, message: Msg<'_>, reply: Option<Token<'_>>) {
    let (source, mut args, mut reply) = (message.source().0, message.args(), reply);
    let landed = message.landed();
    let Some(entry) = ENTRIES.get(usize::from(at - FIRST)).and_then(OnceLock::get) else {
        die(&format!("rank {source} sent a message to handler {at}, which is not registered here"))
    };
    if reply.is_some() && entry.flags & REQUEST == 0 && args == NOTE_ARGS {
        (args, reply) = (&[], None);
    }
    let is_request = reply.is_some();
    let side = if is_request { REQUEST } else { REPLY };
    if entry.flags & side == 0 {
        let text = if is_request { "a request" } else { "a reply" };
        die(&format!("rank {source} sent {text} to handler {at}, which was registered for the other side"));
    }
    if entry.args != ANY && entry.args as usize != args.len() {
        die(&format!(
            "rank {source} sent {} arguments to handler {at}, which was registered for {}",
            args.len(),
            entry.args
        ));
    }
    let (kind, payload) = match (message.kind(), landed) {
        (_, Some(range)) => {
            let mine = mapped(message.me().0);
            let off = range.off.wrapping_sub(mine.off());
            let at = match range.len {
                0 => std::ptr::without_provenance_mut(range.off as usize),
                // The address that the sender gave.
                len if off.checked_add(len).is_some_and(|end| end <= mine.size() as u64) => {
                    std::ptr::with_exposed_provenance_mut(mine.owner() + off as usize)
                }
                len => die(&format!("rank {source} sent {len} bytes to {off:#x} of a segment of {:#x}", mine.size())),
            };
            (4, Some((at, range.len as usize)))
        }
        (Kinds::SHORT, _) => (1, None),
        // The chunk of the request is its sender's again when the reply to it is published, that of a reply when it is released:
        // behind the handler. It may read and write there, as in a segment.
        _ if let Some((at, len)) = message.payload_in_place() => (2, Some((at.as_ptr(), len))),
        _ => {
            let len = message.payload_len();
            let buffer = job::handler_buffer(len);
            // SAFETY: it has that many bytes, and no handler runs that uses them.
            let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, len) };
            message.copy_payload(bytes);
            (2, Some((buffer, len)))
        }
    };
    let is_long = landed.is_some();
    if entry.flags & kind == 0 {
        let text = ["", "a short", "a medium", "", "a long"].get(kind as usize).unwrap_or(&"");
        die(&format!("rank {source} sent {text} message to handler {at}, which was not registered for that kind"));
    }
    let mut token = CToken { source, is_request, is_long, entry, reply };
    let Some(function) = entry.function else { die(&format!("handler {at} was registered without a function")) };
    let bits = if is_request { restriction::REQUEST_HANDLER } else { restriction::REPLY_HANDLER };
    job::restrict(bits);
    call(function, std::ptr::from_mut(&mut token).cast(), payload, args);
    job::lift(bits);
    crate::locks::check_none_held(at);
}

/// Calls a handler with as many arguments as there are.
fn call(function: Function, token: *mut c_void, payload: Option<(*mut u8, usize)>, args: &[i32]) {
    macro_rules! arities {
        ($([$($arg:ident)*])*) => {
            match (payload, args) {
                $((None, &[$($arg),*]) => {
                    // SAFETY: the program registered a function for messages with so many arguments, and without a
                    // payload; the specification fixes its type.
                    let function = unsafe {
                        std::mem::transmute::<Function, unsafe extern "C" fn(*mut c_void $(, arguments!($arg))*)>(function)
                    };
                    // SAFETY: the token lives until the handler returns.
                    unsafe { function(token $(, $arg)*) }
                })*
                $((Some((at, len)), &[$($arg),*]) => {
                    // SAFETY: as above, with a payload.
                    let function = unsafe {
                        std::mem::transmute::<
                            Function,
                            unsafe extern "C" fn(*mut c_void, *mut c_void, usize $(, arguments!($arg))*),
                        >(function)
                    };
                    // SAFETY: as above, and the payload, too.
                    unsafe { function(token, at.cast(), len $(, $arg)*) }
                })*
                (_, more) => die(&format!("expected at most {MAX_ARGS} arguments, got {}", more.len())),
            }
        };
    }
    macro_rules! arguments {
        ($arg:ident) => {
            i32
        };
    }
    arities! {
        [] [a] [a b] [a b c] [a b c d] [a b c d e] [a b c d e f] [a b c d e f g] [a b c d e f g h] [a b c d e f g h i]
        [a b c d e f g h i j] [a b c d e f g h i j k] [a b c d e f g h i j k l] [a b c d e f g h i j k l m]
        [a b c d e f g h i j k l m n] [a b c d e f g h i j k l m n o] [a b c d e f g h i j k l m n o p]
    }
}

/// Registers handlers, at `gex_index` or, for 0, at the highest free index, which is put there.
///
/// # Safety
/// `count` entries at `table`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_EP_RegisterHandlers(_ep: *mut c_void, table: *mut Entry, count: usize) -> c_int {
    if count == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    let table = unsafe { std::slice::from_raw_parts_mut(table, count) };
    register_all(table, |entry| entry.index, |entry| *entry, |entry, index| entry.index = index)
}

/// Those with an index first; then the others.
pub(crate) fn register_all<T>(
    table: &mut [T],
    index: impl Fn(&T) -> u8,
    entry: impl Fn(&T) -> Entry,
    set: impl Fn(&mut T, u8),
) -> c_int {
    for is_fixed in [true, false] {
        for row in table.iter_mut().filter(|row| (index(row) != 0) == is_fixed) {
            match register(entry(row)) {
                Ok(at) => set(row, at),
                Err(why) => {
                    errors::complain(&format!("handler {}: {why}", index(row)));
                    return errors::ERR_BAD_ARG;
                }
            }
        }
    }
    0
}

/// `gex_Token_Info_t`.
#[repr(C)]
struct TokenInfo {
    source: u32,
    ep: *mut c_void,
    entry: *const Entry,
    is_request: u8,
    is_long: u8,
}

/// All that there is to know of a message.
///
/// # Safety
/// The token of a handler that runs, and a structure to write to.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_Token_Info(token: *const CToken<'_>, info: *mut TokenInfo, _mask: c_uint) -> c_uint {
    // SAFETY: the caller's promise.
    let token = unsafe { &*token };
    let (ep, is_request, is_long) = (objects::endpoint(), token.is_request.into(), token.is_long.into());
    // SAFETY: the caller's promise.
    unsafe { info.write(TokenInfo { source: token.source, ep, entry: token.entry, is_request, is_long }) };
    0b11111
}

/// The rank that sent a message.
///
/// # Safety
/// As [`gex_Token_Info`].
#[unsafe(no_mangle)]
unsafe extern "C" fn gasnet_AMGetMsgSource(token: *const CToken<'_>, source: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    let from = unsafe { &*token }.source;
    // SAFETY: the caller's promise.
    unsafe { source.write(from) };
    0
}
