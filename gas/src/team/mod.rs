//! Teams: ordered sets of ranks, whose members do something together (`gex_TM_t`, `gex_Coll_…`).
//!
//! A team has a *scratch* of [`Team::BYTES`] in each member's segment. Its members exchange in steps. In step s
//! each puts its part on side s mod 2 of its own scratch and then stores s there (T1); a member reads the
//! others' when all have stored s (T2). Only then it begins s + 1. So who writes step s + 2 over a side knows
//! that all have begun s + 1, and have read what was there. Steps wrap.
//!
//! ```text
//! side: step u32 · call: 3 × u32 · 48 bytes · part
//! ```
//!
//! Other ranks can write there what they like, so a member takes its own part from its private memory.

mod atomics;
mod collectives;

pub use atomics::{Amo, AmoValue, AtomicDomain};
pub use collectives::Begun;

use crate::collective::{Collective, CollectiveCall};
use crate::{BarrierName, GasError, Rank};
use hamr_comm::world::{AtomicOp, OutOfReach, RankId, SegAddr};

/// Of the words of a call, and of a part, on a side. Scratches lie in their segments ([`Team::of`]): no sum overflows.
const CALL_AT: u64 = 4;
const PART_AT: u64 = 64;

/// Looks between two polls.
const LOOKS: u32 = 4;

/// Members of a team. Images are small.
pub(crate) const MAX_MEMBERS: usize = if cfg!(hamr_bare) { 8 } else { 64 };

/// A member, and where its scratch is in its segment.
#[derive(Clone, Copy)]
struct Member {
    rank: RankId,
    scratch: u64,
}

/// An ordered set of ranks, of which this one is a member. The members call what a team has in the same
/// order, each with this rank's [`Rank`], which serves messages meanwhile.
pub struct Team {
    me: u32,
    members: heapless::Vec<Member, MAX_MEMBERS>,
    step: u32,
    /// What this member is in.
    call: CollectiveCall,
    /// Members, from the first on, that have said their part of the step.
    said: usize,
}

/// What a member says of the team that it wants to be in: does it; color and key; its scratch.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Wish([u64; 3]);

impl Team {
    /// Bytes of the scratch.
    pub const BYTES: u64 = 16 << 10;
    /// Bytes of a part.
    #[doc(hidden)]
    pub const PART: usize = (Self::BYTES / 2 - PART_AT) as usize;

    /// The team of all ranks, which all call, behind [`Rank::attach`]. The scratch is at the same offset of every
    /// segment, a multiple of 64; nothing else uses it until the team has ended at all ranks.
    ///
    /// # Errors
    /// It does not fit into a segment; [`GasError::NotAttached`].
    pub fn all<S>(rank: &mut Rank<'_, S>, scratch: u64) -> Result<Self, GasError> {
        rank.attached()?;
        if rank.size() as usize > MAX_MEMBERS {
            return Err(GasError::TooManyRanks { size: rank.size(), max: MAX_MEMBERS as u32 });
        }
        let members = (0..rank.size()).map(|rank| Member { rank: RankId(rank), scratch }).collect();
        let team = Self::of(rank, rank.me().0, members)?;
        team.clear(rank, scratch)?;
        rank.barrier(BarrierName::Anonymous)?;
        Ok(team)
    }

    /// A team before its first step.
    fn of<S>(rank: &Rank<'_, S>, me: u32, members: heapless::Vec<Member, MAX_MEMBERS>) -> Result<Self, GasError> {
        for &Member { rank: of, scratch } in &members {
            let (end, len) = (scratch.saturating_add(Self::BYTES), rank.segment_len(of)?);
            if end > len || !scratch.is_multiple_of(64) {
                return Err(GasError::Reach { rank: of.0, why: OutOfReach::Segment { end, len } });
            }
        }
        let (call, said) = (CollectiveCall::new(Collective::Barrier, 0, 0, None), members.len());
        Ok(Self { me, members, step: 0, call, said })
    }

    /// This rank's place in the team (`gex_TM_QueryRank`).
    pub fn me(&self) -> u32 {
        self.me
    }

    /// Members (`gex_TM_QuerySize`).
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// The rank of a member (`gex_TM_TranslateRankToJobrank`).
    pub fn rank(&self, member: u32) -> Option<RankId> {
        self.members.get(member as usize).map(|member| member.rank)
    }

    /// The place of a rank (`gex_TM_TranslateJobrankToRank`); `None`: it is no member.
    pub fn place(&self, rank: RankId) -> Option<u32> {
        self.members.iter().position(|member| member.rank == rank).map(|at| at as u32)
    }

    /// Makes teams of the members of this one with equal colors, in the order of their keys and then of their places here
    /// (`gex_TM_Split`). A member without a color gets none. `scratch` is the new team's in this rank's own segment, as
    /// in [`Self::all`].
    ///
    /// # Errors
    /// It does not fit into the segment, which this rank finds alone, or another's does not. [`GasError::Unequal`].
    pub fn split<S>(
        &mut self,
        rank: &mut Rank<'_, S>,
        color: Option<u32>,
        key: i32,
        scratch: u64,
    ) -> Result<Option<Self>, GasError> {
        let wish = self.say_wish(rank, color, key, scratch)?;
        self.meet(rank)?;
        self.make(rank, wish)
    }

