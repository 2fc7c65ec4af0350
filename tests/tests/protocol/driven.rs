//! A device whose memory is read and written (docs/model.md, "Host-driven"): how many operations a call takes.

use hamr_comm::abi::ids::{Epoch, HandlerKey, NodeId};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::{DEVICE_WORDS, DeviceState, word};
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr, ReqHdr, SECOND_WORDS};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{Queue, Shared, Window};
use hamr_comm::am::{Requester, Responder, SlotAccess, Slots};
use hamr_comm::handshake::{HostHandshake, IdlePolicy, Offer};
use hamr_comm::mirror::{DrivenCopy, DrivenMemory, HostCopy, Lost, Mirror, Promises};
use hamr_comm::registry::Table;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const KEY: HandlerKey = HandlerKey(7);
const WINDOW: u64 = 1 << 16;
const EPOCH: Epoch = Epoch(1);
const PLAN: Plan = Plan {
    streams: 2,
    ring: 4,
    tickets: 2,
    chunk: 128,
    heap: 4096,
    table: 4096,
    log: 0,
    trace: 0,
    tasks: 1,
    host_chunk: 64,
    host_table: 64,
    ..Plan::NO_TASKS
};

/// An operation: is it a write, where, of how many bytes.
type Operation = (bool, u64, usize);

struct Counted {
    window: Window<Shared>,
    keeps: bool,
    operations: Arc<Mutex<Vec<Operation>>>,
}

impl Counted {
    fn note(&self, operation: Operation) {
        self.operations.lock().expect("nobody panics").push(operation);
    }
}

impl DrivenMemory for Counted {
    fn promises(&self) -> Promises {
        Promises { write_ascends: self.keeps, line_is_whole: self.keeps }
    }
    fn read(&mut self, off: u64, to: &mut [u8]) -> Result<(), Lost> {
        self.note((false, off, to.len()));
        Ok(self.window.read_bytes(off, to)?)
    }
    fn write(&mut self, off: u64, from: &[u8]) -> Result<(), Lost> {
        self.note((true, off, from.len()));
        Ok(self.window.write_bytes(off, from)?)
    }
}

struct Rig {
    mirror: Mirror<HostCopy<Shared>, DrivenCopy<Counted>>,
    layout: Layout,
    near: Window<Shared>,
    far: Window<Shared>,
    host: Requester<Queue<Shared>>,
    device: Responder<Queue<Shared>>,
    operations: Arc<Mutex<Vec<Operation>>>,
}

impl Rig {
    fn new(keeps: bool) -> Self {
        let [near, far] = [(); 2].map(|()| Window::private(WINDOW).share());
        let all = |of: &Window<Shared>| of.part(0, WINDOW).expect("all of it");
        let operations = Arc::default();
        let memory = Counted { window: all(&far), keeps, operations: Arc::clone(&operations) };
        let device = DrivenCopy::new(memory, WINDOW).expect("it is there");
        let mut mirror = Mirror::new(HostCopy::new(all(&near)), device);
        let offer = Offer {
            plan: PLAN,
            node: NodeId(1),
            features: 0,
            required: 0,
            fingerprint: 0,
            host_handlers: Table::of(Vec::new()),
            pid: 0,
            idle_policy: IdlePolicy::default(),
        };
        let layout = HostHandshake::offer(&near, &offer, EPOCH).expect("long enough").1;
        near.word(word::OPEN_QUEUES).expect("inside").publish(3);
        mirror.step().expect("both are there");
        let queue = |window: &Window<Shared>| {
            let mut queue = window.queue(&layout.queue(window, 1).expect("laid out")).expect("inside");
            queue.use_two_lines(true);
            queue
        };
        let (host, device) = (Requester::new(queue(&near), EPOCH), Responder::new(queue(&far), EPOCH));
        Self { mirror, layout, near, far, host, device, operations }
    }

    /// What the device's side wrote and read for slots and chunks of streams since.
    fn counts(&self) -> (usize, usize) {
        let tasks = self.layout.section(SectionKind::TASKS).expect("planned");
        let operations = std::mem::take(&mut *self.operations.lock().expect("nobody panics"));
        let is_of_calls =
            |(_, off, _): &&Operation| *off != DEVICE_WORDS && !(tasks.off..tasks.off + tasks.len).contains(off);
        let of_calls: Vec<&Operation> = operations.iter().filter(is_of_calls).collect();
        let writes = of_calls.iter().filter(|(is_write, ..)| *is_write).count();
        (writes, of_calls.len() - writes)
    }

