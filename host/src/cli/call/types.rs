//! Types and signatures as an image's file describes them (abi §10).

use hamr_comm::abi::table::{hash, hash_join};
use hamr_comm::migrate::join_shapes;
use object::{Object, ObjectSection};
use std::fmt;
use std::path::Path;

/// The section with the records.
const SECTION: &str = ".hamr.signatures";
/// Types within types; a file may contain anything.
const MAX_DEPTH: u32 = 64;

/// A type, with its parts.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Type {
    Scalar(&'static str, usize),
    Bool,
    Char,
    Array(Box<Type>, usize),
    Tuple(Vec<Type>),
    Option(Box<Type>),
    String(usize),
    Vec(Box<Type>, usize),
    Buffer(Box<Type>),
    Bits(usize),
    Struct(Fields),
    Enum(String, Vec<Fields>),
    /// Only its own code encodes it.
    Opaque(String),
}

/// A struct, or a variant of an enum.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Fields {
    pub(super) name: String,
    pub(super) fields: Vec<(String, Type)>,
}

impl Fields {
    /// Have the fields numbers for names?
    pub(super) fn is_tuple(&self) -> bool {
        self.fields.first().is_some_and(|(name, _)| name == "0")
    }
}

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

/// What a handler takes and returns.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::cli) struct Signature {
    pub(in crate::cli) name: String,
    pub(super) parameters: Vec<(String, Type)>,
    pub(super) value: Type,
    pub(super) error: ErrorType,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum ErrorType {
    None,
    Fault,
    Own(Type),
}

impl Signature {
    /// The hash that the device's table has for it, unless the file describes another handler.
    pub(super) fn hash(&self) -> u64 {
        let arguments: Vec<u64> = self.parameters.iter().map(|(_, ty)| ty.shape()).collect();
        let value = self.value.shape();
        let output = match &self.error {
            ErrorType::None => value,
            ErrorType::Fault => join_shapes("Result", &[value, hash(b"Fault")]),
            ErrorType::Own(error) => join_shapes("Result", &[value, error.shape()]),
        };
        hash_join(join_shapes("tuple", &arguments), output)
    }

    /// The first type in it that only its own code encodes.
    pub(super) fn opaque(&self) -> Option<&str> {
        let error = if let ErrorType::Own(error) = &self.error { Some(error) } else { None };
        let types = self.parameters.iter().map(|(_, ty)| ty).chain([&self.value]).chain(error);
        types.into_iter().find_map(Type::opaque)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters: Vec<String> = self.parameters.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
        write!(f, "{}({})", self.name, parameters.join(", "))?;
        match (&self.value, &self.error) {
            (Type::Tuple(parts), ErrorType::None) if parts.is_empty() => Ok(()),
            (value, ErrorType::None) => write!(f, " -> {value}"),
            (value, ErrorType::Fault) => write!(f, " -> Result<{value}, Fault>"),
            (value, ErrorType::Own(error)) => write!(f, " -> Result<{value}, {error}>"),
        }
    }
}

impl Type {
    fn shape(&self) -> u64 {
        let flat = |parts: &mut Vec<u64>, fields: &Fields| {
            parts.extend(fields.fields.iter().flat_map(|(name, ty)| [hash(name.as_bytes()), ty.shape()]));
        };
        match self {
            Self::Scalar(name, _) => hash(name.as_bytes()),
            Self::Bool => hash(b"bool"),
            Self::Char => hash(b"char"),
            Self::Array(of, n) => join_shapes("array", &[of.shape(), *n as u64]),
            Self::Tuple(parts) => join_shapes("tuple", &parts.iter().map(Self::shape).collect::<Vec<_>>()),
            Self::Option(of) => join_shapes("Option", &[of.shape()]),
            Self::String(_) => hash(b"str"),
            Self::Vec(of, _) => join_shapes("seq", &[of.shape()]),
            Self::Buffer(of) => join_shapes("BufferPtr", &[of.shape()]),
            Self::Bits(n) => join_shapes("Bits", &[*n as u64]),
            Self::Struct(fields) => {
                let mut parts = Vec::new();
                flat(&mut parts, fields);
                join_shapes(&fields.name, &parts)
            }
            Self::Enum(name, variants) => {
                let mut parts = Vec::new();
                for variant in variants {
                    parts.extend([hash(variant.name.as_bytes()), variant.fields.len() as u64]);
                    flat(&mut parts, variant);
                }
                join_shapes(name, &parts)
            }
            Self::Opaque(_) => 0,
        }
    }

