//! Runs the calls of all streams. A short message without flags but ONE_WAY is served here, all
//! others in `long`.

#[cfg(feature = "tasks")]
use super::request::Job;
use super::request::ReplyMode;
use super::responder::take_data;
use super::{Activity, Found, Responder, SlotAccess, Slots};
use crate::context::{CallState, Context, Effects};
use crate::frame::{Arguments, Frame, Reply};
use crate::handler::Thunk;
use crate::registry::Table;
use hamr_shared_abi::ids::NodeId;
use hamr_shared_abi::slot::{INLINE_BYTES, RepHdr, ReqHdr, pair, pair_seq};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::{Heap, Payload, Queue, Slot};

/// Calls that wait for a task's place.
#[cfg(feature = "tasks")]
const BACKLOG: usize = 16;
/// Messages per stream and round (rule 9): one busy stream does not starve the others.
pub(super) const BATCH: u32 = 16;

pub(super) struct Endpoint<K, F> {
    pub(super) responder: Responder<Queue<K, F>>,
    /// Its number, for [`Activity`] and `Job`.
    pub(super) queue: u32,
    /// 1 + the slot in which the next reply to an ordered task of this stream comes: until its last the
    /// stream waits (rule 6). Zero: there is none.
    pub(super) blocked_by: u32,
    /// The last message that was plain, in two lines, or with arguments in a chunk and nothing else.
    pub(super) known: Known,
}

impl<K, F> Endpoint<K, F> {
    pub(super) fn new(responder: Responder<Queue<K, F>>, queue: u32) -> Self {
        Self { responder, queue, blocked_by: 0, known: Known::NONE }
    }

    /// A message with this header and handler was checked.
    pub(super) fn know_chunk(&mut self, hdr: ReqHdr, run: Thunk) {
        let hdr = ReqHdr(hdr.0 & !ReqHdr::ONE_WAY);
        if Payload::IN_CHUNKS && hdr.is_in_chunk_alone() {
            self.known = Known { hdr, run, beside: Beside::Chunk };
        }
    }
}

#[cfg(feature = "tasks")]
impl<K, F: Order> Endpoint<K, F> {
    /// Replies TAKEN to a task's call, with the task's place, unless that was done: the result comes in the
    /// ticket slot.
    #[cold]
    #[inline(never)]
    pub(super) fn say_taken(&mut self, job: &mut Job, place: u32) {
        let request = core::mem::replace(&mut job.next_reply, job.found);
        if self.blocked_by == 1 + request.slot {
            self.blocked_by = 1 + job.found.slot;
        }
        if request != job.found {
            let slot = self.responder.slot(request.slot);
            slot.write_reply(&[place.into()]);
            slot.publish_reply(RepHdr::taken(4).0, request.seq);
        }
    }
}

/// A message that was checked once. One with the same header needs no check and no look at the
/// table.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// Its header, without ONE_WAY.
    pub(super) hdr: ReqHdr,
    pub(super) run: Thunk,
    pub(super) beside: Beside,
}

/// What a message has beside its slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum Beside {
    Nothing,
    /// The rest of the arguments in a second line (place 3).
    Line,
    /// Data for the heap in a second line (PUT).
    Data,
    /// The arguments in a chunk.
    Chunk,
}

impl Beside {
    /// Where the arguments of a message with this header in the hot slot are, if not in a chunk.
    #[inline(always)]
    pub(super) fn payload<K, F: Order>(self, slots: &Queue<K, F>, hdr: ReqHdr) -> Payload<'_> {
        match self {
            Self::Line => slots.hot_payload(hdr.args_len()),
            _ => slots.hot().payload(hdr.len()),
        }
    }
}

/// The arguments of a message in `slot`, of this number, whose header says that they are in its chunk. `None`: they are
/// not, or are short.
#[inline(always)]
fn in_chunk<'q, K, F: Order>(slots: &'q Queue<K, F>, number: u32, slot: Slot<'q, F>) -> Option<Payload<'q>> {
    let mut words = [0; 2];
    slot.read_request(&mut words);
    let len = usize::try_from(words[1]).ok().filter(|len| *len > INLINE_BYTES)?;
    slots.chunk_payload(number, len)
}

impl Known {
    /// Before the first message: a header that no peer may send, and what it gets.
    const NONE: Self =
        Self { hdr: ReqHdr(u32::MAX), run: |_, frame, _| frame.status(Status::BAD_REQUEST), beside: Beside::Nothing };
}

/// Why [`Dispatcher::serve_lone`] returned.
pub(super) enum Stop {
    /// No message is there.
    Idle,
    /// The next message needs [`Dispatcher::poll_endpoint`].
    Other,
    /// The call of this word ran and needs [`Dispatcher::finish`].
    Unfinished(u32, Reply, Effects),
}

/// Runs the calls of all streams.
pub(super) struct Dispatcher<'s, K> {
    pub(super) heap: Heap<K>,
    pub(super) table: Table,
    pub(super) node: NodeId,
    pub(super) frame: Frame<'s>,
    #[cfg(feature = "tasks")]
    pub(super) tasks: super::Tasks<'s>,
    /// Calls that wait for a place.
    #[cfg(feature = "tasks")]
    pub(super) backlog: heapless::Deque<Job, BACKLOG>,
    pub(super) activity: Activity,
}

