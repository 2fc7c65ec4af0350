//! Tasks: several are suspended at once, and the device serves other calls meanwhile.

use super::{Gate, Log, Open, driven, is_loopback, options, refusal, shows_tasks, until};
use crate::crashes::fault;
use hamr::{CallError, CallOptions, Node, Options, SubmitError, TaskWait};
use hamr_comm::abi::status::Status;
use hamr_kernels::faults::background;
use hamr_tests_kernels::policy::{admit, admitted};
use hamr_tests_kernels::waits::{
    POLLS, SLEEPS, YIELDS, doubles, gather_at, panics_behind, reverses, shares, sleeps, wait_task_at, waits_for_ever,
    waits_within, yields,
};
use hamr_tests_kernels::{append_task, append_whenever, echo};
use std::time::{Duration, Instant};

/// As many tickets as tasks.
fn many() -> Options {
    Options { tickets: 64, ..options() }
}

/// The places that the device has for tasks.
fn places(node: &Node) -> u64 {
    let tasks = node.info().tasks;
    assert!(tasks >= 4, "{tasks} tasks");
    u64::from(tasks)
}

/// As many tasks as the device has places for wait at once, each with a stack of its own; calls and
/// pings beside them are served.
pub fn all_places_wait_at_once(open: Open) {
    let node = open(many());
    let places = places(&node);
    let (stream, other) = (node.stream().expect("free"), node.stream().expect("free"));
    let gate = Gate::new(&node);
    driven(&node, || {
        let waiting: Vec<_> =
            (0..places).map(|n| stream.offload(gather_at::with(gate.ptr(), n)).expect("sent")).collect();
        gate.wait_for(places as u32);
        for n in 0..100u64 {
            assert_eq!(other.sync(echo::with(n)).expect("served beside them"), n);
            assert_eq!(stream.sync(echo::with(n)).expect("they may be overtaken"), n);
            node.ping().expect("served beside them");
        }
        assert!(waiting.iter().all(|call| !call.is_done()), "the gate is shut");
        gate.open();
        for (n, call) in waiting.into_iter().enumerate() {
            assert_eq!(call.wait().expect("goes on"), n as u64);
        }
    });
}

/// An ordered task keeps its stream, also while it waits; other streams go on.
pub fn a_waiting_task_keeps_its_stream(open: Open) {
    let node = open(many());
    let (stream, other) = (node.stream().expect("free"), node.stream().expect("free"));
    let (gate, log) = (Gate::new(&node), Log::new(&node, 100));
    driven(&node, || {
        let first = stream.offload(wait_task_at::with(gate.ptr(), 1)).expect("sent");
        let behind: Vec<_> =
            (0..20).map(|n| stream.offload(append_task::with(log.words(), n)).expect("sent")).collect();
        gate.wait_for(1);
        for n in 0..50 {
            assert_eq!(other.sync(background::with(n)).expect("runs beside it"), 3 * n);
        }
        assert!(!first.is_done() && !behind[0].is_done(), "the gate is shut");
        gate.open();
        assert_eq!(first.wait().expect("goes on"), 1);
        for call in behind {
            call.wait().expect("runs");
        }
    });
    assert_eq!(log.entries(&node), (0..20).collect::<Vec<_>>());
}

/// Calls beyond the places wait in the backlog, and calls beyond that are refused without having run.
pub fn calls_beyond_the_places_wait_or_are_refused(open: Open) {
    let node = open(many());
    let places = places(&node);
    let stream = node.stream().expect("free");
    let (gate, log) = (Gate::new(&node), Log::new(&node, 100));
    driven(&node, || {
        let held: Vec<_> = (0..places).map(|n| stream.offload(gather_at::with(gate.ptr(), n)).expect("sent")).collect();
        gate.wait_for(places as u32);
        let more: Vec<_> =
            (0..40).map(|n| stream.offload(append_whenever::with(log.words(), n)).expect("sent")).collect();
        let last = stream.offload(echo::with(7u64)).expect("sent");
        assert_eq!(last.wait().expect("overtakes them"), 7);
        gate.open();
        held.into_iter().for_each(|call| assert!(call.wait().is_ok(), "goes on"));
        let mut ran = 0;
        for (n, call) in more.into_iter().enumerate() {
            match call.wait().map_err(refusal) {
                Ok(_) => ran += 1,
                Err(SubmitError::QueueFull { .. }) => assert!(n >= 16, "call {n} has room in the backlog"),
                Err(other) => panic!("expected a full queue, got {other}"),
            }
        }
        assert!((16..40).contains(&ran), "{ran} ran");
        assert_eq!(log.entries(&node).len(), ran);
    });
}

