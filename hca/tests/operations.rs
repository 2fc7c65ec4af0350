//! Requests of each kind, shared receive queues, errors and resets: the adapter and a device in one thread.

mod bench;

use bench::{Bench, create};
use hamr_comm::abi::window::AtomicOp;
use hamr_hca::engine::{MOST_REQUESTS, SLICE};
use hamr_verbs::testing::{Ending, LKEY, REGION};
use hamr_verbs::wire::{
    Access, Command, Kind, Object, Opcode, QpState, Reply, SendEntry, Sge, Verb, WcOpcode, WcStatus,
};
use hamr_verbs::{Remote, SendWr, VerbsError};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

const SUCCESS: WcStatus = WcStatus::SUCCESS;
const FLUSHED: WcStatus = WcStatus::WR_FLUSH_ERR;

fn states(bench: &Bench) -> [u32; 2] {
    [0, 1].map(|qp| bench.section.state(qp))
}

#[test]
fn a_write_changes_the_peer_s_memory() {
    let mut bench = Bench::new(2, 3);
    let bytes: Vec<u8> = (1..=100).collect();
    bench.fill(0, &bytes);
    let from = [bench.part(0, 30), bench.part(30, 0), bench.part(30, 70)];
    bench.post(0, &SendWr::write(1, &from, bench.remote(4000))).expect("room");
    bench.post(0, &SendWr::inline(2, b"inline").to(bench.remote(5000))).expect("room");
    // H16: of no bytes no key is looked at.
    bench.post(0, &SendWr::write(3, &[], Remote { addr: 1, rkey: 2 })).expect("room");
    bench.idle();
    for id in 1..=3 {
        let done = bench.poll().expect("valid").expect("there");
        assert_eq!((done.id, done.status, done.opcode, done.bytes), (id, SUCCESS, WcOpcode::WRITE, 0));
        assert_eq!(done.immediate, None);
    }
    assert_eq!((bench.bytes(4000, 100), bench.bytes(5000, 7)), (bytes, b"inline\0".to_vec()));
    let verbs = bench.verbs();
    let region = verbs.region(bench.section.id(0)).expect("there");
    assert_eq!([4098, 4099, 4100].map(|at| region.watch(at)), [Ok(99), Ok(100), Ok(0)]);
    assert_eq!(region.watch(REGION), Err(VerbsError::Length));
}

#[test]
fn an_immediate_value_uses_up_a_receive_request() {
    let mut bench = Bench::new(2, 4);
    bench.post(0, &SendWr::inline(1, b"abc").imm(0xFFFF_FFFF)).expect("room");
    bench.post(0, &SendWr::inline(2, b"defg").to(bench.remote(100)).imm(0)).expect("room");
    bench.idle();
    // Nothing is written before there is one.
    assert_eq!((bench.poll(), bench.bytes(100, 4)), (Ok(None), vec![0; 4]));
    bench.receive(1, 10, &[bench.part(0, 8)]).expect("room");
    // What a write's receive request names is not looked at.
    bench.receive(1, 11, &[Sge { addr: 1, len: 2, lkey: 3 }]).expect("room");
    bench.idle();
    let found = || {
        let done = bench.poll().expect("valid").expect("there");
        (done.id, done.opcode, done.bytes, done.immediate)
    };
    assert_eq!(found(), (10, WcOpcode::RECV, 3, Some(u32::MAX)));
    assert_eq!(found(), (1, WcOpcode::SEND, 0, None));
    assert_eq!(found(), (11, WcOpcode::RECV_WITH_IMM, 4, Some(0)));
    assert_eq!(found(), (2, WcOpcode::WRITE, 0, None));
    assert_eq!(bench.bytes(100, 4), b"defg");
    let [sge, at] = [bench.part(0, 8), bench.part(8, 8)];
    let remote = Remote { addr: at.addr, rkey: at.lkey };
    for request in [SendWr::read(1, &[sge], remote), SendWr::fetch_add(1, sge, remote, 1)] {
        assert_eq!(bench.post(0, &request.imm(1)), Err(VerbsError::Unsupported));
    }
}

