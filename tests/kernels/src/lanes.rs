//! Handlers of ranks that call each other.

use crate::worlds::world_of;
use hamr_comm::abi::ids::RankId;
use hamr_comm::{BufferPtr, Context, Fault, Pending, Task, Why, offload};
use heapless::Vec;

/// Where this rank is, and a number more.
#[offload]
pub fn rank_and(cx: &mut Context, number: u64) -> Result<(u32, u64), Fault> {
    Ok((world_of(cx.world())?.me().0, number + 1))
}

/// The same of a task that waits for so many microseconds.
#[offload(unordered)]
pub fn rank_and_later(task: &mut Task, number: u64, micros: u32) -> Result<(u32, u64), Fault> {
    task.sleep(core::time::Duration::from_micros(micros.into()))?;
    Ok((world_of(task.world())?.me().0, number + 1))
}

/// Its bytes, each one more.
#[offload]
pub fn step_bytes(_cx: &mut Context, bytes: Vec<u8, 300>) -> Vec<u8, 300> {
    bytes.iter().map(|byte| byte.wrapping_add(1)).collect()
}

/// Panics.
#[offload]
pub fn panics_here(_cx: &mut Context, number: u32) -> u32 {
    panic!("asked to panic with {number}")
}

/// Waits until its call is cancelled.
#[offload(unordered)]
pub fn waits_for_cancel(task: &mut Task) -> Result<u32, Fault> {
    task.wait_until(|| false)?;
    Ok(0)
}

/// Calls each rank, itself among them, so often in each way, and checks what comes back; the calls.
#[offload(unordered)]
pub fn call_all(task: &mut Task, rounds: u32) -> Result<u64, Fault> {
    let size = world_of(task.world())?.size();
    let mut calls = 0;
    let check = |got: (u32, u64), rank, number| {
        if got == (rank, number + 1) { Ok(()) } else { Err(Fault::msg("another rank or number")) }
    };
    for round in 0..rounds {
        for rank in 0..size {
            let (to, number) = (RankId(rank), u64::from(round) << 32 | u64::from(rank));
            check(task.sync(to, rank_and::with(number))?, rank, number)?;
            check(task.sync(to, rank_and_later::with(number, round % 3))?, rank, number)?;
            let len = (round as usize * 7 + rank as usize) % 252;
            let bytes: Vec<u8, 300> = (0..len).map(|i| i as u8).collect();
            let stepped = task.sync(to, step_bytes::with(bytes))?;
            if stepped.len() != len || !(0..len).all(|i| stepped.get(i) == Some(&(i as u8).wrapping_add(1))) {
                return Err(Fault::msg("other bytes"));
            }
            calls += 3;
        }
    }
    Ok(calls)
}

/// Calls the rank behind this one, and behind a barrier a rank that all call, so often; the calls.
#[offload(unordered)]
pub fn ring_and_one(task: &mut Task, one: u32, rounds: u32) -> Result<u32, Fault> {
    let world = world_of(task.world())?;
    let (me, next) = (world.me().0, RankId((world.me().0 + 1) % world.size()));
    let mut calls = 0;
    for to in [next, RankId(one)] {
        for round in 0..rounds {
            let number = u64::from(me) << 32 | u64::from(round);
            if task.sync(to, rank_and::with(number))? != (to.0, number + 1) {
                return Err(Fault::msg("another rank or number"));
            }
            calls += 1;
        }
        task.barrier()?;
    }
    Ok(calls)
}

/// Has four calls at once at a rank, the first of which ends last; the last of which is dropped.
#[offload(unordered)]
pub fn overlap(task: &mut Task, at: u32) -> Result<u64, Fault> {
    let to = RankId(at);
    let slow = task.offload(to, rank_and_later::with(10, 20_000))?;
    let quick = task.offload(to, rank_and_later::with(20, 0))?;
    let inline = task.offload(to, rank_and::with(30))?;
    let dropped = task.offload(to, waits_for_cancel::with())?;
    let inline = task.wait_for(inline)?.1;
    let quick = task.wait_for(quick)?.1;
    if task.is_done(&slow) {
        return Err(Fault::msg("the slow call was waited for"));
    }
    drop(dropped);
    let slow = task.wait_for(slow)?.1;
    let cancelled = task.offload(to, waits_for_cancel::with())?;
    task.cancel(&cancelled);
    match task.wait_for(cancelled) {
        Err(e) if e.why() == Some(Why::Refused(hamr_comm::abi::status::Status::CANCELLED)) => {}
        Err(e) => return Err(e.into()),
        Ok(_) => return Err(Fault::msg("the call was not cancelled")),
    }
    Ok(slow * 10_000 + quick * 100 + inline)
}