/// A cancelled call ends in each kind of wait.
pub fn cancel_ends_each_wait(open: Open) {
    let node = open(many());
    let stream = node.stream().expect("free");
    for kind in [POLLS, SLEEPS, YIELDS] {
        let marks = Gate::new(&node);
        driven(&node, || {
            let call = stream.offload(waits_for_ever::with(marks.words(), kind)).expect("sent");
            marks.wait_for(1);
            if !is_loopback(&node) {
                // The device sleeps, or soon will, and no call of the host notifies it but this one.
                std::thread::sleep(Duration::from_millis(20));
            }
            call.cancel();
            until("the task saw it", || marks.word() != 0);
            assert!(matches!(call.wait(), Err(CallError::Cancelled(_))), "wait {kind}");
            assert_eq!(marks.word(), 1, "wait {kind}");
        });
    }
}

/// A call's time ends in each kind of wait.
pub fn a_deadline_ends_each_wait(open: Open) {
    let node = open(many());
    let stream = node.stream().expect("free");
    for kind in [POLLS, SLEEPS, YIELDS] {
        let marks = Gate::new(&node);
        driven(&node, || {
            let options = CallOptions { deadline: Some(Duration::from_millis(60)), ..CallOptions::default() };
            let call = stream.offload_with(waits_for_ever::with(marks.words(), kind), options).expect("sent");
            let why = call.wait().expect_err("its time ends");
            assert!(matches!(why, CallError::Deadline(_)), "wait {kind}: {why}");
            let wanted = format!(" s for {} at tests/kernels/src/waits.rs:", kind_of(kind));
            let text = why.to_string();
            let shown = text.contains("; the task waited 0.") && text.contains(&wanted);
            assert_eq!(shown, shows_tasks(&node), "wait {kind}: {text}");
            until("the task saw it", || marks.word() != 0);
            assert_eq!(marks.word(), 2, "wait {kind}");
        });
    }
    assert_eq!(node.sync(waits_within::with(2000)).expect("goes on behind them"), 2);
}

/// What a task line says of a wait of this kind.
fn kind_of(kind: u8) -> TaskWait {
    match kind {
        POLLS => TaskWait::Condition,
        SLEEPS => TaskWait::Time,
        _ => TaskWait::Turn,
    }
}

/// What a task waits for, since when, and where, is seen from outside; no longer when it has ended.
pub fn a_waiting_task_is_shown(open: Open) {
    let node = open(many());
    if !shows_tasks(&node) {
        assert!(node.tasks().is_empty());
        return;
    }
    let stream = node.stream().expect("free");
    for kind in [POLLS, SLEEPS, YIELDS] {
        let marks = Gate::new(&node);
        driven(&node, || {
            until("no task is shown", || node.tasks().is_empty());
            let call = stream.offload(waits_for_ever::with(marks.words(), kind)).expect("sent");
            marks.wait_for(1);
            let shown = || node.tasks().pop();
            // A turn is none to wait for, and a device that sleeps until the time does not look again.
            until("it is shown", || shown().is_some_and(|task| kind != POLLS || !task.waited.is_zero()));
            let task = shown().expect("it waits for ever");
            assert_eq!(task.wait, kind_of(kind), "{task}");
            assert!(task.handler.ends_with("::waits::waits_for_ever"), "{task}");
            assert_eq!((&*task.file, task.line > 50), ("tests/kernels/src/waits.rs", true), "{task}");
            // A window on a bus is no file of this process.
            if !is_loopback(&node) && !node.info().link.starts_with("pci") {
                let dump = hamr::inspect::dump(&crate::logs::window(&node).path).expect("a window");
                let text = dump.to_string();
                let wanted = format!(" s for {} at tests/kernels/src/waits.rs:{} (queue", kind_of(kind), task.line);
                assert!(text.contains("\ntasks      task ") && text.contains(&wanted), "{text}");
                assert_eq!(dump.tasks.len(), 1, "{text}");
            }
            call.cancel();
            assert!(matches!(call.wait(), Err(CallError::Cancelled(_))), "wait {kind}");
            until("it is shown no more", || node.tasks().is_empty());
        });
    }
}

/// A sleep lasts as long as it says, also where the device sleeps meanwhile, and others do not wait.
pub fn a_sleep_lasts_its_time(open: Open) {
    let node = open(many());
    let (stream, other) = (node.stream().expect("free"), node.stream().expect("free"));
    for micros in [0, 1, 500, 20_000, 300_000] {
        let begin = Instant::now();
        let call = stream.offload(sleeps::with(micros)).expect("sent");
        if !is_loopback(&node) && micros == 300_000 {
            // Nothing wakes the device but its own clock.
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(other.sync(echo::with(1u64)).expect("served beside it"), 1);
        }
        let slept = call.wait().expect("wakes");
        assert!(slept >= u64::from(micros), "{slept} of {micros} us");
        let took = begin.elapsed();
        assert!(
            took >= Duration::from_micros(micros.into()) && took < Duration::from_secs(15),
            "{micros} us: {took:?}"
        );
    }
}

