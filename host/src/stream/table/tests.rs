//! The pending table by itself: no device, no window.

use super::*;
use crate::memory::Block;
use std::collections::BTreeSet;

const HDR: RepHdr = RepHdr(0x0008_0001);

fn uses(records: impl IntoIterator<Item = u32>) -> Uses {
    let mut uses = Uses::of(3);
    records.into_iter().for_each(|record| uses.push(record));
    uses
}

/// Completes an entry's call with a reply of one word.
fn reply(table: &mut PendingTable, entry: u32, word: u64) {
    let kept = table.complete(entry, EntryState::Completed).expect("wanted");
    (kept.hdr, kept.words[0]) = (HDR, word);
}

#[test]
fn entries_are_taken_up_to_the_limit_and_again_when_put_back() {
    let mut table = PendingTable::new(3);
    let taken: Vec<_> = (0..3).filter_map(|x| table.take(EntryState::Ring(x))).collect();
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), 3, "each another: {taken:?}");
    assert_eq!((table.in_use(), table.take(EntryState::Ring(3))), (3, None));
    table.put_back(taken[1]);
    assert_eq!((table.in_use(), table.take(EntryState::Ring(4))), (2, Some(taken[1])));
    assert_eq!(table.state(taken[1]), Some(EntryState::Ring(4)));
    assert_eq!((table.in_use(), table.take(EntryState::Ring(5))), (3, None));
}

#[test]
fn entries_are_taken_in_any_order_of_putting_back() {
    let mut table = PendingTable::new(100);
    for round in 0..20_u32 {
        let taken: Vec<_> = (0..100).filter_map(|x| table.take(EntryState::Ring(x))).collect();
        assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), 100);
        (0..100).for_each(|k| table.put_back(taken[((k * 37 + round) % 100) as usize]));
        assert_eq!(table.in_use(), 0);
    }
}

#[test]
fn a_table_without_room_takes_nothing() {
    assert_eq!(PendingTable::new(0).take(EntryState::Ring(0)), None);
}

#[test]
fn every_state_survives_its_packing() {
    let mut table = PendingTable::new(1);
    let entry = table.take(EntryState::Ring(0)).expect("room");
    for state in [
        EntryState::Ring(0),
        EntryState::Ring((1 << KIND) - 1),
        EntryState::Ticket(u32::MAX),
        EntryState::Completed,
        EntryState::EpochEnded(EpochEnd::Lost),
        EntryState::EpochEnded(EpochEnd::Reset),
        EntryState::Free(NONE),
    ] {
        table.get(entry).expect("there").set_state(state);
        assert_eq!(table.state(entry), Some(state));
    }
    assert_eq!(table.state(entry + 1), None);
}

#[test]
fn a_reply_stays_with_its_entry() {
    let mut table = PendingTable::new(8);
    let taken: Vec<_> = (0..8).filter_map(|x| table.take(EntryState::Ring(x))).collect();
    for entry in taken.iter().rev() {
        reply(&mut table, *entry, u64::from(*entry) * 7);
    }
    for entry in &taken {
        assert_eq!(table.state(*entry), Some(EntryState::Completed));
        let kept = table.get(*entry).expect("there");
        assert_eq!((kept.hdr, kept.words[0]), (HDR, u64::from(*entry) * 7));
    }
}

#[test]
fn a_queued_call_goes_on_in_its_ticket_slot() {
    let mut table = PendingTable::new(1);
    let entry = table.take(EntryState::Ring(9)).expect("room");
    table.cold_or_new(entry).expect("there").ticket = Some(2);
    table.go_on_in_ticket_slot(entry, 2);
    assert_eq!(table.state(entry), Some(EntryState::Ticket(2)));
    reply(&mut table, entry, 1);
    assert_eq!(table.state(entry), Some(EntryState::Completed));
}

#[test]
fn an_abandoned_entry_is_free_when_its_reply_comes() {
    let mut table = PendingTable::new(1);
    for state in [EntryState::Ring(0), EntryState::Ticket(0)] {
        let entry = table.take(state).expect("room");
        assert!(table.abandon(entry) && table.is_abandoned(entry), "in flight");
        assert_eq!((table.in_use(), table.state(entry)), (1, Some(state)), "the reply has yet to come");
        assert!(table.complete(entry, EntryState::Completed).is_none(), "discarded");
        assert_eq!(table.in_use(), 0);
        assert!(!table.is_abandoned(entry));
    }
}

