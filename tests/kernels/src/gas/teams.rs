//! Teams and their collectives.

use super::{NOTE, State, TABLE, expect};
use hamr_comm::world::{AtomicOp, RankId, SegAddr};
use hamr_comm::{Fault, offload};
use hamr_gas::{Amo, AmoValue, AtomicDomain, BarrierName, Collective, CollectiveCall, GasError, Rank, Team};

/// Where scratches begin in each segment.
const SCRATCH: u64 = 64 << 10;
/// Numbers of long data: several steps.
const LONG: usize = 2500;

/// What says on a scratch that its member is in a split.
const SPLIT: u32 = Collective::Split as u32;

/// What a member has at a place of its data.
fn number(rank: u32, i: usize) -> u64 {
    (u64::from(rank) + 1) * 1_000_003 + i as u64 * 17
}

/// Everything that a team has, and what all members know beforehand.
fn uses(rank: &mut Rank<'_, State>, team: &mut Team) -> Result<(), Fault> {
    let (me, size) = (team.me(), team.size());
    let ranks: [u32; 8] = core::array::from_fn(|place| team.rank(place as u32).map_or(u32::MAX, |rank| rank.0));
    let of = |place: u32| ranks.get(place as usize).copied().unwrap_or(u32::MAX);
    let mine = of(me);
    expect(mine == rank.me().0 && team.place(rank.me()) == Some(me), "its own place")?;
    team.barrier(rank)?;
    for root in [0, size - 1] {
        for len in [1, 3, LONG] {
            let mut data: [u64; LONG] = core::array::from_fn(|i| number(mine, i));
            let (data, _) = data.split_at_mut(len);
            team.broadcast(rank, root, data)?;
            let from = of(root);
            expect(data.iter().enumerate().all(|(i, x)| *x == number(from, i)), "a broadcast")?;
            // The order shows: 31 · (…) + x is not commutative.
            data.iter_mut().enumerate().for_each(|(i, x)| *x = number(mine, i));
            let join = |x: u64, y: u64| x.wrapping_mul(31).wrapping_add(y);
            team.reduce_to_one(rank, root, data, join)?;
            let joined = |i| (1..size).fold(number(of(0), i), |sum, place| join(sum, number(of(place), i)));
            let wanted = |i| if me == root { joined(i) } else { number(mine, i) };
            expect(data.iter().enumerate().all(|(i, x)| *x == wanted(i)), "a reduction to one")?;
            data.iter_mut().enumerate().for_each(|(i, x)| *x = number(mine, i));
            team.reduce_to_all(rank, data, join)?;
            expect(data.iter().enumerate().all(|(i, x)| *x == joined(i)), "a reduction to all")?;
        }
    }
    let mut all = [0u32; 64];
    let (all, _) = all.split_at_mut(size as usize);
    team.gather(rank, &[mine * 7], all)?;
    let wanted = |(place, x): (usize, &u32)| *x == of(place as u32) * 7;
    expect(all.iter().enumerate().all(wanted), "what was gathered")
}

/// Teams of all, of even and odd ranks in the other order, and of some; messages are served meanwhile.
#[offload]
pub fn together(rank: &mut Rank<State>) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let (me, size) = (rank.me().0, rank.size());
    let mut all = Team::all(rank, SCRATCH)?;
    rank.request_short(RankId((me + 1) % size), NOTE, &[1])?;
    uses(rank, &mut all)?;
    let halves = all.split(rank, Some(me % 2), -(me as i32), SCRATCH + Team::BYTES)?;
    let mut half = halves.ok_or_else(|| Fault::msg("a team of its color"))?;
    expect(half.size() == (size + 1 - me % 2) / 2, "every second rank")?;
    expect(half.rank(0).is_some_and(|first| first.0 + 2 >= size), "the greatest is the first")?;
    uses(rank, &mut half)?;
    // Both go on at the same time, at different steps.
    uses(rank, &mut all)?;
    begun(rank, &mut all, &mut half)?;
    atomics(rank, &mut half)?;
    let first = all.split(rank, (me == 0).then_some(9), 0, SCRATCH + 2 * Team::BYTES)?;
    expect(first.is_some() == (me == 0), "a team of one")?;
    if let Some(mut alone) = first {
        uses(rank, &mut alone)?;
    }
    let end = rank.segment_len(rank.me())?;
    expect(matches!(Team::all(rank, end - 64), Err(GasError::Reach { .. })), "a scratch beyond the end")?;
    rank.block_until(|state| state.noted == 1)?;
    expect(half.destroy(rank)? == SCRATCH + Team::BYTES, "its scratch")?;
    for round in 0..8 {
        // What a team has left is the program's, at once.
        rank.fill(RankId(me), SCRATCH + Team::BYTES, round, Team::BYTES)?;
        let team = all.split(rank, Some(me / 2), 0, SCRATCH + Team::BYTES)?;
        let mut pair = team.ok_or_else(|| Fault::msg("a team of its color"))?;
        let mut sum = [u32::from(round)];
        pair.reduce_to_all(rank, &mut sum, |x, y| x + y)?;
        expect(sum == [u32::from(round) * pair.size()], "the sum of a pair")?;
        pair.destroy(rank)?;
    }
    all.destroy(rank)?;
    Ok(size)
}

