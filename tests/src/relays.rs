//! Calls of one device to another, for any two kinds of devices: [`relays!`](crate::relays!) makes one `#[test]` per case.
//!
//! `$specs` are the two kinds; both devices are of one runtime, as `devices::open` makes them. `rank` is
//! the last rank of a world of two processes, and `its peer` the first rank of the same world.

use crate::conformance::{driven, options, until};
use crate::devices;
use hamr::{CallError, CallOptions, Image, Node, Options, World, WorldOptions};
use hamr_comm::abi::status::Status;
use hamr_tests_kernels::relays::{
    OUTCOMES, bounce, pass, pass_buffer, pass_many, pass_otherwise, pass_wait, there, wait_there,
};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The tests of calls between a device of the first kind and one of the second.
#[macro_export]
macro_rules! relays {
    ($first:literal, $second:literal) => {
        $crate::relays!($first, $second;
            every_value, many_at_once, buffers, outcomes, nested_to_the_last_place, a_wait_that_ends, a_device_that_ends,
            a_caller_that_ends, needs_the_option
        );
    };
    ($first:literal, $second:literal; $($case:ident),*) => {$(
        #[test]
        fn $case() {
            $crate::relays::$case(($first, $second));
        }
    )*};
}

type Specs = (&'static str, &'static str);

/// One of the two devices.
enum End {
    Lone(Node),
    Rank(Arc<World>, u32),
}

impl Deref for End {
    type Target = Node;
    fn deref(&self) -> &Node {
        match self {
            Self::Lone(node) => node,
            Self::Rank(world, rank) => world.node(*rank),
        }
    }
}

fn both(specs: Specs) -> (End, End) {
    opened(specs, &Options { relay: true, tickets: 64, ..options() })
}

fn opened((first, second): Specs, options: &Options) -> (End, End) {
    let first = end(first, options);
    let second = match (&first, second) {
        (End::Rank(world, _), "its peer") => End::Rank(world.clone(), 0),
        _ => end(second, options),
    };
    (first, second)
}

fn end(spec: &str, options: &Options) -> End {
    match spec {
        "rank" => {
            let rank = Options { start_deadline: devices::START_TIMEOUT, segment: 1 << 20, ..options.clone() };
            let options = WorldOptions { rank, ..WorldOptions::default() };
            let world = devices::runtime().world_with(&["shm"; 2], devices::image("shm"), options);
            End::Rank(Arc::new(world.expect("a world")), 1)
        }
        "loopback" => {
            let image = Image::find(devices::IMAGE).expect("a name");
            End::Lone(devices::runtime().open_with(spec, image, options.clone()).expect("a device"))
        }
        _ => End::Lone(devices::open(spec, options.clone())),
    }
}

/// Runs `f` while both devices make progress by themselves.
fn both_driven<R>(a: &Node, b: &Node, f: impl FnOnce() -> R) -> R {
    driven(a, || driven(b, f))
}

fn number(node: &Node) -> u16 {
    node.info().node
}

/// Arguments and results in the slot and in the chunk, of one length and of several.
pub fn every_value(specs: Specs) {
    let (a, b) = both(specs);
    let to = number(&b);
    assert_eq!(a.sync(pass::with(to, 7u8)).expect("runs"), 7);
    assert_eq!(a.sync(pass::with(to, [49u8; 49])).expect("runs"), [49; 49]);
    let words: [u64; 40] = std::array::from_fn(|n| n as u64);
    assert_eq!(a.sync(pass::with(to, words)).expect("runs"), words);
    let text: heapless::String<64> = "fünf".try_into().expect("short");
    assert_eq!(a.sync(pass::with(to, text.clone())).expect("runs"), text);
    let list: heapless::Vec<u32, 50> = (0..50).collect();
    assert_eq!(a.sync(pass::with(to, list.clone())).expect("runs"), list);
    // The other way, and to itself.
    assert_eq!(b.sync(pass::with(number(&a), 8u8)).expect("runs"), 8);
    assert_eq!(a.sync(pass::with(number(&a), 9u8)).expect("runs"), 9);
}

/// Tasks of both devices call each other; for some of them no thread waits.
pub fn many_at_once(specs: Specs) {
    const TIMES: u32 = 64;
    let (a, b) = both(specs);
    let expected = (0..u64::from(TIMES)).sum::<u64>();
    std::thread::scope(|scope| {
        for (from, to) in [(&a, number(&b)), (&b, number(&a))] {
            scope.spawn(move || {
                let calls: Vec<_> = (0..4).map(|_| from.offload(pass_many::with(to, TIMES)).expect("sent")).collect();
                // Workers serve them.
                until("all calls end", || calls.iter().all(|call| call.is_done()));
                for call in calls {
                    assert_eq!(call.wait().expect("runs"), expected);
                }
            });
        }
    });
}

/// Buffers of the device that is called are viewed there; those of others are refused.
pub fn buffers(specs: Specs) {
    let (a, b) = both(specs);
    let to = number(&b);
    let x = b.buffer(&[1u64, 2, 3, 4]).expect("room");
    assert_eq!(a.sync(pass_buffer::with(to, x.ptr().wire().words())).expect("runs"), 10);
    let foreign = a.buffer(&[1u64]).expect("room");
    let error = a.sync(pass_buffer::with(to, foreign.ptr().wire().words())).expect_err("a buffer of the caller");
    assert!(error.to_string().contains(&format!("on {}: ", name(&b))), "{error}");
}

