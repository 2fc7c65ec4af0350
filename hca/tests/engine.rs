//! The adapter and a device in one thread, over one section: rings, objects and messages.

mod bench;

use bench::{Bench, connect, create};
use hamr_comm::abi::window::{Private, Window};
use hamr_hca::Engine;
use hamr_hca::engine::{MOST_REQUESTS, SLICE};
use hamr_verbs::memory::Memory;
use hamr_verbs::ring::Ring;
use hamr_verbs::testing::{Ending, LKEY, REGION, Section};
use hamr_verbs::wire::{
    ARENA, Access, CQ_CI, CQ_STATE, Command, HCA_STATE, Kind, LINE, OBJECTS, Object, QpState, Reply, SQ_CI, Sge, Verb,
    WcOpcode, WcStatus, word_of,
};
use hamr_verbs::{Completion, SendWr, VerbsError};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

#[test]
fn a_message_of_parts_comes_into_parts() {
    let mut bench = Bench::new(2, 3);
    let bytes: Vec<u8> = (1..=100).collect();
    bench.fill(0, &bytes);
    let from = [bench.part(0, 1), bench.part(1, 0), bench.part(1, 60), bench.part(61, 3), bench.part(64, 36)];
    bench.receive(1, 20, &[bench.part(4096, 7), bench.part(5000, 200)]).expect("room");
    bench.post(0, &SendWr::send(10, &from)).expect("room");
    bench.idle();
    let received = bench.poll().expect("valid").expect("there");
    let success = WcStatus::SUCCESS;
    assert_eq!((received.id, received.status, received.opcode, received.bytes), (20, success, WcOpcode::RECV, 100));
    let sent = bench.poll().expect("valid").expect("there");
    assert_eq!((sent.id, sent.status, sent.opcode, sent.qp), (10, success, WcOpcode::SEND, 0));
    assert_eq!(bench.poll(), Ok(None));
    assert_eq!([bench.bytes(4096, 7), bench.bytes(5000, 93)].concat(), bytes);
    assert_eq!(bench.bytes(5093, 1), [0]);
    assert_eq!((bench.word(word_of(SQ_CI, 0)), bench.word(word_of(SQ_CI, 1))), (1, 0));
}

#[test]
fn a_message_waits_for_a_receive_request() {
    let mut bench = Bench::new(2, 3);
    bench.post(1, &SendWr::inline(1, &[5; 92])).expect("room");
    assert_eq!(bench.outcomes(), []);
    bench.receive(0, 2, &[bench.part(0, 92)]).expect("room");
    assert_eq!(bench.outcomes(), [(2, WcStatus::SUCCESS), (1, WcStatus::SUCCESS)]);
    assert_eq!(bench.bytes(0, 93), [&[5; 92][..], &[0]].concat());
}

/// A long message is copied in slices; others pass meanwhile. Its ranges may overlap.
#[test]
fn a_long_message_does_not_keep_others() {
    let mut bench = Bench::new(2, 3);
    let bytes: Vec<u8> = (0..=250).cycle().take(3 * SLICE as usize + 1).collect();
    bench.fill(0, &bytes);
    bench.receive(1, 1, &[bench.part(100, bytes.len() as u64)]).expect("room");
    bench.post(0, &SendWr::send(2, &[bench.part(0, bytes.len() as u64)])).expect("room");
    bench.receive(0, 3, &[]).expect("room");
    bench.post(1, &SendWr::inline(4, &[])).expect("room");
    let (mut rounds, mut order) = (0, Vec::new());
    while order.len() < 4 {
        assert!(bench.engine.round(0) != 0);
        rounds += 1;
        order.extend(std::iter::from_fn(|| bench.poll().expect("valid")).map(|found| found.id));
    }
    assert_eq!((rounds, order), (4, vec![3, 4, 1, 2]));
    assert_eq!(bench.bytes(100, SLICE as usize), bytes[..SLICE as usize]);
}

