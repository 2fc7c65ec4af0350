//! GASNet's interface between ranks that are threads of this process.

use hamr::World;
use hamr_comm::world::RankId;
use hamr_comm::{Fault, Task};
use hamr_gas::{BarrierName, GasError, Handlers, Kinds, Rank, SharedRank};
use hamr_tests::{devices, gas};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn world(ranks: usize) -> World {
    devices::runtime().world_of_threads(ranks).expect("a world")
}

#[test]
fn messages_arrive_as_they_were_sent() {
    for ranks in 1..=4 {
        gas::check_messages(&world(ranks));
    }
}

#[test]
fn payloads_have_their_checksums() {
    for ranks in [1, 2, 3] {
        gas::check_checksums(&world(ranks), 30);
    }
}

#[test]
fn floods_lose_nothing() {
    for (ranks, each) in [(1, 1000), (2, 5000), (3, 1000), (5, 200)] {
        gas::check_flood(&world(ranks), each);
    }
}

#[test]
fn a_rank_that_stalls_loses_nothing() {
    for (ranks, each, stall_us) in [(2, 5000, 300), (4, 1000, 500), (20, 50, 100)] {
        gas::check_incast(&world(ranks), each, stall_us);
    }
}

#[test]
fn messages_beyond_the_limits_are_refused_by_name() {
    for ranks in [1, 2, 3] {
        gas::check_limits(&world(ranks));
    }
}

#[test]
fn unequal_handlers_are_named_with_both_ranks() {
    for ranks in [1, 2, 4] {
        gas::check_unequal(&world(ranks));
    }
}

#[test]
fn handlers_are_added_behind_the_attach() {
    for ranks in 1..=3 {
        gas::check_registers(&world(ranks));
    }
}

#[test]
fn replies_that_cannot_be_sent_are_named() {
    for ranks in [1, 2] {
        gas::check_bad_replies(&world(ranks));
    }
}

#[test]
fn teams_do_everything_together() {
    for ranks in [1, 2, 3, 5] {
        gas::check_teams(&world(ranks));
    }
}

#[test]
fn a_hostile_member_garbles_no_team_of_others() {
    gas::check_hostile_split(&world(2));
}

#[test]
fn barriers_agree_on_names() {
    for ranks in [1, 2, 3, 5] {
        gas::check_barriers(&world(ranks), 12);
    }
}

#[test]
fn handlers_that_panic_or_exit_end_what_they_run_in() {
    for ranks in 1..=3 {
        gas::check_ends(&world(ranks), || world(ranks));
    }
}

#[test]
fn transfers_arrive_by_both_paths() {
    for ranks in [1, 2, 4] {
        gas::check_transfers(&world(ranks));
    }
}

#[test]
fn hostile_ranks_garble_values_and_no_more() {
    gas::check_hostile(&world(3), 0..12);
}

/// Threads of a rank that share it, and what each of them sends to each rank.
const THREADS: u32 = 4;
const EACH: u32 = 200;

#[derive(Default)]
struct Shared {
    served: u32,
    /// Of each thread.
    answered: [u32; THREADS as usize],
}

static SHARED: Handlers<Shared> = Handlers::new()
    .request(128, Kinds::MEDIUM, "ask", |state: &mut Shared, mut msg, token| {
        state.served += 1;
        let wrong = msg.payload().iter().any(|byte| i32::from(*byte) != msg.args()[1] % 256);
        token.reply_short(129, &[msg.args()[0], i32::from(wrong)]);
    })
    .reply(129, Kinds::SHORT, "answer", |state, msg| {
        assert_eq!(msg.args()[1], 0, "a payload of another message");
        state.answered[msg.args()[0] as usize] += 1;
    });

