//! A mirror between two copies of a window, each with one end of the protocol alone: what crosses, in which order, and
//! what is refused.

mod epochs;

use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::preamble::{
    DEVICE_RECORD, DeviceRecord, DeviceState, HostState, MAGIC, PREAMBLE_BYTES, Preamble, feature, word,
};
use hamr_comm::abi::rings::RingHeader;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr, ReqHdr, SECOND_WORDS};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::tasks::TasksLayout;
use hamr_comm::abi::window::{Queue, Shared, Window};
use hamr_comm::am::{Requester, Responder, SlotAccess, Slots};
use hamr_comm::handshake::Takeover;
use hamr_comm::mirror::{
    Body, DeviceCopy, DeviceSide, Half, HostCopy, Lost, MOST_LOOK, Message, Mirror, NotifyOwner, Side,
};
use hamr_tests::conformance::Random;
use hamr_tests::driving::{self, KEY, SMALL as PLAN, again, copies, get, set};
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const WINDOW: u64 = 1 << 16;

fn offer(window: &Window<Shared>, epoch: Epoch) -> Layout {
    driving::offer(window, PLAN, epoch)
}

/// Two copies and what is between them, in an epoch.
struct Rig {
    near: Window<Shared>,
    far: Window<Shared>,
    mirror: Mirror<HostCopy<Shared>, DeviceCopy<Shared>>,
    layout: Layout,
}

impl Rig {
    fn new(epoch: Epoch) -> Self {
        Self::with(epoch, 0, |host, device| (host, device))
    }

    fn with(
        epoch: Epoch,
        features: u32,
        sides: impl FnOnce(HostCopy<Shared>, DeviceCopy<Shared>) -> (HostCopy<Shared>, DeviceCopy<Shared>),
    ) -> Self {
        let [near, far] = copies(WINDOW);
        let (host, device) = sides(HostCopy::new(again(&near)), DeviceCopy::new(again(&far)));
        let mirror = Mirror::new(host, device);
        let layout = driving::offer_with(&near, PLAN, features, epoch);
        let mut rig = Self { near, far, mirror, layout };
        rig.near.word(word::OPEN_QUEUES).expect("inside").publish(3);
        rig.step();
        rig
    }

    fn step(&mut self) {
        self.mirror.step().expect("both are there");
    }

    fn ends(&self, epoch: Epoch) -> (Requester<Queue<Shared>>, Responder<Queue<Shared>>) {
        driving::ends(&self.layout, &self.near, &self.far, 1, epoch)
    }
}

fn ok() -> RepHdr {
    RepHdr::inline(Status::OK, 8)
}

#[test]
fn requests_and_replies_cross_with_all_that_belongs_to_them() {
    let mut rig = Rig::new(Epoch(1));
    let (mut host, mut device) = rig.ends(Epoch(1));
    // Two lines.
    let words: [u64; INLINE_WORDS + SECOND_WORDS] = std::array::from_fn(|i| i as u64 + 1);
    host.submit_hot(ReqHdr::in_two_lines(KEY, 112), &words);
    rig.step();
    let found = device.next(true).expect("carried");
    let mut second = [0; SECOND_WORDS];
    device.slots().read_second(&mut second);
    assert_eq!([&device.slot(found.slot).request_words()[..], &second].concat(), words);
    device.slot(found.slot).write_reply(&[99]);
    device.slot(found.slot).publish_reply(ok().0, found.seq);
    rig.step();
    assert_eq!(host.hot_reply().map(|hdr| hdr.0), Some(ok().0));
    assert_eq!(host.slots().hot().reply_words()[0], 99);
    // A chunk each way.
    let bytes: [u8; 100] = std::array::from_fn(|i| i as u8);
    host.slots().write_request_chunk(1, &[&bytes]).expect("fits");
    let x = host.submit_ring(ReqHdr::inline(KEY, 16).in_chunk(), &[0, 100]);
    rig.step();
    let (found, mut there) = (device.next(true).expect("carried"), [0; 100]);
    device.slots().read_request_chunk(found.slot, &mut there).expect("fits");
    assert_eq!(there, bytes);
    device.slots().write_reply_chunk(found.slot, &there[..50]).expect("fits");
    device.slot(found.slot).write_reply(&[0, 50]);
    device.slot(found.slot).publish_reply(RepHdr::inline(Status::OK, 16).in_chunk().0, found.seq);
    rig.step();
    assert!(host.ring_reply(x).is_some());
    host.slots().read_reply_chunk(1, &mut there[..50]).expect("fits");
    assert_eq!(there, bytes);
}

