//! Each end alone, against a peer that is late, wrong or hostile.

use super::{Arrival, Class, MOST_READS, Path, Psn, Reply, Requester, Responder, rnr_delay};
use crate::packet::{MASK, Reth, Syndrome};
use hamr_verbs::wire::WcStatus;

const PATH: Path = Path { mtu: 256, timeout: 14, retry: 2, rnr_retry: 1, rnr_timer: 12 };
const WAIT: u64 = 4096 << 14;
/// The number of the first packet: they wrap.
const FIRST: Psn = Psn::new(MASK - 1);

/// One with a message of so many packets.
fn asking(class: Class, packets: u64) -> Requester<u32> {
    let mut requester = Requester::new(PATH, FIRST);
    assert!(requester.admit(1, class, packets * 256));
    requester
}

/// Sends all that it may: numbers, from the first on.
fn send(requester: &mut Requester<u32>, now: u64) -> Vec<i32> {
    std::iter::from_fn(|| requester.next(now)).map(|segment| segment.psn.since(FIRST)).collect()
}

#[test]
fn a_requester_sends_a_window_and_asks_within_it() {
    let mut requester = asking(Class::Data, 300);
    let segments: Vec<_> = std::iter::from_fn(|| requester.next(0)).collect();
    assert_eq!(segments.len(), 128);
    let asked: Vec<usize> =
        segments.iter().enumerate().filter(|(_, segment)| segment.wants_acknowledge).map(|(at, _)| at).collect();
    assert_eq!(asked, [31, 63, 95, 127]);
    assert!(segments.iter().enumerate().all(|(at, segment)| segment.at == 256 * at as u64 && segment.length == 256));
    assert!(segments.iter().enumerate().all(|(at, segment)| segment.is_first == (at == 0) && !segment.is_last));
    assert_eq!(requester.acknowledge(1, FIRST.plus(31), Syndrome::ACK), Ok(()));
    assert_eq!(send(&mut requester, 1), (128..160).collect::<Vec<_>>());
    assert_eq!((requester.pop_done(), requester.timer()), (None, Some(1 + WAIT)));
    requester.acknowledge(2, FIRST.plus(159), Syndrome::ACK).expect("it was sent");
    assert_eq!(send(&mut requester, 2).len(), 128);
    requester.acknowledge(3, FIRST.plus(287), Syndrome::ACK).expect("it was sent");
    assert_eq!(requester.next(3).map(|segment| segment.is_last), Some(false));
    assert_eq!(send(&mut requester, 3).len(), 11);
    requester.acknowledge(4, FIRST.plus(299), Syndrome::ACK).expect("it was sent");
    assert_eq!((requester.pop_done(), requester.timer(), requester.is_empty()), (Some(1), None, true));
}

#[test]
fn a_requester_goes_back_once_in_a_round_trip() {
    let mut requester = asking(Class::Data, 10);
    assert_eq!(send(&mut requester, 0).len(), 10);
    let nak = |requester: &mut Requester<u32>, at| requester.acknowledge(1, FIRST.plus(at), Syndrome::NAK_SEQUENCE);
    nak(&mut requester, 4).expect("it was sent");
    assert_eq!(send(&mut requester, 1), [4, 5, 6, 7, 8, 9]);
    // The same again, late, from before, and of what was not sent.
    for at in [4, 4, 2, 10, 11, 1 << 23] {
        nak(&mut requester, at).expect("it is nothing");
        assert!(send(&mut requester, 1).is_empty(), "{at}");
    }
    nak(&mut requester, 7).expect("it was sent");
    assert_eq!(send(&mut requester, 1), [7, 8, 9]);
    for at in [10, 500, (1 << 23) + 9] {
        requester.acknowledge(1, FIRST.plus(at), Syndrome::ACK).expect("it is nothing");
        assert_eq!(requester.pop_done(), None, "{at}");
    }
    // An acknowledgement of all is one of what is sent again, too.
    requester.expire(1 + WAIT).expect("once more");
    requester.acknowledge(2, FIRST.plus(9), Syndrome::ACK).expect("it was sent");
    assert_eq!((send(&mut requester, 2), requester.pop_done()), (vec![], Some(1)));
}

