//! A completion queue that overruns, and what its queue pairs had taken: the adapter and a device in one thread.

mod bench;

use bench::{Bench, create};
use hamr_hca::engine::SLICE;
use hamr_verbs::SendWr;
use hamr_verbs::testing::REGION;
use hamr_verbs::wire::{Kind, Object, QP_STATE, QpState, Reply, WcStatus, word_of};

/// A queue pair that ends because its completion queue has overrun gives back what it has taken of a shared receive queue.
#[test]
fn an_overrun_loses_no_request_of_a_shared_receive_queue() {
    // Two completions, and four requests of the shared queue.
    let mut bench = Bench::new(2, 1);
    let off = bench.section.objects[0].off + REGION / 2;
    let other = Object { kind: Kind::COMPLETION_QUEUE, index: 1, off, log2: 5, generation: 1, ..Object::default() };
    bench.section.replace(&other);
    assert_eq!(bench.engine.command(&create(other)), Reply::DONE);
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
    assert_eq!([1, 3].map(|qp| bench.word(word_of(QP_STATE, qp))), [QpState::ERR.0; 2]);
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
