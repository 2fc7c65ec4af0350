//! A device under a hostile host. For any bytes in the window there is no panic, no hang, a reply
//! to every request that the device finds, no write outside of the device's own words, and
//! well-formed calls still work (abi §5).
//!
//! The device is the real one: `Device` over a board whose window is private memory. The host is a
//! `Requester` for the published words, so that every bad message is found, and random bytes for
//! the rest.

mod handoff;
mod seeds;
mod two_lines;

use hamr_comm::abi::buffer::{BufferParts, WireBuffer};
use hamr_comm::abi::ids::{Epoch, HandlerKey, NodeId};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::{DEVICE_WORDS, HostState, MAGIC, SECTIONS, feature, word};
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::{INLINE_BYTES, Place, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::table::record_flag;
use hamr_comm::abi::window::{DeviceWindow, Queue, Shared, Window};
use hamr_comm::am::TaskSlot;
use hamr_comm::am::{ControlHandoff, Requester, SlotAccess, Slots};
use hamr_comm::handshake::{HostHandshake, Offer, OfferState};
use hamr_comm::migrate::MAX_MESSAGE;
use hamr_comm::registry::Table;
use hamr_comm::{BufferPtr, Context, Entry, Fault, Handler, Task};
use hamr_device_fw::{Board, Device, Progress};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

// --- handlers that look at what they are given ---

macro_rules! handlers {
    ($($type:ident $entry:ident $kind:ident $flags:expr, fn $name:ident($cx:ident, $args:pat): $in:ty => $out:ty $body:block)*) => {
        $(
            struct $type;
            impl Handler for $type {
                const NAME: &'static str = concat!("hostile::", stringify!($name));
                const BODY: u64 = 0;
                const FLAGS: u32 = $flags;
                type Kind = $kind<'static>;
                type Args = $in;
                type Output = $out;
                fn run($cx: &mut $kind<'_>, $args: $in) -> $out $body
            }
            static $entry: Entry = Entry::of::<$type>();
        )*
        fn table() -> Table {
            static BUILT_IN: Entry = Entry::of::<hamr_comm::builtin::ping>();
            Table::of(vec![&BUILT_IN, $(&$entry),*])
        }
    };
}

const TASK: u32 = record_flag::HAS_BODY | record_flag::TASK;

type Text = heapless::String<64>;
type Many = heapless::Vec<u32, 2000>;

handlers! {
    Absent ABSENT Context 0, fn absent(_cx, _): (u64,) => u64 { hamr_comm::handler::no_body() }
    Axpy AXPY Context record_flag::HAS_BODY,
        fn axpy(cx, (a, x, y)): (f64, BufferPtr<f64>, BufferPtr<f64>) => Result<(), Fault> {
            let (x, y) = cx.views((x.read(), y.write()))?;
            for (y, x) in y.iter_mut().zip(x) {
                *y += a * x;
            }
            Ok(())
        }
    Echo ECHO Context record_flag::HAS_BODY, fn echo(_cx, (many,)): (Many,) => Many { many }
    Pieces PIECES Context record_flag::HAS_BODY,
        fn pieces(_cx, (a, b, c)): (Option<char>, bool, Text) => Result<u8, (Text, bool)> {
            if a.is_some() { Ok(u8::from(b)) } else { Err((c, b)) }
        }
    Later LATER Task TASK, fn later(_task, (many,)): (Many,) => Many { many }
    Token TOKEN Task TASK, fn token(_task, (token,)): (u64,) => u64 { token }
    Ping PING Context record_flag::HAS_BODY, fn ping(_cx, (token,)): (u64,) => u64 { token }
    Poll POLL Context record_flag::HAS_BODY, fn poll(cx, (words,)): (BufferPtr<u32>,) => Result<u32, Fault> {
        let stop = cx.cancelled();
        let sum = cx.words(words).map(|w| (0..w.len().min(64)).filter_map(|i| w.get(i)).map(|w| w.load() & 1).sum())?;
        if stop { Err(Fault::msg("cancelled")) } else { Ok(sum) }
    }
    Struck STRUCK Task TASK, fn struck(_task, _): () => u64 { handoff::tick() }
    Wide WIDE Context record_flag::HAS_BODY, fn wide(_cx, _): () => [u64; 40] { [0x5A; 40] }
}

// --- the device and its host ---

/// Polls after which every stream was polled: a device may stay with the last served stream for 64
/// calls, and poll it 16 more times (abi §5, rule 9).
const POLLS_A_ROUND: usize = 64 + 16 + 1;
const PLAN: Plan = Plan {
    streams: 3,
    ring: 8,
    tickets: 4,
    chunk: 256,
    table: 1024,
    log: 256,
    trace: 256,
    heap: 16 << 10,
    ..Plan::NO_TASKS
};
const NODE: NodeId = NodeId(1);
const RING: u32 = PLAN.ring;

struct Bare(Option<DeviceWindow<Shared>>);

impl Board for Bare {
    type Keep = Shared;
    type Order = Coherent;
    fn name(&self) -> &'static str {
        "hostile"
    }
    fn window(&mut self) -> Option<DeviceWindow<Shared>> {
        self.0.take()
    }
    fn control_handoff(&self) -> Option<&'static ControlHandoff<Shared>> {
        Some(handoff::of_this_thread())
    }
    fn notify(&mut self) {
        handoff::count_notification();
    }
    fn idle(&mut self, _rounds: u32) {}
}