#[test]
fn a_read_and_atomics_bring_values_back() {
    let mut bench = Bench::new(3, 4);
    bench.fill(800, &7_u64.to_le_bytes());
    let (at, into) = (bench.remote(800), bench.part(0, 8));
    bench.post(0, &SendWr::read(1, &[bench.part(16, 3), bench.part(24, 5)], at)).expect("room");
    bench.post(0, &SendWr::fetch_add(2, into, at, u64::MAX)).expect("room");
    assert_eq!(bench.outcomes(), [(1, SUCCESS), (2, SUCCESS)]);
    let value = |at| u64::from_le_bytes(bench.bytes(at, 8).try_into().expect("eight"));
    assert_eq!((value(0), value(800)), (7, 6));
    assert_eq!((bench.bytes(16, 4), bench.bytes(24, 5)), (vec![7, 0, 0, 0], vec![0; 5]));
    bench.post(0, &SendWr::compare_swap(3, into, at, 5, 9)).expect("room");
    bench.post(0, &SendWr::compare_swap(4, bench.part(8, 8), at, 6, 1 << 40)).expect("room");
    bench.idle();
    for (id, opcode) in [(3, WcOpcode::COMPARE_SWAP), (4, WcOpcode::COMPARE_SWAP)] {
        let done = bench.poll().expect("valid").expect("there");
        assert_eq!((done.id, done.status, done.opcode, done.bytes), (id, SUCCESS, opcode, 8));
    }
    let value = |at| u64::from_le_bytes(bench.bytes(at, 8).try_into().expect("eight"));
    assert_eq!([value(0), value(8), value(800)], [6, 6, 1 << 40]);
    let verbs = bench.verbs();
    let region = verbs.region(bench.section.id(0)).expect("there");
    assert_eq!(region.atomic(800, AtomicOp::Add(1)), Ok(1 << 40));
    assert_eq!(
        [region.atomic(804, AtomicOp::Load), region.atomic(REGION, AtomicOp::Load)],
        [Err(VerbsError::Length); 2]
    );
    assert_eq!(bench.post(0, &SendWr::fetch_add(5, bench.part(0, 4), at, 1)), Err(VerbsError::Length));
}

/// What a peer may not do ends both queue pairs, and changes nothing.
#[test]
fn a_wrong_remote_key_range_or_right_ends_both() {
    let base = Bench::new(1, 1).remote(0).addr;
    let regions = [(1, Access::LOCAL_WRITE), (2, Access::READ), (3, Access(3)), (4, Access(5)), (5, Access(9))];
    let key = |index: u32| 0x7700 + index;
    let right = Remote { addr: base, rkey: LKEY };
    let of = |index| Remote { rkey: key(index), ..right };
    let wrong_ranges = [right.at(REGION - 7), right.at(u64::MAX), Remote { rkey: LKEY + 0x100, ..right }, of(9)];
    let any = |also: &[Remote]| [&wrong_ranges[..], also].concat();
    let cases = [
        (Opcode::WRITE, any(&[of(1), of(2), of(4), of(5)])),
        (Opcode::READ, any(&[of(1), of(2), of(3), of(5)])),
        (Opcode::FETCH_ADD, any(&[of(1), of(2), of(3), of(4)])),
        (Opcode::COMPARE_SWAP, any(&[of(1), of(2), of(3), of(4)])),
    ];
    for (opcode, remotes) in cases {
        for (remote, status) in
            remotes.iter().map(|remote| (*remote, WcStatus::REM_ACCESS_ERR)).chain((1..8).map(|at| {
                let is_atomic = opcode.is_atomic();
                (right.at(800 + at), if is_atomic { WcStatus::REM_INV_REQ_ERR } else { SUCCESS })
            }))
        {
            let mut bench = Bench::new(2, 4);
            for (index, access) in regions {
                let object = Object { index, lkey: key(index.into()), access, ..bench.section.objects[0] };
                assert_eq!(bench.engine.command(&create(object)), Reply::DONE);
            }
            bench.fill(0, &[1; 2000]);
            let sge = [Sge { len: 8, ..bench.part(1000, 8) }];
            let request = match opcode {
                Opcode::WRITE => SendWr::inline(1, &[2; 8]).to(remote),
                Opcode::READ => SendWr::read(1, &sge, remote),
                Opcode::FETCH_ADD => SendWr::fetch_add(1, sge[0], remote, 5),
                _ => SendWr::compare_swap(1, sge[0], remote, 0x0101_0101_0101_0101, 5),
            };
            bench.post(0, &request).expect("room");
            bench.post(0, &SendWr::inline(2, &[])).expect("room");
            bench.receive(1, 3, &[]).expect("room");
            let mut outcomes = bench.outcomes();
            outcomes.sort();
            if status == SUCCESS {
                assert_eq!(outcomes, [(1, SUCCESS), (2, SUCCESS), (3, SUCCESS)], "{opcode:?} {remote:x?}");
                continue;
            }
            assert_eq!(outcomes, [(1, status), (2, FLUSHED), (3, FLUSHED)], "{opcode:?} {remote:x?}");
            assert_eq!(states(&bench), [QpState::ERR.0; 2]);
            assert_eq!((bench.bytes(0, 2000), bench.bytes(REGION - 7, 7)), (vec![1; 2000], vec![0; 7]));
        }
    }
}

