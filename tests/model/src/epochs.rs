//! From one epoch to the next over the same lines (rules 4, 26, 27, 28, 30).
//!
//! ```text
//! host    READY ... CLOSING --------> zero own words, OFFERED -----------------> enter, calls
//! device  serving -----------> STOPPED ---------------------> clear own, SERVING -> serving
//! ```

use std::sync::Arc;

use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::preamble::{DeviceState, HostState};
use hamr_shared_abi::sync::{AtomicU32, Ordering};
use loom::thread::{self, yield_now};

use crate::Model;
use crate::ends::{Caller, NEW, Server, Want, pick};
use crate::slots::{Pair, Shape, Shapes};
use Want::{Hot, Ring};

/// When the host zeroes the words it owns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Zero {
    Never,
    /// Before the device said that it stopped.
    Early,
    AfterStop,
}

/// A change of epoch with calls outstanding.
#[derive(Clone)]
struct Change {
    shapes: Shapes,
    to: Epoch,
    zero: Zero,
    /// The new responder clears its words.
    clear: bool,
    /// The host waits for STOPPED and for SERVING.
    acknowledged: bool,
    /// Messages of the old epoch; nobody takes their replies.
    old: Vec<Want>,
    new: Vec<Want>,
}

const FROM: Epoch = Epoch::FIRST;
/// The next epoch: other tag.
const NEXT: Epoch = Epoch(2);
/// The first later epoch with the tag of the first: only zeroed words tell the two apart.
const SAME_TAG: Epoch = Epoch(256);

impl Change {
    fn sound(to: Epoch, old: &[Want], new: &[Want]) -> Self {
        let (old, new) = (old.to_vec(), new.to_vec());
        Self { shapes: Shapes::SOUND, to, zero: Zero::AfterStop, clear: true, acknowledged: true, old, new }
    }

    /// With the control words of production on both sides.
    fn by_words(self) {
        let pair = self.pair();
        let host = Arc::new(AtomicU32::new(HostState::READY.0));
        let device = Arc::new(AtomicU32::new(DeviceState::SERVING.0));
        let side = (self.clone(), pair.clone(), host.clone(), device.clone());
        thread::spawn(move || {
            let (case, pair, host, device) = side;
            case.serve_old(&pair, &host);
            device.store(DeviceState::STOPPED.0, Ordering::Release);
            while host.load(Ordering::Acquire) != HostState::OFFERED.0 {
                yield_now();
            }
            let server = case.begin_new(&pair);
            device.store(DeviceState::SERVING.0, Ordering::Release);
            case.serve_new(server);
        });
        let wait_for = |state: DeviceState| {
            while self.acknowledged && device.load(Ordering::Acquire) != state.0 {
                yield_now();
            }
        };
        let caller = self.call_old(&pair, &host);
        wait_for(DeviceState::STOPPED);
        self.zero(&pair, Zero::AfterStop);
        host.store(HostState::OFFERED.0, Ordering::Release);
        wait_for(DeviceState::SERVING);
        self.call_new(&pair, caller);
    }

    /// With a thread's end for STOPPED and SERVING and a thread's start for OFFERED: they order memory as those words
    /// do, and waiting for them adds no executions. Only the stop is a word here, so all executions can be explored.
    fn by_threads(self) {
        let pair = self.pair();
        let host = Arc::new(AtomicU32::new(HostState::READY.0));
        let side = (self.clone(), pair.clone(), host.clone());
        let old = thread::spawn(move || side.0.serve_old(&side.1, &side.2));
        let caller = self.call_old(&pair, &host);
        old.join().expect("a failed assertion ends the whole run");
        self.zero(&pair, Zero::AfterStop);
        let side = (self.clone(), pair.clone());
        let begun = thread::spawn(move || side.0.begin_new(&side.1)).join();
        let server = begun.expect("a failed assertion ends the whole run");
        let side = self.clone();
        thread::spawn(move || side.serve_new(server));
        self.call_new(&pair, caller);
    }

    fn pair(&self) -> Pair<2> {
        let pair = Pair::new(self.shapes);
        pair.stamp_requests(FROM.tag());
        pair.stamp_replies(FROM.tag());
        pair
    }

    // --- the device ---

    fn serve_old(&self, pair: &Pair<2>, host: &AtomicU32) {
        let mut server = Server::new(pair.clone(), FROM, pick);
        let (mut k, end) = (0, self.old.len() as u32);
        // As the poller: the look at the host's word comes before the round, so a reply may come late.
        while host.load(Ordering::Relaxed) == HostState::READY.0 {
            if k < end && server.serve(k) { k += 1 } else { yield_now() }
        }
    }

    fn begin_new(&self, pair: &Pair<2>) -> Server<2> {
        let server = Server::new(pair.clone(), self.to, pick);
        if self.clear {
            server.end().clear();
        }
        pair.stamp_replies(self.to.tag());
        server
    }

    fn serve_new(&self, mut server: Server<2>) {
        server.serve_all(NEW, NEW + self.new.len() as u32);
        server.expect_nothing();
    }

