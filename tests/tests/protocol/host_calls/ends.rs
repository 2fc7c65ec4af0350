//! How calls of tasks end without a value, and when the host is notified of them.

use super::*;

#[test]
fn a_deadline_ends_the_wait_and_cancels_the_call() {
    let mut bench = Bench::new();
    let (.., ticket) = bench.start_with(
        |task| {
            let inner = task.within(Duration::from_micros(1000));
            let late = task.sync(HOST, plus::with(1, 2)).expect_err("late");
            assert_eq!(late.why(), Some(Why::Interrupted));
            drop(inner);
            // The late reply is not this call's.
            assert_eq!(task.sync(HOST, plus::with(3, 4)).expect("in time"), 34);
            task.sync(HOST, plus::with(5, 6))?;
            Ok(0)
        },
        50_000,
        0,
    );
    let first = bench.expect(1);
    let given = first.ext.expect("it has a deadline").micros();
    assert!((900..=1000).contains(&given), "{given}");
    bench.now += 2000;
    let second = bench.expect(1);
    assert!(bench.is_cancelled(1, &first) && !bench.is_cancelled(1, &second));
    let given = second.ext.expect("that of the task's call").micros();
    assert!((40_000..49_000).contains(&given), "{given}");
    bench.value(1, &first, 12);
    bench.value(1, &second, 34);
    let third = bench.expect(1);
    bench.now += 60_000;
    bench.rounds();
    assert!(bench.is_cancelled(1, &third));
    assert_eq!(bench.outcome(ticket).map(|o| o.0), Some(Status::DEADLINE));
}

#[test]
fn a_place_is_used_again_when_its_queue_is_quiet() {
    let mut bench = Bench::new();
    let waits = |task: &mut Task<'_>| Ok(task.sync(HOST, plus::with(1, 2))?);
    let (_, place, ticket) = bench.start(waits);
    assert_eq!(place, 0);
    let request = bench.expect(1);
    let slot = bench.stream.slots().ticket_slot(ticket as u32).expect("there");
    slot.set_req_hdr(slot.req_hdr() | ReqHdr::CANCEL);
    bench.rounds();
    assert_eq!(bench.outcome(ticket).map(|o| o.0), Some(Status::CANCELLED));
    assert!(bench.is_cancelled(1, &request));
    // Two places, of which the first is not free yet: the third call waits, a chained one is refused.
    let (_, place, second) = bench.start(waits);
    assert_eq!(place, 1);
    let (refused, ..) = bench.start_with(waits, 0, Ext::CHAINED);
    assert_eq!(refused.status(), Status::QUEUE_FULL);
    let (taken, place, third) = bench.start(waits);
    assert_eq!((taken, place), (RepHdr::taken(4), RepHdr::NO_PLACE));
    let other = bench.expect(2);
    bench.rounds();
    assert!(bench.request(1).is_none(), "the third task has not begun");
    bench.reply(1, &request, RepHdr::inline(Status::CANCELLED, 0), &[]);
    let request = bench.expect(1);
    bench.value(1, &request, 3);
    bench.value(2, &other, 2);
    bench.rounds();
    assert_eq!(bench.outcome(third).map(|o| o.1), Some(3));
    assert_eq!(bench.outcome(second).map(|o| o.1), Some(2));
    let waits = |task: &mut Task<'_>| Ok(task.wait_until(|| false).map(|()| 0)?);
    assert_eq!([bench.start(waits).1, bench.start(waits).1], [0, 1]);
}

#[test]
fn a_task_that_ends_leaves_no_call_behind() {
    for panics in [false, true] {
        let mut bench = Bench::new();
        let (.., ticket) = bench.start(move |task| {
            let _never_read = task.offload(HOST, plus::with(1, 2)).expect("room");
            let also = task.offload(HOST, plus::with(3, 4)).expect("room");
            std::mem::forget(also);
            assert!(!panics, "asked to");
            Ok(1)
        });
        let first = bench.expect(1);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bench.rounds()));
        assert_eq!(caught.is_err(), panics);
        if panics {
            bench.poller.fail_current(Status::PANIC, "asked to", &Trace::NONE);
        }
        let status = if panics { Status::PANIC } else { Status::OK };
        assert_eq!(bench.outcome(ticket).map(|o| o.0), Some(status));
        let second = bench.expect(1);
        assert!(bench.is_cancelled(1, &first) && bench.is_cancelled(1, &second));
        bench.value(1, &first, 0);
        bench.rounds();
        let (_, place, other) = bench.start(|task| Ok(task.yield_now().map(|()| 2)?));
        assert_eq!(place, 1, "one reply is missing");
        bench.value(1, &second, 0);
        bench.rounds();
        assert_eq!(bench.outcome(other).map(|o| o.1), Some(2));
        let (_, place, again) = bench.start(|task| Ok(task.sync(HOST, plus::with(1, 2))?));
        assert_eq!(place, 0);
        let request = bench.expect(1);
        bench.value(1, &request, 9);
        bench.rounds();
        assert_eq!(bench.outcome(again).map(|o| o.1), Some(9));
    }
}

