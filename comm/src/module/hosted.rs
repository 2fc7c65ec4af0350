//! How a module of a process runs its handlers. It has a copy of `std`, whose panics another copy cannot
//! catch: they end here.

use super::{Arguments, Context, Entry, Frame, Reply};
use crate::fault::{TRACED_TEXT, Trace, cut, discard};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use hamr_shared_abi::status::Status;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::Mutex;

static LAST: Mutex<String> = Mutex::new(String::new());

pub(super) fn enter() {
    set_hook(Box::new(|info| {
        let text = info.payload_as_str().unwrap_or("panic");
        let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
        let (text, mark) = cut(text, TRACED_TEXT.saturating_sub(place.len()));
        if let Ok(mut last) = LAST.lock() {
            *last = format!("{text}{mark}{place}");
        }
    }));
}

pub(super) fn run(entry: &'static Entry, cx: &mut Context<'_>, frame: &mut Frame<'_>, args: Arguments<'_>) -> Reply {
    match catch_unwind(AssertUnwindSafe(|| (entry.run)(cx, frame, args))) {
        Ok(reply) => reply,
        Err(payload) => {
            discard(payload);
            let text = LAST.lock().map(|mut last| core::mem::take(&mut *last)).unwrap_or_default();
            frame.traced_fault(Status::PANIC, &text, &Trace::NONE)
        }
    }
}