#[test]
fn replies_come_in_the_order_of_their_requests() {
    let mut rig = Rig::new(Epoch(1));
    let (mut host, mut device) = rig.ends(Epoch(1));
    let ordered: Vec<u64> = (0..2).map(|_| host.submit_ring(ReqHdr::inline(KEY, 0), &[])).collect();
    let unordered = host.submit_ring(ReqHdr::inline(KEY, 0).with(ReqHdr::UNORDERED), &[]);
    rig.step();
    let found: Vec<_> = (0..3).map(|_| device.next(true).expect("carried")).collect();
    let reply = |n: usize| device.slot(found[n].slot).publish_reply(RepHdr::inline(Status::OK, 0).0, found[n].seq);
    reply(1);
    reply(2);
    rig.step();
    assert!(host.ring_reply(ordered[1]).is_none(), "the first is not answered");
    assert!(host.ring_reply(unordered).is_some());
    reply(0);
    rig.step();
    assert!(ordered.iter().all(|x| host.ring_reply(*x).is_some()) && host.is_quiet());
}

/// Whoever reads the reply of a fault looks at once whether the epoch has ended by it. Of two, one may be older than the state.
#[test]
fn the_reply_of_a_fault_comes_behind_the_state_that_it_has_left() {
    const CRASHED: u32 = 1000 + DeviceState::CRASHED.0;
    const STOPPED: u32 = 1000 + DeviceState::STOPPED.0;
    let ([a, b, c], order) = order_behind_a_crash(DeviceState::CRASHED, HostState::OFFERED);
    assert!(order == [a, b, CRASHED, c] || order == [b, a, CRASHED, c], "{order:?}");
    // The host gives calls up at once when it finds STOPPED, and not when it finds CRASHED.
    let ([a, b, c], order) = order_behind_a_crash(DeviceState::STOPPED, HostState::OFFERED);
    assert!(order == [a, b, CRASHED, c, STOPPED] || order == [b, a, CRASHED, c, STOPPED], "{order:?}");
    // It was asked to leave.
    let ([a, b, c], order) = order_behind_a_crash(DeviceState::STOPPED, HostState::CLOSING);
    assert_eq!(order, [a, b, c, STOPPED]);
}

/// Slots whose replies a device publishes, of a fault, of a good one and of the fault that leaves a state; and what of it is carried,
/// states as 1000 more, in which order.
fn order_behind_a_crash(left: DeviceState, host_state: HostState) -> ([u32; 3], Vec<u32>) {
    let [near, far] = copies(WINDOW);
    let (mut host, mut device) = (HostCopy::new(again(&near)), DeviceCopy::new(again(&far)));
    let layout = offer(&near, Epoch(1));
    set(&near, word::OPEN_QUEUES, 2);
    let queue = |window: &Window<Shared>| window.queue(&layout.queue(window, 1).expect("laid out")).expect("inside");
    let mut calls = Requester::new(queue(&near), Epoch(1));
    (0..3).for_each(|_| _ = calls.submit_ring(ReqHdr::inline(KEY, 0).with(ReqHdr::UNORDERED), &[]));
    let mut message = Message::default();
    while host.take(&mut message).expect("a window") {
        device.put(&message).expect("of this layout");
    }
    set(&far, word::EPOCH_ACK, 1);
    let mut serves = Responder::new(queue(&far), Epoch(1));
    let found = [(); 3].map(|()| serves.next(true).expect("carried"));
    let fault = RepHdr::inline(Status::TRAP, 0).with(RepHdr::FAULT);
    for (found, hdr) in found.iter().zip([fault, RepHdr::inline(Status::OK, 0), fault]) {
        set(&far, word::DEVICE_STATE, DeviceState::CRASHED.0);
        serves.slot(found.slot).publish_reply(hdr.0, found.seq);
    }
    set(&far, word::DEVICE_STATE, left.0);
    set(&far, word::HOST_STATE, host_state.0);
    let mut order = Vec::new();
    while device.take(&mut message).expect("a window") {
        order.push(match &message.body {
            Body::State(1, state) => 1000 + *state,
            Body::Half(half) => half.slot,
            _ => panic!("a reply or a state"),
        });
    }
    (found.map(|found| found.slot), order)
}

