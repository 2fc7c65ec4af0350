//! The device's ends of the tools that users of RDMA have, `ibv_*_pingpong` and perftest: inline handlers, which poll
//! until all is done, or until they are cancelled. What the programs of both ends tell each other before is the
//! host's matter (`stock_peer` of `hamr-hca`).

use crate::memory::Memory;
use crate::wire::{Opcode, WcOpcode, WcStatus};
use crate::{AhId, Completion, CompletionQueue, CqId, MemoryRegion, MrId, QpId, Remote, SendWr, SrqId, Verbs};
use hamr_comm::{Context, Fault, Migratable, offload};

/// What a handler uses, and how much it moves. The region's front is what it sends; [`Self::incoming`] is where
/// messages come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Migratable)]
pub struct Load {
    /// Of the requests.
    pub qp: QpId,
    /// Where all of them complete.
    pub cq: CqId,
    /// Twice as long as a message, and 48 bytes longer.
    pub region: MrId,
    /// Messages.
    pub count: u64,
    /// Bytes of each, at least one.
    pub bytes: u32,
}

impl Load {
    /// Where messages come in the region.
    pub fn incoming(&self) -> u64 {
        u64::from(self.bytes).next_multiple_of(8)
    }
}

/// Where datagrams go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Migratable)]
pub struct Target {
    /// The adapter.
    pub address: AhId,
    /// The number of the queue pair there.
    pub qp_number: u32,
    /// Its key.
    pub qkey: u32,
}

/// Bytes of headers before a datagram.
const HEADERS: u64 = 40;
/// The numbers of requests.
const RECEIVE: u64 = 1;
const SEND: u64 = 2;

/// The ping-pong of paper 002: sends numbered messages and waits for an answer to each, or answers (`serves`). Returns
/// how many came that were as the next one sent, as from a handler of this name, and how many as the last one sent, as
/// from a peer that sends back what has come.
#[offload]
pub fn ping_pong(cx: &mut Context, load: Load, serves: bool, to: Option<Target>) -> Result<(u64, u64), Fault> {
    let verbs = Verbs::of(cx)?;
    let (qp, cq, region) = (verbs.queue_pair(load.qp)?, verbs.completion_queue(load.cq)?, verbs.region(load.region)?);
    let address = to.map(|to| verbs.address(to.address)).transpose()?;
    let headers = if to.is_some() { HEADERS } else { 0 };
    let (bytes, back) = (u64::from(load.bytes), load.incoming());
    let (out, into) = ([region.part(0..bytes)?], [region.part(back..back + headers + bytes)?]);
    let send = |number: u64| -> Result<bool, Fault> {
        fill(&region, bytes, number)?;
        let request = SendWr::send(SEND, &out);
        qp.post(&match (address, to) {
            (Some(address), Some(to)) => request.datagram(address, to.qp_number, to.qkey),
            _ => request,
        })?;
        Ok(false)
    };
    if load.count != 0 {
        qp.receive(RECEIVE, &into)?;
    }
    let (mut fresh, mut echoed, mut is_sent) = (0, 0, true);
    for number in 0..load.count {
        if !serves {
            is_sent = send(number)?;
        }
        let mut has_come = false;
        while !(has_come && is_sent) {
            match next(cx, &cq)?.id {
                RECEIVE => has_come = true,
                _ => is_sent = true,
            }
        }
        fresh += u64::from(holds(&region, back + headers, bytes, number)?);
        echoed += u64::from(number != 0 && holds(&region, back + headers, bytes, number - 1)?);
        // Before the answer: the peer finds a receive request. None is left over.
        if number + 1 < load.count {
            qp.receive(RECEIVE, &into)?;
        }
        if serves {
            is_sent = send(number)?;
        }
    }
    while !is_sent {
        is_sent = next(cx, &cq)?.id == SEND;
    }
    Ok((fresh, echoed))
}

/// As `ib_write_lat`: writes messages to the peer's memory, whose last bytes count from 1, and waits for the peer's to
/// come. The server is the first to write.
#[offload]
pub fn write_ping_pong(cx: &mut Context, load: Load, remote: Remote, serves: bool) -> Result<(), Fault> {
    let verbs = Verbs::of(cx)?;
    let (qp, cq, region) = (verbs.queue_pair(load.qp)?, verbs.completion_queue(load.cq)?, verbs.region(load.region)?);
    let bytes = u64::from(load.bytes);
    let (out, end) = ([region.part(0..bytes)?], bytes.saturating_sub(1));
    let mut is_sent = true;
    for number in 1..=load.count {
        let number = number as u8;
        for writes in [serves, !serves] {
            if writes {
                while !is_sent {
                    next(cx, &cq)?;
                    is_sent = true;
                }
                region.copy_in(end, &[number])?;
                qp.post(&SendWr::write(SEND, &out, remote))?;
                is_sent = false;
            } else {
                while region.watch(load.incoming() + end)? != number {
                    is_sent |= take(cx, &cq)?.is_some();
                }
            }
        }
    }
    while !is_sent {
        next(cx, &cq)?;
        is_sent = true;
    }
    Ok(())
}

