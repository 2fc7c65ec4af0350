//! Routines that change what outlasts their task, each between [`begin`] and [`end`]: tests end the task in front of
//! every instruction of them (`tests/tests/qemu/steps.rs`).

use hamr_comm::world::{RankId, RankSet};
use hamr_comm::{BufferPtr, Context, Fault, Resource, Task, offload};
use hamr_tests_kernels::echo;

/// What [`steps()`] does. Those from [`OF_WORLDS`] on are for ranks, and have rank 1 for their partner.
pub const ROUTINES: [&str; 16] = [
    "claim of a buffer",
    "end of a buffer's claim",
    "claim of a resource",
    "end of a resource's claim",
    "use of a resource",
    "use of a claimed resource",
    "clearing of a resource",
    "words",
    "signal",
    "announcement",
    "notification",
    "key of a handler",
    "message to a rank",
    "call of a rank",
    "claim of the segment",
    "end of the segment's claim",
];

/// See [`ROUTINES`].
pub const OF_WORLDS: usize = 8;

/// The first instruction of a routine.
#[inline(never)]
pub fn begin() {
    core::hint::black_box(1);
}

/// The first instruction behind a routine.
#[inline(never)]
pub fn end() {
    core::hint::black_box(2);
}

static LEVEL: Resource<u64> = Resource::new(0);

/// Does one of the [`ROUTINES`], by its place there.
#[offload(unordered)]
pub fn steps(task: &mut Task, routine: u32, x: BufferPtr<u32>) -> Result<(), Fault> {
    let partner = RankId(1);
    match routine {
        0 => {
            begin();
            let _claim = task.claim((x.write(),))?;
            end();
        }
        1 => {
            let claim = task.claim((x.write(),))?;
            begin();
            drop(claim);
            end();
        }
        2 => {
            begin();
            let _claim = task.claim_resource(&LEVEL)?;
            end();
        }
        3 => {
            let claim = task.claim_resource(&LEVEL)?;
            begin();
            drop(claim);
            end();
        }
        4 => {
            begin();
            task.with(&LEVEL, |level| *level += 1)?;
            end();
        }
        5 => {
            let _claim = task.claim_resource(&LEVEL)?;
            begin();
            task.with(&LEVEL, |level| *level += 1)?;
            end();
        }
        6 => {
            begin();
            task.clear_poison(&LEVEL, 3);
            end();
        }
        7 => {
            begin();
            if let Some(word) = task.words(x)?.get(0) {
                word.publish(word.load() + 1);
            }
            end();
        }
        8 => {
            let world = task.world().ok_or_else(no_rank)?;
            begin();
            world.signal(partner, 0, 1)?;
            end();
        }
        9 => {
            let gas = task.gas_world().ok_or_else(no_rank)?;
            begin();
            gas.announce(partner);
            end();
        }
        10 => {
            let world = task.world().ok_or_else(no_rank)?;
            begin();
            world.notify(partner);
            end();
        }
        11 | 13 => {
            begin();
            let echoed = task.sync(partner, echo::with(7u64));
            end();
            echoed?;
        }
        12 => {
            begin();
            task.send(partner, echo::with(7u64))?;
            end();
        }
        14 => {
            begin();
            let _claim = task.claim_segment(0)?;
            end();
        }
        15 => {
            let claim = task.claim_segment(0)?;
            begin();
            drop(claim);
            end();
        }
        _ => return Err(Fault::msg("no such routine")),
    }
    Ok(())
}

/// Calls rank 1, which may sleep, and leaves it a message.
#[offload(unordered)]
pub fn calls_partner(task: &mut Task) -> Result<u64, Fault> {
    task.send(RankId(1), echo::with(7u64))?;
    Ok(task.sync(RankId(1), echo::with(7u64))?)
}

/// Announces something to rank 1.
#[offload(unordered)]
pub fn announces(task: &mut Task) -> Result<(), Fault> {
    task.gas_world().ok_or_else(no_rank)?.announce(RankId(1));
    Ok(())
}

/// Has rank 0 announced something to this one, since it was asked last?
#[offload(unordered)]
pub fn finds(task: &mut Task) -> Result<bool, Fault> {
    let mut found = RankSet::EMPTY;
    task.gas_world().ok_or_else(no_rank)?.collect(&mut found);
    Ok(found.next(0) == Some(RankId(0)))
}

fn no_rank() -> Fault {
    Fault::msg("this device is no rank")
}

/// Uses the resource, once it is cleared if that is needed: was it?
#[offload]
pub fn repairs(cx: &mut Context) -> Result<bool, Fault> {
    let was_poisoned = LEVEL.is_poisoned();
    cx.clear_poison(&LEVEL, 5);
    cx.with(&LEVEL, |level| *level += 1)?;
    Ok(was_poisoned)
}

/// Claims buffer and resource, both of which are free.
#[offload(unordered)]
pub fn claims_both(task: &mut Task, x: BufferPtr<u32>) -> Result<(), Fault> {
    let _x = task.claim((x.write(),))?;
    let _level = task.claim_resource(&LEVEL)?;
    Ok(())
}

/// Views the buffer to write.
#[offload]
pub fn views(cx: &mut Context, x: BufferPtr<u32>) -> Result<u64, Fault> {
    Ok(cx.view_mut(x)?.len() as u64)
}

/// Leaves the resource poisoned.
#[offload]
pub fn poisons(cx: &mut Context) -> Result<(), Fault> {
    cx.with(&LEVEL, |_| panic!("asked to"))
}