/// Errors of the handler come back with their type; others say where and why.
pub fn outcomes(specs: Specs) {
    let (a, b) = both(specs);
    let (to, there) = (number(&b), name(&b));
    let text = |way: u32| match a.sync(pass_otherwise::with(to, way)) {
        Ok(text) => text.as_str().to_owned(),
        Err(error) => error.to_string(),
    };
    assert_eq!(text(0), "7 is odd");
    for (way, said) in [
        (1, format!("on {there}: it is full")),
        (2, format!("on {there}: ")),
        (3, format!("on {there}: ")),
        (4, format!("on {there}: ")),
        (5, "no such device is open".into()),
    ] {
        let got = text(way);
        assert!(got.contains(&said) && got.contains(&name(&a)), "{}: {got}", OUTCOMES[way as usize]);
    }
}

fn name(node: &Node) -> String {
    node.info().name
}

/// A calls B calls A, until both have no place left.
pub fn nested_to_the_last_place(specs: Specs) {
    let (a, b) = both(specs);
    let (here, to) = (number(&a), number(&b));
    let places = a.info().tasks.min(16) + b.info().tasks.min(16);
    let even = 2 * a.info().tasks.min(b.info().tasks).min(16);
    assert_eq!(a.sync(bounce::with(here, to, even - 1)).expect("each has a place"), even - 1);
    let begin = Instant::now();
    let error = a.sync(bounce::with(here, to, places + 2)).expect_err("one has none").to_string();
    assert!(error.contains(Status::QUEUE_FULL.text()), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    assert_eq!(a.sync(bounce::with(here, to, even - 1)).expect("all places are free again"), even - 1);
}

/// The wait of the caller ends, and the call there with it. Until then its buffer is in use.
pub fn a_wait_that_ends(specs: Specs) {
    let (a, b) = both(specs);
    let flag = b.buffer(&[0u32]).expect("room");
    let waits = a.offload(pass_wait::with(number(&b), flag.ptr().wire().words(), 100_000)).expect("sent");
    // A busy machine may not come to look while it waits.
    let waits_there = || waits.is_done() || b.put(&[0], flag.ptr()).is_err();
    both_driven(&a, &b, || until("the task there waits", waits_there));
    let error = waits.wait().expect_err("no time");
    let CallError::Fault(report) = &error else { panic!("{error}") };
    // The call there has what is left of the wait; whichever end is seen first, it is the wait's.
    assert_eq!(report.status, Status::INTERRUPTED, "{error}");
    driven(&b, || until("the call there ends", || b.put(&[0], flag.ptr()).is_ok()));
    // The call's own deadline is the end of the call, also where the task has less time to see it.
    for millis in 1..20 {
        let (ends, limit) = (Duration::from_millis(millis), 2_000_000);
        let options = CallOptions { deadline: Some(ends), ..CallOptions::default() };
        let waits =
            a.offload_with(pass_wait::with(number(&b), flag.ptr().wire().words(), limit), options).expect("sent");
        let ended = both_driven(&a, &b, || waits.wait());
        assert!(matches!(ended, Err(CallError::Deadline(_))), "{ended:?}");
        let waits =
            a.offload(pass_wait::with(number(&b), flag.ptr().wire().words(), 1000 * millis as u32)).expect("sent");
        let ended = waits.wait();
        assert!(matches!(&ended, Err(CallError::Fault(report)) if report.status == Status::INTERRUPTED), "{ended:?}");
    }
    driven(&b, || until("the calls there end", || b.put(&[0], flag.ptr()).is_ok()));
    assert_eq!(a.sync(pass::with(number(&b), 1u8)).expect("goes on"), 1);
}

/// The device that is called ends: the call says so, and the caller goes on.
pub fn a_device_that_ends(specs: Specs) {
    let (a, b) = both(specs);
    let flag = b.buffer(&[0u32]).expect("room");
    let waits = a.offload(pass_wait::with(number(&b), flag.ptr().wire().words(), 30_000_000)).expect("sent");
    both_driven(&a, &b, || until("the task there waits", || !b.tasks().is_empty()));
    b.stop();
    let error = waits.wait().expect_err("the device is gone").to_string();
    assert!(error.contains("the device was lost") && error.contains(&format!("on {}: ", name(&b))), "{error}");
    assert!(error.contains(&name(&a)), "{error}");
    let to = number(&b);
    drop(b);
    let error = a.sync(pass::with(to, 1u8)).expect_err("no device").to_string();
    assert!(error.contains("no such device is open"), "{error}");
    assert_eq!(a.sync(there::with(3u8)).expect("goes on"), 3);
}

/// The caller ends while the other device runs its call, which has no reader then.
pub fn a_caller_that_ends(specs: Specs) {
    let (a, b) = both(specs);
    let flag = b.buffer(&[0u32]).expect("room");
    let waits = a.offload(pass_wait::with(number(&b), flag.ptr().wire().words(), 300_000)).expect("sent");
    both_driven(&a, &b, || until("the task there waits", || !b.tasks().is_empty()));
    a.stop();
    let error = waits.wait().expect_err("the caller is gone");
    assert!(matches!(error, CallError::DeviceLost(..)), "{error}");
    driven(&b, || until("the call there ends", || b.put(&[1], flag.ptr()).is_ok()));
    assert_eq!(b.sync(wait_there::with(flag.ptr())).expect("goes on"), 1);
}

/// Without the option a device calls no other.
pub fn needs_the_option(specs: Specs) {
    let (a, b) = opened(specs, &options());
    let error = a.sync(pass::with(number(&b), 1u8)).expect_err("it may not");
    let CallError::Fault(report) = &error else { panic!("{error}") };
    assert_eq!(report.numbers[1], u64::from(Status::NO_HANDLER.0), "{error}");
}
