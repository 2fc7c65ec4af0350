//! The host's end of a host queue: takes the calls of a device, has them run, replies (abi §12).
//!
//! It is a [`Responder`] with the device as the peer: whatever the bytes are, each message gets one
//! reply.

use super::long::{in_place, load};
use super::request::{Parts, parts};
use super::{Expected, Found, QueueEnd, Responder, SlotAccess};
use crate::frame::{Arguments, Frame, Reply};
use crate::handler::Entry;
use crate::registry::Table;
use alloc::boxed::Box;
use alloc::vec;
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::slot::{Ext, INLINE_BYTES, INLINE_WORDS, RepHdr, ReqHdr};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::window::{HdrWord, Payload, Queue};

/// Room for the longest fault, beside chunks that may be shorter.
const SHORTEST_SCRATCH: usize = 1024;

/// The host's state of one host queue.
pub struct HostResponder<K> {
    responder: Responder<Queue<K>>,
    epoch: Epoch,
    scratch: Box<[u8]>,
}

/// What a body is told of its call.
pub struct HostCallInfo<'q> {
    /// Microseconds that the device gives it; 0: no limit.
    pub deadline_us: u32,
    cancel: HdrWord<'q>,
}

impl HostCallInfo<'_> {
    /// Has the device cancelled the call?
    pub fn is_cancelled(&self) -> bool {
        ReqHdr(self.cancel.load()).has(ReqHdr::CANCEL)
    }
}

/// A reply that is not published yet.
#[must_use]
pub struct HostReply {
    found: Found,
    hdr: RepHdr,
    words: [u64; INLINE_WORDS],
    /// Bytes in scratch memory that go to the reply chunk.
    long: usize,
}

impl<K: Clone> HostResponder<K> {
    /// The end of a queue at the start of `epoch`.
    pub fn new(slots: Queue<K>, epoch: Epoch) -> Self {
        let longest = slots.rep_chunk_len().max(slots.req_chunk_len());
        let scratch = vec![0; longest.max(SHORTEST_SCRATCH)].into();
        Self { responder: Responder::new(slots, epoch), epoch, scratch }
    }

    /// The epoch whose messages it takes.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Takes the next message and runs it: `run` calls the body, and says whether that learned of a
    /// cancellation.
    pub fn run_next(
        &mut self,
        table: Table,
        run: impl FnOnce(&'static Entry, HostCallInfo<'_>, &mut Frame<'_>, Arguments<'_>) -> (Reply, bool),
    ) -> Option<HostReply> {
        let found = self.responder.next(true)?;
        let slot = self.responder.slot(found.slot);
        let mut frame = Frame::new(&mut self.scratch);
        let (mut short, mut line) = ([0; INLINE_WORDS], [0; INLINE_WORDS]);
        Some(match start(&self.responder, found, table, &mut short) {
            Err(status) => HostReply { found, hdr: RepHdr::inline(status, 0), words: [0; INLINE_WORDS], long: 0 },
            Ok((entry, hdr, parts, args)) => {
                let Ext { deadline_us, .. } = parts.ext;
                let info = HostCallInfo { deadline_us: deadline_us & !Ext::ENFORCED, cancel: slot.req_hdr_word() };
                // The chunk is another epoch's when this one ends, which a body may outlive.
                let args = args.in_chunk().map_or(args, |chunk| {
                    let len = chunk.len();
                    chunk.copy_to(frame.scratch);
                    Payload::private(&mut line, len)
                });
                let (reply, cancelled) = run(entry, info, &mut frame, Arguments::new(args));
                let one_way = hdr.has(ReqHdr::ONE_WAY);
                let chunk = self.responder.slots().rep_chunk_len();
                let (hdr, words, long) = place(chunk, one_way, reply, cancelled, &frame);
                HostReply { found, hdr, words, long }
            }
        })
    }

    /// Takes the next message, to refuse it with `status`.
    pub fn refuse_next(&mut self, status: Status) -> Option<HostReply> {
        let found = self.responder.next(true)?;
        Some(HostReply { found, hdr: RepHdr::inline(status, 0), words: [0; INLINE_WORDS], long: 0 })
    }
}

