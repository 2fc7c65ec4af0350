//! A device that drives its host's memory (docs/model.md, "Device-driven"): which operations a call takes, and what is found when.

use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::{DeviceState, HostState, MAGIC, Refusal, SECTIONS, word};
use hamr_comm::abi::queue::QueueDescriptor;
use hamr_comm::abi::section::{Section, SectionKind};
use hamr_comm::abi::slot::{REP_HDR, REQ_HDR, RepHdr, ReqHdr, SLOT_BYTES};
use hamr_comm::abi::staging::Staging;
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::am::{SlotAccess, Slots};
use hamr_comm::mirror::{Driver, HostPort};
use hamr_tests::driving::Operation::{Load, Pull, Push, Store};
use hamr_tests::driving::{KEY, MANY, Operation, PLAN, Rig, WINDOW, again, copies, get, leave, offer, set};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

const REQUEST: u64 = REQ_HDR as u64;
const REPLY: u64 = REP_HDR as u64;

/// The operations of each kind of call, behind the first.
#[test]
fn a_call_takes_so_many_operations() {
    let mut rig = Rig::new();
    let line = rig.line(0, 0);
    let (request, reply) = (Load(line + REQUEST), Store(line + REPLY));
    let none = RepHdr::inline(Status::OK, 0);
    rig.host[0].submit_hot(ReqHdr::inline(KEY, 0), &[]);
    rig.ring();
    rig.steps(MANY);
    rig.reply(0, none, &[]);
    rig.steps(1);
    rig.host[0].release_hot();

    for is_early in [false, true] {
        if !is_early {
            assert_eq!(rig.step(), [request, Load(word::HOST_WAIT)], "nothing more is there");
        }
        rig.host[0].submit_hot(ReqHdr::inline(KEY, 0), &[]);
        let there: &[Operation] = if is_early { &[request, Load(word::HOST_WAIT)] } else { &[request] };
        assert_eq!(rig.step(), there, "an empty call there");
        rig.reply(0, none, &[]);
        assert_eq!(rig.step(), [request, reply], "and back, behind a look for the next");
        assert!(rig.host[0].hot_reply().is_some());
        rig.host[0].release_hot();
    }
    rig.steps(1);

    rig.host[0].submit_hot(ReqHdr::inline(KEY, 16), &[1, 2]);
    assert_eq!(rig.step(), [request, Load(line), Load(line + 8)], "two words");
    assert_eq!(rig.device[0].slot(0).request_words()[..2], [1, 2]);
    rig.reply(0, RepHdr::inline(Status::OK, 8), &[99]);
    assert_eq!(rig.step(), [request, Store(line), reply], "a word back");
    assert_eq!(rig.host[0].slots().hot().reply_words()[0], 99);
    rig.host[0].release_hot();

    rig.steps(1);
    rig.host[0].submit_hot(ReqHdr::inline(KEY, 48), &[7; 6]);
    assert_eq!(rig.step(), [request, Pull(line, 48)], "a full slot");
    rig.reply(0, RepHdr::inline(Status::OK, 48), &[8; 6]);
    let back: Vec<_> = (0..6).map(|word| Store(line + 8 * word)).collect();
    assert_eq!(rig.step(), [&[request], &*back, &[reply]].concat(), "and back");
    assert_eq!(rig.host[0].slots().hot().reply_words(), [8; 6]);
    rig.host[0].release_hot();

    rig.steps(1);
    let words: [u64; 14] = std::array::from_fn(|i| i as u64 + 1);
    rig.host[0].submit_hot(ReqHdr::in_two_lines(KEY, 112), &words);
    let step = rig.step();
    assert!(step.ends_with(&[Pull(line, 48), Pull(line + SLOT_BYTES as u64, 64)]), "two lines: {step:?}");
    let mut second = [0; 8];
    rig.device[0].slots().read_second(&mut second);
    assert_eq!(second, words[6..]);
    rig.reply(0, none, &[]);
    rig.steps(1);
    rig.host[0].release_hot();

    for (len, by_stores) in [(256, true), (264, false)] {
        rig.steps(1);
        rig.host[0].slots().write_request_chunk(0, &[&[7; 100]]).expect("fits");
        rig.host[0].submit_hot(ReqHdr::inline(KEY, 16).in_chunk(), &[0, 100]);
        let step = rig.step();
        assert!(matches!(step.last(), Some(Pull(_, 104))), "a chunk there: {step:?}");
        let bytes = vec![5; len];
        rig.device[0].slots().write_reply_chunk(0, &bytes).expect("fits");
        rig.reply(0, RepHdr::inline(Status::OK, 16).in_chunk(), &[0, len as u64]);
        let step = rig.step();
        let stores = step.iter().filter(|op| matches!(op, Store(_))).count();
        let pushed = step.iter().any(|op| matches!(op, Push(_, pushed) if *pushed == len));
        // Those of the descriptor and the pair.
        assert_eq!((stores, pushed), (if by_stores { 3 + len / 8 } else { 3 }, !by_stores), "{step:?}");
        let mut back = vec![0; len];
        rig.host[0].slots().read_reply_chunk(0, &mut back).expect("fits");
        assert_eq!(back, bytes);
        rig.host[0].release_hot();
    }

    let task = ReqHdr::inline(KEY, 16).with(ReqHdr::EXT | ReqHdr::TICKET);
    for number in 1..3 {
        let line = rig.line(0, number);
        rig.host[0].slots().ticket_slot(0).expect("there").set_req_hdr(task.0);
        let word = u64::from(Epoch(1).tag()) << 24 | u64::from(number);
        rig.host[0].submit_ring(task, &[word << 32, 0]);
        if number == 1 {
            rig.ring();
            rig.steps(MANY);
        } else {
            let there = [Load(line + REQUEST), Load(line), Load(line + 8), request];
            assert_eq!(rig.step(), there, "a task, behind a look at the hot slot");
        }
        rig.reply(0, none, &[]);
        let step = rig.step();
        assert_eq!(step.last(), Some(&Store(line + REPLY)), "that ends in its slot");
        assert_eq!(step.iter().filter(|op| !matches!(op, Load(_))).count(), 1, "{step:?}");
        assert!(rig.host[0].ring_reply(u64::from(number) - 1).is_some());
        rig.steps(1);
    }
}