/// Of an atomic access or read whose own memory is wrong, nothing happens at the peer.
#[test]
fn a_wrong_local_key_has_no_effect_at_the_peer() {
    for is_read_only in [false, true] {
        let mut bench = Bench::new(2, 4);
        let object = Object { index: 1, lkey: 0x101, access: Access::READ, ..bench.section.objects[0] };
        assert_eq!(bench.engine.command(&create(object)), Reply::DONE);
        let sge = Sge { lkey: if is_read_only { 0x101 } else { 0x102 }, ..bench.part(0, 8) };
        for request in [SendWr::fetch_add(1, sge, bench.remote(8), 5), SendWr::read(1, &[sge], bench.remote(8))] {
            bench.post(0, &request).expect("room");
            assert_eq!(bench.outcomes(), [(1, WcStatus::LOC_PROT_ERR)]);
            assert_eq!((states(&bench), bench.bytes(0, 16)), ([QpState::ERR.0, QpState::RTS.0], vec![0; 16]));
            bench = Bench::new(2, 4);
            assert_eq!(bench.engine.command(&create(object)), Reply::DONE);
        }
    }
}

#[test]
fn regions_have_rights_that_go_together() {
    let mut bench = Bench::new(2, 3);
    for (access, reply) in (0..17).map(|access| {
        let is_valid = access < 16 && (access & 10 == 0 || access & 1 == 1);
        (access, if is_valid { Reply::DONE } else { Reply::MALFORMED })
    }) {
        let index = access as u16 + 1;
        let object = Object { index, lkey: index.into(), access: Access(access), ..bench.section.objects[0] };
        assert_eq!(bench.engine.command(&create(object)), reply, "{access}");
    }
}

#[test]
fn a_quiet_request_is_free_behind_a_later_completion() {
    let mut bench = Bench::new(2, 3);
    let remote = bench.remote(0);
    let quiet = |id| SendWr::inline(id, &[9]).to(remote).quiet();
    for id in 1..=3 {
        bench.post(0, &quiet(id)).expect("room");
    }
    // The last entry is for one that has a completion.
    assert_eq!(bench.post(0, &quiet(4)), Err(VerbsError::Full));
    let last = SendWr::inline(4, &[4]).to(remote);
    bench.post(0, &last).expect("room");
    assert_eq!(bench.outcomes(), [(4, SUCCESS)]);
    assert_eq!(bench.bytes(0, 1), [4]);
    let quiet = |id| SendWr::inline(id, &[]).quiet();
    (1..=3).for_each(|id| bench.post(0, &quiet(id)).expect("all are free"));
    // One that fails has a completion, and so have those behind it.
    assert_eq!(bench.engine.command(&Command { verb: Verb::FAIL, ..create(Object::default()) }), Reply::DONE);
    assert_eq!(bench.outcomes(), [(1, FLUSHED), (2, FLUSHED), (3, FLUSHED)]);
}