/// Begins a call of [`rank_and()`], when the ranks' lane has room.
pub(crate) fn begin<'t>(task: &Task<'t>, to: RankId, number: u64) -> Result<Pending<'t, rank_and>, Fault> {
    loop {
        match task.offload(to, rank_and::with(number)) {
            Err(e) if e.why() == Some(Why::Full) => task.yield_now()?,
            begun => return Ok(begun?),
        }
    }
}

/// Has as many calls of an inline handler at a rank as a task may have, and reads no reply before the
/// host says so in the buffer; the sum of what came back.
#[offload(unordered)]
pub fn hold(task: &mut Task, at: u32, gate: BufferPtr<u32>, number: u64) -> Result<u64, Fault> {
    let calls: Vec<_, 8> = (0..8).map(|i| begin(task, RankId(at), number + i)).collect::<Result<_, _>>()?;
    let gate = task.words(gate)?;
    let gate = gate.get(0).ok_or_else(|| Fault::msg("no word"))?;
    task.wait_until(|| gate.observe() != 0)?;
    // The last first.
    calls.into_iter().rev().try_fold(0, |sum, call| Ok(sum + task.wait_for(call)?.1))
}

/// Calls the next rank, which does the same with one less, down to zero; the sum of the ranks on the
/// way.
#[offload(unordered)]
pub fn around(task: &mut Task, left: u32) -> Result<u64, Fault> {
    let (me, size) = {
        let world = world_of(task.world())?;
        (world.me().0, world.size())
    };
    if left == 0 {
        return Ok(me.into());
    }
    Ok(task.sync(RankId((me + 1) % size), around::with(left - 1))? + u64::from(me))
}

/// Leaves a call of [`note_sum()`] at the next rank for each of so many numbers.
#[offload]
pub fn send_next(cx: &mut Context, numbers: u32) -> Result<u32, Fault> {
    let world = world_of(cx.world())?;
    let next = RankId((world.me().0 + 1) % world.size());
    Ok((0..numbers).filter(|n| cx.send(next, note_sum::with(u64::from(*n))).is_ok()).count() as u32)
}

/// Adds to the first word of this rank's segment.
#[offload]
pub fn note_sum(cx: &mut Context, number: u64) -> Result<(), Fault> {
    let segment = world_of(cx.world())?.segment();
    let word = cx.view_mut(segment)?.first_chunk_mut::<8>().ok_or_else(|| Fault::msg("a short segment"))?;
    *word = (u64::from_le_bytes(*word) + number).to_le_bytes();
    Ok(())
}

/// The first word of this rank's segment.
#[offload]
pub fn noted(cx: &mut Context) -> Result<u64, Fault> {
    let segment = world_of(cx.world())?.segment();
    let word = cx.view(segment)?.first_chunk::<8>().ok_or_else(|| Fault::msg("a short segment"))?;
    Ok(u64::from_le_bytes(*word))
}

/// What the error of a call of [`fail_at()`] says.
pub const FAILURES: [&str; 5] = [
    "failed: panic: hamr_tests_kernels::lanes::panics_here: asked to panic with 7",
    "failed: 257 bytes, the staging chunk has 256",
    "a call to rank 99 failed: no such handler there",
    "failed: no such handler there: hamr_tests_kernels::host_calls::add",
    "a wait was interrupted: its time is over",
];

/// Calls a rank in a way that fails.
#[offload(unordered)]
pub fn fail_at(task: &mut Task, at: u32, way: u32) -> Result<u32, Fault> {
    let to = RankId(at);
    match way {
        0 => Ok(task.sync(to, panics_here::with(7))?),
        1 => Ok(task.sync(to, step_bytes::with((0..253).map(|_| 0).collect()))?.len() as u32),
        2 => Ok(task.sync(RankId(99), rank_and::with(1))?.0),
        3 => Ok(task.sync(to, crate::host_calls::add::with(1))? as u32),
        _ => {
            let _limit = task.within(core::time::Duration::from_millis(2));
            Ok(task.sync(to, waits_for_cancel::with())?)
        }
    }
}
