//! Calls of one rank alone, which are no part of a run: the next run's numbers are its own.

use super::world;
use hamr::CallOptions;
use hamr_comm::Fault;
use hamr_xacc::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A program.
#[offload]
pub(crate) fn summed(w: &mut Spmd, x: f64) -> Result<f64, Fault> {
    w.reduce(Sum, x)
}

/// What rank 0 of a run before was about to store at the others, when the words started over.
#[offload]
pub(crate) fn stores_late(task: &mut hamr_comm::Task, number: u32) -> Result<(), Fault> {
    let Some(world) = task.world().filter(|world| world.me().0 == 0) else { return Ok(()) };
    (0..2).try_for_each(|word| Ok(world.signal(hamr_comm::world::RankId(1), word, number)?))
}

/// [`summed`], which node 0 comes to late.
#[offload]
pub(crate) fn summed_late(w: &mut Spmd, x: f64) -> Result<f64, Fault> {
    if w.me() == 0 {
        std::thread::sleep(Duration::from_millis(200));
    }
    w.reduce(Sum, x)
}

#[test]
fn a_word_of_a_run_before_is_no_partners() {
    let world = world(2);
    let run = |x| world.run_within(summed_late::with(x), Duration::from_secs(4)).map_err(|e| e.to_string());
    assert_eq!(run(1.0), Ok(2.0));
    let stream = world.node(0).stream().expect("a stream");
    let deadline = CallOptions::deadline(Duration::from_millis(300));
    assert!(stream.sync_with(summed::with(100.0), deadline).is_err(), "no other node comes");
    drop(stream);
    assert_eq!(run(2.0), Ok(4.0), "words have started over");
    world.run(stores_late::with(100)).expect("stored");
    assert_eq!(run(3.0), Ok(6.0));
}

#[test]
fn a_program_that_one_rank_was_called_with_alone_spoils_no_run() {
    let world = world(2);
    let run = |x| world.run_within(summed::with(x), Duration::from_secs(4)).map_err(|e| e.to_string());
    assert_eq!(run(1.0), Ok(2.0));
    let stream = world.node(0).stream().expect("a stream");
    let alone = stream.sync_with(summed::with(100.0), CallOptions::deadline(Duration::from_millis(300)));
    assert!(alone.is_err(), "no other node comes");
    drop(stream);
    let begin = Instant::now();
    assert_eq!(run(1.0), Ok(2.0), "after {:?}", begin.elapsed());
}

/// Meets the other ranks, and says how long that took.
#[offload]
pub(crate) fn meets(task: &mut hamr_comm::Task, late: u64) -> Result<u64, Fault> {
    let begin = task.micros();
    while task.world().is_some_and(|world| world.me().0 == 1) && task.micros() - begin < late {
        std::thread::yield_now();
    }
    let begin = task.micros();
    task.barrier()?;
    Ok(task.micros() - begin)
}

#[test]
fn a_barrier_that_one_rank_was_in_alone_is_over() {
    let world = world(2);
    let run = |late| world.run_within(meets::with(late), Duration::from_secs(5)).map_err(|e| e.to_string());
    assert!(run(0).is_ok());
    let stream = world.node(0).stream().expect("a stream");
    let alone = stream.sync_with(meets::with(0), CallOptions::deadline(Duration::from_millis(300)));
    assert!(alone.is_err(), "no other rank comes");
    drop(stream);
    let waited = run(500_000).expect("all come, and within 5 s");
    assert!(waited > 300_000, "rank 0 has not waited for rank 1, which is 500 ms late: {waited} us");
}

/// Ranks that [`counts`] has ended on.
static ENDED: AtomicU32 = AtomicU32::new(0);

/// Meets the other ranks.
#[offload]
pub(crate) fn counts(task: &mut hamr_comm::Task) -> Result<(), Fault> {
    task.barrier()?;
    ENDED.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// As above, behind a run that has ended and that no thread waits for: the ranks count nothing then.
#[test]
fn a_call_of_one_rank_alone_behind_a_started_run_spoils_no_run() {
    let world = world(2);
    for started in 1..=2 {
        drop(world.start(counts::with()).expect("sent"));
        let begin = Instant::now();
        while ENDED.load(Ordering::Acquire) < 2 * started {
            assert!(begin.elapsed() < Duration::from_secs(20), "the run does not end");
            std::thread::yield_now();
        }
        let stream = world.node(0).stream().expect("a stream");
        let deadline = CallOptions::deadline(Duration::from_millis(300));
        let alone = match started {
            1 => stream.sync_with(meets::with(0), deadline).is_err(),
            _ => stream.sync_with(summed::with(100.0), deadline).is_err(),
        };
        assert!(alone, "no other rank comes");
        drop(stream);
        let run = |late| world.run_within(meets::with(late), Duration::from_secs(5)).map_err(|e| e.to_string());
        let waited = run(500_000).expect("all come, and within 5 s");
        assert!(waited > 300_000, "rank 0 has not waited for rank 1, which is 500 ms late: {waited} us");
        let sum = world.run_within(summed::with(1.0), Duration::from_secs(5)).map_err(|e| e.to_string());
        assert_eq!(sum, Ok(2.0));
    }
}
