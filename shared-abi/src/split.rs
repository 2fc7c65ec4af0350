//! Split placement: the host's half of each slot lies apart from the device's (abi §4.6).
//!
//! ```text
//! window   0            front    HEAP            distance      distance + front
//!          | what the device polls |   buffers   | what the host polls |
//! ```
//! Or below HEAP, where both are in one memory. The two parts have the same form: what the host polls
//! has its place in the first part too, and lies one *distance* behind it. An image without the feature
//! `split` has coherent placement alone, and no code for another.

use crate::preamble::{Preamble, feature, word};
use core::ops::Range;

/// Host memory begins on a page.
pub(crate) const PAGE: u64 = 4096;

/// How far behind its coherent place lies what the host polls; zero with coherent placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Split {
    #[cfg(any(feature = "split", not(any(target_os = "none", hamr_bare))))]
    distance: u64,
}

impl Split {
    /// Coherent placement.
    pub const NONE: Self = Self::of(0);
    /// Of an image's features (abi §3.6), the one for this.
    pub const FEATURE: u32 =
        if cfg!(any(feature = "split", not(any(target_os = "none", hamr_bare)))) { feature::SPLIT } else { 0 };
    /// Can this program have another placement than the coherent one?
    pub const IS_SUPPORTED: bool = Self::FEATURE != 0;

    /// This distance.
    #[cfg_attr(all(not(feature = "split"), any(target_os = "none", hamr_bare)), expect(unused_variables))]
    pub(crate) const fn of(distance: u64) -> Self {
        Self {
            #[cfg(any(feature = "split", not(any(target_os = "none", hamr_bare))))]
            distance,
        }
    }

    /// What a preamble says, unchecked.
    pub const fn in_preamble(preamble: &Preamble) -> Self {
        Self::of(preamble.split)
    }

    /// Bytes.
    #[inline(always)]
    pub const fn distance(self) -> u64 {
        #[cfg(any(feature = "split", not(any(target_os = "none", hamr_bare))))]
        return self.distance;
        #[cfg(all(not(feature = "split"), any(target_os = "none", hamr_bare)))]
        0
    }

    /// Where what the host polls lies, of something with this coherent place.
    #[inline(always)]
    pub const fn at_host(self, coherent: u64) -> u64 {
        coherent.wrapping_add(self.distance())
    }

    /// Offset of the device's wait word, which the host loads after each message.
    #[inline(always)]
    pub const fn device_wait(self) -> u64 {
        self.at_host(word::DEVICE_WAIT)
    }
}

/// What a window has behind the end of its first part.
#[derive(Clone, Copy)]
pub(crate) struct Tail {
    #[cfg(any(feature = "split", not(any(target_os = "none", hamr_bare))))]
    range: (u64, u64),
}

impl Tail {
    pub(crate) const NONE: Self = Self::of(0, 0);

    #[cfg_attr(all(not(feature = "split"), any(target_os = "none", hamr_bare)), expect(unused_variables))]
    const fn of(from: u64, end: u64) -> Self {
        Self {
            #[cfg(any(feature = "split", not(any(target_os = "none", hamr_bare))))]
            range: (from, end),
        }
    }

    /// These bytes of a region.
    pub(crate) const fn new(range: &Range<u64>) -> Self {
        Self::of(range.start, range.end)
    }

    /// Does it have these bytes?
    #[cfg(any(feature = "split", not(any(target_os = "none", hamr_bare))))]
    pub(crate) fn has(&self, off: u64, want: u64) -> bool {
        let (from, end) = self.range;
        off >= from && off <= end && want <= end - off
    }

    #[cfg(all(not(feature = "split"), any(target_os = "none", hamr_bare)))]
    #[inline(always)]
    pub(crate) fn has(&self, _off: u64, _want: u64) -> bool {
        false
    }
}
