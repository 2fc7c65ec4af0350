//! Handlers that send and receive, for tests and examples: inline ones, which do not wait, but poll, and tasks.

use crate::commands::{connect, create_cq, create_qp, register};
use crate::memory::Memory;
use crate::wire::{Access, Opcode, Sge};
use crate::{Completion, CompletionQueue, CqId, MrId, QpId, QueuePair, Remote, SendWr, SrqId, Verbs, VerbsError};
#[cfg(target_has_atomic = "64")]
use hamr_comm::abi::window::AtomicOp;
use hamr_comm::side::{Running, Side};
use hamr_comm::{Context, Fault, HOST, Migratable, Task, offload};

/// Polls without a completion before a handler gives up.
const PATIENCE: u32 = 2_000_000_000;

/// Sends `count` messages of eight bytes from `a` to `b`, one behind the other, through the region; returns the sum of
/// what came.
#[offload]
pub fn send_all(cx: &mut Context, a: QpId, b: QpId, cq: CqId, region: MrId, count: u64) -> Result<u64, Fault> {
    send_each(cx, [a, b], cq, region, count, |cq| {
        for _ in 0..PATIENCE {
            if let Some(found) = cq.poll()? {
                return Ok(found);
            }
            core::hint::spin_loop();
        }
        Err(Fault::msg("no completion came"))
    })
}

/// [`fn@send_all`] of a task, which waits for each completion.
#[offload]
pub fn send_waiting(task: &mut Task, a: QpId, b: QpId, cq: CqId, region: MrId, count: u64) -> Result<u64, Fault> {
    send_each(task, [a, b], cq, region, count, |cq| Ok(cq.wait(task)?))
}

