//! The message of the last panic, for the fault that answers its call.

use std::format;
use std::string::{String, ToString};
use std::sync::Mutex;

static LAST: Mutex<String> = Mutex::new(String::new());

/// Keeps panic messages instead of printing them: the host is who wants to know.
pub(super) fn capture() {
    std::panic::set_hook(std::boxed::Box::new(|info| {
        let text = info.payload_as_str().unwrap_or("panic");
        let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
        if let Ok(mut last) = LAST.lock() {
            *last = format!("{text}{place}");
        }
    }));
}

/// The message of the panic just caught.
pub(super) fn take() -> String {
    LAST.lock().map_or_else(|_| "panic".to_string(), |mut last| core::mem::take(&mut *last))
}
