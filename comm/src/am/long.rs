//! Messages that are not plain: chunks, buffers, second lines, one-way, tickets, cancellation (abi
//! §4.4, §4.7, §5).

#[cfg(feature = "tasks")]
use super::Slots;
use super::dispatcher::{Dispatcher, Endpoint, reply_short, spill_state};
use super::request::{Args, ReplyMode, parts};
#[cfg(feature = "tasks")]
use super::request::{Job, waiter};
use super::{Found, SlotAccess};
use crate::context::{CallState, Context, Effects};
use crate::frame::{Arguments, Frame, Reply};
use crate::handler::Entry;
use crate::registry::Table;
#[cfg(feature = "tasks")]
use crate::task::TaskThunk;
use hamr_shared_abi::ids::HandlerKey;
use hamr_shared_abi::slot::{Ext, INLINE_BYTES, INLINE_WORDS, RepHdr, ReqHdr};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::{Heap, Payload, Queue};

impl<K: Clone> Dispatcher<'_, K> {
    /// Serves a message with flags, long arguments, or a malformed header.
    #[cold]
    #[inline(never)]
    pub(super) fn serve_long<F: Order>(&mut self, endpoint: &mut Endpoint<K, F>, found: Found, hdr: ReqHdr) {
        if hdr.has_second_line() {
            return self.serve_two_lines(endpoint, found, hdr);
        }
        #[cfg(feature = "tasks")]
        if hdr.is_short_task() {
            return self.take(endpoint, found, hdr);
        }
        endpoint.responder.slot(found.slot).read_request(&mut self.frame.words);
        let parts = match parts(hdr, &self.frame.words) {
            Ok(parts) => parts,
            Err(status) => return refuse(endpoint, found, status),
        };
        if hdr.has(ReqHdr::CANCEL) {
            return refuse(endpoint, found, Status::CANCELLED);
        }
        if hdr.has(ReqHdr::TICKET) {
            return self.take(endpoint, found, hdr);
        }
        if let Some(entry) = self.table.get(hdr.key().0 as usize) {
            endpoint.know_chunk(hdr, entry.run);
        }
        spill_state(endpoint);
        match self.run(endpoint, found, hdr, parts.args, parts.ext) {
            Ok((reply, effects)) => self.finish(endpoint, found, parts.reply_mode, reply, effects),
            Err(status) => refuse(endpoint, found, status),
        }
    }

    /// Brings the arguments in and runs the handler; an error is the reason why it did not run.
    fn run<F: Order>(
        &mut self,
        endpoint: &Endpoint<K, F>,
        found: Found,
        hdr: ReqHdr,
        args: Args,
        ext: Ext,
    ) -> Result<(Reply, Effects), Status> {
        let handler = Callee::of(self.table, hdr.key()).ok_or(Status::NO_HANDLER)?;
        let mut short = [0; INLINE_WORDS];
        let words = self.frame.words;
        let slots = endpoint.responder.slots();
        let args = match in_place(slots, found.slot, &args) {
            Some(there) => there,
            None => {
                let (heap, scratch) = (Some(&self.heap), &mut *self.frame.scratch);
                let len = load(heap, scratch, slots, found.slot, (&words, args), &mut short)?;
                Payload::private(&mut short, len)
            }
        };
        let slot = endpoint.responder.slot(found.slot);
        let Ext { deadline_us, .. } = ext;
        self.activity.limit(if deadline_us & Ext::ENFORCED != 0 { ext.micros() } else { 0 });
        self.activity.begin(endpoint.queue, found);
        let mut cx = Context::of_call(self.heap.lend(), slot.req_hdr_word(), CallState::new(self.node, ext.micros()));
        let reply = handler.run(&mut cx, &mut self.frame, Arguments::new(args));
        Ok((reply, cx.effects()))
    }

    /// An image without tasks takes no TICKET request.
    #[cfg(not(feature = "tasks"))]
    fn take<F: Order>(&mut self, endpoint: &mut Endpoint<K, F>, request: Found, _: ReqHdr) {
        refuse(endpoint, request, Status::NO_TASKS);
    }

    /// Gives a TICKET request, which has no fault, a place for its task, or one in the backlog, where a chained one
    /// never waits. The task's result is the reply, or TAKEN is, when it first waits, or now where that is expected.
    #[cfg(feature = "tasks")]
    #[inline(never)]
    fn take<F: Order>(&mut self, endpoint: &mut Endpoint<K, F>, request: Found, hdr: ReqHdr) {
        let mut first = [0; 2];
        endpoint.responder.slot(request.slot).read_request(&mut first);
        let ext: Ext = zerocopy::transmute!(first);
        // A call that cannot run is refused now, not when it reaches the head of the queue.
        let (found, start) = match self.check_task(endpoint, hdr, ext) {
            Ok(checked) => checked,
            Err(status) => return refuse(endpoint, request, status),
        };
        let job = Job { queue: endpoint.queue, found, next_reply: request, hdr, start, words: [0; INLINE_WORDS] };
        let expects_wait = self.tasks.waiters & waiter(hdr.key()) != 0;
        let (job, taken) = match self.tasks.place() {
            Some((place, slot)) => (slot.take(job), expects_wait.then_some(place)),
            None if ext.chain & Ext::CHAINED != 0 || self.backlog.push_back(job).is_err() => {
                return refuse(endpoint, request, Status::QUEUE_FULL);
            }
            None => match self.backlog.back_mut() {
                Some(job) => (job, Some(RepHdr::NO_PLACE)),
                None => return,
            },
        };
        // Read where they stay: a copy of words that were just written reads two at once, and waits for them.
        endpoint.responder.slot(request.slot).read_request(&mut job.words);
        [job.words[0], job.words[1]] = first;
        if !hdr.has(ReqHdr::UNORDERED) {
            endpoint.blocked_by = 1 + request.slot;
        }
        if let Some(place) = taken {
            endpoint.say_taken(job, place);
        }
    }

    /// The ticket slot of a task's call, and the word that its reply carries there; what its first slice runs.
    #[cfg(feature = "tasks")]
    #[inline(always)]
    fn check_task<F: Order>(
        &self,
        endpoint: &Endpoint<K, F>,
        hdr: ReqHdr,
        ext: Ext,
    ) -> Result<(Found, TaskThunk), Status> {
        let ticket = u32::from(ext.ticket);
        if endpoint.responder.slots().ticket_slot(ticket).is_none() {
            return Err(Status::BAD_REQUEST);
        }
        let entry = self.table.get(hdr.key().0 as usize).ok_or(Status::NO_HANDLER)?;
        if !entry.has_body() {
            return Err(Status::NO_BODY);
        }
        if !entry.is_task() {
            return Err(Status::BAD_REQUEST);
        }
        if self.tasks.is_empty() {
            return Err(Status::NO_TASKS);
        }
        let found = Found { slot: 1 + endpoint.responder.slots().ring_len() + ticket, seq: ext.ticket_seq };
        Ok((found, entry.start))
    }

    /// Publishes the reply in the slot of `found`: the hot slot, a ring slot or a ticket slot.
    /// After a task's call, the stream goes on.
    #[cold]
    #[inline(never)]
    pub(super) fn finish<F: Order>(
        &mut self,
        endpoint: &mut Endpoint<K, F>,
        found: Found,
        reply_mode: ReplyMode,
        reply: Reply,
        effects: Effects,
    ) {
        self.finish_task(endpoint, found, reply_mode, reply, effects);
    }

    /// The same for who ends tasks.
    #[cfg_attr(hamr_bare, inline(never))]
    #[cfg_attr(not(hamr_bare), inline(always))]
    pub(super) fn finish_task<F: Order>(
        &mut self,
        endpoint: &mut Endpoint<K, F>,
        found: Found,
        reply_mode: ReplyMode,
        reply: Reply,
        effects: Effects,
    ) {
        self.activity.end();
        self.activity.limit(0);
        #[cfg(feature = "tasks")]
        if effects.sent() {
            self.tasks.expect_messages();
        }
        let slot = endpoint.responder.slot(found.slot);
        // A stream that is blocked runs unordered tasks and this one.
        if endpoint.blocked_by == 1 + found.slot {
            endpoint.blocked_by = 0;
        }
        if reply.is_short() && !reply_mode.one_way && !effects.saw_cancel() {
            return reply_short(slot, reply, found.seq);
        }
        self.finish_long(endpoint, found, reply_mode, reply, effects);
    }

    #[cold]
    #[cfg_attr(hamr_bare, inline(always))]
    #[cfg_attr(not(hamr_bare), inline(never))]
    fn finish_long<F: Order>(
        &mut self,
        endpoint: &Endpoint<K, F>,
        found: Found,
        reply_mode: ReplyMode,
        reply: Reply,
        effects: Effects,
    ) {
        let slot = endpoint.responder.slot(found.slot);
        if reply.is_short() {
            self.frame.words[0] = reply.word();
        }
        let hdr = self.place(endpoint, found.slot, reply_mode, reply, effects.saw_cancel());
        if !hdr.is_empty() {
            slot.write_reply(&self.frame.words);
        }
        slot.publish_reply(hdr.0, found.seq);
    }

    /// Finds the place for a result: inline, reply chunk, reply buffer, or RESULT_TOO_LONG with the
    /// length needed.
    fn place<F: Order>(
        &mut self,
        endpoint: &Endpoint<K, F>,
        slot: u32,
        reply_mode: ReplyMode,
        reply: Reply,
        cancelled: bool,
    ) -> RepHdr {
        let (hdr, fault) = (reply.hdr(), reply.hdr().has(RepHdr::FAULT));
        if cancelled && !fault {
            return RepHdr::inline(Status::CANCELLED, 0);
        }
        if reply_mode.one_way && hdr.status() == Status::OK {
            return RepHdr::inline(Status::EXECUTED, 0);
        }
        if reply.long() == 0 {
            return hdr;
        }
        let slots = endpoint.responder.slots();
        // A fault's text is cut to what there is room for; a value is never cut.
        let room = if fault { slots.rep_chunk_len().max(INLINE_BYTES) } else { usize::MAX };
        let len = reply.long().min(room);
        let Some(bytes) = self.frame.scratch.get(..len) else { return hdr };
        if len <= INLINE_BYTES {
            // Only a cut fault is this short: its slot has no reply chunk.
            let inline: &mut [u8; INLINE_BYTES] = bytemuck::must_cast_mut(&mut self.frame.words);
            inline.split_at_mut(len).0.copy_from_slice(bytes);
            return RepHdr(hdr.0 | (len as u32) << 16);
        }
        let described = RepHdr(hdr.0 | 16 << 16);
        if slots.write_reply_chunk(slot, bytes).is_some() {
            (self.frame.words[0], self.frame.words[1]) = (0, len as u64);
            return described.in_chunk();
        }
        if let Some(buffer) = reply_mode.reply_buffer
            && len as u64 <= buffer.len
            && self.heap.write_bytes(buffer.off, bytes).is_ok()
        {
            (self.frame.words[0], self.frame.words[1]) = (buffer.off, len as u64);
            return described.in_buffer();
        }
        self.frame.words[0] = reply.long() as u64;
        RepHdr::inline(Status::RESULT_TOO_LONG, 8)
    }
}

