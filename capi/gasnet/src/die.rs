//! The end of a process that was used wrongly, or whose job ends.

#![expect(unsafe_code)]
// UNSAFETY: functions of the C library.

use std::io::Write;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::time::Duration;

/// How long what the program has printed may take to be written, at the end of a process that was used wrongly.
const LONGEST: Duration = Duration::from_secs(2);

/// `rank 1 of 4`.
static NAME: OnceLock<String> = OnceLock::new();

pub(crate) fn set_name(rank: u32, size: u32) {
    // It is set once, where the rank begins.
    let _ = NAME.set(format!("rank {rank} of {size}"));
}

/// This process in messages.
pub(crate) fn name() -> &'static str {
    NAME.get().map_or("hamr", String::as_str)
}

/// One sentence, and an abort.
#[cold]
#[inline(never)]
pub(crate) fn die(why: &str) -> ! {
    let line = format!("*** FATAL ERROR ({}): {why}", name());
    // Nothing may read what the program has printed, or a thread may wait for input with its stream locked.
    let late = line.clone();
    let guard = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(LONGEST);
        abort(&late)
    });
    if guard.is_ok() {
        flush();
    }
    abort(&line)
}

fn abort(line: &str) -> ! {
    say(line);
    // SAFETY: the function takes nothing.
    unsafe { libc::abort() }
}

/// Writes a line at once: other ranks have the same terminal.
pub(crate) fn say(line: &str) {
    // There is no other place to report to.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// The job is ending, and this process with it.
#[cold]
pub(crate) fn ended() -> ! {
    flush();
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Writes what the program has printed.
pub(crate) fn flush() {
    // SAFETY: NULL stands for all streams.
    unsafe { libc::fflush(null_mut()) };
}
