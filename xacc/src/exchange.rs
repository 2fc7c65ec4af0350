//! Exchanges: each node copies elements straight between its memory and its partners'.
//!
//! A node tells all partners that its memory may be used, which it never waits for. Then it puts to, or gets
//! from, each partner that has told it the same, and says that it has. Partners follow from the arrays'
//! descriptions, alike on both sides.

use crate::dist::NodeSet;
use crate::fabric::Fabric;
use crate::plan::Copy;
use crate::what::What;
use hamr_comm::Fault;
use hamr_comm::world::{MAX_LEVELS, Strided};

/// Meets all partners, and calls `copy` for each of `copied`, with whom this node copies. The `others` copy with
/// this one: [`end`] waits for them.
#[track_caller]
pub(crate) fn begin(
    fabric: Fabric<'_>,
    what: &What,
    copied: NodeSet,
    others: NodeSet,
    mut copy: impl FnMut(u32) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let partners = copied.with(others);
    for partner in fabric.others(partners) {
        fabric.tell(partner, what, &[])?;
    }
    for partner in fabric.others(partners) {
        fabric.hear(partner, what, &mut [])?;
        if copied.contains(partner) {
            copy(partner)?;
            fabric.arrive(partner)?;
        }
    }
    Ok(())
}

/// Waits until others have made the copies of the last meeting with each.
#[track_caller]
pub(crate) fn end(fabric: Fabric<'_>, others: NodeSet) -> Result<(), Fault> {
    for other in fabric.others(others) {
        fabric.arrived(other, fabric.meeting(other)?)?;
    }
    Ok(())
}

/// Calls `copy` with parts of a planned copy of elements of so many bytes: the place of the first in
/// source and destination, in bytes, and a shape whose `here` is the source.
pub(crate) fn strided(
    copy: &Copy,
    size: usize,
    mut each: impl FnMut(usize, usize, &Strided<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    // Distances of a strided copy are not negative.
    let forwards = copy.levels().iter().take_while(|level| level.from >= 0).count().min(MAX_LEVELS);
    for span in copy.spans(forwards) {
        let (mut counts, mut here, mut there) = ([0; MAX_LEVELS], [0; MAX_LEVELS], [0; MAX_LEVELS]);
        for (i, level) in span.levels().iter().enumerate() {
            (counts[i], here[i], there[i]) = (level.count, level.from as usize * size, level.to as usize * size);
        }
        let n = span.levels().len();
        let shape = Strided { run: span.run * size, counts: &counts[..n], here: &here[..n], there: &there[..n] };
        each(span.from * size, span.to * size, &shape)?;
    }
    Ok(())
}

/// The same with the destination as `here`.
pub(crate) fn turned<'a>(shape: &Strided<'a>) -> Strided<'a> {
    Strided { here: shape.there, there: shape.here, ..*shape }
}
