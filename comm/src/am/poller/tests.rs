#![expect(unsafe_code)]

use super::super::SlotAccess;
use super::*;
use crate::Handler;
use crate::am::{Requester, Slots};
use crate::context::Context;
use crate::handler::Entry;
use crate::handshake::{Accepted, HostHandshake, IdlePolicy, Offer};
use crate::migrate::{MAX_MESSAGE, Migratable};
use crate::registry::{Table, ping};
use core::cell::{Cell, RefCell};
use hamr_shared_abi::ids::{HandlerKey, NodeId};
use hamr_shared_abi::layout::{Layout, Plan};
use hamr_shared_abi::slot::{COUNT_BITS, RepHdr, ReqHdr, seq};
use hamr_shared_abi::table::record_flag;
use hamr_shared_abi::window::{DeviceWindow, Queue, Shared};
use std::{thread_local, vec};

const STREAMS: u32 = 20;

fn offer(streams: u32) -> Offer {
    let plan =
        Plan { streams, ring: 4, tickets: 0, chunk: 64, table: 1024, log: 0, trace: 0, heap: 4096, ..Plan::NO_TASKS };
    Offer::new(plan, NodeId(1))
}

fn accepted(layout: Layout, epoch: Epoch) -> Accepted {
    Accepted { layout, node: NodeId(1), epoch, features: 0, idle_policy: IdlePolicy::default() }
}

/// A poller, and the host's ends of its streams.
struct Bench {
    poller: Poller<'static, Shared>,
    ends: vec::Vec<Requester<Queue<Shared>>>,
}

static PING: Entry = Entry::of::<ping>();
static AGAIN: Entry = Entry::of::<Again<0>>();
static AGAIN_IN_RING: Entry = Entry::of::<Again<1>>();
static COPIES_3: Entry = Entry::of::<Copies<3>>();
static COPIES_8: Entry = Entry::of::<Copies<8>>();
static COPIES_9: Entry = Entry::of::<Copies<9>>();
static SUMS: Entry = Entry::of::<Sums<heapless::Vec<u8, 90>, 0>>();
static SUMS_OF_TEXT: Entry = Entry::of::<Sums<heapless::String<90>, 1>>();
/// Keys of the table in its order.
const AGAIN_KEY: HandlerKey = HandlerKey(0);
const AGAIN_IN_RING_KEY: HandlerKey = HandlerKey(1);
const COPIES_KEYS: [HandlerKey; 3] = [HandlerKey(2), HandlerKey(3), HandlerKey(4)];
const PING_KEY: HandlerKey = HandlerKey(5);
const SUMS_KEYS: [HandlerKey; 2] = [HandlerKey(6), HandlerKey(7)];
const NO_KEY: HandlerKey = HandlerKey(8);

impl Bench {
    fn new() -> Self {
        let offer = offer(STREAMS);
        let len = Layout::plan(&offer.plan).expect("allowed").window_len();
        // SAFETY: the tests poll in their own thread, and a view ends with its handler.
        let (host, device) = unsafe { Window::private_pair(len) }.expect("memory");
        let (_, layout) = HostHandshake::offer(&host, &offer, Epoch::FIRST).expect("long enough");
        let table =
            Table::of(vec![&PING, &AGAIN, &AGAIN_IN_RING, &COPIES_3, &COPIES_8, &COPIES_9, &SUMS, &SUMS_OF_TEXT]);
        let accepted =
            Accepted { layout, node: NodeId(1), epoch: Epoch::FIRST, features: 0, idle_policy: IdlePolicy::default() };
        let poller = Poller::new(device, &accepted, table, vec![0; MAX_MESSAGE].leak());
        let Ok(poller) = poller else { panic!("the layout is the host's") };
        host.word(word::OPEN_QUEUES).expect("inside").store(layout.queues());
        let end = |queue| {
            let descriptor = layout.queue(&host, queue).expect("own descriptor");
            Requester::new(host.queue(&descriptor).expect("inside"), Epoch::FIRST)
        };
        Self { poller, ends: (0..layout.queues()).map(end).collect() }
    }

