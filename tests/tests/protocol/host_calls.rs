//! Tests of calls to the host: a device's poller, and the host's ends of its queues.

mod direct;
mod ends;
mod limits;

use hamr_comm::abi::ids::{Epoch, HandlerKey, NodeId};
use hamr_comm::abi::layout::{Layout, Placement, Plan};
use hamr_comm::abi::preamble::{feature, word};
use hamr_comm::abi::slot::{Ext, INLINE_WORDS, Place, RepHdr, ReqHdr, seq};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{KeptWord, Queue, Shared};
use hamr_comm::am::{Found, MAX_QUEUES, Poller, Requester, Responder, Round, SlotAccess, Slots, TaskSlot, Tasks};
use hamr_comm::fault::Trace;
use hamr_comm::handshake::{DeviceHandshake, DeviceProfile, HostHandshake, Offer};
use hamr_comm::migrate::MAX_MESSAGE;
use hamr_comm::registry::Table;
use hamr_comm::{Context, Entry, Fault, HOST, Handler, Host, Task, TaskCallError, Why, offload};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Tasks of the device.
const TASKS: u32 = 2;
/// Bytes of a chunk of the host queues.
const CHUNK: usize = 128;
const PLAN: Plan = Plan {
    streams: 2,
    ring: 4,
    tickets: 4,
    chunk: 256,
    table: 1024,
    log: 0,
    trace: 0,
    heap: 4096,
    tasks: TASKS,
    host_chunk: CHUNK as u32,
    host_table: 1024,
    verbs: 0,
    placement: Placement::Coherent,
    staging: 0,
    packed: false,
};

