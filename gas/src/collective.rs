//! What the members of a team do together, by name.

use core::fmt;

/// What the members of a team do in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Collective {
    /// They meet.
    Barrier = 1,
    /// One says something to all.
    Broadcast,
    /// Each says something to all.
    Gather,
    /// What they say is joined.
    Reduce,
    /// They make teams.
    Split,
    /// They end the team.
    Destroy,
    /// They make a domain of atomics.
    Domain,
}

impl Collective {
    fn text(self) -> &'static str {
        match self {
            Self::Barrier => "a barrier",
            Self::Broadcast => "a broadcast",
            Self::Gather => "a gather",
            Self::Reduce => "a reduction",
            Self::Split => "a split",
            Self::Destroy => "the end of the team",
            Self::Domain => "a domain of atomics",
        }
    }

    /// Any number is one, as a rank may write what it likes.
    fn of(number: u32) -> Self {
        match number & 0xff {
            2 => Self::Broadcast,
            3 => Self::Gather,
            4 => Self::Reduce,
            5 => Self::Split,
            6 => Self::Destroy,
            7 => Self::Domain,
            _ => Self::Barrier,
        }
    }
}

/// A member's collective, as it tells the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CollectiveCall {
    /// Which.
    pub what: Collective,
    /// Bytes of the member's data; of a domain, a bit for each operation.
    pub bytes: u32,
    /// Bytes of an element, at most 65,535; 0: it has none. Of a domain, its type, as in C.
    pub element: u16,
    /// The member that it comes from, or goes to; `None`: it is of all.
    pub root: Option<u8>,
    /// Of a reduction in C: 1 + its operation's bit in the low byte, 1 + its type's in the next. Else 0: in Rust an operation
    /// is a function.
    pub operation: u16,
}

impl CollectiveCall {
    #[doc(hidden)]
    pub fn new(what: Collective, bytes: usize, element: usize, root: Option<u32>) -> Self {
        let element = u16::try_from(element).unwrap_or(u16::MAX);
        // A member: there are 64 at most.
        Self { what, bytes: bytes as u32, element, root: root.map(|root| root as u8), operation: 0 }
    }

    /// The same of an operation and a type, each a bit, as C has them.
    #[doc(hidden)]
    pub fn with_operation(self, op: u32, data_type: u32) -> Self {
        let place = |bit: u32| bit.trailing_zeros() as u16 + 1;
        Self { operation: place(op) | place(data_type) << 8, ..self }
    }

    pub(crate) fn words(self) -> [u32; 3] {
        let root = self.root.map_or(0, |root| u32::from(root) + 1);
        [self.what as u32 | root << 8 | u32::from(self.element) << 16, self.bytes, self.operation.into()]
    }

    pub(crate) fn of([what, bytes, operation]: [u32; 3]) -> Self {
        let root = ((what >> 8) as u8).checked_sub(1);
        Self { what: Collective::of(what), bytes, element: (what >> 16) as u16, root, operation: operation as u16 }
    }
}

impl fmt::Display for CollectiveCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.what == Collective::Domain {
            return write!(f, "a domain of atomics of type {:#x} with operations {:#x}", self.element, self.bytes);
        }
        write!(f, "{} of {} bytes", self.what.text(), self.bytes)?;
        if self.element > 1 {
            write!(f, " in elements of {}", self.element)?;
        }
        if self.operation != 0 {
            let [op, of] = self
                .operation
                .to_le_bytes()
                .map(|place| 1u32.checked_shl(u32::from(place).wrapping_sub(1)).unwrap_or(0));
            write!(f, " by operation {op:#x} of type {of:#x}")?;
        }
        self.root.map_or(Ok(()), |root| write!(f, " with root {root}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_words() {
        for (what, element, root) in [(Collective::Split, 0, None), (Collective::Reduce, 70_000, Some(63))] {
            let call = CollectiveCall::new(what, 24, element, root);
            assert_eq!(CollectiveCall::of(call.words()), call);
            let call = call.with_operation(1 << 31, 0x20);
            assert_eq!(CollectiveCall::of(call.words()), call);
            let text = alloc::format!("{call}");
            assert!(text.contains(" by operation 0x80000000 of type 0x20"), "{text}");
        }
    }
}