/// The device publishes both while the side looks for replies.
#[test]
fn the_reply_of_a_fault_does_not_overtake_its_state() {
    const CALLS: u32 = 20_000;
    const GIVEN_UP: u32 = u32::MAX;
    let [near, far] = copies(WINDOW);
    let (mut host, mut device) = (HostCopy::new(again(&near)), DeviceCopy::new(again(&far)));
    let layout = offer(&near, Epoch(1));
    set(&near, word::OPEN_QUEUES, 2);
    let queue = |window: &Window<Shared>| window.queue(&layout.queue(window, 1).expect("laid out")).expect("inside");
    let (mut calls, mut message) = (Requester::new(queue(&near), Epoch(1)), Message::default());
    assert!(host.take(&mut message).expect("an offer"));
    device.put(&message).expect("sound");
    set(&far, word::EPOCH_ACK, 1);
    let (carried, mut order, mut overtaken) = (AtomicU32::new(0), Vec::new(), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut serves = Responder::new(queue(&far), Epoch(1));
            let fault = RepHdr::inline(Status::TRAP, 0).with(RepHdr::FAULT);
            for number in 1..=CALLS {
                let found = loop {
                    match serves.next(true) {
                        Some(found) => break found,
                        None if carried.load(Ordering::Relaxed) == GIVEN_UP => return,
                        None => std::thread::yield_now(),
                    }
                };
                set(&far, word::DEVICE_STATE, DeviceState::CRASHED.0);
                serves.slot(found.slot).publish_reply(fault.0, found.seq);
                while carried.load(Ordering::Acquire) < number {
                    std::thread::yield_now();
                }
            }
        });
        let mut carry = || -> Result<(), Lost> {
            for number in 1..=CALLS {
                set(&far, word::DEVICE_STATE, DeviceState::SERVING.0);
                device.take(&mut message)?;
                calls.submit_ring(ReqHdr::inline(KEY, 0), &[]);
                while !host.take(&mut message)? {}
                device.put(&message)?;
                order.clear();
                let mut looks = 0_u32;
                while order.len() != 2 {
                    if device.take(&mut message)? {
                        order.push(matches!(message.body, Body::State(..)));
                        host.put(&message)?;
                    }
                    looks += 1;
                    match looks {
                        looks if looks > 1 << 28 => return Err(Lost("expected a reply and a state, got fewer".into())),
                        looks if looks.is_multiple_of(64) => std::thread::yield_now(),
                        _ => {}
                    }
                }
                overtaken += u32::from(order != [true, false]);
                carried.store(number, Ordering::Release);
            }
            Ok(())
        };
        let done = carry();
        carried.store(GIVEN_UP, Ordering::Release);
        done.expect("both are there");
    });
    assert_eq!(overtaken, 0, "of {CALLS} replies");
}