/// Collectives of two teams under way at a time, and one that is dropped.
fn begun(rank: &mut Rank<State>, all: &mut Team, half: &mut Team) -> Result<(), Fault> {
    let (me, size) = (u64::from(rank.me().0), u64::from(all.size()));
    let mut long: [u64; LONG] = core::array::from_fn(|i| me + i as u64);
    let (mut sum, root) = ([me], all.size() - 1);
    let halves = half.size();
    let mut first = all.begin_broadcast(rank, root, &mut long)?;
    let mut second = half.begin_reduce(rank, Some(halves - 1), &mut sum, |x, y| x + y)?;
    while !(second.test(rank)? & first.test(rank)?) {
        rank.poll()?;
    }
    expect(first.test(rank)?, "it stays done")?;
    first.wait(rank)?;
    expect(long.iter().zip(size - 1..).all(|(x, wanted)| *x == wanted), "a broadcast that was begun")?;
    let wanted = (0..size).filter(|rank| rank % 2 == me % 2).sum::<u64>();
    expect(sum == [if half.me() == halves - 1 { wanted } else { me }], "a reduction that was begun")?;
    drop(all.begin_barrier(rank)?);
    all.begin_barrier(rank)?.wait(rank)?;
    let named = all.begin_broadcast(rank, root + 1, &mut [0_u8]).err();
    expect(named == Some(GasError::NoRank(root + 1)), "a root that is no member")
}

/// The last rank is in another collective, or has another length, root or size of elements. Returns what `what` stands for if this rank knows both.
#[offload]
pub fn unequal_collectives(rank: &mut Rank<State>, what: u32) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let mut team = Team::all(rank, SCRATCH)?;
    let last = team.size() - 1;
    let is_other = rank.me().0 == last && last > 0;
    let mut data = [1u32; 4];
    let len = match what {
        1 if is_other => 3,
        2 if is_other => 0,
        _ => 4,
    };
    let (some, _) = data.split_at_mut(len);
    let done = match (what, is_other) {
        (0, true) => team.barrier(rank),
        (3, true) => team.reduce_to_one(rank, last, some, |x, y| x + y),
        (4, true) => team.reduce_to_all(rank, &mut [0_u64; 2], |x, y| x + y),
        _ => team.reduce_to_all(rank, some, |x, y| x + y),
    };
    let one = CollectiveCall { what: Collective::Reduce, bytes: 16, element: 4, root: None, operation: 0 };
    let other = match what {
        0 => CollectiveCall { what: Collective::Barrier, bytes: 0, element: 0, ..one },
        1 => CollectiveCall { bytes: 12, ..one },
        2 => CollectiveCall { bytes: 0, ..one },
        3 => CollectiveCall { root: Some(last as u8), ..one },
        _ => CollectiveCall { element: 8, ..one },
    };
    let named = Err(GasError::Unequal { one: (0, one), other: (last, other) });
    expect(done == if last > 0 { named } else { Ok(()) }, "both are named")?;
    // The next one is as any.
    let mut sum = [1u32];
    team.reduce_to_all(rank, &mut sum, |x, y| x + y)?;
    expect(sum == [last + 1], "the next reduction")?;
    team.barrier(rank)?;
    Ok(what)
}

/// The second of two ranks writes what it likes while the first makes a team: over what that has said, or as its own.
#[offload]
pub fn hostile_split(rank: &mut Rank<State>, what: u32) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let mut team = Team::all(rank, SCRATCH)?;
    let next = SCRATCH + Team::BYTES;
    if rank.me().0 == 0 {
        let made = team.split(rank, Some(5), 0, next);
        if what == 0 {
            let mut alone = made?.ok_or_else(|| Fault::msg("a team of its color"))?;
            expect((alone.size(), alone.me(), alone.rank(0)) == (1, 0, Some(RankId(0))), "a team of itself")?;
            alone.barrier(rank)?;
        } else {
            expect(matches!(made, Err(GasError::Reach { rank: 1, .. })), "the other's scratch is refused")?;
        }
    } else {
        // The first step is on the second side (`hamr_gas::team`).
        let side = |rank| SegAddr { rank: RankId(rank), off: SCRATCH + Team::BYTES / 2 };
        while rank.task().world().is_some_and(|world| world.atomic(side(0), AtomicOp::<u32>::Load) != Ok(1)) {
            rank.poll()?;
        }
        let scratch = if what == 1 { u64::MAX } else { rank.segment_len(rank.me())? - Team::BYTES / 2 };
        for (said, word) in [(0, u64::from(what != 0)), (8, 5 << 32), (16, scratch)] {
            rank.put_value(RankId(1), side(1).off + 64 + said, word)?;
        }
        // A split of 24 bytes, which is no collective of elements.
        rank.put_value(RankId(1), side(1).off + 4, SPLIT)?;
        rank.put_value(RankId(1), side(1).off + 8, 24u32)?;
        if what == 0 {
            rank.put_value(RankId(0), side(0).off + 64, 7u64)?;
            rank.put_value(RankId(0), side(0).off + 4, 77u32)?;
        }
        let world = rank.task().world().ok_or_else(|| Fault::msg("a rank"))?;
        world.atomic(side(1), AtomicOp::<u32>::Store(1))?;
    }
    rank.barrier(BarrierName::Anonymous)?;
    Ok(what)
}