/// The receive request is flushed, and not completed by the message as well.
#[test]
fn a_peer_may_end_within_a_message() {
    let mut bench = Bench::new(2, 4);
    let long = 2 * SLICE;
    bench.receive(1, 1, &[bench.part(0, long)]).expect("room");
    bench.post(0, &SendWr::send(2, &[bench.part(long, long)])).expect("room");
    bench.engine.round(0);
    bench.post(1, &SendWr::send(3, &[Sge { addr: 0, len: 1, lkey: 0 }])).expect("room");
    bench.engine.round(0);
    let mut outcomes = bench.outcomes();
    outcomes.sort();
    assert_eq!(outcomes, [(1, WcStatus::SUCCESS), (2, WcStatus::SUCCESS), (3, WcStatus::LOC_PROT_ERR)]);
    let mut bench = Bench::new(2, 4);
    bench.receive(0, 1, &[bench.part(0, long)]).expect("room");
    bench.post(1, &SendWr::send(2, &[bench.part(long, long)])).expect("room");
    bench.engine.round(0);
    bench.post(0, &SendWr::send(3, &[Sge { addr: 0, len: 1, lkey: 0 }])).expect("room");
    bench.engine.round(0);
    let mut outcomes = bench.outcomes();
    outcomes.sort();
    assert_eq!(outcomes, [(1, WcStatus::WR_FLUSH_ERR), (2, WcStatus::RETRY_EXC_ERR), (3, WcStatus::LOC_PROT_ERR)]);
}

#[test]
fn a_wrong_request_ends_its_queue_pair_and_the_rest_is_flushed() {
    let flushed = WcStatus::WR_FLUSH_ERR;
    let key = |sge: Sge| Sge { lkey: LKEY + 1, ..sge };
    let base = Section::new(2, 3).objects[0].iova;
    let wrong = |addr, len| Sge { addr, len, lkey: LKEY };
    let wrongs = [
        wrong(base - 1, 1),
        wrong(base + REGION, 1),
        wrong(base + 1, REGION as u32),
        wrong(u64::MAX, 1),
        wrong(0, u32::MAX >> 1),
        wrong(base.wrapping_sub(1 << 63), 8),
        key(wrong(base, 1)),
    ];
    for sge in wrongs {
        let mut bench = Bench::new(2, 4);
        bench.post(0, &SendWr::send(1, &[sge])).expect("room");
        bench.post(0, &SendWr::inline(2, &[])).expect("room");
        bench.receive(0, 3, &[]).expect("room");
        assert_eq!(bench.outcomes(), [(1, WcStatus::LOC_PROT_ERR), (2, flushed), (3, flushed)], "{sge:?}");
        assert_eq!((bench.section.state(0), bench.section.state(1)), (QpState::ERR.0, QpState::RTS.0));
        // Its peer finds that it does not answer; and what comes later is flushed, too.
        bench.post(1, &SendWr::inline(4, &[])).expect("room");
        bench.post(0, &SendWr::inline(5, &[])).expect("room");
        let mut outcomes = bench.outcomes();
        outcomes.sort();
        assert_eq!(outcomes, [(4, WcStatus::RETRY_EXC_ERR), (5, flushed)]);
        // The same of a receive request.
        let mut bench = Bench::new(2, 4);
        bench.receive(1, 1, &[sge]).expect("room");
        bench.receive(1, 2, &[]).expect("room");
        bench.post(0, &SendWr::inline(3, &[1])).expect("room");
        let mut outcomes = bench.outcomes();
        outcomes.sort();
        assert_eq!(outcomes, [(1, WcStatus::LOC_PROT_ERR), (2, flushed), (3, WcStatus::REM_OP_ERR)], "{sge:?}");
    }
    // H16: of no bytes no key is looked at.
    let mut bench = Bench::new(2, 4);
    let nothing = Sge { addr: 3, len: 0, lkey: 9 };
    bench.receive(1, 1, &[nothing]).expect("room");
    bench.post(0, &SendWr::send(2, &[nothing])).expect("room");
    assert_eq!(bench.outcomes(), [(1, WcStatus::SUCCESS), (2, WcStatus::SUCCESS)]);
    // Longer than there is room for.
    bench.receive(1, 3, &[bench.part(0, 2)]).expect("room");
    bench.post(0, &SendWr::inline(4, &[1; 3])).expect("room");
    assert_eq!(bench.outcomes(), [(3, WcStatus::LOC_LEN_ERR), (4, WcStatus::REM_INV_REQ_ERR)]);
    assert_eq!(bench.bytes(0, 2), [0, 0]);
}

#[test]
fn a_region_that_is_only_read_receives_nothing() {
    let mut bench = Bench::new(2, 3);
    let read_only = Object { index: 1, lkey: 0x501, access: Access::READ, ..bench.section.objects[0] };
    assert_eq!(bench.engine.command(&create(read_only)), Reply::DONE);
    let sge = Sge { lkey: 0x501, ..bench.part(0, 4) };
    bench.receive(1, 1, &[bench.part(8, 4)]).expect("room");
    bench.post(0, &SendWr::send(2, &[sge])).expect("room");
    assert_eq!(bench.outcomes(), [(1, WcStatus::SUCCESS), (2, WcStatus::SUCCESS)]);
    bench.receive(1, 3, &[sge]).expect("room");
    bench.post(0, &SendWr::inline(4, &[1])).expect("room");
    assert_eq!(bench.outcomes(), [(3, WcStatus::LOC_PROT_ERR), (4, WcStatus::REM_OP_ERR)]);
}