/// Asks every rank, and puts and gets in between.
fn asks(shared: &SharedRank<'_, '_, Shared>, thread: u32) -> Result<(), GasError> {
    let (me, size) = shared.with(|rank| (rank.me().0, rank.size()));
    for i in 0..EACH {
        for to in (0..size).map(RankId) {
            let data = vec![i as u8; (i * 7 % 300) as usize];
            shared.with(|rank| rank.request_medium(to, 128, &[thread as i32, i as i32], &data))?;
            let own = u64::from((me * THREADS + thread) * 8);
            let put = shared.with(|rank| rank.put_nb(to, own, &u64::from(i).to_ne_bytes()))?;
            shared.wait(put)?;
            let mut back = [0; 8];
            shared.with(|rank| rank.get(to, own, &mut back))?;
            assert_eq!(u64::from_ne_bytes(back), u64::from(i));
        }
        if i % 32 == 0 {
            let all = (i + 1) * size;
            shared.block_until(|state| state.answered[thread as usize] == all)?;
        }
    }
    shared.block_until(|state| state.answered[thread as usize] == EACH * size)
}

fn shares(task: &mut Task<'_>) -> Result<u8, Fault> {
    Rank::run(task, Shared::default(), |rank| {
        rank.attach(&SHARED)?;
        for over_messages in [false, true] {
            *rank.state_mut() = Shared::default();
            rank.use_messages(over_messages);
            rank.barrier(BarrierName::Anonymous)?;
            let size = rank.size();
            rank.share(|shared| {
                let begin = |thread| move || asks(shared, thread);
                std::thread::scope(|scope| {
                    let others: Vec<_> = (1..THREADS).map(|thread| scope.spawn(begin(thread))).collect();
                    let mine = asks(shared, 0);
                    others.into_iter().map(|thread| thread.join().expect("no panic")).fold(mine, Result::and)
                })?;
                shared.block_until(|state| state.served == THREADS * EACH * size)?;
                shared.barrier(BarrierName::Named(7)).map(|_| ())
            })?;
        }
        Ok(0)
    })
}

#[test]
fn threads_share_a_rank() {
    for ranks in [1, 2, 3] {
        assert_eq!(world(ranks).run_program(shares).expect("all ranks"), 0);
    }
}

/// A claim of the segment is of the rank, whatever thread uses it.
fn claims(task: &mut Task<'_>) -> Result<u8, Fault> {
    Rank::run(task, Shared::default(), |rank| {
        let me = rank.me();
        // Claimed until the task ends.
        std::mem::forget(rank.task().claim_segment(4096)?);
        rank.put_value(me, 8, 4711_u64)?;
        rank.share(|shared| {
            let elsewhere = || shared.with(|rank| (rank.get_value(me, 8), rank.get_value::<u64>(me, 4096).is_err()));
            let seen = std::thread::scope(|scope| scope.spawn(elsewhere).join());
            assert_eq!(seen.expect("no panic"), (Ok(4711_u64), true));
        });
        Ok(0)
    })
}

#[test]
fn a_claim_is_seen_by_all_threads_of_a_rank() {
    assert_eq!(world(1).run_program(claims).expect("the rank"), 0);
}

/// Another thread asks for the task, one takes the rank twice, and one shares it again.
fn misuses(task: &mut Task<'_>) -> Result<u8, Fault> {
    Rank::run(task, Shared::default(), |rank| {
        let text = |result: Result<(), Box<dyn std::any::Any + Send>>| {
            result.expect_err("a panic").downcast_ref::<&str>().copied().unwrap_or_default().to_owned()
        };
        rank.share(|shared| {
            let task = || shared.with(|rank| assert!(!rank.task().cancelled()));
            task();
            let elsewhere = std::thread::scope(|scope| scope.spawn(task).join());
            assert!(text(elsewhere).contains("by another thread than its own"));
            let twice = catch_unwind(AssertUnwindSafe(|| shared.with(|_| shared.with(|_| ()))));
            assert!(text(twice).contains("a lock is taken by its holder"));
            let again = catch_unwind(AssertUnwindSafe(|| shared.with(|rank| rank.share(|_| ()))));
            assert!(text(again).contains("the rank is shared already"));
            let elsewhere = std::thread::scope(|scope| scope.spawn(task).join());
            assert!(text(elsewhere).contains("by another thread than its own"), "it still has its thread");
        });
        assert!(!rank.task().cancelled(), "the rank has one thread again");
        Ok(0)
    })
}

#[test]
fn a_shared_rank_used_wrongly_is_named() {
    assert_eq!(world(1).run_program(misuses).expect("the rank"), 0);
}