/// Whatever the number of streams.
#[test]
fn a_round_without_work_is_two_loads() {
    let mut rig = Rig::new();
    for stream in 0..3 {
        rig.host[stream].submit_hot(ReqHdr::inline(KEY, 0), &[]);
        rig.ring();
        rig.steps(MANY);
        rig.reply(stream, RepHdr::inline(Status::OK, 0), &[]);
        rig.steps(1);
    }
    rig.steps(70);
    let all: Vec<_> = (0..63).map(|_| rig.step()).collect();
    let idle = [Load(rig.line(2, 0) + REQUEST), Load(word::BELL)];
    // But for one in which the host's words are looked at.
    assert!(all.iter().filter(|step| **step != idle).count() <= 1, "{all:?}");
}

/// Calls of all streams, one after the other in each, in whatever order they are found.
#[test]
fn what_counts_bell_is_found() {
    let mut rig = Rig::new();
    for round in 0..20u64 {
        for stream in 0..3 {
            rig.host[stream].submit_ring(ReqHdr::inline(KEY, 8), &[round]);
            rig.host[stream].submit_ring(ReqHdr::inline(KEY, 8), &[round + 100]);
        }
        rig.ring();
        let mut found = [0; 3];
        for _ in 0..MANY {
            rig.driver.step();
            for (stream, found) in found.iter_mut().enumerate() {
                let Some(request) = rig.device[stream].next(true) else { continue };
                let slot = rig.device[stream].slot(request.slot);
                assert_eq!(slot.request_words()[0], round + *found, "in order");
                slot.publish_reply(RepHdr::inline(Status::OK, 0).0, request.seq);
                *found += 100;
            }
        }
        assert_eq!(found, [200; 3]);
        for (stream, host) in rig.host.iter_mut().enumerate() {
            assert!(host.ring_reply(2 * round + 1).is_some(), "stream {stream}");
        }
    }
}

