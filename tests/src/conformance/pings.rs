//! Pings while queued handlers run on the device's one processor. A loopback device has no tick:
//! only the waiting thread runs beside a handler, so these cases skip it.

use super::{Gate, Open, Random, Stop, is_loopback, options, until};
use hamr::{CallError, CallOptions};
use hamr_tests_kernels::{echo, spin_at};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A device replies to pings while a queued handler has its processor, also to a host that sleeps,
/// and the control stream is intact afterwards. Calls on other streams run later.
pub fn beside_a_queued_call(open: Open) {
    let node = open(options());
    if is_loopback(&node) {
        return;
    }
    let (long, other) = (node.stream().expect("free"), node.stream().expect("free"));
    for round in 0..3 {
        let gate = Gate::new(&node);
        let call = long.offload(spin_at::with(gate.ptr(), round)).expect("sent");
        gate.wait_for(1);
        let beside = other.offload(echo::with(round)).expect("sent");
        for _ in 0..20 {
            node.ping().expect("answered beside the handler");
        }
        assert!(!call.is_done() && !beside.is_done(), "the gate is shut");
        gate.open();
        assert_eq!((call.wait().expect("runs"), beside.wait().expect("runs")), (round, round));
        for _ in 0..20 {
            node.ping().expect("answered by the dispatcher");
        }
    }
}

/// A thread pings all the time while queued handlers run, some for less than a tick, some for
/// several. So the control stream is handed off at any moment, and no ping is lost, has two
/// replies, or has the token of another.
pub fn while_queued_calls_come_and_go(open: Open) {
    let node = open(options());
    if is_loopback(&node) {
        return;
    }
    let (over, pings) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let pinger = scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                node.ping().expect("answered, beside a handler or after it");
                pings.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _over = Stop(&over);
        let stream = node.stream().expect("free");
        let mut random = Random(7);
        let begin = Instant::now();
        let mut calls = 0;
        let few =
            |calls| calls < 12 || pings.load(Ordering::Relaxed) <= 10 && begin.elapsed() < Duration::from_secs(20);
        while (begin.elapsed() < Duration::from_millis(1500) || few(calls)) && !pinger.is_finished() {
            let gate = Gate::new(&node);
            let call = stream.offload(spin_at::with(gate.ptr(), calls)).expect("sent");
            gate.wait_for(1);
            let before = pings.load(Ordering::Relaxed);
            match random.below(8) {
                // Until a ping had its reply beside the handler; two pings, because the first one
                // may have had it before.
                0 => until("pings beside the handler", || pings.load(Ordering::Relaxed) >= before.wrapping_add(2)),
                1 => std::thread::sleep(Duration::from_millis(random.below(30))),
                _ => std::thread::sleep(Duration::from_micros(random.below(500))),
            }
            gate.open();
            assert_eq!(call.wait().expect("runs"), calls);
            calls += 1;
        }
    });
    assert!(pings.load(Ordering::Relaxed) > 10);
    node.ping().expect("answered by the dispatcher");
}

/// The same when the handler beside them is ended.
pub fn beside_a_runaway(open: Open) {
    let node = open(options());
    if is_loopback(&node) {
        return;
    }
    let stream = node.stream().expect("free");
    let (mut limit, mut beside) = (Duration::from_millis(300), 0);
    while beside < 2 {
        let gate = Gate::new(&node);
        let begin = Instant::now();
        let options = CallOptions { limit: Some(limit), ..CallOptions::default() };
        let call = stream.offload_with(spin_at::with(gate.ptr(), 0), options).expect("sent");
        gate.wait_for(1);
        node.ping().expect("answered beside the handler");
        if call.is_done() {
            assert!(begin.elapsed() >= limit, "the gate is shut, and it was ended early");
            // Other programs used the processor for that long, so the next handler may run longer.
            limit *= 2;
            assert!(limit < Duration::from_secs(20), "no ping was answered beside a handler");
        } else {
            beside += 1;
        }
        assert!(matches!(call.wait(), Err(CallError::Fault(_))), "it was ended");
        stream.sync(echo::with(1u64)).expect("the device serves on");
        for _ in 0..20 {
            node.ping().expect("answered by the dispatcher");
        }
    }
}
