//! Decodes a frame to a log line: defmt's wire format, version 4. A frame is the id of a statement,
//! the time, the arguments.
//!
//! The bytes are a device's, so nothing in them decides how much is done: depth, number of values
//! and length of text are bounded here, and what goes beyond is malformed.

use super::LogLine;
use super::string_table::{Entry, StringTable};
use super::values::{self, Value};
use defmt_parser::{DisplayHint, Fragment, Parameter, ParserMode, TimePrecision, Type};

/// Formats inside of formats.
const MAX_DEPTH: u32 = 32;
/// Values of one frame, those without bytes of their own included.
const MAX_VALUES: u32 = 4096;

/// Bytes that are no frame of this image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MalformedFrame;

impl StringTable {
    /// The line that a decoded frame stands for.
    pub(super) fn line(&self, frame: &[u8]) -> Result<LogLine, MalformedFrame> {
        let mut reader = Reader { string_table: self, rest: frame, values_left: MAX_VALUES };
        let entry = self.get(reader.number::<2>()? as u16).filter(|e| e.is_statement).ok_or(MalformedFrame)?;
        let time_us = match &self.time {
            Some(format) => micros(format, &reader.values(format, 0)?),
            None => None,
        };
        let values = reader.values(&entry.format, 0)?;
        let Entry { level, format, crate_name, location, .. } = entry;
        let (file, line, module) = match location {
            Some(p) => (p.file.clone(), p.line, p.module.clone()),
            None => (String::new(), 0, crate_name.clone()),
        };
        Ok(LogLine { level: *level, time_us, module, message: values::text(format, &values), file, line })
    }
}

