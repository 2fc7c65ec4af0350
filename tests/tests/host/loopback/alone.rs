//! An end that is noticed within a second, and limits that count whatever the device does.

use super::*;
use hamr::link::{Decorator, Peer};
use hamr_tests::times::within;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn every_call_of_a_killed_device_ends_once() {
    within(Duration::from_secs(1), || {
        let (node, _, faults) = breakable(Options { ring: 16, ..options() }, Table::of_this_image());
        let stream = node.stream().expect("a stream is free");
        let shared = node.shared_stream().expect("a stream is free");
        let log = Log::new(&node, 10);
        let answered: Vec<_> = (0..30u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
        stream.flush().expect("all ran");
        let plain: Vec<_> = (0..5u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
        let named: Vec<_> = (0..5).map(|n| stream.offload(append_named::with(log.ptr(), n)).expect("sent")).collect();
        let long = stream.offload(make_many::with(1)).expect("sent");
        let queued = shared.offload(background::with(1)).expect("sent");
        let awaited = shared.offload(echo::with(1u64)).expect("sent");
        faults.kill();
        let begin = Instant::now();
        is_lost(stream.sync(echo::with(9u64)), echo::<u64>::NAME);
        plain.into_iter().for_each(|p| is_lost(p.wait(), echo::<u64>::NAME));
        named.into_iter().for_each(|p| is_lost(p.wait(), append_named::NAME));
        is_lost(long.wait(), make_many::NAME);
        is_lost(queued.wait(), background::NAME);
        is_lost(pollster::block_on(awaited), echo::<u64>::NAME);
        let took = begin.elapsed();
        for (n, answered) in (0..).zip(answered) {
            assert_eq!(answered.wait().expect("answered before the end"), n);
        }
        // Nothing more is sent, and nothing stays in use.
        assert!(!node.is_alive());
        assert!(matches!(stream.offload(echo::with(1u64)).err(), Some(SubmitError::DeviceLost { .. })));
        assert!(matches!(stream.send(empty::with()).err(), Some(SubmitError::DeviceLost { .. })));
        assert!(matches!(stream.flush().err(), None | Some(hamr::Error::Lost { .. })));
        assert!(matches!(node.stream().err(), Some(hamr::Error::Lost { .. })));
        assert_eq!(stream.outstanding(), 0);
        assert_eq!(node.live_buffers(), 1);
        node.restart().expect("loopback starts again");
        assert_eq!(stream.sync(append_named::with(log.ptr(), 7)).expect("runs"), 0);
        assert_eq!(shared.sync(background::with(2)).expect("runs"), 6);
        assert_eq!(log.entries(&node), [7]);
        took
    });
}

/// A crashed device that is slow to end, or to start again, as long as it may.
struct Lingers {
    inner: Loopback,
    has_crashed: Arc<AtomicBool>,
    slow: Slow,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slow {
    Stop,
    Restart,
}

const LINGER: Duration = Duration::from_secs(5);

impl Decorator for Lingers {
    fn inner(&self) -> &dyn Link {
        &self.inner
    }
    fn stop(&self, limit: Duration) {
        if self.slow == Slow::Stop && self.has_crashed.load(Ordering::Acquire) {
            std::thread::sleep(limit.min(LINGER));
        }
        self.inner.stop(limit);
    }
    fn restart(&self, limit: Duration) -> Result<(), String> {
        if self.slow == Slow::Restart {
            std::thread::sleep(limit.min(LINGER));
            return Err("late".into());
        }
        self.inner.restart(limit)
    }
    fn peer(&self) -> Peer {
        if !self.has_crashed.load(Ordering::Acquire) {
            return self.inner.peer();
        }
        if let Ok(state) = self.inner.window().word(word::DEVICE_STATE) {
            state.publish(DeviceState::CRASHED.0);
        }
        if self.slow == Slow::Stop { Peer::Alive } else { Peer::Gone("it ended".into()) }
    }
}

/// A caller's limit, and when it has returned on a loaded machine.
const LIMIT: Duration = Duration::from_millis(100);
const RETURNED: Duration = Duration::from_secs(2);

type Way = fn(&Node) -> bool;

#[test]
fn a_limit_counts_while_a_device_ends_and_starts_again() {
    let ways: [(&str, Way); 4] = [
        ("wait_until_back", |node| node.wait_until_back(LIMIT).is_ok()),
        ("sync", |node| node.sync_with(echo::with(1u64), CallOptions::deadline(LIMIT)).is_ok()),
        ("offload", |node| node.offload_with(echo::with(1u64), CallOptions::deadline(LIMIT)).is_ok()),
        // The thread has no stream of the device yet.
        ("a thread's first call", |node| {
            let call = || node.sync_with(echo::with(1u64), CallOptions::deadline(LIMIT)).is_ok();
            std::thread::scope(|scope| scope.spawn(call).join().expect("no panic"))
        }),
    ];
    // Most of it is a wait.
    std::thread::scope(|scope| {
        for slow in [Slow::Stop, Slow::Restart] {
            for (name, way) in ways {
                scope.spawn(move || within(RETURNED, || takes(name, way, slow)));
            }
        }
    });
}

/// How long that way takes beside a device that lingers. It fails.
fn takes(name: &str, way: Way, slow: Slow) -> Duration {
    let has_crashed = Arc::new(AtomicBool::new(false));
    let inner = Loopback::new(layout(&options()).heap(), Table::of_this_image());
    let link = Lingers { inner, has_crashed: has_crashed.clone(), slow };
    let node = runtime().attach("lingers", Box::new(link), options()).expect("attaches");
    assert_eq!(node.sync(echo::with(1u64)).expect("runs"), 1);
    has_crashed.store(true, Ordering::Release);
    hamr_tests::conformance::until("it is lost", || !node.is_alive());
    let begin = Instant::now();
    assert!(!way(&node), "{name}, {slow:?}");
    let took = begin.elapsed();
    has_crashed.store(false, Ordering::Release);
    took
}
