//! Bytes of a value, as text and as JSON.

use super::types::{Fields, Type};
use hamr_comm::migrate::{Decoder, Malformed, Migratable};
use serde_json::{Map, Value, json};

/// Elements of a list that are printed.
const SHOWN: usize = 16;

/// A value as programs print it, and as JSON.
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) json: Value,
}

impl Shown {
    fn new(text: impl Into<String>, json: impl Into<Value>) -> Self {
        Self { text: text.into(), json: json.into() }
    }
}

/// The value that all the bytes are.
pub(super) fn value(ty: &Type, bytes: &[u8]) -> Result<Shown, Malformed> {
    let mut from = Decoder::new(bytes);
    let shown = take(ty, &mut from)?;
    if from.is_done() { Ok(shown) } else { Err(Malformed) }
}

/// The elements of a buffer; with `json` all of them, else those that the text shows: the rest may be
/// gigabytes.
pub(super) fn elements(ty: &Type, bytes: &[u8], json: bool) -> Result<Shown, Malformed> {
    let count = bytes.len().checked_div(ty.longest()).unwrap_or(0);
    let decoded = if json { count } else { count.min(SHOWN) };
    let mut from = Decoder::new(bytes);
    let parts = (0..decoded).map(|_| take(ty, &mut from)).collect::<Result<_, _>>()?;
    Ok(list(parts, count))
}

/// The first of `count` values, or all of them.
fn list(parts: Vec<Shown>, count: usize) -> Shown {
    let mut texts: Vec<&str> = parts.iter().take(SHOWN).map(|part| &*part.text).collect();
    let more = format!("… {count} elements");
    if count > SHOWN {
        texts.push(&more);
    }
    let text = format!("[{}]", texts.join(", "));
    Shown { text, json: parts.into_iter().map(|part| part.json).collect() }
}

fn take(ty: &Type, from: &mut Decoder<'_>) -> Result<Shown, Malformed> {
    Ok(match ty {
        Type::Scalar(name, _) => scalar(name, from)?,
        Type::Bool => bool::decode(from).map(|b| Shown::new(b.to_string(), b))?,
        Type::Char => char::decode(from).map(|c| Shown::new(format!("{c:?}"), c.to_string()))?,
        Type::Array(of, n) => list((0..*n).map(|_| take(of, from)).collect::<Result<_, _>>()?, *n),
        Type::Vec(of, most) => {
            let count = u32::decode(from)? as usize;
            if count > *most {
                return Err(Malformed);
            }
            list((0..count).map(|_| take(of, from)).collect::<Result<_, _>>()?, count)
        }
        Type::String(_) => {
            let len = u32::decode(from)? as usize;
            let text = std::str::from_utf8(from.slice(len)?).map_err(|_| Malformed)?;
            Shown::new(format!("{text:?}"), text)
        }
        Type::Bits(n) => {
            let digits: String = from.slice(*n)?.iter().map(|byte| format!("{byte:02x}")).collect();
            Shown::new(format!("0x{digits}"), format!("0x{digits}"))
        }
        Type::Buffer(_) => {
            let words = <[u64; 2]>::decode(from)?;
            Shown::new(format!("BufferPtr({:#x}, {:#x})", words[0], words[1]), words.to_vec())
        }
        Type::Option(of) => match bool::decode(from)? {
            false => Shown::new("None", Value::Null),
            true => {
                let some = take(of, from)?;
                // A value that is null itself is not nothing.
                let json = if some.json.is_null() || matches!(**of, Type::Option(_)) {
                    json!({ "Some": some.json })
                } else {
                    some.json
                };
                Shown::new(format!("Some({})", some.text), json)
            }
        },
        Type::Tuple(parts) => {
            let parts = parts.iter().map(|part| take(part, from)).collect::<Result<Vec<_>, _>>()?;
            let text = parts.iter().map(|part| &*part.text).collect::<Vec<_>>().join(", ");
            let json: Value =
                if parts.is_empty() { Value::Null } else { parts.iter().map(|p| p.json.clone()).collect() };
            Shown::new(format!("({text})"), json)
        }
        Type::Struct(of) => fields(of, from)?,
        Type::Enum(_, variants) => {
            let variant = variants.get(usize::from(u8::decode(from)?)).ok_or(Malformed)?;
            let shown = fields(variant, from)?;
            match variant.fields.is_empty() {
                true => Shown::new(shown.text, variant.name.clone()),
                false => Shown::new(shown.text, json!({ variant.name.clone(): shown.json })),
            }
        }
        Type::Opaque(_) => return Err(Malformed),
    })
}

fn fields(of: &Fields, from: &mut Decoder<'_>) -> Result<Shown, Malformed> {
    let (mut texts, mut json) = (Vec::new(), Map::new());
    for (name, ty) in &of.fields {
        let shown = take(ty, from)?;
        texts.push(if of.is_tuple() { shown.text } else { format!("{name}: {}", shown.text) });
        json.insert(name.clone(), shown.json);
    }
    let texts = texts.join(", ");
    Ok(Shown {
        text: match of.fields.is_empty() {
            true => of.name.clone(),
            false if of.is_tuple() => format!("{}({texts})", of.name),
            false => format!("{} {{ {texts} }}", of.name),
        },
        json: json.into(),
    })
}

fn scalar(name: &str, from: &mut Decoder<'_>) -> Result<Shown, Malformed> {
    fn whole<T: Migratable + ToString>(from: &mut Decoder<'_>) -> Result<Shown, Malformed> {
        let text = T::decode(from)?.to_string();
        // What JSON's readers may round travels as text.
        let json = text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from));
        let json = json.unwrap_or_else(|_| text.clone().into());
        Ok(Shown { text, json })
    }
    let float = |value: f64, text: String| {
        let json = serde_json::Number::from_f64(value).map_or_else(|| text.clone().into(), Value::Number);
        Shown { text, json }
    };
    match name {
        "u8" => whole::<u8>(from),
        "u16" => whole::<u16>(from),
        "u32" => whole::<u32>(from),
        "u64" => whole::<u64>(from),
        "u128" => whole::<u128>(from),
        "i8" => whole::<i8>(from),
        "i16" => whole::<i16>(from),
        "i32" => whole::<i32>(from),
        "i64" => whole::<i64>(from),
        "i128" => whole::<i128>(from),
        "f32" => f32::decode(from).map(|v| float(v.into(), format!("{v:?}"))),
        "f64" => f64::decode(from).map(|v| float(v, format!("{v:?}"))),
        _ => Err(Malformed),
    }
}