/// A time in microseconds, when the format names the unit of its number.
fn micros(format: &str, values: &[Value<'_>]) -> Option<u64> {
    let fragments = defmt_parser::parse(format, ParserMode::ForwardsCompatible).ok()?;
    let hint = fragments.into_iter().find_map(|f| match f {
        Fragment::Parameter(p) => p.hint,
        Fragment::Literal(_) => None,
    });
    let &[Value::Unsigned(number)] = values else { return None };
    let scale = match hint? {
        DisplayHint::Seconds(precision) | DisplayHint::Time(precision) => match precision {
            TimePrecision::Micros => 1,
            TimePrecision::Millis => 1_000,
            TimePrecision::Seconds => 1_000_000,
        },
        _ => return None,
    };
    u64::try_from(number.checked_mul(scale)?).ok()
}

struct Reader<'b, 'f> {
    string_table: &'b StringTable,
    rest: &'f [u8],
    values_left: u32,
}

impl<'b> Reader<'b, '_> {
    fn bytes(&mut self, len: usize) -> Result<&[u8], MalformedFrame> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(MalformedFrame)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A little-endian number of N bytes.
    fn number<const N: usize>(&mut self) -> Result<u128, MalformedFrame> {
        Ok(self.bytes(N)?.iter().rev().fold(0, |n, byte| n << 8 | u128::from(*byte)))
    }

    /// The same, with a sign.
    fn signed<const N: usize>(&mut self) -> Result<i128, MalformedFrame> {
        let unused = 128 - 8 * N as u32;
        Ok((self.number::<N>()? as i128) << unused >> unused)
    }

    fn length(&mut self) -> Result<usize, MalformedFrame> {
        // Lengths have 32 bits on every target.
        Ok(self.number::<4>()? as usize)
    }

    /// The text of an id that is no statement's.
    fn interned(&mut self) -> Result<&'b str, MalformedFrame> {
        let id = self.number::<2>()? as u16;
        let entry = self.string_table.get(id).filter(|e| !e.is_statement).ok_or(MalformedFrame)?;
        Ok(&entry.format)
    }

    /// Of an enum's format, `A|B({=u8})`, the variant that comes; of any other, all of it.
    fn variant(&mut self, format: &'b str) -> Result<&'b str, MalformedFrame> {
        let bars = format.matches('|').count();
        let index = match bars {
            0 => return Ok(format),
            1..=0xFF => self.number::<1>()?,
            0x100..=0xFFFF => self.number::<2>()?,
            _ => self.number::<4>()?,
        };
        format.split('|').nth(usize::try_from(index).map_err(|_| MalformedFrame)?).ok_or(MalformedFrame)
    }

    /// The values that a format has parameters for, in the order of their indices.
    fn values(&mut self, format: &str, depth: u32) -> Result<Vec<Value<'b>>, MalformedFrame> {
        if depth > MAX_DEPTH {
            return Err(MalformedFrame);
        }
        let fragments = defmt_parser::parse(format, ParserMode::ForwardsCompatible).map_err(|_| MalformedFrame)?;
        let parameters = fragments.into_iter().filter_map(|fragment| match fragment {
            Fragment::Parameter(parameter) => Some(parameter),
            Fragment::Literal(_) => None,
        });
        let mut values = Vec::new();
        for parameter in merged(parameters) {
            values.push(self.value(&parameter.ty, depth)?);
        }
        Ok(values)
    }

    fn value(&mut self, ty: &Type, depth: u32) -> Result<Value<'b>, MalformedFrame> {
        self.values_left = self.values_left.checked_sub(1).ok_or(MalformedFrame)?;
        Ok(match ty {
            Type::U8 => Value::Unsigned(self.number::<1>()?),
            Type::U16 => Value::Unsigned(self.number::<2>()?),
            Type::U32 | Type::Usize => Value::Unsigned(self.number::<4>()?),
            Type::U64 => Value::Unsigned(self.number::<8>()?),
            Type::U128 => Value::Unsigned(self.number::<16>()?),
            Type::I8 => Value::Signed(self.signed::<1>()?, 8),
            Type::I16 => Value::Signed(self.signed::<2>()?, 16),
            Type::I32 | Type::Isize => Value::Signed(self.signed::<4>()?, 32),
            Type::I64 => Value::Signed(self.signed::<8>()?, 64),
            Type::I128 => Value::Signed(self.signed::<16>()?, 128),
            Type::F32 => Value::Single(f32::from_bits(self.number::<4>()? as u32)),
            Type::F64 => Value::Double(f64::from_bits(self.number::<8>()? as u64)),
            Type::Bool => match self.number::<1>()? {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                _ => return Err(MalformedFrame),
            },
            Type::Char => Value::Char(char::from_u32(self.number::<4>()? as u32).ok_or(MalformedFrame)?),
            Type::Str => {
                let len = self.length()?;
                Value::Text(utf8(self.bytes(len)?)?)
            }
            Type::IStr => Value::Text(self.interned()?.into()),
            Type::U8Slice => {
                let len = self.length()?;
                Value::Bytes(self.bytes(len)?.to_vec())
            }
            Type::U8Array(len) => Value::Bytes(self.bytes(*len)?.to_vec()),
            Type::FormatSlice => {
                let len = self.length()?;
                self.list(len, depth)?
            }
            Type::FormatArray(len) => self.list(*len, depth)?,
            Type::Format => {
                let format = self.interned()?;
                self.nested(format, depth)?
            }
            Type::FormatSequence => {
                let mut parts = Vec::new();
                loop {
                    // Zero ends a sequence.
                    if let [0, 0, rest @ ..] = self.rest {
                        self.rest = rest;
                        break Value::Sequence(parts);
                    }
                    let format = self.interned()?;
                    parts.push(self.nested(format, depth)?);
                }
            }
            Type::Debug | Type::Display => {
                let end = self.rest.iter().position(|b| *b == 0xFF).ok_or(MalformedFrame)?;
                let text = utf8(self.bytes(end)?)?;
                self.bytes(1)?;
                Value::Text(text)
            }
            Type::BitField(range) => {
                // Only the bytes that contain the bits travel, in the next larger width.
                let (first, last) = (range.start / 8, range.end.saturating_sub(1) / 8);
                let bits = match last.saturating_sub(first) + 1 {
                    1 => self.number::<1>()?,
                    2 => self.number::<2>()?,
                    3..=4 => self.number::<4>()?,
                    5..=8 => self.number::<8>()?,
                    _ => self.number::<16>()?,
                };
                Value::Unsigned(bits.checked_shl(u32::from(first) * 8).unwrap_or(0))
            }
        })
    }

    fn nested(&mut self, format: &'b str, depth: u32) -> Result<Value<'b>, MalformedFrame> {
        self.values_left = self.values_left.checked_sub(1).ok_or(MalformedFrame)?;
        let variant = self.variant(format)?;
        Ok(Value::Nested(variant, self.values(variant, depth + 1)?))
    }

    fn list(&mut self, len: usize, depth: u32) -> Result<Value<'b>, MalformedFrame> {
        let format = self.interned()?;
        let mut parts = Vec::new();
        for _ in 0..len {
            parts.push(self.nested(format, depth)?);
        }
        Ok(Value::List(parts))
    }
}

fn utf8(bytes: &[u8]) -> Result<String, MalformedFrame> {
    String::from_utf8(bytes.to_vec()).map_err(|_| MalformedFrame)
}

/// One parameter per index, in order: a value that is shown twice travels once, and so does one of
/// which several ranges of bits are shown.
fn merged(parameters: impl Iterator<Item = Parameter>) -> Vec<Parameter> {
    let mut all: Vec<Parameter> = Vec::new();
    for parameter in parameters {
        match all.iter_mut().find(|known| known.index == parameter.index) {
            None => all.push(parameter),
            Some(known) => {
                if let (Type::BitField(known), Type::BitField(more)) = (&mut known.ty, &parameter.ty) {
                    *known = known.start.min(more.start)..known.end.max(more.end);
                }
            }
        }
    }
    all.sort_by_key(|parameter| parameter.index);
    all
}
