//! What ranks do to each other, checked on any world of at least two ranks.

use hamr::World;
use hamr_tests_kernels::peers::{
    BLOCK, COUNTS, barriers, contend, copy_block, differ, number_at, ping_pong, put_block, put_values, strides,
};

/// Puts and gets of every length and alignment from each rank to each, its own segment included.
pub fn check_copies(world: &World) {
    for to in 0..world.size() {
        for (from, node) in world.nodes().iter().enumerate() {
            for (i, len) in (0..20).chain([31, 64, 255, 256]).enumerate() {
                let (off, seed) = (1024 + i as u64 * 13, 7 * from as u32 + to);
                assert_eq!(node.sync(put_block::with(to, off, len, seed)).expect("inside"), 0, "{from} to {to}");
                // Every rank sees it.
                let reader = world.node((from as u32 + 1) % world.size());
                assert_eq!(reader.sync(differ::with(to, off, len, seed)).expect("inside"), 0, "{from} to {to}");
            }
            node.sync(put_values::with(to, 2048)).expect("values");
        }
    }
}

/// Copies of any rank between the segments of any two.
pub fn check_copies_of_others(world: &World) {
    let ranks = world.size();
    for (from, to) in (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))) {
        world.node(from).sync(put_block::with(from, 0, BLOCK as u32, from + 100)).expect("inside");
        for (by, node) in world.nodes().iter().enumerate() {
            let place = 8192 + by as u64 * 1000;
            node.sync(copy_block::with((from, 0), (to, place), BLOCK as u64)).expect("inside");
            assert_eq!(world.node(to).sync(differ::with(to, place, BLOCK as u32, from + 100)).expect("inside"), 0);
        }
    }
}

/// Strided copies against plain loops, and refused ones.
pub fn check_strides(world: &World, cases: u32) {
    for (rank, node) in world.nodes().iter().enumerate() {
        for to in 0..world.size() {
            let copied =
                node.sync(strides::with(to, cases, rank as u64 * 977 + u64::from(to))).expect("as plain loops");
            assert!(copied > cases, "{copied}");
        }
    }
}

/// All ranks change the same words: none of their changes is lost.
pub fn check_atomics(world: &World, rounds: u32) {
    let ranks = u64::from(world.size());
    let before: Vec<u64> = words(world);
    world.run_all(contend::with(rounds)).expect("all ranks");
    let changes = ranks * u64::from(rounds);
    let after = words(world);
    let grown = |i: usize| after[i].wrapping_sub(before[i]);
    assert_eq!(u64::from(grown(0) as u32), changes, "32-bit sum");
    assert_eq!(grown(1) as i64, -3 * changes as i64, "64-bit sum");
    assert_eq!(grown(2), 5 * changes, "compare-swap");
    assert_eq!(after[3] as u32, (changes - 1) as u32, "maximum");
    assert_eq!(after[4] as i64, -(changes as i64 - 1), "minimum");
    let all = (0..ranks).fold(0, |bits, rank| bits | 1 << rank);
    assert_eq!(after[5], before[5] ^ if rounds.is_multiple_of(2) { 0 } else { all }, "exclusive or");
    assert_eq!(after[6] as u32, all as u32, "or");
}

fn words(world: &World) -> Vec<u64> {
    (0..7).map(|word| world.node(0).sync(number_at::with(0, COUNTS + word * 8)).expect("inside")).collect()
}

/// Signals between the first rank and each other one, each behind its put.
pub fn check_signals(world: &World, rounds: u32, pause_us: u32) {
    for peer in 1..world.size() {
        let first = world.node(0).offload(ping_pong::with(peer, true, rounds, pause_us)).expect("sent");
        let second = world.node(peer).offload(ping_pong::with(0, false, rounds, pause_us)).expect("sent");
        first.wait().expect("its peer answers");
        second.wait().expect("its peer begins");
    }
}

/// Barriers of all ranks.
pub fn check_barriers(world: &World, rounds: u32) {
    let passed = world.run_all(barriers::with(rounds)).expect("all ranks");
    assert_eq!(passed, vec![rounds; world.size() as usize]);
}