/// A stream whose next request is always there keeps neither those of others nor the host's words waiting.
#[test]
fn a_busy_stream_lets_others_in() {
    for (busy, other) in [(0, 1), (2, 0), (1, 2)] {
        let mut rig = Rig::new();
        let (mut sent, mut done, mut told) = (0, 0, 0);
        let mut round = |rig: &mut Rig| {
            while sent - done < 3 {
                rig.host[busy].submit_ring(ReqHdr::inline(KEY, 0), &[]);
                sent += 1;
            }
            let wait = get(&rig.near, word::DEVICE_WAIT);
            if std::mem::replace(&mut told, wait) != wait {
                rig.ring();
            }
            rig.driver.step();
            while let Some(found) = rig.device[busy].next(true) {
                rig.device[busy].slot(found.slot).publish_reply(RepHdr::inline(Status::OK, 0).0, found.seq);
            }
            while done != sent && rig.host[busy].ring_reply(done).is_some() {
                done += 1;
            }
            done
        };
        let before = (0..500).map(|_| round(&mut rig)).max();
        assert!(before > Some(300), "{before:?} in 500 steps");
        rig.host[other].submit_ring(ReqHdr::inline(KEY, 0), &[]);
        rig.host[other].submit_ring(ReqHdr::inline(KEY, 0), &[]);
        for _ in 0..2 {
            let found = (0..200).any(|_| {
                round(&mut rig);
                rig.device[other].next(true).is_some()
            });
            assert!(found, "stream {other} beside {busy}");
        }
        set(&rig.near, word::HOST_STATE, HostState::CLOSING.0);
        (0..200).for_each(|_| _ = round(&mut rig));
        assert_eq!(get(&rig.far, word::HOST_STATE), HostState::CLOSING.0, "beside {busy}");
    }
}

#[test]
fn a_sleeping_host_is_notified_behind_the_reply() {
    let mut rig = Rig::new();
    rig.host[0].submit_hot(ReqHdr::inline(KEY, 0), &[]);
    rig.ring();
    rig.steps(MANY);
    set(&rig.near, word::HOST_WAIT, 5);
    rig.reply(0, RepHdr::inline(Status::OK, 0), &[]);
    rig.steps(1);
    assert_eq!(rig.notified.load(Ordering::Relaxed), 0, "the next look tells");
    rig.steps(1);
    assert_eq!(rig.notified.load(Ordering::Relaxed), 1);
    rig.steps(MANY);
    assert_eq!(rig.notified.load(Ordering::Relaxed), 1, "once");
}

/// ASLEEP is odd while only BELL with a doorbell is looked for.
#[test]
fn no_sleep_begins_behind_bell() {
    let mut rig = Rig::new();
    rig.steps(MANY);
    assert!(rig.driver.prepare_sleep());
    let first = get(&rig.near, word::ASLEEP);
    rig.driver.end_sleep();
    assert!(first & 1 == 1 && get(&rig.near, word::ASLEEP) & 1 == 0);
    rig.host[0].submit_hot(ReqHdr::inline(KEY, 0), &[]);
    rig.ring();
    assert!(!rig.driver.prepare_sleep(), "there is something");
    rig.driver.step();
    rig.driver.step();
    rig.reply(0, RepHdr::inline(Status::OK, 0), &[]);
    rig.steps(MANY);
    assert!(rig.driver.prepare_sleep() && get(&rig.near, word::ASLEEP) > first, "another value");
}

