//! Collectives, and nodes that are in different ones.

use hamr::World;
use hamr_tests_xacc::collectives::{NAMES, collectives, mismatch};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// All collectives, twice; the bits of their sums are those of any other world of this size.
pub fn check_collectives(world: &World, rounds: u32) -> u64 {
    let first = world.run_all(collectives::with(rounds)).expect("all is right");
    let again = world.run_all(collectives::with(rounds)).expect("all is right");
    assert!(first.iter().chain(&again).all(|bits| *bits == first[0]), "{first:?} {again:?}");
    first[0]
}

/// Every pair of collectives on two nodes: both are named, and the world is as before.
pub fn check_mismatches(world: &World, pairs: impl IntoIterator<Item = (usize, usize)>) {
    for (first, others) in pairs {
        let call = mismatch::with(first as u32, others as u32);
        let Err(failed) = world.run_within(call, LIMIT) else {
            assert_eq!(first, others, "{} is not {}", NAMES[first], NAMES[others]);
            continue;
        };
        let text = failed.to_string();
        assert!(first != others, "{text}");
        let named = [format!("node 0 is in {}", NAMES[first]), format!("in {}", NAMES[others])];
        assert!(named.iter().all(|name| text.contains(name)), "{named:?}: {text}");
        world.run(collectives::with(1)).expect("the next run");
    }
}

/// All pairs of what [`mismatch()`] calls.
pub fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..NAMES.len()).flat_map(|first| (0..NAMES.len()).map(move |others| (first, others)))
}
