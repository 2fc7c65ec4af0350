//! The order in which calls run, and what happens when there is no room for more.

use super::{Gate, Log, Open, Random, driven, options, refusal, until};
use hamr::{Node, Options, Pending, Stream, SubmitError};
use hamr_kernels::bench::{empty, sum_4};
use hamr_kernels::faults::background;
use hamr_tests_kernels::{append, append_long, append_named, append_task, append_whenever, echo, spin_at};

/// A call that is waited for runs after everything that was submitted before it.
pub fn sync_after_many_offloads(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let log = Log::new(&node, 4096);
    let mut expected = Vec::new();
    for round in 0..60u64 {
        let count = round * 2;
        let pending: Vec<_> =
            (0..count).map(|i| stream.offload(append::with(log.words(), round << 8 | i)).expect("sent")).collect();
        let place = stream.sync(append::with(log.words(), round << 8 | 255)).expect("appends");
        expected.extend((0..count).map(|i| round << 8 | i));
        assert_eq!(place, expected.len() as u64, "the call that was waited for came last");
        expected.push(round << 8 | 255);
        drop(pending);
    }
    stream.flush().expect("all ran");
    assert_eq!(log.entries(&node), expected);
}

enum InFlight<'s, 'n> {
    Plain(Pending<append, &'s Stream<'n>>),
    Named(Pending<append_named, &'s Stream<'n>>),
    Long(Pending<append_long, &'s Stream<'n>>),
    Queued(Pending<append_task, &'s Stream<'n>>),
}

impl InFlight<'_, '_> {
    fn get(self) -> u64 {
        match self {
            Self::Plain(p) => p.wait().expect("appends"),
            Self::Named(p) => p.wait().expect("appends"),
            Self::Long(p) => p.wait().expect("appends"),
            Self::Queued(p) => p.wait().expect("appends"),
        }
    }
}

/// Hot slot, ring, chunks, buffers in use, one-way and queued calls in random orders: the device
/// runs them in the order in which they were submitted, and each result belongs to its own call.
pub fn every_path_in_submission_order(open: Open) {
    let node = open(Options { ring: 16, tickets: 4, ..options() });
    for seed in 1..=8 {
        let mut random = Random(seed);
        let stream = node.stream().expect("a stream is free");
        let log = Log::new(&node, 500);
        let words = log.words();
        let mut in_flight = Vec::new();
        for n in 0..500u64 {
            let sent = "the deadline is far";
            match random.below(11) {
                0..3 => assert_eq!(stream.sync(append::with(words, n)).expect("appends"), n),
                3..5 => in_flight.push((n, InFlight::Plain(stream.offload(append::with(words, n)).expect(sent)))),
                5 => stream.send(append::with(words, n)).expect(sent),
                6 => assert_eq!(stream.sync(append_named::with(log.ptr(), n)).expect("appends"), n),
                7 => {
                    in_flight.push((n, InFlight::Named(stream.offload(append_named::with(log.ptr(), n)).expect(sent))))
                }
                8 => in_flight
                    .push((n, InFlight::Long(stream.offload(append_long::with(words, n, [n; 20])).expect(sent)))),
                9 => in_flight.push((n, InFlight::Queued(stream.offload(append_task::with(words, n)).expect(sent)))),
                _ => assert_eq!(stream.sync(append_task::with(words, n)).expect("appends"), n),
            }
            // From time to time a result is read, or dropped unread.
            if !in_flight.is_empty() && random.below(3) == 0 {
                let (n, pending) = in_flight.swap_remove(random.below(in_flight.len() as u64) as usize);
                if random.below(4) != 0 {
                    assert_eq!(pending.get(), n, "seed {seed}");
                }
            }
        }
        for (n, pending) in in_flight {
            assert_eq!(pending.get(), n, "seed {seed}");
        }
        stream.flush().expect("all ran");
        assert_eq!(log.entries(&node), (0..500).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!((stream.outstanding(), stream.one_way_failures()), (0, 0));
    }
}

/// Queued calls have their reply when they are done, and their stream waits for them.
pub fn queued_calls_keep_order(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let log = Log::new(&node, 200);
    for n in 0..100 {
        stream.send(append_task::with(log.words(), 2 * n)).expect("sent");
        stream.send(append::with(log.words(), 2 * n + 1)).expect("sent");
    }
    stream.flush().expect("all ran");
    assert_eq!(log.entries(&node), (0..200).collect::<Vec<_>>());
    assert_eq!(stream.outstanding(), 0);
}

/// Calls that may overtake run once each, in any order.
pub fn unordered_calls_all_run(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let log = Log::new(&node, 300);
    let mut pending = Vec::new();
    for n in 0..100 {
        pending.push(stream.offload(append_whenever::with(log.words(), n)).expect("sent"));
        stream.send(append::with(log.words(), 100 + n)).expect("sent");
        if n % 10 == 9 {
            assert_eq!(stream.sync(background::with(n)).expect("runs"), 3 * n);
        }
    }
    let mut places: Vec<u64> = pending.into_iter().map(|p| p.wait().expect("appends")).collect();
    stream.flush().expect("all ran");
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 100);
    let mut entries = log.entries(&node);
    let ordered: Vec<u64> = entries.iter().copied().filter(|n| *n >= 100).collect();
    assert_eq!(ordered, (100..200).collect::<Vec<_>>(), "the ordered ones among them kept their order");
    entries.sort_unstable();
    assert_eq!(entries, (0..200).collect::<Vec<_>>());
}

