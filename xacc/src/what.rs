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
    pub(crate) const SHARED: Self = Self(22);
    /// No collective.
    pub(crate) const NONBLOCK: Self = Self(20);
}

/// A collective: kind, number, set, and two names or numbers; and where it was called.
#[derive(Clone, Copy)]
pub(crate) struct What {
    kind: Kind,
    /// Of all of a type's and an operation's name and form, of which the letters are a part: 24 bits.
    check: u32,
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
        Self { kind, check: 0, number: 0, set: set.bits(), of: [0; 8], name: [0; 16], line: at.line(), file }
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

    /// With the fingerprint of what the names stand for.
    #[must_use]
    #[inline]
    pub(crate) fn checked(self, fingerprint: u64) -> Self {
        Self { check: fold(fingerprint) & 0xFF_FFFF, ..self }
    }

    /// Of the array at this byte of the segment, with the fingerprint of what is done with it.
    #[must_use]
    pub(crate) fn of(self, off: u64, fingerprint: u64) -> Self {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&fingerprint.to_le_bytes());
        Self { of: off.to_le_bytes(), name, ..self }
    }

    /// [`Self::named`] with the fingerprint of what is done in place of the second name.
    #[must_use]
    pub(crate) fn with(mut self, fingerprint: u64) -> Self {
        self.name[..8].copy_from_slice(&fingerprint.to_le_bytes());
        self
    }

    /// Of an array that is made, of so many elements in all; `None`: each node has its own.
    #[must_use]
    pub(crate) fn made(self, fingerprint: u64, elements: Option<u64>, element: &str) -> Self {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&elements.unwrap_or(OWN).to_le_bytes());
        name[8..].copy_from_slice(&letters::<8>(element));
        Self { of: fingerprint.to_le_bytes(), name, ..self }
    }

    /// What is compared.
    #[inline]
    pub(crate) fn compared(&self) -> Compared {
        let name = u128::from_ne_bytes(self.name);
        let kind = u64::from(self.kind.0) | u64::from(self.check) << 8 | u64::from(self.number) << 32;
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
            check: (kind >> 8) as u32 & 0xFF_FFFF,
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
        self.write(f, None)
    }
}

impl What {
    /// What it is; beside another one of the same kind, also in what it differs from that.
    fn write(&self, f: &mut impl Write, other: Option<&Self>) -> fmt::Result {
        let of = u64::from_le_bytes(self.of);
        let twin = other.filter(|other| other.kind == self.kind);
        let [first, last] = [&self.name[..8], &self.name[8..]];
        let number = first.try_into().map_or(0, u64::from_le_bytes);
        // An array, by its place; of two things done with one array, by their fingerprints.
        let array = |f: &mut dyn Write, what: &str| match twin {
            None => write!(f, "{what} the array at {of:#x}"),
            Some(twin) if twin.of != self.of => write!(f, "{what} {of:#x}"),
            Some(_) => write!(f, "{what} {:08x}", fold(number)),
        };
        match self.kind {
            Kind::BARRIER => f.write_str("barrier")?,
            Kind::REDUCE => write!(f, "reduce({}, {})", text(&self.of), text(&self.name))?,
            Kind::BCAST => write!(f, "bcast({}) from {}", text(&self.name), self.number)?,
            Kind::ALLOCATE if number == OWN => write!(f, "own array of {}", text(last))?,
            Kind::REFLECT => array(f, "reflect of")?,
            Kind::REFLECT_START => array(f, "reflect_start of")?,
            Kind::REDUCE_SHADOW => array(f, "reduce_shadow of")?,
            Kind::END_OF_SCOPE => f.write_str("the end of a scope")?,
            Kind::END => f.write_str("its end")?,
            Kind::GMOVE => array(f, "gmove to")?,
            Kind::GMOVE_SUM => array(f, "gmove_sum to")?,
            Kind::GATHER => array(f, "gather of")?,
            Kind::ARRAY_REDUCE => match twin {
                None => write!(f, "reduce({}) of an array", text(&self.of))?,
                Some(_) => write!(f, "reduce({}) of {:08x}", text(&self.of), fold(number))?,
            },
            Kind::COARRAY if twin.is_none() => write!(f, "the allocation of a coarray of {}", text(last))?,
            Kind::SHARED if twin.is_none() => write!(f, "the allocation of a shared array of {}", text(last))?,
            Kind::ALLOCATE | Kind::COARRAY | Kind::SHARED => write!(f, "array of {number} {}", text(last))?,
            Kind::SYNC_ALL => f.write_str("sync_all")?,
            Kind::SYNC_IMAGES => f.write_str("sync_images")?,
            Kind::STORE => array(f, "store of")?,
            Kind::LOAD => array(f, "load of")?,
            Kind::KEEP => array(f, "keep of")?,
            Kind::OPEN => {
                let what = if self.number == 0 { "open of the kept array" } else { "open of the kept coarray" };
                match twin {
                    None => write!(f, "{what} at {of:#x}")?,
                    Some(twin) if twin.number != self.number => f.write_str(what)?,
                    Some(_) => array(f, "open of kept")?,
                }
            }
            Kind::NONBLOCK => f.write_str("nonblock")?,
            Kind(other) => write!(f, "a collective of kind {other}")?,
        }
        let Some(twin) = twin else { return Ok(()) };
        match self.kind {
            Kind::ALLOCATE | Kind::COARRAY | Kind::SHARED if self.name == twin.name && self.of != twin.of => {
                write!(f, ", {:08x}", fold(of))?;
            }
            Kind::REDUCE if self.number != twin.number => write!(f, " of {}", self.number & !SLICE)?,
            _ => {}
        }
        if self.check != twin.check && (self.of, self.name) == (twin.of, twin.name) {
            write!(f, ", {:06x}", self.check)?;
        }
        if self.set != twin.set { write!(f, " on {:#x}", self.set) } else { Ok(()) }
    }
}