    /// The reply to a message in the hot slot of stream 1, and the first word of its payload.
    fn call(&mut self, hdr: ReqHdr, word: u64) -> (RepHdr, u64) {
        self.ends[1].submit_hot(hdr, &[word]);
        self.poller.serve();
        let reply = self.ends[1].hot_reply().expect("it was served");
        let mut words = [0];
        self.ends[1].slots().hot().read_reply(&mut words);
        self.ends[1].release_hot();
        (reply, words[0])
    }

    fn status(&mut self, hdr: ReqHdr) -> Status {
        self.call(hdr, 0).0.status()
    }
}

/// Returns its argument `N` times.
struct Copies<const N: usize>;

impl<const N: usize> Handler for Copies<N> {
    const NAME: &'static str = match N {
        3 => "copies_3",
        8 => "copies_8",
        _ => "copies_9",
    };
    const BODY: u64 = 0;
    const FLAGS: u32 = record_flag::HAS_BODY;
    type Kind = Context<'static>;
    type Args = (u64,);
    type Output = [u64; N];
    fn run(_cx: &mut Context<'_>, (value,): (u64,)) -> [u64; N] {
        [value; N]
    }
}

/// Adds up bytes.
struct Sums<A, const TEXT: usize>(core::marker::PhantomData<A>);

impl<A: Migratable + AsRef<[u8]> + 'static, const TEXT: usize> Handler for Sums<A, TEXT> {
    const NAME: &'static str = if TEXT == 0 { "sums" } else { "sums_of_text" };
    const BODY: u64 = 0;
    const FLAGS: u32 = record_flag::HAS_BODY;
    type Kind = Context<'static>;
    type Args = (A, u8);
    type Output = u64;
    fn run(_cx: &mut Context<'_>, (bytes, last): (A, u8)) -> u64 {
        bytes.as_ref().iter().chain(&[last]).map(|byte| u64::from(*byte)).sum()
    }
}

/// Sends the next request of stream 1 itself, for ever: in its hot slot, or in its ring.
struct Again<const RING: usize>;

thread_local! {
    static SENT: Cell<u32> = const { Cell::new(0) };
    static SLOTS: Cell<Option<&'static Queue<Shared>>> = const { Cell::new(None) };
    static END: RefCell<Option<Requester<Queue<Shared>>>> = const { RefCell::new(None) };
}

impl<const RING: usize> Handler for Again<RING> {
    const NAME: &'static str = if RING == 0 { "again" } else { "again_in_ring" };
    const BODY: u64 = 0;
    const FLAGS: u32 = record_flag::HAS_BODY;
    type Kind = Context<'static>;
    type Args = ();
    type Output = ();
    fn run(_cx: &mut Context<'_>, (): ()) {
        SENT.set(SENT.get() + 1);
        if RING != 0 {
            return END.with_borrow_mut(|end| {
                let end = end.as_mut().expect("set");
                end.submit_ring(ReqHdr::inline(AGAIN_IN_RING_KEY, 0), &[]);
                end.release_oldest();
            });
        }
        let next = seq(Epoch::FIRST.tag(), SENT.get(), COUNT_BITS);
        SLOTS.get().expect("set").hot().publish_request(ReqHdr::inline(AGAIN_KEY, 0).0, next);
    }
}

#[test]
fn a_host_that_sleeps_is_notified_of_each_reply_once_and_of_nothing_else() {
    let mut bench = Bench::new();
    // Rounds in which the host is notified, of many.
    let notified = |bench: &mut Bench| {
        let rounds = (0..4 * STATE_CHECK_MASK).map(|_| bench.poller.poll());
        rounds.filter(|round| matches!(round, Round::NeedsNotify(_))).count()
    };
    let sleeps = |bench: &Bench, value| bench.poller.window().word(word::HOST_WAIT).expect("inside").store(value);
    assert_eq!(notified(&mut bench), 0, "it is awake");
    sleeps(&bench, 1);
    assert_eq!(notified(&mut bench), 0, "there was no reply");
    for value in [1, 3, 5] {
        bench.ends[1].submit_hot(ReqHdr::inline(PING_KEY, 8), &[7]);
        sleeps(&bench, value);
        assert_eq!(notified(&mut bench), 1, "of the reply, at {value}");
        bench.ends[1].hot_reply().expect("it was served");
        bench.ends[1].release_hot();
        // It has looked, and sleeps for something else.
        sleeps(&bench, value + 2);
        assert_eq!(notified(&mut bench), 0, "of nothing, at {value}");
        assert!(!bench.poller.needs_notify(), "also behind a fence, at {value}");
    }
    // It was awake when the reply came, as far as could be seen without a fence.
    bench.ends[1].submit_hot(ReqHdr::inline(PING_KEY, 8), &[7]);
    sleeps(&bench, 8);
    assert_eq!(notified(&mut bench), 0);
    sleeps(&bench, 9);
    assert_eq!((notified(&mut bench), notified(&mut bench)), (1, 0));
}

