//! Messages that are not plain: chunks, buffers, one-way, tickets, cancellation (abi §4.4, §5).

use super::Found;
use super::poller::{Current, Poller, answer_inline, missing};
use crate::context::Context;
use crate::frame::Reply;
use hamr_shared_abi::slot::{Descriptor, Ext, INLINE_BYTES, INLINE_WORDS, Place, RepHdr, ReqHdr};
use hamr_shared_abi::status::Status;

/// How a request wants to be answered.
#[derive(Clone, Copy)]
pub(super) struct Wishes {
    pub(super) one_way: bool,
    pub(super) reply_buffer: Option<Descriptor>,
}

impl Wishes {
    pub(super) const TWO_WAY: Self = Self { one_way: false, reply_buffer: None };
}

/// A queued call: its arguments are here (inline) or in its side slot's request chunk.
pub(super) struct Job {
    queue: usize,
    ticket: u32,
    seq: u32,
    hdr: ReqHdr,
    words: [u64; INLINE_WORDS],
    wishes: Wishes,
    args: Args,
    deadline_us: u32,
}

/// Where a request's arguments are.
#[derive(Clone, Copy)]
enum Args {
    Inline { start: u32, end: u32 },
    Chunk { len: usize },
    Buffer { at: Descriptor },
}

/// A request's parts in their order (abi §4.4).
struct Parts {
    ext: Ext,
    wishes: Wishes,
    args: Args,
}

/// Splits a private copy of the payload. Refuses what the header promises and the payload lacks.
fn parts(hdr: ReqHdr, words: &[u64; INLINE_WORDS]) -> Result<Parts, Status> {
    let bad = Status::BAD_REQUEST;
    if hdr.has(ReqHdr::RESERVED) || hdr.len() > INLINE_BYTES || (hdr.has(ReqHdr::TICKET) && !hdr.has(ReqHdr::EXT)) {
        return Err(bad);
    }
    let end = hdr.len();
    let mut at = 0;
    let mut pair = |wanted: bool| {
        if !wanted {
            return Ok([0; 2]);
        }
        let both = words.get(at / 8..at / 8 + 2).filter(|_| at + 16 <= end).ok_or(bad)?;
        at += 16;
        Ok([both[0], both[1]])
    };
    let ext: Ext = zerocopy::transmute!(pair(hdr.has(ReqHdr::EXT))?);
    let place = hdr.place();
    let [off, len] = pair(matches!(place, Place::Chunk | Place::Buffer))?;
    let reply = pair(hdr.has(ReqHdr::REPLY_BUF))?;
    let args = match place {
        Place::Inline => Args::Inline { start: at as u32, end: end as u32 },
        Place::Chunk => Args::Chunk { len: usize::try_from(len).map_err(|_| bad)? },
        Place::Buffer => Args::Buffer { at: Descriptor { off, len } },
        Place::Invalid => return Err(bad),
    };
    let reply_buffer = hdr.has(ReqHdr::REPLY_BUF).then_some(Descriptor { off: reply[0], len: reply[1] });
    Ok(Parts { ext, wishes: Wishes { one_way: hdr.has(ReqHdr::ONE_WAY), reply_buffer }, args })
}

