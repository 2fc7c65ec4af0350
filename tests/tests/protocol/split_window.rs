//! Split placement (abi §4.6): where things lie, what a device refuses, and that neither side reads what the other polls.

use hamr_comm::abi::ids::{Epoch, HandlerKey, NodeId};
use hamr_comm::abi::layout::{Layout, Placement, Plan};
use hamr_comm::abi::preamble::{DeviceState, Preamble, Refusal, feature, word};
use hamr_comm::abi::queue::QueueDescriptor;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::{RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::tasks::TasksLayout;
use hamr_comm::abi::window::{Private, Queue, Slot, Window};
use hamr_comm::am::{MAX_QUEUES, Requester, Responder, SlotAccess, Slots};
use hamr_comm::handshake::{DeviceHandshake, DeviceProfile, HostHandshake, Offer};
use hamr_comm::registry::Table;
use std::cell::Cell;
use std::ops::Range;

const PLAN: Plan = Plan {
    streams: 2,
    ring: 4,
    tickets: 2,
    chunk: 64,
    tasks: 2,
    host_chunk: 128,
    host_table: 64,
    heap: 1 << 16,
    ..Plan::NO_TASKS
};

const BOTH: [Placement; 2] = [Placement::OneMemory, Placement::TwoMemories];

const PROFILE: DeviceProfile = DeviceProfile {
    tasks: 2,
    ..DeviceProfile::new(
        "split",
        feature::TICKETS | feature::TASKS | feature::HOST_CALLS | feature::SPLIT,
        MAX_QUEUES as u32,
    )
};

/// A window with an offer.
fn offered(placement: Placement) -> (Window<Private>, Layout) {
    let plan = Plan { placement, ..PLAN };
    let planned = Layout::plan(&plan).expect("allowed");
    let window = Window::private(planned.window_len().max(planned.at_host().end));
    // What an earlier epoch has left.
    window.write_bytes(0, &vec![0xAA; window.len() as usize]).expect("all of it");
    let offer = Offer {
        features: feature::TASKS | feature::HOST_CALLS,
        required: feature::TICKETS,
        ..Offer::new(plan, NodeId(1))
    };
    let (_, layout) = HostHandshake::offer(&window, &offer, Epoch::FIRST).expect("it is long enough");
    (window, layout)
}

fn queues(window: &Window<Private>, layout: &Layout) -> Vec<QueueDescriptor> {
    let tasks = TasksLayout::read(layout, window).expect("sound");
    let streams = (0..layout.queues()).map(|index| layout.queue(window, index).expect("sound"));
    streams.chain((0..tasks.queues()).map(|queue| tasks.queue(queue))).collect()
}

#[test]
fn both_sides_find_the_same_halves_and_none_overlaps() {
    for placement in BOTH {
        let (window, layout) = offered(placement);
        let read = Layout::of_window(&window).expect("a device accepts it");
        assert_eq!((read, read.at_host()), (layout, layout.at_host()));
        let (host, heap) = (layout.at_host(), layout.heap());
        assert!(host.start != 0 && (host.end <= heap.start) == (placement == Placement::OneMemory));
        assert_eq!(layout.host_memory().is_some(), placement == Placement::TwoMemories);
        let front = layout.sections().iter().filter(|section| section.kind != SectionKind::HEAP);
        assert!(
            front.clone().all(|section| section.off + section.len <= host.start),
            "what the device polls is before"
        );
        let mut ranges: Vec<Range<u64>> = vec![0..0x400, host.start..host.start + 0x400, heap];
        for (number, d) in (0..).zip(queues(&window, &layout)) {
            // Of host queues the host polls the requests.
            let (own, others) =
                if number < layout.queues() { (d.rep_base, d.req_base) } else { (d.req_base, d.rep_base) };
            assert_eq!(own, others + host.start, "{d:?}");
            for (base, chunks, chunk) in [
                (d.req_base, d.chunks, d.req_chunk),
                (d.rep_base, d.chunks.wrapping_add(d.rep_base).wrapping_sub(d.req_base), d.rep_chunk),
            ] {
                let slot =
                    |first: u32, count: u32| base + u64::from(first)..base + u64::from(first) + 64 * u64::from(count);
                ranges.extend([slot(d.hot, 1), slot(d.ring, d.ring_len), slot(d.tickets, d.ticket_slots)]);
                let skip = if base == d.req_base { 0 } else { u64::from(d.req_chunk) };
                let at = |slot: u64| chunks + slot * d.chunk_pair() + skip;
                ranges.extend((0..u64::from(d.slots())).map(|slot| at(slot)..at(slot) + u64::from(chunk)));
            }
        }
        ranges.retain(|range| !range.is_empty());
        ranges.sort_by_key(|range| range.start);
        assert!(ranges.windows(2).all(|two| two[0].end <= two[1].start), "{placement:?}: {ranges:x?}");
        assert!(ranges.last().is_some_and(|last| last.end <= window.len()));
    }
}

/// Words of an earlier epoch would be taken for messages of one 255 epochs later.
#[test]
fn an_offer_clears_what_either_side_polls() {
    for placement in BOTH {
        let (window, layout) = offered(placement);
        for d in queues(&window, &layout) {
            let queue = window.queue(&d).expect("inside");
            let ring = (0..queue.ring_len()).map(|i| queue.ring(i));
            let tickets = (0..queue.ticket_slots()).filter_map(|t| queue.ticket_slot(t));
            for slot in ring.chain(tickets).chain([queue.hot()]) {
                assert_eq!((slot.req_pair(), slot.rep_pair()), (0, 0));
            }
        }
        let wait = window.word(layout.split().device_wait()).expect("inside");
        assert_eq!(wait.load(), 0);
    }
}

#[test]
fn a_device_refuses_host_memory_that_it_does_not_map_or_that_is_in_use() {
    let step = |window: &Window<Private>, profile: &DeviceProfile| {
        let mut device = DeviceHandshake::Waiting;
        device.step(window, Table::EMPTY, profile);
        let state = DeviceState(window.word(word::DEVICE_STATE).expect("in the preamble").load());
        match device {
            DeviceHandshake::Refused(why, _) => Some(why.reason),
            DeviceHandshake::Accepted(_) => None,
            _ => panic!("{state:?}"),
        }
    };
    for placement in BOTH {
        let (window, layout) = offered(placement);
        assert_eq!(step(&window, &PROFILE), None);
        let (window, _) = offered(placement);
        let older = DeviceProfile { features: PROFILE.features & !feature::SPLIT, ..PROFILE };
        assert_eq!(step(&window, &older), Some(Refusal::FEATURES));
        let (host, heap) = (layout.at_host(), layout.heap());
        let len = host.end - host.start;
        for split in [
            0,
            64,
            host.start + 64,
            host.start - 4096,
            heap.start,
            heap.end - 4096,
            window.len().next_multiple_of(4096),
            window.len() - len + 4096,
            1 << 40,
            u64::MAX - 4095,
        ] {
            let (window, _) = offered(placement);
            let preamble: Preamble = window.read(0).expect("there");
            window.write(0, &Preamble { split, ..preamble }).expect("there");
            // Where the bytes could be what the host polls, the descriptors say otherwise.
            let refused = step(&window, &PROFILE);
            assert!(
                matches!(refused, Some(Refusal::WINDOW_LEN | Refusal::QUEUE)),
                "{placement:?}, {split:#x}: {refused:?}"
            );
        }
        // The feature and the number come together.
        for (required, split) in [(0, layout.split().distance()), (feature::SPLIT, 0)] {
            let (window, _) = offered(placement);
            let preamble: Preamble = window.read(0).expect("there");
            window.write(0, &Preamble { split, features_required: required, ..preamble }).expect("there");
            assert_eq!(step(&window, &PROFILE), Some(Refusal::WINDOW_LEN));
        }
        // A reply half that is not where the preamble says.
        let (window, layout) = offered(placement);
        let at = layout.section(SectionKind::QUEUES).expect("planned").off + 64;
        let d: QueueDescriptor = window.read(at).expect("there");
        for rep_base in [d.req_base, d.rep_base + 64, d.rep_base - 4096] {
            window.write(at, &QueueDescriptor { rep_base, ..d }).expect("there");
            assert!(layout.queue(&window, 1).is_err(), "{rep_base:#x}");
        }
    }
}

/// What a side has done with the halves of slots.
#[derive(Default, Debug, PartialEq, Eq, Clone, Copy)]
struct Accesses {
    req_loads: u32,
    req_stores: u32,
    rep_loads: u32,
    rep_stores: u32,
}

/// A queue pair that counts the accesses of one side.
struct Counted {
    slots: Queue<Private>,
    accesses: Cell<Accesses>,
}

#[derive(Clone, Copy)]
struct CountedSlot<'q> {
    slot: Slot<'q, Coherent>,
    accesses: &'q Cell<Accesses>,
}