#[test]
fn a_message_like_the_last_is_served_as_that_and_any_other_is_checked() {
    let mut bench = Bench::new();
    let plain = ReqHdr::inline(PING_KEY, 8);
    let ok = |word| (RepHdr::inline(Status::OK, 8), word);
    for others in [
        (ReqHdr(plain.0 | ReqHdr::RESERVED), Status::BAD_REQUEST),
        (ReqHdr::inline(PING_KEY, 63), Status::BAD_REQUEST),
        (ReqHdr(u32::MAX), Status::BAD_REQUEST),
        (plain.with(ReqHdr::CANCEL), Status::CANCELLED),
        (plain.with(ReqHdr::ONE_WAY), Status::EXECUTED),
        (ReqHdr::inline(PING_KEY, 7), Status::BAD_ARGUMENTS),
        (ReqHdr::inline(PING_KEY, 48), Status::BAD_ARGUMENTS),
        (ReqHdr::inline(NO_KEY, 8), Status::NO_HANDLER),
        (ReqHdr::inline(HandlerKey(0xFFFF), 8), Status::NO_HANDLER),
    ] {
        assert_eq!(bench.call(plain, 7), ok(7));
        assert_eq!(bench.call(plain, u64::MAX), ok(u64::MAX));
        assert_eq!(bench.status(others.0), others.1, "{:?}", others.0);
        assert_eq!(bench.status(others.0), others.1, "{:?} again", others.0);
        assert_eq!(bench.call(plain, 8), ok(8));
    }
}

#[test]
fn messages_of_the_ring_are_served_in_order_whatever_their_headers() {
    let mut bench = Bench::new();
    let ping = ReqHdr::inline(PING_KEY, 8);
    let two_lines = ReqHdr::in_two_lines(PING_KEY, 56);
    let sent = [
        (ping, Status::OK),
        (ping, Status::OK),
        (ping.with(ReqHdr::ONE_WAY), Status::EXECUTED),
        (ping, Status::OK),
        (ReqHdr::inline(COPIES_KEYS[0], 8), Status::OK),
        (ping.with(ReqHdr::CANCEL), Status::CANCELLED),
        (ping, Status::OK),
        (two_lines, Status::BAD_REQUEST),
        (ReqHdr(u32::MAX), Status::BAD_REQUEST),
        (ping.with(ReqHdr::ONE_WAY), Status::EXECUTED),
        (ReqHdr::inline(NO_KEY, 8), Status::NO_HANDLER),
        (ReqHdr::inline(PING_KEY, 4), Status::BAD_ARGUMENTS),
    ];
    // As many as the ring has, from each place on: every two of them meet in a round.
    for from in 0..sent.len() {
        let these: vec::Vec<_> = (0..4).map(|n| sent[(from + n * (1 + from % 3)) % sent.len()]).collect();
        let end = &mut bench.ends[1];
        let first = end.next_position();
        (0..).zip(&these).for_each(|(n, (hdr, _))| _ = end.submit_ring(*hdr, &[100 + n]));
        bench.poller.serve();
        let end = &mut bench.ends[1];
        for (n, (hdr, status)) in (0..).zip(&these) {
            let reply = end.ring_reply(first + n).expect("it was served");
            assert_eq!(reply.status(), *status, "{hdr:?} in {these:?}");
            if reply == RepHdr::inline(Status::OK, 8) {
                let mut words = [0];
                end.slots().ring((first + n) as u32).read_reply(&mut words);
                assert_eq!(words, [100 + n], "of its own request");
            }
            end.release_oldest();
        }
    }
}

