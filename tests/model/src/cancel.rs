//! Cancelling a call while it may be running (rule 17): one outcome, and no other call touched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hamr_comm::am::{SlotAccess, Slots};
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::slot::ReqHdr;
use loom::thread::{self, yield_now};

use crate::Model;
use crate::ends::{CANCELLED, Caller, Server, Want, all_orders, pick, request_hdr};
use crate::slots::{Pair, Shape, Shapes};
use Want::Hot;

/// When the caller sets the bit of message 0, counted in messages sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    /// Right after sending it.
    AtOnce,
    /// With another call behind it.
    BehindNext,
    /// After its reply was taken and its line used again: wrong.
    AfterReuse,
}

/// Some calls, the first of which is cancelled.
#[derive(Clone)]
struct Case {
    first: Want,
    rest: Vec<Want>,
    when: When,
    shapes: Shapes,
    /// The handler looks for the bit once more while it runs, and stops.
    asks: bool,
    /// The outcomes of message 0 over all executions: bit 0 cancelled, bit 1 run.
    seen: Arc<AtomicU32>,
}

impl Case {
    fn run(self) {
        let pair = Pair::<2>::new(self.shapes);
        // What ran, as the model's own note: the standard library's atomic, which the checker does not interleave.
        let ran = Arc::new(AtomicU32::new(0));
        let mut server = Server::new(pair.clone(), Epoch::FIRST, pick);
        let note = ran.clone();
        let (asks, calls) = (self.asks, 1 + self.rest.len() as u32);
        thread::spawn(move || {
            for k in 0..calls {
                while !serve(&mut server, k, asks, &note) {
                    yield_now();
                }
            }
            server.expect_nothing();
        });
        let mut caller = Caller::new(pair, Epoch::FIRST);
        caller.cancelled = Some(0);
        caller.send(0, self.first);
        if self.when == When::AtOnce {
            self.cancel(&caller);
        }
        for (k, want) in (1..).zip(&self.rest) {
            if self.when == When::AfterReuse {
                caller.drain();
            }
            caller.send(k, *want);
            // The line is message 0's as long as its reply was not taken.
            if self.when == When::AfterReuse || self.when == When::BehindNext && caller.ended.is_empty() {
                self.cancel(&caller);
            }
        }
        caller.drain();
        let ran = ran.load(Ordering::Relaxed);
        self.seen.fetch_or(1 << (ran & 1), Ordering::Relaxed);
        for k in 0..calls {
            let mut ends = caller.ended.iter().filter(|(of, _)| *of == k);
            let (Some((_, said)), None) = (ends.next(), ends.next()) else { panic!("message {k} ended not once") };
            assert!(*said == (ran >> k & 1 == 1), "message {k} was run and answered Cancelled, or the reverse");
        }
    }

    fn cancel(&self, caller: &Caller<2>) {
        let slots = caller.end.slots();
        let line = if self.first == Hot { slots.hot() } else { slots.ring(0) };
        line.set_req_hdr(request_hdr(0).with(ReqHdr::CANCEL).0);
    }
}

fn serve(server: &mut Server<2>, k: u32, asks: bool, ran: &AtomicU32) -> bool {
    let may_change = if k == 0 { ReqHdr::CANCEL } else { 0 };
    let Some((found, hdr)) = server.receive(k, may_change) else { return false };
    let line = server.end().slot(found.slot);
    if hdr.has(ReqHdr::CANCEL) || asks && ReqHdr(line.req_hdr()).has(ReqHdr::CANCEL) {
        line.publish_reply(CANCELLED.0, found.seq);
        return true;
    }
    ran.fetch_or(1 << k, Ordering::Relaxed);
    server.reply(k, found);
    true
}

fn cases(when: When, shapes: Shapes, rest: usize, seen: &Arc<AtomicU32>) -> Vec<Case> {
    let mut cases = Vec::new();
    for asks in [false, true] {
        for mut rest in all_orders(1 + rest) {
            let first = rest.remove(0);
            cases.push(Case { first, rest, when, shapes, asks, seen: seen.clone() });
        }
    }
    cases
}

fn holds(name: &'static str, shapes: Shapes, rest: usize, preemptions: Option<usize>) {
    for when in [When::AtOnce, When::BehindNext] {
        let seen = Arc::new(AtomicU32::new(0));
        Model { preemptions, ..Model::new(name, cases(when, shapes, rest, &seen), Case::run) }.holds();
        assert_eq!(seen.load(Ordering::Relaxed), 0b11, "{name}: one outcome never came, {when:?}");
    }
}

#[test]
fn a_cancelled_call_ends_once() {
    holds("cancel, 2 messages", Shapes::SOUND, 1, None);
    holds("cancel apart", Shapes::APART, 1, None);
}

#[test]
fn a_cancelled_call_ends_once_among_others() {
    holds("cancel, 3 messages", Shapes::SOUND, 2, Some(3));
}

#[test]
fn cancelling_a_line_used_again_hits_another_call() {
    let cases = cases(When::AfterReuse, Shapes::SOUND, 1, &Arc::default());
    Model::new("cancel after reuse", cases, Case::run).breaks("torn request");
}

/// The responder may find the message by this store alone.
#[test]
fn cancelling_without_release_tears() {
    let shapes = Shapes { req: Shape::RelaxedCancel, ..Shapes::SOUND };
    let cases = cases(When::AtOnce, shapes, 1, &Arc::default());
    Model::new("relaxed cancel", cases, Case::run).breaks("torn request");
}
