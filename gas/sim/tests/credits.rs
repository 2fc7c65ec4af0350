//! What must hold in every run of the simulator: goals that are not met are named, and none is. Conservation is asserted
//! by the runs themselves, at every event of the lender, and at their end.

use hamr_gas_sim::{LogGP, Memory, Pattern, Setting, compare, lanes_alone, table};

/// Slots of a lane of a world: its ring and its hot slot.
const LANE: u32 = 17;

#[test]
fn the_goals_are_met_with_ten_thousand_ranks() {
    let rows = table(10_000, 100_000, 1, LogGP::default(), |_| {});
    assert_eq!(rows.len(), Pattern::ALL.len());
    for row in &rows {
        assert_eq!(row.missed(), Vec::<String>::new(), "{}", row.setting.pattern);
        let sent = [&row.infinite, &row.blocks, &row.portals].map(|outcome| outcome.messages);
        assert!(sent[0] > 0 && sent.iter().all(|&messages| messages == sent[0]), "{sent:?}");
    }
}

#[test]
fn one_seed_gives_one_table() {
    let text = |seed| {
        let rows = table(1100, 20_000, seed, LogGP::default(), |_| {});
        rows.iter().map(|row| format!("{row} {row:?}\n")).collect::<String>()
    };
    let seventh = text(7);
    assert_eq!(seventh, text(7));
    assert_ne!(seventh, text(8));
}

/// Messages in memory that both map: an empty call takes 67 ns where the processors share a cache, 370 ns where they do not
/// (`docs/performance.md`), and a flood 11 ns, in the second case 22 ns, a message.
#[test]
fn lanes_alone_have_the_whole_rate_in_mapped_memory() {
    let near = LogGP { latency: 21, overhead: 6, gap: 11 };
    let far = LogGP { latency: 163, overhead: 11, gap: 22 };
    for (network, ranks) in [(near, 2), (near, 64), (far, 2), (far, 64)] {
        for pattern in Pattern::ALL {
            let setting = Setting { pattern, ranks, active: ranks, messages: 4096, seed: 1, network };
            let rate = lanes_alone(setting, LANE);
            assert!(rate >= 0.99, "{pattern}, {ranks} ranks: {rate:.3}");
        }
    }
    let setting = Setting { pattern: Pattern::OddPoll, ranks: 2, active: 2, messages: 4096, seed: 1, network: far };
    let rates = [5, 9, LANE].map(|slots| (lanes_alone(setting, slots) * 100.0).round());
    assert_eq!(rates, [45.0, 80.0, 100.0], "fewer are too few");
}

#[test]
fn a_slow_network_needs_more_than_one_block() {
    // A round trip of 40 us and 200 ns a message: 200 messages under way.
    let network = LogGP { latency: 20_000, overhead: 100, gap: 200 };
    let setting = Setting { pattern: Pattern::OddPoll, ranks: 2000, active: 2, messages: 20_000, seed: 1, network };
    let [infinite, blocks, portals] = compare(setting);
    let (blocks, portals) = (blocks.rate / infinite.rate, portals.rate / infinite.rate);
    assert!(blocks >= 0.98 && blocks > portals, "{blocks:.3} of the throughput; portals-conduit {portals:.3}");
}

#[test]
fn what_a_peer_costs_does_not_grow_with_credits() {
    for (ranks, lane) in [(64, 1088), (256, 576), (1024, 320), (4095, 192), (100_000, 192)] {
        let memory = Memory::of(ranks);
        assert_eq!(memory.lane, lane, "{ranks}");
        assert_eq!(memory.bank, 135_168);
        assert!(memory.ledger <= 64 * 24, "{}", memory.ledger);
        assert!(memory.borrower <= 256, "{}", memory.borrower);
    }
    let large = Memory::of(100_000);
    assert_eq!((large.total() / 1_000_000, large.portals() / 1_000_000), (19, 308));
}