#[test]
fn a_requester_gives_up_behind_its_retries() {
    let mut requester = asking(Class::Data, 2);
    send(&mut requester, 0);
    for again in 1..=2 {
        assert_eq!(requester.expire(again * WAIT - 1), Ok(()));
        assert!(send(&mut requester, again * WAIT - 1).is_empty());
        assert_eq!(requester.expire(again * WAIT), Ok(()));
        assert_eq!(send(&mut requester, again * WAIT), [0, 1]);
    }
    assert_eq!(requester.expire(3 * WAIT), Err(WcStatus::RETRY_EXC_ERR));
    // Progress counts from the beginning.
    let mut requester = asking(Class::Data, 100);
    for packet in 0..99 {
        send(&mut requester, packet * WAIT);
        requester.expire((packet + 1) * WAIT).expect("it goes on");
        requester.acknowledge((packet + 1) * WAIT, FIRST.plus(packet as u32), Syndrome::ACK).expect("it was sent");
    }
}

#[test]
fn a_requester_waits_for_a_receive_request() {
    let mut requester = asking(Class::Data, 3);
    send(&mut requester, 0);
    let nak = Syndrome(Syndrome::RNR_NAK.0 | 12);
    let delay = 640_000;
    assert_eq!((rnr_delay(12), rnr_delay(0), rnr_delay(31)), (delay, 655_360_000, 491_520_000));
    requester.acknowledge(5, FIRST.plus(1), nak).expect("once");
    // Twice is once.
    requester.acknowledge(6, FIRST.plus(1), nak).expect("once");
    assert_eq!((send(&mut requester, 4 + delay), requester.timer()), (vec![], Some(5 + delay)));
    assert_eq!((requester.expire(u64::MAX), send(&mut requester, 5 + delay)), (Ok(()), vec![1, 2]));
    assert_eq!(requester.acknowledge(9, FIRST.plus(1), nak), Err(WcStatus::RNR_RETRY_EXC_ERR));
    let refused = |syndrome| {
        let mut requester = asking(Class::Data, 3);
        send(&mut requester, 0);
        requester.acknowledge(1, FIRST, Syndrome(syndrome))
    };
    assert_eq!(refused(0x61), Err(WcStatus::REM_INV_REQ_ERR));
    assert_eq!(refused(0x62), Err(WcStatus::REM_ACCESS_ERR));
    assert_eq!(refused(0x63), Err(WcStatus::REM_OP_ERR));
    assert!((0x64..=0xFF).all(|unknown| refused(unknown) == Ok(())));
}

