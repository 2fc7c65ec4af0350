//! Device, host and adapter beside each other: processes that are stopped at any moment, objects that end beside traffic.
//!
//! `HAMR_STOPS` is how many of each; 40 without it.

mod common;

use common::{Pair, SOON, open, open_with, pair};
use hamr::{CallError, CallOptions, Node, Options, WaitMode};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::side::WORDS;
use hamr_hca::engine::SLICE;
use hamr_verbs::handlers::{post_one, send_waiting, take_all};
use hamr_verbs::host::{Fabric, FabricError, QpPlan};
use hamr_verbs::wire::{Access, SQ_CI, word_of};
use hamr_verbs::{QpId, SendWr, Verbs, VerbsError};
use rustix::process::{Pid, Signal, kill_process};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

fn stops() -> u32 {
    std::env::var("HAMR_STOPS").ok().and_then(|stops| stops.parse().ok()).unwrap_or(40)
}

/// Numbers of no order (xorshift), the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn pause(&mut self, most: Duration) {
        std::thread::sleep(Duration::from_micros(self.below(most.as_micros() as u64)));
    }
}

/// H6, H13: both sides sleep for each message, and nothing but a notification wakes the device.
#[test]
fn a_stop_at_any_moment_loses_no_notification() {
    let options = Options { wait: WaitMode::Sleep, longest_sleep: None, verbs: 1 << 20, ..Options::default() };
    let node = open_with("shm", options);
    let pair = pair(&node);
    let processes = [pair.fabric.process().expect("it runs"), node.info().pid];
    let signal = |process: u32, signal| {
        kill_process(Pid::from_raw(process.cast_signed()).expect("not zero"), signal).expect("it runs");
    };
    const MESSAGES: u64 = 60;
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    let (mut slow, mut stopped) = (0, 0);
    for number in 0..stops() {
        let begin = Instant::now();
        let call = send_waiting::with(pair.a, pair.b, pair.cq, pair.region.id(), MESSAGES);
        let limit = CallOptions { limit: Some(SOON), ..CallOptions::default() };
        let call = node.offload_with(call, limit).expect("a place");
        let mut paused = Duration::ZERO;
        for _ in 0..3 {
            let process = processes[numbers.below(2) as usize];
            numbers.pause(Duration::from_micros(700));
            let begin = Instant::now();
            signal(process, Signal::STOP);
            numbers.pause(Duration::from_micros(700));
            signal(process, Signal::CONT);
            paused += begin.elapsed();
            stopped += 1;
        }
        assert_eq!(call.wait().expect("all come"), (0..MESSAGES).sum::<u64>(), "round {number}");
        // The adapter looks by itself behind 100 ms.
        slow += u32::from(begin.elapsed() > paused + Duration::from_millis(100));
    }
    println!("{stopped} stops, {slow} of {} rounds with a long sleep", stops());
    // A machine that is busy with something else for so long is rare.
    assert!(slow * 4 <= stops(), "{slow} of {} rounds took as long as a lost notification", stops());
}

/// The outcome of a call beside resets. Nothing else than that may come of them.
fn may_be_stale<R>(done: Result<R, CallError>, number: u32) {
    match done {
        Ok(_) => {}
        Err(CallError::Fault(fault)) if fault.status == Status::VERBS => {
            let may_be = [VerbsError::Stale, VerbsError::State(0), VerbsError::Full].map(kind);
            assert!(may_be.contains(&fault.numbers[0]), "round {number}: {fault}");
        }
        Err(e) => panic!("round {number}: {e}"),
    }
}

/// The number that a fault has for it.
fn kind(e: VerbsError) -> u64 {
    match e {
        VerbsError::Stale => 2,
        VerbsError::Full => 3,
        _ => 7,
    }
}

/// All of what is in the completion queue is taken, and a pair of new queue pairs sends.
fn goes_on(node: &Node, pair: &Pair, [a, b]: [QpId; 2]) {
    let begin = Instant::now();
    let mut empty = 0;
    // What was posted before completes, or never does.
    while empty < 20 {
        let taken = node.sync(take_all::with(pair.cq)).expect("it has not overrun").expect("it is there");
        empty = if taken == 0 { empty + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(1));
        assert!(begin.elapsed() < SOON);
    }
    let call = send_waiting::with(a, b, pair.cq, pair.region.id(), 100);
    assert_eq!(node.sync(call).expect("all come"), (0..100).sum::<u64>());
}