#[test]
fn results_of_every_length_come_in_turn() {
    let mut bench = Bench::new();
    let [three, eight, nine] = COPIES_KEYS.map(|key| ReqHdr::inline(key, 8));
    for value in (1..).map(|n| n * 0x0101_0101).take(3) {
        for _ in 0..3 {
            assert_eq!(bench.call(three, value), (RepHdr::inline(Status::OK, 24), value));
            let mut words = [0; 6];
            bench.ends[1].slots().hot().read_reply(&mut words);
            assert_eq!(words[..3], [value; 3]);
        }
        for _ in 0..3 {
            assert_eq!(bench.call(eight, value), (RepHdr::inline(Status::OK, 16).in_chunk(), 0));
            let mut bytes = [0; 64];
            bench.ends[1].slots().read_reply_chunk(0, &mut bytes).expect("as long as the chunk");
            assert_eq!(bytes, *bytemuck::bytes_of(&[value; 8]));
        }
        for _ in 0..3 {
            // The chunk has 64 bytes, and there is no buffer.
            assert_eq!(bench.call(nine, value), (RepHdr::inline(Status::RESULT_TOO_LONG, 8), 72));
        }
    }
}

#[test]
fn the_first_message_is_checked() {
    assert_eq!(Bench::new().status(ReqHdr(u32::MAX)), Status::BAD_REQUEST);
    assert_eq!(Bench::new().status(ReqHdr(!ReqHdr::ONE_WAY)), Status::BAD_REQUEST);
    assert_eq!(Bench::new().status(ReqHdr::inline(PING_KEY, 0)), Status::BAD_ARGUMENTS);
}

/// Rule 9: at most 64 messages between two rounds, whatever the caller does.
#[test]
fn an_endless_caller_delays_no_other_stream() {
    let bench = Bench::new();
    SLOTS.set(vec![bench.ends[1].slots().clone()].leak().first());
    SENT.set(0);
    Again::<0>::run(&mut crate::testing::Heap::new(64).context(), ());
    delays_no_other_stream(bench);
}

#[test]
fn an_endless_caller_in_the_ring_delays_no_other_stream() {
    let mut bench = Bench::new();
    END.set(Some(bench.ends.swap_remove(1)));
    // Its place is taken by the last one's, which is not called.
    bench.ends.push(Requester::new(bench.ends[1].slots().clone(), Epoch::FIRST));
    bench.ends.swap(1, STREAMS as usize);
    SENT.set(0);
    Again::<1>::run(&mut crate::testing::Heap::new(64).context(), ());
    delays_no_other_stream(bench);
}

fn delays_no_other_stream(mut bench: Bench) {
    for stream in (2..=STREAMS as usize).cycle().take(60) {
        let before = SENT.get();
        bench.ends[stream].submit_hot(ReqHdr::inline(PING_KEY, 8), &[5]);
        // A step of one message in the ring may come before.
        let served = |round| if let Round::Worked(n) = round { n } else { panic!("it serves") };
        while served(bench.poller.serve()) == 1 {
            assert!(SENT.get() - before <= BUDGET, "{} in steps of one", SENT.get() - before);
        }
        assert_eq!(bench.ends[stream].hot_reply(), Some(RepHdr::inline(Status::OK, 8)), "stream {stream}");
        bench.ends[stream].release_hot();
        assert!(SENT.get() - before <= BUDGET + BATCH * STREAMS, "{} in one step", SENT.get() - before);
    }
}