impl<K: Clone> QueueEnd for HostResponder<K> {
    type Reply = HostReply;

    #[inline]
    fn has_next(&self) -> bool {
        self.responder.has_next()
    }

    fn expected(&self) -> Expected {
        self.responder.expected()
    }

    fn publish(&self, reply: &HostReply) {
        let slot = self.responder.slot(reply.found.slot);
        if reply.long != 0
            && let Some(bytes) = self.scratch.get(..reply.long)
        {
            // It fits: `place` compared it with the chunk.
            let _ = self.responder.slots().write_reply_chunk(reply.found.slot, bytes);
        }
        if !reply.hdr.is_empty() {
            slot.write_reply(&reply.words);
        }
        slot.publish_reply(reply.hdr.0, reply.found.seq);
    }
}

type Start<'p> = (&'static Entry, ReqHdr, Parts, Payload<'p>);

/// Copies a message out, but for long arguments, and finds its handler. The error is its reply.
fn start<'p, K: Clone>(
    responder: &'p Responder<Queue<K>>,
    found: Found,
    table: Table,
    short: &'p mut [u64; INLINE_WORDS],
) -> Result<Start<'p>, Status> {
    let bad = Status::BAD_REQUEST;
    let slot = responder.slot(found.slot);
    let hdr = ReqHdr(slot.req_hdr());
    if hdr.has_second_line() || hdr.has(ReqHdr::TICKET) || hdr.has(ReqHdr::REPLY_BUF) {
        return Err(bad);
    }
    let mut words = [0; INLINE_WORDS];
    slot.read_request(&mut words);
    let parts = parts(hdr, &words)?;
    if hdr.has(ReqHdr::CANCEL) {
        return Err(Status::CANCELLED);
    }
    let entry = table.get(usize::from(hdr.key().0)).ok_or(Status::NO_HANDLER)?;
    let slots = responder.slots();
    let args = match in_place(slots, found.slot, &parts.args) {
        Some(there) => there,
        None => {
            let len = load(None, &mut [], slots, found.slot, (&words, parts.args), short)?;
            Payload::private(short, len)
        }
    };
    Ok((entry, hdr, parts, args))
}

/// Finds the place for a result: inline, the reply chunk, or RESULT_TOO_LONG with the length needed.
/// Header, payload, and how many bytes of scratch memory go to the chunk.
fn place(
    chunk: usize,
    one_way: bool,
    reply: Reply,
    cancelled: bool,
    frame: &Frame<'_>,
) -> (RepHdr, [u64; INLINE_WORDS], usize) {
    let (hdr, fault) = (reply.hdr(), reply.hdr().has(RepHdr::FAULT));
    let mut words = frame.words;
    if reply.is_short() {
        words[0] = reply.word();
    }
    if cancelled && !fault {
        return (RepHdr::inline(Status::CANCELLED, 0), words, 0);
    }
    if one_way && hdr.status() == Status::OK {
        return (RepHdr::inline(Status::EXECUTED, 0), words, 0);
    }
    if reply.long() == 0 {
        return (hdr, words, 0);
    }
    // A fault's text is cut to what there is room for; a value is never cut.
    let len = if fault { reply.long().min(chunk.max(INLINE_BYTES)) } else { reply.long() };
    if len <= INLINE_BYTES {
        let inline: &mut [u8; INLINE_BYTES] = bytemuck::must_cast_mut(&mut words);
        for (to, from) in inline.iter_mut().zip(frame.scratch.iter().take(len)) {
            *to = *from;
        }
        return (RepHdr(hdr.0 | (len as u32) << 16), words, 0);
    }
    if len <= chunk {
        (words[0], words[1]) = (0, len as u64);
        return (RepHdr(hdr.0 | 16 << 16).in_chunk(), words, len);
    }
    words[0] = reply.long() as u64;
    (RepHdr::inline(Status::RESULT_TOO_LONG, 8), words, 0)
}