/// Into the heap and out of it; ranges that there are not.
#[test]
fn staging_is_served() {
    let mut rig = Rig::new();
    let staging = rig.layout.section(SectionKind::STAGING).expect("planned").off;
    let heap = rig.layout.heap();
    rig.near.write_bytes(staging + Staging::DATA, &[9; 1000]).expect("inside");
    assert_eq!(rig.ask(Staging::PUT, heap.start + 8, 1000), Staging::OK);
    let mut bytes = [0; 1000];
    rig.far.read_bytes(heap.start + 8, &mut bytes).expect("inside");
    assert_eq!(bytes, [9; 1000]);
    rig.near.write_bytes(staging + Staging::DATA, &[0; 1000]).expect("inside");
    assert_eq!(rig.ask(Staging::GET, heap.start + 8, 1000), Staging::OK);
    rig.near.read_bytes(staging + Staging::DATA, &mut bytes).expect("inside");
    assert_eq!(bytes, [9; 1000]);
    for (off, len) in
        [(heap.start - 8, 8), (heap.end - 8, 16), (heap.start, 1025), (u64::MAX, 8), (heap.start, u64::MAX), (0, 8)]
    {
        for kind in [Staging::PUT, Staging::GET] {
            assert_eq!(rig.ask(kind, off, len), Staging::NO_RANGE, "{off:#x}, {len:#x}");
        }
    }
    assert_eq!(rig.ask(9, heap.start, 8), Staging::NO_RANGE);
    let log = rig.layout.section(SectionKind::LOG).expect("planned").off;
    set(&rig.far, log, 77);
    rig.far.write_bytes(log + 64, &[3; 77]).expect("inside");
    assert_eq!(rig.ask(Staging::SHOW, SectionKind::LOG.0.into(), 0), Staging::OK);
    rig.near.read_bytes(log + 64, &mut bytes[..77]).expect("inside");
    assert!(bytes[..77] == [3; 77] && get(&rig.near, log) == 77);
    assert_eq!(rig.ask(Staging::SHOW, SectionKind::HEAP.0.into(), 0), Staging::NO_RANGE);
}

/// What is no offer for it, the device refuses, and takes the next.
#[test]
fn offers_that_it_cannot_take_are_refused() {
    let (mut driver, [near, far], ..) = Rig::idle();
    let mut steps = || (0..MANY).for_each(|_| _ = driver.step());
    let refusal = || (get(&near, word::DEVICE_STATE), get(&near, word::EPOCH_ACK), Refusal(get(&near, word::REFUSAL)));
    offer(&near, Plan { staging: 0, ..PLAN }, Epoch(1));
    steps();
    assert_eq!(refusal(), (DeviceState::REFUSED.0, 1, Refusal::FEATURES));
    let layout = offer(&near, PLAN, Epoch(2));
    // A section outside.
    near.write_bytes(0x200 + 8, &u64::MAX.to_le_bytes()).expect("inside");
    steps();
    assert_eq!(refusal(), (DeviceState::REFUSED.0, 2, Refusal::SECTION));
    offer(&near, PLAN, Epoch(3));
    let queues = layout.section(SectionKind::QUEUES).expect("planned").off;
    near.write_bytes(queues + 24, &u32::MAX.to_le_bytes()).expect("inside");
    steps();
    assert_eq!((refusal().0, refusal().1), (DeviceState::REFUSED.0, 3));
    assert_ne!(get(&far, 0), MAGIC, "nothing was carried");
    offer(&near, PLAN, Epoch(4));
    steps();
    assert!(get(&far, 0) == MAGIC && get(&far, word::EPOCH) == 4);
}

/// A host that comes without waiting for the last epoch's end has it ended first.
#[test]
fn an_offer_waits_until_the_device_has_left() {
    let mut rig = Rig::new();
    offer(&rig.near, PLAN, Epoch(2));
    rig.steps(MANY);
    assert_eq!((get(&rig.far, word::EPOCH), get(&rig.far, word::HOST_STATE)), (1, HostState::CLOSING.0));
    leave(&rig.far, 1, DeviceState::STOPPED);
    rig.steps(MANY);
    assert_eq!((get(&rig.far, word::EPOCH), get(&rig.far, word::HOST_STATE)), (2, HostState::OFFERED.0));
    leave(&rig.far, 2, DeviceState::SERVING);
    rig.steps(MANY);
    assert_eq!((get(&rig.near, word::EPOCH_ACK), get(&rig.near, word::DEVICE_STATE)), (2, DeviceState::SERVING.0));
}