/// `rnr_retry` and `min_rnr_timer`.
#[test]
fn a_peer_that_is_not_ready_is_given_up() {
    let (code, timer) = (14_u8, 1_280_000_u64);
    for retry in [0, 1, 6] {
        let mut bench = Bench::new(2, 3);
        let object = bench.reset(0, |object| Object { rnr_retry: retry, ..object });
        bench.reset(1, |object| Object { rnr_timer: code, ..object });
        assert_eq!(bench.engine.command(&bench::connect(0, 1)), Reply::DONE);
        let verbs = bench.verbs();
        let qp = verbs.queue_pair(bench.id_of(object)).expect("there");
        qp.post(&SendWr::inline(1, &[])).expect("room");
        let end = 5 + u64::from(retry) * timer;
        for now in [5, 6, end - 1] {
            if (5..end).contains(&now) {
                assert_eq!((bench.engine.round(now), bench.engine.next_timer()), (0, Some(end)));
            }
        }
        bench.engine.round(end);
        assert_eq!(bench.engine.next_timer(), None);
        let done = bench.poll().expect("valid").map(|done| (done.id, done.status));
        assert_eq!(done, Some((1, WcStatus::RNR_RETRY_EXC_ERR)), "{retry}");
        assert_eq!(states(&bench), [QpState::ERR.0, QpState::RTS.0]);
    }
}

#[test]
fn queue_pairs_take_from_a_shared_receive_queue() {
    let mut bench = Bench::new(2, 4);
    assert_eq!(bench.receive(2, 1, &[]), Err(VerbsError::Unsupported));
    for id in 0..4 {
        bench.receive_shared(id, &[bench.part(id * 100, 50)]).expect("room");
    }
    assert_eq!(bench.receive_shared(4, &[]), Err(VerbsError::Full));
    bench.post(2, &SendWr::inline(10, b"to 3").imm(3)).expect("room");
    bench.idle();
    bench.post(3, &SendWr::inline(11, b"to 2")).expect("room");
    bench.idle();
    let found: Vec<_> = std::iter::from_fn(|| bench.poll().expect("valid")).map(|done| (done.id, done.qp)).collect();
    assert_eq!(found, [(0, 3), (10, 2), (1, 2), (11, 3)]);
    assert_eq!((bench.bytes(0, 4), bench.bytes(100, 4)), (b"to 3".to_vec(), b"to 2".to_vec()));
    bench.receive_shared(4, &[]).and(bench.receive_shared(5, &[])).expect("two are free");
    assert_eq!(bench.receive_shared(6, &[]), Err(VerbsError::Full));
    // Requests of the queue outlive a queue pair in error.
    assert_eq!(bench.engine.command(&Command { verb: Verb::FAIL, ..bench::connect(3, 0) }), Reply::DONE);
    bench.post(2, &SendWr::inline(12, &[])).expect("room");
    assert_eq!(bench.outcomes(), [(12, WcStatus::RETRY_EXC_ERR)]);
}

/// A long message keeps its request while others that were taken later complete; the ring is free up to it.
#[test]
fn shared_receives_complete_out_of_order() {
    let mut bench = Bench::new(2, 4);
    let long = 2 * SLICE;
    bench.receive_shared(0, &[bench.part(0, long)]).expect("room");
    (1..4).for_each(|id| bench.receive_shared(id, &[bench.part(long, 8)]).expect("room"));
    bench.post(2, &SendWr::send(10, &[bench.part(SLICE, long)])).expect("room");
    bench.post(3, &SendWr::inline(11, b"short")).expect("room");
    bench.engine.round(0);
    let found: Vec<_> = std::iter::from_fn(|| bench.poll().expect("valid")).map(|done| done.id).collect();
    assert_eq!(found, [1, 11]);
    assert_eq!(bench.receive_shared(4, &[]), Err(VerbsError::Full));
    assert_eq!(bench.outcomes(), [(0, SUCCESS), (10, SUCCESS)]);
    bench.receive_shared(4, &[]).and(bench.receive_shared(5, &[])).expect("two are free");
    assert_eq!(bench.receive_shared(6, &[]), Err(VerbsError::Full));
    // One that is reset within a message has its request flushed: others are behind it.
    let mut bench = Bench::new(2, 4);
    bench.receive_shared(0, &[bench.part(0, long)]).expect("room");
    bench.post(2, &SendWr::send(10, &[bench.part(0, long)])).expect("room");
    bench.engine.round(0);
    let object = bench.section.objects.iter().find(|object| object.kind == Kind::QUEUE_PAIR && object.index == 3);
    let object = Object { generation: 2, ..*object.expect("there") };
    assert_eq!(bench.engine.command(&Command { verb: Verb::RESET, ..create(object) }), Reply::DONE);
    assert_eq!(bench.outcomes(), [(0, FLUSHED), (10, WcStatus::RETRY_EXC_ERR)]);
}

