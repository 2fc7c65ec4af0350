//! Shared receive queues go on whatever ends: the adapter and a device in one thread.

mod bench;

use bench::{Bench, create};
use hamr_hca::engine::SLICE;
use hamr_verbs::SendWr;
use hamr_verbs::testing::REGION;
use hamr_verbs::wire::{Command, Kind, Object, QpState, Reply, Sge, Verb, WcStatus};

const SUCCESS: WcStatus = WcStatus::SUCCESS;

/// Another completion queue.
fn second_queue(bench: &mut Bench) -> Object {
    let off = bench.section.objects[0].off + REGION / 2;
    let other = Object { kind: Kind::COMPLETION_QUEUE, index: 1, off, log2: 5, generation: 1, ..Object::default() };
    bench.section.replace(&other);
    assert_eq!(bench.engine.command(&create(other)), Reply::DONE);
    other
}

/// A message whose sender is put in error, reset or destroyed, or whose bytes are gone, has an end: its queue pair's.
#[test]
fn a_message_without_an_end_does_not_stop_a_shared_receive_queue() {
    for how in ["fail", "reset", "destroy", "deregister"] {
        let mut bench = Bench::new(2, 5);
        // Both pairs take from the queue.
        for index in [0, 1] {
            bench.reset(index, |object| Object { srq: 1, ..object });
        }
        assert_eq!(bench.engine.command(&bench::connect(0, 1)), Reply::DONE);
        let source = Object { index: 1, lkey: 0x101, ..bench.section.objects[0] };
        assert_eq!(bench.engine.command(&create(source)), Reply::DONE);
        let long = 2 * SLICE;
        for id in 0..4 {
            bench.receive_shared(id, &[bench.part(0, long)]).expect("room");
        }
        let from = Sge { lkey: source.lkey, ..bench.part(0, long) };
        bench.post(2, &SendWr::send(100, &[from])).expect("room");
        bench.engine.round(0);
        let on = |verb, object| Command { verb, ..create(object) };
        let pair = Object { kind: Kind::QUEUE_PAIR, index: 2, ..Object::default() };
        let command = match how {
            "fail" => on(Verb::FAIL, pair),
            "destroy" => on(Verb::DESTROY, pair),
            "deregister" => on(Verb::DESTROY, source),
            _ => {
                let is_it = |object: &&Object| object.kind == Kind::QUEUE_PAIR && object.index == 2;
                let object = bench.section.objects.iter().find(is_it).expect("there");
                on(Verb::RESET, Object { generation: 2, ..*object })
            }
        };
        assert_eq!(bench.engine.command(&command), Reply::DONE);
        let outcomes = bench.outcomes();
        assert!(outcomes.contains(&(0, WcStatus::WR_FLUSH_ERR)), "{how}: {outcomes:?}");
        assert_eq!(bench.section.state(3), QpState::ERR.0);
        for id in 4..12 {
            bench.receive_shared(id, &[]).expect("room");
            bench.post(0, &SendWr::inline(id, &[])).expect("room");
            assert_eq!(bench.outcomes(), [(id - 3, SUCCESS), (id, SUCCESS)], "{how}");
        }
    }
}