/// Whatever a host writes, and when.
#[test]
fn a_hostile_host_ends_no_device() {
    let mut rig = Rig::new();
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let end = rig.layout.heap().start;
    for round in 0..20_000u64 {
        let off = (random() % if round % 2 == 0 { 0x800 } else { end }) & !3;
        set(&rig.near, off, random() as u32 >> (random() % 32));
        match round % 64 {
            0 => drop(offer(&rig.near, PLAN, Epoch((round / 64 + 2) as u32))),
            1 => set(&rig.near, word::HOST_STATE, HostState::READY.0),
            2 => leave(&rig.far, get(&rig.far, word::EPOCH), DeviceState::SERVING),
            60 => leave(&rig.far, get(&rig.far, word::EPOCH), DeviceState::STOPPED),
            _ => {}
        }
        rig.steps(2);
    }
}

/// A ticket's slot has the header of its present call.
#[test]
fn cancel_reaches_one_call_of_a_ticket() {
    let mut rig = Rig::new();
    let tag = u64::from(Epoch(1).tag()) << 24;
    let hdr = ReqHdr::inline(KEY, 16).with(ReqHdr::EXT | ReqHdr::TICKET);
    for use_of in 1..4u64 {
        rig.host[0].slots().ticket_slot(0).expect("there").set_req_hdr(hdr.0);
        rig.host[0].submit_ring(hdr, &[(tag | use_of) << 32, 0]);
        rig.ring();
        rig.steps(MANY);
        let found = rig.device[0].next(true).expect("carried");
        let is_cancelled = |rig: &Rig| {
            let slot = rig.device[0].slots().ticket_slot(0).expect("there");
            ReqHdr(slot.req_hdr()).has(ReqHdr::CANCEL)
        };
        assert!(!is_cancelled(&rig), "use {use_of}");
        rig.device[0].slot(found.slot).publish_reply(RepHdr::taken(0).0, found.seq);
        rig.steps(MANY);
        assert!(rig.host[0].ring_reply(use_of - 1).is_some() && !is_cancelled(&rig));
        rig.host[0].slots().ticket_slot(0).expect("there").set_req_hdr(hdr.with(ReqHdr::CANCEL).0);
        rig.ring();
        rig.steps(MANY);
        assert!(is_cancelled(&rig), "use {use_of}");
        let slot = rig.device[0].slots().ticket_slot(0).expect("there");
        slot.publish_reply(RepHdr::inline(Status::CANCELLED, 0).0, (tag | use_of) as u32);
        rig.steps(MANY);
        let back = rig.host[0].slots().ticket_slot(0).expect("there").rep_hdr_of((tag | use_of) as u32);
        assert!(back.is_some(), "use {use_of}");
    }
}

/// The handler that runs next may take any time: the caller of the last is told before.
#[test]
fn a_reply_is_told_before_the_next_handler_runs() {
    for other in [0, 1] {
        let mut rig = Rig::new();
        rig.host[0].submit_ring(ReqHdr::inline(KEY, 0), &[]);
        rig.host[other].submit_ring(ReqHdr::inline(KEY, 0), &[]);
        rig.ring();
        let (stream, found) = (0..MANY)
            .find_map(|_| {
                rig.driver.step();
                [0, other].into_iter().find_map(|stream| Some((stream, rig.device[stream].next(true)?)))
            })
            .expect("carried");
        // Its host sleeps.
        set(&rig.near, word::HOST_WAIT, 5);
        rig.device[stream].slot(found.slot).publish_reply(RepHdr::inline(Status::OK, 0).0, found.seq);
        rig.driver.step();
        assert!(rig.host[stream].ring_reply(0).is_some(), "two on {other}");
        assert_eq!(rig.notified.load(Ordering::Relaxed), 1, "two on {other}");
    }
    // What is carried beside a handler is there when its reply is.
    let mut rig = Rig::new();
    (0..3).for_each(|stream| _ = rig.host[stream].submit_ring(ReqHdr::inline(KEY, 0), &[]));
    rig.ring();
    rig.steps(MANY);
    set(&rig.near, word::HOST_WAIT, 5);
    rig.reply(0, RepHdr::inline(Status::OK, 0), &[]);
    rig.driver.step();
    assert!(rig.host[0].ring_reply(0).is_some());
    assert_eq!(rig.notified.load(Ordering::Relaxed), 1);
}

