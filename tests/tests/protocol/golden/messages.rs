//! A window, and messages through it.

use super::*;
use hamr_comm::am::SlotAccess;

struct Add;
impl Handler for Add {
    const NAME: &'static str = "golden::add";
    const BODY: u64 = 0x0123_4567_89AB_CDEF;
    type Kind = Context<'static>;
    type Args = (u32, u32);
    type Output = u32;
    fn run(_: &mut Context<'_>, (a, b): (u32, u32)) -> u32 {
        a.wrapping_add(b)
    }
}

type Bytes = heapless::Vec<u8, 200>;

struct Reverse;
impl Handler for Reverse {
    const NAME: &'static str = "golden::reverse";
    const BODY: u64 = 0x1122_3344_5566_7788;
    const FLAGS: u32 = record_flag::HAS_BODY | record_flag::TASK | record_flag::UNORDERED;
    type Kind = Task<'static>;
    type Args = (Bytes,);
    type Output = Bytes;
    fn run(task: &mut Task<'_>, (mut bytes,): (Bytes,)) -> Bytes {
        // One that ends without a wait needs no ticket slot.
        let _ = task.yield_now();
        bytes.reverse();
        bytes
    }
}

struct ReverseInline;
impl Handler for ReverseInline {
    const NAME: &'static str = Reverse::NAME;
    const BODY: u64 = Reverse::BODY;
    type Kind = Context<'static>;
    type Args = (Bytes,);
    type Output = Bytes;
    fn run(_: &mut Context<'_>, (mut bytes,): (Bytes,)) -> Bytes {
        bytes.reverse();
        bytes
    }
}

struct Refuse;
impl Handler for Refuse {
    const NAME: &'static str = "golden::refuse";
    const BODY: u64 = 7;
    type Kind = Context<'static>;
    type Args = ();
    type Output = Result<(), Fault>;
    fn run(_: &mut Context<'_>, (): ()) -> Result<(), Fault> {
        Err(Fault { numbers: [1, 2, 3], ..Fault::msg("no such sensor") })
    }
}

struct Mix;
impl Handler for Mix {
    const NAME: &'static str = "golden::mix";
    const BODY: u64 = 8;
    type Kind = Context<'static>;
    type Args = ([u8; 60],);
    type Output = u8;
    fn run(_: &mut Context<'_>, (bytes,): ([u8; 60],)) -> u8 {
        bytes.iter().fold(0, |all, byte| all ^ byte)
    }
}

static ADD: Entry = Entry::of::<Add>();
/// A task, called inline as well: one handler shows the bytes of both.
static REVERSE: Entry = Entry { run: Entry::of::<ReverseInline>().run, ..Entry::of::<Reverse>() };
static REFUSE: Entry = Entry::of::<Refuse>();
static MIX: Entry = Entry::of::<Mix>();
// Sorted by name: add, refuse, reverse.
const ADD_KEY: HandlerKey = HandlerKey(0);
const REFUSE_KEY: HandlerKey = HandlerKey(1);
const REVERSE_KEY: HandlerKey = HandlerKey(2);

const PLAN: Plan = Plan {
    streams: 2,
    ring: 4,
    tickets: 2,
    chunk: 256,
    table: 512,
    log: 256,
    trace: 128,
    heap: 4096,
    ..Plan::NO_TASKS
};
const EPOCH: Epoch = Epoch(3);
const STREAM: u32 = 1;

const PROFILE: DeviceProfile = DeviceProfile::new("golden", feature::TICKETS | feature::DEADLINES, MAX_QUEUES as u32);

/// A host's half and a device's half of one window, attached.
struct Pair {
    window: Window<Shared>,
    layout: Layout,
    requester: Requester<Queue<Shared>>,
    poller: Poller<'static, Shared>,
}

fn table() -> Table {
    Table::of(vec![&ADD, &REVERSE, &REFUSE])
}

/// A window with an offer, before the device reads it.
fn offered() -> Offered {
    offered_with(feature::TICKETS | feature::DEADLINES | feature::DOORBELL)
}

type Offered = (Window<Shared>, DeviceWindow<Shared>, Layout, HostHandshake);

