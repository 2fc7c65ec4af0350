//! A device whose memory is read and written (docs/model.md, "Host-driven"): how many operations a call takes.

use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::{DEVICE_WORDS, DeviceState, word};
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr, ReqHdr, SECOND_WORDS};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{Queue, Shared, Window};
use hamr_comm::am::{Requester, Responder, SlotAccess, Slots};
use hamr_comm::mirror::{DrivenCopy, HostCopy, Mirror};
use hamr_tests::driving::{Counted, KEY, Operation, Operations, SMALL, again, copies, ends, offer};
use std::time::{Duration, Instant};

const WINDOW: u64 = 1 << 16;
const EPOCH: Epoch = Epoch(1);
const PLAN: Plan = Plan { log: 0, ..SMALL };

struct Rig {
    mirror: Mirror<HostCopy<Shared>, DrivenCopy<Counted>>,
    layout: Layout,
    near: Window<Shared>,
    far: Window<Shared>,
    host: Requester<Queue<Shared>>,
    device: Responder<Queue<Shared>>,
    operations: Operations,
}

impl Rig {
    fn new(keeps: bool) -> Self {
        let [near, far] = copies(WINDOW);
        let operations = Operations::default();
        let memory = Counted { memory: again(&far), keeps, operations: operations.clone() };
        let device = DrivenCopy::new(memory, WINDOW).expect("it is there");
        let mut mirror = Mirror::new(HostCopy::new(again(&near)), device);
        let layout = offer(&near, PLAN, EPOCH);
        near.word(word::OPEN_QUEUES).expect("inside").publish(3);
        mirror.step().expect("both are there");
        let (host, device) = ends(&layout, &near, &far, 1, EPOCH);
        Self { mirror, layout, near, far, host, device, operations }
    }

    /// What the device's side wrote and read for slots and chunks of streams since.
    fn counts(&self) -> (usize, usize) {
        let tasks = self.layout.section(SectionKind::TASKS).expect("planned");
        let operations = std::mem::take(&mut *self.operations.lock().expect("nobody panics"));
        let of_calls = operations.iter().filter_map(|operation| match *operation {
            Operation::Pull(off, _) => Some((false, off)),
            Operation::Push(off, _) => Some((true, off)),
            Operation::Load(_) | Operation::Store(_) => None,
        });
        let is_of_calls =
            |(_, off): &(bool, u64)| *off != DEVICE_WORDS && !(tasks.off..tasks.off + tasks.len).contains(off);
        let of_calls: Vec<_> = of_calls.filter(is_of_calls).collect();
        let writes = of_calls.iter().filter(|(is_write, _)| *is_write).count();
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
