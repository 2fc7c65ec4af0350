//! Checksummed messages of all kinds between hosted images, whose partners change. `cargo xtask soak messages` sends ten million.

use hamr::WaitMode;
use hamr_tests::{devices, gas};
use std::time::Instant;

/// `HAMR_SOAK_MESSAGES` is set by `cargo xtask soak`.
fn messages() -> u64 {
    std::env::var("HAMR_SOAK_MESSAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

#[test]
fn messages_of_all_kinds_keep_their_checksums() {
    for (ranks, wait) in [(4, WaitMode::Adaptive), (3, WaitMode::Sleep)] {
        let begin = Instant::now();
        gas::check_mixed(&devices::world(ranks, wait), messages() / 2);
        println!("{ranks} ranks: {} messages in {:.1} s", messages() / 2, begin.elapsed().as_secs_f64());
    }
}
