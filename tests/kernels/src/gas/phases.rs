//! The split-phase barrier.

use super::{NOTE, State, TABLE, expect};
use hamr_comm::world::RankId;
use hamr_comm::{Fault, offload};
use hamr_gas::{BarrierName, GasError, Rank};

/// Barriers with and without names, in two phases and in one. What ranks put before one is there behind
/// it, and messages are served in it.
#[offload]
pub fn barriers(rank: &mut Rank<State>, rounds: u32) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let (me, size) = (rank.me().0, rank.size());
    let next = RankId((me + 1) % size);
    for round in 1..=rounds {
        let world = rank.task().world().ok_or_else(|| Fault::msg("a rank"))?;
        world.put_value(next, 0, round * 100 + me)?;
        let name = if round % 2 == 0 { BarrierName::Anonymous } else { BarrierName::Named(round) };
        let agreed = if round % 3 == 0 {
            rank.barrier_notify(name)?;
            rank.request_short(next, NOTE, &[1])?;
            let mut agreed = rank.barrier_try(name)?;
            while agreed.is_none() {
                rank.poll()?;
                agreed = rank.barrier_try(name)?;
            }
            agreed.flatten()
        } else {
            rank.barrier(name)?
        };
        expect(agreed == (round % 2 == 1).then_some(round), "another name")?;
        let world = rank.task().world().ok_or_else(|| Fault::msg("a rank"))?;
        expect(world.get_value::<u32>(rank.me(), 0)? == round * 100 + (me + size - 1) % size, "what was put before")?;
        rank.barrier(BarrierName::Anonymous)?;
    }
    rank.block_until(|state| state.noted == rounds / 3)?;
    rank.barrier(BarrierName::Anonymous)?;
    Ok(rounds)
}

/// One rank has another name than the others, or says something else. The outcome at each rank: 0 agreed
/// on none, 1 on a name, 2 a mismatch that names `who`, 3 one that does not.
#[offload]
pub fn barrier_names(rank: &mut Rank<State>, who: u32, what: u32) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let usual = BarrierName::Named(5);
    let (notify, wait) = match what {
        _ if rank.me().0 != who => (usual, usual),
        0 => (usual, usual),
        1 => (BarrierName::Named(6), BarrierName::Named(6)),
        2 => (BarrierName::Mismatch, BarrierName::Mismatch),
        3 => (BarrierName::Anonymous, BarrierName::Anonymous),
        4 => (BarrierName::Anonymous, usual),
        5 => (BarrierName::Anonymous, BarrierName::Named(6)),
        _ => (usual, BarrierName::Mismatch),
    };
    expect(rank.barrier_wait(wait) == Err(GasError::BarrierOrder { notified: false }), "not notified")?;
    rank.barrier_notify(notify)?;
    expect(rank.barrier_notify(notify) == Err(GasError::BarrierOrder { notified: true }), "notified twice")?;
    let outcome = match rank.barrier_wait(wait) {
        Ok(None) => 0,
        Ok(Some(name)) => name - 4,
        Err(GasError::BarrierNames { one, other }) if one.0 == who || other.0 == who => 2,
        Err(GasError::BarrierNames { .. }) => 3,
        Err(other) => return Err(other.into()),
    };
    // The next one is as any.
    expect(rank.barrier(BarrierName::Named(7))? == Some(7), "the next barrier")?;
    rank.hold_interrupts()?;
    expect(rank.hold_interrupts() == Err(GasError::Interrupts { held: true }), "held twice")?;
    rank.resume_interrupts()?;
    expect(rank.resume_interrupts() == Err(GasError::Interrupts { held: false }), "resumed twice")?;
    Ok(outcome)
}

/// All but the last rank wait in a barrier, for ever; that one polls.
#[offload]
pub fn waits_in_a_barrier(rank: &mut Rank<State>) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    if rank.me().0 + 1 == rank.size() {
        rank.block_until(|_| false)?;
    }
    rank.barrier(BarrierName::Anonymous)?;
    Ok(0)
}