    /// Bytes of the longest value.
    pub(super) fn longest(&self) -> usize {
        let sum = |fields: &Fields| fields.fields.iter().map(|(_, ty)| ty.longest()).fold(0, usize::saturating_add);
        match self {
            Self::Scalar(_, bytes) | Self::Bits(bytes) => *bytes,
            Self::Bool => 1,
            Self::Char => 4,
            Self::Array(of, n) => of.longest().saturating_mul(*n),
            Self::Tuple(parts) => parts.iter().map(Self::longest).fold(0, usize::saturating_add),
            Self::Option(of) => of.longest().saturating_add(1),
            Self::String(n) => n.saturating_add(4),
            Self::Vec(of, n) => of.longest().saturating_mul(*n).saturating_add(4),
            Self::Buffer(_) => 16,
            Self::Struct(fields) => sum(fields),
            Self::Enum(_, variants) => variants.iter().map(sum).max().unwrap_or(0).saturating_add(1),
            Self::Opaque(_) => 0,
        }
    }

    fn opaque(&self) -> Option<&str> {
        let of_fields = |fields: &'_ Fields| fields.fields.iter().find_map(|(_, ty)| ty.opaque().map(String::from));
        match self {
            Self::Opaque(name) => Some(name),
            Self::Array(of, _) | Self::Option(of) | Self::Vec(of, _) | Self::Buffer(of) => of.opaque(),
            Self::Tuple(parts) => parts.iter().find_map(Self::opaque),
            Self::Struct(fields) => of_fields(fields).map(|_| fields.name.as_str()),
            Self::Enum(name, variants) => variants.iter().find_map(of_fields).map(|_| name.as_str()),
            _ => None,
        }
    }
}

/// As programs write it; `{:#}` also shows the fields.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(name, _) => f.write_str(name),
            Self::Bool => f.write_str("bool"),
            Self::Char => f.write_str("char"),
            Self::Array(of, n) => write!(f, "[{of}; {n}]"),
            Self::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(Self::to_string).collect();
                write!(f, "({})", parts.join(", "))
            }
            Self::Option(of) => write!(f, "Option<{of}>"),
            Self::String(n) => write!(f, "String<{n}>"),
            Self::Vec(of, n) => write!(f, "Vec<{of}, {n}>"),
            Self::Buffer(of) => write!(f, "BufferPtr<{of}>"),
            Self::Bits(n) => write!(f, "Bits<{n} bytes>"),
            Self::Struct(fields) if f.alternate() => write!(f, "{fields}"),
            Self::Enum(_, variants) if f.alternate() => {
                let variants: Vec<String> = variants.iter().map(Fields::to_string).collect();
                write!(f, "one of {}", variants.join(", "))
            }
            Self::Struct(Fields { name, .. }) | Self::Enum(name, _) | Self::Opaque(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_tuple = self.is_tuple();
        let field = |(name, ty): &(String, Type)| if is_tuple { ty.to_string() } else { format!("{name}: {ty}") };
        let fields = self.fields.iter().map(field).collect::<Vec<_>>().join(", ");
        match fields.is_empty() {
            true => f.write_str(&self.name),
            false if is_tuple => write!(f, "{}({fields})", self.name),
            false => write!(f, "{}{{{fields}}}", self.name),
        }
    }
}

/// The signatures in a file, in no order. The error names what is wrong with it.
pub(super) fn read(path: &Path) -> Result<Vec<Signature>, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("cannot read it: {e}"))?;
    let elf = object::File::parse(&*bytes).map_err(|e| format!("it is no ELF file: {e}"))?;
    let section = elf.section_by_name(SECTION).and_then(|section| section.data().ok());
    let section = section.ok_or_else(|| format!("it has no section {SECTION}; build it with this version of hamr"))?;
    let records = section.split(|byte| *byte == 1).filter(|record| !record.is_empty());
    Ok(records.filter_map(|record| std::str::from_utf8(record).ok()).filter_map(signature).collect())
}

/// One record; `None` where it is none.
fn signature(record: &str) -> Option<Signature> {
    let mut parts = record.split('\0');
    let (name, names, arguments, output) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let mut names = names.split(',').filter(|name| !name.is_empty());
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