/// Each look finds something in the first stream.
#[test]
fn no_queue_pair_waits_for_the_end_of_another() {
    const LOOKS: usize = 64;
    let mut rig = Rig::new(Epoch(1));
    let tasks = TasksLayout::read(&rig.layout, &rig.near).expect("planned");
    let queue = |window: &Window<Shared>, number| {
        window.queue(&rig.layout.queue(window, number).expect("laid out")).expect("inside")
    };
    let [mut busy, mut other] = [1, 2].map(|number| Requester::new(queue(&rig.near, number), Epoch(1)));
    let [mut serves, mut serves_other] = [1, 2].map(|number| Responder::new(queue(&rig.far, number), Epoch(1)));
    let of_device = rig.far.queue(&tasks.queue(0)).expect("inside");
    let mut of_device = Requester::new(of_device, Epoch(1));
    let (mut message, hdr) = (Message::default(), ReqHdr::inline(KEY, 0));
    let answer = |of: &mut Responder<Queue<Shared>>| {
        while let Some(found) = of.next(true) {
            of.slot(found.slot).publish_reply(ok().0, found.seq);
        }
    };
    other.submit_hot(hdr, &[]);
    of_device.submit_hot(hdr, &[]);
    let (host, device) = rig.mirror.sides();
    let mut came = [None; 3];
    for look in 0..LOOKS {
        busy.submit_ring(hdr, &[]);
        let mut carry =
            |from: &mut dyn Side, to: &mut dyn Side, awaited: [(u16, bool); 2], came: &mut [Option<usize>]| {
                assert!(from.take(&mut message).is_ok_and(|is_there| is_there));
                to.put(&message).expect("it fits");
                for (came, of) in came.iter_mut().zip(awaited) {
                    if matches!(message.body, Body::Half(half) if (half.queue, half.of_host) == of) {
                        came.get_or_insert(look);
                    }
                }
            };
        carry(host, device, [(2, false); 2], &mut came[..1]);
        answer(&mut serves);
        answer(&mut serves_other);
        carry(device, host, [(2, false), (0, true)], &mut came[1..]);
    }
    assert!(came.iter().all(Option::is_some), "a request, its reply and a call of the device came at {came:?}");
}

/// A call with a ticket whose reply came in the request's slot, then one that moves, and is cancelled there.
#[test]
fn a_ticket_slot_belongs_to_one_call() {
    let mut rig = Rig::new(Epoch(1));
    let (mut host, mut device) = rig.ends(Epoch(1));
    let tag = u32::from(Epoch(1).tag()) << 24;
    let ticket = 1 + host.slots().ring_len();
    for moves in [false, true] {
        let hdr = ReqHdr::inline(KEY, 16).with(ReqHdr::EXT | ReqHdr::TICKET);
        // EXT: the reply's word, and ticket 0.
        let ext = [u64::from(tag | 1) << 32, 0];
        host.slots().ticket_slot(0).expect("there").set_req_hdr(hdr.0);
        let x = host.submit_ring(hdr, &ext);
        rig.step();
        let found = device.next(true).expect("carried");
        let at = device.slots().ticket_slot(0).expect("there");
        assert_eq!(at.req_hdr(), hdr.0, "no CANCEL of an earlier call");
        host.slots().ticket_slot(0).expect("there").set_req_hdr(hdr.with(ReqHdr::CANCEL).0);
        rig.step();
        assert!(ReqHdr(at.req_hdr()).has(ReqHdr::CANCEL));
        let reply = if moves { RepHdr::taken(4) } else { RepHdr::inline(Status::OK, 0) };
        device.slot(found.slot).publish_reply(reply.0, found.seq);
        rig.step();
        assert_eq!(host.ring_reply(x).map(|hdr| hdr.0), Some(reply.0));
        let near = || host.slots().ticket_slot(0).expect("there").rep_hdr_of(tag | 1);
        assert!(near().is_none(), "{ticket}");
        device.slot(ticket).publish_reply(RepHdr::inline(Status::CANCELLED, 0).0, tag | 1);
        rig.step();
        // Of the first call nothing looks there any more.
        assert_eq!(near().is_some(), moves);
        device.slot(ticket).publish_reply(0, 0);
    }
}

#[test]
fn an_epoch_of_the_same_tag_finds_nothing_of_the_last_one() {
    let mut rig = Rig::new(Epoch(1));
    let (mut host, mut device) = rig.ends(Epoch(1));
    host.submit_hot(ReqHdr::inline(KEY, 0), &[]);
    host.submit_ring(ReqHdr::inline(KEY, 0), &[]);
    rig.step();
    assert!(device.has_next());
    let next = Epoch(256);
    assert_eq!(next.tag(), Epoch(1).tag());
    rig.far.word(word::EPOCH_ACK).expect("inside").publish(1);
    rig.far.word(word::DEVICE_STATE).expect("inside").publish(DeviceState::STOPPED.0);
    offer(&rig.near, next);
    rig.step();
    (host, device) = rig.ends(next);
    assert!(!device.has_next(), "carried in the last epoch");
    rig.near.word(word::OPEN_QUEUES).expect("inside").publish(2);
    host.submit_hot(ReqHdr::inline(KEY, 0), &[]);
    rig.step();
    assert_eq!(device.next(true).map(|found| found.slot), Some(0));
}