#[test]
fn a_completion_queue_that_is_full_has_overrun() {
    let mut bench = Bench::new(3, 1);
    for id in 0..2 {
        bench.receive(1, id, &[]).expect("room");
        bench.post(0, &SendWr::inline(10 + id, &[])).expect("room");
    }
    bench.idle();
    assert_eq!(bench.word(CQ_STATE), 1);
    assert_eq!(
        [bench.poll(), bench.poll()].map(|found| found.map(|found| found.map(|found| found.id))),
        [Ok(Some(0)), Ok(Some(10))]
    );
    assert_eq!(bench.poll(), Err(VerbsError::Overrun));
    assert_eq!([0, 1].map(|qp| bench.section.state(qp)), [QpState::ERR.0; 2]);
    // It takes no more queue pairs, which would wait for ever.
    let more = Object { index: 9, qp_number: 3, ..bench.section.objects[bench.section.objects.len() - 1] };
    assert_eq!(more.kind, Kind::QUEUE_PAIR);
    assert_eq!(bench.engine.command(&create(more)), Reply::STATE);
    // A device that says that it has taken what is not there yet gains nothing, nor one that says it of another generation's.
    let word = |generation, taken| {
        let object = Object { generation, ..Object::default() };
        Ring::new(0, 1, 1, object.tag()).taken(taken)
    };
    for (says, has_room) in [
        (word(1, 2), true),
        (word(1, 3), false),
        (word(1, u32::MAX), false),
        (word(1, 1 << 23), false),
        (word(2, 2), false),
        (word(255, 2), false),
        (2, false),
    ] {
        let mut bench = Bench::new(3, 1);
        let sends = |bench: &Bench| bench.receive(1, 0, &[]).and(bench.post(0, &SendWr::inline(0, &[]))).expect("room");
        sends(&bench);
        bench.idle();
        bench.section.window.word(CQ_CI).expect("inside").store(says);
        sends(&bench);
        bench.idle();
        assert_eq!(bench.word(CQ_STATE), u32::from(!has_room), "{says:#x}");
    }
}

/// Of the one that was there before nothing is said.
#[test]
fn a_queue_pair_begins_with_nothing_completed() {
    let mut bench = Bench::new(2, 3);
    let completed = |bench: &Bench| bench.word(word_of(SQ_CI, 0));
    bench.receive(1, 1, &[]).and(bench.post(0, &SendWr::inline(2, &[]))).expect("room");
    bench.idle();
    assert_eq!(completed(&bench), 1);
    let object = bench.reset(0, |object| object);
    assert_eq!(completed(&bench), 0);
    bench.section.window.word(word_of(SQ_CI, 0)).expect("inside").store(7);
    assert_eq!(bench.engine.command(&Command { verb: Verb::DESTROY, ..create(object) }), Reply::DONE);
    let next = Object { generation: object.generation + 1, ..object };
    assert_eq!(bench.engine.command(&create(next)), Reply::DONE);
    assert_eq!(completed(&bench), 0);
}

/// What a task may wait for, and no step of a round publishes: the device is notified of it.
#[test]
fn a_state_that_a_command_changes_is_told() {
    let mut bench = Bench::new(2, 3);
    assert_eq!([bench.engine.told(), bench.engine.told()], [1, 0]);
    bench.reset(0, |object| object);
    assert_eq!((bench.engine.round(0), bench.engine.told()), (0, 1));
    let fail = Command { verb: Verb::FAIL, ..connect(1, 0) };
    assert_eq!(bench.engine.command(&fail), Reply::DONE);
    assert_eq!((bench.engine.round(0), bench.engine.told(), bench.engine.told()), (0, 1, 0));
}

#[test]
fn a_queue_pair_may_be_its_own_peer() {
    let section = Section::new(2, 3);
    let mut bench = Bench { engine: Engine::new(section.window.part(0, section.window.len()).expect("all")), section };
    let commands = bench.section.objects.clone();
    commands.iter().for_each(|object| assert_eq!(bench.engine.command(&create(*object)), Reply::DONE));
    assert_eq!(bench.engine.command(&connect(0, 0)), Reply::DONE);
    bench.receive(0, 1, &[bench.part(0, 4)]).expect("room");
    bench.post(0, &SendWr::inline(2, &[1, 2, 3])).expect("room");
    assert_eq!(bench.outcomes(), [(1, WcStatus::SUCCESS), (2, WcStatus::SUCCESS)]);
    bench.receive(0, 3, &[]).expect("room");
    bench.post(0, &SendWr::inline(4, &[1])).expect("room");
    assert_eq!(bench.outcomes(), [(3, WcStatus::LOC_LEN_ERR), (4, WcStatus::REM_INV_REQ_ERR)]);
}

