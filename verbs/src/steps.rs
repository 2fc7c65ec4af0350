//! Routines of verbs, each between [`begin`] and [`end`], and a look at what they leave: a test ends the task in front of every
//! instruction of them.

use crate::{CqId, MemoryRegion, MrId, QpId, QueuePair, SendWr, SharedReceiveQueue, SrqId, Verbs, VerbsError};
use hamr_comm::{Context, Fault, Migratable, Task, offload};

/// What [`steps()`] does. A queue pair with requests of its own to receive posts them as a shared receive queue does.
pub const ROUTINES: [&str; 4] = ["post", "poll", "shared receive", "poll of a shared receive"];
/// Those from here on use the shared receive queue.
pub const SHARED: usize = 2;
/// Bytes of the message of a routine: two lines of an entry.
const LONG: [u8; 92] = [7; 92];
/// Polls without a completion before a handler gives up.
const PATIENCE: u32 = 20_000_000;

/// Two queue pairs that are connected, and where each completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Migratable)]
pub struct Queues {
    /// It sends, and takes none.
    pub from: QpId,
    /// It receives.
    pub to: QpId,
    /// The shared receive queue of the receiver, if it has one.
    pub srq: Option<SrqId>,
    /// The completion queue of sends.
    pub sent: CqId,
    /// That of receives.
    pub received: CqId,
    /// At least 92 bytes.
    pub region: MrId,
}

/// Completions that [`fn@settle`] has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Migratable)]
pub struct Settled {
    /// Of the routine's send.
    pub sent: u32,
    /// Of its receive.
    pub received: u32,
    /// Of sends that were made up for those.
    pub more_sent: u32,
    /// Of receives likewise.
    pub more_received: u32,
    /// Before all that, the region was one that a request may write.
    pub is_written: bool,
    /// Requests to send for which there is room then.
    pub send_room: u32,
    /// Requests to receive.
    pub receive_room: u32,
}

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

/// Where a queue pair receives.
enum Receiver<'v> {
    Own(QueuePair<'v, hamr_comm::side::Side>),
    Shared(SharedReceiveQueue<'v, hamr_comm::side::Side>),
}

impl Receiver<'_> {
    fn of<'v>(verbs: &'v Verbs<'_>, on: &Queues) -> Result<Receiver<'v>, VerbsError> {
        Ok(match on.srq {
            Some(srq) => Receiver::Shared(verbs.shared_receive_queue(srq)?),
            None => Receiver::Own(verbs.queue_pair(on.to)?),
        })
    }

    fn receive(&self, id: u64, region: &MemoryRegion<'_, hamr_comm::side::Side>) -> Result<(), VerbsError> {
        let into = [region.part(0..LONG.len() as u64)?];
        match self {
            Self::Own(qp) => qp.receive(id, &into),
            Self::Shared(srq) => srq.receive(id, &into),
        }
    }
}

/// Does one of the [`ROUTINES`], by its place there. Requests have the numbers 4 × `number` and the next.
#[offload]
pub fn steps(task: &mut Task, routine: u32, on: Queues, number: u64) -> Result<(), Fault> {
    let verbs = Verbs::of(task)?;
    let (from, to, region) = (verbs.queue_pair(on.from)?, Receiver::of(&verbs, &on)?, verbs.region(on.region)?);
    let (sent, received) = (verbs.completion_queue(on.sent)?, verbs.completion_queue(on.received)?);
    let (send, receive) = (4 * number, 4 * number + 1);
    match routine {
        0 => {
            begin();
            from.post(&SendWr::inline(send, &LONG))?;
            end();
        }
        2 => {
            begin();
            to.receive(receive, &region)?;
            end();
        }
        _ => {
            to.receive(receive, &region)?;
            from.post(&SendWr::inline(send, &LONG))?;
            // The receive completes before its send.
            let mut patience = PATIENCE;
            while sent.poll()?.is_none() {
                patience = patience.checked_sub(1).ok_or_else(|| Fault::msg("no completion came"))?;
            }
            begin();
            received.poll()?;
            end();
        }
    }
    Ok(())
}

/// Goes on with the queues behind a routine with this number, and has all complete that was published. Each of the
/// routine's requests is found at most once, and others not at all.
#[offload]
pub fn settle(cx: &mut Context, on: Queues, number: u64) -> Result<Settled, Fault> {
    let verbs = Verbs::of(cx)?;
    let (from, to, region) = (verbs.queue_pair(on.from)?, Receiver::of(&verbs, &on)?, verbs.region(on.region)?);
    let queues = [verbs.completion_queue(on.sent)?, verbs.completion_queue(on.received)?];
    let mut found = Settled { is_written: region.is_written(0..LONG.len() as u64)?, ..Settled::default() };
    let (mut sends, mut receives, mut patience) = (1, 1, PATIENCE);
    let more = 4 * number + 2;
    to.receive(more + 1, &region)?;
    from.post(&SendWr::inline(more, &[1]))?;
    while (found.more_sent, found.more_received) != (sends, receives) {
        for queue in &queues {
            let Some(done) = queue.poll()? else { continue };
            if done.status.0 != 0 || done.id / 4 != number {
                return Err(Fault::msg("a request has failed, or completes for the second time"));
            }
            match done.id % 4 {
                0 => found.sent += 1,
                1 => {
                    found.received += 1;
                    // It has taken the message of the other one.
                    if done.bytes == 1 {
                        from.post(&SendWr::inline(more, &[1]))?;
                        sends += 1;
                    }
                }
                2 => found.more_sent += 1,
                _ => {
                    found.more_received += 1;
                    if done.bytes != 1 {
                        to.receive(more + 1, &region)?;
                        receives += 1;
                    }
                }
            }
        }
        patience = patience.checked_sub(1).ok_or_else(|| Fault::msg("a request that was published waits"))?;
    }
    while to.receive(more + 1, &region).is_ok() {
        found.receive_room += 1;
    }
    while from.post(&SendWr::inline(more, &[1])).is_ok() {
        found.send_room += 1;
    }
    for (queue, mut left) in queues.iter().zip([found.send_room, found.receive_room]) {
        while left != 0 {
            left -= u32::from(queue.poll()?.is_some());
            patience = patience.checked_sub(1).ok_or_else(|| Fault::msg("the queues do not go on"))?;
        }
    }
    let is_empty = queues.iter().all(|queue| queue.poll() == Ok(None));
    if is_empty { Ok(found) } else { Err(Fault::msg("a request completes for the second time")) }
}
