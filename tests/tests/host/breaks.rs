//! A mirror whose far side is lost, in each of its calls in turn: what waits for the device ends once, with the reason.

use hamr::link::{FarHeap, Link, Protocol};
use hamr::mirror::{FarSide, MirrorLink, Served};
use hamr::{CallError, Error, Image, LaunchRequest, Launcher, Node, Options, Runtime, Target};
use hamr_comm::mirror::{Lost, Message, Side};
use hamr_tests::mirrored::{Far, once};
use hamr_tests_kernels::echo;
use rustix::event::PollFlags;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WHY: &str = "the board was unplugged";

/// Messages that come or go, and calls that hand over, until the loss.
static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

struct Breaks(Served);

impl Breaks {
    fn count(of: u64) -> Result<(), Lost> {
        let before = LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(of)));
        if before.is_ok_and(|left| left > of) { Ok(()) } else { Err(Lost(WHY.into())) }
    }
}

impl Side for Breaks {
    fn take(&mut self, message: &mut Message) -> Result<bool, Lost> {
        Self::count(0)?;
        let is_there = self.0.take(message)?;
        if is_there {
            Self::count(1)?;
        }
        Ok(is_there)
    }
    fn put(&mut self, message: &Message) -> Result<(), Lost> {
        Self::count(1)?;
        self.0.put(message)
    }
    fn flush(&mut self) -> Result<(), Lost> {
        Self::count(0)?;
        self.0.flush()
    }
    fn prepare_wait(&mut self) -> bool {
        self.0.prepare_wait()
    }
    fn cancel_wait(&mut self) {
        self.0.cancel_wait();
    }
}

impl FarSide for Breaks {
    fn descriptors(&self) -> Vec<(Arc<OwnedFd>, PollFlags)> {
        self.0.descriptors()
    }
    fn woken(&mut self) {
        self.0.woken();
    }
}

/// Calls of this test need none.
struct NoHeap;

impl FarHeap for NoHeap {
    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), String> {
        Err(WHY.into())
    }
    fn write(&self, _: u64, _: &[u8]) -> Result<(), String> {
        Err(WHY.into())
    }
}

struct BreakingLauncher;

impl Launcher for BreakingLauncher {
    fn describe(&self) -> String {
        "a device whose link breaks: for tests".into()
    }
    fn target(&self, _: &str) -> Result<Option<Target>, Error> {
        Ok(None)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let link = Far::Sleeper.start(request)?.link;
        let limit = request.start_deadline;
        let far = once(Breaks(Served::new(link, limit).expect("a preamble")));
        let heap = Arc::new(NoHeap);
        Ok(Box::new(MirrorLink::start(
            ("breaks", "a thread", Protocol::Message),
            request.window_len,
            far,
            heap,
            limit,
        )?))
    }
}

/// Calls in flight, waited for, and of no interest; true: none was lost.
fn use_it(node: &Node) -> bool {
    let mut is_whole = true;
    let mut ended = |outcome: Result<u64, CallError<_>>, expected: u64| match outcome {
        Ok(value) => assert_eq!(value, expected),
        Err(e) => {
            assert!(e.to_string().contains(WHY), "{e}");
            is_whole = false;
        }
    };
    for round in 0..4u64 {
        ended(node.sync(echo::with(round)), round);
        let calls: Vec<_> = (0..6).map(|n| (n, node.offload(echo::with(n)))).collect();
        for (n, call) in calls {
            if let Ok(call) = call {
                ended(call.wait(), n);
            }
        }
        let _ = node.send(echo::with(round));
    }
    is_whole
}

#[test]
fn a_loss_in_each_call_of_a_side_ends_what_waits_once() {
    let mut runtime = Runtime::new().expect("a runtime");
    runtime.register("breaks", BreakingLauncher);
    let options = Options {
        heap: 1 << 20,
        restart: false,
        deadline: Some(Duration::from_secs(20)),
        print_warnings: false,
        ..Options::default()
    };
    let image = || Image::find(hamr_tests::devices::IMAGE).expect("a name");
    let (mut refused, mut lost) = (0, 0);
    for at in 1..1000 {
        LEFT.store(at, Ordering::Relaxed);
        let begin = Instant::now();
        match runtime.open_with("breaks", image(), options.clone()) {
            // In the front, or in the handshake.
            Err(e) => {
                assert!(e.to_string().contains(WHY), "{at}: {e}");
                refused += 1;
            }
            Ok(node) => {
                let is_whole = use_it(&node);
                assert!(begin.elapsed() < Duration::from_secs(10), "{at}: {:?}", begin.elapsed());
                if is_whole && LEFT.load(Ordering::Relaxed) > 0 {
                    println!("{refused} openings and {lost} uses were cut short");
                    assert!(refused > 1 && lost > 20, "{refused} {lost}");
                    return;
                }
                lost += 1;
                let why = node.sync(echo::with(1u64)).expect_err("it is lost").to_string();
                assert!(why.contains(WHY), "{at}: {why}");
                assert!(!node.is_alive());
            }
        }
    }
    panic!("it has no end");
}