/// Tasks that only yield have turns, however many there are.
pub fn tasks_take_turns(open: Open) {
    let node = open(many());
    let stream = node.stream().expect("free");
    let calls: Vec<_> = (0..4).map(|_| stream.offload(yields::with(1000)).expect("sent")).collect();
    let sums: Vec<_> = (0..4).map(|_| stream.offload(shares::with(50)).expect("sent")).collect();
    for call in calls {
        call.wait().expect("goes on");
    }
    let mut last: Vec<u64> = sums.into_iter().map(|call| call.wait().expect("no task has it across a wait")).collect();
    last.sort_unstable();
    assert_eq!(last.last().map(|sum| sum % 200), Some(0), "{last:?}");
}

/// The type of a handler's first parameter decides when it runs: a policy that its crate defines.
pub fn a_policy_of_ones_own(open: Open) {
    let node = open(many());
    let stream = node.stream().expect("free");
    let calls: Vec<_> = (0..3u64).map(|n| stream.offload(admitted::with(n)).expect("sent")).collect();
    for n in 0..100u64 {
        assert_eq!(node.sync(echo::with(n)).expect("served meanwhile"), n);
        node.ping().expect("served meanwhile");
    }
    assert!(calls.iter().all(|call| !call.is_done()), "none is admitted");
    assert_eq!(node.sync(admit::with(2)).expect("runs"), 2);
    until("two begin", || calls.iter().filter(|call| call.is_done()).count() == 2);
    assert_eq!(node.sync(admit::with(1)).expect("runs"), 1, "the two have used theirs");
    let mut values: Vec<_> = calls.into_iter().map(|call| call.wait().expect("goes on")).collect();
    values.sort_unstable_by_key(|(value, _)| *value);
    assert_eq!(values.iter().map(|(value, _)| *value).collect::<Vec<_>>(), [0, 1, 2]);
    let mut left: Vec<_> = values.iter().map(|(_, left)| *left).collect();
    left.sort_unstable();
    assert_eq!(left, [0, 0, 1]);
}

/// Arguments, views and results of tasks that wait.
pub fn values_outlive_waits(open: Open) {
    let node = open(many());
    let x = node.buffer(&[1u64, 2, 3, 4, 5]).expect("room");
    node.sync(doubles::with(x.ptr())).expect("goes on");
    assert_eq!(x.read().expect("not busy"), [2, 4, 6, 8, 10]);
    let values: [u64; 100] = std::array::from_fn(|i| i as u64);
    let stream = node.stream().expect("free");
    let calls: Vec<_> = (0..3).map(|_| stream.offload(reverses::with(values)).expect("sent")).collect();
    for call in calls {
        assert!(call.wait().expect("goes on").iter().rev().eq(&values));
    }
}

/// A panic ends its own call; three other tasks go on.
pub fn a_panic_beside_waiting_tasks(open: Open) {
    let node = open(many());
    let stream = node.stream().expect("free");
    for round in 0..10 {
        let (gate, panics) = (Gate::new(&node), Gate::new(&node));
        driven(&node, || {
            let waiting: Vec<_> =
                (0..3).map(|n| stream.offload(gather_at::with(gate.ptr(), n)).expect("sent")).collect();
            let call = stream.offload(panics_behind::with(panics.ptr(), round)).expect("sent");
            gate.wait_for(3);
            panics.wait_for(1);
            panics.open();
            let report = fault(call.wait());
            assert_eq!(report.status, Status::PANIC);
            assert!(report.text.contains(&format!("asked to panic with {round}")), "{report}");
            gate.open();
            for (n, call) in waiting.into_iter().enumerate() {
                assert_eq!(call.wait().expect("goes on"), n as u64);
            }
        });
    }
}

/// Each suspended task's call ends once with its epoch, and the next one has all places.
pub fn a_restart_with_waiting_tasks(open: Open) {
    let node = open(many());
    let places = places(&node);
    let stream = node.stream().expect("free");
    for _ in 0..3 {
        let gate = Gate::new(&node);
        let waiting: Vec<_> = driven(&node, || {
            let calls = (0..places).map(|n| stream.offload(gather_at::with(gate.ptr(), n)).expect("sent")).collect();
            gate.wait_for(places as u32);
            calls
        });
        node.restart().expect("starts again");
        for call in waiting {
            let ended = call.wait();
            assert!(matches!(ended, Err(CallError::PeerReset(_) | CallError::DeviceLost(..))), "{ended:?}");
        }
        gate.open();
        let calls: Vec<_> =
            (0..places).map(|n| stream.offload(gather_at::with(gate.ptr(), n)).expect("sent")).collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.wait().expect("runs"), n as u64);
        }
    }
}