/// H20, and completions of the generation before.
#[test]
fn a_reset_queue_pair_begins_again() {
    let mut bench = Bench::new(2, 6);
    bench.receive(1, 1, &[]).and(bench.receive(1, 2, &[])).expect("room");
    bench.post(0, &SendWr::inline(3, &[])).expect("room");
    bench.idle();
    for generation in 2..=300 {
        let pairs = [0, 1].map(|index| {
            let object = bench.reset(index, |object| object);
            for wrong in [generation, generation + 2, 0] {
                let wrong = create(Object { generation: wrong, ..object });
                let reply = bench.engine.command(&Command { verb: Verb::RESET, ..wrong });
                assert!([Reply::STATE, Reply::MALFORMED].contains(&reply));
            }
            object
        });
        let former = Object { generation: generation - 1, ..pairs[0] };
        assert_eq!(bench.verbs().queue_pair(bench.id_of(former)).err(), Some(VerbsError::Stale));
        assert_eq!(bench.engine.command(&bench::connect(0, 1)), Reply::DONE);
        let verbs = bench.verbs();
        let [a, b] = pairs.map(|object| verbs.queue_pair(bench.id_of(object)).expect("there"));
        for id in 0..4 {
            b.receive(id, &[]).expect("room");
            a.post(&SendWr::inline(10 + id, &[])).expect("room");
        }
        // Completions of the generation before are skipped, and free nothing.
        if generation == 2 {
            assert_eq!(bench.poll(), Ok(None));
            assert_eq!(a.post(&SendWr::inline(1, &[])), Err(VerbsError::Full));
        }
        while bench.engine.round(0) != 0 {}
        let found: Vec<_> = std::iter::from_fn(|| bench.poll().expect("valid")).map(|done| done.id).collect();
        assert_eq!(found, [0, 10, 1, 11, 2, 12, 3, 13], "{generation}");
    }
}

#[test]
fn objects_that_others_name_are_not_destroyed() {
    let mut bench = Bench::new(2, 4);
    let destroy = |kind, index| Command { verb: Verb::DESTROY, ..create(Object { kind, index, ..Object::default() }) };
    for kind in [Kind::COMPLETION_QUEUE, Kind::SHARED_RECEIVE_QUEUE] {
        assert_eq!(bench.engine.command(&destroy(kind, 0)), Reply::STATE);
    }
    // Its peer finds that it is gone; what it had posted is of no effect.
    bench.post(1, &SendWr::inline(1, &[])).expect("room");
    for index in 1..4 {
        assert_eq!(bench.engine.command(&destroy(Kind::QUEUE_PAIR, index)), Reply::DONE);
    }
    assert_eq!(bench.post(1, &SendWr::inline(1, &[])), Err(VerbsError::State(QpState::RESET.0)));
    bench.post(0, &SendWr::inline(2, &[])).expect("room");
    assert_eq!(bench.outcomes(), [(2, WcStatus::RETRY_EXC_ERR)]);
    assert_eq!(bench.engine.command(&destroy(Kind::SHARED_RECEIVE_QUEUE, 0)), Reply::DONE);
    assert_eq!(bench.engine.command(&destroy(Kind::COMPLETION_QUEUE, 0)), Reply::STATE);
    assert_eq!(bench.engine.command(&destroy(Kind::QUEUE_PAIR, 0)), Reply::DONE);
    assert_eq!(bench.engine.command(&destroy(Kind::COMPLETION_QUEUE, 0)), Reply::DONE);
    for (kind, index) in
        [(Kind::QUEUE_PAIR, 0), (Kind::COMPLETION_QUEUE, 0), (Kind::REGION, 1), (Kind::QUEUE_PAIR, 999)]
    {
        assert_eq!(bench.engine.command(&destroy(kind, index)), Reply::STATE);
    }
    assert_eq!(bench.engine.command(&destroy(Kind(9), 0)), Reply::MALFORMED);
}