/// A stream that waits for its queued call does not delay another stream.
pub fn a_waiting_stream_does_not_delay_others(open: Open) {
    let node = open(options());
    let (long, other) = (node.stream().expect("free"), node.stream().expect("free"));
    let gate = Gate::new(&node);
    driven(&node, || {
        let first = long.offload(spin_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        let second = long.offload(spin_at::with(gate.ptr(), 2)).expect("sent");
        let behind: Vec<_> = (0..50).map(|n| long.offload(echo::with(n)).expect("sent")).collect();
        let beside: Vec<_> = (0..50).map(|n| other.offload(echo::with(n)).expect("sent")).collect();
        assert!(!first.is_done() && !second.is_done() && !behind[0].is_done(), "the gate is shut");
        // Transfers need no handler.
        let data = node.buffer(&[1u64, 2, 3]).expect("room");
        assert_eq!(node.read(data.ptr()).expect("not busy"), [1, 2, 3]);
        gate.open();
        for (n, beside) in beside.into_iter().enumerate() {
            assert_eq!(beside.wait().expect("runs"), n as u64);
        }
        for (n, behind) in behind.into_iter().enumerate().rev() {
            assert_eq!(behind.wait().expect("runs"), n as u64);
        }
        assert_eq!((first.wait().expect("runs"), second.wait().expect("runs")), (1, 2));
    });
}

/// With two tickets, the third queued call waits for one.
pub fn fewer_tickets_than_calls(open: Open) {
    let node = open(Options { tickets: 2, ring: 8, ..options() });
    let stream = node.stream().expect("a stream is free");
    let pending: Vec<_> = (0..300).map(|n| stream.offload(background::with(n)).expect("waits for a ticket")).collect();
    for (n, pending) in pending.into_iter().enumerate().rev() {
        assert_eq!(pending.wait().expect("runs"), 3 * n as u64);
    }
    let log = Log::new(&node, 100);
    let pending: Vec<_> = (0..100).map(|n| stream.offload(append_task::with(log.words(), n)).expect("sent")).collect();
    drop(pending);
    stream.flush().expect("all ran");
    assert_eq!(log.entries(&node), (0..100).collect::<Vec<_>>());
}

/// Six streams with eight queued calls each: more than an image queues at once. A call without room
/// gets that reply without having run, and runs later.
pub fn more_queued_calls_than_the_device_queues(open: Open) {
    let node = open(options());
    let streams: Vec<_> = (0..6).map(|_| node.stream().expect("a stream is free")).collect();
    let log = Log::new(&node, 100);
    let mut waiting: Vec<u64> = (0..48).collect();
    let mut ran = Vec::new();
    until("all have run", || {
        let send = |n| streams[n as usize % 6].offload(append_whenever::with(log.words(), n)).expect("sent");
        let pending: Vec<_> = waiting.drain(..).map(|n| (n, send(n))).collect();
        for (n, pending) in pending {
            match pending.wait().map_err(refusal) {
                Ok(_) => ran.push(n),
                Err(SubmitError::QueueFull { .. }) => waiting.push(n),
                Err(other) => panic!("expected a full queue, got {other}"),
            }
        }
        waiting.is_empty()
    });
    let mut entries = log.entries(&node);
    entries.sort_unstable();
    assert_eq!(entries, (0..48).collect::<Vec<_>>(), "each ran once");
}

/// Short calls beside queued ones do not release tickets that are in use.
pub fn plain_calls_leave_tickets_alone(open: Open) {
    let node = open(Options { tickets: 2, ..options() });
    let stream = node.stream().expect("a stream is free");
    for round in 0..200 {
        let queued: Vec<_> = (0..2).map(|n| stream.offload(background::with(round + n)).expect("sent")).collect();
        let plain: Vec<_> = (0..4u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
        let more = stream.offload(background::with(round + 2)).expect("waits for a ticket");
        // Read out of order, so that results are stored in completion entries, and many calls reuse
        // the entries.
        assert_eq!(more.wait().expect("runs"), 3 * (round + 2));
        for (n, plain) in plain.into_iter().enumerate().rev() {
            assert_eq!(plain.wait().expect("runs"), n as u64);
        }
        for (n, queued) in (0..).zip(queued) {
            assert_eq!(queued.wait().expect("runs"), 3 * (round + n));
        }
    }
}

/// When the ring is full, the submitter stores finished results in completion entries.
pub fn more_offloads_than_slots(open: Open) {
    let node = open(Options { ring: 2, ..options() });
    let stream = node.stream().expect("a stream is free");
    let pending: Vec<_> = (0..1000u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
    assert_eq!(stream.outstanding(), 1000);
    for (n, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.wait().expect("runs"), n as u64);
    }
    assert_eq!(stream.outstanding(), 0);
}

/// Any number of results may stay unread: the submitter itself reads them, and must not wait for
/// itself.
pub fn unread_in_reverse(open: Open) {
    let node = open(options());
    // They are in the host's memory: fewer where a device is emulated.
    let calls = if ["shm", "loopback"].contains(&&*node.info().link) { 100_000 } else { 10_000 };
    let stream = node.stream().expect("a stream is free");
    let pending: Vec<_> = (0..calls).map(|n| stream.offload(sum_4::with(n, n, 1, 0)).expect("sent")).collect();
    assert_eq!(stream.outstanding(), calls as usize);
    let results = pending.into_iter().enumerate().rev().map(|(n, p)| (2 * n as u64 + 1, p.wait().expect("runs")));
    assert_eq!(results.filter(|(expected, got)| expected != got).count(), 0);
    assert_eq!(stream.outstanding(), 0);
    stream.sync(empty::with()).expect("the hot slot is open again");
}

fn full<T, E: std::fmt::Debug>(outcome: Result<T, E>) -> E {
    match outcome {
        Ok(_) => panic!("expected the stream to be full"),
        Err(e) => e,
    }
}

/// At the limit a submission is refused at once; reading or dropping one result makes room for one.
pub fn too_many_outstanding(open: Open) {
    let node = open(Options { max_outstanding: 64, ring: 16, ..options() });
    let stream = node.stream().expect("a stream is free");
    let mut pending: Vec<_> = (0..64u64).map(|n| stream.offload(echo::with(n)).expect("below the limit")).collect();
    for _ in 0..3 {
        let error = full(stream.offload(echo::with(0u64)));
        assert!(matches!(error, SubmitError::Full { limit: 64, .. }), "{error:?}");
    }
    // Calls without a completion entry still work.
    stream.send(empty::with()).expect("no result, no entry");
    stream.flush().expect("all ran");
    assert_eq!(stream.outstanding(), 64, "flushed, not read");
    assert_eq!(stream.sync(echo::with(5u64)).expect("the hot slot needs no entry"), 5);
    assert_eq!(pending.pop().expect("64 there").wait().expect("runs"), 63);
    pending.push(stream.offload(echo::with(63u64)).expect("room for one"));
    full(stream.offload(echo::with(0u64)));
    drop(pending.pop());
    stream.flush().expect("all ran");
    pending.push(stream.offload(echo::with(63u64)).expect("the dropped one's entry is free"));
    for (n, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.wait().expect("runs"), n as u64);
    }
}

/// A queued call that is refused because no completion entry is free releases its ticket and its
/// buffers.
pub fn a_refused_call_keeps_no_ticket(open: Open) {
    let node = open(Options { max_outstanding: 4, tickets: 2, ..options() });
    let stream = node.stream().expect("a stream is free");
    let log = Log::new(&node, 10);
    let pending: Vec<_> = (0..4u64).map(|n| stream.offload(echo::with(n)).expect("below the limit")).collect();
    for _ in 0..10 {
        let error = full(stream.offload(background::with(1)));
        assert!(matches!(error, SubmitError::Full { .. }), "{error:?}");
        let error = full(stream.offload(append_named::with(log.ptr(), 1)));
        assert!(matches!(error, SubmitError::Full { .. }), "{error:?}");
        let error = refusal(full(stream.sync(background::with(1))));
        assert!(matches!(error, SubmitError::Full { .. }), "{error:?}");
    }
    drop(pending);
    stream.flush().expect("all ran");
    for n in 0..10 {
        assert_eq!(stream.sync(background::with(n)).expect("both tickets are there"), 3 * n);
    }
    assert_eq!(log.entries(&node), [0u64; 0], "nothing that was refused ran, and the log is not busy");
    still_whole(&node);
}

fn still_whole(node: &Node) {
    assert_eq!(node.live_buffers(), 1, "only the log");
}
