//! ABI version and evolution policy (abi §1).
//!
//! A window carries the host's range; a device takes the highest version inside both ranges or
//! refuses, naming both. A change that an old peer would misread raises MAJOR. A change that it can
//! ignore (a new section kind, a feature bit, a reserved field put to use behind a feature bit)
//! raises MINOR. Feature bits decide behaviour, versions decide layout.

/// One ABI version; ordered by major, then minor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AbiVersion {
    /// Layout generation: differing majors cannot talk.
    pub major: u16,
    /// Additions that an older peer can ignore.
    pub minor: u16,
}

impl AbiVersion {
    /// The version this source writes.
    pub const CURRENT: Self = Self { major: 0, minor: 7 };
    /// The oldest version this source still reads.
    pub const MIN: Self = Self { major: 0, minor: 1 };

    /// The wire form: major in the high half.
    pub const fn to_wire(self) -> u32 {
        (self.major as u32) << 16 | self.minor as u32
    }

    /// Reads the wire form; every value is a version.
    pub const fn from_wire(word: u32) -> Self {
        Self { major: (word >> 16) as u16, minor: word as u16 }
    }

    /// The version both ranges share, newest first: the peer offers `peer_min..=peer_max`, we offer
    /// `MIN..=CURRENT`.
    pub fn negotiate(peer_min: Self, peer_max: Self) -> Option<Self> {
        // In the wire form, which has the same order: two comparisons in place of four.
        let low = peer_min.to_wire().max(Self::MIN.to_wire());
        let high = peer_max.to_wire().min(Self::CURRENT.to_wire());
        (low <= high).then_some(Self::from_wire(high))
    }
}

impl core::fmt::Display for AbiVersion {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::AbiVersion;

    #[test]
    fn ranges_meet_at_the_newest_common_version() {
        let v = |major, minor| AbiVersion { major, minor };
        assert_eq!(AbiVersion::negotiate(v(0, 0), v(9, 0)), Some(AbiVersion::CURRENT));
        assert_eq!(AbiVersion::negotiate(AbiVersion::CURRENT, AbiVersion::CURRENT), Some(AbiVersion::CURRENT));
        assert_eq!(AbiVersion::negotiate(v(7, 0), v(9, 0)), None);
        assert_eq!(AbiVersion::from_wire(v(3, 4).to_wire()), v(3, 4));
    }
}