/// H2: behind the answer nothing goes there, not even the rest of a message.
#[test]
fn a_deregistered_region_is_not_accessed_any_more() {
    let long = 3 * SLICE;
    let region = |index| create(Object { kind: Kind::REGION, index, ..Object::default() });
    for (is_remote, status) in [(true, WcStatus::REM_ACCESS_ERR), (false, WcStatus::LOC_PROT_ERR)] {
        let mut bench = Bench::new(2, 4);
        let object = Object { index: 1, lkey: 0x101, ..bench.section.objects[0] };
        assert_eq!(bench.engine.command(&create(object)), Reply::DONE);
        bench.fill(0, &vec![1; long as usize]);
        let sge = bench.part(0, long);
        let (key, rkey) = if is_remote { (sge.lkey, 0x101) } else { (0x101, sge.lkey) };
        let remote = Remote { rkey, ..bench.remote(0).at(0) };
        let sge = [Sge { lkey: key, len: SLICE as u32 * 2, ..sge }];
        bench.post(0, &SendWr::write(1, &sge, remote.at(2 * SLICE))).expect("room");
        bench.engine.round(0);
        assert_eq!(bench.engine.command(&Command { verb: Verb::DESTROY, ..region(1) }), Reply::DONE);
        bench.fill(2 * SLICE, &vec![9; 2 * SLICE as usize]);
        assert_eq!(bench.outcomes(), [(1, status)]);
        assert_eq!(bench.bytes(2 * SLICE, 2 * SLICE as usize), vec![9; 2 * SLICE as usize]);
    }
}

/// H1: a handler that is ended at any store leaves a shared receive queue that goes on.
#[test]
fn an_ended_handler_leaves_a_shared_receive_queue_that_goes_on() {
    for stores in 0.. {
        let mut bench = Bench::new(1, 3);
        let window = bench.section.window.part(0, bench.section.window.len()).expect("all of it");
        let Bench { section, engine } = &mut bench;
        let run = Ending::run(&window, stores, |ending| {
            let verbs = section.over(ending);
            let srq = verbs.shared_receive_queue(section.id(0)).expect("there");
            let cq = verbs.completion_queue(section.id(0)).expect("there");
            let qp = verbs.queue_pair(section.id(2)).expect("there");
            for id in 0..3 {
                srq.receive(id, &[Sge { addr: section.objects[0].iova, len: 92, lkey: LKEY }]).expect("room");
                qp.post(&SendWr::inline(10 + id, &[id as u8; 92]).quiet()).expect("room");
                qp.post(&SendWr::inline(20 + id, &[]).to(Remote { addr: 0, rkey: 0 })).expect("room");
                while engine.round(0) != 0 {}
                while cq.poll().expect("valid").is_some() {}
            }
        });
        let outcomes = bench.outcomes();
        assert!(outcomes.iter().all(|(_, status)| *status == SUCCESS), "{outcomes:?} after {stores} stores");
        let receives = (100..).take_while(|id| bench.receive_shared(*id, &[bench.part(0, 92)]).is_ok()).count();
        assert!(receives == 2 || receives == 1 && run.is_none(), "{receives} after {stores} stores");
        for id in 200..202 {
            bench.post(3, &SendWr::inline(id, &[9])).expect("room");
        }
        let outcomes = bench.outcomes();
        let sent = outcomes.iter().filter(|(id, _)| *id >= 200).collect::<Vec<_>>();
        assert_eq!(sent, [&(200, SUCCESS), &(201, SUCCESS)], "after {stores} stores");
        let receives = (300..).take_while(|id| bench.receive_shared(*id, &[]).is_ok()).count();
        assert_eq!(receives, 2, "after {stores} stores");
        if run.is_some() {
            break;
        }
        assert!(stores < 200);
    }
}