impl Counted {
    fn new(slots: Queue<Private>) -> Self {
        Self { slots, accesses: Cell::default() }
    }

    fn slot<'q>(&'q self, slot: Slot<'q, Coherent>) -> CountedSlot<'q> {
        CountedSlot { slot, accesses: &self.accesses }
    }
}

impl<'q> CountedSlot<'q> {
    fn counted(self, count: impl FnOnce(&mut Accesses)) -> Slot<'q, Coherent> {
        let mut accesses = self.accesses.get();
        count(&mut accesses);
        self.accesses.set(accesses);
        self.slot
    }
}

impl Slots for Counted {
    const COUNT_BITS: u32 = <Queue<Private> as Slots>::COUNT_BITS;
    type Slot<'a> = CountedSlot<'a>;

    fn ring_len(&self) -> u32 {
        self.slots.ring_len()
    }
    fn hot(&self) -> CountedSlot<'_> {
        self.slot(self.slots.hot())
    }
    fn ring(&self, i: u32) -> CountedSlot<'_> {
        self.slot(self.slots.ring(i))
    }
    fn at_cursor(&self) -> CountedSlot<'_> {
        self.slot(self.slots.at_cursor())
    }
    fn move_cursor(&mut self, i: u32) {
        self.slots.move_cursor(i);
    }
    fn write_second(&self, bytes: &[u8]) {
        self.slots.write_second(bytes);
    }
    fn read_second(&self, words: &mut [u64]) {
        self.slots.read_second(words);
    }
    fn ticket_slot(&self, t: u32) -> Option<CountedSlot<'_>> {
        self.slots.ticket_slot(t).map(|slot| self.slot(slot))
    }
}

