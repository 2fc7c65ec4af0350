//! Arrays, their shadows, and uses of them that are refused.

use hamr::World;
use hamr_tests_xacc::shadows::{REASONS, arrays, refused, shadows};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// Arrays of all distributions, and reflects of all kinds on all shapes of the nodes.
pub fn check_shadows(world: &World) {
    let n = world.size();
    for size in [0, 1, 7, 40] {
        world.run_within(arrays::with(size), LIMIT).expect("all is right");
    }
    for ni in (1..=n).filter(|ni| n.is_multiple_of(*ni)) {
        // The smallest that has blocks as long as the widths, and some that do not divide; nodes without
        // elements.
        for size in [[2 * i64::from(n), 2 * i64::from(n)], [13, 17], [31, 9], [5, 6]] {
            world.run_within(shadows::with([ni, n / ni], size), LIMIT).expect("all is right");
        }
    }
}

/// Each ends the run with its reason, and the next run is as if there had been none.
pub fn check_refused(world: &World) {
    for (how, reason) in REASONS.iter().enumerate() {
        let error = world.run_within(refused::with(how as u32), LIMIT).expect_err(reason).to_string();
        assert!(error.contains(reason), "{reason}: {error}");
        world.run_within(arrays::with(9), LIMIT).expect("the next run");
    }
}
