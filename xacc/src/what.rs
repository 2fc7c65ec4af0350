//! What a node is in: compared by its partners, and read by people when they differ.

use crate::dist::NodeSet;
use core::fmt::{self, Write};
use core::panic::Location;
use hamr_comm::Fault;
use hamr_comm::fault::FAULT_TEXT;

/// Bytes that are compared, and those of line and file.
pub(crate) const COMPARED: usize = size_of::<Compared>();
pub(crate) const PLACE: usize = 16;

/// What is compared, in words.
pub(crate) type Compared = [u64; 5];

/// Kinds of collectives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind(u8);

impl Kind {
    pub(crate) const BARRIER: Self = Self(1);
    pub(crate) const REDUCE: Self = Self(2);
    pub(crate) const BCAST: Self = Self(3);
    pub(crate) const ALLOCATE: Self = Self(4);
    pub(crate) const REFLECT: Self = Self(5);
    pub(crate) const REDUCE_SHADOW: Self = Self(6);
    pub(crate) const END_OF_SCOPE: Self = Self(7);
    pub(crate) const END: Self = Self(8);
    pub(crate) const GMOVE: Self = Self(9);
    pub(crate) const GMOVE_SUM: Self = Self(10);
    pub(crate) const GATHER: Self = Self(11);
    pub(crate) const ARRAY_REDUCE: Self = Self(12);
    pub(crate) const COARRAY: Self = Self(13);
    pub(crate) const SYNC_ALL: Self = Self(14);
    pub(crate) const SYNC_IMAGES: Self = Self(15);
    pub(crate) const STORE: Self = Self(16);
    pub(crate) const LOAD: Self = Self(17);
    pub(crate) const KEEP: Self = Self(18);
    pub(crate) const OPEN: Self = Self(19);
    pub(crate) const REFLECT_START: Self = Self(21);
    /// No collective.
    pub(crate) const NONBLOCK: Self = Self(20);
}

/// A collective: kind, number, set, and two names or numbers; and where it was called.
#[derive(Clone, Copy)]
pub(crate) struct What {
    kind: Kind,
    /// A length, or the root of a broadcast.
    number: u32,
    set: u64,
    /// Of what: a number, or 8 letters.
    of: [u8; 8],
    /// Letters, or a number.
    name: [u8; 16],
    line: u32,
    /// The end of the file's path.
    file: [u8; 12],
}

impl What {
    #[inline]
    pub(crate) fn new(kind: Kind, set: NodeSet, at: &Location<'_>) -> Self {
        let file = letters(at.file());
        Self { kind, number: 0, set: set.bits(), of: [0; 8], name: [0; 16], line: at.line(), file }
    }

    /// With an operation and a type, or either.
    #[must_use]
    #[inline]
    pub(crate) fn named(self, of: &str, name: &str) -> Self {
        Self { of: letters(of), name: letters(name), ..self }
    }

    #[must_use]
    #[inline]
    pub(crate) fn numbered(self, number: u32) -> Self {
        Self { number, ..self }
    }

    /// With numbers in place of names.
    #[must_use]
    pub(crate) fn of(self, of: u64, more: u64) -> Self {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&more.to_le_bytes());
        Self { of: of.to_le_bytes(), name, ..self }
    }

    /// What is compared.
    #[inline]
    pub(crate) fn compared(&self) -> Compared {
        let name = u128::from_ne_bytes(self.name);
        let kind = u64::from(self.kind.0) | u64::from(self.number) << 32;
        [kind, self.set, u64::from_ne_bytes(self.of), name as u64, (name >> 64) as u64]
    }

    /// Where it was called.
    #[inline]
    pub(crate) fn place(&self) -> [u8; PLACE] {
        let mut to = [0; PLACE];
        to[..4].copy_from_slice(&self.line.to_le_bytes());
        to[4..].copy_from_slice(&self.file);
        to
    }

    /// Any words and bytes are one.
    pub(crate) fn read(&[kind, set, of, low, high]: &Compared, place: &[u8; PLACE]) -> Self {
        Self {
            kind: Kind(kind as u8),
            number: (kind >> 32) as u32,
            set,
            of: of.to_ne_bytes(),
            name: (u128::from(high) << 64 | u128::from(low)).to_ne_bytes(),
            line: place.first_chunk().map_or(0, |line| u32::from_le_bytes(*line)),
            file: place.last_chunk().copied().unwrap_or_default(),
        }
    }

    /// The end of the file's name.
    fn file(&self) -> &str {
        text(&self.file).rsplit(['/', '\\']).next().unwrap_or_default()
    }
}

/// The end of a text, padded with zeros. Names that differ have different ends, mostly.
#[inline]
fn letters<const N: usize>(text: &str) -> [u8; N] {
    let mut letters = [0; N];
    let end = text.as_bytes().get(text.len().saturating_sub(N)..).unwrap_or_default();
    letters.iter_mut().zip(end).for_each(|(to, from)| *to = *from);
    letters
}

