//! Ranks of a world: no wake from rank to rank is lost, with several that wake one, nor is a message that was
//! announced; a barrier lets no rank pass early, nor forget one that is ahead, and a meeting of two shows each
//! what the other has told. Where words start over, none of before is taken for one behind that, nor is one lost.
//!
//! `Notifier`, `Waiter`, `Idle`, `announce`, `collect`, `disseminate`, `has_come` and the numbers are production's; words are the
//! checker's.

use std::sync::Arc;

use hamr_comm::am::Notifier;
use hamr_comm::world::{
    RankId, RankSet, SharedBits, announce, before_first, collect, disseminate, has_come, next_number,
};
use hamr_shared_abi::sync::{AtomicU32, Coherent, Order, Ordering, fence};
use hamr_shared_abi::world::InterestWord;
use loom::sync::Notify;
use loom::thread;

use crate::Model;
use crate::sleep::{End, Steps, Unfenced};

/// Two ranks signal a third, which waits for one after the other and sleeps whenever it finds nothing.
/// `W` is the signallers' fence, `S` the sleeper's.
fn wake<W: Order, S: Order>((signals, steps): (u32, Steps)) {
    let (mut sleeper, _) = End::pair();
    let words: Arc<[AtomicU32; 2]> = Arc::new(core::array::from_fn(|_| AtomicU32::new(0)));
    for rank in 0..2 {
        let (bed, words) = (sleeper.own.clone(), words.clone());
        thread::spawn(move || {
            let notifier = Notifier::new();
            for value in 1..=signals {
                words[rank].store(value, Ordering::Release);
                if notifier.needs_notify::<W>(&*bed) {
                    bed.doorbell.notify();
                }
            }
        });
    }
    for word in &*words {
        sleeper.wait::<S>(steps, || word.load(Ordering::Acquire) == signals);
    }
}

const FOR_EVER: &str = "deadlock";

#[test]
fn no_rank_sleeps_for_ever() {
    Model::new("two ranks wake one, 1 signal each", vec![(1, Steps::Device)], wake::<Coherent, Coherent>)
        .preempted_at_most(3)
        .holds();
    Model::new("two ranks wake one, 2 signals each", vec![(2, Steps::Device)], wake::<Coherent, Coherent>)
        .preempted_at_most(2)
        .holds();
}

#[test]
fn without_a_fence_a_rank_sleeps_for_ever() {
    Model::new("no fence in the ranks that signal", vec![(1, Steps::Device)], wake::<Unfenced, Coherent>)
        .breaks(FOR_EVER);
    Model::new("no fence in the rank that sleeps", vec![(1, Steps::Device)], wake::<Coherent, Unfenced>)
        .breaks(FOR_EVER);
}

#[test]
fn without_the_last_poll_a_rank_sleeps_for_ever() {
    Model::new("no poll after the odd value", vec![(1, Steps::NoLastPoll)], wake::<Coherent, Coherent>)
        .breaks(FOR_EVER);
}

/// How two ranks announce messages to a third.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Announcing {
    Sound,
    /// Before the message is published. Wrong.
    Early,
    /// The group's bit before the rank's. Wrong.
    GroupFirst,
    /// The finder takes the rank words before the group word. Wrong.
    RanksFirst,
}

/// The words of the rank that finds, and what the others publish for it.
struct Interest {
    group: AtomicU32,
    ranks: [AtomicU32; 2],
    messages: [AtomicU32; 2],
}

impl Interest {
    fn word(&self, word: InterestWord) -> Option<&AtomicU32> {
        match word {
            InterestWord::Group(at) => (at == 0).then_some(&self.group),
            InterestWord::Ranks(at) => self.ranks.get(at as usize),
        }
    }
}