#[test]
fn a_call_that_finds_no_place_is_tried_again() {
    let mut bench = Bench::new();
    let full = RepHdr::inline(Status::QUEUE_FULL, 0);
    let (.., ticket) = bench.start(|task| {
        let value = task.sync(HOST, plus::with(1, 2)).expect("at last");
        assert_eq!(task.sync(HOST, plus::with(3, 4)).expect_err("never").why(), Some(Why::QueueFull));
        Ok(value)
    });
    for _ in 0..5 {
        let request = bench.expect(1);
        assert_eq!(request.args[0], 1);
        bench.reply(1, &request, full, &[]);
        bench.now += 150;
    }
    let request = bench.expect(1);
    bench.value(1, &request, 11);
    let mut tries = 0;
    while bench.outcome(ticket).is_none() {
        if let Some(request) = bench.request(1) {
            bench.reply(1, &request, full, &[]);
            tries += 1;
        }
        bench.now += 200;
        bench.round();
    }
    assert!((20..5000).contains(&tries), "{tries}");
    assert!(bench.now > 1_000_000);
    assert_eq!(bench.outcome(ticket).map(|o| (o.0, o.1)), Some((Status::OK, 11)));
}

/// Abi §12: once for an odd value, and again when what it was notified of was answered.
#[test]
fn the_host_is_notified_of_messages_that_it_may_miss() {
    let mut bench = Bench::new();
    let (.., ticket) = bench.start(|task| {
        let first = task.offload(HOST, plus::with(1, 0)).expect("room");
        let second = task.offload(HOST, plus::with(2, 0)).expect("room");
        task.wait_for(first).expect("answered");
        task.wait_for(second).expect("answered");
        for _ in 0..4 {
            task.sync(HOST, plus::with(3, 0))?;
        }
        Ok(0)
    });
    // The word is 1: no thread of the host polls.
    let first = bench.expect(1);
    let second = bench.expect(1);
    bench.rounds();
    assert_eq!(std::mem::take(&mut bench.notified), 1, "one notification covers both");
    bench.value(1, &first, 0);
    bench.rounds();
    assert_eq!(std::mem::take(&mut bench.notified), 1, "that for the second may have come too early");
    bench.value(1, &second, 0);
    let third = bench.expect(1);
    bench.rounds();
    assert_eq!(std::mem::take(&mut bench.notified), 1, "a later message, the same odd value");
    // A thread polls now.
    bench.ends[1].word.word().store(2);
    bench.value(1, &third, 0);
    let fourth = bench.expect(1);
    bench.rounds();
    assert_eq!(bench.notified, 0);
    // It leaves without a look, and the device finds out by itself.
    bench.ends[1].word.word().store(3);
    bench.rounds();
    assert_eq!(std::mem::take(&mut bench.notified), 1);
    bench.rounds();
    assert_eq!(bench.notified, 0);
    bench.ends[1].word.word().store(5);
    bench.rounds();
    assert_eq!(std::mem::take(&mut bench.notified), 1, "a fresh odd value");
    bench.value(1, &fourth, 0);
    for _ in 0..2 {
        let request = bench.expect(1);
        bench.value(1, &request, 0);
    }
    bench.rounds();
    assert_eq!(bench.outcome(ticket).map(|o| o.0), Some(Status::OK));
    bench.notified = 0;
    bench.rounds();
    assert_eq!(bench.notified, 0, "nothing is outstanding");
}

#[test]
fn a_sleeping_device_waits_as_long_as_the_call_may() {
    let mut bench = Bench::new();
    let (.., ticket) = bench.start(|task| Ok(task.sync(HOST, plus::with(1, 2))?));
    let request = bench.expect(1);
    bench.rounds();
    assert_eq!(bench.poller.longest_sleep(50_000, bench.now), Some(50_000));
    bench.value(1, &request, 3);
    // The host has notified it of the reply.
    bench.poller.slept();
    assert!(matches!(bench.round(), Round::Worked(n) | Round::NeedsNotify(n) if n > 0));
    assert_eq!(bench.outcome(ticket).map(|o| o.1), Some(3));
    let (..) = bench.start_with(|task| Ok(task.sync(HOST, plus::with(1, 2))?), 700, 0);
    bench.expect(1);
    bench.rounds();
    let longest = bench.poller.longest_sleep(50_000, bench.now).expect("it waits");
    assert!((1..700).contains(&longest), "{longest}");
}

/// Also where the stream was served last, so that no round over all streams comes before the task.
#[test]
fn a_host_that_sleeps_is_notified_of_each_task_that_comes_alone() {
    let mut bench = Bench::new();
    for value in [1, 3, 5, 7] {
        bench.poller.window().word(word::HOST_WAIT).expect("inside").store(value);
        bench.notified = 0;
        let (reply, ..) = bench.start(|_| Ok(7));
        assert_eq!(reply, RepHdr::inline(Status::OK, 8), "at {value}");
        bench.rounds();
        assert_eq!(bench.notified, 1, "at {value}");
    }
}

