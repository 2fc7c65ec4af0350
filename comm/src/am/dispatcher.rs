//! Runs the calls of all streams. A short two-way message without flags is served here, all others
//! in `long`.

use super::request::{Job, ReplyMode};
use super::{Activity, Found, Responder, SlotAccess};
use crate::context::Context;
use crate::frame::{Arguments, Frame};
use crate::registry::Table;
use hamr_shared_abi::ids::NodeId;
use hamr_shared_abi::slot::{INLINE_BYTES, INLINE_WORDS, RepHdr, ReqHdr};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::{Heap, Queue};

/// Queued calls waiting in one image.
const MAX_JOBS: usize = 16;
/// Messages per stream and round (rule 9): one busy stream does not starve the others.
pub(super) const BATCH: u32 = 16;

pub(super) struct Endpoint<K, F> {
    pub(super) responder: Responder<Queue<K, F>>,
    /// Its number, for [`Activity`] and [`Job`].
    pub(super) queue: u32,
    /// An ordered queued call of this stream has not run yet: the stream waits (rule 6).
    pub(super) blocked: bool,
}

/// Runs the calls of all streams.
pub(super) struct Dispatcher<'s, K> {
    pub(super) heap: Heap<K>,
    pub(super) table: Table,
    pub(super) node: NodeId,
    pub(super) frame: Frame<'s>,
    pub(super) jobs: heapless::Deque<Job, MAX_JOBS>,
    pub(super) activity: Activity,
}

impl<K: Clone> Dispatcher<'_, K> {
    #[inline(always)]
    pub(super) fn poll_endpoint<F: Order>(&mut self, endpoint: &mut Endpoint<K, F>) -> u32 {
        let mut served = 0;
        let mut hot_first = true;
        while !endpoint.blocked
            && served < BATCH
            && let Some(found) = endpoint.responder.next(hot_first)
        {
            hot_first = found.slot != 0;
            self.serve(endpoint, found);
            served += 1;
        }
        served
    }

    #[inline(always)]
    pub(super) fn serve<F: Order>(&mut self, endpoint: &mut Endpoint<K, F>, found: Found) {
        spill_state(endpoint);
        let slot = endpoint.responder.slot(found.slot);
        let hdr = ReqHdr(slot.req_hdr());
        let one_way = hdr.has(ReqHdr::ONE_WAY);
        if !ReqHdr(hdr.0 & !ReqHdr::ONE_WAY).is_plain() {
            return self.serve_long(endpoint, found, hdr);
        }
        self.frame.args = Arguments::inline(0, hdr.len());
        if !hdr.is_empty() {
            if hdr.len() > INLINE_BYTES {
                return self.serve_long(endpoint, found, hdr);
            }
            slot.read_request(&mut self.frame.words);
        }
        let Some(entry) = self.table.get(hdr.key().0 as usize) else {
            return slot.publish_reply(RepHdr::inline(Status::NO_HANDLER, 0).0, found.seq);
        };
        self.activity.begin(endpoint.queue, found);
        let mut cx = Context::of_call(self.heap.lend(), self.node, slot.req_hdr_word(), 0);
        let reply = (entry.run)(&mut cx, &mut self.frame);
        if reply.long != 0 || cx.saw_cancel.get() {
            let cancelled = cx.saw_cancel.get();
            let reply_mode = ReplyMode { one_way, ..ReplyMode::TWO_WAY };
            return self.finish(endpoint, found, reply_mode, reply, cancelled);
        }
        self.activity.end();
        if one_way && reply.hdr.status() == Status::OK {
            slot.publish_reply(RepHdr::inline(Status::EXECUTED, 0).0, found.seq);
        } else {
            reply_inline(slot, &self.frame.words, reply.hdr, found.seq);
        }
    }
}

/// Brings `state` up to date in memory before a handler runs, which may be abandoned there.
///
/// A bare-metal build aborts on panic, so the compiler assumes that a handler is left only by
/// returning, and may keep changes from before the call in registers until then. After an abandoned
/// call the state in memory would be an older one: the call would be found and run again. Builds
/// that unwind need nothing.
#[inline(always)]
pub(super) fn spill_state<T>(state: &mut T) {
    #[cfg(hamr_bare)]
    core::hint::black_box(state);
    #[cfg(not(hamr_bare))]
    let _ = state;
}

/// Writes an inline reply and publishes it. It writes no word, the first, or all six, since a
/// branch per word costs more than the store. The bytes behind the result are left over from the
/// request or an earlier one and mean nothing.
#[inline(always)]
pub(super) fn reply_inline<L: SlotAccess>(slot: L, words: &[u64; INLINE_WORDS], hdr: RepHdr, seq: u32) {
    match hdr.len() {
        0 => {}
        1..=8 => slot.write_reply(&words[..1]),
        _ => slot.write_reply(words),
    }
    slot.publish_reply(hdr.0, seq);
}