/// Two ranks publish messages for a third, which looks only where one was announced, and sleeps.
fn interest<W: Order, S: Order>((ranks, messages, way): ([u32; 2], u32, Announcing)) {
    let (mut sleeper, _) = End::pair();
    let shared = Arc::new(Interest {
        group: AtomicU32::new(0),
        ranks: core::array::from_fn(|_| AtomicU32::new(0)),
        messages: core::array::from_fn(|_| AtomicU32::new(0)),
    });
    for (at, rank) in ranks.into_iter().enumerate() {
        let (bed, shared) = (sleeper.own.clone(), shared.clone());
        thread::spawn(move || {
            let notifier = Notifier::new();
            for value in 1..=messages {
                if way == Announcing::Early {
                    announce(RankId(rank), |word| shared.word(word));
                }
                shared.messages[at].store(value, Ordering::Release);
                if way == Announcing::GroupFirst {
                    shared.group.fetch_or(1 << (rank / 32), Ordering::AcqRel);
                    shared.ranks[rank as usize / 32].fetch_or(1 << (rank % 32), Ordering::AcqRel);
                } else if way != Announcing::Early {
                    announce(RankId(rank), |word| shared.word(word));
                }
                if notifier.needs_notify::<W>(&*bed) {
                    bed.doorbell.notify();
                }
            }
        });
    }
    let (mut set, mut seen) = (RankSet::EMPTY, [0; 2]);
    sleeper.wait::<S>(Steps::Device, || {
        if way == Announcing::RanksFirst {
            if shared.group.load(Ordering::Relaxed) != 0 {
                for (at, word) in (0..).zip(&shared.ranks) {
                    set.insert_word(at, word.take_bits());
                }
                (&shared.group).take_bits();
            }
        } else {
            collect(1, |word| shared.word(word), &mut set);
        }
        for (at, rank) in ranks.into_iter().enumerate() {
            if set.next(rank) == Some(RankId(rank)) {
                set.remove(RankId(rank));
                seen[at] = shared.messages[at].load(Ordering::Acquire);
            }
        }
        seen == [messages; 2]
    });
}

#[test]
fn no_announced_message_is_lost() {
    let once = |ranks| (ranks, 1, Announcing::Sound);
    let cases = vec![once([0, 1]), once([0, 33])];
    Model::new("two ranks announce to one, 1 message each", cases, interest::<Coherent, Coherent>)
        .preempted_at_most(3)
        .holds();
    let cases = vec![([0, 1], 2, Announcing::Sound), ([0, 33], 2, Announcing::Sound)];
    Model::new("two ranks announce to one, 2 messages each", cases, interest::<Coherent, Coherent>)
        .preempted_at_most(2)
        .holds();
}

#[test]
fn a_message_that_is_announced_otherwise_is_lost() {
    for (what, way) in [
        ("announced before it is published", Announcing::Early),
        ("the group's bit before the rank's", Announcing::GroupFirst),
    ] {
        Model::new(what, vec![([0, 33], 1, way)], interest::<Coherent, Coherent>).breaks(FOR_EVER);
    }
    let cases = vec![([0, 33], 1, Announcing::RanksFirst)];
    Model::new("the rank words taken before the group word", cases, interest::<Coherent, Coherent>).breaks(FOR_EVER);
    let cases = vec![([0, 33], 1, Announcing::Sound)];
    Model::new("no fence in the ranks that announce", cases.clone(), interest::<Unfenced, Coherent>).breaks(FOR_EVER);
    Model::new("no fence in the rank that finds", cases, interest::<Coherent, Unfenced>).breaks(FOR_EVER);
}

/// How ranks take part in a barrier.
#[derive(Clone, Copy)]
struct Way {
    publish: Ordering,
    has_come: fn(u32, u32) -> bool,
    /// A rank that waits is blocked until its word changes. The checker does not come to an end with
    /// three that poll; the wake orders memory, so that order is explored with two that poll.
    blocks: bool,
}

const SOUND: Way = Way { publish: Ordering::Release, has_come, blocks: false };

/// Words of ranks and rounds, and what each rank puts before a barrier.
struct Shared {
    words: [[AtomicU32; 2]; 3],
    changed: [[Notify; 2]; 3],
    puts: [AtomicU32; 3],
}