fn offered_with(features: u32) -> Offered {
    offered_plan(PLAN, features, Table::EMPTY)
}

fn offered_plan(plan: Plan, features: u32, host_handlers: Table) -> Offered {
    let layout = Layout::plan(&plan).expect("the plan is allowed");
    let bytes = layout.window_len().max(layout.at_host().end);
    let (host, device) = hamr_tests::both_ends::both_ends(bytes);
    let offer = Offer {
        features,
        required: feature::TICKETS,
        fingerprint: 0x0102_0304_0506_0708,
        host_handlers,
        pid: 4242,
        idle_policy: IdlePolicy { spin_us: 300, sleep_us: 50_000 },
        ..Offer::new(plan, NodeId(1))
    };
    let (handshake, layout) = HostHandshake::offer(&host, &offer, EPOCH).expect("the window is long enough");
    (host, device, layout, handshake)
}

fn attached() -> Pair {
    attach(offered(), table())
}

fn attach(offered: Offered, table: Table) -> Pair {
    let (window, device, layout, handshake) = offered;
    let profile = DeviceProfile { features: PROFILE.features | feature::TWO_LINES | feature::SPLIT, ..PROFILE };
    let mut state = DeviceHandshake::Waiting;
    state.step(&device, table, &profile);
    handshake.ready(&window);
    state.step(&device, table, &profile);
    let DeviceHandshake::Serving(a) = state else { panic!("not served: {state:?}") };
    let scratch = vec![0; MAX_MESSAGE].leak();
    let Ok(mut poller) = Poller::new(device, &a, table, scratch) else { panic!("no poller") };
    poller.use_tasks(Tasks::new(vec![TaskSlot::new(64 << 10)].leak()));
    DeviceHandshake::announce(poller.window());
    let open = window.word(hamr_comm::abi::preamble::word::OPEN_QUEUES).expect("in the preamble");
    open.publish(layout.queues());
    let descriptor = layout.queue(&window, STREAM).expect("own descriptor");
    let mut requester = Requester::new(window.queue(&descriptor).expect("own queue"), EPOCH);
    requester.use_two_lines(a.features & feature::TWO_LINES != 0);
    Pair { window, layout, requester, poller }
}

impl Pair {
    fn bytes(&self, off: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.window.read_bytes(off, &mut bytes).expect("inside the window");
        bytes
    }

    fn descriptor(&self) -> QueueDescriptor {
        self.layout.queue(&self.window, STREAM).expect("own descriptor")
    }

    /// A slot with `payload` bytes in it. The bytes after them have no meaning and are shown as
    /// zeros.
    fn line(&self, slot: u32, payload: usize) -> Vec<u8> {
        let d = self.descriptor();
        let line = |first: u32, i: u32| u64::from(first) + u64::from(i) * SLOT_BYTES as u64;
        let off = match slot {
            0 => line(d.hot, 0),
            s if s <= d.ring_len => line(d.ring, s - 1),
            s => line(d.tickets, s - 1 - d.ring_len),
        };
        let mut bytes = self.bytes(d.req_base + off, SLOT_BYTES);
        bytes[payload..INLINE_BYTES].fill(0);
        bytes
    }

    fn chunk(&self, slot: u32, reply: bool, len: usize) -> Vec<u8> {
        let d = self.descriptor();
        let skip = if reply { u64::from(d.req_chunk) } else { 0 };
        self.bytes(d.chunks + u64::from(slot) * d.chunk_pair() + skip, len)
    }