#[test]
fn wrong_commands_are_refused_and_change_nothing() {
    let mut bench = Bench::new(2, 3);
    let [region, cq, qp, ..] = bench.section.objects[..] else { panic!("objects") };
    for object in [region, cq, qp] {
        assert_eq!(bench.engine.command(&create(object)), Reply::STATE, "{object:?}");
        let wrongs = [
            Object { index: 256, ..object },
            Object { index: u16::MAX, ..object },
            Object { generation: 0, index: 7, ..object },
            Object { off: OBJECTS, index: 7, ..object },
            Object { off: u64::MAX - 63, index: 7, ..object },
            Object { kind: Kind(9), index: 7, ..object },
        ];
        for wrong in wrongs {
            assert_eq!(bench.engine.command(&create(wrong)), Reply::MALFORMED, "{wrong:?}");
        }
    }
    for (send_cq, receive_cq) in [(1, 0), (0, 1), (0, 255)] {
        assert_eq!(bench.engine.command(&create(Object { index: 7, send_cq, receive_cq, ..qp })), Reply::STATE);
    }
    for (a, b) in [(0, 1), (7, 0), (u16::MAX, 0), (0, u32::MAX)] {
        assert_eq!(bench.engine.command(&connect(a, b)), Reply::STATE);
    }
    assert_eq!(bench.engine.command(&Command { verb: Verb(9), ..create(region) }), Reply::MALFORMED);
    assert_eq!(bench.engine.round(0), 0);
}

/// H1: a handler that is ended at any store of its posts and polls leaves queues that go on.
#[test]
fn a_handler_that_is_ended_anywhere_leaves_queues_that_go_on() {
    for stores in 0.. {
        let mut bench = Bench::new(1, 3);
        let window = bench.section.window.part(0, bench.section.window.len()).expect("all of it");
        let Bench { section, engine } = &mut bench;
        let run = Ending::run(&window, stores, |ending| {
            let verbs = section.over(ending);
            let [a, b] = [0, 1].map(|qp| verbs.queue_pair(section.id(qp)).expect("there"));
            let cq = verbs.completion_queue(section.id(0)).expect("there");
            for id in 0..3 {
                b.receive(id, &[Sge { addr: section.objects[0].iova, len: 92, lkey: LKEY }]).expect("room");
                a.post(&SendWr::inline(10 + id, &[id as u8; 92])).expect("room");
                while engine.round(0) != 0 {}
                while cq.poll().expect("valid").is_some() {}
            }
        });
        // The next handler takes what is there, and fills the rings: all but a receive request that was posted and is not used.
        let outcomes = bench.outcomes();
        assert!(outcomes.iter().all(|(_, status)| *status == WcStatus::SUCCESS), "{outcomes:?} after {stores} stores");
        let receives = (100..).take_while(|id| bench.receive(1, *id, &[bench.part(0, 92)]).is_ok()).count();
        let sends = (200..).take_while(|id| bench.post(0, &SendWr::inline(*id, &[9])).is_ok()).count();
        assert!(sends == 2 && (receives == 2 || receives == 1 && run.is_none()), "{receives} after {stores} stores");
        let outcomes = bench.outcomes();
        let ids = outcomes.iter().filter(|(id, _)| *id >= 200).collect::<Vec<_>>();
        assert_eq!((outcomes.len(), ids), (4, vec![&(200, WcStatus::SUCCESS), &(201, WcStatus::SUCCESS)]));
        assert_eq!(bench.bytes(0, 1), [9]);
        if run.is_some() {
            break;
        }
        assert!(stores < 200);
    }
}

/// What a device does next.
#[derive(Clone, Debug)]
enum Act {
    Send { qp: u16, len: u64, inline: bool, wrong: bool },
    Receive { qp: u16, len: u64, wrong: bool },
    Round,
    Poll,
}