/// DEVICE_WAIT is odd in all that a host publishes: it finds the value before it finds that the device serves.
#[test]
fn the_wait_word_is_odd_before_the_device_serves() {
    let (mut driver, [near, far], operations, _) = Rig::idle();
    offer(&near, PLAN, Epoch(1));
    (0..MANY).for_each(|_| _ = driver.step());
    operations.lock().expect("nobody panics").clear();
    leave(&far, 1, DeviceState::SERVING);
    (0..MANY).for_each(|_| _ = driver.step());
    let operations = operations.lock().expect("nobody panics");
    let first = |operation| operations.iter().position(|other| *other == operation).expect("stored");
    assert!(first(Store(word::DEVICE_WAIT)) < first(Store(word::EPOCH_ACK)), "{operations:?}");
}

/// What is outside ends its host's epoch, and no other.
#[test]
fn a_slot_of_two_lines_in_the_last_line_ends_its_epoch_alone() {
    let (mut driver, [near, far], ..) = Rig::idle();
    let layout = offer(&near, PLAN, Epoch(1));
    let section = |kind| layout.section(kind).expect("planned");
    let [heap, lines, queues] = [SectionKind::HEAP, SectionKind::LINES, SectionKind::QUEUES].map(section);
    let room = lines.len.next_multiple_of(4096);
    for (at, section) in (SECTIONS..).step_by(size_of::<Section>()).zip(layout.sections()) {
        let moved = match section.kind {
            SectionKind::LINES => Section { off: heap.off, len: room, ..*section },
            SectionKind::HEAP => Section { off: heap.off + room, ..*section },
            _ => continue,
        };
        near.write(at, &moved).expect("inside");
    }
    near.write_bytes(16, &(heap.off + room + heap.len).next_multiple_of(4096).to_le_bytes()).expect("inside");
    for queue in 0..layout.queues() {
        let at = queues.off + u64::from(queue) * size_of::<QueueDescriptor>() as u64;
        let mut d: QueueDescriptor = near.read(at).expect("inside");
        (d.req_base, d.rep_base) = (heap.off, heap.off);
        if queue == 1 {
            d.hot = room as u32 - SLOT_BYTES as u32;
        }
        near.write(at, &d).expect("inside");
    }
    let mut steps = || {
        for _ in 0..MANY {
            driver.step();
            serve(&far);
        }
    };
    let state = || DeviceState(get(&near, word::DEVICE_STATE));
    steps();
    set(&near, word::OPEN_QUEUES, 4);
    set(&near, word::HOST_STATE, HostState::READY.0);
    steps();
    assert_eq!(state(), DeviceState::SERVING);
    let pair = u64::from(ReqHdr::in_two_lines(KEY, 112).0) | (u64::from(Epoch(1).tag()) << 24 | 1) << 32;
    near.write_bytes(heap.off + room - SLOT_BYTES as u64 + REQUEST, &pair.to_le_bytes()).expect("inside");
    set(&near, word::BELL, get(&near, word::BELL) + 1);
    steps();
    set(&near, word::HOST_STATE, HostState::CLOSING.0);
    steps();
    offer(&near, PLAN, Epoch(2));
    steps();
    assert_eq!((state(), get(&near, word::EPOCH_ACK)), (DeviceState::ACCEPTED, 2));
}

/// A device's answers to its host's states.
fn serve(far: &Window<Shared>) {
    if get(far, 0) != MAGIC {
        return;
    }
    let (epoch, state) = (get(far, word::EPOCH), DeviceState(get(far, word::DEVICE_STATE)));
    let is_in = get(far, word::EPOCH_ACK) == epoch;
    match HostState(get(far, word::HOST_STATE)) {
        HostState::OFFERED if !is_in => leave(far, epoch, DeviceState::ACCEPTED),
        HostState::READY if is_in && state == DeviceState::ACCEPTED => leave(far, epoch, DeviceState::SERVING),
        HostState::CLOSING if !is_in || state != DeviceState::STOPPED => leave(far, epoch, DeviceState::STOPPED),
        _ => {}
    }
}

type Between = Arc<Mutex<Option<Box<dyn FnMut(u64, u32) -> bool + Send>>>>;

/// Loads the upper half of a word before its lower one, and has the host do something in between, once.
struct Halves(Window<Shared>, Between);