    /// The first half of a split. For interfaces in other languages, as all that is hidden here: they wait by
    /// themselves, until [`Self::has_come`].
    #[doc(hidden)]
    pub fn say_wish<S>(
        &mut self,
        rank: &mut Rank<'_, S>,
        color: Option<u32>,
        key: i32,
        scratch: u64,
    ) -> Result<Wish, GasError> {
        if color.is_some() {
            self.clear(rank, scratch)?;
        }
        let wish = [u64::from(color.is_some()), u64::from(color.unwrap_or(0)) << 32 | u64::from(key as u32), scratch];
        let bytes = wish.map(u64::to_le_bytes);
        let call = CollectiveCall::new(Collective::Split, size_of_val(&bytes), 0, None);
        self.say(rank, call, bytes.as_flattened())?;
        Ok(Wish(wish))
    }

    /// The second half, when all have come.
    #[doc(hidden)]
    pub fn make<S>(&self, rank: &Rank<'_, S>, Wish(mine): Wish) -> Result<Option<Self>, GasError> {
        if mine[0] == 0 {
            return Ok(None);
        }
        let mut wishes = heapless::Vec::<(i32, u32, Member), MAX_MEMBERS>::new();
        for (place, member) in (0..).zip(&self.members) {
            let mut said = mine.map(u64::to_le_bytes);
            if place != self.me {
                self.hear(rank, place, 0, said.as_flattened_mut())?;
            }
            let [has_color, wish, scratch] = said.map(u64::from_le_bytes);
            if has_color == 1 && wish >> 32 == mine[1] >> 32 {
                // No more than there are members.
                let _ = wishes.push((wish as i32, place, Member { rank: member.rank, scratch }));
            }
        }
        wishes.sort_unstable_by_key(|(key, place, _)| (*key, *place));
        let me = wishes.iter().position(|(_, place, _)| *place == self.me).ok_or(GasError::NoRank(rank.me().0))?;
        Ok(Some(Self::of(rank, me as u32, wishes.iter().map(|(_, _, member)| *member).collect())?))
    }

    /// Ends the team; all members call it (`gex_TM_Destroy`). This rank's scratch, whose place is returned, is free then,
    /// also for another team: no member reads or writes it any more.
    ///
    /// # Errors
    /// [`GasError::Unequal`].
    pub fn destroy<S>(mut self, rank: &mut Rank<'_, S>) -> Result<u64, GasError> {
        self.say_end(rank)?;
        self.meet(rank)?;
        self.leave(rank);
        while !self.is_free(rank) {
            if rank.poll_once()? == 0 {
                rank.rest_for(|rank| self.is_free(rank))?;
            }
        }
        Ok(self.scratch())
    }

    /// The first part of an end: a step whose parts are the words in which members say that they have seen it.
    #[doc(hidden)]
    pub fn say_end<S>(&mut self, rank: &mut Rank<'_, S>) -> Result<(), GasError> {
        self.say(rank, CollectiveCall::new(Collective::Destroy, 0, 0, None), &[0; MAX_MEMBERS * 4])
    }

    /// The second, when all have come.
    #[doc(hidden)]
    pub fn leave<S>(&self, rank: &mut Rank<'_, S>) {
        for member in &self.members {
            let at = self.left_at(*member, self.me);
            // In its segment.
            let _ = rank.world.atomic(at, AtomicOp::<u32>::Store(1)); // L1, partner L2
            rank.touched(member.rank);
        }
    }

    /// The last: have all members left this one's scratch?
    #[doc(hidden)]
    pub fn is_free<S>(&self, rank: &Rank<'_, S>) -> bool {
        let mine = self.members.get(self.me as usize);
        let has_left = |place| mine.map(|mine| rank.world.atomic(self.left_at(*mine, place), AtomicOp::<u32>::Load)); // L2, partner L1
        (0..self.size()).all(|place| has_left(place) == Some(Ok(1)))
    }

    fn left_at(&self, member: Member, place: u32) -> SegAddr {
        let side = self.side(member, self.step);
        SegAddr { off: side.off + PART_AT + u64::from(place) * 4, ..side }
    }

    /// Where this rank's scratch is.
    pub fn scratch(&self) -> u64 {
        self.members.get(self.me as usize).map_or(0, |mine| mine.scratch)
    }

    /// Both sides of a scratch of this rank begin.
    fn clear<S>(&self, rank: &Rank<'_, S>, scratch: u64) -> Result<(), GasError> {
        let me = rank.me();
        let outside = |why| GasError::Reach { rank: me.0, why };
        for side in [0, Self::BYTES / 2] {
            let at = SegAddr { rank: me, off: scratch.saturating_add(side) };
            rank.world.atomic(at, AtomicOp::<u32>::Store(0)).map_err(outside)?;
        }
        // The end is there, too.
        rank.world.get(me, scratch.saturating_add(Self::BYTES), &mut []).map_err(outside)
    }

