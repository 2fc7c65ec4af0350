//! Programs that wait for a node that a test ends.

use hamr_comm::Task;
use hamr_tests_kernels::lost::{begins, fails};
use hamr_xacc::prelude::*;
use hamr_xacc::program;

/// How [`program_waits_for()`] waits. In the last two, the node that is lost has the lock.
pub const PROGRAM_WAYS: [&str; 15] = [
    "barrier",
    "reduce",
    "bcast",
    "an allocation",
    "reflect",
    "reflect_finish",
    "gmove",
    "gmove_finish",
    "gmove_sum",
    "sync_all",
    "sync_image",
    "wait",
    "wait for any",
    "locked",
    "critical",
];

/// Where in the segment it leaves its notes: behind the slots of three nodes, before what a program claims.
pub const PROGRAM_NOTE: u64 = 0x800;

/// All nodes but `at` wait for it in one of the ways, for ever.
#[offload(unordered)]
pub fn program_waits_for(task: &mut Task, how: u32, at: u32) -> Result<u32, Fault> {
    begins(task, PROGRAM_NOTE)?;
    let waited = program(task, |w| wait(w, how, at));
    if let Err(fault) = &waited {
        fails(task, PROGRAM_NOTE, fault)?;
    }
    waited
}

fn wait(w: &mut Spmd, how: u32, at: u32) -> Result<u32, Fault> {
    let all = w.nodes([w.size()])?;
    let line = all.template([12]).distribute([Block])?;
    // Of three nodes, each has something for each other one.
    let other = all.template([12]).distribute([Cyclic])?;
    let (mut a, mut b) = (line.shadow([1]).zeros::<f64>(w)?, other.zeros::<f64>(w)?);
    let ring = Halo::new([1]).periodic([true]);
    // Every node has all of it.
    let replicated = all.template([w.size().into(), 12]).distribute([Block, Whole])?.align([on(1)]).zeros::<f64>(w)?;
    let mut whole = w.own([12]).zeros::<f64>(w)?;
    let locks = w.locks(1)?;
    let is_lost = w.me() == at;
    let never = |w: &mut Spmd| w.wait(w.me(), 1).map(|_| 0);
    match how {
        13 | 14 if is_lost => return locks.locked(0, 0, w, |w| w.barrier().and_then(|()| never(w))),
        13 | 14 => w.barrier()?,
        _ if is_lost => return never(w),
        _ => {}
    }
    match how {
        0 => w.barrier()?,
        1 => w.reduce(Sum, 1.0f64).map(|_| ())?,
        2 => w.bcast(at, &mut 1u8)?,
        3 => line.zeros::<f64>(w).map(|_| ())?,
        4 => a.reflect_with(ring, w)?,
        5 => a.reflect_start(ring, w).and_then(|()| a.reflect_finish(w))?,
        6 => b.gmove(&a, w)?,
        7 => b.gmove_start(&a, w).and_then(|()| b.gmove_finish(w))?,
        8 => whole.gmove_sum(&replicated, w)?,
        9 => w.sync_all()?,
        10 => w.sync_image(at)?,
        11 => w.wait(at, 3).map(|_| ())?,
        12 => w.wait(None, None).map(|_| ())?,
        13 => locks.locked(0, 0, w, |_| Ok(()))?,
        _ => locks.critical(w, |_| Ok(()))?,
    }
    Err(Fault::msg("there was nothing to wait for"))
}
