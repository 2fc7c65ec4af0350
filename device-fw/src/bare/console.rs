//! The board's console, for code that does not know the board: panics, traps.

use super::BareBoard;
use core::fmt::{self, Write};
use spin::Once;

struct Console {
    write: fn(&str),
    exit: fn(u8) -> !,
}

static CONSOLE: Once<Console> = Once::new();

/// From now on text goes to `B`.
pub(super) fn connect<B: BareBoard>() {
    CONSOLE.call_once(|| Console { write: B::console, exit: B::exit });
}

struct Writer(fn(&str));

impl Write for Writer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        (self.0)(text);
        Ok(())
    }
}

/// Writes one line.
pub(super) fn line(text: fmt::Arguments<'_>) {
    if let Some(console) = CONSOLE.get() {
        // Neither half can fail.
        let _ = Writer(console.write).write_fmt(text);
        (console.write)("\n");
    }
}

/// Writes one line: what happened, and numbers. No formatting of strings, which is large and used nowhere else.
pub(super) fn report(what: &str, numbers: fmt::Arguments<'_>) {
    if let Some(console) = CONSOLE.get() {
        (console.write)("hamr image: ");
        (console.write)(what);
    }
    line(numbers);
}

/// Ends the machine.
pub(super) fn exit(code: u8) -> ! {
    match CONSOLE.get() {
        Some(console) => (console.exit)(code),
        None => loop {
            core::hint::spin_loop();
        },
    }
}
