//! The state of a program's posts.
//!
//! For each pair of nodes and tag there is a signal word with the number of posts since the program
//! began. Words outlast programs, so another word says which program's they are: the number of this
//! node's meeting with itself, of which each program has one, on all nodes alike.

use core::cell::Cell;
use hamr_comm::Fault;
use hamr_comm::world::{Memory, RankId, WorldRef};

/// Tags of posts.
pub(crate) const TAGS: u8 = 16;
/// Signal words: the program, and from which on there is one for each tag.
const PROGRAM: u32 = 2;
const FIRST: u32 = 16;
/// Numbers that are kept for each node: posts to it by tag, those of it that waits have taken, and
/// whether there was a post to it. A multiple of a line.
const KEPT: usize = 48;

/// A program's posts.
#[derive(Clone, Copy)]
pub(crate) struct Posts<'c> {
    program: u32,
    kept: &'c [Cell<u32>],
}

impl<'c> Posts<'c> {
    /// None so far.
    pub(crate) fn new(world: &WorldRef<'_>, memory: &mut Memory<'c>) -> Result<Self, Fault> {
        let memory = memory.take_front(world.size() as usize * KEPT * size_of::<u32>());
        let kept = memory.ok_or_else(|| Fault::msg("the segment is too short"))?.piece().into_mut_slice();
        kept.fill(0);
        Ok(Self { program: world.meet(world.me())?, kept: Cell::from_mut(kept).as_slice_of_cells() })
    }

    fn kept(&self, rank: u32, nth: usize) -> Option<&Cell<u32>> {
        self.kept.get(rank as usize * KEPT + nth)
    }

    fn posted(&self, to: u32, tag: u8) -> Option<&Cell<u32>> {
        self.kept(to, tag.into())
    }

    fn taken(&self, from: u32, tag: u8) -> Option<&Cell<u32>> {
        self.kept(from, usize::from(TAGS + tag))
    }

    /// The signal word of a tag.
    pub(crate) fn word(tag: u8) -> u32 {
        FIRST + u32::from(tag)
    }

    /// Posts to a rank.
    pub(crate) fn post(&self, world: &WorldRef<'_>, to: u32, tag: u8) -> Result<(), Fault> {
        let (Some(begun), Some(count)) = (self.kept(to, 32), self.posted(to, tag)) else { return Ok(()) };
        if begun.replace(1) == 0 {
            (0..TAGS.into()).try_for_each(|tag| world.signal(RankId(to), FIRST + tag, 0))?;
            // The partner reads the others only behind this one.
            world.signal(RankId(to), PROGRAM, self.program)?;
        }
        count.set(count.get().wrapping_add(1));
        Ok(world.signal(RankId(to), Self::word(tag), count.get())?)
    }

    /// Takes a post of a rank, if there is one.
    pub(crate) fn take(&self, world: &WorldRef<'_>, from: u32, tag: u8) -> Result<bool, Fault> {
        let Some(taken) = self.taken(from, tag) else { return Ok(false) };
        if world.signalled(RankId(from), PROGRAM)? != self.program
            || world.signalled(RankId(from), Self::word(tag))? == taken.get()
        {
            return Ok(false);
        }
        taken.set(taken.get().wrapping_add(1));
        Ok(true)
    }
}
