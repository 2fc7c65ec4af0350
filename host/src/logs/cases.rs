//! Log statements for tests and fuzzing, and rings of any bytes.

use super::LogLevel;
use super::string_table::StringTable;
#[cfg(feature = "testing")]
use {super::lines::Decoder, crate::log_ring::Taken};

/// A string table with what a small image would have: statements from 100 on, formats of types
/// below.
pub(super) fn string_table() -> StringTable {
    use LogLevel as L;
    StringTable::with(
        "{=u64:us}",
        &[
            (1, None, "{=u8}"),
            (2, None, "{=f32}"),
            (3, None, "{=str}"),
            (4, None, "{=[?]}"),
            (5, None, "Point|Circle({=f32})|Box {{ w: {=u8}, h: {=?} }}"),
            (6, None, "{=__internal_FormatSequence}"),
            (7, None, "{=?}"),
            (8, None, ""),
            (100, Some(L::TRACE), "nothing"),
            (101, Some(L::INFO), "{} of {=u32:#x}, again {0}"),
            (102, Some(L::ERROR), "{=[u8]:a} {=[u8]:02x} {=i16:x} {=bool} {=char:?} {=f64}"),
            (103, Some(L::DEBUG), "{0=0..4} and {0=8..12:b}, {1:?}"),
            (104, Some(L::WARN), "{} {=__internal_Display} {=[?;2]}"),
        ],
    )
}

/// What a ring brings in pieces, each behind its length and what the device says of it.
#[cfg(feature = "testing")]
pub fn any_ring(bytes: &[u8]) {
    let mut decoder = Decoder::new(string_table(), true);
    let (mut rest, mut events) = (bytes, Vec::new());
    while let [flags, len, made, more @ ..] = rest {
        let (bytes, behind) = more.split_at(usize::from(*len).min(more.len()));
        let made = (flags & 1 != 0).then_some(u32::from(*made));
        let taken = Taken { bytes: bytes.to_vec(), made, overtaken: flags & 2 != 0, impossible: flags & 4 != 0 };
        if flags & 8 != 0 {
            decoder.restart();
        }
        decoder.decode(taken, LogLevel::TRACE, &mut events);
        rest = behind;
    }
    // A piece has frames of at least a byte, and perhaps a loss and an impossible word.
    assert!(events.len() <= 3 * bytes.len());
}
