//! What tasks print. The standard library's macros panic where a stream takes nothing; with these the task goes on and leaves
//! nothing half done. It fails at its end if what it printed was lost, but not if nothing reads it any more (`… | head -3`).

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes a line to standard output.
macro_rules! println {
    () => { $crate::output::print(format_args!("")) };
    ($($line:tt)*) => { $crate::output::print(format_args!($($line)*)) };
}

/// Writes a line to standard error.
macro_rules! eprintln {
    ($($line:tt)*) => { $crate::output::note(format_args!($($line)*)) };
}

/// A line was lost.
static LOST: AtomicBool = AtomicBool::new(false);

pub(crate) fn print(line: Arguments<'_>) {
    let mut out = stdout().lock();
    let written = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
    if written.is_err_and(|e| e.kind() != ErrorKind::BrokenPipe) {
        LOST.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn note(line: Arguments<'_>) {
    let _ = stderr().write_all(format!("{line}\n").as_bytes());
}

/// True if a line for standard output was lost.
pub(crate) fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}