fn send_each(
    running: &impl Running,
    [a, b]: [QpId; 2],
    cq: CqId,
    region: MrId,
    count: u64,
    next: impl Fn(&CompletionQueue<'_, Side>) -> Result<Completion, Fault>,
) -> Result<u64, Fault> {
    let verbs = Verbs::of(running)?;
    let (a, b) = (verbs.queue_pair(a)?, verbs.queue_pair(b)?);
    let (cq, region) = (verbs.completion_queue(cq)?, verbs.region(region)?);
    let (from, to) = (region.part(0..8)?, region.part(8..16)?);
    let mut sum = 0_u64;
    for number in 0..count {
        region.copy_in(0, &number.to_le_bytes())?;
        b.receive(2 * number, &[to])?;
        a.post(&SendWr::send(2 * number + 1, &[from]))?;
        for id in [2 * number, 2 * number + 1] {
            let found = next(&cq)?;
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

/// A part of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Migratable)]
pub struct Part {
    /// The region.
    pub region: MrId,
    /// Its first byte.
    pub at: u64,
    /// Bytes.
    pub len: u32,
}

/// A request to move data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Migratable)]
pub struct Work {
    /// Its number.
    pub id: u64,
    /// Its opcode ([`Opcode`]), without immediate values.
    pub opcode: u32,
    /// The near end.
    pub local: Part,
    /// Added to the key of that.
    pub wrong_key: u32,
    /// The far end, of those that have one.
    pub remote: Remote,
    /// What an atomic access adds, or compares with and stores.
    pub operands: [u64; 2],
    /// The immediate value.
    pub immediate: Option<u32>,
    /// No completion of success.
    pub is_quiet: bool,
}

/// A completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Migratable)]
pub struct Found {
    /// The number of the request.
    pub id: u64,
    /// Its outcome.
    pub status: u32,
    /// What it was.
    pub opcode: u32,
    /// Bytes.
    pub bytes: u32,
    /// The immediate value.
    pub immediate: Option<u32>,
}

/// A request of an opcode, over one part.
fn request_of(opcode: u32, id: u64, part: &[Sge; 1], remote: Remote, [first, new]: [u64; 2]) -> SendWr<'_> {
    let [sge] = *part;
    match Opcode(opcode) {
        Opcode::SEND => SendWr::send(id, part),
        Opcode::WRITE => SendWr::write(id, part, remote),
        Opcode::READ => SendWr::read(id, part, remote),
        Opcode::FETCH_ADD => SendWr::fetch_add(id, sge, remote, first),
        _ => SendWr::compare_swap(id, sge, remote, first, new),
    }
}

/// Requests of one kind, one behind the other or many at once: from the front of a region to its middle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Migratable)]
pub struct Rounds {
    /// Where they are posted, and where those that are sent are received.
    pub ends: [QpId; 2],
    /// Where both complete.
    pub cq: CqId,
    /// The memory of both ends.
    pub region: MrId,
    /// [`Opcode`].
    pub opcode: u32,
    /// Bytes of each.
    pub bytes: u32,
    /// How many.
    pub count: u32,
    /// How many are on their way at most.
    pub window: u32,
    /// Every so many completes; others are quiet. 1: each.
    pub every: u32,
}

/// Posts requests and polls until the last has completed: [`fn@run_rounds`] of a device, or of a program that has the section.
///
/// # Errors
/// One fails, or does not complete.
pub fn rounds<M: Memory>(verbs: &Verbs<'_, M>, how: &Rounds) -> Result<(), Fault> {
    const RECEIVED: u64 = 0;
    let &Rounds { ends: [a, b], cq, region, opcode, bytes, count, window, every } = how;
    let (a, b) = (verbs.queue_pair(a)?, verbs.queue_pair(b)?);
    let (cq, region) = (verbs.completion_queue(cq)?, verbs.region(region)?);
    let middle = region.len() / 2;
    let (from, to) = ([region.part(0..bytes.into())?], [region.part(middle..middle.saturating_add(bytes.into()))?]);
    let remote = region.remote(middle)?;
    let (mut posted, mut done, mut patience) = (0, 0, PATIENCE);
    while done < count {
        while posted < count && posted - done < window {
            if opcode == Opcode::SEND.0 {
                b.receive(RECEIVED, &to)?;
            }
            posted += 1;
            let request = request_of(opcode, posted.into(), &from, remote, [1, 0]);
            let completes = posted.is_multiple_of(every) || posted == count;
            if completes { a.post(&request)? } else { a.post(&request.quiet())? }
        }
        match cq.poll()? {
            Some(found) if found.status.0 != 0 => return Err(Fault::msg("a request has failed")),
            Some(found) if found.id == RECEIVED => {}
            Some(found) => (done, patience) = (found.id as u32, PATIENCE),
            None if patience == 0 => return Err(Fault::msg("no completion came")),
            None => patience -= 1,
        }
    }
    Ok(())
}

/// [`rounds`] of a device.
#[offload]
pub fn run_rounds(cx: &mut Context, how: Rounds) -> Result<(), Fault> {
    rounds(&Verbs::of(cx)?, &how)
}

/// Posts a request.
#[offload]
pub fn post(cx: &mut Context, qp: QpId, work: Work) -> Result<(), Fault> {
    let verbs = Verbs::of(cx)?;
    let Work { id, local, remote, operands: [first, new], .. } = work;
    let mut sge = verbs.region(local.region)?.part(local.at..local.at.saturating_add(local.len.into()))?;
    sge.lkey ^= work.wrong_key;
    let sges = [sge];
    let request = request_of(work.opcode, id, &sges, remote, [first, new]);
    let request = work.immediate.map_or(request, |value| request.imm(value));
    let request = if work.is_quiet { request.quiet() } else { request };
    Ok(verbs.queue_pair(qp)?.post(&request)?)
}

/// Posts a receive request to a queue pair.
#[offload]
pub fn receive(cx: &mut Context, qp: QpId, id: u64, into: Part) -> Result<(), Fault> {
    let verbs = Verbs::of(cx)?;
    let sge = verbs.region(into.region)?.part(into.at..into.at.saturating_add(into.len.into()))?;
    Ok(verbs.queue_pair(qp)?.receive(id, &[sge])?)
}

/// Posts a receive request to a shared receive queue.
#[offload]
pub fn receive_shared(cx: &mut Context, srq: SrqId, id: u64, into: Part) -> Result<(), Fault> {
    let verbs = Verbs::of(cx)?;
    let sge = verbs.region(into.region)?.part(into.at..into.at.saturating_add(into.len.into()))?;
    Ok(verbs.shared_receive_queue(srq)?.receive(id, &[sge])?)
}

/// Takes the next completion, if one is there.
#[offload]
pub fn next_completion(cx: &mut Context, cq: CqId) -> Result<Option<Found>, Fault> {
    let found = Verbs::of(cx)?.completion_queue(cq)?.poll()?;
    Ok(found.map(|found| Found {
        id: found.id,
        status: found.status.0,
        opcode: found.opcode.0,
        bytes: found.bytes,
        immediate: found.immediate,
    }))
}

/// Adds 1 to the u64 at `at` by so many requests, and meanwhile 2^32 by atomic accesses of the device's own; returns
/// how many those were.
#[cfg(target_has_atomic = "64")]
#[offload]
pub fn add_both_ways(cx: &mut Context, qp: QpId, cq: CqId, region: MrId, at: u64, count: u64) -> Result<u64, Fault> {
    let verbs = Verbs::of(cx)?;
    let (qp, cq, region) = (verbs.queue_pair(qp)?, verbs.completion_queue(cq)?, verbs.region(region)?);
    let (into, remote) = (region.part(0..8)?, region.remote(at)?);
    let (mut own, mut done, mut patience) = (0, 0, PATIENCE);
    let mut posted = 0;
    while done < count {
        if posted < count && qp.post(&SendWr::fetch_add(posted, into, remote, 1)).is_ok() {
            posted += 1;
        }
        region.atomic(at, AtomicOp::Add(1 << 32))?;
        own += 1;
        done += u64::from(cq.poll()?.is_some());
        patience = patience.checked_sub(1).ok_or_else(|| Fault::msg("no completion came"))?;
    }
    Ok(own)
}

/// Writes so many numbers from the region's front to `at`, one behind the other, and sees each come by its last byte
/// alone.
#[offload]
pub fn watch_writes(cx: &mut Context, qp: QpId, cq: CqId, region: MrId, at: u64, count: u32) -> Result<(), Fault> {
    let verbs = Verbs::of(cx)?;
    let (qp, cq, region) = (verbs.queue_pair(qp)?, verbs.completion_queue(cq)?, verbs.region(region)?);
    let (mut number, mut patience) = ([0; 64], PATIENCE);
    for round in 0..count {
        number.fill(round as u8 + 1);
        region.copy_in(0, &number)?;
        qp.post(&SendWr::write(round.into(), &[region.part(0..64)?], region.remote(at)?))?;
        while region.watch(at + 63)? != number[63] {
            patience = patience.checked_sub(1).ok_or_else(|| Fault::msg("no byte came"))?;
        }
        let mut came = [0; 64];
        region.copy_out(at, &mut came)?;
        if came != number {
            return Err(Fault::msg("the last byte came before another one"));
        }
        while cq.poll()?.is_none() {
            patience = patience.checked_sub(1).ok_or_else(|| Fault::msg("no completion came"))?;
        }
    }
    Ok(())
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

/// Waits for one completion with a region open, and then copies a byte to its front, unless that is deregistered by
/// then.
#[offload]
pub fn wait_and_copy(task: &mut Task, cq: CqId, region: MrId) -> Result<bool, Fault> {
    let verbs = Verbs::of(task)?;
    let region = verbs.region(region)?;
    verbs.completion_queue(cq)?.wait(task)?;
    match region.copy_in(0, &[1]) {
        Err(VerbsError::Stale) => Ok(false),
        done => Ok(done.map(|()| true)?),
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