impl<K: Clone> Poller<'_, K> {
    /// Serves a message with flags, long arguments, or a malformed header.
    #[cold]
    #[inline(never)]
    pub(super) fn serve_long(&mut self, queue: usize, found: Found, hdr: ReqHdr) {
        let Some(port) = self.ports.get(queue) else { return };
        port.responder.line(found.slot).read_request(&mut self.frame.words);
        let parts = match parts(hdr, &self.frame.words) {
            Ok(parts) => parts,
            Err(status) => return self.refuse(queue, found, status),
        };
        let entry = match self.table.get(hdr.key().0 as usize) {
            Some(entry) if entry.has_body() => entry,
            other => return self.refuse(queue, found, missing(other)),
        };
        if hdr.has(ReqHdr::CANCEL) {
            return self.refuse(queue, found, Status::CANCELLED);
        }
        if hdr.has(ReqHdr::TICKET) {
            return self.take(queue, found, hdr, parts);
        }
        if let Err(status) = self.load(queue, found.slot, parts.args) {
            return self.refuse(queue, found, status);
        }
        let Some(port) = self.ports.get(queue) else { return };
        self.serial = self.serial.wrapping_add(1);
        self.current = Some(Current { queue, found, side: false, handler: hdr.key().0 });
        let mut cx = Context::new(self.heap.lend(), self.node);
        cx.cancel = Some(port.responder.line(found.slot).req_hdr_word());
        cx.serial = self.serial;
        cx.deadline_us = parts.ext.deadline_us;
        let reply = (entry.run)(&mut cx, &mut self.frame);
        let cancelled = cx.saw_cancel.get();
        self.finish(queue, found, parts.wishes, reply, cancelled);
    }

    /// Brings long arguments into scratch memory: the one copy that is decoded (rule 5).
    fn load(&mut self, queue: usize, slot: u32, args: Args) -> Result<(), Status> {
        let frame = &mut self.frame;
        frame.is_long = !matches!(args, Args::Inline { .. });
        match args {
            Args::Inline { start, end } => (frame.start, frame.end) = (start, end),
            Args::Chunk { len } => {
                let queue = self.ports.get(queue).ok_or(Status::BAD_REQUEST)?.responder.slots();
                let room = frame.scratch.get_mut(..len).ok_or(Status::BAD_REQUEST)?;
                queue.read_request_chunk(slot, room).ok_or(Status::BAD_REQUEST)?;
                frame.long = len as u32;
            }
            Args::Buffer { at } => {
                let len = usize::try_from(at.len).map_err(|_| Status::BAD_REQUEST)?;
                let room = frame.scratch.get_mut(..len).ok_or(Status::BAD_REQUEST)?;
                self.heap.read_bytes(at.off, room).map_err(|_| Status::BAD_REQUEST)?;
                frame.long = len as u32;
            }
        }
        Ok(())
    }

    fn refuse(&mut self, queue: usize, found: Found, status: Status) {
        if let Some(port) = self.ports.get(queue) {
            port.responder.line(found.slot).publish_reply(RepHdr::inline(status, 0).0, found.seq);
        }
    }

    /// Moves a TICKET request to the queue and answers its line TAKEN.
    fn take(&mut self, queue: usize, found: Found, hdr: ReqHdr, parts: Parts) {
        let ticket = u32::from(parts.ext.ticket);
        let Some(port) = self.ports.get_mut(queue) else { return };
        let job = Job {
            queue,
            ticket,
            seq: parts.ext.ticket_seq,
            hdr,
            words: self.frame.words,
            wishes: parts.wishes,
            args: parts.args,
            deadline_us: parts.ext.deadline_us,
        };
        if port.responder.slots().side(ticket).is_none() {
            return self.refuse(queue, found, Status::BAD_REQUEST);
        }
        if self.jobs.push_back(job).is_err() {
            return self.refuse(queue, found, Status::QUEUE_FULL);
        }
        port.held = !hdr.has(ReqHdr::UNORDERED);
        let taken = RepHdr::inline(Status::TAKEN, 0).with(RepHdr::TAKEN);
        port.responder.line(found.slot).publish_reply(taken.0, found.seq);
    }

    /// Runs the oldest queued call.
    #[cold]
    pub(super) fn run_job(&mut self) -> u32 {
        let Some(job) = self.jobs.pop_front() else { return 0 };
        let Some(port) = self.ports.get(job.queue) else { return 0 };
        let slot = 1 + port.responder.slots().ring_len() + job.ticket;
        let current =
            Current { queue: job.queue, found: Found { slot, seq: job.seq }, side: true, handler: job.hdr.key().0 };
        self.frame.words = job.words;
        let refused = self.load(job.queue, slot, job.args).err();
        let Some(port) = self.ports.get(job.queue) else { return 0 };
        let Some(line) = port.responder.slots().side(job.ticket) else { return 0 };
        let entry = self.table.get(job.hdr.key().0 as usize).filter(|e| e.has_body());
        let (reply, cancelled) = match (refused, entry) {
            _ if ReqHdr(line.req_hdr()).has(ReqHdr::CANCEL) => (self.frame.status(Status::CANCELLED), false),
            (Some(status), _) => (self.frame.status(status), false),
            (None, None) => (self.frame.status(Status::NO_HANDLER), false),
            (None, Some(entry)) => {
                self.serial = self.serial.wrapping_add(1);
                self.current = Some(current);
                let mut cx = Context::new(self.heap.lend(), self.node);
                cx.cancel = Some(line.req_hdr_word());
                cx.serial = self.serial;
                cx.deadline_us = job.deadline_us;
                let reply = (entry.run)(&mut cx, &mut self.frame);
                (reply, cx.saw_cancel.get())
            }
        };
        self.finish_job(current, job.wishes, reply, cancelled);
        1
    }

    /// Answers in the message's own line.
    #[cold]
    pub(super) fn finish(&mut self, queue: usize, found: Found, wishes: Wishes, reply: Reply, cancelled: bool) {
        self.current = None;
        let hdr = self.place(queue, found.slot, wishes, reply, cancelled);
        if let Some(port) = self.ports.get(queue) {
            answer_inline(port.responder.line(found.slot), &self.frame.words, hdr, found.seq);
        }
    }

    /// Answers a queued call in its side line and lets its stream go on.
    pub(super) fn finish_job(&mut self, current: Current, wishes: Wishes, reply: Reply, cancelled: bool) {
        self.current = None;
        let hdr = self.place(current.queue, current.found.slot, wishes, reply, cancelled);
        let Some(port) = self.ports.get_mut(current.queue) else { return };
        let ticket = current.found.slot - 1 - port.responder.slots().ring_len();
        if let Some(line) = port.responder.slots().side(ticket) {
            answer_inline(line, &self.frame.words, hdr, current.found.seq);
        }
        // Streams with a queued call that may be overtaken were never held; for the others this one was the only one.
        port.held = self.jobs.iter().any(|j| j.queue == current.queue && !j.hdr.has(ReqHdr::UNORDERED));
    }

    /// Finds the place for a result: inline, reply chunk, reply buffer, or RESULT_TOO_LONG with the length needed.
    fn place(&mut self, queue: usize, slot: u32, wishes: Wishes, reply: Reply, cancelled: bool) -> RepHdr {
        let fault = reply.hdr.has(RepHdr::FAULT);
        if cancelled && !fault {
            return RepHdr::inline(Status::CANCELLED, 0);
        }
        if wishes.one_way && reply.hdr.status() == Status::OK {
            return RepHdr::inline(Status::EXECUTED, 0);
        }
        if reply.long == 0 {
            return reply.hdr;
        }
        let Some(port) = self.ports.get(queue) else { return reply.hdr };
        let slots = port.responder.slots();
        // A fault's text is cut to what there is room for; a value is never cut.
        let room = if fault { slots.rep_chunk_len().max(INLINE_BYTES) } else { usize::MAX };
        let len = (reply.long as usize).min(room);
        let Some(bytes) = self.frame.scratch.get(..len) else { return reply.hdr };
        if len <= INLINE_BYTES {
            // Only a cut fault is this short: its slot has no reply chunk.
            let inline: &mut [u8; INLINE_BYTES] = bytemuck::must_cast_mut(&mut self.frame.words);
            inline.split_at_mut(len).0.copy_from_slice(bytes);
            return RepHdr(reply.hdr.0 | (len as u32) << 16);
        }
        let described = RepHdr(reply.hdr.0 | 16 << 16);
        if slots.write_reply_chunk(slot, bytes).is_some() {
            (self.frame.words[0], self.frame.words[1]) = (0, len as u64);
            return described.in_chunk();
        }
        if let Some(buffer) = wishes.reply_buffer
            && len as u64 <= buffer.len
            && self.heap.write_bytes(buffer.off, bytes).is_ok()
        {
            (self.frame.words[0], self.frame.words[1]) = (buffer.off, len as u64);
            return described.in_buffer();
        }
        self.frame.words[0] = u64::from(reply.long);
        RepHdr::inline(Status::RESULT_TOO_LONG, 8)
    }
}