    fn side(&self, member: Member, step: u32) -> SegAddr {
        let side = if step.is_multiple_of(2) { 0 } else { Self::BYTES / 2 };
        SegAddr { rank: member.rank, off: member.scratch.saturating_add(side) }
    }

    /// Begins a step with this member's part, of at most [`Self::PART`] bytes, when all have come to the last one: a
    /// collective may have been dropped in it.
    #[doc(hidden)]
    pub fn say<S>(&mut self, rank: &mut Rank<'_, S>, call: CollectiveCall, part: &[u8]) -> Result<(), GasError> {
        while self.said < self.members.len() && self.look(rank) < self.members.len() {
            self.rest(rank)?;
        }
        self.step = self.step.wrapping_add(1);
        (self.call, self.said) = (call, 0);
        let Some(mine) = self.members.get(self.me as usize) else { return Err(GasError::NoRank(self.me)) };
        let at = self.side(*mine, self.step);
        let outside = |why| GasError::Reach { rank: at.rank.0, why };
        if !part.is_empty() {
            rank.world.put(at.rank, at.off + PART_AT, part).map_err(outside)?;
        }
        rank.world.put(at.rank, at.off + CALL_AT, bytemuck::bytes_of(&call.words())).map_err(outside)?;
        rank.world.atomic(at, AtomicOp::Store(self.step)).map_err(outside)?; // T1, partner T2
        for member in self.members.iter().filter(|member| member.rank != at.rank) {
            rank.touched(member.rank);
        }
        Ok(())
    }

    /// Have all said their part of the step? It does not poll, and looks some times in a row: a rank that is near comes sooner
    /// than a poll of all lanes ends.
    #[doc(hidden)]
    pub fn has_come<S>(&mut self, rank: &Rank<'_, S>) -> Result<bool, GasError> {
        if !(0..LOOKS).any(|_| self.look(rank) == self.members.len()) {
            return Ok(false);
        }
        self.compare(rank)?;
        Ok(true)
    }

    /// A step, until all have come.
    fn exchange<S>(&mut self, rank: &mut Rank<'_, S>, call: CollectiveCall, part: &[u8]) -> Result<(), GasError> {
        self.say(rank, call, part)?;
        self.meet(rank)
    }

    fn meet<S>(&mut self, rank: &mut Rank<'_, S>) -> Result<(), GasError> {
        while !self.has_come(rank)? {
            self.rest(rank)?;
        }
        Ok(())
    }

    /// Polls, and rests if nothing came.
    fn rest<S>(&self, rank: &mut Rank<'_, S>) -> Result<(), GasError> {
        if rank.poll_once()? == 0 {
            rank.rest_for(|rank| self.seen(rank) != self.said)?;
        }
        Ok(())
    }

    fn look<S>(&mut self, rank: &Rank<'_, S>) -> usize {
        self.said = self.seen(rank);
        self.said
    }

    /// How many members, from the first on, have said their part, as far as this rank sees now.
    fn seen<S>(&self, rank: &Rank<'_, S>) -> usize {
        let has_said = |(place, member): &(u32, &Member)| {
            let step = || rank.world.atomic(self.side(**member, self.step), AtomicOp::<u32>::Load); // T2, partner T1
            *place == self.me || step().is_ok_and(|step| step.wrapping_sub(self.step) < 1 << 31)
        };
        self.said + (0..).zip(&self.members).skip(self.said).take_while(has_said).count()
    }

    /// Are all members in the same step of the same collective? All compare with the first, so all find the same.
    fn compare<S>(&self, rank: &Rank<'_, S>) -> Result<(), GasError> {
        let mut first = None;
        for (place, member) in (0..).zip(&self.members) {
            let mut words = self.call.words();
            if place != self.me {
                let at = self.side(*member, self.step);
                let got = rank.world.get(at.rank, at.off + CALL_AT, bytemuck::bytes_of_mut(&mut words));
                got.map_err(|why| GasError::Reach { rank: at.rank.0, why })?;
            }
            let said = (member.rank.0, CollectiveCall::of(words));
            let one = *first.get_or_insert(said);
            if one.1 != said.1 {
                return Err(GasError::Unequal { one, other: said });
            }
        }
        Ok(())
    }

    /// Bytes of what another member has said, from `from` on, when all have come.
    #[doc(hidden)]
    pub fn hear<S>(&self, rank: &Rank<'_, S>, member: u32, from: usize, to: &mut [u8]) -> Result<(), GasError> {
        let Some(member) = self.members.get(member as usize) else { return Err(GasError::NoRank(member)) };
        let at = self.side(*member, self.step);
        let got = rank.world.get(at.rank, at.off + PART_AT + from as u64, to);
        got.map_err(|why| GasError::Reach { rank: at.rank.0, why })
    }
}