#[test]
fn an_answer_goes_on_where_it_was_lost() {
    let mut requester = asking(Class::Data, 1);
    assert!(requester.admit(2, Class::Read, 600) && requester.admit(3, Class::Atomic, 8));
    assert_eq!(send(&mut requester, 0), [0, 1, 4]);
    let mut answer = |psn, class, bytes, is_last| {
        let at = requester.answer(1, FIRST.plus(psn), class, bytes, is_last);
        let done: Vec<u32> = std::iter::from_fn(|| requester.pop_done()).collect();
        if at.is_some() {
            requester.answered(1);
        }
        let sent: Vec<(i32, u64, u64)> = std::iter::from_fn(|| requester.next(1))
            .map(|segment| (segment.psn.since(FIRST), segment.at, segment.length))
            .collect();
        (at, done, sent, std::iter::from_fn(|| requester.pop_done()).collect::<Vec<u32>>())
    };
    // Its first packet says that what was asked for before is done.
    assert_eq!(answer(1, Class::Read, 256, false), (Some(0), vec![1], vec![], vec![]));
    // The second one is lost.
    assert_eq!(answer(3, Class::Read, 88, true), (None, vec![], vec![(2, 256, 344), (4, 0, 8)], vec![]));
    assert_eq!(answer(4, Class::Atomic, 8, true), (None, vec![], vec![], vec![]));
    // Others than that one, and what it may not be.
    for (psn, class, bytes, is_last) in [
        (1, Class::Read, 256, false),
        (2, Class::Atomic, 8, true),
        (2, Class::Read, 255, false),
        (2, Class::Read, 256, true),
        (5, Class::Read, 256, false),
        (1 << 23, Class::Read, 256, false),
    ] {
        assert_eq!(answer(psn, class, bytes, is_last), (None, vec![], vec![], vec![]), "{psn}");
    }
    assert_eq!(answer(2, Class::Read, 256, false), (Some(256), vec![], vec![], vec![]));
    assert_eq!(answer(3, Class::Read, 88, true), (Some(512), vec![], vec![], vec![2]));
    assert_eq!(answer(4, Class::Atomic, 8, true), (Some(0), vec![], vec![], vec![3]));
}

#[test]
fn a_requester_has_so_many_questions_and_no_longer_ones() {
    let mut requester = Requester::new(PATH, FIRST);
    (0..20).for_each(|id| assert!(requester.admit(id, Class::Read, 1)));
    assert_eq!(send(&mut requester, 0).len(), MOST_READS);
    assert_eq!(requester.answer(0, FIRST, Class::Read, 1, true), Some(0));
    requester.answered(0);
    assert_eq!((requester.pop_done(), send(&mut requester, 0)), (Some(0), vec![16]));
    // An acknowledgement of the last one shows that the answers to those before it are lost.
    requester.acknowledge(0, FIRST.plus(16), Syndrome::ACK).expect("it was sent");
    assert_eq!(send(&mut requester, 0), (1..17).collect::<Vec<_>>());
    assert!(requester.admit(9, Class::Data, 256 << 22) && !requester.admit(9, Class::Data, (256 << 22) + 1));
}

/// What waits to be sent.
fn replies(responder: &mut Responder) -> Vec<Reply> {
    std::iter::from_fn(|| responder.pop()).collect()
}

#[test]
fn a_responder_says_once_what_it_misses() {
    let mut responder = Responder::new(PATH, FIRST);
    let told = |psn: u32, syndrome| vec![Reply::Acknowledge { psn: FIRST.plus(psn), syndrome }];
    assert_eq!(responder.arrive(FIRST), Arrival::New);
    responder.taken(false, false);
    assert_eq!(replies(&mut responder), []);
    for ahead in [2, 3, 9, (1 << 23) - 1] {
        assert_eq!(responder.arrive(FIRST.plus(ahead)), Arrival::Ignored);
    }
    assert_eq!(replies(&mut responder), told(1, Syndrome::NAK_SEQUENCE));
    assert_eq!((responder.arrive(FIRST), responder.arrive(FIRST.plus(1))), (Arrival::Duplicate, Arrival::New));
    responder.duplicate();
    responder.not_ready();
    // What comes behind is not expected.
    assert_eq!(responder.arrive(FIRST.plus(2)), Arrival::Ignored);
    assert_eq!(replies(&mut responder), told(1, Syndrome(0x20 | 12)));
    assert_eq!(responder.arrive(FIRST.plus(1)), Arrival::New);
    responder.taken(true, true);
    responder.taken(true, true);
    assert_eq!((replies(&mut responder), responder.msn()), (told(2, Syndrome::ACK), 2));
    // A refusal is said to each.
    responder.refuse(FIRST.plus(3), Syndrome::NAK_ACCESS);
    for psn in [3, 3, 4] {
        assert_eq!(responder.arrive(FIRST.plus(psn)), Arrival::Ignored);
        assert_eq!(replies(&mut responder), told(3, Syndrome::NAK_ACCESS));
    }
    assert_eq!(responder.arrive(FIRST.plus(2)), Arrival::Duplicate);
}

