//! The reader of the signatures that an image's file contains as text (abi §10).

use super::types::{ErrorType, Fields, Signature, Type};
use object::{Object, ObjectSection};
use std::path::Path;

/// The section with the records.
const SECTION: &str = ".hamr.signatures";
/// Types within types; a file may contain anything.
const MAX_DEPTH: u32 = 64;

const SCALARS: [(&str, usize); 12] = [
    ("u8", 1),
    ("u16", 2),
    ("u32", 4),
    ("u64", 8),
    ("u128", 16),
    ("i8", 1),
    ("i16", 2),
    ("i32", 4),
    ("i64", 8),
    ("i128", 16),
    ("f32", 4),
    ("f64", 8),
];

/// The signatures in a file, in no order. The error names what is wrong with it.
pub(super) fn read(path: &Path) -> Result<Vec<Signature>, String> {
    let bytes = crate::io::read(path).map_err(|e| format!("cannot read it: {e}"))?;
    let elf = object::File::parse(&*bytes).map_err(|e| format!("it is no ELF file: {e}"))?;
    let section = elf.section_by_name(SECTION).and_then(|section| section.data().ok());
    let section = section.ok_or_else(|| match elf.symbols().next() {
        Some(_) => format!("it has no section {SECTION}; build it with this version of hamr"),
        None => {
            format!("its symbols were stripped, and section {SECTION} with them; `strip --strip-debug` leaves both")
        }
    })?;
    let records = section.split(|byte| *byte == 1).filter(|record| !record.is_empty());
    Ok(records.filter_map(|record| std::str::from_utf8(record).ok()).filter_map(signature).collect())
}

/// One record; `None` where it is none.
pub(super) fn signature(record: &str) -> Option<Signature> {
    let mut parts = record.split('\0');
    let (name, names, arguments, output) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let mut names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    let parameters = match whole(arguments)? {
        Type::Tuple(types) => types,
        // Longer than a description.
        opaque => vec![opaque],
    };
    let number = |(i, ty): (usize, Type)| (names.next().map_or_else(|| format!("arg{}", i + 1), String::from), ty);
    let parameters = parameters.into_iter().enumerate().map(number).collect();
    let (value, error) = match output.strip_prefix("Result<") {
        None => (whole(output)?, ErrorType::None),
        Some(rest) => {
            let mut text = Text { rest, depth: 0 };
            let value = text.ty()?;
            text.take(", ")?;
            let error = match text.rest {
                "Fault>" => ErrorType::Fault,
                _ => ErrorType::Own(text.ty()?),
            };
            (value, error)
        }
    };
    Some(Signature { name: name.into(), parameters, value, error })
}

/// The type that the whole text describes.
fn whole(text: &str) -> Option<Type> {
    let mut text = Text { rest: text, depth: 0 };
    let ty = text.ty()?;
    text.rest.is_empty().then_some(ty)
}

/// A description that is being read.
struct Text<'t> {
    rest: &'t str,
    depth: u32,
}

