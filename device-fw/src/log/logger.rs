//! The one logger of an image, behind defmt's macros. Its parent module is the platform that the image runs on.

#![expect(unsafe_code)]
// UNSAFETY: `defmt::Logger` is an unsafe trait, and ids of messages are addresses of symbols (`docs/unsafe.md` "logger").

use super::{Keep, Memory, clock, context};
use crate::log::{Journal, RingWriter};
use hamr_comm::abi::rings::LogLevel;
use hamr_comm::abi::window::Window;
use spin::Mutex;

/// The journal, and whose frame is open in it; 0 nobody's.
pub(super) struct Desk {
    pub(super) owner: usize,
    pub(super) journal: Journal<Keep, Memory>,
}

pub(super) static DESK: Mutex<Desk> = Mutex::new(Desk { owner: 0, journal: Journal::new() });

#[defmt::global_logger]
struct Logger;

// SAFETY: every function takes the lock for itself and leaves the journal in order; a frame of one context ignores the pieces of
// another, so interleaved calls lose lines and corrupt none.
unsafe impl defmt::Logger for Logger {
    fn acquire() {
        context::with(&DESK, |desk| {
            let me = context::id();
            if desk.owner == 0 || desk.owner == me {
                desk.owner = me;
                desk.journal.begin();
            }
        });
    }

    unsafe fn flush() {
        // Whoever reads the ring does so at leisure; waiting for it is what this logger never does.
    }

    unsafe fn release() {
        context::with(&DESK, |desk| {
            if desk.owner == context::id() {
                desk.owner = 0;
                desk.journal.end();
            }
        });
    }

    unsafe fn write(bytes: &[u8]) {
        context::with(&DESK, |desk| {
            if desk.owner == context::id() {
                desk.journal.write(bytes, first_id);
            }
        });
    }
}

defmt::timestamp!("{=u64:us}", clock::now());

// Where each level begins in `.defmt`; the linker script orders it by severity.
unsafe extern "C" {
    static __hamr_log_trace: [u8; 0];
    static __hamr_log_debug: [u8; 0];
    static __hamr_log_info: [u8; 0];
    static __hamr_log_warn: [u8; 0];
    static __hamr_log_error: [u8; 0];
}

/// The smallest id of a message of this level.
fn first_id(level: LogLevel) -> u16 {
    let first = match level {
        LogLevel::ERROR => &raw const __hamr_log_error,
        LogLevel::WARN => &raw const __hamr_log_warn,
        LogLevel::INFO => &raw const __hamr_log_info,
        LogLevel::DEBUG => &raw const __hamr_log_debug,
        _ => &raw const __hamr_log_trace,
    };
    // As defmt makes ids: an address modulo 2^16.
    first.addr() as u16
}

/// Where frames go from now on: the LOG section of a host that was accepted, or this image's own memory.
pub(in super::super) fn attach(section: Option<Window<Keep>>) {
    context::with(&DESK, |desk| desk.journal.attach(section.and_then(RingWriter::new)));
}