    // --- the host ---

    fn call_old(&self, pair: &Pair<2>, host: &AtomicU32) -> Caller<2> {
        let mut caller = Caller::new(pair.clone(), FROM);
        for (k, want) in (0..).zip(&self.old) {
            caller.send(k, *want);
        }
        host.store(HostState::CLOSING.0, Ordering::Release);
        self.zero(pair, Zero::Early);
        caller
    }

    fn zero(&self, pair: &Pair<2>, now: Zero) {
        if self.zero == now {
            pair.zero_requests();
        }
    }

    fn call_new(&self, pair: &Pair<2>, mut caller: Caller<2>) {
        caller.enter(self.to);
        pair.stamp_requests(self.to.tag());
        for (k, want) in (NEW..).zip(&self.new) {
            caller.send(k, *want);
        }
        caller.drain();
    }
}

/// Three messages, one or two of them in the old epoch.
fn changes(to: Epoch) -> Vec<Change> {
    let mut cases = Vec::new();
    for two in [[Hot, Ring], [Ring, Hot]] {
        for one in [[Hot], [Ring]] {
            cases.push(Change::sound(to, &one, &two));
            cases.push(Change::sound(to, &two, &one));
        }
    }
    cases
}

/// Four messages, two in each epoch.
fn longer_changes(to: Epoch) -> Vec<Change> {
    let mut cases = Vec::new();
    for old in [[Hot, Ring], [Ring, Ring]] {
        for new in [[Hot, Ring], [Ring, Hot]] {
            cases.push(Change::sound(to, &old, &new));
        }
    }
    cases
}

/// The tag alone against the epoch before: nobody zeroes anything.
fn unzeroed(shapes: Shapes) -> Vec<Change> {
    changes(NEXT).into_iter().map(|c| Change { shapes, zero: Zero::Never, clear: false, ..c }).collect()
}

/// Nothing of the old epoch is taken in the new one, whatever was unanswered, however late the last reply was.
#[test]
fn an_epoch_begins_clean() {
    Model::new("epoch", changes(NEXT), Change::by_threads).holds();
}

/// The same when the tag is the old one's again.
#[test]
fn a_tag_that_comes_again_begins_clean() {
    Model::new("epoch, same tag", changes(SAME_TAG), Change::by_threads).holds();
}

#[test]
fn the_control_words_order_the_change() {
    for (name, to) in [("epoch by words", NEXT), ("epoch by words, same tag", SAME_TAG)] {
        Model::new(name, longer_changes(to), Change::by_words).preempted_at_most(3).holds();
    }
}

#[test]
fn the_tag_alone_keeps_epochs_apart() {
    Model::new("epoch, nothing zeroed", unzeroed(Shapes::SOUND), Change::by_threads).holds();
    Model::new("epoch, nothing zeroed, apart", unzeroed(Shapes::APART), Change::by_threads).holds();
}

/// Each is `the_tag_alone_keeps_epochs_apart` but for the shape of one side.
fn shape_breaks(name: &'static str, wrong: Shape) {
    let req = Shapes { req: wrong, ..Shapes::SOUND };
    Model::new(name, unzeroed(req), Change::by_threads).breaks("stale request");
    let rep = Shapes { rep: wrong, ..Shapes::SOUND };
    Model::new(name, unzeroed(rep), Change::by_threads).breaks("stale reply");
}

#[test]
fn a_tag_in_the_header_tears() {
    shape_breaks("tag in header", Shape::TagInHeader);
}

#[test]
fn an_epoch_beside_the_lines_lets_old_messages_in() {
    shape_breaks("epoch word", Shape::EpochWord);
}

#[test]
fn a_tag_that_comes_again_needs_zeroed_requests() {
    let cases = changes(SAME_TAG).into_iter().map(|c| Change { zero: Zero::Never, ..c }).collect();
    Model::new("same tag, requests kept", cases, Change::by_threads).breaks("stale request");
}

#[test]
fn a_tag_that_comes_again_needs_cleared_replies() {
    let cases = changes(SAME_TAG).into_iter().map(|c| Change { clear: false, ..c }).collect();
    Model::new("same tag, answers kept", cases, Change::by_threads).breaks("stale reply");
}

#[test]
fn zeroing_before_the_device_stopped_tears_a_request() {
    let cases = changes(NEXT).into_iter().map(|c| Change { zero: Zero::Early, ..c }).collect();
    Model::new("zeroed early", cases, Change::by_threads).breaks("torn request");
}

#[test]
fn without_acknowledgement_a_late_reply_overwrites_a_request() {
    let cases = |acknowledged| {
        let cases = longer_changes(NEXT).into_iter();
        cases.map(|c| Change { acknowledged, zero: Zero::Never, ..c }).collect()
    };
    Model::new("acknowledged", cases(true), Change::by_words).preempted_at_most(2).holds();
    Model::new("not acknowledged", cases(false), Change::by_words).preempted_at_most(2).breaks("torn request");
}