/// What a request names: a handler of the image, or of a module. The latter is looked up for each call,
/// so that an unload leaves no trace of it here.
#[derive(Clone, Copy)]
struct Callee {
    entry: &'static Entry,
    #[cfg(feature = "modules")]
    module: Option<crate::module::Run>,
}

impl Callee {
    fn of(table: Table, key: HandlerKey) -> Option<Self> {
        if let Some(entry) = table.get(key.0.into()) {
            return Some(Self {
                entry,
                #[cfg(feature = "modules")]
                module: None,
            });
        }
        #[cfg(feature = "modules")]
        if let Some((entry, run)) = crate::module::find(key) {
            return Some(Self { entry, module: Some(run) });
        }
        None
    }

    fn run(self, cx: &mut Context<'_>, frame: &mut Frame<'_>, args: Arguments<'_>) -> Reply {
        #[cfg(feature = "modules")]
        if let Some(run) = self.module {
            return run(self.entry, cx, frame, args);
        }
        (self.entry.run)(cx, frame, args)
    }
}

/// Long arguments in a chunk, to be read from there once (rule 5).
#[inline(always)]
pub(super) fn in_place<'p, K, F: Order>(slots: &'p Queue<K, F>, slot: u32, args: &Args) -> Option<Payload<'p>> {
    match *args {
        Args::Chunk { len } if Payload::IN_CHUNKS && len > INLINE_BYTES => slots.chunk_payload(slot, len),
        _ => None,
    }
}

