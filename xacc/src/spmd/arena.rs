//! Memory of a program: arrays from the front of the claim, at the same place on all nodes that make
//! them; what a node has for itself from its end.

use super::Spmd;
use crate::dist::Shape;
use crate::fabric::all_to_all;
use crate::fingerprint;
use crate::int::Int;
use crate::what::{Kind, What};
use core::panic::Location;
use hamr_comm::world::{Memory, Piece, WorldRef};
use hamr_comm::{Element, Fault};

/// Array `n` begins `n * STAGGER` bytes behind a multiple of `PAGE`, so that equal elements of arrays
/// whose sizes are powers of two do not share one set of a first-level cache.
const STAGGER: u64 = 192;
const PAGE: u64 = 4096;
const TURN: u64 = PAGE / STAGGER;

/// Kept arrays at most that a program opens.
const MOST_OPENED: usize = 32;

/// What is left of the claim.
pub(super) struct Arena<'c> {
    memory: Memory<'c>,
    /// Arrays so far.
    arrays: u64,
    /// A scope has failed. Other nodes may still write what was its memory, so nothing is taken any more.
    failed: bool,
    /// What earlier programs have kept, without the arrays that this one has opened; none in a scope.
    kept: Option<heapless::Vec<Memory<'c>, { MOST_OPENED + 1 }>>,
}

impl<'c> Arena<'c> {
    pub(super) fn new(mut memory: Memory<'c>, world: &WorldRef<'_>) -> Result<Self, Fault> {
        let mut kept = heapless::Vec::new();
        if let Some(bytes) = world.kept().checked_sub(memory.off()) {
            let bytes = usize::try_from(bytes).map_err(|_| full())?;
            // There is room for one.
            let _ = kept.push(memory.take_front(bytes).ok_or_else(full)?);
        }
        Ok(Self { memory, arrays: 0, failed: false, kept: Some(kept) })
    }

    /// Is this that of a scope, at whose end its arrays end?
    pub(super) fn is_scope(&self) -> bool {
        self.kept.is_none()
    }

    /// Takes kept bytes from `off` of the segment on, a multiple of 64; `None`: they are not kept, or have
    /// been taken.
    fn take_kept(&mut self, off: u64, bytes: usize) -> Option<Memory<'c>> {
        let kept = self.kept.as_mut()?;
        let has = |part: &Memory<'_>| {
            let end = off.checked_sub(part.off()).and_then(|from| from.checked_add(bytes as u64));
            end.is_some_and(|end| end <= part.len() as u64)
        };
        if kept.is_full() || !off.is_multiple_of(64) {
            return None;
        }
        let mut part = kept.swap_remove(kept.iter().position(has)?);
        let before = part.take_front((off - part.off()) as usize);
        let taken = part.take_front(bytes);
        // One was taken out, and there was room for another.
        before.into_iter().chain(Some(part)).filter(|part| !part.is_empty()).for_each(|part| drop(kept.push(part)));
        taken
    }

    /// Where the next array may begin.
    pub(super) fn top(&self) -> u64 {
        self.memory.off()
    }

    pub(super) fn lend(&mut self) -> Arena<'_> {
        Arena { memory: self.memory.lend(), arrays: self.arrays, failed: self.failed, kept: None }
    }

    /// Nothing is taken any more until this is set back.
    pub(super) fn set_failed(&mut self, failed: bool) {
        self.failed = failed;
    }

    /// Memory may be taken.
    pub(super) fn is_whole(&self) -> Result<(), Fault> {
        if self.failed { Err(Fault::msg("a scope of this program has failed, and so has the program")) } else { Ok(()) }
    }
}

/// The first byte from `top` on for the array with this number; `None`: it would be behind the last one. Other nodes say
/// both.
fn place(top: u64, array: u64) -> Option<u64> {
    let wanted = array % TURN * STAGGER;
    top.checked_add((wanted + PAGE - top % PAGE) % PAGE)
}