impl<'t> Text<'t> {
    fn take(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    fn is_next(&mut self, text: &str) -> bool {
        self.take(text).is_some()
    }

    fn word(&mut self) -> &'t str {
        let end = self.rest.find(|c: char| "[](){}<>,;: ".contains(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn number(&mut self) -> Option<usize> {
        self.word().parse().ok()
    }

    fn ty(&mut self) -> Option<Type> {
        self.depth += 1;
        let ty = (self.depth <= MAX_DEPTH).then(|| self.ty_below()).flatten();
        self.depth -= 1;
        ty
    }

    fn ty_below(&mut self) -> Option<Type> {
        if self.is_next("[") {
            let of = self.ty()?;
            self.take("; ")?;
            let n = self.number()?;
            self.take("]")?;
            return Some(Type::Array(of.into(), n));
        }
        if self.is_next("(") {
            return self.list(")", Self::ty).map(Type::Tuple);
        }
        if self.is_next("?") {
            return Some(Type::Opaque(self.opaque_name().into()));
        }
        if self.is_next("enum ") {
            let name = self.word().into();
            self.take("{")?;
            return Some(Type::Enum(name, self.list("}", Self::fields)?));
        }
        let before = self.rest;
        let name = self.word();
        if let Some((name, bytes)) = SCALARS.iter().find(|(scalar, _)| *scalar == name) {
            return Some(Type::Scalar(name, *bytes));
        }
        if self.rest.starts_with('{') {
            self.rest = before;
            return self.fields().map(Type::Struct);
        }
        match name {
            "bool" => return Some(Type::Bool),
            "char" => return Some(Type::Char),
            _ => self.take("<")?,
        }
        let ty = match name {
            "Option" => Type::Option(self.ty()?.into()),
            "BufferPtr" => Type::Buffer(self.ty()?.into()),
            "String" => Type::String(self.number()?),
            "Bits" => {
                let bytes = self.number()?;
                self.take(" bytes")?;
                Type::Bits(bytes)
            }
            "Vec" => {
                let of = self.ty()?;
                self.take(", ")?;
                Type::Vec(of.into(), self.number()?)
            }
            _ => return None,
        };
        self.take(">")?;
        Some(ty)
    }

    /// The path of a type, with its own type arguments.
    fn opaque_name(&mut self) -> &'t str {
        let mut open = 0i32;
        let end = self.rest.find(|c: char| {
            match c {
                '<' | '(' | '[' => open += 1,
                '>' | ')' | ']' => open -= 1,
                _ => {}
            }
            open < 0 || open == 0 && (c == ',' || c == ';' || c == '}')
        });
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        name
    }

    fn fields(&mut self) -> Option<Fields> {
        let name = self.word().into();
        self.take("{")?;
        let field = |text: &mut Self| {
            let name = text.word().into();
            text.take(": ")?;
            Some((name, text.ty()?))
        };
        Some(Fields { name, fields: self.list("}", field)? })
    }

    /// Parts with ", " between them, up to `end`.
    fn list<T>(&mut self, end: &str, part: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut parts = Vec::new();
        while !self.is_next(end) {
            if !parts.is_empty() {
                self.take(", ")?;
            }
            parts.push(part(self)?);
        }
        Some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::signature::Described;
    use hamr_comm::{BufferPtr, Context, Fault, Handler, Migratable, offload};

    #[derive(Migratable)]
    struct Pair<T> {
        left: T,
        right: [BufferPtr<f32>; 2],
    }
    #[derive(Migratable)]
    enum Shape {
        Point,
        Circle(f64),
        Text { of: heapless::String<8> },
    }
    #[derive(Migratable)]
    struct Unit;

    #[offload]
    fn much(_cx: &mut Context, pair: Pair<(u8, bool)>, shape: Option<Shape>) -> Result<Unit, Shape> {
        let _ = (pair.left, pair.right);
        match shape {
            Some(shape @ (Shape::Circle(_) | Shape::Text { .. })) => Err(shape),
            Some(Shape::Point) | None => Ok(Unit),
        }
    }
    #[offload]
    fn none(_cx: &mut Context) {}
    #[offload]
    fn fails(_cx: &mut Context, words: heapless::Vec<char, 3>) -> Result<i128, Fault> {
        Ok(words.len() as i128)
    }

    macro_rules! read_back {
        ($handler:ident) => {{
            const DESCRIBED: Described = Described::of::<$handler>();
            let record = DESCRIBED.record::<{ DESCRIBED.record_len() }>();
            let signature = signature(std::str::from_utf8(&record[1..]).expect("text")).expect("it is read");
            assert_eq!(signature.hash(), $handler::SIGNATURE, "{signature}");
            assert_eq!(signature.name, $handler::NAME);
            let shown = signature.to_string();
            shown[shown.find('(').expect("parameters")..].to_string()
        }};
    }

    #[test]
    fn a_signature_is_read_back_with_its_hash() {
        assert_eq!(read_back!(much), "(pair: Pair, shape: Option<Shape>) -> Result<Unit, Shape>");
        assert_eq!(read_back!(none), "()");
        assert_eq!(read_back!(fails), "(words: Vec<char, 3>) -> Result<i128, Fault>");
    }

    #[test]
    fn fields_are_shown_on_request() {
        let shape = whole("enum Shape{Point{}, Circle{0: f64}, Text{of: String<8>}}").expect("it is read");
        assert_eq!(format!("{shape:#}"), "one of Point, Circle(f64), Text{of: String<8>}");
        assert_eq!((shape.to_string(), shape.longest()), ("Shape".into(), 13));
    }

    #[test]
    fn an_opaque_type_is_found_inside() {
        let ty = whole("(u8, Pair{a: [?my::Map<(u8, u8)>; 2], b: ?})").expect("it is read");
        assert_eq!(ty.opaque(), Some("Pair"));
        assert_eq!(whole("?my::Map<(u8, u8)>").as_ref().and_then(Type::opaque), Some("my::Map<(u8, u8)>"));
    }

    #[test]
    fn no_text_makes_the_reader_panic() {
        let text = "Pair{left: (u8, [BufferPtr<f32>; 2]), right: enum E{A{}, B{0: ?x::y<z>}}}";
        for end in 0..text.len() {
            assert_eq!(whole(&text[..end]), None, "{}", &text[..end]);
        }
        assert!(whole(text).is_some());
        assert_eq!(whole(&"(".repeat(100_000)), None);
    }
}
