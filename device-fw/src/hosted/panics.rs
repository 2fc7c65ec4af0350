//! The message of the last panic, for the fault that its call is completed with.

use super::trace;
use hamr_comm::fault::{TRACED_TEXT, Trace, cut};
use std::format;
use std::string::{String, ToString};
use std::sync::Mutex;

static LAST: Mutex<(String, Trace)> = Mutex::new((String::new(), Trace::NONE));

/// Stores panic messages instead of printing them: the host gets them in the reply.
pub(super) fn capture() {
    std::panic::set_hook(std::boxed::Box::new(|info| {
        let text = info.payload_as_str().unwrap_or("panic");
        let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
        if let Ok(mut last) = LAST.lock() {
            // A long message is cut, so that its location fits behind it.
            let (text, mark) = cut(text, TRACED_TEXT.saturating_sub(place.len()));
            *last = (format!("{text}{mark}{place}"), trace::here());
        }
    }));
}

/// The message of the panic just caught, and where it was.
pub(super) fn take() -> (String, Trace) {
    LAST.lock().map_or_else(|_| ("panic".to_string(), Trace::NONE), |mut last| core::mem::take(&mut *last))
}
