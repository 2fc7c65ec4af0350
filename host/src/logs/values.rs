//! Decoded arguments as text, by the hints of their formats.

use defmt_parser::{DisplayHint, Fragment, ParserMode, TimePrecision, Type};
use std::fmt::Write;

/// Text of one line; what is longer is cut.
const MAX_TEXT: usize = 16 << 10;

/// One argument.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'b> {
    Bool(bool),
    Char(char),
    Unsigned(u128),
    /// With the bits of its type.
    Signed(i128, u32),
    Single(f32),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// A type's own format, with its values.
    Nested(&'b str, Vec<Value<'b>>),
    /// Elements of a slice.
    List(Vec<Value<'b>>),
    /// What a hand-written implementation wrote, piece by piece.
    Sequence(Vec<Value<'b>>),
}

/// A format with its values.
pub(super) fn text(format: &str, values: &[Value<'_>]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = fill(&mut text, format, values, None);
    text
}

fn fill(to: &mut String, format: &str, values: &[Value<'_>], outer: Option<&DisplayHint>) -> std::fmt::Result {
    let Ok(fragments) = defmt_parser::parse(format, ParserMode::ForwardsCompatible) else { return Ok(()) };
    for fragment in fragments {
        match fragment {
            Fragment::Literal(literal) if to.len() < MAX_TEXT => to.push_str(&literal),
            Fragment::Parameter(p) if to.len() < MAX_TEXT => match values.get(p.index) {
                Some(Value::Unsigned(all)) if matches!(p.ty, Type::BitField(_)) => {
                    bits(to, *all, &p.ty, p.hint.as_ref().or(outer))?;
                }
                // An own hint wins, but for one that only asks for the usual.
                Some(value) => show(to, value, p.hint.as_ref().or(outer))?,
                None => to.push('?'),
            },
            _ => {}
        }
    }
    Ok(())
}

fn bits(to: &mut String, all: u128, ty: &Type, hint: Option<&DisplayHint>) -> std::fmt::Result {
    let Type::BitField(range) = ty else { return Ok(()) };
    let width = u32::from(range.end.saturating_sub(range.start));
    let mask = u128::MAX.checked_shr(128_u32.saturating_sub(width)).unwrap_or(0);
    show(to, &Value::Unsigned(all.checked_shr(range.start.into()).unwrap_or(0) & mask), hint)
}

fn show(to: &mut String, value: &Value<'_>, hint: Option<&DisplayHint>) -> std::fmt::Result {
    match value {
        Value::Bool(v) => write!(to, "{v}"),
        Value::Char(v) if is_debug(hint) => write!(to, "{v:?}"),
        Value::Char(v) => write!(to, "{v}"),
        // Debug, so that a whole number is seen to be floating point.
        Value::Single(v) => write!(to, "{v:?}"),
        Value::Double(v) => write!(to, "{v:?}"),
        Value::Unsigned(v) => unsigned(to, *v, hint),
        Value::Signed(v, width) => signed(to, *v, *width, hint),
        Value::Text(v) if is_debug(hint) => write!(to, "{v:?}"),
        Value::Text(v) => write!(to, "{v}"),
        Value::Bytes(v) => bytes(to, v, hint),
        Value::Nested(format, values) => fill(to, format, values, hint),
        Value::Sequence(parts) => parts.iter().try_for_each(|part| show(to, part, hint)),
        Value::List(parts) => list(to, parts.iter(), |to, part| show(to, part, hint)),
    }
}

fn list<T>(
    to: &mut String,
    parts: impl Iterator<Item = T>,
    mut show: impl FnMut(&mut String, T) -> std::fmt::Result,
) -> std::fmt::Result {
    to.push('[');
    for (i, part) in parts.enumerate() {
        if to.len() >= MAX_TEXT {
            break;
        }
        if i > 0 {
            to.push_str(", ");
        }
        show(to, part)?;
    }
    to.push(']');
    Ok(())
}

fn is_debug(hint: Option<&DisplayHint>) -> bool {
    matches!(hint, Some(DisplayHint::Debug))
}

/// Widths come from formats, which are the image's own; no line needs more.
fn width(zero_pad: usize) -> usize {
    zero_pad.min(140)
}

fn unsigned(to: &mut String, v: u128, hint: Option<&DisplayHint>) -> std::fmt::Result {
    match hint {
        Some(&DisplayHint::NoHint { zero_pad }) => write!(to, "{v:0w$}", w = width(zero_pad)),
        Some(&DisplayHint::Hexadecimal { alternate, uppercase, zero_pad }) => {
            let w = width(zero_pad);
            match (alternate, uppercase) {
                (false, false) => write!(to, "{v:0w$x}"),
                (false, true) => write!(to, "{v:0w$X}"),
                (true, false) => write!(to, "{v:#0w$x}"),
                (true, true) => write!(to, "{v:#0w$X}"),
            }
        }
        Some(&DisplayHint::Octal { alternate: true, zero_pad }) => write!(to, "{v:#0w$o}", w = width(zero_pad)),
        Some(&DisplayHint::Octal { alternate: false, zero_pad }) => write!(to, "{v:0w$o}", w = width(zero_pad)),
        Some(&DisplayHint::Binary { alternate: true, zero_pad }) => write!(to, "{v:#0w$b}", w = width(zero_pad)),
        Some(&DisplayHint::Binary { alternate: false, zero_pad }) => write!(to, "{v:0w$b}", w = width(zero_pad)),
        Some(DisplayHint::Seconds(precision) | DisplayHint::Time(precision)) => match precision {
            TimePrecision::Micros => write!(to, "{}.{:06}", v / 1_000_000, v % 1_000_000),
            TimePrecision::Millis => write!(to, "{}.{:03}", v / 1_000, v % 1_000),
            TimePrecision::Seconds => write!(to, "{v}"),
        },
        _ => write!(to, "{v}"),
    }
}

fn signed(to: &mut String, v: i128, bits: u32, hint: Option<&DisplayHint>) -> std::fmt::Result {
    match hint {
        Some(DisplayHint::Hexadecimal { .. } | DisplayHint::Octal { .. } | DisplayHint::Binary { .. }) => {
            // As Rust shows them: two's complement in the width of the type.
            let unused = 128_u32.saturating_sub(bits);
            unsigned(to, (v as u128) << unused >> unused, hint)
        }
        Some(&DisplayHint::NoHint { zero_pad }) => write!(to, "{v:0w$}", w = width(zero_pad)),
        _ => write!(to, "{v}"),
    }
}

fn bytes(to: &mut String, v: &[u8], hint: Option<&DisplayHint>) -> std::fmt::Result {
    match hint {
        Some(DisplayHint::Ascii) => write!(to, "b\"{}\"", v.escape_ascii()),
        _ => list(to, v.iter(), |to, byte| unsigned(to, u128::from(*byte), hint)),
    }
}
