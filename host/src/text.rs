//! A device's text, shown to a reader.

use std::fmt::{self, Write};

/// `text` without what would move a terminal's cursor or begin another line: a replacement
/// character stands for each control character.
pub(crate) struct Clean<'t>(pub(crate) &'t str);

impl fmt::Display for Clean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| f.write_char(if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }))
    }
}