fn barriers((ranks, count, way): (u32, u32, Way)) {
    let shared = Arc::new(Shared {
        words: core::array::from_fn(|_| core::array::from_fn(|_| AtomicU32::new(0))),
        changed: core::array::from_fn(|_| core::array::from_fn(|_| Notify::new())),
        puts: core::array::from_fn(|_| AtomicU32::new(0)),
    });
    for me in 1..ranks {
        let shared = shared.clone();
        thread::spawn(move || take_part(&shared, me, ranks, count, way));
    }
    take_part(&shared, 0, ranks, count, way);
}

fn take_part(shared: &Shared, me: u32, ranks: u32, count: u32, way: Way) {
    for number in 1..=count {
        shared.puts[me as usize].store(number, Ordering::Relaxed);
        let tell = |to: RankId, round: u32| {
            shared.words[to.0 as usize][round as usize].store(number, way.publish);
            if way.blocks {
                shared.changed[to.0 as usize][round as usize].notify();
            }
        };
        let wait = |round: u32| {
            loop {
                let word = shared.words[me as usize][round as usize].load(Ordering::Acquire);
                if (way.has_come)(word, number) {
                    return Ok::<(), ()>(());
                }
                assert!(word < number, "a rank that is ahead was forgotten");
                if way.blocks {
                    shared.changed[me as usize][round as usize].wait();
                } else {
                    thread::yield_now();
                }
            }
        };
        disseminate(RankId(me), ranks, tell, wait).expect("no wait fails");
        for put in &shared.puts[..ranks as usize] {
            assert!(put.load(Ordering::Relaxed) >= number, "a put before the barrier was not seen behind it");
        }
    }
}

#[test]
fn a_barrier_waits_for_all() {
    Model::new("barriers of 2 ranks", vec![(2, 1, SOUND), (2, 2, SOUND)], barriers).holds();
    let blocked = Way { blocks: true, ..SOUND };
    Model::new("a barrier of 3 ranks", vec![(3, 1, blocked)], barriers).preempted_at_most(1).holds();
}

#[test]
fn without_release_a_barrier_shows_old_values() {
    let way = Way { publish: Ordering::Relaxed, ..SOUND };
    Model::new("words of barriers without release", vec![(2, 1, way)], barriers).breaks("was not seen");
}

#[test]
fn a_count_that_must_be_equal_forgets_a_rank() {
    let way = Way { has_come: |word, count| word == count, ..SOUND };
    Model::new("equal counts", vec![(2, 2, way)], barriers).breaks("was forgotten");
}

/// How two nodes of a program meet (`docs/xacc.md` "Meetings"): `xacc/src/fabric.rs` by the checker's words.
#[derive(Clone, Copy)]
struct Meetings {
    /// A fence is between what a slot has and its number.
    released: bool,
    /// Slots that a node has in turn in its partner's segment.
    slots: u32,
    /// Looks at the number before the signal is waited for.
    looks: u32,
    /// Behind the looks, the partner is notified behind a fence, also where they found it.
    notified: bool,
}

const MEETINGS: Meetings = Meetings { released: true, slots: 2, looks: 1, notified: true };

/// What a node's partner writes.
struct Told {
    /// Each the number of a meeting, and what was told in it.
    slots: [[AtomicU32; 2]; 2],
    signal: AtomicU32,
}

fn meetings((count, way): (u32, Meetings)) {
    let told: Arc<[Told; 2]> = Arc::new(core::array::from_fn(|_| Told {
        slots: core::array::from_fn(|_| core::array::from_fn(|_| AtomicU32::new(0))),
        signal: AtomicU32::new(0),
    }));
    let (theirs, (end, their_end)) = (told.clone(), End::pair());
    thread::spawn(move || meet(&theirs, 1, their_end, count, way));
    meet(&told, 0, end, count, way);
}

