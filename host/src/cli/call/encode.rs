//! Values from the command line, as bytes.

use super::types::{Fields, Type};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::Chars;

/// Most elements that a list with a count (`[0; N]`) may have.
const MAX_ELEMENTS: usize = 1 << 32;

/// The bytes of the arguments, and the buffers that they name.
#[derive(Default)]
pub(super) struct Encoded {
    pub(super) bytes: Vec<u8>,
    pub(super) buffers: Vec<BufferArgument>,
}

/// A buffer to be made: its pointer belongs to position `at` of the bytes.
pub(super) struct BufferArgument {
    pub(super) parameter: String,
    pub(super) element: Type,
    pub(super) at: usize,
    pub(super) content: Vec<u8>,
}

impl Encoded {
    /// Appends the value that `text` is. The error names what was expected and what came.
    pub(super) fn push(&mut self, parameter: &str, ty: &Type, text: &OsStr) -> Result<(), String> {
        if let (Type::Buffer(element), [b'@', path @ ..]) = (ty, text.as_bytes()) {
            return self.file(parameter, element, OsStr::from_bytes(path));
        }
        let no_text = || format!("expected text in UTF-8, got `{}`", text.as_bytes().escape_ascii());
        let text = text.to_str().ok_or_else(no_text)?;
        // One argument is one value, so it needs no quotes, and a file's name may contain anything.
        match ty {
            Type::String(_) if !text.starts_with('"') => return string(text, ty, &mut self.bytes),
            Type::Char if !text.starts_with('\'') || text.len() == 1 => return character(text, &mut self.bytes),
            _ => {}
        }
        let mut reader = Reader { rest: text, parameter };
        reader.value(ty, self)?;
        match reader.space() {
            "" => Ok(()),
            more => Err(format!("expected nothing behind the value of type {ty}, got `{more}`")),
        }
    }

    fn file(&mut self, parameter: &str, element: &Type, path: &OsStr) -> Result<(), String> {
        let (content, path) = (crate::io::read(Path::new(path)), path.display());
        let content = content.map_err(|e| format!("cannot read the file {path}: {e}"))?;
        let size = element.longest();
        if size == 0 || !content.len().is_multiple_of(size) {
            let len = content.len();
            return Err(format!(
                "expected {path} to have whole elements of {element}, {size} bytes each, got {len} bytes"
            ));
        }
        self.buffer(parameter, element, content);
        Ok(())
    }

    fn buffer(&mut self, parameter: &str, element: &Type, content: Vec<u8>) {
        let (parameter, element, at) = (parameter.into(), element.clone(), self.bytes.len());
        self.bytes.extend([0; 16]);
        self.buffers.push(BufferArgument { parameter, element, at, content });
    }
}

/// The character of `\u{e9}`, behind the `u`.
fn escaped(chars: &mut Chars<'_>) -> Result<char, String> {
    let found = chars.as_str().strip_prefix('{').and_then(|rest| rest.split_once('}'));
    let digits = |hex: &str| (1..=6).contains(&hex.len()) && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parsed = found.filter(|(hex, _)| digits(hex)).and_then(|(hex, rest)| {
        let c = char::from_u32(u32::from_str_radix(hex, 16).ok()?)?;
        Some((c, rest))
    });
    let (c, rest) = parsed.ok_or("expected a character as `\\u{e9}`, got another `\\u`")?;
    *chars = rest.chars();
    Ok(c)
}

fn character(text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) => {
            out.extend(u32::from(c).to_le_bytes());
            Ok(())
        }
        _ => Err(format!("expected one character, got `{text}`")),
    }
}

fn string(text: &str, ty: &Type, out: &mut Vec<u8>) -> Result<(), String> {
    let Type::String(limit) = ty else { return Err(format!("expected {ty}, got a text")) };
    if text.len() > *limit {
        return Err(format!("expected a text of at most {limit} bytes, got {} bytes", text.len()));
    }
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
    Ok(())
}

struct Reader<'t> {
    rest: &'t str,
    parameter: &'t str,
}