fn acts() -> impl Strategy<Value = Act> {
    let rarely = || prop::bool::weighted(0.02);
    prop_oneof![
        (0..2_u16, 0..200_u64, any::<bool>(), rarely()).prop_map(|(qp, len, inline, wrong)| Act::Send {
            qp,
            len,
            inline,
            wrong
        }),
        (0..2_u16, 150..400_u64, rarely()).prop_map(|(qp, len, wrong)| Act::Receive { qp, len, wrong }),
        Just(Act::Round),
        Just(Act::Poll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each work request has exactly one completion, in the order of its queue, or waits for its peer's.
    #[test]
    fn each_request_has_one_completion(acts in proptest::collection::vec(acts(), 1..200), start in any::<u8>()) {
        let mut bench = Bench::new(2, 6);
        let mut open: BTreeMap<(u16, WcOpcode), VecDeque<u64>> = BTreeMap::new();
        let done = |bench: &Bench, open: &mut BTreeMap<(u16, WcOpcode), VecDeque<u64>>| {
            while let Some(Completion { id, opcode, qp, .. }) = bench.poll().expect("no overrun") {
                assert_eq!(open.get_mut(&(qp, opcode)).and_then(VecDeque::pop_front), Some(id));
            }
        };
        for (id, act) in (u64::from(start)..).zip(acts) {
            match act {
                Act::Send { qp, len, inline, wrong } => {
                    let sge = bench.part(id % 1000, len);
                    let sge = [Sge { lkey: sge.lkey + u32::from(wrong), ..sge }];
                    let request = if inline { SendWr::inline(id, &[7; 92][..len as usize % 92]) } else { SendWr::send(id, &sge) };
                    if bench.post(qp, &request).is_ok() {
                        open.entry((qp, WcOpcode::SEND)).or_default().push_back(id);
                    }
                }
                Act::Receive { qp, len, wrong } => {
                    let sge = bench.part(id * 500, len);
                    let sge = Sge { lkey: sge.lkey + u32::from(wrong), ..sge };
                    if bench.receive(qp, id, &[sge]).is_ok() {
                        open.entry((qp, WcOpcode::RECV)).or_default().push_back(id);
                    }
                }
                Act::Round => {
                    bench.engine.round(0);
                }
                Act::Poll => done(&bench, &mut open),
            }
        }
        bench.idle();
        done(&bench, &mut open);
        let left = |qp, opcode| open.get(&(qp, opcode)).map_or(0, VecDeque::len);
        for qp in 0..2 {
            let state = bench.section.state(qp);
            let waits = left(qp, WcOpcode::SEND) != 0;
            // A send waits only while both are connected and the peer has no receive request.
            prop_assert!(!waits || state == QpState::RTS.0 && left(1 - qp, WcOpcode::RECV) == 0);
            prop_assert!(left(qp, WcOpcode::RECV) == 0 || state == QpState::RTS.0);
        }
    }

    /// H15: whatever a device writes, and when, the adapter ends each round, and writes its pages, rings of completions and
    /// regions only.
    #[test]
    fn an_adapter_survives_any_bytes(
        lies in proptest::collection::vec((any::<u64>(), any::<u32>(), 0..6_u8), 1..80),
    ) {
        let mut bench = Bench::new(2, 3);
        let [region, cq, a, b, ..] = bench.section.objects[..] else { panic!("objects") };
        let rings = [(a.off, 8 * LINE), (b.off, 8 * LINE), (a.receive_off, 4 * LINE), (b.receive_off, 4 * LINE)];
        for (n, (at, value, what)) in lies.into_iter().enumerate() {
            let (off, len) = rings[n % rings.len()];
            let at = match what {
                0..3 => off + at % len / 4 * 4,
                3 => CQ_CI,
                // A request that is nearly right.
                _ => {
                    let sge = Sge { addr: region.iova.wrapping_add(at % (REGION + 9)), len: value % 300, lkey: LKEY };
                    let _ = (bench.receive((n % 2) as u16, at, &[sge, sge]), bench.post(1, &SendWr::send(at, &[sge; 3])));
                    off + at % len / 4 * 4
                }
            };
            let value = if what % 2 == 0 { value } else { value % 0x2000 };
            Memory::store(&bench.section.window, at, value).expect("inside");
            let not_its_own = |window: &Window<Private>| {
                [(0, HCA_STATE), (OBJECTS, ARENA), (cq.off + 8 * LINE, window.len())].map(|(from, to)| {
                    let mut bytes = vec![0; (to - from) as usize];
                    window.read_bytes(from, &mut bytes).expect("inside");
                    bytes
                })
            };
            let before = not_its_own(&bench.section.window);
            prop_assert!(bench.engine.round(0) <= 2 * MOST_REQUESTS);
            prop_assert!(before == not_its_own(&bench.section.window));
        }
    }
}
