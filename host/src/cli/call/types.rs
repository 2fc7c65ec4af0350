//! Types and signatures that an image's file describes: their shapes, the length of the longest
//! value, and their text.

use hamr_comm::abi::table::{hash, hash_join};
use hamr_comm::migrate::join_shapes;
use std::fmt;

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

    pub(super) fn opaque(&self) -> Option<&str> {
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