    /// The counts of `calls` that were submitted, each answered by `reply`, behind which all are carried back.
    #[track_caller]
    fn carry(&mut self, calls: usize, reply: impl Fn(&Responder<Queue<Shared>>, u32, u32)) -> (usize, usize) {
        self.counts();
        self.mirror.to_device().expect("both are there");
        for _ in 0..calls {
            let found = self.device.next(true);
            assert!(found.is_some(), "carried");
            let Some(found) = found else { break };
            reply(&self.device, found.slot, found.seq);
        }
        let mut counts = self.counts();
        assert_eq!(counts.1, 0, "nothing is read to write it");
        self.mirror.step().expect("both are there");
        counts.1 = self.counts().1;
        counts
    }
}

fn empty(device: &Responder<Queue<Shared>>, slot: u32, seq: u32) {
    device.slot(slot).publish_reply(RepHdr::inline(Status::OK, 0).0, seq);
}

fn word_back(device: &Responder<Queue<Shared>>, slot: u32, seq: u32) {
    device.slot(slot).write_reply(&[99]);
    device.slot(slot).publish_reply(RepHdr::inline(Status::OK, 8).0, seq);
}

fn chunk_back(device: &Responder<Queue<Shared>>, slot: u32, seq: u32) {
    device.slots().write_reply_chunk(slot, &[5; 100]).expect("fits");
    device.slot(slot).write_reply(&[0, 100]);
    device.slot(slot).publish_reply(RepHdr::inline(Status::OK, 16).in_chunk().0, seq);
}

/// Writes and reads of each kind of call, where accesses keep what they promise, and where they promise nothing.
#[test]
fn a_call_takes_so_many_operations() {
    for keeps in [true, false] {
        let more = usize::from(!keeps);
        let mut rig = Rig::new(keeps);
        rig.host.submit_hot(ReqHdr::inline(KEY, 0), &[]);
        assert_eq!(rig.carry(1, empty), (1, 1), "an empty call");
        assert!(rig.host.hot_reply().is_some());
        rig.host.release_hot();

        let words: [u64; INLINE_WORDS + SECOND_WORDS] = std::array::from_fn(|i| i as u64 + 1);
        rig.host.submit_hot(ReqHdr::in_two_lines(KEY, 112), &words);
        assert_eq!(rig.carry(1, empty), (2 + more, 1), "two lines");
        assert!(rig.host.hot_reply().is_some());
        rig.host.release_hot();

        rig.host.submit_ring(ReqHdr::inline(KEY, 16), &[1, 2]);
        assert_eq!(rig.carry(1, word_back), (1 + more, 1 + more), "two words there, one back");

        rig.host.slots().write_request_chunk(2, &[&[7; 100]]).expect("fits");
        rig.host.submit_ring(ReqHdr::inline(KEY, 16).in_chunk(), &[0, 100]);
        assert_eq!(rig.carry(1, chunk_back), (2 + more, 2 + more), "a chunk each way");

        let tag = u64::from(EPOCH.tag()) << 24;
        let hdr = ReqHdr::inline(KEY, 16).with(ReqHdr::EXT | ReqHdr::TICKET);
        rig.host.slots().ticket_slot(0).expect("there").set_req_hdr(hdr.0);
        rig.host.submit_ring(hdr, &[(tag | 1) << 32, 0]);
        assert_eq!(rig.carry(1, empty), (2 + more, 1), "a task that ends in its slot");
    }
}

/// What is side by side goes together.
#[test]
fn calls_in_neighbouring_slots_are_one_write() {
    let mut rig = Rig::new(true);
    for x in 0..4u64 {
        rig.host.submit_ring(ReqHdr::inline(KEY, 8), &[x]);
    }
    let (writes, _) = rig.carry(4, word_back);
    assert_eq!(writes, 1);
}

/// A reply that was published before a state is carried before it, whatever is looked at first.
#[test]
fn replies_come_before_the_state_behind_them() {
    let mut rig = Rig::new(true);
    let calls: Vec<u64> = (0..3).map(|_| rig.host.submit_ring(ReqHdr::inline(KEY, 0), &[])).collect();
    rig.mirror.to_device().expect("both are there");
    for _ in &calls {
        let found = rig.device.next(true).expect("carried");
        empty(&rig.device, found.slot, found.seq);
    }
    rig.far.word(word::EPOCH_ACK).expect("inside").publish(EPOCH.0);
    rig.far.word(word::DEVICE_STATE).expect("inside").publish(DeviceState::STOPPED.0);
    let begin = Instant::now();
    while rig.near.word(word::DEVICE_STATE).expect("inside").observe() != DeviceState::STOPPED.0 {
        rig.mirror.step().expect("both are there");
        assert!(begin.elapsed() < Duration::from_secs(20), "the state is carried");
    }
    assert!(calls.iter().all(|x| rig.host.ring_reply(*x).is_some()), "before the state");
}