impl SlotAccess for CountedSlot<'_> {
    fn req_seq(self) -> u32 {
        self.counted(|a| a.req_loads += 1).req_seq()
    }
    fn req_hdr(self) -> u32 {
        self.counted(|a| a.req_loads += 1).req_hdr()
    }
    fn req_hdr_of(self, seq: u32) -> Option<u32> {
        self.counted(|a| a.req_loads += 1).req_hdr_of(seq)
    }
    fn publish_request(self, hdr: u32, seq: u32) {
        self.counted(|a| a.req_stores += 1).publish_request(hdr, seq);
    }
    fn rep_seq(self) -> u32 {
        self.counted(|a| a.rep_loads += 1).rep_seq()
    }
    fn rep_hdr(self) -> u32 {
        self.counted(|a| a.rep_loads += 1).rep_hdr()
    }
    fn rep_hdr_of(self, seq: u32) -> Option<u32> {
        self.counted(|a| a.rep_loads += 1).rep_hdr_of(seq)
    }
    fn publish_reply(self, hdr: u32, seq: u32) {
        self.counted(|a| a.rep_stores += 1).publish_reply(hdr, seq);
    }
    fn write_request(self, words: &[u64]) {
        self.counted(|a| a.req_stores += u32::from(!words.is_empty())).write_request(words);
    }
    fn read_request(self, words: &mut [u64]) {
        self.counted(|a| a.req_loads += 1).read_request(words);
    }
    fn write_reply(self, words: &[u64]) {
        self.counted(|a| a.rep_stores += u32::from(!words.is_empty())).write_reply(words);
    }
    fn read_reply(self, words: &mut [u64]) {
        self.counted(|a| a.rep_loads += 1).read_reply(words);
    }
    fn set_req_hdr(self, hdr: u32) {
        self.counted(|a| a.req_stores += 1).set_req_hdr(hdr);
    }
}

/// Calls in the hot slot and in a ring that wraps: each side stores what the other polls, and loads its own only.
#[test]
fn no_side_loads_what_the_other_polls() {
    const CALLS: u32 = 40;
    for placement in BOTH {
        let (window, layout) = offered(placement);
        let d = layout.queue(&window, 1).expect("sound");
        let slots = || Counted::new(window.queue(&d).expect("inside"));
        let (mut host, mut device) = (Requester::new(slots(), Epoch::FIRST), Responder::new(slots(), Epoch::FIRST));
        device.clear();
        for call in 0..CALLS {
            let is_hot = call % 3 == 0;
            let hdr = ReqHdr::inline(HandlerKey(1), 8);
            if is_hot {
                assert!(host.hot_is_open());
                host.submit_hot(hdr, &[u64::from(call)]);
            } else {
                assert!(host.ring_has_room());
                host.submit_ring(hdr, &[u64::from(call)]);
            }
            let found = device.next(true).expect("it is there");
            let mut words = [0; 1];
            device.slot(found.slot).read_request(&mut words);
            assert_eq!(words, [u64::from(call)]);
            device.slot(found.slot).write_reply(&[u64::from(call) + 1]);
            device.slot(found.slot).publish_reply(RepHdr::inline(Status::OK, 8).0, found.seq);
            let mut words = [0; 1];
            if is_hot {
                assert!(host.hot_reply().is_some());
                host.slots().hot().read_reply(&mut words);
                host.release_hot();
            } else {
                let x = host.oldest().expect("one is in flight");
                assert!(host.ring_reply(x).is_some());
                host.slots().ring(x as u32).read_reply(&mut words);
                host.release_oldest();
            }
            assert_eq!(words, [u64::from(call) + 1]);
        }
        let (host, device) = (host.slots().accesses.get(), device.slots().accesses.get());
        assert_eq!((host.req_loads, host.rep_stores), (0, 0), "{host:?}");
        assert_eq!(device.rep_loads, 0, "{device:?}");
        assert_eq!(device.req_stores, 0, "{device:?}");
        assert_eq!(host.req_stores, 2 * CALLS, "payload, and header with word");
        // The halves that are of no use stay as they were laid out.
        for slot in [d.hot, d.ring] {
            let read = |base: u64, at: u64| window.read::<u64>(base + u64::from(slot) + at).expect("inside");
            assert_eq!((read(d.req_base, 48), read(d.rep_base, 56)), (0, 0));
            assert!(read(d.req_base, 56) != 0 && read(d.rep_base, 48) != 0);
        }
    }
}