/// Copies the arguments to the front of `short`, or of scratch memory if they are too long: the one copy that is decoded (rule
/// 5). `words` are the request's payload. Returns their length. Without a heap there are no buffers.
// Not inlined: an image has it once, and the code that runs tasks has only the call.
#[inline(never)]
pub(super) fn load<K, F: Order>(
    heap: Option<&Heap<K>>,
    scratch: &mut [u8],
    slots: &Queue<K, F>,
    slot: u32,
    (words, args): (&[u64; INLINE_WORDS], Args),
    short: &mut [u64; INLINE_WORDS],
) -> Result<usize, Status> {
    let bad = Status::BAD_REQUEST;
    let len = match args {
        Args::Inline { start, end } => {
            // Parts are whole words; the bytes behind the last one are not decoded.
            let from = words.get(start as usize / 8..).ok_or(bad)?;
            short.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            return end.checked_sub(start).map(|len| len as usize).ok_or(bad);
        }
        Args::Chunk { len } => len,
        Args::Buffer { at } => usize::try_from(at.len).map_err(|_| bad)?,
    };
    let line: &mut [u8; INLINE_BYTES] = bytemuck::must_cast_mut(short);
    let room = if len <= INLINE_BYTES { line.get_mut(..len) } else { scratch.get_mut(..len) };
    let room = room.ok_or(bad)?;
    match args {
        Args::Buffer { at } => heap.ok_or(bad)?.read_bytes(at.off, room).map_err(|_| bad)?,
        _ => slots.read_request_chunk(slot, room).ok_or(bad)?,
    }
    Ok(len)
}

#[inline(never)]
pub(super) fn refuse<K, F: Order>(endpoint: &Endpoint<K, F>, found: Found, status: Status) {
    endpoint.responder.slot(found.slot).publish_reply(RepHdr::inline(status, 0).0, found.seq);
}