/// A completion that nobody could take would keep its request for ever.
#[test]
fn completions_of_a_shared_receive_queue_are_taken_before_their_queue_is_destroyed() {
    let mut bench = Bench::new(2, 4);
    let other = second_queue(&mut bench);
    for index in [2, 3] {
        bench.reset(index, |object| Object { receive_cq: 1, ..object });
    }
    assert_eq!(bench.engine.command(&bench::connect(2, 3)), Reply::DONE);
    let message = |bench: &mut Bench, id| {
        bench.receive_shared(id, &[]).and_then(|()| bench.post(2, &SendWr::inline(id, &[]))).expect("room");
        assert_eq!(bench.outcomes(), [(id, SUCCESS)]);
    };
    let destroy = |bench: &mut Bench, kind, index| {
        bench.engine.command(&Command { verb: Verb::DESTROY, ..create(Object { kind, index, ..Object::default() }) })
    };
    let (pair, queue, shared) = (Kind::QUEUE_PAIR, Kind::COMPLETION_QUEUE, Kind::SHARED_RECEIVE_QUEUE);
    (0..2).for_each(|id| message(&mut bench, id));
    assert_eq!([2, 3].map(|index| destroy(&mut bench, pair, index)), [Reply::DONE; 2]);
    // One of them is taken, and then both.
    for id in 0..2 {
        assert_eq!(destroy(&mut bench, queue, 1), Reply::STATE);
        let verbs = bench.verbs();
        let cq = verbs.completion_queue(bench.id_of(other)).expect("there");
        assert_eq!(cq.poll().map(|found| found.map(|found| found.id)), Ok(Some(id)));
    }
    assert_eq!(destroy(&mut bench, queue, 1), Reply::DONE);
    // Of a shared receive queue that is gone nothing is kept.
    let mut bench = Bench::new(2, 4);
    second_queue(&mut bench);
    bench.reset(3, |object| Object { receive_cq: 1, ..object });
    bench.reset(2, |object| object);
    assert_eq!(bench.engine.command(&bench::connect(2, 3)), Reply::DONE);
    message(&mut bench, 0);
    assert_eq!([2, 3].map(|index| destroy(&mut bench, pair, index)), [Reply::DONE; 2]);
    assert_eq!(
        [(queue, 1), (shared, 0), (queue, 1)].map(|(kind, index)| destroy(&mut bench, kind, index)),
        [Reply::STATE, Reply::DONE, Reply::DONE]
    );
}

/// A queue pair that ends because its completion queue has overrun gives back what it has taken of a shared receive queue.
#[test]
fn an_overrun_loses_no_request_of_a_shared_receive_queue() {
    // Two completions, and four requests of the shared queue.
    let mut bench = Bench::new(2, 1);
    let other = second_queue(&mut bench);
    // Sends complete in the longer queue; receives of 1, and of 3 which has the shared queue, in the short one.
    let reset = |bench: &mut Bench, index, receive_cq| {
        bench.reset(index, |object| Object { send_cq: 1, receive_cq, ..object });
    };
    for (index, receive_cq) in [(0, 1), (1, 0), (2, 1), (3, 0)] {
        reset(&mut bench, index, receive_cq);
    }
    for (a, b) in [(0, 1), (2, 3)] {
        assert_eq!(bench.engine.command(&bench::connect(a, b)), Reply::DONE);
    }
    let long = 2 * SLICE - 64;
    for id in 100..104 {
        bench.receive_shared(id, &[bench.part(0, long)]).expect("room");
    }
    for id in 0..3 {
        bench.receive(1, id, &[]).expect("room");
    }
    // A long message takes the first request; behind its first slice the queue is full, and then overruns.
    bench.post(2, &SendWr::send(10, &[bench.part(0, long)])).expect("room");
    bench.engine.round(0);
    for id in 11..14 {
        bench.post(0, &SendWr::inline(id, &[])).expect("room");
    }
    bench.idle();
    assert_eq!([1, 3].map(|qp| bench.section.state(qp)), [QpState::ERR.0; 2]);
    for index in [2, 3] {
        reset(&mut bench, index, 1);
    }
    assert_eq!(bench.engine.command(&bench::connect(2, 3)), Reply::DONE);
    for id in 20..24 {
        bench.post(2, &SendWr::inline(id, &[7])).expect("room");
    }
    bench.idle();
    let verbs = bench.verbs();
    let cq = verbs.completion_queue(bench.id_of(other)).expect("there");
    let found = std::iter::from_fn(|| cq.poll().expect("valid"));
    let received: Vec<_> =
        found.filter(|found| found.opcode.is_receive()).map(|found| (found.id, found.status)).collect();
    assert_eq!(received, [100, 101, 102, 103].map(|id| (id, WcStatus::SUCCESS)));
    // All of the ring is free.
    for id in 104..108 {
        bench.receive_shared(id, &[]).expect("room");
    }
}
