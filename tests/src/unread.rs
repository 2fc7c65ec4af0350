//! Replies that no caller has read when their device's epoch ends. They stay valid, also for
//! streams that read them after another thread has begun the next epoch.

use crate::conformance::{Gate, Stop, options, until};
use crate::crashes::{fault, still_works};
use crate::devices;
use hamr::{CallError, Node, SubmitError};
use hamr_kernels::bench::sum_4;
use hamr_kernels::faults::{background, echo_many, panics};
use hamr_tests_kernels::crashes::null;
use hamr_tests_kernels::waits::reverses;
use hamr_tests_kernels::{echo, wait_at};
use std::sync::atomic::{AtomicBool, Ordering};

/// The kind and state of every slot that is in use.
fn lines(node: &Node) -> Vec<(&'static str, &'static str)> {
    let dump = hamr::inspect::dump(&crate::logs::window(node).path).expect("a window");
    dump.queues.iter().flat_map(|queue| &queue.slots).map(|slot| (slot.kind, slot.state)).collect()
}

/// Of every kind of slot, and with the result in every possible part of the window.
pub fn unread_replies(spec: &str) {
    let node = devices::open(spec, options());
    // Ends the epoch. A fault does, on every device.
    let end = |epoch| {
        let breaks = node.stream().expect("free");
        assert!(breaks.sync(null::with()).is_err());
        still_works(&node);
        assert_eq!(node.info().epoch, epoch);
    };
    for epoch in [2, 4, 6] {
        let (stream, other) = (node.stream().expect("free"), node.stream().expect("free"));
        let many: [u64; 100] = core::array::from_fn(|n| n as u64 * 7);
        let long: [u64; 2048] = core::array::from_fn(|n| n as u64 * 11);
        let short: Vec<_> = (0..20).map(|n| stream.offload(sum_4::with(n, 1, 1, 1)).expect("sent")).collect();
        let chunk = stream.offload(echo_many::with(many)).expect("sent");
        let buffer = stream.offload(echo::with(long)).expect("sent");
        let panicked = stream.offload(panics::with(77)).expect("sent");
        let started = other.start(sum_4::with(100, 20, 3, 4)).expect("sent");
        let side = node.stream().expect("free");
        // All are sent before the first one runs, because a submission takes replies in, which frees
        // their ticket slots.
        let (queued, waiting): (Vec<_>, Vec<_>) = {
            let gate = Gate::new(&node);
            let blocks = other.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
            gate.wait_for(1);
            let queued = (0..3).map(|n| side.offload(background::with(n)).expect("sent")).collect();
            let waiting: Vec<_> = (0..3).map(|_| side.offload(reverses::with(many)).expect("sent")).collect();
            gate.open();
            blocks.wait().expect("the gate is open");
            (queued, waiting)
        };
        // Those that wait have their reply in their ticket slots; their ring slots have TAKEN.
        until("all is answered", || {
            let lines = lines(&node);
            let tickets = lines.iter().filter(|line| **line == ("ticket", "answered")).count();
            tickets == 3 && lines.iter().all(|(_, state)| ["answered", "taken"].contains(state))
        });
        // Two epochs of other streams pass.
        end(epoch);
        end(epoch + 1);
        for (n, call) in (0..).zip(short) {
            assert_eq!(call.wait().expect("it was answered"), n + 3);
        }
        assert_eq!(chunk.wait().expect("it was answered"), many);
        assert_eq!(buffer.wait().expect("it was answered"), long);
        let report = fault(panicked.wait());
        assert!(report.text.contains("asked to panic with 77"), "{report}");
        assert_eq!(started.wait().expect("it was answered"), 127);
        for (n, call) in (0..).zip(queued) {
            assert_eq!(call.wait().expect("it was answered"), n * 3);
        }
        for call in waiting {
            assert!(call.wait().expect("it was answered").into_iter().rev().eq(many));
        }
        assert_eq!(stream.sync(sum_4::with(1, 2, 3, 4)).expect("the stream goes on"), 10);
        assert_eq!(other.sync(sum_4::with(1, 2, 3, 5)).expect("the stream goes on"), 11);
        assert_eq!((stream.outstanding(), other.outstanding(), node.live_buffers()), (0, 0, 0));
    }
}

