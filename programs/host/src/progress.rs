//! A line that says how far a run is, on standard error: on a terminal, or where `HAMR_PROGRESS=1` asks for it.

use hamr::Runtime;
use hamr_programs::progress::Watcher;
use std::ffi::OsStr;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

hamr_programs::watched!();

/// A line is on the terminal.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// How reports are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Show {
    /// Each in place of the one before.
    InPlace,
    /// Each in a line.
    Lines,
    Nothing,
}

impl Show {
    fn of(is_terminal: bool, asked: Option<&OsStr>) -> Self {
        match (asked.map(OsStr::as_encoded_bytes), is_terminal) {
            (Some(b"0"), _) | (None, false) => Self::Nothing,
            (_, true) => Self::InPlace,
            (Some(_), false) => Self::Lines,
        }
    }

    fn text(self, done: u32, of: u32) -> String {
        let percent = u64::from(done) * 100 / u64::from(of.max(1));
        match self {
            Self::InPlace => format!("\r\x1b[K{done} of {of} steps, {percent} %"),
            Self::Lines => format!("{done} of {of} steps, {percent} %\n"),
            Self::Nothing => String::new(),
        }
    }
}

/// Shows the reports of this runtime's devices.
pub(crate) fn watch(runtime: &Runtime) {
    let asked = std::env::var_os("HAMR_PROGRESS");
    let show = Show::of(std::io::stderr().is_terminal(), asked.as_deref());
    runtime.provide(Watcher(Box::new(move |done, of| {
        IS_SHOWN.store(show == Show::InPlace, Ordering::Relaxed);
        put(&show.text(done, of));
    })));
}

/// Takes the line off the terminal.
pub(crate) fn end() {
    if IS_SHOWN.swap(false, Ordering::Relaxed) {
        put("\r\x1b[K");
    }
}

/// A standard error that takes nothing loses the line.
fn put(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_shown_on_a_terminal_or_where_it_is_asked_for() {
        assert_eq!(Show::of(true, None).text(50, 200), "\r\x1b[K50 of 200 steps, 25 %");
        assert_eq!(Show::of(false, Some(OsStr::new("1"))).text(0, 0), "0 of 0 steps, 0 %\n");
        assert_eq!(Show::of(false, None).text(50, 200), "");
        assert_eq!(Show::of(true, Some(OsStr::new("0"))), Show::Nothing);
    }
}