impl HostPort for Halves {
    fn load(&mut self, off: u64) -> u64 {
        let upper = get(&self.0, off + 4);
        self.1.lock().expect("nobody panics").take_if(|act| act(off, upper));
        u64::from(get(&self.0, off)) | u64::from(upper) << 32
    }
    fn store(&mut self, off: u64, value: u64) {
        HostPort::store(&mut self.0, off, value);
    }
    fn pull(&mut self, off: u64, to: &mut [u8]) {
        self.0.pull(off, to);
    }
    fn push(&mut self, off: u64, from: &[u8]) {
        self.0.push(off, from);
    }
}

/// A device behind such a port, in epoch 1; its host's memory, and its own.
fn by_halves() -> (impl FnMut(), [Window<Shared>; 2], Layout, Between) {
    let [near, far] = copies(WINDOW);
    let between = Between::default();
    let driver = Driver::new(Halves(again(&near), between.clone()), again(&far), Box::new(|| ()), Box::new(|| ()));
    let mut driver = driver.expect("both are there");
    let layout = offer(&near, PLAN, Epoch(1));
    let mut steps = move || (0..MANY).for_each(|_| _ = driver.step());
    steps();
    leave(&far, 1, DeviceState::SERVING);
    steps();
    (steps, [near, far], layout, between)
}

#[test]
fn a_request_is_of_one_time() {
    let (mut steps, [near, far], layout, between) = by_halves();
    let (staging, heap) = (layout.section(SectionKind::STAGING).expect("planned").off, layout.heap().start);
    let ask = move |near: &Window<Shared>, number, kind, off: u64| {
        near.write_bytes(staging + Staging::OFF, &off.to_le_bytes()).expect("inside");
        near.write_bytes(staging + Staging::LEN, &64_u64.to_le_bytes()).expect("inside");
        set(near, staging + Staging::KIND, kind);
        set(near, staging + Staging::NUMBER, number);
        set(near, word::BELL, get(near, word::BELL) + 1);
    };
    near.write_bytes(staging + Staging::DATA, &[1; 64]).expect("inside");
    ask(&near, 1, Staging::PUT, heap);
    steps();
    far.write_bytes(heap + 1024, &[2; 64]).expect("inside");
    let host = near.part(0, WINDOW).expect("all of it");
    let act = move |off, _| {
        let is_now = off == staging + Staging::KIND;
        if is_now {
            ask(&host, 2, Staging::GET, heap + 1024);
        }
        is_now
    };
    *between.lock().expect("nobody panics") = Some(Box::new(act));
    set(&near, word::BELL, get(&near, word::BELL) + 1);
    steps();
    let mut bytes = [0; 64];
    far.read_bytes(heap + 1024, &mut bytes).expect("inside");
    assert_eq!(bytes, [2; 64], "a GET is no PUT");
    near.read_bytes(staging + Staging::DATA, &mut bytes).expect("inside");
    assert_eq!((bytes, get(&near, staging + Staging::DONE)), ([2; 64], 2));
    // An image that begins there does not do what was done.
    near.write_bytes(staging + Staging::DATA, &[3; 64]).expect("inside");
    ask(&near, 2, Staging::PUT, heap + 1024);
    steps();
    far.read_bytes(heap + 1024, &mut bytes).expect("inside");
    assert_eq!(bytes, [2; 64]);
}

#[test]
fn an_offer_is_not_taken_for_the_end_of_the_last() {
    let (mut steps, [near, far], _, between) = by_halves();
    set(&near, word::HOST_STATE, HostState::CLOSING.0);
    steps();
    leave(&far, 1, DeviceState::STOPPED);
    steps();
    let host = near.part(0, WINDOW).expect("all of it");
    let act = move |off, upper| {
        let is_now = off == word::EPOCH && upper == HostState::CLOSING.0;
        if is_now {
            offer(&host, PLAN, Epoch(2));
        }
        is_now
    };
    *between.lock().expect("nobody panics") = Some(Box::new(act));
    (0..100).for_each(|_| steps());
    assert_eq!((get(&far, word::EPOCH), get(&near, word::EPOCH_ACK)), (2, 0), "the offer is carried");
}
