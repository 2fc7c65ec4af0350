//! Header and directory of a world (abi §13): where a launcher puts homes, and what a rank refuses.

use hamr_comm::abi::ids::{NodeId, RankId};
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::abi::world::{
    Announced, DIRECTORY, FEW_RANKS, HOME_ALIGN, InterestWord, MAX_RANKS, MAX_SIGNAL_LINES, Range, RankEntry, RankKind,
    RankPlan, WorldFault, WorldHeader, WorldLayout, WorldPlanError,
};
use proptest::prelude::*;
use std::mem::offset_of;

const ENTRY: u64 = size_of::<RankEntry>() as u64;

fn plan(home_len: u64) -> RankPlan {
    let segment = Range { off: home_len / 2, len: home_len / 2 };
    RankPlan { kind: RankKind::HOSTED, node: NodeId(7), home_len, segment }
}

/// A world of three ranks.
fn world() -> (WorldLayout, Window<Shared>) {
    let ranks = [plan(4096), plan(HOME_ALIGN + 4096), plan(8192)];
    let layout = WorldLayout::plan(&ranks).expect("three");
    let window = Window::private(layout.len()).share();
    layout.write(&ranks, 42, &window).expect("long enough");
    (layout, window)
}

/// The refusal of a world in which one field has another value.
fn refusal(at: u64, value: &[u8]) -> WorldFault {
    let (_, window) = world();
    window.write_bytes(at, value).expect("inside");
    WorldLayout::read(&window).expect_err("it must be refused")
}

fn header(field: usize, value: u32) -> WorldFault {
    refusal(field as u64, &value.to_le_bytes())
}

fn entry(rank: u64, field: usize, value: u64) -> WorldFault {
    refusal(DIRECTORY + rank * ENTRY + field as u64, &value.to_le_bytes())
}

#[test]
fn homes_are_in_order_and_aligned() {
    let (layout, window) = world();
    // PEERS of three ranks takes 172,224 bytes.
    let at = |n: u64| (3 + n) * HOME_ALIGN;
    let homes = [(at(0), 4096), (at(1), HOME_ALIGN + 4096), (at(3), 8192)];
    let of = |rank| layout.home(&window, RankId(rank)).map(|home| (home.off, home.len));
    assert_eq!([of(0), of(1), of(2)], homes.map(Ok));
    assert_eq!((layout.front(), layout.len()), (at(0), at(3) + 8192));
    assert_eq!(WorldLayout::read(&window), Ok(layout));
    assert_eq!(layout.segment(&window, RankId(2)), Ok(Range { off: 4096, len: 4096 }));
    assert_eq!(layout.home(&window, RankId(3)), Err(WorldFault::Rank(3)));
    assert_eq!(layout.segment(&window, RankId(u32::MAX)), Err(WorldFault::Rank(u32::MAX)));
    let peers = layout.peers();
    assert_eq!(peers.signal_words(), 32);
    let [a, b] = [0, 1].map(|rank| peers.words(RankId(rank)).expect("a rank"));
    assert_eq!((a.off, a.len), (DIRECTORY + 3 * ENTRY, (6 + 3 * 2) * 64));
    assert_eq!(b.off, a.off + a.len + 3 * 33 * (64 + 512));
    assert_eq!(peers.barrier_word(RankId(0), 5), Some(a.off + 5 * 64));
    assert_eq!(peers.signal_word(RankId(0), RankId(1), 17), Some(a.off + (6 + 2) * 64 + 17 * 4));
    let lane = peers.lane(RankId(1), RankId(2)).expect("two ranks");
    assert_eq!((lane.req_base, lane.slots(), lane.chunk_pair()), (b.off + b.len + 2 * 33 * (64 + 512), 33, 512));
    assert!(lane.is_well_formed() && lane.rep_base == lane.req_base && lane.chunks == lane.req_base + 33 * 64);
    let three = RankId(3);
    assert_eq!((peers.words(three), peers.lane(three, RankId(0)), peers.lane(RankId(0), three)), (None, None, None));
    assert_eq!((peers.barrier_word(RankId(0), 6), peers.barrier_word(three, 0)), (None, None));
    assert_eq!((peers.signal_word(RankId(0), RankId(0), 32), peers.signal_word(RankId(0), three, 0)), (None, None));
    let first: RankEntry = window.read(DIRECTORY).expect("inside");
    assert_eq!((first.doorbell, first.node, first.state, first.exit), (1, 7, 0, 0));
}