fn meet(told: &[Told; 2], me: usize, mut end: End, count: u32, way: Meetings) {
    for meeting in 1..=count {
        let nth = (meeting % way.slots) as usize;
        let ([number, value], signal) = (&told[1 - me].slots[nth], &told[1 - me].signal);
        value.store(meeting, Ordering::Relaxed);
        if way.released {
            fence(Ordering::Release);
        }
        number.store(meeting, Ordering::Relaxed);
        signal.store(meeting, Ordering::Release);
        end.needs_notify_relaxed();

        let ([number, value], signal) = (&told[me].slots[nth], &told[me].signal);
        let has_come_soon = (0..way.looks).any(|_| number.load(Ordering::Relaxed) == meeting);
        if way.notified || !has_come_soon {
            end.needs_notify::<Coherent>();
        }
        if has_come_soon {
            fence(Ordering::Acquire);
        } else {
            end.wait::<Coherent>(Steps::Device, || has_come(signal.load(Ordering::Acquire), meeting));
        }
        assert_eq!(value.load(Ordering::Relaxed), meeting, "another meeting's value");
    }
}

#[test]
fn a_meeting_shows_what_its_partner_has_told() {
    let signal_only = Meetings { looks: 0, ..MEETINGS };
    let cases = |count| vec![(count, MEETINGS), (count, signal_only)];
    Model::new("2 meetings of 2 nodes", cases(2), meetings).preempted_at_most(2).holds();
    Model::new("3 meetings of 2 nodes", cases(3), meetings).preempted_at_most(1).holds();
}

#[test]
fn who_was_told_and_not_notified_sleeps_for_ever() {
    let way = Meetings { notified: false, ..MEETINGS };
    Model::new("no fence behind a look that finds the partner", vec![(1, way)], meetings).breaks(FOR_EVER);
}

#[test]
fn without_release_a_meeting_shows_another_value() {
    let way = Meetings { released: false, ..MEETINGS };
    Model::new("numbers of slots without release", vec![(1, way)], meetings).breaks("another meeting's value");
}

#[test]
fn one_slot_is_written_before_it_was_read() {
    let way = Meetings { slots: 1, ..MEETINGS };
    Model::new("one slot", vec![(2, way)], meetings).breaks("another meeting's value");
}

/// How words start over (`host/src/world/watch.rs`), and how the numbers say when.
#[derive(Clone, Copy)]
struct StartOver {
    /// RUN is stepped in front of the zeros.
    stepped_first: bool,
    /// A number says which run it is of; else the rank looks at RUN once more before it publishes.
    numbered: bool,
}

const START_OVER: StartOver = StartOver { stepped_first: false, numbered: true };

/// A rank enters a barrier while the words start over. Its partner has come to that of the new run.
fn start_over(way: StartOver) {
    let [run, word] = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
    let first_of = move |run| if way.numbered { next_number(before_first(run)) } else { 1 };
    let (seen, told) = (run.clone(), word.clone());
    let stray = thread::spawn(move || {
        let mine = seen.load(Ordering::Acquire);
        if way.numbered || seen.load(Ordering::Acquire) == mine {
            told.store(first_of(mine), Ordering::Release);
        }
        mine
    });
    if way.stepped_first {
        run.store(1, Ordering::Release);
    }
    word.store(0, Ordering::Relaxed);
    if !way.stepped_first {
        run.store(1, Ordering::Release);
    }
    let mine = stray.join().expect("it ends");
    let has_come = has_come(word.load(Ordering::Acquire), first_of(1));
    assert!(mine == 1 || !has_come, "a word of the run before was taken");
    assert!(mine == 0 || has_come, "a word of the new run was lost");
}

#[test]
fn a_word_counts_in_its_own_run_alone() {
    Model::new("words start over under a barrier", vec![START_OVER], start_over).holds();
}

#[test]
fn a_number_without_its_run_is_taken_for_one_of_the_next() {
    for (what, stepped_first) in [("zeros in front of RUN", false), ("RUN in front of zeros", true)] {
        let way = StartOver { numbered: false, stepped_first };
        Model::new(what, vec![way], start_over).breaks("of the run before was taken");
    }
}

#[test]
fn a_word_behind_the_step_is_lost_in_zeros_behind_it() {
    let way = StartOver { stepped_first: true, ..START_OVER };
    Model::new("RUN in front of zeros, numbered", vec![way], start_over).breaks("of the new run was lost");
}
