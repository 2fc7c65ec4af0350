//! What is wrong with bytes that are no frame, with field, limit and value.

use super::MOST_TEXT;
use super::phase::{End, Phase};
use std::ops::Range;

/// Why bytes are no frame.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Of a kind that there is not.
    #[error("expected a kind of frame from 1 to 17, got {0}")]
    Kind(u8),
    /// Not now, or not from there.
    #[error("expected no {name} from the {}{}", end(*.from), when(*.phase))]
    Unexpected {
        /// The kind.
        name: &'static str,
        /// Who sent it.
        from: End,
        /// What the connection was at.
        phase: Phase,
    },
    /// Too short or too long for its kind.
    #[error("expected {least} to {most} bytes of {name}, got {got}")]
    Length {
        /// The kind.
        name: &'static str,
        /// Bytes that it has at least,
        least: usize,
        /// at most,
        most: usize,
        /// and here.
        got: usize,
    },
    /// A value that its field does not have.
    #[error("expected {field} of {name} to be at most {most}, got {got}")]
    Value {
        /// The kind.
        name: &'static str,
        /// The field.
        field: &'static str,
        /// Its highest value.
        most: u64,
        /// What it was.
        got: u64,
    },
    /// Bytes that are to be zero.
    #[error("expected zero in the reserved bytes of {name} ({field}), got something else")]
    Reserved {
        /// The kind.
        name: &'static str,
        /// Where.
        field: &'static str,
    },
    /// Not the first bytes of a connection.
    #[error("expected {name} to begin with HAMRNET1, got other bytes")]
    Magic {
        /// The kind.
        name: &'static str,
    },
    /// Too long, no UTF-8, or with control characters.
    #[error(
        "expected at most {MOST_TEXT} bytes of UTF-8 without control characters as a text of {name}, got other bytes"
    )]
    Text {
        /// The kind.
        name: &'static str,
    },
    /// A range that is not the peer's.
    #[error("expected a range of {name} inside of {what}, {:#x} to {:#x}, got {len} bytes at {off:#x}", .within.start, .within.end)]
    Range {
        /// The kind.
        name: &'static str,
        /// What the range is to be in.
        what: &'static str,
        /// Where that is.
        within: Range<u64>,
        /// Beginning of the range.
        off: u64,
        /// Its length.
        len: u64,
    },
}

fn end(end: End) -> &'static str {
    if end == End::Host { "host" } else { "server" }
}

fn when(phase: Phase) -> &'static str {
    match phase {
        Phase::Opening => " before the connection is granted",
        Phase::Messages => " on a connection for messages",
        Phase::Transfers => " on a connection for transfers",
    }
}
