//! Lanes: two ranks that call each other and serve each other, and sleep whenever they find nothing (abi §13.3). No wake is lost,
//! of a request or of a reply.
//!
//! Both ends of both queue pairs are production's, as are `Notifier`, `Waiter` and `Idle`. Only the ring is used.

use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::sync::{Coherent, Order};
use loom::thread;

use crate::Model;
use crate::ends::{Caller, Server, Want, pick};
use crate::sleep::{End, Steps, Unfenced};
use crate::slots::{Pair, Shapes};

/// What a rank does when it sleeps, and behind replies.
#[derive(Clone, Copy)]
struct Way {
    calls: u32,
    steps: Steps,
    notifies_of_replies: bool,
}

const SOUND: Way = Way { calls: 1, steps: Steps::Device, notifies_of_replies: true };

/// Each rank makes its calls, one at a time, and serves those of the other.
fn lanes<W: Order, S: Order>(way: Way) {
    let pairs = [Pair::<2>::new(Shapes::SOUND), Pair::<2>::new(Shapes::SOUND)];
    let (here, there) = End::pair();
    let [a, b] = pairs.clone();
    thread::spawn(move || rank::<W, S>(there, b, a, way));
    let [a, b] = pairs;
    rank::<W, S>(here, a, b, way);
}

fn rank<W: Order, S: Order>(mut end: End, own: Pair<2>, others: Pair<2>, way: Way) {
    let mut caller = Caller::new(own, Epoch::FIRST);
    let mut server = Server::new(others, Epoch::FIRST, pick);
    let (mut sent, mut taken, mut served) = (0, 0, 0);
    while taken < way.calls || served < way.calls {
        if sent == taken && sent < way.calls {
            caller.send(sent, Want::Ring);
            sent += 1;
            end.needs_notify::<W>();
        }
        let before = served;
        end.wait::<S>(way.steps, || {
            if served < way.calls && server.serve(served) {
                served += 1;
                return true;
            }
            let has_reply = taken < sent && caller.take_oldest();
            taken += u32::from(has_reply);
            has_reply
        });
        if served != before && way.notifies_of_replies {
            end.needs_notify::<W>();
        }
    }
}

const FOR_EVER: &str = "deadlock";

#[test]
fn ranks_that_call_each_other_both_end() {
    Model::new("two ranks call each other", vec![SOUND], lanes::<Coherent, Coherent>).preempted_at_most(2).holds();
    let twice = Way { calls: 2, ..SOUND };
    Model::new("two ranks call each other twice", vec![twice], lanes::<Coherent, Coherent>)
        .preempted_at_most(1)
        .holds();
}

#[test]
fn without_a_fence_a_rank_that_calls_sleeps_for_ever() {
    Model::new("no fence behind requests and replies", vec![SOUND], lanes::<Unfenced, Coherent>).breaks(FOR_EVER);
    Model::new("no fence in the rank that sleeps", vec![SOUND], lanes::<Coherent, Unfenced>).breaks(FOR_EVER);
}

#[test]
fn a_rank_that_is_not_notified_of_its_reply_sleeps_for_ever() {
    let way = Way { notifies_of_replies: false, ..SOUND };
    Model::new("no notification of replies", vec![way], lanes::<Coherent, Coherent>).breaks(FOR_EVER);
}

#[test]
fn without_the_last_poll_a_rank_that_calls_sleeps_for_ever() {
    let way = Way { steps: Steps::NoLastPoll, ..SOUND };
    Model::new("no poll behind the odd value", vec![way], lanes::<Coherent, Coherent>).breaks(FOR_EVER);
}