/// What a peer sent as letters.
fn text(letters: &[u8]) -> &str {
    let len = letters.iter().position(|letter| *letter == 0).unwrap_or(letters.len());
    core::str::from_utf8(letters.get(..len).unwrap_or_default()).unwrap_or("?")
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = u64::from_le_bytes(self.of);
        match self.kind {
            Kind::BARRIER => f.write_str("barrier"),
            Kind::REDUCE => write!(f, "reduce({}, {})", text(&self.of), text(&self.name)),
            Kind::BCAST => write!(f, "bcast({}) from {}", text(&self.name), self.number),
            Kind::ALLOCATE => write!(f, "an allocation of {of} bytes"),
            Kind::REFLECT => write!(f, "reflect of the array at {of:#x}"),
            Kind::REFLECT_START => write!(f, "reflect_start of the array at {of:#x}"),
            Kind::REDUCE_SHADOW => write!(f, "reduce_shadow of the array at {of:#x}"),
            Kind::END_OF_SCOPE => f.write_str("the end of a scope"),
            Kind::END => f.write_str("its end"),
            Kind::GMOVE => write!(f, "gmove to the array at {of:#x}"),
            Kind::GMOVE_SUM => write!(f, "gmove_sum to the array at {of:#x}"),
            Kind::GATHER => write!(f, "gather of the array at {of:#x}"),
            Kind::ARRAY_REDUCE => write!(f, "reduce({}) of an array", text(&self.of)),
            Kind::COARRAY => write!(f, "the allocation of a coarray of {}", text(&self.name)),
            Kind::SYNC_ALL => f.write_str("sync_all"),
            Kind::SYNC_IMAGES => f.write_str("sync_images"),
            Kind::STORE => write!(f, "store of the array at {of:#x}"),
            Kind::LOAD => write!(f, "load of the array at {of:#x}"),
            Kind::KEEP => write!(f, "keep of the array at {of:#x}"),
            Kind::OPEN if self.number == 0 => write!(f, "open of the kept array at {of:#x}"),
            Kind::OPEN => write!(f, "open of the kept coarray at {of:#x}"),
            Kind::NONBLOCK => f.write_str("nonblock"),
            Kind(other) => write!(f, "a collective of kind {other}"),
        }
    }
}

type Text = heapless::String<256>;

/// Two nodes are in different collectives; with the places in the source if there is room.
pub(crate) fn mismatch(first: (u32, &What), second: (u32, &What)) -> Fault {
    let ((a, first), (b, second)) = (first, second);
    let mut long = Text::new();
    let _ = write!(long, "node {a} is in {first} ({}:{})", first.file(), first.line);
    let _ = write!(long, ", node {b} in {second} ({}:{})", second.file(), second.line);
    if long.len() <= FAULT_TEXT {
        return Fault::msg(&long);
    }
    let mut short = Text::new();
    let _ = write!(short, "node {a} is in {first}, node {b} in {second}");
    if first.set != second.set {
        let _ = write!(short, ", of other nodes");
    }
    Fault::msg(&short)
}

#[cold]
pub(crate) fn not_finished(what: &What) -> Fault {
    let mut long = Text::new();
    let _ = write!(long, "not finished: {what} ({}:{})", what.file(), what.line);
    Fault::msg(&long)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn what_a_node_is_in_travels() {
        let set = NodeSet::of_world(3);
        let what = What::new(Kind::REDUCE, set, Location::caller()).named("Sum", "f64").numbered(8);
        let read = What::read(&what.compared(), &what.place());
        assert!(read.compared() == what.compared() && read.line == what.line && read.file() == "what.rs");
        assert_eq!(read.to_string(), "reduce(Sum, f64)");
        let barrier = What::new(Kind::BARRIER, set, Location::caller());
        assert_ne!(barrier.compared(), what.compared());
        let (a, b) = (what.line, barrier.line);
        let fault = mismatch((0, &what), (1, &barrier)).text;
        assert_eq!(
            fault.as_str(),
            std::format!("node 0 is in reduce(Sum, f64) (what.rs:{a}), node 1 in barrier (what.rs:{b})")
        );
    }

    #[test]
    fn the_text_of_a_mismatch_names_both_sides() {
        let set = NodeSet::of_world(2);
        let long = What::new(Kind::REDUCE, set, Location::caller()).named("FirstMax", "(f64, (i64, i64))");
        let other = What::new(Kind::BARRIER, NodeSet::one(1), Location::caller());
        let fault = mismatch((10, &long), (11, &other)).text;
        assert!(fault.starts_with("node 10 is in reduce(FirstMax") && fault.contains("node 11 in barrier"), "{fault}");
        for byte in 0..=255 {
            assert!(!What::read(&[u64::from_ne_bytes([byte; 8]); 5], &[byte; PLACE]).to_string().is_empty());
        }
    }
}