struct Bench {
    window: Window<Shared>,
    device: Device<'static, Bare>,
    epoch: Epoch,
    layout: Layout,
    streams: Vec<Requester<Queue<Shared>>>,
    features: u32,
}

/// A place for one task: others wait in the backlog.
fn slots() -> &'static mut [TaskSlot] {
    vec![TaskSlot::new(256 << 10)].leak()
}

impl Bench {
    fn new() -> Self {
        Self::with(table())
    }

    fn with(table: Table) -> Self {
        let layout = Layout::plan(&PLAN).expect("the plan is allowed");
        let (window, device) = hamr_tests::both_ends::both_ends(layout.window_len());
        let scratch = vec![0; MAX_MESSAGE].leak();
        let device = Device::new(Bare(Some(device)), table, scratch)
            .expect("the board has a window")
            .with_tasks(slots(), 256 << 10);
        let features = feature::TICKETS | feature::DEADLINES | feature::TWO_LINES;
        let mut bench = Self { window, device, epoch: Epoch(0x4000_0000), layout, streams: Vec::new(), features };
        bench.attach();
        bench
    }

    fn say(&self, off: u64, value: u32) {
        self.window.word(off).expect("in the preamble").publish(value);
    }

    fn offer(&mut self) -> HostHandshake {
        self.epoch = self.epoch.next();
        let offer = Offer { features: self.features, ..Offer::new(PLAN, NODE) };
        HostHandshake::offer(&self.window, &offer, self.epoch).expect("long enough").0
    }

    /// Begins a new epoch after any bytes in the window; from here on the host is correct.
    fn attach(&mut self) {
        let offered = self.offer();
        let mut ready = false;
        // A serving device reads the epoch every 64 rounds; the rest are the steps of the
        // handshake.
        for _ in 0..(64 + 8) * POLLS_A_ROUND {
            let _ = self.device.poll();
            match offered.step(&self.window) {
                OfferState::Accepted(_) if !ready => {
                    offered.ready(&self.window);
                    ready = true;
                }
                OfferState::Serving => {
                    self.say(word::OPEN_QUEUES, self.layout.queues());
                    let open = |q| {
                        let descriptor = self.layout.queue(&self.window, q).expect("own descriptor");
                        let mut end = Requester::new(self.window.queue(&descriptor).expect("own queue"), self.epoch);
                        // Also the control stream's, and without the feature: the device refuses.
                        end.use_two_lines(true);
                        end
                    };
                    self.streams = (0..self.layout.queues()).map(open).collect();
                    return;
                }
                OfferState::Refused(why) => panic!("a good offer was refused: {why}"),
                OfferState::Corrupt(state) => panic!("the device published {state}"),
                OfferState::Crashed => panic!("no device here crashes"),
                OfferState::Accepted(_) | OfferState::Waiting => {}
            }
        }
        panic!("the device does not come back: {:?}", offered.step(&self.window));
    }

    /// A short call on every stream, by the hot slot and by the ring.
    fn still_serves(&mut self) {
        let ping = key(Ping::NAME);
        for q in 0..self.streams.len() {
            let token = 0x1122_3344_5566_0000 + q as u64;
            let stream = &mut self.streams[q];
            assert!(stream.hot_is_open() && stream.ring_has_room(), "stream {q} has unanswered messages");
            stream.submit_hot(ReqHdr::inline(ping, 8), &[token]);
            let x = stream.submit_ring(ReqHdr::inline(ping, 8), &[token + 1]);
            for _ in 0..POLLS_A_ROUND {
                let _ = self.device.poll();
            }
            let stream = &mut self.streams[q];
            for (reply, line, token) in [
                (stream.hot_reply(), stream.slots().hot(), token),
                (stream.ring_reply(x), stream.slots().ring(x as u32), token + 1),
            ] {
                assert_eq!(reply.map(|a| (a.status(), a.len())), Some((Status::OK, 8)), "stream {q}");
                let mut words = [0];
                line.read_reply(&mut words);
                assert_eq!(words, [token], "stream {q}");
            }
            stream.release_hot();
            stream.release_oldest();
        }
    }