type Bytes = heapless::Vec<u8, 600>;
type Body = Rc<dyn Fn(&mut Task<'_>) -> Result<u64, Fault>>;

thread_local! {
    static BODIES: RefCell<Vec<Body>> = const { RefCell::new(Vec::new()) };
}

/// What a test gives it to do.
#[offload]
fn does(task: &mut Task, body: u32) -> Result<u64, Fault> {
    let body = BODIES.with_borrow(|bodies| bodies[body as usize].clone());
    body(task)
}

/// Sends `count` notes to the host; the number of those that it could send.
#[offload]
fn notes(cx: &mut Context, count: u32) -> u32 {
    (0..count).take_while(|i| cx.send(HOST, note::with(u64::from(*i))).is_ok()).count() as u32
}

#[offload]
fn plus(_: &mut Host, a: u64, b: u64) -> u64 {
    a + b
}

#[offload]
fn note(_: &mut Host, value: u64) {
    let _ = value;
}

#[offload]
fn echo(_: &mut Host, bytes: Bytes) -> Result<Bytes, u32> {
    Ok(bytes)
}

#[offload]
fn absent(_: &mut Host) {}

/// The host's `changed` has other types.
#[offload(name = "changed")]
fn changed(_: &mut Host, a: u64) -> u64 {
    a
}
#[offload(name = "changed")]
fn changed_there(_: &mut Host, a: u32) -> u32 {
    a
}

static DOES: Entry = Entry::of::<does>();
static NOTES: Entry = Entry::of::<notes>();
static HOSTS: [Entry; 4] =
    [Entry::of::<plus>(), Entry::of::<note>(), Entry::of::<echo>(), Entry::of::<changed_there>()];

/// The host's end of one host queue.
struct End {
    responder: Responder<Queue<Shared>>,
    word: KeptWord<Shared>,
}

/// A request that the host found.
#[derive(Clone, Debug)]
struct Request {
    found: Found,
    hdr: ReqHdr,
    ext: Option<Ext>,
    args: Vec<u8>,
}

impl Request {
    fn is<H: Handler>(&self) -> bool {
        let table = host_table();
        table.get(self.hdr.key().0.into()).is_some_and(|entry| entry.id == H::ID)
    }
}

fn host_table() -> Table {
    Table::of(HOSTS.iter().collect())
}

struct Bench {
    poller: Poller<'static, Shared>,
    stream: Requester<Queue<Shared>>,
    inline: Requester<Queue<Shared>>,
    ends: Vec<End>,
    now: u64,
    tickets: [u32; 4],
    notified: u32,
}

impl Bench {
    fn new() -> Self {
        Self::with(PLAN, feature::HOST_CALLS)
    }

    fn with(plan: Plan, host_calls: u32) -> Self {
        BODIES.take();
        let features = feature::TICKETS | feature::TASKS | feature::DEADLINES | host_calls;
        let (host, device) = hamr_tests::both_ends::both_ends(Layout::plan(&plan).expect("allowed").window_len());
        let offer = Offer { features, host_handlers: host_table(), ..Offer::new(plan, NodeId(1)) };
        let (handshake, layout) = HostHandshake::offer(&host, &offer, Epoch(3)).expect("long enough");
        let profile = DeviceProfile { tasks: 5, ..DeviceProfile::new("test", features, MAX_QUEUES as u32) };
        let table = Table::of(vec![&DOES, &NOTES]);
        let mut state = DeviceHandshake::Waiting;
        state.step(&device, table, &profile);
        handshake.ready(&host);
        state.step(&device, table, &profile);
        let DeviceHandshake::Serving(accepted) = state else { panic!("{state:?}") };
        let poller = Poller::new(device, &accepted, table, vec![0; MAX_MESSAGE].leak());
        let Ok(mut poller) = poller else { panic!("the layout is the host's") };
        let slots: Vec<_> = (0..5).map(|_| TaskSlot::new(64 << 10)).collect();
        poller.use_tasks(Tasks::new(slots.leak()));
        host.word(word::OPEN_QUEUES).expect("inside").store(layout.queues());
        let stream = |queue| {
            let descriptor = layout.queue(&host, queue).expect("own descriptor");
            Requester::new(host.queue(&descriptor).expect("inside"), Epoch(3))
        };
        let tasks = layout.planned_tasks(&plan).expect("planned");
        let end = |queue| {
            let responder = Responder::new(host.queue(&tasks.queue(queue)).expect("inside"), Epoch(3));
            End { responder, word: host.keep_word(tasks.wait_word(queue)).expect("inside") }
        };
        let ends = (0..tasks.queues()).map(end).collect();
        let (stream, inline) = (stream(1), stream(2));
        Self { poller, stream, inline, ends, now: 0, tickets: [0; 4], notified: 0 }
    }

    /// Starts a task with this body, which waits; the place that the device says it has.
    fn start(&mut self, body: impl Fn(&mut Task<'_>) -> Result<u64, Fault> + 'static) -> (RepHdr, u32, usize) {
        self.start_with(body, 0, 0)
    }

    fn start_with(
        &mut self,
        body: impl Fn(&mut Task<'_>) -> Result<u64, Fault> + 'static,
        deadline_us: u32,
        chain: u16,
    ) -> (RepHdr, u32, usize) {
        let index = BODIES.with_borrow_mut(|bodies| {
            bodies.push(Rc::new(body));
            bodies.len() as u32 - 1
        });
        let free = |t: &usize| {
            self.stream.slots().ticket_slot(*t as u32).is_some_and(|s| s.rep_seq() & 0xFF_FFFF == self.tickets[*t])
        };
        let ticket = (0..4).find(free).expect("a free ticket");
        let count = self.tickets[ticket] + 1;
        let ticket_seq = seq(Epoch(3).tag(), count, 24);
        let ext = [u64::from(ticket_seq) << 32 | u64::from(deadline_us), u64::from(chain) << 16 | ticket as u64];
        let hdr = ReqHdr::inline(HandlerKey(0), 20).with(ReqHdr::EXT | ReqHdr::TICKET | ReqHdr::UNORDERED);
        self.stream.slots().ticket_slot(ticket as u32).expect("there").set_req_hdr(hdr.0);
        let x = self.stream.submit_ring(hdr, &[ext[0], ext[1], index.into()]);
        // In the first one the device may notify the host before it runs the task.
        let reply = (0..2).find_map(|_| {
            self.round();
            self.stream.ring_reply(x)
        });
        let reply = reply.expect("taken behind the first slice, or refused at once");
        let mut words = [0; INLINE_WORDS];
        self.stream.slots().ring(x as u32).read_reply(&mut words);
        self.stream.release_oldest();
        if reply.has(RepHdr::TAKEN) {
            self.tickets[ticket] = count;
        }
        (reply, words[0] as u32, ticket)
    }

    /// The outcome of the task with this ticket.
    fn outcome(&self, ticket: usize) -> Option<(Status, u64, String)> {
        let slot = self.stream.slots().ticket_slot(ticket as u32).expect("there");
        let hdr = RepHdr(slot.rep_hdr_of(seq(Epoch(3).tag(), self.tickets[ticket], 24))?);
        let mut words = [0; INLINE_WORDS];
        slot.read_reply(&mut words);
        let mut chunk = vec![0; 256];
        let bytes = match hdr.place() {
            Place::Chunk => {
                let number = 1 + self.stream.slots().ring_len() + ticket as u32;
                let to = chunk.get_mut(..words[1] as usize).expect("a chunk");
                self.stream.slots().read_reply_chunk(number, to).expect("in the chunk");
                &*to
            }
            _ => &words.map(u64::to_le_bytes).concat()[..hdr.len()],
        };
        let text = bytes.get(24..).map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default();
        Some((hdr.status(), words[0], text))
    }

    fn round(&mut self) -> Round {
        self.now += 1;
        let now = self.now;
        let round = match self.poller.serve() {
            Round::TasksDue(served) => self.poller.run_tasks(served, &mut || now),
            round => round,
        };
        if let Round::NeedsNotify(_) = round {
            self.notified += 1;
        }
        round
    }

    /// Enough rounds for the device to look at everything.
    fn rounds(&mut self) {
        for _ in 0..130 {
            self.round();
        }
    }

    /// The next request in a host queue.
    fn request(&mut self, queue: usize) -> Option<Request> {
        let end = &mut self.ends[queue];
        let found = end.responder.next(true)?;
        let slot = end.responder.slot(found.slot);
        let hdr = ReqHdr(slot.req_hdr());
        let mut words = [0u64; INLINE_WORDS];
        slot.read_request(&mut words);
        let all = words.map(u64::to_le_bytes).concat();
        let mut bytes = &all[..hdr.len()];
        let mut ext = None;
        if hdr.has(ReqHdr::EXT) {
            ext = Some(Ext { deadline_us: words[0] as u32, chain: (words[1] >> 16) as u16, ..Ext::default() });
            bytes = &bytes[16..];
        }
        let args = match hdr.place() {
            Place::Inline => bytes.to_vec(),
            Place::Chunk => {
                let described = u64::from_le_bytes(bytes[8..].try_into().expect("a descriptor"));
                let mut args = vec![0; described as usize];
                end.responder.slots().read_request_chunk(found.slot, &mut args).expect("in the chunk");
                args
            }
            place => panic!("{place:?} in a call to the host"),
        };
        Some(Request { found, hdr, ext, args })
    }

    fn expect(&mut self, queue: usize) -> Request {
        for _ in 0..130 {
            if let Some(request) = self.request(queue) {
                return request;
            }
            self.round();
        }
        panic!("no request in queue {queue}");
    }

    fn reply(&mut self, queue: usize, request: &Request, hdr: RepHdr, words: &[u64]) {
        let slot = self.ends[queue].responder.slot(request.found.slot);
        slot.write_reply(words);
        slot.publish_reply(hdr.0, request.found.seq);
    }

    fn reply_long(&mut self, queue: usize, request: &Request, status: Status, bytes: &[u8]) {
        let slots = self.ends[queue].responder.slots();
        slots.write_reply_chunk(request.found.slot, bytes).expect("in the chunk");
        self.reply(queue, request, RepHdr::inline(status, 16).in_chunk(), &[0, bytes.len() as u64]);
    }

    fn value(&mut self, queue: usize, request: &Request, value: u64) {
        self.reply(queue, request, RepHdr::inline(Status::OK, 8), &[value]);
    }

    fn is_cancelled(&self, queue: usize, request: &Request) -> bool {
        ReqHdr(self.ends[queue].responder.slot(request.found.slot).req_hdr()).has(ReqHdr::CANCEL)
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

#[test]
fn a_task_calls_the_host_and_others_are_served_meanwhile() {
    let mut bench = Bench::new();
    let (taken, place, ticket) = bench.start(|task| Ok(task.sync(HOST, plus::with(20, 22))?));
    assert_eq!((taken, place), (RepHdr::taken(4), 0));
    let request = bench.expect(1);
    assert!(request.is::<plus>() && request.ext.is_none());
    assert_eq!(request.args, [20u64, 22].map(u64::to_le_bytes).concat());
    bench.rounds();
    assert_eq!(bench.outcome(ticket), None, "it waits");
    // Another task in the other place, and an inline call.
    let (_, place, other) = bench.start(|task| Ok(task.sync(HOST, plus::with(1, 2))? + 1));
    assert_eq!(place, 1);
    let second = bench.expect(2);
    bench.value(2, &second, 3);
    bench.rounds();
    assert_eq!(bench.outcome(other).map(|o| (o.0, o.1)), Some((Status::OK, 4)));
    bench.inline.submit_hot(ReqHdr::inline(HandlerKey(1), 4), &[0]);
    bench.round();
    assert!(bench.inline.hot_reply().is_some());
    bench.value(1, &request, 42);
    // The reply is found in the next round, not at the next look at everything.
    bench.round();
    bench.round();
    assert_eq!(bench.outcome(ticket).map(|o| (o.0, o.1)), Some((Status::OK, 42)));
}

#[test]
fn a_chain_of_calls_wraps_the_ring() {
    let mut bench = Bench::new();
    let (.., ticket) = bench.start(|task| {
        let mut sum = 0;
        for i in 0..23 {
            sum = task.sync(HOST, plus::with(sum, i))?;
        }
        Ok(sum)
    });
    for _ in 0..23 {
        let request = bench.expect(1);
        let args: &[u64] = &words(&request.args);
        bench.value(1, &request, args[0] + args[1]);
    }
    bench.rounds();
    assert_eq!(bench.outcome(ticket).map(|o| (o.0, o.1)), Some((Status::OK, 253)));
}

#[test]
fn long_values_travel_in_chunks_and_longer_ones_are_refused() {
    let mut bench = Bench::new();
    let (.., ticket) = bench.start(|task| {
        for len in [0, 1, 44, 45, 100, CHUNK - 4] {
            let bytes = Bytes::from_iter((0..len).map(|i| i as u8));
            assert_eq!(task.sync(HOST, echo::with(bytes.clone())).expect("echoed"), bytes, "{len}");
        }
        let long = task.sync(HOST, echo::with(Bytes::from_iter([0; CHUNK - 3]))).expect_err("too long");
        assert_eq!(long.why(), Some(Why::TooLong { wanted: (CHUNK + 1) as u32, max: CHUNK as u32 }));
        assert!(
            long.to_string().contains("129 bytes, the staging chunk has 128: protocol::host_calls::echo"),
            "{long}"
        );
        let long = task.sync(HOST, echo::with(Bytes::new())).expect_err("its result is");
        assert_eq!(long.why(), Some(Why::TooLong { wanted: 999, max: CHUNK as u32 }));
        Ok(7)
    });
    for len in [0, 1, 44, 45, 100, CHUNK - 4] {
        let request = bench.expect(1);
        assert_eq!(request.args.len(), 4 + len);
        assert_eq!(request.hdr.place() == Place::Chunk, len > 44);
        if len <= 44 {
            let words = words(&request.args);
            bench.reply(1, &request, RepHdr::inline(Status::OK, 4 + len), &words);
        } else {
            bench.reply_long(1, &request, Status::OK, &request.args);
        }
    }
    let request = bench.expect(1);
    bench.reply(1, &request, RepHdr::inline(Status::RESULT_TOO_LONG, 8), &[999]);
    bench.rounds();
    assert_eq!(bench.outcome(ticket).map(|o| (o.0, o.1)), Some((Status::OK, 7)));
}

#[test]
fn errors_have_names() {
    let mut bench = Bench::new();
    let (.., ticket) = bench.start(|task| {
        assert_eq!(task.sync(HOST, absent::with()).expect_err("absent").why(), Some(Why::NotThere));
        let other = task.sync(HOST, changed::with(1)).expect_err("other types");
        assert_eq!(other.why(), Some(Why::OtherTypes));
        assert_eq!(
            Fault::from(other).to_string(),
            "a call to the host failed: the handler has other types there: changed"
        );
        assert_eq!(task.sync(HOST, echo::with(Bytes::new())).expect_err("its own"), TaskCallError::Handler(5));
        let fault = task.sync(HOST, plus::with(1, 1)).expect_err("a fault");
        assert_eq!(fault.why(), Some(Why::Fault(Status::FAILED)));
        assert!(matches!(&fault, TaskCallError::Failed(f) if f.text == "protocol::host_calls::plus: no"), "{fault:?}");
        let panic = task.sync(HOST, plus::with(1, 1)).expect_err("a panic");
        assert_eq!(panic.why(), Some(Why::Fault(Status::PANIC)));
        assert!(matches!(&panic, TaskCallError::Failed(f) if f.text == "protocol::host_calls::plus: oh"), "{panic:?}");
        for status in [Status::BAD_ARGUMENTS, Status::CANCELLED, Status(63)] {
            assert_eq!(task.sync(HOST, plus::with(1, 1)).expect_err("refused").why(), Some(Why::Refused(status)));
        }
        task.sync(HOST, plus::with(1, 1))?;
        Ok(0)
    });
    let request = bench.expect(1);
    bench.reply(1, &request, RepHdr::inline(Status::HANDLER_ERROR, 4), &[5]);
    let request = bench.expect(1);
    let no = u64::from_le_bytes(*b"no\0\0\0\0\0\0");
    bench.reply(1, &request, RepHdr::inline(Status::FAILED, 26).with(RepHdr::FAULT), &[0, 0, 0, no]);
    let request = bench.expect(1);
    let oh = u64::from_le_bytes(*b"\x02\0\0\0oh\0\0");
    bench.reply(1, &request, RepHdr::inline(Status::PANIC, 30).with(RepHdr::FAULT), &[0, 0, 0, oh]);
    for status in [Status::BAD_ARGUMENTS, Status::CANCELLED, Status(63)] {
        let request = bench.expect(1);
        bench.reply(1, &request, RepHdr::inline(status, 0), &[]);
    }
    let request = bench.expect(1);
    bench.reply(1, &request, RepHdr::inline(Status::FAILED, 26).with(RepHdr::FAULT), &[0, 0, 0, no]);
    bench.rounds();
    let (status, target, text) = bench.outcome(ticket).expect("ended");
    assert_eq!((status, target), (Status::REMOTE, 0));
    assert!(text.ends_with("protocol::host_calls::plus: no"), "{text}");
}

#[test]
fn pipelined_calls_end_in_any_order_and_dropped_ones_are_cancelled() {
    let mut bench = Bench::new();
    let (.., ticket) = bench.start(|task| {
        let mut calls: Vec<_> =
            (0..8).map(|i| task.offload(HOST, plus::with(i, 100)).expect("room for eight")).collect();
        let full = task.offload(HOST, plus::with(9, 9)).map(|_| ()).expect_err("no room for a ninth");
        assert_eq!(full.why(), Some(Why::Full));
        assert_eq!(task.sync(HOST, plus::with(9, 9)).expect_err("nor here").why(), Some(Why::Full));
        while !task.is_done(&calls[2]) {
            task.yield_now()?;
        }
        assert!(!task.is_done(&calls[3]));
        let third = task.wait_for(calls.remove(2)).expect("answered");
        let dropped = calls.remove(1);
        task.cancel(&calls[0]);
        drop(dropped);
        let first = task.wait_for(calls.remove(0)).expect("answered");
        let mut rest = 0;
        for call in calls {
            rest += task.wait_for(call).expect("answered");
        }
        let again = task.sync(HOST, plus::with(1, 1)).expect("there is room again");
        Ok(first * 1_000_000 + third * 1000 + rest + again)
    });
    let requests: Vec<_> = (0..8).map(|_| bench.expect(1)).collect();
    bench.rounds();
    assert!(bench.request(1).is_none(), "what was refused was not sent");
    for i in [0, 1, 3] {
        assert!(!bench.is_cancelled(1, &requests[i]));
    }
    // Replies come in the order of the ring from a correct host; a device takes them as they come.
    bench.value(1, &requests[2], 3);
    bench.rounds();
    assert!(bench.is_cancelled(1, &requests[0]) && bench.is_cancelled(1, &requests[1]));
    assert!(!bench.is_cancelled(1, &requests[3]));
    for (i, value) in [(0, 1), (1, 2), (3, 4), (4, 0), (5, 0), (6, 0), (7, 0)] {
        bench.value(1, &requests[i], value);
    }
    let request = bench.expect(1);
    bench.value(1, &request, 5);
    bench.rounds();
    assert_eq!(bench.outcome(ticket).map(|o| (o.0, o.1)), Some((Status::OK, 1_003_009)));
}

#[test]
fn messages_without_a_result_leave_when_the_handler_returns() {
    let mut bench = Bench::new();
    // More than the ring has slots: the rest follows when the host has replied.
    bench.inline.submit_hot(ReqHdr::inline(HandlerKey(1), 4), &[100]);
    bench.round();
    let mut words = [0];
    assert_eq!(bench.inline.hot_reply(), Some(RepHdr::inline(Status::OK, 4)));
    bench.inline.slots().hot().read_reply(&mut words);
    assert_eq!(words[0] as u32, 100);
    for i in 0..100u64 {
        let request = bench.expect(0);
        assert!(request.is::<note>() && request.hdr.has(ReqHdr::ONE_WAY), "{request:?}");
        assert_eq!(request.args, i.to_le_bytes());
        bench.reply(0, &request, RepHdr::inline(Status::EXECUTED, 0), &[]);
    }
    bench.rounds();
    assert!(bench.request(0).is_none());
    // Until the device has no room: it says so, and sends what it took.
    bench.inline.release_hot();
    bench.inline.submit_hot(ReqHdr::inline(HandlerKey(1), 4), &[1000]);
    bench.round();
    bench.inline.slots().hot().read_reply(&mut words);
    let sent = words[0] as u32;
    assert!((100..1000).contains(&sent), "{sent}");
    for _ in 0..sent {
        let request = bench.expect(0);
        bench.reply(0, &request, RepHdr::inline(Status::EXECUTED, 0), &[]);
    }
    // A task's leave when it waits.
    let (.., ticket) = bench.start(|task| {
        task.send(HOST, note::with(7)).expect("room");
        assert_eq!(task.send(HOST, absent::with()).expect_err("absent").why(), Some(Why::NotThere));
        let long = task.send(HOST, echo::with(Bytes::from_iter([0; CHUNK]))).expect_err("too long");
        assert_eq!(long.why(), Some(Why::TooLong { wanted: (CHUNK + 4) as u32, max: CHUNK as u32 }));
        task.wait_until(|| false)?;
        Ok(0)
    });
    let request = bench.expect(0);
    assert!(request.is::<note>() && request.args == 7u64.to_le_bytes());
    assert_eq!(bench.outcome(ticket), None);
}