/// Posts requests of one kind ([`Opcode`]; `None`: to receive), so many at once at most. Returns how many completed in
/// order and with the bytes that they should have; of atomic additions, each with a value one above that of the former.
#[offload]
pub fn stream(cx: &mut Context, load: Load, kind: Option<u32>, remote: Remote, at_once: u64) -> Result<u64, Fault> {
    let verbs = Verbs::of(cx)?;
    let (qp, cq, region) = (verbs.queue_pair(load.qp)?, verbs.completion_queue(load.cq)?, verbs.region(load.region)?);
    let (bytes, back) = (u64::from(load.bytes), load.incoming());
    let (out, into) = (region.part(0..bytes)?, region.part(back..back + bytes)?);
    let kind = kind.map(Opcode);
    let (mut posted, mut good, mut last) = (0, 0, None);
    for done in 0..load.count {
        while posted < load.count && posted - done < at_once {
            match kind {
                Some(Opcode::SEND) => qp.post(&SendWr::send(posted, &[out]))?,
                Some(Opcode::WRITE) => qp.post(&SendWr::write(posted, &[out], remote))?,
                Some(Opcode::READ) => qp.post(&SendWr::read(posted, &[into], remote))?,
                Some(_) => qp.post(&SendWr::fetch_add(posted, into, remote, 1))?,
                None => qp.receive(posted, &[into])?,
            }
            posted += 1;
        }
        let found = next(cx, &cq)?;
        let brings = matches!(found.opcode, WcOpcode::RECV | WcOpcode::READ);
        let mut is_good = found.id == done && (!brings || found.bytes == load.bytes);
        if kind == Some(Opcode::FETCH_ADD) {
            let mut value = [0; 8];
            region.copy_out(back, &mut value)?;
            let value = u64::from_le_bytes(value);
            is_good &= last.replace(value).is_none_or(|last: u64| last.wrapping_add(1) == value);
        }
        good += u64::from(is_good);
    }
    Ok(good)
}

/// Queue pairs of [`fn@shared_ping_pong`].
pub const SHARING: usize = 16;
/// Receive requests in their shared queue.
const SHARED: u64 = 64;

/// As `ibv_srq_pingpong`: [`fn@ping_pong`] over many queue pairs, which take from one shared receive queue, until so
/// many messages in all were sent and have come. `load.qp` is not used. Returns how many came whole.
#[offload]
pub fn shared_ping_pong(
    cx: &mut Context,
    qps: [QpId; SHARING],
    srq: SrqId,
    load: Load,
    serves: bool,
) -> Result<u64, Fault> {
    let verbs = Verbs::of(cx)?;
    let (cq, region) = (verbs.completion_queue(load.cq)?, verbs.region(load.region)?);
    let srq = verbs.shared_receive_queue(srq)?;
    let (bytes, back) = (u64::from(load.bytes), load.incoming());
    let (out, into) = ([region.part(0..bytes)?], [region.part(back..back + bytes)?]);
    for _ in 0..SHARED {
        srq.receive(RECEIVE, &into)?;
    }
    // Of each: whether a message is to come, and whether one is not yet sent.
    let mut awaits = [(true, !serves); SHARING];
    for qp in qps.iter().filter(|_| !serves) {
        verbs.queue_pair(*qp)?.post(&SendWr::send(SEND, &out))?;
    }
    let (mut sent, mut come, mut whole) = (0, 0, 0);
    while sent < load.count || come < load.count {
        let found = next(cx, &cq)?;
        let known = qps.iter().zip(&mut awaits).find(|(qp, _)| qp.index() == found.qp);
        let (qp, (receives, sends)) = known.ok_or_else(|| Fault::msg("a completion of another queue pair"))?;
        if found.id == RECEIVE {
            *receives = false;
            come += 1;
            whole += u64::from(found.bytes == load.bytes);
            srq.receive(RECEIVE, &into)?;
        } else {
            *sends = false;
            sent += 1;
        }
        if !*receives && !*sends && sent < load.count {
            (*receives, *sends) = (true, true);
            verbs.queue_pair(*qp)?.post(&SendWr::send(SEND, &out))?;
        }
    }
    Ok(whole)
}

/// The next completion. All requests succeed.
fn next<M: Memory>(cx: &Context<'_>, cq: &CompletionQueue<'_, M>) -> Result<Completion, Fault> {
    loop {
        if let Some(found) = take(cx, cq)? {
            return Ok(found);
        }
    }
}

/// A completion, if one is there.
fn take<M: Memory>(cx: &Context<'_>, cq: &CompletionQueue<'_, M>) -> Result<Option<Completion>, Fault> {
    match cq.poll()? {
        Some(found) if found.status != WcStatus::SUCCESS => Err(Fault::msg("a request has failed")),
        None if cx.cancelled() => Err(Fault::msg("cancelled")),
        found => {
            core::hint::spin_loop();
            Ok(found)
        }
    }
}

/// Bytes that are written and compared at once.
const CHUNK: usize = 64;

/// Makes the front of a region a message with this number.
fn fill<M: Memory>(region: &MemoryRegion<'_, M>, bytes: u64, number: u64) -> Result<(), Fault> {
    for at in (0..bytes).step_by(CHUNK) {
        let part = chunk(number, at);
        region.copy_in(at, part.split_at(CHUNK.min((bytes - at) as usize)).0)?;
    }
    Ok(())
}

/// Is there a message with this number?
fn holds<M: Memory>(region: &MemoryRegion<'_, M>, from: u64, bytes: u64, number: u64) -> Result<bool, Fault> {
    for at in (0..bytes).step_by(CHUNK) {
        let len = CHUNK.min((bytes - at) as usize);
        let mut found = [0; CHUNK];
        region.copy_out(from + at, found.split_at_mut(len).0)?;
        if found.split_at(len).0 != chunk(number, at).split_at(len).0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The bytes of a message with this number from a multiple of [`CHUNK`] on. Parts of it that are displaced by less than
/// 2 KiB are not the same.
fn chunk(number: u64, at: u64) -> [u8; CHUNK] {
    let number = number.to_le_bytes();
    core::array::from_fn(|i| number.get(i % 8).copied().unwrap_or_default() ^ ((at as usize + i) / 8) as u8)
}
