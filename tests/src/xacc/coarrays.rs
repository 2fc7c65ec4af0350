//! Coarrays, and uses of them that are refused.

use hamr::World;
use hamr_tests_xacc::coarrays::{REASONS, coarrays, misused};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Transfers and syncs of all kinds; twice, so that a program begins behind another one's posts.
pub fn check_coarrays(world: &World) {
    for rounds in [1, 2] {
        world.run_within(coarrays::with(rounds), LIMIT).expect("all is right");
    }
}

/// Each ends the run with its reason, and the next run is as if there had been none.
pub fn check_misused(world: &World) {
    for (how, reason) in REASONS.iter().enumerate() {
        let error = world.run_within(misused::with(how as u32), LIMIT).expect_err(reason).to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
    check_coarrays(world);
}