impl<'c> Spmd<'c> {
    /// Memory for `n` elements that this node has for itself, all zero, as long as the program or the
    /// [`scope`](Spmd::scope).
    ///
    /// # Errors
    /// There is no room, or `n` is negative.
    pub fn local<T: Element>(&mut self, n: impl Int) -> Result<&'c mut [T], Fault> {
        self.arena.is_whole()?;
        let n = usize::try_from(n.number()).map_err(|_| full())?;
        let bytes = n.checked_mul(size_of::<T>()).ok_or_else(full)?;
        let memory = self.arena.memory.take_end(bytes).ok_or_else(full)?;
        memory.use_large_pages();
        let elements = memory.piece().into_mut_slice().get_mut(..n).ok_or_else(full)?;
        elements.fill(T::zeroed());
        Ok(elements)
    }

    /// Memory of this node for the length of the borrow, of any content.
    pub(crate) fn scratch<T: Element>(&mut self, n: usize) -> Result<&mut [T], Fault> {
        self.arena.is_whole()?;
        let bytes = n.checked_mul(size_of::<T>()).ok_or_else(full)?;
        let elements = self.arena.memory.lend().take_end(bytes).ok_or_else(full)?.piece().into_mut_slice();
        elements.get_mut(..n).ok_or_else(full)
    }

    /// Memory for `n` elements of an array at the same place on all nodes of the executing set, which the nodes agree on;
    /// its bytes are of earlier use. An address stands for one fingerprint from here on.
    #[track_caller]
    pub(crate) fn allocate<T: Element, const N: usize>(
        &mut self,
        n: usize,
        shape: &Shape<'_, N>,
    ) -> Result<Piece<'c, T>, Fault> {
        self.arena.is_whole()?;
        let bytes = bytes_of::<T>(n)?;
        let what = What::new(Kind::ALLOCATE, self.set, Location::caller());
        let elements = (!shape.is_own()).then(|| shape.elements());
        let what = what.made(fingerprint::of_making::<T, N>(shape), elements, T::TYPE_NAME);
        // The furthest of all nodes: some may have made arrays for themselves in a task, or longer ones of their own.
        let mine = [self.arena.top(), self.arena.arrays];
        let mut most = mine;
        let mine_bytes = mine.map(u64::to_le_bytes);
        let mine_bytes = mine_bytes.as_flattened();
        all_to_all(self.fabric, self.set, &what, (mine_bytes, mine_bytes.len()), |_, theirs| {
            for (most, theirs) in most.iter_mut().zip(theirs.as_chunks().0) {
                *most = (*most).max(u64::from_le_bytes(*theirs));
            }
        })?;
        let [top, array] = most;
        let start = place(top, array).ok_or_else(full)?;
        let gap = usize::try_from(start - mine[0]).map_err(|_| full())?;
        let memory = &mut self.arena.memory;
        memory.take_front(gap).ok_or_else(full)?;
        self.arena.arrays = array.wrapping_add(1);
        let memory = memory.take_front(bytes).ok_or_else(full)?;
        memory.use_large_pages();
        Ok(memory.piece())
    }

    /// Memory of an earlier program's array of `n` elements that begins at `off`.
    pub(crate) fn kept<T: Element>(&mut self, off: u64, n: usize) -> Result<Piece<'c, T>, Fault> {
        self.arena.is_whole()?;
        if self.arena.is_scope() {
            return Err(Fault::msg("kept arrays are opened outside of scopes"));
        }
        Ok(self.arena.take_kept(off, bytes_of::<T>(n)?).ok_or_else(not_kept)?.piece())
    }
}

fn bytes_of<T>(n: usize) -> Result<usize, Fault> {
    n.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_next_multiple_of(64)).ok_or_else(full)
}

/// Memory that an earlier program has not kept, or that a later one has freed.
#[cold]
pub(crate) fn not_kept() -> Fault {
    Fault::msg("this array is not kept here, or is open already")
}

#[cold]
fn full() -> Fault {
    Fault::msg("no room is left in the segment")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_begin_at_different_places_of_a_page() {
        for top in [0, 64, 4096, 1 << 20, (1 << 20) + 192] {
            for array in 0..50 {
                let at = place(top, array).expect("far from the end");
                assert!(at >= top && at - top < PAGE && at.is_multiple_of(64), "{top} {array}");
                assert_eq!(at % PAGE, array % 21 * 192);
            }
        }
        assert_eq!(
            (place(u64::MAX, 0), place(u64::MAX - 4095, u64::MAX)),
            (None, Some(u64::MAX - 4095 + u64::MAX % 21 * 192))
        );
    }
}
