//! The two ends as the models drive them: a caller that checks each reply, a server that checks each request.

use std::collections::VecDeque;

use hamr_comm::am::{Found, Requester, Responder, SlotAccess, Slots};
use hamr_shared_abi::ids::{Epoch, HandlerKey};
use hamr_shared_abi::slot::{INLINE_WORDS, RepHdr, ReqHdr};
use hamr_shared_abi::status::Status;
use loom::thread::yield_now;

use crate::slots::Pair;

/// The line that a caller would like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Want {
    /// The hot slot when rule 7 allows it, the ring otherwise.
    Hot,
    /// The ring.
    Ring,
}

/// All `2^n` ways to send `n` messages.
pub(crate) fn all_orders(n: usize) -> Vec<Vec<Want>> {
    (0..1usize << n)
        .map(|bits| (0..n).map(|i| if bits >> i & 1 == 0 { Want::Hot } else { Want::Ring }).collect())
        .collect()
}

/// Messages are numbered over a whole model: from here in its second epoch, from 0 in its first.
pub(crate) const NEW: u32 = 16;

fn same_epoch(j: u32, k: u32) -> bool {
    (j < NEW) == (k < NEW)
}

// Message `k` in each of its four words: no two messages share a value, so a word of the wrong message shows.
pub(crate) fn request_hdr(k: u32) -> ReqHdr {
    ReqHdr::inline(HandlerKey(k as u16 + 1), 8)
}
fn request_word(k: u32) -> u64 {
    0xA000 + u64::from(k)
}
fn second_word(k: u32) -> u64 {
    0xC000 + u64::from(k)
}
fn reply_hdr(k: u32) -> RepHdr {
    RepHdr::inline(Status(k as u16 + 0x100), 8)
}
fn reply_word(k: u32) -> u64 {
    0xB000 + u64::from(k)
}
/// The reply of a call that was not run; it leaves the payload as it is.
pub(crate) const CANCELLED: RepHdr = RepHdr::inline(Status::CANCELLED, 0);

/// The second lines of hot messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SecondLine {
    Unused,
    /// Read with the first, as production does.
    Read,
    /// Rule 2 dropped: read behind the reply.
    ReadAfterReply,
}

/// The requesting end, with what it has sent and not yet taken.
pub(crate) struct Caller<const BITS: u32> {
    pub(crate) end: Requester<Pair<BITS>>,
    hot: Option<u32>,
    ring: VecDeque<u32>,
    /// The message that may be answered Cancelled.
    pub(crate) cancelled: Option<u32>,
    pub(crate) second_line: SecondLine,
    /// How each message ended, in the order of taking: true when it was run.
    pub(crate) ended: Vec<(u32, bool)>,
}

impl<const BITS: u32> Caller<BITS> {
    pub(crate) fn new(pair: Pair<BITS>, epoch: Epoch) -> Self {
        let end = Requester::new(pair, epoch);
        let second_line = SecondLine::Unused;
        Self { end, hot: None, ring: VecDeque::new(), cancelled: None, second_line, ended: Vec::new() }
    }

    /// Goes on in another epoch; what is unanswered ends here (rule 30).
    pub(crate) fn enter(&mut self, epoch: Epoch) {
        self.hot = None;
        self.ring.clear();
        self.end.enter(epoch);
    }

    /// Sends message `k`, waiting for the oldest answer only if the ring is full.
    pub(crate) fn send(&mut self, k: u32, want: Want) {
        if want == Want::Hot {
            self.take_hot();
            if self.end.hot_is_open() {
                return self.send_hot(k);
            }
        }
        while !self.end.ring_has_room() {
            if !self.take_oldest() {
                yield_now();
            }
        }
        self.end.submit_ring(request_hdr(k), &[request_word(k)]);
        self.ring.push_back(k);
    }

    /// Sends in the hot slot without asking whether rule 7 allows it.
    pub(crate) fn send_hot(&mut self, k: u32) {
        let mut words = [0; INLINE_WORDS + 1];
        (words[0], words[INLINE_WORDS]) = (request_word(k), second_word(k));
        let used = if self.second_line == SecondLine::Unused { 1 } else { words.len() };
        self.end.submit_hot(request_hdr(k), &words[..used]);
        self.hot = Some(k);
    }

    /// Takes the reply in the hot slot, if it is there.
    pub(crate) fn take_hot(&mut self) -> bool {
        let Some(k) = self.hot else { return false };
        let Some(hdr) = self.end.hot_reply() else { return false };
        let ran = check_reply(k, hdr, self.end.slots().hot(), self.cancelled);
        self.ended.push((k, ran));
        self.end.release_hot();
        self.hot = None;
        true
    }

    /// Takes the reply of the oldest ring message, if it is there.
    pub(crate) fn take_oldest(&mut self) -> bool {
        let Some(x) = self.end.oldest() else { return false };
        let Some(hdr) = self.end.ring_reply(x) else { return false };
        let k = self.ring.pop_front().expect("a line is taken as long as its message is known");
        let ran = check_reply(k, hdr, self.end.slots().ring(x as u32), self.cancelled);
        self.ended.push((k, ran));
        self.end.release_oldest();
        true
    }

    /// Waits for every reply and takes it.
    pub(crate) fn drain(&mut self) {
        while self.hot.is_some() {
            if !self.take_hot() {
                yield_now();
            }
        }
        while !self.ring.is_empty() {
            if !self.take_oldest() {
                yield_now();
            }
        }
    }
}

