//! Calls to the host: bodies that devices call, by the threads that wait and by workers.

use super::{Open, driven, is_loopback, options, until};
use hamr::{CallError, CallOptions, Node, Options, SubmitError, WaitMode};
use hamr_comm::Fault;
use hamr_comm::abi::status::Status;
use hamr_tests_kernels::echo;
use hamr_tests_kernels::host_calls::{
    Callback, Counter, OUTCOMES, add, ask_echo, ask_otherwise, call_back, call_back_in_order, callback, count_up, lend,
    send_counts,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError, mpsc};
use std::time::{Duration, Instant};

/// As many tickets as tasks.
fn many() -> Options {
    Options { tickets: 64, ..options() }
}

/// Threads that wait serve, or workers do.
fn both() -> [Options; 2] {
    [many(), Options { serve_in_wait: false, ..many() }]
}

fn serve(node: &Node, body: impl Fn(&hamr_comm::Host<'_>, u64) -> Result<u64, Fault> + Send + Sync + 'static) {
    let body: Callback = Box::new(body);
    node.provide(body);
}

fn counted(node: &Node) -> u64 {
    node.sync(count_up::with(1)).expect("counts") - 1
}

/// Arguments and results in the slot and in the chunk, of one length and of several.
pub fn every_place(open: Open) {
    for options in both() {
        let node = open(options);
        node.sync(ask_echo::with(())).expect("runs");
        assert_eq!(node.sync(ask_echo::with(7u8)).expect("runs"), 7);
        assert_eq!(node.sync(ask_echo::with([47u8; 47])).expect("runs"), [47; 47]);
        assert_eq!(node.sync(ask_echo::with([48u8; 48])).expect("runs"), [48; 48]);
        assert_eq!(node.sync(ask_echo::with([49u8; 49])).expect("runs"), [49; 49]);
        let words: [u64; 64] = std::array::from_fn(|n| n as u64);
        assert_eq!(node.sync(ask_echo::with(words)).expect("runs"), words);
        assert_eq!(node.sync(ask_echo::with(Some(5u64))).expect("runs"), Some(5));
        let text: heapless::String<64> = "fünf".try_into().expect("short");
        assert_eq!(node.sync(ask_echo::with(text.clone())).expect("runs"), text);
        let list: heapless::Vec<u32, 100> = (0..100).collect();
        assert_eq!(node.sync(ask_echo::with(list.clone())).expect("runs"), list);
        let buffer = node.buffer(&[1u64, 2, 3, 4, 5, 6, 7, 8]).expect("room");
        assert_eq!(node.sync(lend::with(buffer.ptr())).expect("runs"), 36);
        assert_eq!(buffer.read().expect("free again"), [2, 4, 6, 8, 10, 12, 14, 16]);
    }
}

/// Many calls one after the other, of one task and of many at once.
pub fn many_calls(open: Open) {
    for options in both() {
        let node = open(options);
        node.provide(Counter::default());
        // In four calls: each has the deadline for itself, also where a processor has others to run between any two messages.
        for part in 1..=4 {
            assert_eq!(node.sync(count_up::with(500)).expect("counts"), 500 * part);
        }
        let stream = node.stream().expect("free");
        let calls: Vec<_> = (0..16).map(|_| stream.offload(count_up::with(100)).expect("sent")).collect();
        driven(&node, || {
            for call in calls {
                call.wait().expect("counts");
            }
        });
        assert_eq!(counted(&node), 3600);
    }
}

/// A service is found by its type: that of the node before the runtime's, the later of two.
pub fn services_by_type(open: Open) {
    let node = open(many());
    if !is_loopback(&node) && node.info().name != "microvm" {
        // Whose tests have runtimes of their own.
        crate::devices::runtime().provide(Counter(AtomicU64::new(1000)));
        assert_eq!(node.sync(count_up::with(1)).expect("the runtime's"), 1001);
    }
    node.provide(Counter(AtomicU64::new(10)));
    assert_eq!(node.sync(count_up::with(1)).expect("the node's"), 11);
    node.provide(Counter(AtomicU64::new(20)));
    assert_eq!(node.sync(count_up::with(1)).expect("the later one"), 21);
}

/// Each outcome but a value reaches the task by name.
pub fn outcomes(open: Open) {
    let node = open(many());
    for (way, name) in (0..).zip(OUTCOMES) {
        if is_loopback(&node) && (name == "vanished" || name == "changed") {
            continue; // Both sides are one program.
        }
        let text = match node.sync(ask_otherwise::with(way)) {
            Ok(text) => text.as_str().to_string(),
            Err(CallError::Fault(report)) => report.to_string(),
            Err(e) => panic!("{name}: {e}"),
        };
        let expected = match name {
            "refuses" => "because 7",
            "panics" => "asked to panic with 12",
            "unserved" => "Unserved",
            "too long" => "513 of 512 bytes",
            "a longer result" => "517 of 512 bytes",
            "vanished" => "no such handler there",
            "changed" => "the handler has other types there",
            _ => "it does",
        };
        assert!(text.contains(expected), "{name}: {text}");
        assert_eq!(node.sync(ask_echo::with(way as u8)).expect("later calls"), way as u8);
    }
}

/// A panic of a body ends the call with text and place, and a task that gives it on ends so.
pub fn a_panic_names_its_place(open: Open) {
    for options in both() {
        let node = open(options);
        serve(&node, |_, value| panic!("body {value}"));
        let Err(CallError::Fault(report)) = node.sync(call_back::with(3)) else { panic!("expected a fault") };
        let text = report.to_string();
        assert_eq!(report.status, Status::REMOTE, "{text}");
        assert!(text.contains("body 3"), "{text}");
        assert_eq!(node.sync(echo::with(1u64)).expect("served"), 1);
    }
}

/// A body calls its device: inline handlers, and tasks that call the host again, as deep as the device
/// has places. The innermost finds none.
pub fn nested_to_the_last_place(open: Open) {
    for options in both() {
        let node = open(options);
        let places = u64::from(node.info().tasks);
        serve(&node, |cx, depth| {
            let node = cx.service::<Node>()?;
            assert_eq!(node.sync(echo::with(depth)).map_err(|e| Fault::msg(&e.to_string()))?, depth);
            if depth == 0 {
                return Ok(0);
            }
            match node.sync(call_back::with(depth - 1)) {
                Ok(deeper) => Ok(deeper + 1),
                Err(CallError::Submit(why)) if matches!(*why, SubmitError::QueueFull { .. }) => Ok(1000),
                Err(other) => Err(Fault::msg(&other.to_string())),
            }
        });
        for depth in [0, 1, places - 1] {
            assert_eq!(node.sync(call_back::with(depth)).expect("deep enough"), depth);
        }
        assert_eq!(node.sync(call_back::with(places)).expect("ends"), 1000 + places - 1);
        assert_eq!(node.sync(call_back::with(places - 1)).expect("all places are free"), places - 1);
    }
}

/// A body's calls are in no stream of the thread that runs it: an ordered task in front of them does
/// not keep them.
pub fn bodies_have_streams_of_their_own(open: Open) {
    for options in both() {
        let node = open(options);
        serve(&node, |cx, value| {
            let node = cx.service::<Node>()?;
            let call = node.offload(echo::with(value)).map_err(|e| Fault::msg(&e.to_string()))?;
            call.wait().map_err(|e| Fault::msg(&e.to_string()))
        });
        for value in 0..20 {
            assert_eq!(node.sync(call_back_in_order::with(value)).expect("not kept"), value);
        }
        assert_eq!(node.local().expect("open").outstanding(), 0);
    }
}

/// Messages without a result, more than queue 0 has slots, while no thread waits for a task.
pub fn sent_messages_arrive(open: Open) {
    let node = open(many());
    let counter = Arc::new(AtomicU64::new(0));
    let count = counter.clone();
    node.provide(Counter::default());
    let mut sent = 0;
    for _ in 0..50 {
        sent += u64::from(node.sync(send_counts::with(20)).expect("runs"));
    }
    assert!(sent >= 64, "{sent} were sent: fewer than the queue has slots");
    driven(&node, || {
        until("all of them ran", || {
            let counted = counted_by(&node);
            count.store(counted, Ordering::Relaxed);
            counted == sent
        });
    });
    assert_eq!(counter.load(Ordering::Relaxed), sent);
}

fn counted_by(node: &Node) -> u64 {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    serve(node, move |cx, _| {
        let count = cx.service::<Counter>()?.0.load(Ordering::Relaxed);
        tell.lock().map_err(|_| Fault::msg("poisoned"))?.send(count).map_err(|_| Fault::msg("gone"))?;
        Ok(count)
    });
    node.sync(call_back::with(0)).expect("runs");
    told.recv().expect("told")
}

/// A thread that waits with a lock held serves its own task only: a body of another task that wants
/// the lock waits on a worker.
pub fn a_lock_held_over_a_wait(open: Open) {
    let node = open(many());
    let lock = Arc::new(Mutex::new(0));
    let theirs = lock.clone();
    let other_waits = Arc::new(AtomicBool::new(false));
    let waits = other_waits.clone();
    serve(&node, move |_, value| match value {
        // Of the task that a thread without the lock has begun.
        0 => {
            waits.store(true, Ordering::Release);
            let mut sum = theirs.lock().map_err(|_| Fault::msg("poisoned"))?;
            *sum += 1;
            Ok(*sum)
        }
        // Of the one that the holder waits for.
        _ => {
            assert!(matches!(theirs.try_lock(), Err(TryLockError::WouldBlock)), "its caller has the lock");
            while !waits.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            // Long enough for a waiting thread to take what it must not.
            std::thread::sleep(Duration::from_millis(20));
            Ok(value)
        }
    });
    let stream = node.stream().expect("free");
    let mut held = lock.lock().expect("free");
    let other = stream.offload(call_back::with(0)).expect("sent");
    assert_eq!(node.sync(call_back::with(5)).expect("its own body runs"), 5);
    *held += 10;
    drop(held);
    driven(&node, || assert_eq!(other.wait().expect("behind the lock"), 11));
}

/// With `serve_in_wait` off no body runs on the thread that waits.
pub fn workers_serve_when_asked(open: Open) {
    let asleep = Options { wait: WaitMode::Sleep, serve_in_wait: false, ..many() };
    for (options, on_this) in both().into_iter().chain([asleep]).zip([true, false, false]) {
        let node = open(options);
        let me = std::thread::current().id();
        let seen = Arc::new(AtomicU64::new(0));
        let count = seen.clone();
        serve(&node, move |_, value| {
            count.fetch_add(u64::from(std::thread::current().id() == me), Ordering::Relaxed);
            Ok(value)
        });
        for value in 0..20 {
            assert_eq!(node.sync(call_back::with(value)).expect("served"), value);
        }
        let seen = seen.load(Ordering::Relaxed);
        assert!(on_this || seen == 0, "{seen} bodies ran on the thread that waited");
    }
}

/// A deadline ends the wait of a task for its body, and the body learns that it was cancelled.
pub fn a_deadline_ends_the_wait(open: Open) {
    let node = open(many());
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    serve(&node, move |cx, value| {
        let begin = Instant::now();
        while !cx.cancelled() && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        tell.lock().map_err(|_| Fault::msg("poisoned"))?.send(cx.cancelled()).map_err(|_| Fault::msg("gone"))?;
        Ok(value)
    });
    let stream = node.stream().expect("free");
    driven(&node, || {
        let deadline = CallOptions::deadline(Duration::from_millis(50));
        let call = stream.offload_with(call_back::with(1), deadline).expect("sent");
        assert!(told.recv_timeout(Duration::from_secs(20)).expect("the body ends"), "it was cancelled");
        let why = call.wait().expect_err("its time ends");
        assert!(matches!(why, CallError::Deadline(_)), "{why}");
        let wanted = " s for the host's hamr_tests_kernels::host_calls::callback at tests/kernels/src/host_calls.rs:";
        assert_eq!(why.to_string().contains(wanted), super::shows_tasks(&node), "{why}");
    });
    serve(&node, |_, value| Ok(value));
    assert_eq!(node.sync(call_back::with(4)).expect("served"), 4);
}

/// The device is restarted while bodies run: each call ends once, and the next epoch's calls are
/// served.
pub fn a_restart_beside_bodies(open: Open) {
    let node = open(many());
    let (begun, go) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, open_gate) = (begun.clone(), go.clone());
    serve(&node, move |_, value| {
        count.fetch_add(1, Ordering::Relaxed);
        while !open_gate.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(value)
    });
    let stream = node.stream().expect("free");
    let calls: Vec<_> = (0..4).map(|n| stream.offload(call_back::with(n)).expect("sent")).collect();
    driven(&node, || until("the bodies run", || begun.load(Ordering::Relaxed) == 4));
    node.restart().expect("starts again");
    for call in calls {
        assert!(matches!(call.wait(), Err(CallError::PeerReset(_))));
    }
    go.store(true, Ordering::Release);
    for value in 0..20 {
        assert_eq!(node.sync(call_back::with(value)).expect("the next epoch"), value);
    }
}

/// The host does not run its own bodies for itself.
pub fn a_body_is_called_by_devices_only(open: Open) {
    let node = open(many());
    let refused = super::refusal(node.sync(add::with(1)).expect_err("its body is here"));
    assert!(matches!(refused, SubmitError::NoBody { .. } | SubmitError::MissingHandler { .. }), "{refused}");
    let refused = super::refusal(node.sync(callback::with(1)).expect_err("its body is here"));
    assert!(matches!(refused, SubmitError::NoBody { .. }), "{refused}");
}
