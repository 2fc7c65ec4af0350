//! Failing tests of the second round, part A.

use super::*;
use hamr_comm::abi::window::{Claim, Claimed};
use hamr_comm::View;
use std::hint::black_box;

/// A part of a set of views whose claim waits: any program may implement it.
struct Waits<'a, 't> {
    task: &'a Task<'t>,
    seen: &'a std::cell::Cell<(u16, u16)>,
}

impl View for Waits<'_, '_> {
    type Out<'v> = &'v [u8];
    fn claim(&self, cx: &Context<'_>) -> Result<Claim, Fault> {
        let before = cx.node().0;
        self.task.yield_now()?;
        // `cx` is in the slice before, which is over.
        self.seen.set((before, black_box(cx).node().0));
        Ok(Claim { off: 0, bytes: 8, writable: false })
    }
    fn open(claimed: Claimed<'_>) -> Result<&[u8], Fault> {
        Ok(claimed.shared()?)
    }
}

/// Runs rounds so much deeper in the stack.
#[inline(never)]
fn deeper(bench: &mut Bench, depth: usize) {
    let mut room = black_box([0x5A5A_5A5A_5A5A_5A5A_u64; 512]);
    if depth == 0 {
        for _ in 0..4 {
            bench.round();
        }
    } else {
        deeper(bench, depth - 1);
    }
    black_box(&mut room);
}

/// Overwrites the stack below the caller.
#[inline(never)]
fn scribble(depth: usize) {
    let mut room = black_box([0x5A5A_5A5A_5A5A_5A5A_u64; 512]);
    if depth != 0 {
        scribble(depth - 1);
    }
    black_box(&mut room);
}

/// `Task::claim` calls code of the program while it refers to the slice that it was lent. That code may wait,
/// and then the reference is to a frame of the serve loop that has ended.
#[test]
fn h1_what_a_claim_is_given_outlives_no_slice() {
    let mut bench = Bench::new();
    let seen = Rc::new(std::cell::Cell::new((0, 0)));
    let theirs = seen.clone();
    let (.., ticket) = bench.start(move |task| {
        let claim = task.claim((Waits { task, seen: &theirs },));
        Ok(u64::from(claim.is_ok()))
    });
    scribble(8);
    deeper(&mut bench, 6);
    bench.rounds();
    assert!(bench.outcome(ticket).is_some());
    assert_eq!(seen.get().0, seen.get().1, "node {:#x} in a frame that has ended", seen.get().1);
}

/// Claims that end inside of their resource leave it poisoned, though no use of it has failed.
#[test]
fn h2_a_claim_that_ends_inside_of_its_resource_poisons_nothing() {
    static KEPT: hamr_comm::Resource<u32> = hamr_comm::Resource::new(1);
    let mut bench = Bench::new();
    let (.., ticket) = bench.start(|task| {
        let claim = task.claim_resource(&KEPT)?;
        task.with(&KEPT, |value| {
            drop(claim);
            *value += 1;
        })?;
        task.yield_now()?;
        Ok(u64::from(task.with(&KEPT, |value| *value)?))
    });
    bench.rounds();
    assert_eq!(bench.outcome(ticket).map(|o| (o.0, o.1)), Some((Status::OK, 2)));
}

/// The end of an outer limit before that of an inner one brings the outer one back, for good.
#[test]
fn h3_a_limit_that_has_ended_stays_so() {
    let mut bench = Bench::new();
    let (.., ticket) = bench.start(|task| {
        let outer = task.within(Duration::from_micros(500));
        let inner = task.within(Duration::from_micros(1000));
        drop(outer);
        drop(inner);
        // No limit is left.
        task.sleep(2000)?;
        Ok(1)
    });
    bench.now += 1500;
    bench.rounds();
    bench.now += 3000;
    bench.rounds();
    assert_eq!(bench.outcome(ticket).map(|o| (o.0, o.1)), Some((Status::OK, 1)));
}