fn check_reply(k: u32, hdr: RepHdr, line: impl SlotAccess, cancelled: Option<u32>) -> bool {
    if cancelled == Some(k) && hdr == CANCELLED {
        return false;
    }
    let mut words = [0];
    line.read_reply(&mut words);
    let word = words[0];
    // By the header first: the payload under a stale one is already the new request's.
    let of = (0..2 * NEW).find(|&j| hdr == reply_hdr(j));
    assert!(of.is_none_or(|of| same_epoch(of, k)), "stale reply: {:#x} with {word:#x} to message {k}", hdr.0);
    assert!(of.is_some_and(|of| word == reply_word(of)), "torn reply: {:#x} with {word:#x} to message {k}", hdr.0);
    assert!(of == Some(k), "wrong reply: {:#x} with {word:#x} to message {k}", hdr.0);
    true
}

/// How a server picks its next message.
pub(crate) type Pick<const BITS: u32> = fn(&mut Responder<Pair<BITS>>, bool) -> Option<Found>;

/// As production does.
pub(crate) fn pick<const BITS: u32>(end: &mut Responder<Pair<BITS>>, hot_first: bool) -> Option<Found> {
    end.next(hot_first)
}

/// Rule 8 dropped: the hot slot is looked at once, and not again behind a ring message.
pub(crate) fn pick_without_second_check<const BITS: u32>(
    end: &mut Responder<Pair<BITS>>,
    hot_first: bool,
) -> Option<Found> {
    if hot_first && let Some(found) = end.next_hot() {
        return Some(found);
    }
    end.ring_is_next().then(|| end.next_ring())
}

/// As production does beside a queued handler: what is found here is counted when it has been answered, by one of the next two.
pub(crate) fn pick_uncounted<const BITS: u32>(end: &mut Responder<Pair<BITS>>, _: bool) -> Option<Found> {
    end.upcoming()
}

/// What a server does behind a reply.
pub(crate) type Count<const BITS: u32> = fn(&mut Responder<Pair<BITS>>, Found);

/// As production does.
pub(crate) fn count_late<const BITS: u32>(end: &mut Responder<Pair<BITS>>, found: Found) {
    end.advance(found);
}

/// The line is looked at again, in which the next message may be by now.
pub(crate) fn count_late_by_the_line<const BITS: u32>(end: &mut Responder<Pair<BITS>>, found: Found) {
    match found.slot {
        0 => drop(end.next_hot()),
        _ => drop(end.next_ring()),
    }
}

/// The answering end.
pub(crate) struct Server<const BITS: u32> {
    end: Responder<Pair<BITS>>,
    pick: Pick<BITS>,
    count: Count<BITS>,
    hot_first: bool,
    pub(crate) second_line: SecondLine,
}

impl<const BITS: u32> Server<BITS> {
    pub(crate) fn new(pair: Pair<BITS>, epoch: Epoch, pick: Pick<BITS>) -> Self {
        let (end, second_line) = (Responder::new(pair, epoch), SecondLine::Unused);
        Self { end, pick, count: |_, _| (), hot_first: true, second_line }
    }

    pub(crate) fn counting(self, count: Count<BITS>) -> Self {
        Self { count, ..self }
    }

    pub(crate) fn end(&self) -> &Responder<Pair<BITS>> {
        &self.end
    }

    /// The next message in the order of the poller's rounds.
    pub(crate) fn find(&mut self) -> Option<Found> {
        let found = (self.pick)(&mut self.end, self.hot_first);
        // After a hot message the ring goes first; a look that finds nothing ends the round.
        self.hot_first = found.is_none_or(|f| f.slot != 0);
        found
    }

    /// The next message if one is there, which must be `k`; `flags` may be set in its header or not.
    pub(crate) fn receive(&mut self, k: u32, flags: u32) -> Option<(Found, ReqHdr)> {
        let found = self.find()?;
        let line = self.end.slot(found.slot);
        let mut words = [0];
        let hdr = ReqHdr(line.req_hdr());
        line.read_request(&mut words);
        let word = words[0];
        let ran = (0..2 * NEW).find(|&j| hdr.0 & !flags == request_hdr(j).0 && word == request_word(j));
        let Some(ran) = ran else { panic!("torn request: {:#x} with {word:#x}, where message {k} was due", hdr.0) };
        assert!(same_epoch(ran, k), "stale request: message {ran} ran where {k} was due");
        assert!(ran == k, "out of order: message {ran} ran where {k} was due");
        if self.second_line == SecondLine::Read {
            self.check_second(k, found);
        }
        Some((found, hdr))
    }

    fn check_second(&self, k: u32, found: Found) {
        let mut words = [0];
        if found.slot == 0 {
            self.end.slots().read_second(&mut words);
            assert!(words == [second_word(k)], "torn request: second line {:#x} of message {k}", words[0]);
        }
    }

    /// Answers message `k` with its result.
    pub(crate) fn reply(&self, k: u32, found: Found) {
        let line = self.end.slot(found.slot);
        line.write_reply(&[reply_word(k)]);
        line.publish_reply(reply_hdr(k).0, found.seq);
        if self.second_line == SecondLine::ReadAfterReply {
            self.check_second(k, found);
        }
    }

    /// Serves one message if one is there, which must be `k`.
    pub(crate) fn serve(&mut self, k: u32) -> bool {
        let Some((found, _)) = self.receive(k, 0) else { return false };
        self.reply(k, found);
        (self.count)(&mut self.end, found);
        true
    }

    /// Serves messages `from..to`, waiting for each.
    pub(crate) fn serve_all(&mut self, from: u32, to: u32) {
        for k in from..to {
            while !self.serve(k) {
                yield_now();
            }
        }
    }

    /// Asserts that no line offers anything more.
    pub(crate) fn expect_nothing(&mut self) {
        self.hot_first = true;
        let found = self.find();
        assert!(found.is_none(), "a message ran twice: {found:?}");
    }
}
