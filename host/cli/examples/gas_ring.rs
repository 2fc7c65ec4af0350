//! A ring exchange: each rank sends a piece of text to the next one, which adds a word and passes it on;
//! then all exchange numbers one-sidedly.
//!
//! `cargo run --release --example gas_ring` is a world of one rank. Four of them:
//! `cargo run --release -- run -n 4 target/release/examples/gas_ring`.

mod help;

use hamr_comm::world::RankId;
use hamr_comm::{Fault, Task};
use hamr_gas::{BarrierName, Handlers, Kinds, Rank};
use std::process::ExitCode;

/// The text that has come, until the program passes it on.
type State = Option<String>;

const PASS: u8 = 128;

static TABLE: Handlers<State> = Handlers::<State>::new().request(PASS, Kinds::MEDIUM, "pass", |state, mut msg, _| {
    *state = Some(String::from_utf8_lossy(msg.payload()).into_owned());
});

fn main() -> ExitCode {
    if help::is_wanted("hamr run -n RANKS gas_ring") {
        return ExitCode::SUCCESS;
    }
    hamr::world::main(|task: &mut Task<'_>| Rank::run(task, State::default(), program))
}

fn program(rank: &mut Rank<'_, State>) -> Result<u8, Fault> {
    rank.attach(&TABLE)?;
    let (me, size) = (rank.me().0, rank.size());
    let next = RankId((me + 1) % size);
    // Rank 0 begins, and is the last one that it comes to.
    if me == 0 {
        rank.request_medium(next, PASS, &[], b"rank 0")?;
    }
    rank.block_until(|state| state.is_some())?;
    let text = rank.state_mut().take().unwrap_or_default();
    if me == 0 {
        println!("{text}");
    } else {
        rank.request_medium(next, PASS, &[], format!("{text}, rank {me}").as_bytes())?;
    }
    // Each leaves its square at all others, without their doing.
    let off = u64::from(me) * 8;
    for to in (0..size).map(RankId) {
        rank.put_value(to, off, u64::from(me * me))?;
    }
    rank.barrier(BarrierName::Named(1))?;
    let mut sum = 0;
    for from in 0..u64::from(size) {
        sum += rank.get_value::<u64>(RankId(me), from * 8)?;
    }
    let wanted = (0..u64::from(size)).map(|rank| rank * rank).sum::<u64>();
    if me == 0 {
        println!("the squares of all ranks sum to {sum}");
    }
    rank.barrier(BarrierName::Anonymous)?;
    Ok(u8::from(sum != wanted))
}