/// One started call per epoch, none of which is read before the last epoch.
pub fn unread_started_calls(spec: &str) {
    let node = devices::open(spec, options());
    let stream = node.stream().expect("free");
    let started: Vec<_> = (0..4)
        .map(|n| {
            // Finds the new epoch, so that the next call gets the slot of a started one.
            assert_eq!(stream.sync(sum_4::with(1, 1, 1, 1)).expect("a reply"), 4);
            let call = stream.start(sum_4::with(n, 1, 1, 1)).expect("sent");
            until("it is answered", || lines(&node).iter().all(|(_, state)| *state == "answered"));
            assert!(node.sync(null::with()).is_err());
            still_works(&node);
            call
        })
        .collect();
    for (n, call) in (0..).zip(started) {
        assert_eq!(call.wait().expect("it was answered"), n + 3, "call {n}");
    }
    assert_eq!(stream.sync(sum_4::with(1, 2, 3, 4)).expect("the stream goes on"), 10);
}

/// A call in flight without a reply is lost.
pub fn unanswered_calls(spec: &str) {
    let node = devices::open(spec, options());
    let stream = node.stream().expect("free");
    let breaks = stream.offload(null::with()).expect("sent");
    let behind: Vec<_> = (0..10).map(|n| stream.offload(sum_4::with(n, 1, 1, 1)).expect("sent")).collect();
    until("the device's end is noticed", || !node.is_alive());
    still_works(&node);
    fault(breaks.wait());
    for call in behind {
        assert!(matches!(call.wait(), Err(CallError::PeerReset(_) | CallError::DeviceLost(..))));
    }
    assert_eq!(stream.outstanding(), 0);
}

/// Three threads call, one ends epoch after epoch. A caller that reads a reply while the window is
/// wiped for the next epoch must not take zeros for a value. A call has its value, or the end of an
/// epoch.
pub fn values_beside_ends(spec: &str) {
    let node = devices::open(spec, options());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (1..4_u64)
            .map(|caller| {
                let (node, over) = (&node, &over);
                scope.spawn(move || {
                    let stream = node.stream().expect("free");
                    let (mut values, mut ends) = (0_u64, 0_u64);
                    let mut count = |n: u64, outcome: Result<u64, CallError>| match outcome {
                        Ok(value) => {
                            assert_eq!(value, n, "a made-up value");
                            values += 1;
                        }
                        Err(CallError::DeviceLost(..) | CallError::PeerReset(_)) => ends += 1,
                        Err(CallError::Submit(why)) if matches!(*why, SubmitError::DeviceLost { .. }) => ends += 1,
                        Err(other) => panic!("expected a value or the end of an epoch, got {other}"),
                    };
                    let mut n = caller << 32;
                    while !over.load(Ordering::Acquire) {
                        n += 1;
                        count(n, stream.sync(echo::with(n)));
                        let sent: Vec<_> =
                            (n..n + 20).filter_map(|n| Some((n, stream.offload(echo::with(n)).ok()?))).collect();
                        sent.into_iter().for_each(|(n, call)| count(n, call.wait()));
                    }
                    (values, ends)
                })
            })
            .collect();
        let over_now = Stop(&over);
        let breaks = node.stream().expect("free");
        for _ in 0..300 {
            assert!(breaks.sync(null::with()).is_err());
            still_works(&node);
        }
        drop(over_now);
        let (values, ends) = callers
            .into_iter()
            .map(|caller| caller.join().expect("only values and ends"))
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert!(values > 1000 && ends > 0, "{values} values, {ends} ends");
    });
}