#[test]
fn an_offer_before_the_device_has_left_is_refused() {
    let mut rig = Rig::new(Epoch(1));
    offer(&rig.near, Epoch(2));
    let Err(Lost(why)) = rig.mirror.step() else { panic!("it was laid out under a device") };
    assert!(why.contains("before the device has left epoch 1"), "{why}");
}

fn half(random: &mut Random) -> Half {
    let any = |random: &mut Random, most: u64| if random.below(8) == 0 { random.number() } else { random.below(most) };
    Half {
        queue: any(random, 4) as u16,
        of_host: random.below(2) == 0,
        header_alone: random.below(8) == 0,
        slot: any(random, 9) as u32,
        hdr: random.number() as u32,
        word: 1 << 24 | random.below(4) as u32,
        payload: std::array::from_fn(|_| any(random, 200)),
    }
}

/// What a peer sends is a message or none: it is refused, dropped, or lands in its slot.
#[test]
fn no_message_of_a_peer_does_more_than_a_slot_may() {
    let mut random = Random(7);
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..200 {
        let rig = Rig::new(Epoch(1));
        let (mut host, mut device) = (HostCopy::new(again(&rig.near)), DeviceCopy::new(again(&rig.far)));
        let mut message = Message::default();
        assert!(host.take(&mut message).expect("an offer"));
        device.renew();
        device.put(&message).expect("sound");
        // Bytes behind the sections: the heap, and the last page.
        let heap = rig.layout.heap();
        for _ in 0..300 {
            message.body = Body::Half(half(&mut random));
            message.second = [random.number(); SECOND_WORDS];
            message.bytes.resize(random.below(300) as usize, 0xEE);
            for outcome in [device.put(&message), host.put(&message)] {
                refused += u32::from(outcome.is_err());
            }
            let mut back = Message::default();
            while device.take(&mut back).expect("there") {
                taken += 1;
                host.put(&back).expect("sound");
            }
        }
        for window in [&rig.near, &rig.far] {
            let mut bytes = vec![0; (heap.end - heap.start) as usize];
            window.read_bytes(heap.start, &mut bytes).expect("inside");
            assert!(bytes.iter().all(|byte| *byte == 0), "a byte of the heap");
        }
    }
    assert!(refused > 1000 && taken > 0, "{refused} {taken}");
}

/// Offers that are cut or changed.
#[test]
fn no_offer_does_more_than_the_window_has_room_for() {
    let near = Window::private(WINDOW).share();
    offer(&near, Epoch(1));
    let mut sound = Message::default();
    assert!(HostCopy::new(near).take(&mut sound).expect("an offer"));
    let mut random = Random(3);
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut device = DeviceCopy::new(Window::private(random.below(2) * WINDOW / 2 + WINDOW / 2).share());
        let mut message = Message { body: Body::Offer, bytes: sound.bytes.clone(), ..Message::default() };
        for _ in 0..random.below(4) {
            let at = random.below(PREAMBLE_BYTES + 256) as usize;
            message.bytes[at] ^= 1 << random.below(8);
        }
        if random.below(4) == 0 {
            message.bytes.truncate(random.below(message.bytes.len() as u64 + 1) as usize);
        }
        refused += u32::from(matches!(device.put(&message), Err(Lost(why)) if !why.is_empty()));
        let mut back = Message::default();
        let _ = device.take(&mut back);
    }
    assert!(refused > 2000, "{refused}");
}