#[test]
fn gas_is_behind_the_homes() {
    let ranks = [plan(4096), plan(8192)];
    let without = WorldLayout::plan(&ranks).expect("two");
    let layout = without.with_gas().expect("room");
    let window = Window::private(layout.len()).share();
    layout.write(&ranks, 42, &window).expect("long enough");
    assert_eq!(WorldLayout::read(&window), Ok(layout));
    assert_eq!((layout.ranks(), layout.front(), without.gas()), (without.ranks(), without.front(), None));
    let gas = layout.gas().expect("planned");
    let part = 64 * (1 + 6 + 256) + 2 * 65 * (64 + 2 * (16 << 10));
    assert_eq!(gas.range(), Range { off: 4 * HOME_ALIGN, len: 2 * part });
    assert_eq!(layout.len(), gas.range().off + 2 * part);
    let (zero, one, two) = (RankId(0), RankId(1), RankId(2));
    let at = gas.head(one).expect("a rank");
    assert_eq!(at, gas.range().off + part);
    assert_eq!((gas.barrier_line(one, 5), gas.barrier_line(one, 6)), (Some(at + 6 * 64), None));
    assert_eq!(gas.name(one, 255), Some(at + (7 + 255) * 64));
    let lane = gas.lane(one, one).expect("a rank");
    assert_eq!(lane.req_base, at + 263 * 64 + 65 * (64 + (32 << 10)));
    assert!(lane.is_well_formed() && lane.slots() == 65);
    assert_eq!(gas.chunk(one, one, 64), Some(lane.req_base + 65 * 64 + 64 * (32 << 10)));
    assert_eq!(gas.chunk(one, one, 64).map(|at| at + (32 << 10)), Some(layout.len()));
    assert_eq!(
        (gas.chunk(one, one, 65), gas.lane(one, two), gas.lane(two, one), gas.head(two)),
        (None, None, None, None)
    );
    assert_eq!(gas.at_front().head(zero), Some(0));
    // Each field that cannot be is refused.
    for (field, value) in [
        (offset_of!(WorldHeader, gas), 32_u64),
        (offset_of!(WorldHeader, gas), 3 * HOME_ALIGN),
        (offset_of!(WorldHeader, gas), gas.range().off + 64),
        (offset_of!(WorldHeader, gas), u64::MAX - 63),
        (offset_of!(WorldHeader, gas_ring), 3 | 16384 << 32),
        (offset_of!(WorldHeader, gas_ring), 128 | 16384 << 32),
        (offset_of!(WorldHeader, gas_ring), 16 | 32768 << 32),
        (offset_of!(WorldHeader, gas_ring), 16 | 100 << 32),
    ] {
        layout.write(&ranks, 42, &window).expect("long enough");
        window.write_bytes(field as u64, &value.to_le_bytes()).expect("inside");
        assert!(matches!(WorldLayout::read(&window), Err(WorldFault::Gas(_))), "{field} {value:#x}");
    }
}

#[test]
fn one_to_4095_ranks_are_planned() {
    // Of GAS, of which only what is used takes memory; and the world of so many ranks without homes.
    for (ranks, gas, front) in [
        (1, 3 << 20, 1 << 20),
        (4, 33 << 20, 2 << 20),
        (5, 14 << 20, 2 << 20),
        (64, 552 << 20, 80 << 20),
        (MAX_RANKS, 2200 << 30, 320 << 30),
    ] {
        let layout = WorldLayout::plan(&vec![plan(4096); ranks]).expect("allowed");
        let with_gas = layout.with_gas().expect("room").len() - layout.len();
        assert!(with_gas < gas, "{ranks}: {with_gas}");
        assert!(layout.front() < front, "{ranks}: {}", layout.front());
        assert_eq!(layout.ranks() as usize, ranks);
        assert!(layout.front() >= DIRECTORY + ranks as u64 * ENTRY, "the directory is before the homes");
    }
    for ranks in [0, MAX_RANKS + 1] {
        assert_eq!(WorldLayout::plan(&vec![plan(4096); ranks]), Err(WorldPlanError::Ranks(ranks)));
    }
    assert_eq!(WorldLayout::plan(&[plan(!4095)]), Err(WorldPlanError::TooLarge));
}

