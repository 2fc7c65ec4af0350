//! What the programs that start worlds share.

use hamr::{Error, Image, Options, Runtime, World, WorldOptions};

/// The image of the programs.
const IMAGE: &str = "hamr-programs";

/// A world of so many devices with the programs, and `bytes` for the arrays of all of them together.
/// `devices` are the kinds of the ranks, with commas between; the last one counts for all that follow.
///
/// # Errors
/// It does not start.
pub fn world(devices: &str, ranks: u32, bytes: u64) -> Result<World, Error> {
    let kinds: Vec<&str> = devices.split(',').collect();
    let last = kinds.last().copied().unwrap_or("shm");
    let specs: Vec<&str> = (0..ranks as usize).map(|rank| *kinds.get(rank).unwrap_or(&last)).collect();
    // Blocks are rounded up, and have shadows.
    let segment = (bytes / u64::from(ranks.max(1)) * 5 / 4 + (4 << 20)).next_power_of_two();
    let options = WorldOptions::default();
    let rank = Options { segment, deadline: None, ..options.rank };
    Runtime::new()?.world_with(&specs, Image::find(IMAGE)?, WorldOptions { rank, ..options })
}