/// A doorbell, and how often its owner was notified.
fn doorbell() -> (NotifyOwner, Arc<AtomicU32>) {
    let count = Arc::new(AtomicU32::new(0));
    let counts = count.clone();
    (Box::new(move || _ = counts.fetch_add(1, Ordering::Relaxed)), count)
}

fn notified(count: &AtomicU32) -> u32 {
    count.swap(0, Ordering::Relaxed)
}

/// A rig of two doorbells, whose device has accepted the doorbell and serves.
fn rig_with_doorbells() -> (Rig, [Arc<AtomicU32>; 2]) {
    let (of_host, host) = doorbell();
    let (of_device, device) = doorbell();
    let mut rig =
        Rig::with(Epoch(1), feature::DOORBELL, |h, d| (h.with_doorbell(of_host), d.with_doorbell(of_device, 0x77)));
    let features = DEVICE_RECORD + offset_of!(DeviceRecord, features) as u64;
    set(&rig.far, features, feature::DOORBELL);
    for state in [DeviceState::ACCEPTED, DeviceState::SERVING] {
        set(&rig.far, word::EPOCH_ACK, 1);
        set(&rig.far, word::DEVICE_STATE, state.0);
        rig.step();
    }
    assert_eq!(get(&rig.far, word::HOST_DOORBELL), 0x77);
    assert_eq!(get(&rig.near, features), feature::DOORBELL);
    (rig, [host, device])
}

#[test]
fn a_side_that_sleeps_is_notified_and_notifies_sleepers() {
    let (mut rig, [to_host, to_device]) = rig_with_doorbells();
    let (mut host, mut device) = rig.ends(Epoch(1));
    notified(&to_host);
    notified(&to_device);
    // Its own wait words are odd, and fresh before each sleep.
    let words = [(&rig.near, word::DEVICE_WAIT), (&rig.far, word::HOST_WAIT)]
        .map(|(of, off)| (of.part(0, WINDOW).expect("all"), off));
    let load = || words.each_ref().map(|(window, off)| get(window, *off));
    assert!(rig.mirror.prepare_wait(), "both are notified");
    let first = load();
    assert!(first.iter().all(|word| word & 1 == 1), "{first:?}");
    assert!(rig.mirror.prepare_wait());
    let second = load();
    assert!(second.iter().zip(first).all(|(word, before)| word & 1 == 1 && *word != before), "{second:?}");
    rig.mirror.cancel_wait();
    assert!(load().iter().all(|word| word & 1 == 0));
    // A device that polls is not notified of a request, one that sleeps is.
    for sleeps in [false, true] {
        set(&rig.far, word::DEVICE_WAIT, u32::from(sleeps));
        let x = host.submit_ring(ReqHdr::inline(KEY, 0), &[]);
        rig.step();
        assert_eq!(notified(&to_device), u32::from(sleeps));
        // Likewise a host of a reply.
        set(&rig.near, word::HOST_WAIT, u32::from(sleeps));
        let found = device.next(true).expect("carried");
        device.slot(found.slot).publish_reply(RepHdr::inline(Status::OK, 0).0, found.seq);
        rig.step();
        assert_eq!(notified(&to_host), u32::from(sleeps));
        assert!(host.ring_reply(x).is_some());
    }
    // For one odd value once.
    host.submit_ring(ReqHdr::inline(KEY, 0), &[]);
    rig.step();
    assert_eq!(notified(&to_device), 0);
}

/// Wait words of host queues are each copy's own.
#[test]
fn a_host_that_sleeps_is_notified_of_calls_of_the_device() {
    let (mut rig, [to_host, _]) = rig_with_doorbells();
    let tasks = TasksLayout::read(&rig.layout, &rig.near).expect("planned");
    let waits: Vec<_> = (0..tasks.queues()).map(|queue| tasks.wait_word(queue)).collect();
    rig.mirror.prepare_wait();
    let first: Vec<_> = waits.iter().map(|off| get(&rig.far, *off)).collect();
    rig.mirror.prepare_wait();
    let second: Vec<_> = waits.iter().map(|off| get(&rig.far, *off)).collect();
    assert!(
        first.iter().zip(&second).all(|(first, second)| first != second && second & 1 == 1),
        "{first:?} {second:?}"
    );
    let queue = |window: &Window<Shared>| window.queue(&tasks.queue(1)).expect("inside");
    let (mut device, mut host) =
        (Requester::new(queue(&rig.far), Epoch(1)), Responder::new(queue(&rig.near), Epoch(1)));
    for sleeps in [false, true] {
        set(&rig.near, waits[1], u32::from(sleeps));
        notified(&to_host);
        device.submit_ring(ReqHdr::inline(KEY, 0), &[]);
        rig.step();
        assert!(host.next(true).is_some());
        assert_eq!(notified(&to_host), u32::from(sleeps));
    }
}