#[test]
fn ranks_of_large_worlds_have_interest_words() {
    let few = WorldLayout::plan(&[plan(4096); FEW_RANKS]).expect("allowed");
    assert_eq!(few.interest(), None);
    assert!(WorldLayout::plan(&[plan(4096); FEW_RANKS + 1]).expect("allowed").interest().is_some());
    let ranks = [plan(4096); 65];
    let layout = WorldLayout::plan(&ranks).expect("allowed");
    let window = Window::private(layout.len()).share();
    layout.write(&ranks, 42, &window).expect("long enough");
    assert_eq!(WorldLayout::read(&window), Ok(layout));
    let (interest, peers) = (layout.interest().expect("many"), layout.peers());
    // Barriers have twelve rounds.
    let first = peers.words(RankId(0)).expect("a rank");
    assert_eq!(
        (peers.barrier_word(RankId(0), 11), peers.barrier_word(RankId(0), 12)),
        (Some(first.off + 11 * 64), None)
    );
    assert_eq!(
        interest.range(),
        Range { off: peers.lane(RankId(64), RankId(64)).expect("a rank").req_base + 19008, len: 65 * 1152 }
    );
    let word = |of, what, word| interest.word(RankId(of), what, word);
    let at = interest.range().off;
    assert_eq!(word(0, Announced::Call, InterestWord::Group(0)), Some(at));
    assert_eq!(word(0, Announced::Call, InterestWord::Ranks(2)), Some(at + 64 + 8));
    assert_eq!(word(64, Announced::Message, InterestWord::Ranks(127)), Some(at + 64 * 1152 + 576 + 64 + 508));
    assert_eq!(word(65, Announced::Call, InterestWord::Group(0)), None);
    assert_eq!(
        (word(0, Announced::Call, InterestWord::Group(4)), word(0, Announced::Call, InterestWord::Ranks(128))),
        (None, None)
    );
    // No version, none of its place, and misplaced.
    for (field, value) in [
        (offset_of!(WorldHeader, version), 1 | 0x0102_0304 << 32),
        (offset_of!(WorldHeader, interest), 0),
        (offset_of!(WorldHeader, interest), at - 64),
        (offset_of!(WorldHeader, interest), at + 1),
        (offset_of!(WorldHeader, interest), layout.len()),
        (offset_of!(WorldHeader, interest), u64::MAX - 63),
    ] {
        layout.write(&ranks, 42, &window).expect("long enough");
        window.write_bytes(field as u64, &value.to_le_bytes()).expect("inside");
        assert!(matches!(WorldLayout::read(&window), Err(WorldFault::Interest(_))), "{field} {value:#x}");
    }
}

#[test]
fn a_malformed_header_is_refused() {
    assert_eq!(header(offset_of!(WorldHeader, magic), 1), WorldFault::Magic(1));
    assert_eq!(header(offset_of!(WorldHeader, version), 3), WorldFault::Version(3));
    assert_eq!(header(offset_of!(WorldHeader, byte_order), 0x0403_0201), WorldFault::ByteOrder(0x0403_0201));
    for ranks in [0, 4096, u32::MAX] {
        assert_eq!(header(offset_of!(WorldHeader, ranks), ranks), WorldFault::Ranks(ranks));
    }
    assert_eq!(refusal(16, &u64::MAX.to_le_bytes()), WorldFault::Length(u64::MAX));
    for directory in [0, 0x80, DIRECTORY + 1, u64::MAX, u64::MAX - 63] {
        assert_eq!(refusal(24, &directory.to_le_bytes()), WorldFault::Length(directory));
    }
    // Over the directory, misaligned, over the first home, over the end of the address space.
    for peers in [0, DIRECTORY + ENTRY, DIRECTORY + 3 * ENTRY + 1, HOME_ALIGN, u64::MAX - 63] {
        let got = refusal(offset_of!(WorldHeader, peers) as u64, &peers.to_le_bytes());
        assert!(got == WorldFault::Peers(peers) || got == WorldFault::Home(0), "{peers:#x}: {got}");
    }
    for lines in [0, MAX_SIGNAL_LINES + 1, u32::MAX] {
        assert!(matches!(header(offset_of!(WorldHeader, signal_lines), lines), WorldFault::Peers(_)), "{lines}");
    }
    for ring in [0, 8, u32::MAX] {
        assert!(matches!(header(offset_of!(WorldHeader, lane_ring), ring), WorldFault::Peers(_)), "{ring}");
    }
    let short = Window::private(64);
    short.write(0, &hamr_comm::abi::world::MAGIC).expect("inside");
    assert!(matches!(WorldLayout::read(&short), Err(WorldFault::Length(128))));
}