#[test]
fn every_message_of_every_stream_is_found() {
    let mut bench = Bench::new();
    let hdr = ReqHdr::inline(PING_KEY, 8);
    // More than the ring has slots, so that each stream's position wraps.
    for round in 0..9 {
        for stream in 0..=STREAMS as usize {
            let x = bench.ends[stream].submit_ring(hdr, &[round]);
            let mut polls = 0;
            while bench.ends[stream].ring_reply(x).is_none() {
                bench.poller.serve();
                polls += 1;
                assert!(polls <= 64, "stream {stream}, message {round}");
            }
            bench.ends[stream].release_oldest();
        }
        for end in &mut bench.ends {
            end.submit_hot(hdr, &[round]);
            end.submit_ring(hdr, &[round]);
        }
        while bench.ends.iter_mut().any(|end| !end.is_quiet()) {
            assert!(matches!(bench.poller.serve(), Round::Worked(_) | Round::Idle));
        }
        for end in &mut bench.ends {
            end.release_hot();
            end.release_oldest();
        }
    }
}

/// Code that watches calls by their numbers must not take a call of this epoch for an earlier
/// one's.
#[test]
fn no_number_of_a_call_comes_twice() {
    let mut window = DeviceWindow::private(Layout::plan(&offer(1).plan).expect("allowed").window_len());
    let mut scratch = vec![0; MAX_MESSAGE];
    let mut last = Activity::new().last();
    for epoch in 1..4 {
        let (_, layout) = HostHandshake::offer(&window, &offer(1), Epoch(epoch)).expect("long enough");
        let poller =
            Poller::<_, Coherent>::new(window, &accepted(layout, Epoch(epoch)), Table::of(vec![]), &mut scratch);
        let Ok(poller) = poller else { panic!("the layout is the host's") };
        for _ in 0..3 {
            poller.activity().begin(0, Found { slot: 0, seq: 1 });
            let serial = poller.activity().last();
            poller.activity().end();
            assert!(serial.wrapping_sub(last).cast_signed() > 0, "{serial} after {last}");
            last = serial;
        }
        window = poller.into_parts().0;
    }
}

/// The outcome of a handler with this key that sums, whose arguments are a chunk's: says so many bytes, each 3, of a message
/// of `len`.
fn sums_in_chunk(bench: &mut Bench, (key, in_ring): (HandlerKey, bool), says: u32, len: u64) -> (Status, u64) {
    let hdr = ReqHdr::inline(key, 16).in_chunk();
    let mut chunk = [3; 64];
    chunk[..4].copy_from_slice(&says.to_le_bytes());
    let end = &mut bench.ends[1];
    let x = end.next_position();
    let slot = if in_ring { 1 + (x % 4) as u32 } else { 0 };
    end.slots().write_request_chunk(slot, &[&chunk]).expect("as long as the chunk");
    match in_ring {
        true => _ = end.submit_ring(hdr, &[0, len]),
        false => end.submit_hot(hdr, &[0, len]),
    }
    bench.poller.serve();
    let (end, mut words) = (&mut bench.ends[1], [0]);
    let reply = if in_ring { end.ring_reply(x) } else { end.hot_reply() }.expect("it was served");
    let line = if in_ring { end.slots().ring(x as u32) } else { end.slots().hot() };
    line.read_reply(&mut words);
    if in_ring {
        end.release_oldest()
    } else {
        end.release_hot()
    }
    (reply.status(), if reply.len() == 8 { words[0] } else { 0 })
}

/// Also behind a good one, whose header the device need not check again.
#[test]
fn every_length_of_a_chunk_is_checked() {
    for way in SUMS_KEYS.into_iter().flat_map(|key| [(key, false), (key, true)]) {
        let mut bench = Bench::new();
        for len in (0..=66).chain([1 << 16, 1 << 30, 1 << 31, 1 << 32, (1 << 32) + 50, 1 << 63, u64::MAX]) {
            for says in [0, 1, 45, 58, 59, 60, 61, 90, 91, u32::MAX, (len as u32).wrapping_sub(5)] {
                assert_eq!(sums_in_chunk(&mut bench, way, 59, 64), (Status::OK, 180));
                let expected = match u64::from(says) + 5 == len {
                    _ if len > 64 => (Status::BAD_REQUEST, 0),
                    true => (Status::OK, 3 * (u64::from(says) + 1)),
                    false => (Status::BAD_ARGUMENTS, 0),
                };
                assert_eq!(sums_in_chunk(&mut bench, way, says, len), expected, "{says} bytes of {len}, {way:?}");
            }
        }
    }
}
