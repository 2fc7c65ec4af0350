//! Messages of programs (abi §14.2): a rank publishes requests and replies without a fence, and owes it to the others. It pays when a
//! round of its polls finds nothing, before it sleeps, and at its end. No rank sleeps for ever.
//!
//! Both ends of both lanes are production's, as are `Notifier`, `Waiter` and `Idle`; the order of steps is that of `Rank::poll_once`
//! and `Rank::rest` of `hamr-gas`.

use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::sync::{Coherent, Order};
use loom::thread;

use crate::Model;
use crate::ends::{Caller, Server, Want, pick};
use crate::sleep::{End, Steps, Unfenced};
use crate::slots::{Pair, Shapes};

#[derive(Clone, Copy)]
struct Way {
    calls: u32,
    want: Want,
    /// What is owed is paid before a sleep.
    pays: bool,
    /// And at the end. Else a rank computes then, for ever.
    ends: bool,
}

const SOUND: Way = Way { calls: 1, want: Want::Hot, pays: true, ends: true };

/// Each rank makes its calls, one at a time, and serves those of the other.
fn ranks<W: Order, S: Order>(way: Way) {
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
    let (mut sent, mut taken, mut served, mut owes) = (0, 0, 0, false);
    while taken < way.calls || served < way.calls {
        if sent == taken && sent < way.calls {
            caller.send(sent, way.want);
            sent += 1;
            end.needs_notify_relaxed();
            owes = true;
        }
        let before = served;
        let mut poll = || {
            if served < way.calls && server.serve(served) {
                served += 1;
                return true;
            }
            let is_hot = way.want == Want::Hot;
            let has_reply = taken < sent && if is_hot { caller.take_hot() } else { caller.take_oldest() };
            taken += u32::from(has_reply);
            has_reply
        };
        if !poll() {
            if owes && way.pays {
                end.needs_notify::<W>();
                owes = false;
            }
            end.wait::<S>(Steps::Device, poll);
        }
        if served != before {
            end.needs_notify_relaxed();
            owes = true;
        }
    }
    if owes && way.ends {
        end.needs_notify::<W>();
    }
}

const FOR_EVER: &str = "deadlock";

#[test]
fn ranks_that_owe_a_fence_both_end() {
    let ring = Way { want: Want::Ring, ..SOUND };
    Model::new("messages, hot", vec![SOUND], ranks::<Coherent, Coherent>).preempted_at_most(2).holds();
    Model::new("messages, ring", vec![ring], ranks::<Coherent, Coherent>).preempted_at_most(1).holds();
}

#[test]
fn a_rank_that_does_not_pay_before_it_sleeps_lets_both_sleep() {
    let way = Way { pays: false, ends: false, ..SOUND };
    Model::new("nothing is paid", vec![way], ranks::<Coherent, Coherent>).breaks(FOR_EVER);
    Model::new("paid without a fence", vec![SOUND], ranks::<Unfenced, Coherent>).breaks(FOR_EVER);
    Model::new("no fence in the rank that sleeps", vec![SOUND], ranks::<Coherent, Unfenced>).breaks(FOR_EVER);
}

/// That is why no wait of a rank is longer than 20 ms.
#[test]
fn a_rank_that_computes_behind_a_message_may_leave_it_with_a_sleeper() {
    let way = Way { ends: false, ..SOUND };
    Model::new("not paid at the end", vec![way], ranks::<Coherent, Coherent>).breaks(FOR_EVER);
}