#[test]
fn an_abandoned_result_is_free_at_once() {
    let mut table = PendingTable::new(1);
    for outcome in [EntryState::Completed, EntryState::EpochEnded(EpochEnd::Lost)] {
        let entry = table.take(EntryState::Ring(0)).expect("room");
        assert!(table.complete(entry, outcome).is_some());
        assert!(!table.abandon(entry));
        assert_eq!(table.in_use(), 0);
        assert!(!table.abandon(entry), "free already");
        assert_eq!(table.in_use(), 0);
    }
}

#[test]
fn the_next_call_of_an_entry_inherits_nothing() {
    let mut table = PendingTable::new(1);
    let entry = table.take(EntryState::Ring(0)).expect("room");
    let cold = table.cold_or_new(entry).expect("there");
    (cold.long, cold.ticket, cold.one_way) = (vec![1, 2], Some(5), true);
    table.abandon(entry);
    table.complete(entry, EntryState::Completed);
    assert_eq!(table.take(EntryState::Ring(1)), Some(entry));
    assert!(table.cold(entry).is_none() && !table.is_abandoned(entry));
    let cold = table.cold_or_new(entry).expect("there");
    assert!(cold.long.is_empty() && cold.ticket.is_none() && !cold.one_way && cold.uses.is_empty());
}

#[test]
fn cold_parts_are_used_again() {
    let mut table = PendingTable::new(4);
    for _ in 0..10 {
        let taken: Vec<_> = (0..4).filter_map(|x| table.take(EntryState::Ring(x))).collect();
        taken.iter().for_each(|entry| table.cold_or_new(*entry).expect("there").ticket = Some(*entry));
        assert!(taken.iter().all(|entry| table.cold(*entry).is_some_and(|cold| cold.ticket == Some(*entry))));
        taken.iter().for_each(|entry| table.put_back(*entry));
    }
    assert_eq!((table.cold_parts.len(), table.free_cold.len()), (4, 4));
}

#[test]
fn uses_are_handed_out_once() {
    let mut table = PendingTable::new(2);
    let entry = table.take(EntryState::Ring(0)).expect("room");
    assert!(table.take_uses(entry).is_empty(), "a call without a cold part");
    table.restore_uses(entry, Uses::default());
    assert!(table.cold(entry).is_none(), "nothing to restore makes no cold part");
    table.cold_or_new(entry).expect("there").uses = uses(0..6);
    let taken = table.take_uses(entry);
    assert!(!taken.is_empty() && table.take_uses(entry).is_empty());
    table.restore_uses(entry, taken);
    assert!(!table.take_uses(entry).is_empty());
}

#[test]
fn a_block_alone_is_a_use() {
    let mut uses = Uses::of(1);
    assert!(uses.is_empty() && uses.reply_block().is_none());
    uses.blocks[1] = Some(Block { index: 0, generation: 0, off: 64, bytes: 128 });
    assert!(!uses.is_empty());
    assert_eq!(uses.reply_block().map(|block| block.off), Some(64));
}

#[test]
fn an_epoch_s_end_gives_each_entry_one_outcome() {
    for ended in [EpochEnd::Lost, EpochEnd::Reset] {
        let mut table = PendingTable::new(8);
        let taken: Vec<_> = (0..6).filter_map(|x| table.take(EntryState::Ring(x))).collect();
        let [in_ring, queued, answered, ended_before, abandoned, used] = taken[..] else { panic!("six") };
        table.go_on_in_ticket_slot(queued, 0);
        reply(&mut table, answered, 5);
        table.complete(ended_before, EntryState::EpochEnded(EpochEnd::Lost));
        table.abandon(abandoned);
        table.cold_or_new(abandoned).expect("there").uses = uses([1]);
        table.cold_or_new(used).expect("there").uses = uses([2, 3]);
        let mut released = 0;
        table.end_epoch(ended, |uses| released += usize::from(!uses.is_empty()));
        assert_eq!(released, 2, "each use once");
        for entry in [in_ring, queued, used] {
            assert_eq!(table.state(entry), Some(EntryState::EpochEnded(ended)));
        }
        assert_eq!(table.state(answered), Some(EntryState::Completed), "a reply counts");
        assert_eq!(table.state(ended_before), Some(EntryState::EpochEnded(EpochEnd::Lost)), "the first end counts");
        assert_eq!(table.in_use(), 5, "the abandoned entry is free");
        // A second end changes nothing.
        table.end_epoch(EpochEnd::Reset, |uses| assert!(uses.is_empty()));
        let states: Vec<_> = taken.iter().map(|entry| table.state(*entry)).collect();
        assert_eq!(states[0], Some(EntryState::EpochEnded(ended)));
        assert_eq!(states[2], Some(EntryState::Completed));
        taken.iter().filter(|entry| **entry != abandoned).for_each(|entry| table.put_back(*entry));
        assert_eq!(table.in_use(), 0);
    }
}
