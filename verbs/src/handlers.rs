//! Handlers that send and receive, for tests and examples: inline, so that they do not wait, but poll.

use crate::{CqId, MrId, QpId, QueuePair, SendWr, Verbs, VerbsError};
use hamr_comm::{Context, Fault, offload};

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

/// The ping-pong of paper 002: sends messages of eight bytes to another device and waits for each to come back, or sends back
/// what comes (`serves`). Returns how many came as they were sent.
#[offload]
pub fn ping_pong(cx: &mut Context, qp: QpId, cq: CqId, region: MrId, count: u64, serves: bool) -> Result<u64, Fault> {
    let verbs = Verbs::of(cx)?;
    let (qp, cq, region) = (verbs.queue_pair(qp)?, verbs.completion_queue(cq)?, verbs.region(region)?);
    let (out, back) = (region.part(0..8)?, region.part(8..16)?);
    const RECEIVE: u64 = 1;
    const SEND: u64 = 2;
    qp.receive(RECEIVE, &[back])?;
    let mut good = 0;
    for number in 0..count {
        if !serves {
            region.copy_in(0, &number.to_le_bytes())?;
            qp.post(&SendWr::send(SEND, &[out]))?;
        }
        let mut patience = PATIENCE;
        loop {
            match cq.poll()? {
                Some(found) if found.status.0 != 0 => return Err(Fault::msg("a request has failed")),
                Some(found) if found.id == RECEIVE => break,
                // A send.
                Some(_) => {}
                None if patience == 0 => return Err(Fault::msg("no completion came")),
                None => patience -= 1,
            }
            core::hint::spin_loop();
        }
        let mut came = [0; 8];
        region.copy_out(8, &mut came)?;
        good += u64::from(came == number.to_le_bytes());
        // Before the answer: the peer finds a receive request.
        qp.receive(RECEIVE, &[back])?;
        if serves {
            region.copy_in(0, &came)?;
            qp.post(&SendWr::send(SEND, &[out]))?;
        }
    }
    Ok(good)
}
