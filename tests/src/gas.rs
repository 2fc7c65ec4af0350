//! GASNet's interface, checked on any world: each function runs a program of
//! `hamr_tests_kernels::gas` on all ranks.

use hamr::World;
use hamr_tests_kernels::gas;

/// Arguments, kinds, payloads, replies, requests to oneself.
pub fn check_messages(world: &World) {
    let asked = world.size() * 17 * 8;
    assert_eq!(world.run_all(gas::arities::with()).expect("all ranks"), vec![asked; world.size() as usize]);
}

/// Checksums of payloads by depth and length.
pub fn check_checksums(world: &World, rounds: u32) {
    for depth in [1, 5, 40] {
        let sent = vec![rounds * depth; world.size() as usize];
        assert_eq!(world.run_all(gas::checksums::with(rounds, depth)).expect("all ranks"), sent);
    }
}

/// Checksummed messages of all kinds from all ranks to all, about so many in all.
pub fn check_mixed(world: &World, messages: u64) {
    const MOST: u64 = 200_000;
    let mut left = messages / u64::from(world.size());
    while left > 0 {
        let each = left.min(MOST) as u32;
        left -= u64::from(each);
        let done = world.run_all(gas::mixed::with(each, true)).expect("all ranks");
        assert_eq!(done, vec![(each, 0); world.size() as usize], "answers, and wrong ones");
    }
}

/// All send to all.
pub fn check_flood(world: &World, each: u32) {
    let sum = u64::from(world.size()) * u64::from(each) * u64::from(each + 1) / 2;
    assert_eq!(world.run_all(gas::flood::with(each)).expect("all ranks"), vec![sum; world.size() as usize]);
}

/// Many send to one that stalls.
pub fn check_incast(world: &World, each: u32, stall_us: u32) {
    let slots = if world.size() <= 4 { 65 } else { 17 };
    let mut room = vec![slots; world.size() as usize];
    room[0] = 0;
    assert_eq!(world.run_all(gas::incast::with(each, stall_us)).expect("all ranks"), room);
}

/// Limits, and calls that do not wait.
pub fn check_limits(world: &World) {
    assert_eq!(world.run_all(gas::limits::with()).expect("all ranks"), vec![10; world.size() as usize]);
    world.run_all(gas::busy::with()).expect("all ranks");
    let sent = vec![world.size() * 54; world.size() as usize];
    assert_eq!(world.run_all(gas::prepared::with()).expect("all ranks"), sent);
}

/// Every rank learns which handlers differ between which ranks.
pub fn check_unequal(world: &World) {
    for who in 0..world.size() {
        let (one, other) = if who == 0 { ("none", "another") } else { ("another", "none") };
        let rank = who.max(1);
        let text = format!("handler 11 is {one} at rank 0 and {other} at rank {rank}");
        let wanted = if world.size() == 1 { String::new() } else { text };
        let texts = world.run_all(gas::unequal::with(who)).expect("all ranks");
        assert!(texts.iter().all(|text| text.as_str() == wanted), "{texts:?}, expected {wanted}");
    }
}

/// Handlers are added while messages are under way.
pub fn check_registers(world: &World) {
    assert_eq!(world.run_all(gas::registers::with()).expect("all ranks"), vec![1; world.size() as usize]);
}

/// A reply that cannot be sent ends the run, and the error says why.
pub fn check_bad_replies(world: &World) {
    let why = ["it is for requests", "no such handler", "no such message", "leaves the segment", "16 arguments"];
    for (which, why) in why.iter().enumerate() {
        let error = world.run_all(gas::bad_reply::with(which as i32)).expect_err("no reply").to_string();
        let asked = "did not run handler 16";
        assert!(error.contains(why) || error.contains(asked), "{error}, expected {why}");
    }
    // The world works.
    check_flood(world, 10);
}

/// Transfers, by copies and over messages.
pub fn check_transfers(world: &World) {
    for over_messages in [false, true] {
        let done = world.run_all(gas::transfers::with(over_messages)).expect("all ranks");
        assert_eq!(done, vec![world.size() * 14 * 3; world.size() as usize]);
    }
}

/// Teams, their collectives, and what members learn that are in different ones.
pub fn check_teams(world: &World) {
    let size = world.size();
    assert_eq!(world.run_all(gas::together::with()).expect("all ranks"), vec![size; size as usize]);
    for what in 0..5 {
        let named = world.run_all(gas::unequal_collectives::with(what)).expect("all ranks");
        assert_eq!(named, vec![what; size as usize]);
    }
}

/// A member that writes into a team what it likes while another splits it.
pub fn check_hostile_split(world: &World) {
    for what in [0, 1, 2] {
        assert_eq!(world.run_all(gas::hostile_split::with(what)).expect("no panic"), [what; 2]);
    }
}

/// Barriers, and what ranks learn when their names differ.
pub fn check_barriers(world: &World, rounds: u32) {
    let size = world.size() as usize;
    assert_eq!(world.run_all(gas::barriers::with(rounds)).expect("all ranks"), vec![rounds; size]);
    for who in [0, world.size() - 1] {
        for what in 0..=6 {
            let seen = world.run_all(gas::barrier_names::with(who, what)).expect("all ranks");
            let at_others = match what {
                1 | 2 => 2,
                _ => 1,
            };
            let there = match what {
                // Alone it agrees with itself: what it waits for is no name that others gave.
                3..=5 if size == 1 => 0,
                1 if size == 1 => 2,
                1 | 2 | 5 | 6 => 2,
                _ => 1,
            };
            let wanted: Vec<_> = (0..world.size()).map(|rank| if rank == who { there } else { at_others }).collect();
            assert_eq!(seen, wanted, "rank {who} says {what}");
        }
    }
}

/// A rank that writes into the lanes of others what it likes: they do not panic, and the next run is as
/// any.
pub fn check_hostile(world: &World, seeds: std::ops::Range<u64>) {
    let mut served = 0;
    for seed in seeds {
        let each = world.run_all(gas::hostile::with(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))).expect("no panic");
        served += each.iter().sum::<u32>();
    }
    assert!(served > 0, "nothing was taken");
    check_messages(world);
}

/// A handler that panics ends the run, and the error says so; one that exits ends the world.
pub fn check_ends(world: &World, exit: impl Fn() -> World) {
    let error = world.run_all(gas::ends::with(None)).expect_err("a panic").to_string();
    assert!(error.contains("rank 0") && error.contains("a message asked for it"), "{error}");
    check_flood(world, 10);
    let world = exit();
    assert!(world.run_all(gas::ends::with(Some(42))).is_err());
    assert_eq!(world.wait(), Ok(42));
}