impl<'t> Reader<'t> {
    /// What follows behind spaces.
    fn space(&mut self) -> &'t str {
        self.rest = self.rest.trim_start();
        self.rest
    }

    fn is_next(&mut self, mark: char) -> bool {
        match self.space().strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, mark: char, ty: &Type) -> Result<(), String> {
        if self.is_next(mark) { Ok(()) } else { Err(self.wrong(&format!("`{mark}`"), ty)) }
    }

    fn wrong(&mut self, wanted: &str, ty: &Type) -> String {
        let got = match self.space() {
            "" => "the end".into(),
            rest => format!("`{}`", rest.chars().take(40).collect::<String>()),
        };
        format!("expected {wanted} of {ty:#}, got {got}")
    }

    fn word(&mut self) -> &'t str {
        let rest = self.space();
        let end = rest.find(|c: char| c.is_whitespace() || "[](){},;:".contains(c)).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        word
    }

    fn value(&mut self, ty: &Type, out: &mut Encoded) -> Result<(), String> {
        match ty {
            Type::Scalar(name, bytes) => scalar(name, *bytes, self.word(), &mut out.bytes),
            Type::Bool => {
                out.bytes.push(match self.word() {
                    "true" => 1,
                    "false" => 0,
                    got => return Err(format!("expected true or false, got `{got}`")),
                });
                Ok(())
            }
            Type::Char => {
                let text = self.quoted('\'', ty)?;
                character(&text, &mut out.bytes)
            }
            Type::String(_) => self.quoted('"', ty).and_then(|text| string(&text, ty, &mut out.bytes)),
            Type::Bits(bytes) => bits(*bytes, self.word(), &mut out.bytes),
            Type::Array(of, n) => match self.list(of, ty, out)? {
                count if count == *n => Ok(()),
                count => Err(format!("expected {n} elements of {of}, got {count}")),
            },
            Type::Vec(of, most) => {
                let at = out.bytes.len();
                out.bytes.extend([0; 4]);
                let count = self.list(of, ty, out)?;
                if count > *most {
                    return Err(format!("expected at most {most} elements of {of}, got {count}"));
                }
                out.bytes[at..at + 4].copy_from_slice(&(count as u32).to_le_bytes());
                Ok(())
            }
            Type::Buffer(of) => self.buffer(of, ty, out),
            Type::Option(of) => self.option(of, ty, out),
            Type::Tuple(parts) => {
                let parts: Vec<&Type> = parts.iter().collect();
                self.parts(('(', ')'), &parts, ty, out)
            }
            Type::Struct(fields) => {
                let before = self.rest;
                if self.word() != fields.name {
                    self.rest = before;
                }
                self.fields(fields, ty, out)
            }
            Type::Enum(_, variants) => {
                let name = self.word();
                let Some(tag) = variants.iter().position(|variant| variant.name == name) else {
                    return Err(format!("expected {ty:#}, got `{name}`"));
                };
                out.bytes.push(tag as u8);
                self.fields(&variants[tag], ty, out)
            }
            Type::Opaque(name) => Err(format!("{name} is encoded only by programs that link it")),
        }
    }

    /// Text between marks, with Rust's escapes.
    fn quoted(&mut self, mark: char, ty: &Type) -> Result<String, String> {
        self.expect(mark, ty)?;
        let (mut text, mut chars) = (String::new(), self.rest.chars());
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some('0') => text.push('\0'),
                    Some(c @ ('\\' | '\'' | '"')) => text.push(c),
                    Some('u') => text.push(escaped(&mut chars)?),
                    Some(c) => {
                        return Err(format!("expected an escape of Rust, such as `\\n` or `\\u{{e9}}`, got `\\{c}`"));
                    }
                    None => break,
                },
                c if c == mark => {
                    self.rest = chars.as_str();
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        Err(format!("expected a closing {mark} in {ty}, got the end"))
    }

    /// `[a, b]` or `[a; N]`; returns the number of elements.
    fn list(&mut self, of: &Type, ty: &Type, out: &mut Encoded) -> Result<usize, String> {
        self.expect('[', ty)?;
        let mut count = 0;
        while !self.is_next(']') {
            if count > 0 {
                self.expect(',', ty)?;
                if self.is_next(']') {
                    break;
                }
            }
            let (at, buffers) = (out.bytes.len(), out.buffers.len());
            self.value(of, out)?;
            count += 1;
            if count == 1 && self.is_next(';') {
                let text = self.word();
                let wanted = "expected a number of elements behind the `;`";
                let n: usize = text.replace('_', "").parse().map_err(|_| format!("{wanted}, got `{text}`"))?;
                self.expect(']', ty)?;
                let element = out.bytes.split_off(at);
                if out.buffers.len() > buffers {
                    return Err("expected a list of buffers one by one, got `;`".into());
                }
                if n.saturating_mul(element.len()) > MAX_ELEMENTS {
                    return Err(format!("{wanted} for at most 4 GiB, got {n}"));
                }
                out.bytes.extend(element.repeat(n));
                return Ok(n);
            }
        }
        Ok(count)
    }

    /// A list, or a file with the elements' bytes.
    fn buffer(&mut self, of: &Type, ty: &Type, out: &mut Encoded) -> Result<(), String> {
        if self.is_next('@') {
            let path = self.word();
            return out.file(self.parameter, of, OsStr::new(path));
        }
        if !self.space().starts_with('[') {
            return Err(self.wrong("a list (`[1, 2]`, `[0; 1000]`) or a file (`@PATH`)", ty));
        }
        let mut content = Encoded::default();
        self.list(of, ty, &mut content)?;
        out.buffer(self.parameter, of, content.bytes);
        Ok(())
    }

    fn option(&mut self, of: &Type, ty: &Type, out: &mut Encoded) -> Result<(), String> {
        let before = self.rest;
        match self.word() {
            "none" | "None" => {
                out.bytes.push(0);
                Ok(())
            }
            "some" | "Some" if self.is_next('(') => {
                out.bytes.push(1);
                self.value(of, out)?;
                self.expect(')', ty)
            }
            _ => {
                self.rest = before;
                Err(self.wrong("`none` or `some(…)`", ty))
            }
        }
    }

    /// `{a: 1, b: 2}` in this order, names at will, or `(1, 2)` where they have none.
    fn fields(&mut self, of: &Fields, ty: &Type, out: &mut Encoded) -> Result<(), String> {
        if of.fields.is_empty() {
            if self.is_next('{') {
                self.expect('}', ty)?;
            }
            return Ok(());
        }
        let types: Vec<&Type> = of.fields.iter().map(|(_, ty)| ty).collect();
        if of.is_tuple() {
            return self.parts(('(', ')'), &types, ty, out);
        }
        self.expect('{', ty)?;
        for (i, (name, field)) in of.fields.iter().enumerate() {
            if i > 0 {
                self.expect(',', ty)?;
            }
            let before = self.rest;
            let is_named = self.word() == name && self.is_next(':');
            if !is_named {
                self.rest = before;
            }
            self.value(field, out)?;
        }
        self.is_next(',');
        self.expect('}', ty)
    }

    fn parts(&mut self, marks: (char, char), parts: &[&Type], ty: &Type, out: &mut Encoded) -> Result<(), String> {
        self.expect(marks.0, ty)?;
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                self.expect(',', ty)?;
            }
            self.value(part, out)?;
        }
        self.is_next(',');
        self.expect(marks.1, ty)
    }
}

