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
    assert!(table.complete(entry, EntryState::Completed), "wanted");
    let reply = &mut table.get(entry).expect("there").reply;
    (reply.hdr, reply.words[0]) = (HDR, word);
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
fn calls_without_an_entry_count_and_may_get_one() {
    let mut table = PendingTable::new(2);
    table.count();
    let entry = table.take(EntryState::Ring(1)).expect("room");
    assert_eq!((table.in_use(), table.has_room(), table.take(EntryState::Ring(2))), (2, false, None));
    let given = table.give(EntryState::Ring(0));
    assert_eq!(table.in_use(), 2, "it was counted");
    table.put_back(given);
    table.set_limit(1);
    assert!(!table.has_room(), "as many as the lower limit");
    table.put_back(entry);
    assert!(table.has_room());
    table.count();
    table.discount();
    assert_eq!(table.in_use(), 0);
}

#[test]
fn a_name_is_an_entry_or_a_number() {
    for entry in [0, 1, u32::MAX] {
        assert_eq!(Name::of_entry(entry).entry(), Some(entry));
    }
    for number in [0, 1, u64::from(u32::MAX), Name::NUMBER, u64::MAX] {
        let name = Name::of_number(number);
        assert_eq!((name.entry(), name.0 & Name::NUMBER), (None, number & Name::NUMBER));
        assert!(name.0 < 1 << Name::BITS);
    }
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
        let kept = &table.get(*entry).expect("there").reply;
        assert_eq!((kept.hdr, kept.words[0]), (HDR, u64::from(*entry) * 7));
    }
}

#[test]
fn an_abandoned_entry_is_free_when_its_reply_comes() {
    let mut table = PendingTable::new(1);
    for state in [EntryState::Ring(0), EntryState::Ticket(0)] {
        let entry = table.take(state).expect("room");
        assert!(table.abandon(entry), "in flight");
        assert_eq!((table.in_use(), table.state(entry)), (1, Some(state)), "the reply has yet to come");
        assert!(!table.complete(entry, EntryState::Completed), "discarded");
        assert_eq!(table.in_use(), 0);
    }
}

#[test]
fn an_abandoned_result_is_free_at_once() {
    let mut table = PendingTable::new(1);
    for outcome in [EntryState::Completed, EntryState::EpochEnded(EpochEnd::Lost)] {
        let entry = table.take(EntryState::Ring(0)).expect("room");
        assert!(table.complete(entry, outcome));
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
    let kept = table.get(entry).expect("there");
    (kept.reply.long, kept.reply.place, kept.ticket, kept.one_way) = (vec![1, 2], Some(1), Some(5), true);
    kept.until = Some(Instant::now());
    table.abandon(entry);
    table.complete(entry, EntryState::Completed);
    assert_eq!(table.take(EntryState::Ring(1)), Some(entry));
    let kept = table.get(entry).expect("there");
    assert!(kept.reply.long.is_empty() && kept.reply.place.is_none() && kept.ticket.is_none() && !kept.one_way);
    assert!(kept.until.is_none() && kept.uses.is_empty());
    assert!(table.complete(entry, EntryState::Completed), "not abandoned");
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
        table.get(queued).expect("there").state = EntryState::Ticket(0);
        reply(&mut table, answered, 5);
        table.complete(ended_before, EntryState::EpochEnded(EpochEnd::Lost));
        table.abandon(abandoned);
        table.get(abandoned).expect("there").uses = uses([1]);
        table.get(used).expect("there").uses = uses([2, 3]);
        let mut released = 0;
        table.end_epoch(ended, |uses| released += usize::from(!std::mem::take(uses).is_empty()));
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
