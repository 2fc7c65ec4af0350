//! What the members of a team do together, by name.

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
}

impl Collective {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Barrier => "a barrier",
            Self::Broadcast => "a broadcast",
            Self::Gather => "a gather",
            Self::Reduce => "a reduction",
            Self::Split => "a split",
        }
    }

    /// Any number is one, as a rank may write what it likes.
    pub(crate) fn of(number: u32) -> Self {
        match number {
            2 => Self::Broadcast,
            3 => Self::Gather,
            4 => Self::Reduce,
            5 => Self::Split,
            _ => Self::Barrier,
        }
    }
}
