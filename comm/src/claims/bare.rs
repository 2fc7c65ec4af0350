//! The ranges of an image without an operating system.

use super::ClaimedRange;

/// There is one thread, and no lock, which a call that is aborted would keep.
static RANGES: spin::Once<&'static [ClaimedRange]> = spin::Once::new();

/// Has tasks of a bare-metal image claim so many ranges at a time.
pub fn use_claimed_ranges(ranges: &'static [ClaimedRange]) {
    RANGES.call_once(|| ranges);
}

/// Runs `f` with all ranges, alone; with a free one where it is to claim it.
pub(super) fn here<R>(_claims: bool, f: impl FnOnce(&[ClaimedRange]) -> R) -> R {
    f(RANGES.get().copied().unwrap_or_default())
}
