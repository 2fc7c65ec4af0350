//! Threads that publish and carry in turns: what was published is carried, although nobody waits for a turn.

use std::sync::Arc;

use hamr_comm::mirror::Turns;
use hamr_shared_abi::sync::{AtomicU32, Coherent, Order, Ordering};
use loom::thread;

use crate::Model;
use crate::sleep::Unfenced;

/// How often each of two threads publishes; and what the first one does before.
type Case = ([u32; 2], First);

#[derive(Clone, Copy)]
enum First {
    Nothing,
    /// It carries as soon as it is its turn,
    Waits,
    /// or if it is.
    Polls,
}

/// What is carried of each thread.
type Carried = [u32; 2];

fn run<O: Order>((times, first): Case) {
    let words: Arc<[AtomicU32; 2]> = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let turns = Arc::new(Turns::<Carried, O>::new([0; 2]));
    let step = |words: &[AtomicU32; 2], carried: &mut Carried| {
        for (carried, word) in carried.iter_mut().zip(words) {
            *carried = word.load(Ordering::Acquire);
        }
    };
    let publish = move |me: usize, words: &[AtomicU32; 2], turns: &Turns<Carried, O>| {
        for value in 1..=times[me] {
            words[me].store(value, Ordering::Release);
            assert!(turns.carry(|carried| step(words, carried)), "two publish less often than a thread has turns");
        }
    };
    let (theirs, their_turns) = (words.clone(), turns.clone());
    let other = thread::spawn(move || publish(1, &theirs, &their_turns));
    let look = |carried: &mut Carried| step(&words, carried);
    match first {
        First::Nothing => {}
        First::Waits => assert!(turns.turn(look, look).1),
        First::Polls => assert!(turns.poll(look, look).1),
    }
    publish(0, &words, &turns);
    other.join().expect("the other thread publishes and carries");
    let (carried, _) = turns.turn(|carried| *carried, |_| ());
    assert_eq!(carried, times, "published and not carried");
}

fn cases() -> Vec<Case> {
    vec![([1, 1], First::Nothing), ([0, 2], First::Waits), ([0, 2], First::Polls)]
}

#[test]
fn what_is_published_is_carried() {
    Model::new("what_is_published_is_carried", cases(), run::<Coherent>).preempted_at_most(3).holds();
}

#[test]
fn without_the_fences_it_stays() {
    Model::new("without_the_fences_it_stays", cases(), run::<Unfenced>).breaks("published and not carried");
}
