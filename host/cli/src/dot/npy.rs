//! One-dimensional vectors in NumPy's `.npy` format, versions 1 to 3, read piece by piece.
//!
//! The format: `\x93NUMPY`, two version bytes, the header's length (2 bytes in version 1, 4 in
//! later ones), the header as a Python literal, the elements (numpy.lib.format). Every number in a
//! file is checked: a header is at most [`MAX_HEADER`] bytes, and the number of elements must fit
//! the file's length before any element is read.
//!
//! The crate `npyz` (0.9.1) checks none of this: it allocates what a header claims, 4 GiB for a
//! file of 13 bytes; its product of a shape overflows; its parser of Python literals takes 4 times
//! as long for each further brace in `{{{{…`, a quarter of a second at 10 and days at 20.

mod literal;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// The header of a vector has some eighty bytes, and NumPy itself refuses more than 10,000.
const MAX_HEADER: u64 = 1 << 16;
/// Bytes before the header's length.
const PREFIX: usize = 8;

// Elements are copied as they lie in the file, which is little-endian.
const _: () = assert!(cfg!(target_endian = "little"));

/// Element types that can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dtype {
    /// `<f4`
    F32,
    /// `<f8`
    F64,
}

impl Dtype {
    /// Bytes of one element.
    pub(crate) fn size(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Rust's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

/// The header's values, checked against the file's length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// Element type.
    pub(crate) dtype: Dtype,
    /// Elements.
    pub(crate) len: u64,
}

/// Why a file is not a readable vector. The caller adds the path.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum NpyError {
    #[error("expected a NumPy file (.npy), got a file of zero bytes")]
    Empty,
    #[error("expected a NumPy file (.npy), got one that begins with {0}; numpy.save writes .npy files")]
    Magic(String),
    #[error("expected format version 1, 2 or 3, got {0}.{1}")]
    Version(u8, u8),
    #[error("the file is truncated: expected {expected} bytes of {part}, got {got}")]
    Truncated { part: &'static str, expected: u64, got: u64 },
    #[error("expected a header of at most {MAX_HEADER} bytes, got one that claims {0}")]
    LongHeader(u64),
    #[error("expected the header to be a Python dict with descr, fortran_order and shape, got {0}")]
    Header(String),
    #[error("expected dtype <f8 or <f4 (float64 or float32), got {0}; convert it with array.astype(numpy.float64)")]
    Dtype(String),
    #[error("expected little-endian elements (<f8 or <f4), got big-endian {0}; convert them with array.astype('<f8')")]
    BigEndian(String),
    #[error("expected a vector (one dimension), got shape {0}; save array.ravel()")]
    Shape(String),
    #[error("expected a shape that fits a file, got {0} elements, more than any file has")]
    Overflow(u64),
    #[error("expected {expected} bytes of elements for its shape, got {got}: the file is {}",
        if got < expected { "truncated" } else { "longer than its shape" })]
    Length { expected: u64, got: u64 },
}

/// An open vector.
pub(crate) struct Npy {
    path: PathBuf,
    file: File,
    /// The header's values.
    pub(crate) header: Header,
}

/// A path, and the fault of the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{}: {what}: {source}", path.display())]
    Io { path: PathBuf, what: &'static str, source: std::io::Error },
    #[error("{}: {why}", path.display())]
    Npy { path: PathBuf, why: NpyError },
}

impl Npy {
    /// Opens a file and checks everything but the elements.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let io = |what| move |source: std::io::Error| OpenError::Io { path: path.into(), what, source };
        let mut file = hamr::io::open(path).map_err(io("cannot open it"))?;
        let len = file.metadata().map_err(io("cannot read its length"))?.len();
        match read_header(&mut file, len) {
            Ok(Ok(header)) => Ok(Self { path: path.into(), file, header }),
            Ok(Err(why)) => Err(OpenError::Npy { path: path.into(), why }),
            Err(source) => Err(io("cannot read it")(source)),
        }
    }

    /// Reads the next elements: exactly `to`.
    pub(crate) fn read(&mut self, to: &mut [u8]) -> Result<(), OpenError> {
        self.file.read_exact(to).map_err(|source| {
            // The file had the right length when it was opened, so it was truncated since.
            let cut = source.kind() == ErrorKind::UnexpectedEof;
            let what = if cut { "it became shorter while it was read" } else { "cannot read it" };
            OpenError::Io { path: self.path.clone(), what, source }
        })
    }
}

/// Reads up to the first element of a file of `file_len` bytes.
fn read_header(from: &mut impl Read, file_len: u64) -> std::io::Result<Result<Header, NpyError>> {
    if file_len == 0 {
        return Ok(Err(NpyError::Empty));
    }
    let mut prefix = Vec::new();
    from.by_ref().take(PREFIX as u64).read_to_end(&mut prefix)?;
    let given = prefix.get(..MAGIC.len()).unwrap_or(&prefix);
    if !MAGIC.starts_with(given) {
        return Ok(Err(NpyError::Magic(given.escape_ascii().to_string())));
    }
    let short = |part, expected: u64, got| Ok(Err(NpyError::Truncated { part, expected, got }));
    let [.., major, minor] = prefix[..] else { return short("magic and version", PREFIX as u64, 0) };
    if prefix.len() < PREFIX {
        return short("magic and version", PREFIX as u64, prefix.len() as u64);
    }
    let width = match (major, minor) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        _ => return Ok(Err(NpyError::Version(major, minor))),
    };
    let mut length = Vec::new();
    from.by_ref().take(width).read_to_end(&mut length)?;
    if (length.len() as u64) < width {
        return short("header length", width, length.len() as u64);
    }
    let header_len = length.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    if header_len > MAX_HEADER {
        return Ok(Err(NpyError::LongHeader(header_len)));
    }
    let mut text = Vec::new();
    from.by_ref().take(header_len).read_to_end(&mut text)?;
    if (text.len() as u64) < header_len {
        return short("header", header_len, text.len() as u64);
    }
    let before = PREFIX as u64 + width + header_len;
    Ok(check(&text, file_len.saturating_sub(before)))
}

/// Checks that the header is that of a vector whose elements fill the rest of the file.
fn check(text: &[u8], rest: u64) -> Result<Header, NpyError> {
    // Version 3 is UTF-8, the others Latin-1; all accepted values are ASCII.
    let raw = literal::parse(&String::from_utf8_lossy(text)).map_err(NpyError::Header)?;
    let dtype = match raw.descr.as_str() {
        "<f8" | "=f8" | "f8" => Dtype::F64,
        "<f4" | "=f4" | "f4" => Dtype::F32,
        big if big.starts_with('>') => return Err(NpyError::BigEndian(shown(big))),
        other => return Err(NpyError::Dtype(shown(other))),
    };
    let [len] = raw.shape[..] else { return Err(NpyError::Shape(literal::tuple(&raw.shape))) };
    let expected = len.checked_mul(dtype.size()).ok_or(NpyError::Overflow(len))?;
    if expected != rest {
        return Err(NpyError::Length { expected, got: rest });
    }
    Ok(Header { dtype, len })
}

/// Text from a file, shortened for a message.
fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;