impl<K: Clone> Dispatcher<'_, K> {
    /// Serves at most `at_most` messages of a stream.
    #[inline(always)]
    pub(super) fn poll_endpoint<F: Order>(&mut self, endpoint: &mut Endpoint<K, F>, at_most: u32) -> u32 {
        let mut served = 0;
        let mut hot_first = true;
        while endpoint.blocked_by == 0
            && served < at_most
            && let Some(found) = endpoint.responder.next(hot_first)
        {
            hot_first = found.slot != 0;
            self.serve(endpoint, found);
            served += 1;
        }
        served
    }

    /// Serves the hot slot of one stream alone, for a caller that waits for each result: at most
    /// `left` messages, whose headers are that of the stream's last message. After `polls` vain
    /// polls in a row it returns; each message adds a poll, up to `most_polls`.
    #[inline(always)]
    pub(super) fn serve_lone<F: Order>(
        &mut self,
        endpoint: &mut Endpoint<K, F>,
        left: &mut u32,
        polls: u32,
        most_polls: u32,
    ) -> Stop {
        let (Known { hdr, run, beside }, queue, all) = (endpoint.known, endpoint.queue, *left);
        let (hot, next) = endpoint.responder.hot_slot();
        let mut cx = Context::of_call(self.heap.lend(), hot.slot.req_hdr_word(), CallState::new(self.node, 0));
        let mut expected = pair(hdr.0, *next);
        let in_lines = beside.payload(hot.slots, hdr);
        while *left != 0 {
            // R1 with the header: one comparison says that a message is there, and which.
            if hot.slot.req_pair() != expected {
                let found = hot.wait(expected, (polls + all - *left).min(most_polls));
                if found != expected {
                    return if pair_seq(found) == pair_seq(expected) { Stop::Other } else { Stop::Idle };
                }
            }
            let mut args = in_lines;
            if beside > Beside::Line {
                let there = match beside {
                    Beside::Chunk if Payload::IN_CHUNKS => in_chunk(hot.slots, 0, hot.slot),
                    _ => take_data(&cx.heap, hot.slots).then_some(args),
                };
                // Malformed, or short.
                let Some(there) = there else { return Stop::Other };
                args = there;
            }
            *left -= 1;
            let seq = pair_seq(expected);
            *next = Responder::<Queue<K, F>>::after(seq);
            expected = pair(hdr.0, *next);
            spill_state(next);
            self.activity.begin(queue, Found { slot: 0, seq });
            let reply = run(&mut cx, &mut self.frame, Arguments::new(args));
            let is_short = reply.is_short();
            if !is_short && reply.long() != 0 || !cx.effects().is_empty() {
                return Stop::Unfinished(seq, reply, cx.effects());
            }
            self.activity.end();
            if !is_short {
                hot.slot.write_reply(&self.frame.words);
                hot.slot.publish_reply(reply.hdr().0, seq);
                continue;
            }
            reply_short(hot.slot, reply, seq);
        }
        Stop::Idle
    }

    #[inline(always)]
    fn serve<F: Order>(&mut self, endpoint: &mut Endpoint<K, F>, found: Found) {
        spill_state(endpoint);
        let slot = endpoint.responder.slot(found.slot);
        let hdr = ReqHdr(slot.req_hdr());
        let two_way = ReqHdr(hdr.0 & !ReqHdr::ONE_WAY);
        let mut args = slot.payload(hdr.len());
        if two_way != endpoint.known.hdr || !two_way.is_plain() {
            let is_in_chunk =
                Payload::IN_CHUNKS && two_way == endpoint.known.hdr && endpoint.known.beside == Beside::Chunk;
            if is_in_chunk && let Some(chunk) = in_chunk(endpoint.responder.slots(), found.slot, slot) {
                args = chunk;
            } else if !two_way.is_plain() || hdr.len() > INLINE_BYTES {
                return self.serve_long(endpoint, found, hdr);
            } else if let Some(entry) = self.table.get(hdr.key().0 as usize) {
                endpoint.known = Known { hdr: two_way, run: entry.run, beside: Beside::Nothing };
                spill_state(&mut endpoint.known);
            } else {
                // A handler of a module, or none.
                return self.serve_long(endpoint, found, hdr);
            }
        }
        self.activity.begin(endpoint.queue, found);
        let mut cx = Context::of_call(self.heap.lend(), slot.req_hdr_word(), CallState::new(self.node, 0));
        let reply = (endpoint.known.run)(&mut cx, &mut self.frame, Arguments::new(args));
        let (one_way, effects) = (hdr.has(ReqHdr::ONE_WAY), cx.effects());
        if !reply.is_short() || !effects.is_empty() {
            let reply_mode = ReplyMode { one_way, ..ReplyMode::TWO_WAY };
            return self.finish(endpoint, found, reply_mode, reply, effects);
        }
        self.activity.end();
        if one_way && reply.hdr().status() == Status::OK {
            slot.publish_reply(RepHdr::inline(Status::EXECUTED, 0).0, found.seq);
        } else {
            reply_short(slot, reply, found.seq);
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

/// Writes a short reply and publishes it. The word is written in any case, since a branch costs
/// more; the bytes behind the result mean nothing.
#[inline(always)]
pub(super) fn reply_short<L: SlotAccess>(slot: L, reply: Reply, seq: u32) {
    slot.write_reply(&[reply.word()]);
    slot.publish_reply(reply.hdr().0, seq);
}
