//! What a task has for a time, and ends in another order than it began.

use super::*;
use hamr_comm::Resource;

/// A claim that ends inside of its resource leaves it free, as no use of it has failed.
#[test]
fn a_claim_that_ends_inside_of_its_resource_poisons_nothing() {
    static KEPT: Resource<u32> = Resource::new(1);
    let mut bench = Bench::new();
    let (.., ticket) = bench.start(|task| {
        let claim = task.claim_resource(&KEPT)?;
        task.with(&KEPT, |value| {
            drop(claim);
            *value += 1;
        })?;
        // One that goes on keeps it.
        let claim = task.claim_resource(&KEPT)?;
        task.with(&KEPT, |value| *value += 1)?;
        assert!(task.claim_resource(&KEPT).is_err() && !KEPT.is_poisoned(), "it is claimed still");
        drop(claim);
        task.yield_now()?;
        Ok(u64::from(task.with(&KEPT, |value| *value)?))
    });
    bench.rounds();
    assert_eq!(bench.outcome(ticket).map(|o| (o.0, o.1)), Some((Status::OK, 3)));
}

/// The end of an outer limit before that of an inner one ends the outer one for good.
#[test]
fn a_limit_that_has_ended_stays_so() {
    let mut bench = Bench::new();
    let (.., ticket) = bench.start(|task| {
        let outer = task.within(Duration::from_micros(500));
        let inner = task.within(Duration::from_micros(1000));
        drop(outer);
        drop(inner);
        // No limit is left.
        task.sleep(Duration::from_micros(2000))?;
        Ok(1)
    });
    bench.now += 1500;
    bench.rounds();
    bench.now += 3000;
    bench.rounds();
    assert_eq!(bench.outcome(ticket).map(|o| (o.0, o.1)), Some((Status::OK, 1)));
}
