//! More threads with one node than it has streams.

use super::small;
use hamr::Options;
use hamr_kernels::demo::axpy;
use hamr_kernels::faults::background;
use hamr_tests::conformance::until;
use hamr_tests::threaded::Card;
use hamr_tests_kernels::echo;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

#[test]
fn threads_beyond_the_streams_share_one() {
    const THREADS: u64 = 16;
    let card = Card::new(&Options { streams: Some(3), ..small() }, false);
    let node = card.attach("card", Options { streams: Some(3), ..small() });
    let own = node.stream().expect("free");
    for _ in 0..3 {
        let all = Barrier::new(THREADS as usize);
        let work = |n: u64| {
            // All of them have called before one ends and leaves its stream.
            all.wait();
            let synced = node.sync(echo::with(n)).map_err(|e| e.to_string());
            all.wait();
            let pending = node.offload(echo::with(n + 1)).map_err(|e| e.to_string());
            let waited = pending.and_then(|pending| pending.wait().map_err(|e| e.to_string()));
            let local = node.local().map_err(|e| e.to_string());
            let local = local.and_then(|stream| stream.sync(echo::with(n + 2)).map_err(|e| e.to_string()));
            let task = node.sync(background::with(n)).map(drop).map_err(|e| e.to_string());
            let sent = node.send(echo::with(n)).map_err(|e| e.to_string());
            let flushed = node.flush().map_err(|e| e.to_string());
            assert_eq!((synced, waited, local), (Ok(n), Ok(n + 1), Ok(n + 2)));
            assert_eq!((task, sent, flushed), (Ok(()), Ok(()), Ok(())));
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|n| {
                    scope.spawn({
                        let work = &work;
                        move || work(n)
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        });
        // The threads' streams are closed behind their ends.
        until("the streams are free", || node.streams().len() == 1);
    }
    assert_eq!(own.sync(echo::with(7u64)).expect("runs"), 7);
}

/// Also where no task can call the host.
#[test]
fn threads_beyond_the_streams_share_one_without_tasks() {
    let options = Options { streams: Some(1), tasks: 0, ..small() };
    let card = Card::new(&small(), false);
    let node = card.attach("card", options);
    let _own = node.stream().expect("free");
    let beside = || node.sync(echo::with(7u64)).map_err(|e| e.to_string());
    assert_eq!(std::thread::scope(|scope| scope.spawn(beside).join().expect("no panic")), Ok(7));
}

/// A thread that comes while the last one beyond the streams ends, and leaves their stream, has one all the same.
#[test]
fn a_thread_comes_beyond_the_streams_while_another_leaves() {
    const ROUNDS: u32 = 3000;
    for tasks in [0, 1] {
        let card = Card::new(&small(), false);
        let node = card.attach("card", Options { streams: Some(1), tasks, ..small() });
        let _own = node.stream().expect("free");
        let turn = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let (node, turn) = (&node, &turn);
            for n in 0..ROUNDS {
                // The next one begins, and waits for this one's last step.
                until("one of the last threads has called", || turn.load(Ordering::Acquire) + 1 >= n);
                scope.spawn(move || {
                    let begin = Instant::now();
                    while turn.load(Ordering::Acquire) != n {
                        assert!(begin.elapsed() < Duration::from_secs(20), "the one before has failed");
                        std::thread::yield_now();
                    }
                    let called = node.sync(echo::with(u64::from(n))).map_err(|e| e.to_string());
                    turn.store(n + 1, Ordering::Release);
                    assert_eq!(called, Ok(u64::from(n)));
                });
            }
        });
    }
}

/// Replies to calls without a waiter are taken in by a thread that finds a buffer in use, whichever stream it has.
#[test]
fn a_thread_beyond_the_streams_frees_what_its_calls_used() {
    let options = Options { streams: Some(1), ..small() };
    let card = Card::new(&options, false);
    let node = card.attach("card", options);
    let _own = node.stream().expect("free");
    let (x, y) = (node.buffer(&[1.0; 8]).expect("room"), node.buffer(&[2.0; 8]).expect("room"));
    for _ in 0..10 {
        drop(node.offload(axpy::with(1.0, x.ptr(), y.ptr())).expect("sent"));
        until("the buffer is free", || node.put(&[3.0; 8], y.ptr()).is_ok());
    }
    drop(card);
}
