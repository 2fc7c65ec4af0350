//! What is known of a handler's index: the messages that it takes, and its name.

use hamr_comm::abi::table::hash;
use hamr_comm::abi::world::{Category, GasName};

/// The messages that a handler takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kinds(pub(crate) u8);

impl Kinds {
    /// Arguments alone.
    pub const SHORT: Self = Self(1);
    /// A payload that the handler reads.
    pub const MEDIUM: Self = Self(2);
    /// A payload that is in the segment.
    pub const LONG: Self = Self(4);
    /// Any message.
    pub const ANY: Self = Self(7);
    /// Beside them on the wire: a reply handler.
    pub(crate) const REPLY: u8 = 8;

    /// These and others.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline(always)]
    pub(crate) const fn of(category: Category) -> Self {
        Self(1 << category as u8)
    }

    pub(crate) const fn has(self, category: Category) -> bool {
        self.0 & Self::of(category).0 != 0
    }

    pub(crate) const fn text(self) -> &'static str {
        match self.0 & 7 {
            1 => "short",
            2 => "medium",
            3 => "short and medium",
            4 => "long",
            5 => "short and long",
            6 => "medium and long",
            7 => "all",
            _ => "no",
        }
    }
}

const _: () = assert!(Kinds::of(Category::Short).0 == Kinds::SHORT.0);
const _: () = assert!(Kinds::of(Category::Medium).0 == Kinds::MEDIUM.0 && Kinds::of(Category::Long).0 == Kinds::LONG.0);

/// What is known of an index.
#[derive(Clone, Copy)]
pub(crate) struct Info {
    /// `Kinds`, and whether it is a reply handler; 0: there is no handler.
    pub(crate) kinds: u8,
    pub(crate) name: &'static str,
}

impl Info {
    pub(crate) const NONE: Self = Self { kinds: 0, name: "" };

    pub(crate) const fn is_reply(self) -> bool {
        self.kinds & Kinds::REPLY != 0
    }

    pub(crate) fn wire(self) -> GasName {
        let tail = self.name.as_bytes();
        let tail = tail.get(tail.len().saturating_sub(54)..).unwrap_or_default();
        let mut name = [0; 54];
        name.iter_mut().zip(tail).for_each(|(to, byte)| *to = *byte);
        let hash = if self.kinds == 0 { 0 } else { hash(self.name.as_bytes()) | 1 };
        GasName { hash, kinds: self.kinds, len: tail.len() as u8, name }
    }
}
