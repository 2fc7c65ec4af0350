//! The board's console and exit, for code that does not know the board: panics, traps. The linker
//! binds them, because both must work wherever a fault happens, also before anything was set up.

use super::{TEXT, Text};
use core::fmt::{self, Write};

unsafe extern "Rust" {
    /// Defined by `image!`: [`super::BareBoard::console`] of its board.
    #[link_name = "__hamr_console"]
    safe fn write(text: &str);
    /// The same for [`super::BareBoard::exit`].
    #[link_name = "__hamr_exit"]
    pub(super) safe fn exit(code: u8) -> !;
}

/// Writes one line; what is longer than a fault's text is cut.
pub(super) fn line(text: fmt::Arguments<'_>) {
    let mut line = Text::<TEXT>::new();
    // Writing to `Text` never fails.
    let _ = line.write_fmt(text);
    write(line.as_str());
    write("\n");
}

/// Writes one line: what happened, and numbers. No formatting of strings, which is large and used
/// nowhere else.
pub(super) fn report(what: &str, numbers: fmt::Arguments<'_>) {
    write("hamr image: ");
    write(what);
    line(numbers);
}
