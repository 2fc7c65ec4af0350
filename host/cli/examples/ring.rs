//! A program whose ranks pass a number around: each adds its own, the first prints the sum.
//!
//! `cargo build --release --example ring`, then
//! `cargo run --release -- run -n 4 target/release/examples/ring`; alone it is a world of one rank.

mod help;

use hamr_comm::world::RankId;
use hamr_comm::{Fault, Task};
use std::process::ExitCode;

/// The signal word that says: the number in your segment is for you.
const PASSED: u32 = 0;

fn main() -> ExitCode {
    if help::is_wanted("hamr run -n RANKS ring") {
        return ExitCode::SUCCESS;
    }
    hamr::world::main(ring)
}

fn ring(task: &mut Task) -> Result<u8, Fault> {
    let world = task.world().ok_or_else(|| Fault::msg("this program is no rank"))?;
    let (RankId(me), size) = (world.me(), world.size());
    let (before, next) = (RankId((me + size - 1) % size), RankId((me + 1) % size));
    let got = |task: &Task| -> Result<u32, Fault> {
        task.wait_signal(before, PASSED, |seen| seen == 1)?;
        Ok(world.get_value(RankId(me), 0)?)
    };
    let sum = if me == 0 { 0 } else { got(task)? };
    world.put_value(next, 0, sum + me)?;
    // Behind the put: the rank that sees the signal sees the number.
    world.signal(next, PASSED, 1)?;
    if me == 0 {
        println!("the sum of {size} ranks is {}", got(task)?);
    }
    Ok(0)
}