/// H15: another thread changes entries while they are read; what is not the adapter's stays as it is.
#[test]
fn entries_may_change_while_they_are_read() {
    let mut bench = Bench::new(2, 5);
    let window = bench.section.window.part(0, bench.section.window.len()).expect("all of it");
    let (region, cq) = (bench.section.objects[0], bench.section.objects[1]);
    let rings = cq.off + (64 << 5)..window.len();
    let stop = AtomicBool::new(false);
    let word = |at: u64| window.word(at).expect("inside");
    let front = || {
        let mut bytes = vec![0; (region.off - 0x3000) as usize];
        window.read_bytes(0x3000, &mut bytes).expect("inside");
        bytes
    };
    let before = front();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Any numbers will do: an entry's words in turn, with what is right and what is not.
            let mut seed = 1_u64;
            while !stop.load(Ordering::Relaxed) {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = rings.start + (seed >> 33) % (rings.end - rings.start) / 4 * 4;
                let values = [LKEY, region.iova as u32, 8, 2 | 1 << 8 | 1 << 16, 0x0100_0001, seed as u32];
                word(at).store(values[(seed >> 20) as usize % values.len()]);
            }
        });
        let begin = Instant::now();
        let mut rounds = 0;
        while begin.elapsed() < Duration::from_millis(300) {
            assert!(bench.engine.round(0) <= 4 * MOST_REQUESTS);
            // All that there is: a number ahead of that is not believed, however fast the rounds are, and the queue would overrun.
            while !matches!(bench.poll(), Ok(None)) {}
            rounds += 1;
            if rounds % 64 == 0 {
                for (a, b) in [(0, 1), (2, 3)] {
                    let _ = (bench.reset(a, |object| object), bench.reset(b, |object| object));
                    assert_eq!(bench.engine.command(&bench::connect(a, b.into())), Reply::DONE);
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(rounds > 100);
    });
    // The objects of queue pairs are of later generations now.
    let pairs = 64 * 320;
    assert_eq!(before[..pairs], front()[..pairs]);
}

