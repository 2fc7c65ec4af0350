//! Replies that break abi §4.3 are no values. The test replies in the device's place.

use super::small;
use hamr::{CallError, Node, Options};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::{COUNT_BITS, INLINE_WORDS, RepHdr, seq};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{Queue, Shared};
use hamr_comm::am::{SlotAccess, Slots};
use hamr_kernels::bench::{empty, sum_4};
use hamr_kernels::faults::{background, echo_many};
use hamr_tests::threaded::{Card, layout};

/// A host, and the queue pair of its first stream.
fn replaced(options: Options) -> (Card, Node, Queue<Shared>) {
    let mut card = Card::new(&options, false);
    let node = card.attach("card", options.clone());
    let queue = card.replace_device(&options, 1);
    (card, node, queue)
}

/// The published word of the `round`th message in a slot, counted from 1.
fn word(round: u32) -> u32 {
    seq(Epoch::FIRST.tag(), round, COUNT_BITS)
}

fn taken() -> RepHdr {
    RepHdr::inline(Status::TAKEN, 0).with(RepHdr::TAKEN)
}

#[test]
fn replies_that_break_the_rules_are_corrupt() {
    let (_card, node, queue) = replaced(Options { ring: 32, ..small() });
    let stream = node.stream().expect("free");
    let ok = RepHdr::inline(Status::OK, 0).0;
    let mut wrong = Vec::new();
    let mut x = 0;
    let mut give = |what: &str, hdr: u32, words: [u64; INLINE_WORDS]| {
        let pending = stream.offload(empty::with()).expect("sent");
        let line = queue.ring(x);
        x += 1;
        line.write_reply(&words);
        line.publish_reply(hdr, word(1));
        match pending.wait() {
            Err(CallError::Corrupt(..)) => {}
            other => wrong.push(format!("{what}: {other:?}")),
        }
    };
    let none = [0; INLINE_WORDS];
    let (chunk, buffer, descriptor) = (1 << 22, 2 << 22, 16 << 16);
    give("location 3", ok | 3 << 22, none);
    give("a chunk with len 0", ok | chunk, none);
    give("a chunk of no bytes", ok | chunk | descriptor, none);
    give("a chunk with another offset", ok | chunk | descriptor, [64, 8, 0, 0, 0, 0]);
    give("a chunk longer than it is", ok | chunk | descriptor, [0, 1 << 40, 0, 0, 0, 0]);
    give("a buffer that was not offered", ok | buffer, none);
    give("a buffer that was not offered, described", ok | buffer | descriptor, [0, 8, 0, 0, 0, 0]);
    give("longer than the slot", ok | 49 << 16, none);
    give("AM_REPLY", ok | RepHdr::AM_REPLY, none);
    for bit in 27..32 {
        give(&format!("reserved bit {bit}"), ok | 1 << bit, none);
    }
    give("TAKEN without a ticket", taken().0, none);
    give("TAKEN with a value", ok | RepHdr::TAKEN, none);
    assert!(wrong.is_empty(), "taken for something else: {wrong:#?}");
}

/// In the hot slot, and with a value of the expected length.
#[test]
fn replies_that_break_the_rules_are_corrupt_in_the_hot_slot() {
    let (_card, node, queue) = replaced(small());
    let stream = node.stream().expect("free");
    for (round, bits) in (1..).zip([RepHdr::TAKEN, RepHdr::AM_REPLY, 1 << 31, 3 << 22]) {
        let started = stream.start(sum_4::with(1, 2, 3, 4)).expect("sent");
        queue.hot().write_reply(&[77]);
        queue.hot().publish_reply(RepHdr::inline(Status::OK, 8).0 | bits, word(round));
        let outcome = started.wait();
        assert!(matches!(outcome, Err(CallError::Corrupt(..))), "{bits:#x}: {outcome:?}");
    }
}

/// A queued call's first reply is TAKEN alone.
#[test]
fn a_taken_call_with_other_bits_is_corrupt() {
    let (_card, node, queue) = replaced(small());
    let stream = node.stream().expect("free");
    for (x, bits) in (0..).zip([RepHdr::AM_REPLY, 1 << 30, RepHdr::FAULT, 8 << 16]) {
        let pending = stream.offload(background::with(1)).expect("sent");
        queue.ring(x).publish_reply(taken().0 | bits, word(1));
        let outcome = pending.wait();
        assert!(matches!(outcome, Err(CallError::Corrupt(..))), "{bits:#x}: {outcome:?}");
    }
}

/// Abi §4.1: the word of a ticket slot counts the uses of its ticket. A call that is refused in its
/// ring slot is no use of it: nothing is written into the ticket slot, and otherwise, after 2^24
/// such calls, an old reply there would look like a new one.
#[test]
fn a_refused_call_is_no_use_of_its_ticket() {
    let (_card, node, queue) = replaced(Options { tickets: 1, ring: 2, ..small() });
    let stream = node.stream().expect("free");
    let answer = |x: u32, hdr: RepHdr| queue.ring(x).publish_reply(hdr.0, word((x >> 1) + 1));
    let ticket_word = |x: u32| {
        let mut words = [0; INLINE_WORDS];
        queue.ring(x).read_request(&mut words);
        (words[0] >> 32) as u32
    };
    let side = queue.ticket_slot(0).expect("one ticket");
    let first = stream.offload(background::with(37)).expect("sent");
    assert_eq!(ticket_word(0), word(1));
    answer(0, taken());
    side.write_reply(&[111]);
    side.publish_reply(RepHdr::inline(Status::OK, 8).0, word(1));
    assert_eq!(first.wait().expect("answered"), 111);
    for x in 1..6 {
        let refused = stream.offload(background::with(1)).expect("sent");
        assert_eq!(ticket_word(x), word(2), "behind {} refusals", x - 1);
        answer(x, RepHdr::inline(Status::QUEUE_FULL, 0));
        assert!(refused.wait().is_err());
    }
    let last = stream.offload(background::with(1)).expect("sent");
    answer(6, taken());
    assert!(!last.is_done(), "it has not run");
    side.write_reply(&[222]);
    side.publish_reply(RepHdr::inline(Status::OK, 8).0, word(2));
    assert_eq!(last.wait().expect("answered"), 222);
}

/// A host uses its own layout of queue pairs, whatever the window contains later.
#[test]
fn queue_pairs_are_where_the_host_planned_them() {
    let options = small();
    let card = Card::new(&options, false);
    let node = card.attach("card", options.clone());
    let queues = layout(&options).section(SectionKind::QUEUES).expect("planned");
    let garbage = vec![0xFF; queues.len as usize];
    card.memory().write_bytes(queues.off, &garbage).expect("there");
    let stream = node.stream().expect("its queue pair is known");
    let many = std::array::from_fn(|n| n as u64);
    assert_eq!(stream.sync(echo_many::with(many)).expect("runs"), many);
    node.ping().expect("by the control stream");
}
