//! Handlers that send and receive, for tests and examples: inline ones, which do not wait, but poll, and tasks.

use crate::commands::{connect, create_cq, create_qp, register};
use crate::wire::Access;
use crate::{CqId, MrId, QpId, QueuePair, SendWr, Verbs, VerbsError};
use hamr_comm::{Context, Fault, HOST, Task, offload};

/// Polls without a completion before a handler gives up.
const PATIENCE: u32 = 2_000_000_000;

/// Sends `count` messages of eight bytes from `a` to `b`, one behind the other, through the region; returns the sum of what came.
#[offload]
pub fn send_all(cx: &mut Context, a: QpId, b: QpId, cq: CqId, region: MrId, count: u64) -> Result<u64, Fault> {
    let verbs = Verbs::of(cx)?;
    let (a, b) = (verbs.queue_pair(a)?, verbs.queue_pair(b)?);
    let (cq, region) = (verbs.completion_queue(cq)?, verbs.region(region)?);
    let (from, to) = (region.part(0..8)?, region.part(8..16)?);
    let mut sum = 0_u64;
    for number in 0..count {
        region.copy_in(0, &number.to_le_bytes())?;
        b.receive(2 * number, &[to])?;
        a.post(&SendWr::send(2 * number + 1, &[from]))?;
        for id in [2 * number, 2 * number + 1] {
            let mut patience = PATIENCE;
            let found = loop {
                match cq.poll()? {
                    Some(found) => break found,
                    None if patience == 0 => return Err(Fault::msg("no completion came")),
                    None => patience -= 1,
                }
                core::hint::spin_loop();
            };
            if found.id != id || found.status.0 != 0 {
                return Err(Fault::msg("another completion than the next one came"));
            }
        }
        let mut came = [0; 8];
        region.copy_out(8, &mut came)?;
        sum = sum.wrapping_add(u64::from_le_bytes(came));
    }
    Ok(sum)
}

/// Posts a receive request to `b` and a message from `a` for it, and returns how many requests `a` has posted by then.
#[offload]
pub fn post_one(cx: &mut Context, a: QpId, b: QpId, region: MrId, number: u64) -> Result<u32, Fault> {
    let verbs = Verbs::of(cx)?;
    let (a, b): (QueuePair<'_, _>, _) = (verbs.queue_pair(a)?, verbs.queue_pair(b)?);
    b.receive(2 * number, &[verbs.region(region)?.part(8..16)?])?;
    a.post(&SendWr::inline(2 * number + 1, &number.to_le_bytes()))?;
    Ok(a.sent())
}

/// Takes completions that are there; returns how many, or that the adapter is lost.
#[offload]
pub fn take_all(cx: &mut Context, cq: CqId) -> Result<Option<u32>, Fault> {
    let verbs = Verbs::of(cx)?;
    let cq = verbs.completion_queue(cq)?;
    let mut taken = 0;
    loop {
        match cq.poll() {
            Ok(Some(_)) => taken += 1,
            Ok(None) => return Ok(Some(taken)),
            Err(VerbsError::HcaLost) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    }
}

/// [`send_all`] of a task, which waits for each completion.
#[offload]
pub fn send_waiting(task: &mut Task, a: QpId, b: QpId, cq: CqId, region: MrId, count: u64) -> Result<u64, Fault> {
    let verbs = Verbs::of(task)?;
    let (a, b) = (verbs.queue_pair(a)?, verbs.queue_pair(b)?);
    let (cq, region) = (verbs.completion_queue(cq)?, verbs.region(region)?);
    let (from, to) = (region.part(0..8)?, region.part(8..16)?);
    let mut sum = 0_u64;
    for number in 0..count {
        region.copy_in(0, &number.to_le_bytes())?;
        b.receive(2 * number, &[to])?;
        a.post(&SendWr::send(2 * number + 1, &[from]))?;
        for id in [2 * number, 2 * number + 1] {
            let found = cq.wait(task)?;
            if found.id != id || found.status.0 != 0 {
                return Err(Fault::msg("another completion than the next one came"));
            }
        }
        let mut came = [0; 8];
        region.copy_out(8, &mut came)?;
        sum = sum.wrapping_add(u64::from_le_bytes(came));
    }
    Ok(sum)
}

/// Waits for one completion, and returns its number; nothing when the adapter is lost.
#[offload]
pub fn wait_for_one(task: &mut Task, cq: CqId) -> Result<Option<u64>, Fault> {
    let verbs = Verbs::of(task)?;
    match verbs.completion_queue(cq)?.wait(task) {
        Ok(found) => Ok(Some(found.id)),
        Err(VerbsError::HcaLost) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Has the host make queues and a region, and sends `count` messages over them: the steps of figure 4 (b) of paper 002.
#[offload]
pub fn set_up_and_send(task: &mut Task, count: u64) -> Result<u64, Fault> {
    let cq = task.sync(HOST, create_cq::with(16))?;
    let a = task.sync(HOST, create_qp::with(cq, 8, 8))?;
    let b = task.sync(HOST, create_qp::with(cq, 8, 8))?;
    let region = task.sync(HOST, register::with(64, Access::LOCAL_WRITE.0))?;
    task.sync(HOST, connect::with(a, b))?;
    send_waiting(task, a, b, cq, region, count)
}