    fn poll(&mut self, served: u32) {
        let round = match self.poller.poll() {
            Round::TasksDue(served) => self.poller.run_tasks(served, &mut || 0),
            round => round,
        };
        assert_eq!(round, Round::Worked(served));
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

fn hundred() -> Bytes {
    (0..100).collect()
}

#[test]
fn window() {
    let (host, _, layout, _) = offered();
    let mut head = vec![0; PREAMBLE_BYTES as usize];
    host.read_bytes(0, &mut head).expect("a window has a preamble");
    let queues = layout.section(SectionKind::QUEUES).expect("planned");
    let mut descriptors = vec![0; queues.len as usize];
    host.read_bytes(queues.off, &mut descriptors).expect("inside the window");
    let title = "A window on offer (abi §3), plan: 2 streams, ring 4, tickets 2, chunk 256, table 512, log 256, trace \
                 128, heap 4096; node 1, epoch 3";
    let parts: [(&str, &[u8]); 6] = [
        ("preamble", &head[..0x80]),
        ("host words", &head[0x80..0xC0]),
        ("device words", &head[0xC0..0x100]),
        ("device record", &head[0x100..0x200]),
        ("section table", &head[0x200..]),
        ("queue pair descriptors", &descriptors),
    ];
    golden("window", title, &parts);
}

/// A window of 24576 bytes and memory of the host's behind it.
#[test]
fn a_call_over_split_placement() {
    let plan = Plan { placement: Placement::TwoMemories, ..PLAN };
    let mut pair = attach(offered_plan(plan, feature::TICKETS, Table::EMPTY), table());
    let (d, host) = (pair.descriptor(), pair.layout.at_host());
    assert_eq!((pair.layout.window_len(), host.start), (24576, 32768));
    let args = encoded(&(hundred(),));
    let place = wire!(Descriptor { off: 0, len: args.len() as u64 });
    pair.requester.slots().write_request_chunk(1, &[&args]).expect("fits the chunk");
    pair.requester.submit_ring(ReqHdr::inline(REVERSE_KEY, place.len()).in_chunk(), &words(&place));
    pair.poll(1);
    assert_eq!(pair.requester.ring_reply(0).expect("answered").status(), Status::OK);
    let ring = u64::from(d.ring);
    let title =
        "Split placement (abi §4.6), plan of `window`: reverse([0, 1, …, 99]), what the host polls 32768 bytes behind";
    let parts: [(&str, &[u8]); 7] = [
        ("preamble", &pair.bytes(0, 0x80)),
        ("descriptor of stream 1", &wire!(d)),
        ("ring slot 0: the request", &pair.bytes(d.req_base + ring, SLOT_BYTES)),
        ("its request chunk", &pair.chunk(1, false, args.len())),
        ("ring slot 0, 32768 bytes behind: the reply", &pair.bytes(d.rep_base + ring, SLOT_BYTES)),
        ("its reply chunk, 32768 bytes behind", &pair.bytes(d.chunks + 2 * 512 - 256 + host.start, args.len())),
        ("DEVICE_WAIT, 32768 bytes behind", &pair.bytes(pair.layout.split().device_wait(), 4)),
    ];
    golden("split", title, &parts);
}

/// Section TASKS of an offer.
#[test]
fn tasks() {
    let plan = Plan { tasks: 2, host_chunk: 64, host_table: 128, ..PLAN };
    let (host, _, layout, _) = offered_plan(plan, feature::TICKETS, Table::of(vec![&ADD]));
    let section = layout.section(SectionKind::TASKS).expect("planned");
    let mut bytes = vec![0; section.len as usize];
    host.read_bytes(section.off, &mut bytes).expect("inside the window");
    let title = "Section TASKS (abi §12), plan of `window` and: 2 tasks, chunk 64, table 128";
    let end = 384 + 3 * 9 * (64 + 128);
    assert!(bytes[384..end].iter().all(|byte| *byte == 0), "slots and chunks");
    let parts: [(&str, &[u8]); 4] = [
        ("header", &bytes[..64]),
        ("task lines", &bytes[64..192]),
        ("wait words", &bytes[192..384]),
        ("table, behind slots and chunks: golden::add(u32, u32) -> u32", &bytes[end..]),
    ];
    golden("tasks", title, &parts);
}

#[test]
fn the_table_of_handlers() {
    let pair = attached();
    let section = pair.layout.section(SectionKind::TABLE).expect("planned");
    let used = 16 + 3 * 40 + "golden::addgolden::refusegolden::reverse".len();
    let bytes = pair.bytes(section.off, used);
    let parts: [(&str, &[u8]); 5] = [
        ("header", &bytes[..16]),
        ("golden::add(u32, u32) -> u32", &bytes[16..56]),
        ("golden::refuse() -> Result<(), Fault>", &bytes[56..96]),
        ("golden::reverse(Vec<u8, 200>) -> Vec<u8, 200>", &bytes[96..136]),
        ("names", &bytes[136..]),
    ];
    golden("table", "A handler table (abi §3.7)", &parts);
}

#[test]
fn a_plain_call_and_its_reply() {
    let mut pair = attached();
    let args = encoded(&(1000u32, 234u32));
    assert!(pair.requester.hot_is_open());
    pair.requester.submit_hot(ReqHdr::inline(ADD_KEY, args.len()), &words(&args));
    let hot = pair.line(0, 8);
    pair.requester.submit_ring(ReqHdr::inline(ADD_KEY, args.len()), &words(&args));
    let ring = pair.line(1, 8);
    let title = "A short request (abi §4.1, §4.2): add(1000, 234) of epoch 3";
    golden("plain_request", title, &[("hot slot, first use", &hot), ("ring slot 0, first lap", &ring)]);

    pair.poll(2);
    let reply = pair.requester.hot_reply().expect("answered");
    assert_eq!((reply.status(), reply.len()), (Status::OK, 4));
    assert!(pair.requester.ring_reply(0).is_some());
    let title = "Its reply (abi §4.3), in the same lines";
    golden("plain_reply", title, &[("hot slot", &pair.line(0, 4)), ("ring slot 0", &pair.line(1, 4))]);
}

#[test]
fn calls_in_two_lines() {
    let offered = offered_with(feature::TICKETS | feature::TWO_LINES);
    let heap = offered.2.section(SectionKind::HEAP).expect("planned").off;
    // Sorted by name: add, mix.
    let mut pair = attach(offered, Table::of(vec![&ADD, &MIX]));
    let hot = pair.descriptor().req_base + u64::from(pair.descriptor().hot);
    let args = encoded(&(std::array::from_fn::<u8, 60, _>(|i| i as u8),));
    assert!(pair.requester.hot_is_open() && args.len() == 60);
    pair.requester.submit_hot(ReqHdr::in_two_lines(HandlerKey(1), args.len()), &words(&args));
    let (long, more) = (pair.line(0, INLINE_BYTES), pair.bytes(hot + 64, 12));
    pair.poll(1);
    let reply = pair.requester.hot_reply().expect("answered");
    let answered = pair.line(0, 1);
    assert_eq!((reply.status(), reply.len()), (Status::OK, 1));
    pair.requester.release_hot();

    let data: [u8; 20] = std::array::from_fn(|i| 0xE0 + i as u8);
    let mut put = encoded(&(1000u32, 234u32));
    put.resize(PUT_ARGS, 0);
    put.extend(wire!(Descriptor { off: 320, len: data.len() as u64 }));
    put.extend(data);
    pair.requester.submit_hot(ReqHdr::inline(ADD_KEY, 8).with(ReqHdr::PUT), &words(&put));
    let (short, target) = (pair.line(0, INLINE_BYTES), pair.bytes(hot + 64, data.len()));
    pair.poll(1);
    assert_eq!(pair.requester.hot_reply().map(|reply| reply.status()), Some(Status::OK));
    let parts: [(&str, &[u8]); 6] = [
        ("mix([0, 1, 2, …, 59]): hot slot", &long),
        ("its second line, as far as used", &more),
        ("its reply", &answered),
        ("add(1000, 234) with PUT of 20 bytes to offset 320 of the heap: hot slot", &short),
        ("its second line, as far as used", &target),
        ("the heap from there", &pair.bytes(heap + 320, data.len())),
    ];
    golden("two_lines", "Messages in two lines (abi §4.7)", &parts);
}

#[test]
fn a_long_call_and_its_reply() {
    let mut pair = attached();
    let args = encoded(&(hundred(),));
    let ext = Ext { deadline_us: 5000, trace: 0x1234_5678, ..Ext::default() };
    let place = Descriptor { off: 0, len: args.len() as u64 };
    let reply = Descriptor { off: 1024, len: 512 };
    let payload = [wire!(ext), wire!(place), wire!(reply)].concat();
    let slot = 1 + (pair.requester.next_position() as u32 & 3);
    pair.requester.slots().write_request_chunk(slot, &[&args]).expect("fits the chunk");
    let hdr = ReqHdr::inline(REVERSE_KEY, payload.len()).in_chunk().with(ReqHdr::EXT | ReqHdr::REPLY_BUF);
    pair.requester.submit_ring(hdr, &words(&payload));
    let parts: [(&str, &[u8]); 2] =
        [("ring slot 0", &pair.line(slot, 48)), ("request chunk", &pair.chunk(slot, false, args.len()))];
    golden("chunk_request", "A request with EXT, arguments in its chunk and a reply buffer (abi §4.4)", &parts);

    pair.poll(1);
    let reply = pair.requester.ring_reply(0).expect("answered");
    assert_eq!(reply.status(), Status::OK);
    let parts: [(&str, &[u8]); 2] =
        [("ring slot 0", &pair.line(slot, 16)), ("reply chunk", &pair.chunk(slot, true, args.len()))];
    golden("chunk_reply", "Its reply: a result in the reply chunk (abi §4.3, §4.4)", &parts);
}

#[test]
fn a_ticket_call_and_its_reply() {
    let mut pair = attached();
    let args = encoded(&(hundred(),));
    // A ticket slot's published words count the uses of its ticket.
    let seq = hamr_comm::abi::slot::seq(EPOCH.tag(), 1, <Queue<Shared> as Slots>::COUNT_BITS);
    let ext = Ext { ticket: 1, ticket_seq: seq, ..Ext::default() };
    let place = Descriptor { off: 0, len: args.len() as u64 };
    let payload = [wire!(ext), wire!(place)].concat();
    let side = 1 + 4 + 1;
    let hdr = ReqHdr::inline(REVERSE_KEY, payload.len()).in_chunk().with(ReqHdr::EXT | ReqHdr::TICKET);
    pair.requester.slots().write_request_chunk(side, &[&args]).expect("fits the chunk");
    pair.requester.slots().ticket_slot(1).expect("there are two").set_req_hdr(hdr.0);
    pair.requester.submit_ring(hdr, &words(&payload));
    let request = pair.line(1, 32);
    let waiting = pair.line(side, 0);
    // One round finds the message and begins the task, the next one ends it.
    pair.poll(2);
    pair.poll(1);
    let parts: [(&str, &[u8]); 5] = [
        ("ring slot 0: the request", &request),
        ("ticket slot 1: the request's header", &waiting),
        ("ring slot 0: taken, by place 0", &pair.line(1, 4)),
        ("ticket slot 1: the reply", &pair.line(side, 16)),
        ("reply chunk of ticket slot 1", &pair.chunk(side, true, args.len())),
    ];
    golden("ticket", "A TICKET request, taken, and its reply in the ticket slot (abi §5, rule 13)", &parts);
}

#[test]
fn a_one_way_message_and_its_reply() {
    let mut pair = attached();
    let args = encoded(&(1u32, 2u32));
    pair.requester.submit_ring(ReqHdr::inline(ADD_KEY, args.len()).with(ReqHdr::ONE_WAY), &words(&args));
    let request = pair.line(1, 8);
    pair.poll(1);
    let parts: [(&str, &[u8]); 2] = [("request", &request), ("executed", &pair.line(1, 0))];
    golden("one_way", "A one-way message (abi §5, rule 11)", &parts);
}

#[test]
fn a_fault_and_an_unknown_handler() {
    let mut pair = attached();
    pair.requester.submit_ring(ReqHdr::inline(REFUSE_KEY, 0), &[]);
    pair.requester.submit_ring(ReqHdr::inline(HandlerKey::MISSING, 0), &[]);
    pair.requester.submit_ring(ReqHdr::inline(ADD_KEY, 7), &[0]);
    pair.poll(3);
    let parts: [(&str, &[u8]); 3] = [
        ("a handler's fault: numbers 1, 2, 3 and its text", &pair.line(1, 38)),
        ("NO_HANDLER", &pair.line(2, 0)),
        ("BAD_ARGUMENTS", &pair.line(3, 0)),
    ];
    golden("fault_reply", "Answers without a value (abi §6)", &parts);
}