/// The last reply comes behind the last look: the device goes on instead of sleeping, and takes the call.
#[test]
fn a_call_that_waits_for_a_quiet_place_keeps_the_device_awake() {
    let mut bench = Bench::new();
    let posts = |task: &mut Task<'_>| {
        std::mem::forget(task.offload(HOST, plus::with(1, 2)).expect("room"));
        Ok(1)
    };
    bench.start(posts);
    bench.start(posts);
    let requests = [bench.expect(1), bench.expect(2)];
    bench.rounds();
    let (taken, place, third) = bench.start(|_| Ok(3));
    assert_eq!((taken, place), (RepHdr::taken(4), RepHdr::NO_PLACE));
    bench.rounds();
    assert_eq!(bench.poller.longest_sleep(50_000, bench.now), Some(50_000));
    for (queue, request) in (1..).zip(&requests) {
        bench.value(queue, request, 3);
    }
    assert_eq!(bench.poller.longest_sleep(50_000, bench.now), None);
    bench.poller.slept();
    bench.rounds();
    assert_eq!(bench.outcome(third).map(|o| o.1), Some(3));
    assert_eq!(bench.poller.longest_sleep(50_000, bench.now), Some(50_000));
}

#[test]
fn a_host_that_serves_no_calls_is_no_target() {
    let mut bench = Bench::with(PLAN, 0);
    let (reply, value, _) = bench.start(|task| {
        assert_eq!(task.sync(HOST, plus::with(1, 2)).expect_err("no host").why(), Some(Why::NoHost));
        assert_eq!(task.send(HOST, note::with(1)).expect_err("no host").why(), Some(Why::NoHost));
        assert_eq!(task.offload(HOST, note::with(1)).map(|_| ()).expect_err("no host").why(), Some(Why::NoHost));
        Ok(1)
    });
    assert_eq!((reply, value), (RepHdr::inline(Status::OK, 8), 1), "it ended without a wait");
    // All places of the image are used then.
    let places: Vec<_> = (0..3).map(|_| bench.start(|task| Ok(task.wait_until(|| false).map(|()| 0)?)).1).collect();
    assert_eq!(places, [0, 1, 2]);
}

/// Whatever a host replies, the task gets a value or an error, and the device goes on.
#[test]
fn random_replies_end_calls_as_errors() {
    let mut bench = Bench::new();
    let mut state = 0x1234_5678_9ABC_DEFFu64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let ended = Rc::new(RefCell::new(Vec::new()));
    let log = ended.clone();
    let (.., ticket) = bench.start(move |task| {
        for i in 0..2000u64 {
            let outcome = if i.is_multiple_of(2) {
                task.sync(HOST, plus::with(i, i)).map(|_| ()).map_err(|e| format!("{e}"))
            } else {
                task.sync(HOST, echo::with(Bytes::new())).map(|_| ()).map_err(|e| format!("{e}"))
            };
            log.borrow_mut().push(outcome);
        }
        Ok(0)
    });
    while bench.outcome(ticket).is_none() {
        bench.now += 100_000;
        bench.round();
        if let Some(request) = bench.request(1) {
            let words: [u64; INLINE_WORDS] = core::array::from_fn(|_| random() >> (random() % 64));
            let hdr = if random().is_multiple_of(2) { random() as u32 } else { random() as u32 & 0x01FF_004F };
            bench.reply(1, &request, RepHdr(hdr), &words);
        }
    }
    let ended = ended.borrow();
    assert_eq!(ended.len(), 2000);
    assert!(ended.iter().any(|outcome| matches!(outcome, Err(e) if e.contains("malformed"))));
}

/// An hour that a task gives a call is no limit for the handler of the host, and one for the task.
#[test]
fn a_long_time_goes_with_a_call_or_none_does() {
    let mut bench = Bench::new();
    let hour = Duration::from_secs(3600);
    let (.., ticket) = bench.start(move |task| {
        let _limit = task.within(hour);
        Ok(task.sync(HOST, plus::with(1, 2))?)
    });
    let request = bench.expect(1);
    let given = request.ext.map_or(0, |ext| ext.micros());
    // The host keeps to what it was told: at 36 minutes it ends the body, at 40 the task should go on with it.
    bench.now += 36 * 60 * 1_000_000;
    if given != 0 {
        bench.reply(1, &request, RepHdr::inline(Status::DEADLINE, 0), &[]);
    }
    bench.rounds();
    bench.now += 4 * 60 * 1_000_000;
    if given == 0 {
        bench.value(1, &request, 3);
    }
    bench.rounds();
    assert_eq!(bench.outcome(ticket).map(|o| (o.0, o.1)), Some((Status::OK, 3)), "it was given {given} us of an hour");
}
