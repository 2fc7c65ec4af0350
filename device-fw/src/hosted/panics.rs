//! The message of the last panic, for the fault that its call is completed with.

use super::runtime::RUNTIME;
use super::trace;
use hamr_comm::fault::{TRACED_TEXT, Trace, cut};
use std::format;
use std::string::{String, ToString};

/// Stores panic messages of this thread instead of printing them: the host gets them in the reply.
/// Those of other threads, which a program may have, are printed as before.
pub(super) fn capture() {
    let dispatcher = std::thread::current().id();
    let print = std::panic::take_hook();
    std::panic::set_hook(std::boxed::Box::new(move |info| {
        if std::thread::current().id() != dispatcher {
            return print(info);
        }
        let text = info.payload_as_str().unwrap_or("panic");
        let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
        // A long message is cut, so that its location fits behind it.
        let (text, mark) = cut(text, TRACED_TEXT.saturating_sub(place.len()));
        let panic = (format!("{text}{mark}{place}"), trace::here());
        if let Ok(mut last) = RUNTIME.last_panic.lock() {
            *last = panic;
        }
    }));
}

/// The message of the panic just caught, and where it was.
pub(super) fn take() -> (String, Trace) {
    let last = RUNTIME.last_panic.lock();
    last.map_or_else(|_| ("panic".to_string(), Trace::NONE), |mut last| core::mem::take(&mut *last))
}