/// Domains of all types: every member changes a number of every member.
fn atomics(rank: &mut Rank<State>, team: &mut Team) -> Result<(), Fault> {
    numbers(rank, team, |x| x as i32)?;
    numbers(rank, team, |x| x as u32)?;
    numbers(rank, team, |x| x)?;
    numbers(rank, team, |x| x as u64)?;
    numbers(rank, team, |x| x as f32)?;
    numbers(rank, team, |x| x as f64)?;
    expect(
        AtomicDomain::<f64>::new(rank, team, &[Amo::Xor(0.0)]).err() == Some(GasError::Operation),
        "bits of a float",
    )?;
    let bits = AtomicDomain::new(rank, team, &[Amo::Set(0_u64), Amo::Or(0), Amo::And(0), Amo::Xor(0)])?;
    bits.apply(rank, team.me(), NUMBER, Amo::Set(0))?;
    team.barrier(rank)?;
    for member in 0..team.size() {
        bits.apply(rank, member, NUMBER, Amo::Or(1 << team.me()))?;
        bits.apply(rank, member, NUMBER, Amo::Xor(1 << (team.me() + 32)))?;
        bits.apply(rank, member, NUMBER, Amo::And(!0))?;
    }
    team.barrier(rank)?;
    let all = (1 << team.size()) - 1;
    expect(rank.get_value::<u64>(rank.me(), NUMBER)? == all | all << 32, "bits of all members")?;
    expect(bits.apply(rank, 0, NUMBER, Amo::Inc) == Err(GasError::Operation), "not of this domain")?;
    expect(bits.apply(rank, team.size(), NUMBER, Amo::Or(0)) == Err(GasError::NoRank(team.size())), "no member")?;
    expect(matches!(bits.apply(rank, 0, 4, Amo::Or(0)), Err(GasError::Reach { .. })), "a misaligned number")?;
    let mixed = if team.me() == 0 {
        AtomicDomain::<i32>::new(rank, team, &[]).err()
    } else {
        AtomicDomain::<u32>::new(rank, team, &[]).err()
    };
    expect(matches!(mixed, Some(GasError::Unequal { .. })) == (team.size() > 1), "unequal types")
}

/// Where the number is.
const NUMBER: u64 = 1 << 10;

fn numbers<T: AmoValue + PartialEq + core::ops::Add<Output = T>>(
    rank: &mut Rank<State>,
    team: &mut Team,
    of: fn(i64) -> T,
) -> Result<(), Fault> {
    let (any, size) = (of(0), i64::from(team.size()));
    let swap = Amo::CompareSwap { expected: any, new: any };
    let ops = [
        Amo::Get,
        Amo::Set(any),
        Amo::Swap(any),
        swap,
        Amo::Add(any),
        Amo::Sub(any),
        Amo::Mult(any),
        Amo::Inc,
        Amo::Dec,
        Amo::Min(any),
        Amo::Max(any),
    ];
    let domain = AtomicDomain::new(rank, team, &ops)?;
    let me = team.me();
    domain.apply(rank, me, NUMBER, Amo::Set(of(0)))?;
    team.barrier(rank)?;
    for member in 0..team.size() {
        for op in [Amo::Add(of(9)), Amo::Sub(of(3)), Amo::Inc, Amo::Inc, Amo::Dec] {
            domain.apply(rank, member, NUMBER, op)?;
        }
    }
    team.barrier(rank)?;
    expect(domain.apply(rank, me, NUMBER, Amo::Mult(of(2)))? == of(size * 7), "a sum of all")?;
    expect(domain.apply(rank, me, NUMBER, Amo::Max(of(1000)))? == of(size * 14), "a product")?;
    expect(domain.apply(rank, me, NUMBER, Amo::Min(of(5)))? == of(1000), "the greater")?;
    expect(domain.apply(rank, me, NUMBER, Amo::CompareSwap { expected: of(4), new: of(1) })? == of(5), "the lesser")?;
    expect(
        domain.apply(rank, me, NUMBER, Amo::CompareSwap { expected: of(5), new: of(6) })? == of(5),
        "it was another",
    )?;
    expect(domain.apply(rank, me, NUMBER, Amo::Swap(of(8)))? == of(6), "it was this")?;
    expect(domain.apply(rank, me, NUMBER, Amo::Get)? == of(8), "what was swapped")?;
    team.barrier(rank)?;
    Ok(())
}