#[test]
fn a_responder_does_no_atomic_twice() {
    let mut responder = Responder::new(PATH, FIRST);
    (0..20).for_each(|value| {
        responder.atomic(value);
        responder.pop();
    });
    // It knows the last ones.
    for psn in (0..20).rev() {
        assert_eq!(responder.arrive(FIRST.plus(psn)), Arrival::Duplicate);
        (0..2).for_each(|_| responder.duplicate_atomic(FIRST.plus(psn)));
        let kept = psn >= 20 - MOST_READS as u32;
        let expected = kept.then_some(Reply::Atomic { psn: FIRST.plus(psn), original: psn.into() });
        assert_eq!(replies(&mut responder), Vec::from_iter(expected));
    }
}

/// Of 2^24 packets two have a number.
#[test]
fn an_atomic_that_comes_again_is_the_last_one_of_its_number() {
    let mut responder = Responder::new(PATH, FIRST);
    responder.atomic(1);
    (0..MASK).for_each(|_| responder.taken(true, false));
    assert_eq!(responder.arrive(FIRST), Arrival::New);
    responder.atomic(2);
    replies(&mut responder);
    responder.duplicate_atomic(FIRST);
    assert_eq!(replies(&mut responder), [Reply::Atomic { psn: FIRST, original: 2 }]);
}

/// A network may repeat a packet.
#[test]
fn a_read_that_comes_again_before_its_answer_changes_nothing() {
    let mut responder = Responder::new(PATH, FIRST);
    let range = |length| Reth { addr: 0, rkey: 0, length };
    responder.read(range(600));
    responder.atomic(7);
    responder.duplicate_read(FIRST, range(600));
    let read = Reply::Read { psn: FIRST, range: range(600), is_first: true, is_repeat: false };
    assert_eq!(replies(&mut responder), [read, Reply::Atomic { psn: FIRST.plus(3), original: 7 }]);
}

#[test]
fn a_responder_keeps_a_bounded_queue() {
    let range = |length| Reth { addr: 0, rkey: 0, length };
    let mut responder = Responder::new(PATH, FIRST);
    let end = 6 * MOST_READS as u32;
    (0..end).step_by(3).for_each(|_| responder.read(range(600)));
    // A peer that asks for more than it may wait for has the oldest answers.
    let waiting = replies(&mut responder);
    let first = Reply::Read { psn: FIRST.plus(end / 2), range: range(600), is_first: true, is_repeat: false };
    assert_eq!((waiting.len(), waiting.first()), (MOST_READS, Some(&first)));
    let mut responder = Responder::new(PATH, FIRST);
    let end = 3 * MOST_READS as u32;
    (0..end).step_by(3).for_each(|_| responder.read(range(600)));
    assert_eq!(responder.arrive(FIRST.plus(end)), Arrival::New);
    (0..1000).for_each(|psn| responder.duplicate_atomic(FIRST.plus(psn)));
    // One that comes again takes the place of what is behind it, and reads nothing that was not asked for.
    responder.duplicate_read(FIRST.plus(4), range(344));
    responder.duplicate_read(FIRST.plus(end - 1), range(257));
    responder.duplicate_read(FIRST.plus(0), range(u32::MAX));
    let waiting = replies(&mut responder);
    let again = Reply::Read { psn: FIRST.plus(4), range: range(344), is_first: true, is_repeat: true };
    assert_eq!((waiting.len(), waiting.last()), (3, Some(&again)));
    (0..1000).for_each(|n| {
        responder.arrive(FIRST.plus(end + 1 + n));
        responder.duplicate();
    });
    assert!(replies(&mut responder).len() <= 2 * MOST_READS + 2);
}
