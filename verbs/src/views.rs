//! Handlers that compute on registered memory in place, and try to where they may not: for tests.

use crate::handlers::Part;
use crate::steps::Queues;
use crate::{CqId, MrId, QpId, SendWr, Verbs, VerbsError};
use hamr_comm::{Context, Fault, Task, offload};

/// Bytes of a message of [`fn@sum_in_place`], and messages on their way.
pub const MESSAGE: u64 = 1024;
/// See [`MESSAGE`].
pub const SLOTS: u64 = 4;
/// Turns without a completion before a handler gives up.
const PATIENCE: u32 = 20_000_000;

/// Receives a message, and adds up its bytes where it came to: the example of `docs/verbs.md`.
#[offload]
pub fn hello(cx: &mut Context, a: QpId, b: QpId, cq: CqId, region: MrId) -> Result<u32, Fault> {
    let verbs = Verbs::of(cx)?;
    let (a, b, cq) = (verbs.queue_pair(a)?, verbs.queue_pair(b)?, verbs.completion_queue(cq)?);
    b.receive(1, &[verbs.region(region)?.part(0..64)?])?;
    a.post(&SendWr::inline(2, b"hello"))?;
    let came = loop {
        match cq.poll()? {
            Some(done) if done.id == 1 => break done.bytes,
            _ => {}
        }
    };
    let text = Verbs::view::<u8>(cx, region, 0..came.into())?;
    Ok(text.iter().map(|byte| u32::from(*byte)).sum())
}

/// The sum of the bytes in a part of a region.
#[offload]
pub fn sum_view(cx: &mut Context, part: Part) -> Result<u64, Fault> {
    let bytes = Verbs::view::<u8>(cx, part.region, part.at..part.at.saturating_add(part.len.into()))?;
    Ok(bytes.iter().map(|byte| u64::from(*byte)).sum())
}

/// Stores numbers from `first` on in a part of a region.
#[offload]
pub fn fill_view(cx: &mut Context, part: Part, first: u64) -> Result<(), Fault> {
    let values = Verbs::view_mut::<u64>(cx, part.region, part.at..part.at.saturating_add(part.len.into()))?;
    values.iter_mut().zip(first..).for_each(|(value, number)| *value = number);
    Ok(())
}

/// Has a context that is of no call, on the thread of one, the adapter of that?
#[offload]
pub fn finds_it_without_a_call(cx: &mut Context) -> Result<bool, Fault> {
    Verbs::of(cx)?;
    #[cfg(any(hamr_bare, target_os = "none"))]
    return Ok(false);
    #[cfg(not(any(hamr_bare, target_os = "none")))]
    Ok(Verbs::of(&hamr_comm::testing::Heap::new(64).context()).is_ok())
}

/// Sends `count` messages of numbers that it makes in place, and adds up in place those that come; others may do the same in
/// other parts of the region. It has [`MESSAGE`] · [`SLOTS`] · 2 bytes from `at` on: what is received, and what is sent.
#[offload]
pub fn sum_in_place(task: &mut Task, on: Queues, at: u64, count: u64) -> Result<u64, Fault> {
    let slot = |index: u64| at + index * MESSAGE..at + (index + 1) * MESSAGE;
    let (mut sent, mut posted, mut came, mut sum, mut patience) = (0, 0, 0, 0_u64, PATIENCE);
    while sent < count || came < count {
        while posted < count && posted < sent.min(came) + SLOTS {
            let (into, from) = (slot(posted % SLOTS), slot(SLOTS + posted % SLOTS));
            let values = Verbs::view_mut::<u64>(task, on.region, from.clone())?;
            values.iter_mut().zip(0..).for_each(|(value, index)| *value = posted * 0x1_0001 + index);
            if Verbs::view::<u64>(task, on.region, into.clone())?.iter().any(|value| *value != 0) {
                return Err(Fault::msg("bytes that came behind a completion"));
            }
            let verbs = Verbs::of(task)?;
            let region = verbs.region(on.region)?;
            verbs.queue_pair(on.to)?.receive(posted, &[region.part(into.clone())?])?;
            verbs.queue_pair(on.from)?.post(&SendWr::send(posted, &[region.part(from)?]))?;
            drop(region);
            posted += 1;
            // The adapter may be writing there by now.
            if Verbs::view::<u64>(task, on.region, into) != Err(VerbsError::Busy) {
                return Err(Fault::msg("a view of memory that a request writes"));
            }
        }
        let verbs = Verbs::of(task)?;
        let found = [verbs.completion_queue(on.sent)?.poll()?, verbs.completion_queue(on.received)?.poll()?];
        if found.iter().flatten().any(|done| done.status.0 != 0) {
            return Err(Fault::msg("a request has failed"));
        }
        let [has_sent, has_come] = found.map(|done| done.is_some());
        sent += u64::from(has_sent);
        if has_come {
            let values = Verbs::view_mut::<u64>(task, on.region, slot(came % SLOTS))?;
            if values.iter().zip(0..).any(|(value, index)| *value != came * 0x1_0001 + index) {
                return Err(Fault::msg("other bytes than were sent"));
            }
            // Nothing else stores there until it is posted again.
            sum = values.iter_mut().map(core::mem::take).fold(sum, u64::wrapping_add);
            came += 1;
        }
        if !has_sent && !has_come {
            patience = patience.checked_sub(1).ok_or_else(|| Fault::msg("no completion came"))?;
            task.yield_now()?;
        }
    }
    Ok(sum)
}