#[test]
fn a_malformed_directory_is_refused() {
    // Over the directory, before the home in front of it, out of the world, misaligned, too short.
    for home in
        [0, DIRECTORY, HOME_ALIGN, 2 * HOME_ALIGN, 6 * HOME_ALIGN, u64::MAX - HOME_ALIGN + 1, 3 * HOME_ALIGN + 64]
    {
        assert_eq!(entry(1, 0, home), WorldFault::Home(1), "{home:#x}");
    }
    for len in [0, 1023, 3 * HOME_ALIGN, u64::MAX] {
        assert_eq!(entry(1, 8, len), WorldFault::Home(1), "{len:#x}");
    }
    assert_eq!(entry(1, 8, 2 * HOME_ALIGN + 1), WorldFault::Home(2), "the next one begins inside of it");
    assert_eq!(refusal(DIRECTORY + 20, &2u32.to_le_bytes()), WorldFault::Maps(2));
    let (layout, window) = world();
    window.write_bytes(DIRECTORY + 48, &4097u64.to_le_bytes()).expect("inside");
    assert_eq!(layout.segment(&window, RankId(0)), Err(WorldFault::Segment(0)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a world begins with: it is refused, or its homes are in order in the memory.
    #[test]
    fn homes_of_a_hostile_world_are_apart_and_inside(
        junk in proptest::collection::vec((0usize..0x1100, any::<u64>()), 0..6),
        near in proptest::collection::vec((0u64..3, 0usize..8, -2i64..3), 0..4),
    ) {
        let (_, window) = world();
        for (at, bytes) in junk {
            window.write_bytes(at as u64, &bytes.to_le_bytes()).expect("inside");
        }
        for (rank, field, step) in near {
            let at = DIRECTORY + rank * ENTRY + field as u64 * 8;
            let mut bytes = [0; 8];
            window.read_bytes(at, &mut bytes).expect("inside");
            let value = u64::from_le_bytes(bytes).wrapping_add_signed(step * HOME_ALIGN as i64);
            window.write_bytes(at, &value.to_le_bytes()).expect("inside");
        }
        if let Ok(layout) = WorldLayout::read(&window) {
            let mut free = DIRECTORY;
            for rank in (0..layout.ranks()).map(RankId) {
                let (words, lane) = (layout.peers().words(rank), layout.peers().lane(rank, RankId(0)));
                let (words, lane) = (words.expect("a rank"), lane.expect("a rank"));
                prop_assert!(words.off >= DIRECTORY && words.off % 64 == 0 && words.off + words.len == lane.req_base);
                prop_assert!(lane.chunks + u64::from(lane.slots()) * lane.chunk_pair() <= layout.front());
            }
            prop_assert!(layout.ranks() != 0 && layout.ranks() as usize <= MAX_RANKS);
            for rank in 0..layout.ranks() {
                let home = layout.home(&window, RankId(rank)).expect("it was checked");
                prop_assert!(home.off >= free && home.off % HOME_ALIGN == 0 && home.len >= 1024);
                free = home.off + home.len;
                if let Ok(segment) = layout.segment(&window, RankId(rank)) {
                    prop_assert!(segment.off + segment.len <= home.len);
                }
            }
            prop_assert!(free <= window.len());
        }
    }
}