#[test]
fn a_copy_without_a_doorbell_offers_none() {
    let (of_host, _) = doorbell();
    let mut rig = Rig::with(Epoch(1), feature::DOORBELL, |h, d| (h.with_doorbell(of_host), d));
    let offered = offset_of!(Preamble, features_offered) as u64;
    assert_eq!([&rig.near, &rig.far].map(|of| get(of, offered) & feature::DOORBELL), [feature::DOORBELL, 0]);
    set(&rig.far, word::EPOCH_ACK, 1);
    set(&rig.far, word::DEVICE_STATE, DeviceState::ACCEPTED.0);
    rig.step();
    // The mirror is notified, whoever the device is.
    let features = DEVICE_RECORD + offset_of!(DeviceRecord, features) as u64;
    assert_eq!(get(&rig.near, features), feature::DOORBELL);
    assert!(!rig.mirror.prepare_wait(), "the device notifies nobody");
}

#[test]
fn words_of_a_log_and_looks_cross() {
    let mut rig = Rig::new(Epoch(1));
    let log = rig.layout.section(SectionKind::LOG).expect("planned").off;
    for (off, value) in [(RingHeader::LEVEL, 3), (RingHeader::CONSUMED, 40), (RingHeader::READER, 1)] {
        set(&rig.near, log + off, value);
        rig.step();
        assert_eq!(get(&rig.far, log + off), value);
    }
    rig.far.write_bytes(log + 64, b"seen").expect("inside");
    let looks = rig.mirror.sides().0.looks().clone();
    let seen = std::thread::scope(|scope| {
        let look = scope.spawn(|| looks.look(log + 64, 4, Duration::from_secs(20), || {}));
        while !look.is_finished() {
            rig.step();
        }
        look.join().expect("no panic")
    });
    assert_eq!(seen.as_deref(), Some(&b"seen"[..]));
    assert!(looks.look(log, MOST_LOOK + 1, Duration::ZERO, || {}).is_none());
    // The answer to one that was given up is nobody's.
    assert!(looks.look(log, 4, Duration::ZERO, || rig.step()).is_none_or(|seen| seen.len() == 4));
    rig.step();
    looks.end();
    assert!(looks.look(log, 4, Duration::from_secs(20), || {}).is_none());
}

#[test]
fn looks_are_before_the_heap_and_not_without_number() {
    let rig = Rig::new(Epoch(1));
    let all = |of: &Window<Shared>| of.part(0, WINDOW).expect("all of it");
    let mut message = Message::default();
    let mut sound = HostCopy::new(all(&rig.near));
    assert!(sound.take(&mut message).expect("an offer"));
    let (heap, look) = (rig.layout.heap().start, |body| Message { body, ..Message::default() });
    for (off, len) in [(heap - 4, 8), (heap, 1), (u64::MAX, 2), (0, MOST_LOOK + 1)] {
        let mut device = DeviceCopy::new(Window::private(WINDOW).share());
        device.put(&message).expect("sound");
        let asked = device.put(&look(Body::Look(off, len)));
        assert!(asked.is_err() || device.take(&mut Message::default()).is_err(), "{len} bytes at {off:#x}");
    }
    let mut device = DeviceCopy::new(all(&rig.far));
    let asked: Result<(), Lost> = (0..1000).try_for_each(|_| device.put(&look(Body::Look(0, 4))));
    assert!(asked.is_err());
    // And an answer is one to a look.
    assert!(sound.put(&look(Body::Seen(0))).is_err());
}
