//! A request, its handler and its reply between two ranks in lock step, for callgrind to count.

use super::BoxError;
use hamr::Runtime;
use hamr_comm::world::RankId;
use hamr_comm::{Fault, Task};
use hamr_gas::{GasError, Handlers, Kinds, Rank};
use std::sync::atomic::{AtomicU64, Ordering};

const ASK: u8 = 1;
const ANSWER: u8 = 2;

static TABLE: Handlers<u64> = Handlers::<u64>::new()
    .request(ASK, Kinds::SHORT, "ask", |state, _, token| {
        *state += 1;
        token.reply_short(ANSWER, &[]);
    })
    .reply(ANSWER, Kinds::SHORT, "answer", |state, _| *state += 1);

/// Steps of both ranks.
static TURN: AtomicU64 = AtomicU64::new(0);

/// Exchanges between two ranks.
pub(super) fn run(calls: u64) -> Result<(), BoxError> {
    let world = Runtime::new()?.world_of_threads(2)?;
    let code = world.run_program(move |task: &mut Task<'_>| {
        Rank::run(task, 0, |rank| {
            rank.attach(&TABLE)?;
            gas_counted(rank, calls).map_err(Fault::from)?;
            Ok(0)
        })
    })?;
    if code == 0 { Ok(()) } else { Err("a rank failed".into()) }
}

/// Calls what is counted; nothing is waited for in there.
#[inline(never)]
fn gas_counted(rank: &mut Rank<'_, u64>, calls: u64) -> Result<(), GasError> {
    for i in 0..calls {
        if rank.me().0 == 0 {
            gas_request(rank)?;
            TURN.store(2 * i + 1, Ordering::Release);
            until(2 * i + 2);
            gas_collect(rank)?;
        } else {
            until(2 * i + 1);
            gas_serve(rank)?;
            TURN.store(2 * i + 2, Ordering::Release);
        }
    }
    Ok(())
}

#[inline(never)]
fn until(turn: u64) {
    while TURN.load(Ordering::Acquire) != turn {
        std::thread::yield_now();
    }
}

#[inline(never)]
fn gas_request(rank: &mut Rank<'_, u64>) -> Result<(), GasError> {
    rank.request_short(RankId(1), ASK, &[])
}

#[inline(never)]
fn gas_serve(rank: &mut Rank<'_, u64>) -> Result<(), GasError> {
    rank.poll().map(drop)
}

#[inline(never)]
fn gas_collect(rank: &mut Rank<'_, u64>) -> Result<(), GasError> {
    rank.poll()?;
    // The number keeps the linker from merging this function with its like.
    std::hint::black_box(1_u64);
    Ok(())
}