#[test]
fn objects_end_beside_traffic() {
    let node = open("shm", 4 << 20);
    let mut pair = pair(&node);
    // More than the requests of all, with those that came before a reset: an adapter that waits for a processor does all at once.
    pair.cq = pair.fabric.completion_queue(511).expect("room");
    [pair.a, pair.b] = [0, 1].map(|_| pair.fabric.queue_pair(&QpPlan::new(pair.cq)).expect("room"));
    pair.fabric.connect(pair.a, pair.b).expect("they are not connected");
    let pair = pair;
    let pairs = Mutex::new([pair.a, pair.b]);
    let now = || *pairs.lock().unwrap_or_else(PoisonError::into_inner);
    let is_over = AtomicBool::new(false);
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let mut numbers = Numbers(0xD1B5_4A32_D192_ED03);
    std::thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let stream = node.stream().expect("a stream");
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                let [a, b] = now();
                may_be_stale(stream.sync(post_one::with(a, b, pair.region.id(), number.into())), number);
                may_be_stale(stream.sync(take_all::with(pair.cq)), number);
                number += 1;
            }
            number
        });
        let over = Over(&is_over);
        for _ in 0..stops() * 5 {
            let [a, b] = now();
            numbers.pause(Duration::from_micros(400));
            let fabric = &pair.fabric;
            let next = match numbers.below(4) {
                0 => {
                    fabric.set_error(a).expect("its own");
                    [a, b].map(|qp| fabric.reset(qp).expect("it is there"))
                }
                // Both places, and their memory, are used again.
                1 => {
                    [a, b].into_iter().for_each(|qp| fabric.destroy_queue_pair(qp).expect("it is there"));
                    [0, 1].map(|_| fabric.queue_pair(&QpPlan::new(pair.cq)).expect("room"))
                }
                _ => [a, b].map(|qp| fabric.reset(qp).expect("it is there")),
            };
            assert!(matches!(fabric.destroy_completion_queue(pair.cq), Err(FabricError::Refused(_))));
            fabric.connect(next[0], next[1]).expect("they are not connected");
            *pairs.lock().unwrap_or_else(PoisonError::into_inner) = next;
        }
        drop(over);
        let rounds = traffic.join().expect("nothing else came");
        println!("{rounds} rounds of traffic");
        assert!(rounds > 100);
    });
    goes_on(&node, &pair, now());
}

/// A task that waits for a completion of a queue that the host destroys, and that no queue pair names.
#[test]
fn a_wait_ends_with_its_completion_queue() {
    let node = open("shm", 1 << 20);
    let pair = pair(&node);
    let cq = pair.fabric.completion_queue(4).expect("room");
    let stream = node.stream().expect("a stream");
    let waits = stream.offload(hamr_verbs::handlers::wait_for_one::with(cq)).expect("a place");
    std::thread::sleep(Duration::from_millis(20));
    pair.fabric.destroy_completion_queue(cq).expect("none names it");
    // The device may sleep; the next call wakes it.
    pair.sends(&node, 3);
    match waits.wait() {
        Err(CallError::Fault(fault)) if fault.status == Status::VERBS => assert_eq!(fault.numbers[0], 2),
        other => panic!("{other:?}"),
    }
}

/// A look at the host's socket does not wait for as much as 64 rounds of long messages.
#[test]
fn a_host_is_answered_beside_long_messages() {
    const PAIRS: u16 = 60;
    const DEPTH: u32 = 64;
    let node = open("shm", 16 << 20);
    let fabric = Fabric::open(&node).expect("an adapter");
    let region = fabric.region(SLICE, Access(15)).expect("room");
    let cq = fabric.completion_queue(500).expect("room");
    let pairs: Vec<QpId> = (0..PAIRS).map(|_| fabric.queue_pair(&QpPlan::new(cq)).expect("room")).collect();
    pairs.iter().for_each(|qp| fabric.connect(*qp, *qp).expect("it is open"));
    let words: Vec<AtomicU32> = (0..WORDS).map(|_| AtomicU32::new(0)).collect();
    let done = || {
        let sum = |section: &Window<Shared>| {
            let done = |qp: &QpId| section.word(word_of(SQ_CI, qp.index())).expect("inside").load();
            pairs.iter().map(done).sum::<u32>()
        };
        fabric.drive(|section, _, _| sum(section)).expect("it serves")
    };
    let mut all = 0;
    let mut waits: Vec<u32> = (0..15)
        .map(|_| {
            let posted = fabric.drive(|section, node, epoch| -> Result<(), VerbsError> {
                let verbs = Verbs::over(section, &words, node, epoch)?;
                let from = [verbs.region(region.id())?.part(0..SLICE)?];
                // Of the time before: behind them all entries are free.
                while verbs.completion_queue(cq)?.poll()?.is_some() {}
                let write = SendWr::write(0, &from, region.remote(0));
                for number in 1..=DEPTH {
                    let write = if number < DEPTH { write.quiet() } else { write };
                    pairs.iter().try_for_each(|qp| verbs.queue_pair(*qp)?.post(&write))?;
                }
                Ok(())
            });
            posted.expect("it serves").expect("room");
            // Nothing wakes it.
            while done() == all {
                std::hint::spin_loop();
            }
            let before = done();
            assert!(matches!(fabric.connect(pairs[0], pairs[0]), Err(FabricError::Refused(_))));
            let waited = done() - before;
            all += u32::from(PAIRS) * DEPTH;
            while done() != all {
                std::thread::sleep(Duration::from_millis(1));
            }
            waited
        })
        .collect();
    waits.sort_unstable();
    assert!(waits[waits.len() / 2] < 900, "{waits:?} messages of 256 KiB until an answer");
}