    /// The memory that a serving device must not write.
    fn not_the_devices(&self) -> Vec<(u64, Vec<u8>)> {
        let mut parts = vec![(0, DEVICE_WORDS), (SECTIONS, 0x200)];
        for kind in [SectionKind::QUEUES, SectionKind::TABLE, SectionKind::LOG, SectionKind::TRACE, SectionKind::CRASH]
        {
            let section = self.layout.section(kind).expect("planned");
            parts.push((section.off, section.len));
        }
        for q in 0..self.layout.queues() {
            let d = self.layout.queue(&self.window, q).expect("own descriptor");
            parts.extend((0..d.slots()).map(|s| (d.chunks + u64::from(s) * d.chunk_pair(), d.req_chunk.into())));
        }
        let read = |(off, len)| {
            let mut bytes = vec![0; len as usize];
            self.window.read_bytes(off, &mut bytes).expect("inside the window");
            (off, bytes)
        };
        parts.into_iter().map(read).collect()
    }
}

fn key(name: &str) -> HandlerKey {
    let index = table().iter().position(|e| e.name == name).expect("in the table");
    HandlerKey::of_index(index as u16)
}

/// Fails, instead of hanging, when `f` takes minutes; it takes seconds on a quiet machine.
fn in_time(f: impl FnOnce() + Send + 'static) {
    let (done, wait) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        f();
        let _ = done.send(());
    });
    if let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = wait.recv_timeout(Duration::from_secs(200)) {
        panic!("the device hangs");
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

// --- bad messages ---

#[derive(Clone, Copy, Debug)]
struct Message {
    stream: u32,
    hot: bool,
    hdr: u32,
    words: [u64; 6],
    /// The ticket slot's header, when the request names a ticket.
    ticket_hdr: u32,
}

/// Submits the messages that fit into the slots, lets the device run, and checks every reply.
fn send(bench: &mut Bench, messages: &[Message]) {
    let before = bench.not_the_devices();
    let mut sent = Vec::new();
    for m in messages {
        let q = (m.stream % bench.layout.queues()) as usize;
        let stream = &mut bench.streams[q];
        let hdr = ReqHdr(m.hdr);
        if hdr.has(ReqHdr::TICKET)
            && let Some(line) = stream.slots().ticket_slot(u32::from(m.words[1] as u16))
        {
            line.set_req_hdr(m.ticket_hdr);
        }
        if m.hot && stream.hot_is_open() {
            // The second line of a hot slot has other random words.
            let second = m.words.map(|word| word.rotate_left(7));
            stream.submit_hot(hdr, &[m.words, second].concat());
            sent.push((q, None, *m));
        } else if !m.hot && stream.ring_has_room() {
            let x = stream.submit_ring(hdr, &m.words);
            sent.push((q, Some(x), *m));
        }
    }
    // An ordered TICKET call keeps its stream until it has run, one per round.
    for _ in 0..(2 * sent.len() + 2) * POLLS_A_ROUND {
        assert!(!matches!(bench.device.poll(), Progress::NoHost | Progress::Refused(_)), "the device left");
    }
    let mut tickets: BTreeMap<(usize, u16), Vec<u32>> = BTreeMap::new();
    for (q, x, m) in sent {
        let stream = &mut bench.streams[q];
        let (reply, line) = match x {
            None => (stream.hot_reply(), stream.slots().hot()),
            Some(x) => (stream.ring_reply(x), stream.slots().ring(x as u32)),
        };
        let reply = reply.unwrap_or_else(|| panic!("no reply: stream {q}, {:?}, {m:x?}", ReqHdr(m.hdr)));
        let mut words = [0; 6];
        line.read_reply(&mut words);
        check_reply(reply, &words, &m);
        if reply.has(RepHdr::TAKEN) {
            tickets.entry((q, m.words[1] as u16)).or_default().push((m.words[0] >> 32) as u32);
        }
        match x {
            None => stream.release_hot(),
            Some(_) => stream.release_oldest(),
        }
    }
    for ((q, ticket), seqs) in tickets {
        let line = bench.streams[q].slots().ticket_slot(ticket.into()).expect("taken, so the ticket exists");
        assert!(seqs.contains(&line.rep_seq()), "ticket {ticket} of stream {q} was taken and never answered");
        let reply = RepHdr(line.rep_hdr());
        assert!(reply.len() <= INLINE_BYTES && reply.status().name() != "UNKNOWN", "{reply:?}");
    }
    assert!(bench.not_the_devices() == before, "the device wrote where it must not");
}

/// The reply to any request is one that abi §4.3 allows.
fn check_reply(reply: RepHdr, words: &[u64; 6], m: &Message) {
    let what = || format!("{reply:?} to {:?}, {:x?}", ReqHdr(m.hdr), m.words);
    assert!(reply.len() <= INLINE_BYTES && reply.0 >> 27 == 0, "{}", what());
    assert_ne!(reply.status().name(), "UNKNOWN", "{}", what());
    assert_eq!(reply.has(RepHdr::FAULT), reply.status().0 >= Status::FIRST_FAULT, "{}", what());
    assert_eq!(reply.has(RepHdr::TAKEN), reply.status() == Status::TAKEN, "{}", what());
    match reply.place() {
        Place::Inline => {}
        Place::Chunk => assert!(reply.len() == 16 && words[0] == 0 && words[1] <= PLAN.chunk.into(), "{}", what()),
        Place::Buffer => {
            assert!(ReqHdr(m.hdr).has(ReqHdr::REPLY_BUF) && reply.len() == 16, "{}", what());
            assert!(words[0].saturating_add(words[1]) <= PLAN.heap, "{}", what());
        }
        Place::TwoLines => panic!("{}", what()),
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => any::<u64>(),
        3 => 0..300u64,
        2 => 0..40_000u64,
        1 => (0..64u32).prop_map(|bit| 1 << bit),
        1 => (0..200u64).prop_map(|n| u64::MAX - n),
    ]
}

/// A buffer of this node with any range, or one of another node.
fn buffer() -> impl Strategy<Value = [u64; 2]> {
    (number(), number(), any::<(u32, u16)>(), prop_oneof![4 => Just(NODE.0), 1 => 0..0xFFFu16]).prop_map(
        |(off, len, (index, generation), node)| {
            WireBuffer::pack(BufferParts { off, index, len, generation, node: NodeId(node) }).words()
        },
    )
}

fn payload() -> impl Strategy<Value = [u64; 6]> {
    prop_oneof![
        4 => prop::array::uniform6(number()),
        // EXT with a plausible ticket, then descriptors.
        4 => (any::<(u32, u32, u32)>(), 0..6u64, prop::array::uniform4(number())).prop_map(
            |((deadline, seq, trace), ticket, [a, b, c, d])| {
                let seq = u64::from(seq | 1) << 32;
                [seq | u64::from(deadline), u64::from(trace) << 32 | ticket, a, b, c, d]
            }
        ),
        2 => (number(), buffer(), buffer()).prop_map(|(a, [b, c], [d, e])| [a, b, c, d, e, 0]),
    ]
}

fn header() -> impl Strategy<Value = u32> {
    let handlers = table().len() as u32;
    let key = prop_oneof![6 => 0..handlers, 1 => handlers..0x1_0000];
    let len = prop_oneof![3 => 0..64u32, 2 => Just(16u32), 2 => Just(32u32), 1 => Just(48u32), 1 => Just(40u32)];
    let flags = prop_oneof![
        2 => Just(0),
        2 => Just(ReqHdr::EXT),
        2 => Just(ReqHdr::EXT | ReqHdr::TICKET),
        2 => Just(ReqHdr::EXT | ReqHdr::TICKET | ReqHdr::UNORDERED),
        3 => (0..256u32).prop_map(|f| f << 24),
    ];
    (key, len, 0..4u32, flags).prop_map(|(key, len, place, flags)| key | len << 16 | place << 22 | flags)
}

fn message() -> impl Strategy<Value = Message> {
    (0..4u32, any::<bool>(), header(), payload(), prop_oneof![Just(0), any::<u32>()])
        .prop_map(|(stream, hot, hdr, words, ticket_hdr)| Message { stream, hot, hdr, words, ticket_hdr })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_message_is_answered(batches in prop::collection::vec(prop::collection::vec(message(), 1..40), 1..4)) {
        let mut bench = Bench::new();
        for batch in &batches {
            send(&mut bench, batch);
            bench.still_serves();
        }
    }

    #[test]
    fn any_bytes_in_the_head_of_a_window_are_refused_or_served(
        pokes in prop::collection::vec((0..0x800u64, number()), 1..12),
        open in any::<u32>(),
    ) {
        let mut bench = Bench::new();
        bench.offer();
        for (off, value) in pokes {
            // The head and the descriptors after it, 8 bytes at a time.
            bench.window.write_bytes(off, &value.to_le_bytes()).expect("inside the window");
        }
        // The offer itself stays valid, so that the device reads the rest.
        bench.say(0, MAGIC);
        bench.say(word::HOST_STATE, HostState::OFFERED.0);
        for _ in 0..70 {
            let _ = bench.device.poll();
        }
        bench.say(word::HOST_STATE, HostState::READY.0);
        bench.say(word::OPEN_QUEUES, open);
        for _ in 0..70 {
            let _ = bench.device.poll();
        }
        bench.attach();
        bench.still_serves();
    }
}