/// A host's command that puts a queue pair in error.
fn fail(index: u16) -> Command {
    Command { verb: Verb::FAIL, ..bench::connect(index, 0) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// H21: source and target of a write may overlap; the target has the bytes that the source had.
    #[test]
    fn ends_of_a_write_may_overlap(from in 0..300_u64, to in 0..300_u64, len in 0..300_u64, cuts in any::<[u16; 4]>()) {
        let mut bench = Bench::new(2, 3);
        let bytes: Vec<u8> = (0..=255).cycle().take(700).collect();
        bench.fill(0, &bytes);
        let mut at = cuts.map(|cut| u64::from(cut) % (len + 1));
        at.sort();
        let ends = [0, at[0], at[1], at[2], at[3], len];
        let is_one = to < from + len && from < to + len;
        // Parts that overlap the target have no order; one part has.
        let parts: Vec<Sge> = if is_one {
            vec![bench.part(from, len)]
        } else {
            ends.windows(2).map(|ends| bench.part(from + ends[0], ends[1] - ends[0])).collect()
        };
        bench.post(0, &SendWr::write(1, &parts, bench.remote(to))).expect("room");
        prop_assert_eq!(bench.outcomes(), [(1, SUCCESS)]);
        let mut expected = bytes;
        expected.copy_within(from as usize..(from + len) as usize, to as usize);
        prop_assert!(bench.bytes(0, 700) == expected);
    }

    /// Shared receives: each has one completion, whatever order the queue pairs and their errors make, and the ring is
    /// free again.
    #[test]
    fn each_shared_receive_has_one_completion(acts in proptest::collection::vec((0..40_u8, 0..2_u16, 0..3_u64), 1..300)) {
        let mut bench = Bench::new(2, 6);
        let (mut posted, mut done) = (Vec::new(), Vec::new());
        let take = |bench: &Bench, done: &mut Vec<u64>| while let Some(found) = bench.poll().expect("no overrun") {
            if found.opcode == WcOpcode::RECV {
                done.push(found.id);
            }
        };
        for (id, (what, qp, long)) in (0..).zip(acts) {
            match if what < 36 { what % 6 } else { what } {
                0 | 1 => posted.extend(bench.receive_shared(id, &[bench.part(0, 3 * SLICE)]).ok().map(|()| id)),
                2 | 3 => {
                    let sge = [bench.part(SLICE, long * SLICE)];
                    let _ = bench.post(2 + qp, &SendWr::send(id, &sge));
                }
                4 => drop(bench.engine.round(0)),
                5 => take(&bench, &mut done),
                36 => {
                    let _ = bench.post(2 + qp, &SendWr::send(id, &[Sge { lkey: 1, ..bench.part(0, 1) }]));
                }
                37 => assert_eq!(bench.engine.command(&fail(2 + qp)), Reply::DONE),
                // One dies, and the other one with it or behind it, in the middle of a message or not.
                _ => {
                    let _ = bench.reset(2 + qp, |object| object);
                    bench.engine.round(0);
                    let _ = bench.reset(3 - qp, |object| object);
                    assert_eq!(bench.engine.command(&bench::connect(2, 3)), Reply::DONE);
                }
            }
        }
        bench.idle();
        take(&bench, &mut done);
        let count = done.len();
        done.sort();
        // In the order of the queue they were taken, so those that are left are the last ones.
        prop_assert_eq!(&done[..], &posted[..count]);
        prop_assert_eq!((0..10).take_while(|id| bench.receive_shared(*id, &[]).is_ok()).count(), 4 - (posted.len() - count));
    }

    /// H15: entries of every form, changed at any time, and entries while they are read.
    #[test]
    fn an_adapter_survives_any_request(
        lies in proptest::collection::vec((any::<[u32; 32]>(), 0..8_u32, any::<u8>(), 0..4_u16), 1..60),
    ) {
        let mut bench = Bench::new(2, 5);
        let (region, cq) = (bench.section.objects[0], bench.section.objects[1]);
        for (mut words, opcode, shape, qp) in lies {
            let mut pairs = bench.section.objects.iter();
            let pair = *pairs.find(|object| object.kind == Kind::QUEUE_PAIR && object.index == qp).expect("there");
            let entry_of = |words: &[u32; 32]| SendEntry::read_from_bytes(words.as_bytes()).expect("its bytes");
            let mut entry = entry_of(&words);
            // Nearly right in most fields.
            if shape & 1 == 0 {
                entry.head = SendEntry::head(Opcode(opcode), (words[0] & 0x1F) << 8, words[1] as usize % 7);
                entry.rkey = LKEY;
                entry.remote = region.iova + u64::from(words[2]) % (REGION + 9);
                entry.length = words[3] % 300;
                words[8..].chunks_mut(4).for_each(|sge| {
                    if let [addr, high, len, lkey] = sge {
                        (*addr, *high) = (region.iova as u32 + *addr % REGION as u32, 0);
                        (*len, *lkey) = (*len % 100, LKEY);
                    }
                });
                let sges = entry_of(&words);
                (entry.first, entry.second) = (sges.first, sges.second);
            }
            bench.write_entry(pair, &entry);
            let _ = (bench.receive(qp % 2, 1, &[bench.part(0, 90)]), bench.receive_shared(1, &[bench.part(0, 90)]));
            let not_its_own = |bench: &Bench| {
                let end = bench.section.window.len();
                [(0, 0x1000), (0x3000, region.off), (cq.off + (64 << 5), end)].map(|(from, to)| {
                    let mut bytes = vec![0; (to - from) as usize];
                    bench.section.window.read_bytes(from, &mut bytes).expect("inside");
                    bytes
                })
            };
            let before = not_its_own(&bench);
            bench.engine.round(0);
            prop_assert!(before == not_its_own(&bench));
            for (a, b) in [(0, 1), (2, 3)] {
                if [a, b].iter().any(|qp| bench.section.state(*qp) == QpState::ERR.0) {
                    bench.idle();
                    let _ = (bench.reset(a, |object| object), bench.reset(b, |object| object));
                    assert_eq!(bench.engine.command(&bench::connect(a, b.into())), Reply::DONE);
                }
            }
            while !matches!(bench.poll(), Ok(None) | Err(VerbsError::Overrun)) {}
        }
    }
}
