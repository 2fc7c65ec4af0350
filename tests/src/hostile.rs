//! A device under a hostile host, in one thread: what tests and fuzzing of it share.
//!
//! The device is the real one: `Device` over a board whose window is private memory. The host is a
//! `Requester` for the published words, so that every bad message is found, and random bytes for
//! the rest.

use hamr_comm::abi::ids::{Epoch, HandlerKey, NodeId};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::{DEVICE_WORDS, SECTIONS, feature, word};
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::{INLINE_BYTES, Place, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::table::record_flag;
use hamr_comm::abi::window::{DeviceWindow, Queue, Shared, Window};
use hamr_comm::am::{ControlHandoff, LoanStatus, Requester, SlotAccess, Slots, TaskSlot};
use hamr_comm::handshake::{HostHandshake, Offer, OfferState};
use hamr_comm::migrate::MAX_MESSAGE;
use hamr_comm::registry::Table;
use hamr_comm::{BufferPtr, Context, Entry, Fault, Handler, Task};
use hamr_device_fw::{Board, Device, Progress};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

// --- handlers that look at what they are given ---

macro_rules! handlers {
    ($($type:ident $entry:ident $kind:ident $flags:expr, fn $name:ident($cx:ident, $args:pat): $in:ty => $out:ty $body:block)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[derive(Debug)]
            pub struct $type;
            impl Handler for $type {
                const NAME: &'static str = concat!("hostile::", stringify!($name));
                const BODY: u64 = 0;
                const FLAGS: u32 = $flags;
                type Kind = $kind<'static>;
                type Args = $in;
                type Output = $out;
                fn run($cx: &mut $kind<'_>, $args: $in) -> $out $body
            }
            #[doc = concat!("Of [`", stringify!($type), "`].")]
            pub static $entry: Entry = Entry::of::<$type>();
        )*
        /// All of them, and the built-in echo.
        pub fn table() -> Table {
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
    Struck STRUCK Task TASK, fn struck(_task, _): () => u64 { tick() }
    Wide WIDE Context record_flag::HAS_BODY, fn wide(_cx, _): () => [u64; 40] { [0x5A; 40] }
}

// --- the device and its host ---

/// Polls after which every stream was polled: a device may stay with the last served stream for 64
/// calls, and poll it 16 more times (abi §5, rule 9).
pub const POLLS_A_ROUND: usize = 64 + 16 + 1;
/// Of the window.
pub const PLAN: Plan = Plan {
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
/// The device.
pub const NODE: NodeId = NodeId(1);
/// Slots of a stream's ring.
pub const RING: u32 = PLAN.ring;

/// A board with nothing but a window.
pub struct Bare(pub Option<DeviceWindow<Shared>>);

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
        Some(of_this_thread())
    }
    fn notify(&mut self) {
        count_notification();
    }
    fn idle(&mut self, _rounds: u32) {}
}

/// A device that is polled by hand, and its host.
pub struct Bench {
    /// The host's end of the memory.
    pub window: Window<Shared>,
    /// The device.
    pub device: Device<'static, Bare>,
    /// The epoch that was offered last.
    pub epoch: Epoch,
    /// Of the window.
    pub layout: Layout,
    /// The host's ends of its streams.
    pub streams: Vec<Requester<Queue<Shared>>>,
    /// What an offer asks for.
    pub features: u32,
}

/// A place for one task: others wait in the backlog.
pub fn slots() -> &'static mut [TaskSlot] {
    vec![TaskSlot::new(256 << 10)].leak()
}

impl Bench {
    /// A device that serves [`table`].
    #[expect(clippy::new_without_default, reason = "it starts a device")]
    pub fn new() -> Self {
        Self::with(table())
    }

    /// A device that serves these handlers.
    ///
    /// # Panics
    /// It does not serve.
    pub fn with(table: Table) -> Self {
        let layout = Layout::plan(&PLAN).expect("the plan is allowed");
        let (window, device) = crate::both_ends::both_ends(layout.window_len());
        let scratch = vec![0; MAX_MESSAGE].leak();
        let device = Device::new(Bare(Some(device)), table, scratch)
            .expect("the board has a window")
            .with_tasks(slots(), 256 << 10);
        let features = feature::TICKETS | feature::DEADLINES | feature::TWO_LINES;
        let mut bench = Self { window, device, epoch: Epoch(0x4000_0000), layout, streams: Vec::new(), features };
        bench.attach();
        bench
    }

    /// Publishes a word of the preamble.
    ///
    /// # Panics
    /// It is outside of the window.
    pub fn say(&self, off: u64, value: u32) {
        self.window.word(off).expect("in the preamble").publish(value);
    }

    /// Offers the next epoch.
    ///
    /// # Panics
    /// The window is too short.
    pub fn offer(&mut self) -> HostHandshake {
        self.epoch = self.epoch.next();
        let offer = Offer { features: self.features, ..Offer::new(PLAN, NODE) };
        HostHandshake::offer(&self.window, &offer, self.epoch).expect("long enough").0
    }

    /// Begins a new epoch after any bytes in the window; from here on the host is correct.
    ///
    /// # Panics
    /// The device does not come back.
    pub fn attach(&mut self) {
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
    ///
    /// # Panics
    /// One has no reply, or a wrong one.
    pub fn still_serves(&mut self) {
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
    ///
    /// # Panics
    /// A section is outside of the window.
    pub fn not_the_devices(&self) -> Vec<(u64, Vec<u8>)> {
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

/// The key of a handler.
///
/// # Panics
/// The table has none of this name.
pub fn key(name: &str) -> HandlerKey {
    let index = table().iter().position(|e| e.name == name).expect("in the table");
    HandlerKey::of_index(index as u16)
}

// --- bad messages ---

/// A message with any words.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Where it is sent: the number modulo that of the streams.
    pub stream: u32,
    /// In the hot slot.
    pub hot: bool,
    /// Its header.
    pub hdr: u32,
    /// Its words.
    pub words: [u64; 6],
    /// The ticket slot's header, when the request names a ticket.
    pub ticket_hdr: u32,
}

/// Submits the messages that fit into the slots, lets the device run, and checks every reply.
///
/// # Panics
/// A reply is missing, or one that abi §4.3 does not allow; the device wrote where it must not.
pub fn send(bench: &mut Bench, messages: &[Message]) {
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

// --- the hand-off of the control stream, which the handler `struck` calls for ---

thread_local! {
    static CONTROL_HANDOFF: Cell<Option<&'static ControlHandoff<Shared>>> = const { Cell::new(None) };
    /// The control stream's slots, for tests that read them during a handler.
    static CONTROL: RefCell<Option<Queue<Shared>>> = const { RefCell::new(None) };
    /// How often the device notified.
    static NOTIFICATIONS: Cell<u64> = const { Cell::new(0) };
}

/// A bit of [`tick`]'s result: the stream was on loan.
pub const LENT: u64 = 1;
/// Another bit: the tick replied to the message in the hot slot.
pub const ANSWERED: u64 = 2;
/// From this bit on: how often the device had notified when the handler began.
pub const NOTIFICATIONS_SHIFT: u32 = 8;

/// The hand-off of this thread's bench.
pub fn of_this_thread() -> &'static ControlHandoff<Shared> {
    let handoff = CONTROL_HANDOFF.get().unwrap_or_else(|| Box::leak(Box::default()));
    CONTROL_HANDOFF.set(Some(handoff));
    handoff
}

/// The work of a tick during a handler.
pub fn tick() -> u64 {
    let hot = || CONTROL.with_borrow(|control| control.as_ref().map(|control| control.hot().rep_seq()));
    let before = hot();
    let lent = u64::from(of_this_thread().serve() != LoanStatus::No);
    let answered = u64::from(hot() != before);
    LENT * lent + ANSWERED * answered + (NOTIFICATIONS.get() << NOTIFICATIONS_SHIFT)
}

/// How often the device of this thread notified.
pub fn notifications() -> u64 {
    NOTIFICATIONS.get()
}

/// Counts a notification by the device.
pub fn count_notification() {
    NOTIFICATIONS.set(NOTIFICATIONS.get() + 1);
}

/// The control stream's slots, which [`tick`] looks at.
pub fn set_control(control: Option<Queue<Shared>>) {
    CONTROL.set(control);
}

// --- any bytes as what a host does ---

thread_local! {
    /// One for all cases of a thread: a device has its memory for good.
    static SHARED: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

/// A device whose host does what the bytes say: stores anywhere, sends any messages, polls, begins epochs.
///
/// # Panics
/// As [`Bench::attach`], [`send`], [`Bench::still_serves`].
pub fn any_host(bytes: &[u8]) {
    let mut bench = SHARED.take().unwrap_or_else(Bench::new);
    bench.window.write_bytes(0, &vec![0; bench.window.len() as usize]).expect("all of it");
    bench.attach();
    let mut script = Script(bytes);
    while let Some(what) = script.byte() {
        match what % 5 {
            0 => {
                let (off, len) = (u64::from(script.number()), script.byte().unwrap_or(0) % 64);
                let text = script.bytes(len.into());
                let off = off % (bench.window.len() - 64);
                bench.window.write_bytes(off, text).expect("inside the window");
            }
            1 | 2 => {
                let hdr = script.number();
                let mut words = [0; 6];
                for (word, bytes) in words.iter_mut().zip(script.bytes(48).chunks(8)) {
                    bytes.iter().for_each(|byte| *word = *word << 8 | u64::from(*byte));
                }
                let (stream, hot) = (u32::from(what >> 4), what & 8 != 0);
                let ticket_hdr = if what & 4 != 0 { script.number() } else { 0 };
                // Behind stores anywhere a slot may be in use.
                bench.attach();
                send(&mut bench, &[Message { stream, hot, hdr, words, ticket_hdr }]);
            }
            3 => {
                for _ in 0..=what / 5 {
                    let _ = bench.device.poll();
                }
            }
            _ => {
                let (off, value) = (script.number() % 0x200 * 4, script.number());
                bench.offer();
                bench.say(off.into(), value);
                for _ in 0..POLLS_A_ROUND {
                    let _ = bench.device.poll();
                }
            }
        }
    }
    bench.attach();
    bench.still_serves();
    SHARED.set(Some(bench));
}

/// Bytes that are taken one behind the other.
struct Script<'b>(&'b [u8]);

impl<'b> Script<'b> {
    fn byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    /// As many as there are.
    fn bytes(&mut self, most: usize) -> &'b [u8] {
        self.0.split_off(..most.min(self.0.len())).unwrap_or_default()
    }

    fn number(&mut self) -> u32 {
        self.bytes(4).iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
    }
}