/// Of [`What::number`]: the elements of a slice; otherwise bytes of a value.
pub(crate) const SLICE: u32 = 1 << 31;

/// Of an array's elements: each node has its own.
const OWN: u64 = u64::MAX;

/// As much of a fingerprint as is shown.
pub(crate) const fn fold(fingerprint: u64) -> u32 {
    (fingerprint ^ fingerprint >> 32) as u32
}

type Text = heapless::String<256>;

/// Two nodes are in different collectives; with the places in the source if there is room.
pub(crate) fn mismatch(first: (u32, &What), second: (u32, &What)) -> Fault {
    let ((a, first), (b, second)) = (first, second);
    let both = |places: bool| {
        let mut both = Text::new();
        for (name, node, what, other) in [("node", a, first, second), (", node", b, second, first)] {
            let _ = write!(both, "{name} {node} {}", if node == a { "is in " } else { "in " });
            let _ = what.write(&mut both, Some(other));
            if places {
                let _ = write!(both, " ({}:{})", what.file(), what.line);
            }
        }
        both
    };
    let long = both(true);
    if long.len() <= FAULT_TEXT {
        return Fault::msg(&long);
    }
    let mut short = both(false);
    if first.set != second.set && first.kind != second.kind {
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
    fn the_text_of_a_mismatch_shows_each_part_that_is_compared() {
        let set = NodeSet::of_world(2);
        let what = |kind| What::new(kind, set, Location::caller());
        let reduce = what(Kind::REDUCE).named("Sum", "f64").checked(1).numbered(8);
        let array = what(Kind::ALLOCATE).made(1, Some(10), "f64");
        let own = what(Kind::ALLOCATE).made(1, None, "f64");
        let coarray = what(Kind::COARRAY).made(1, Some(10), "f64");
        let reflect = what(Kind::REFLECT_START).of(0x0012_3400, 7);
        let root = what(Kind::BCAST).named("", "f64").numbered(0);
        let in_place = what(Kind::ARRAY_REDUCE).named("Sum", "").with(7);
        for (one, other) in [
            (reduce, reduce.named("Max", "f64")),
            (reduce, reduce.named("Sum", "u64")),
            (reduce, reduce.numbered(16)),
            (reduce.numbered(25 | SLICE), reduce.numbered(26 | SLICE)),
            (reduce, reduce.checked(2)),
            (reduce, What { set: 1, ..reduce }),
            (array, array.made(2, Some(10), "f64")),
            (array, array.made(1, Some(11), "f64")),
            (array, array.made(1, Some(10), "u32")),
            (array, own),
            (own, own.made(2, None, "f64")),
            (own, own.made(1, None, "u32")),
            (coarray, coarray.made(2, Some(10), "f64")),
            (coarray, coarray.made(1, Some(11), "f64")),
            (reflect, reflect.of(0x0012_3440, 7)),
            (reflect, reflect.of(0x0012_3400, 8)),
            (root, root.numbered(1)),
            (in_place, in_place.with(8)),
        ] {
            assert!(one.compared() != other.compared());
            let fault = mismatch((10, &one), (11, &other)).text;
            let (first, second) = fault.split_once(", node 11 in ").expect("both nodes");
            let first = first.strip_prefix("node 10 is in ").expect("both nodes");
            assert!(first != second && fault.len() < FAULT_TEXT, "{fault}");
        }
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
