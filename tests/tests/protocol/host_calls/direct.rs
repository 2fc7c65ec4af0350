//! Calls that a task makes on its own stack, whose replies are there at once or not.

use super::*;

impl Bench {
    /// Answers the request that comes `by` behind this one in its queue, before it is there. The value is the first word of
    /// its arguments, which lie in the same place.
    fn value_ahead(&mut self, queue: usize, request: &Request, by: u32) {
        let slots = self.ends[queue].responder.slots().ring_len();
        let at = request.found.slot - 1 + by;
        let count = (request.found.seq & 0xFF_FFFF) + at / slots;
        let found = Found { slot: 1 + at % slots, seq: seq(Epoch(3).tag(), count, 24) };
        self.value(queue, &Request { found, ..request.clone() }, 0);
    }
}

/// Calls so often, and adds the results up.
fn calls(task: &mut Task<'_>, times: u64) -> Result<u64, Fault> {
    let mut sum = 0;
    for i in 0..times {
        sum += task.sync(HOST, plus::with(i, 100))?;
    }
    Ok(sum)
}

#[test]
fn calls_whose_replies_come_at_once_take_no_round() {
    let mut bench = Bench::new();
    let (.., ticket) = bench.start(|task| calls(task, 5));
    let first = bench.expect(1);
    (1..5).for_each(|by| bench.value_ahead(1, &first, by));
    bench.value(1, &first, 100);
    // Those that find the first reply.
    (0..2).for_each(|_| _ = bench.round());
    assert_eq!(bench.outcome(ticket).map(|o| (o.0, o.1)), Some((Status::OK, 110)));
    for i in 1..5u64 {
        let request = bench.request(1).expect("sent");
        assert_eq!(request.args, [i.to_le_bytes(), 100_u64.to_le_bytes()].concat());
    }
}

/// Others have a turn behind sixteen calls, and a cancellation is found.
#[test]
fn a_task_that_calls_again_and_again_leaves_others_their_turn() {
    let mut bench = Bench::new();
    let (.., ticket) = bench.start(|task| calls(task, 1000));
    let mut request = bench.expect(1);
    bench.value(1, &request, 1);
    for round in 0..10 {
        (1..8).for_each(|by| bench.value_ahead(1, &request, by));
        bench.inline.submit_hot(ReqHdr::inline(HandlerKey(1), 4), &[0]);
        bench.round();
        bench.round();
        assert!(bench.inline.hot_reply().is_some(), "round {round}");
        bench.inline.release_hot();
        while let Some(next) = bench.request(1) {
            request = next;
        }
        // The eighth had no reply.
        bench.value(1, &request, 1);
    }
    assert!(bench.outcome(ticket).is_none());
    (1..8).for_each(|by| bench.value_ahead(1, &request, by));
    bench.stream.slots().ticket_slot(ticket as u32).expect("there").set_req_hdr(ReqHdr::CANCEL);
    bench.rounds();
    assert_eq!(bench.outcome(ticket).map(|o| o.0), Some(Status::CANCELLED));
}

/// The handle of a call that has ended is the next one's.
#[test]
fn the_end_of_an_older_call_is_not_that_of_a_direct_one() {
    let mut bench = Bench::new();
    let (.., ticket) = bench.start(|task| {
        let older = task.offload(HOST, plus::with(1, 2))?;
        while !task.is_done(&older) {
            task.yield_now()?;
        }
        let older = task.wait_for(older)?;
        Ok(1000 * older + task.sync(HOST, plus::with(3, 4))?)
    });
    let older = bench.expect(1);
    bench.value(1, &older, 3);
    let request = bench.expect(1);
    bench.rounds();
    assert!(!bench.is_cancelled(1, &request));
    bench.value(1, &request, 7);
    bench.rounds();
    assert_eq!(bench.outcome(ticket).map(|o| (o.0, o.1)), Some((Status::OK, 3007)));
}

/// As at every wait: the device has room for three of these, and none is refused.
#[test]
fn messages_leave_before_a_call() {
    const BYTES: usize = 508;
    let mut bench = Bench::with(Plan { host_chunk: 512, ..PLAN }, feature::HOST_CALLS);
    let (.., ticket) = bench.start(|task| {
        // The reply to the first one is late, so the second one is left to the serve loop.
        let mut sum = calls(task, 2)?;
        for i in 0..6 {
            task.send(HOST, echo::with(Bytes::from_iter([i; BYTES])))?;
            sum += task.sync(HOST, plus::with(1, 0))?;
        }
        Ok(sum)
    });
    let first = bench.expect(1);
    (1..8).for_each(|by| bench.value_ahead(1, &first, by));
    bench.value(1, &first, 1);
    bench.rounds();
    assert_eq!(bench.outcome(ticket).map(|o| (o.0, o.1)), Some((Status::OK, 8)));
    for i in 0..6 {
        let message = bench.request(0).expect("sent");
        assert_eq!(message.args[4..], [i; BYTES]);
    }
}