fn scalar(name: &str, bytes: usize, text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let plain = text.replace('_', "");
    let wrong = |wanted: &str| format!("expected {wanted} ({name}), got `{text}`");
    // Infinite is what was written so, and no number that is too large.
    let is_word = !plain.contains(|c: char| c.is_ascii_digit());
    let float =
        |value: Option<f64>| value.filter(|value| is_word || value.is_finite()).ok_or_else(|| wrong("a number"));
    match name {
        "f64" => out.extend(float(plain.parse().ok())?.to_le_bytes()),
        "f32" => {
            let value = plain.parse::<f32>().ok();
            float(value.map(f64::from))?;
            out.extend(value.unwrap_or_default().to_le_bytes());
        }
        _ => {
            let (minus, digits) = plain.strip_prefix('-').map_or((false, &*plain), |digits| (true, digits));
            let (radix, digits) = digits.strip_prefix("0x").map_or((10, digits), |digits| (16, digits));
            let bits = bytes as u32 * 8;
            let signed = name.starts_with('i');
            let most = if signed { (1u128 << (bits - 1)) - u128::from(!minus) } else { u128::MAX >> (128 - bits) };
            let starts_well = digits.starts_with(|c: char| c.is_digit(radix));
            let value = u128::from_str_radix(digits, radix).ok().filter(|_| starts_well);
            let range = match signed {
                true => format!("a whole number from -2^{0} to 2^{0} - 1", bits - 1),
                false => format!("a whole number from 0 to 2^{bits} - 1"),
            };
            let value = value.filter(|value| *value <= most && (signed || !minus || *value == 0));
            let value = value.ok_or_else(|| wrong(&range))?;
            let value = if minus { value.wrapping_neg() } else { value };
            out.extend(value.to_le_bytes().iter().take(bytes));
        }
    }
    Ok(())
}

fn bits(len: usize, text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_right = digits.len() == 2 * len && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let byte = |i: usize| digits.get(2 * i..2 * i + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..len).map(byte).collect();
    match bytes.filter(|_| is_right) {
        Some(bytes) => {
            out.extend(bytes);
            Ok(())
        }
        None => Err(format!("expected {len} bytes as {} hexadecimal digits, got `{text}`", 2 * len)),
    }
}
