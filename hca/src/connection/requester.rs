//! The end that asks: which packet is next, and which requests are done.

use super::{MOST_PACKETS, MOST_READS, Path, Psn, rnr_delay};
use crate::packet::Syndrome;
use hamr_verbs::wire::WcStatus;
use std::collections::VecDeque;

/// Packets that are on their way at most. An answer to a READ counts as its packets.
const WINDOW: i32 = 128;
/// Packets behind which an acknowledgement is asked for within a message.
const ASK: u32 = 32;

/// How a request is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// By an acknowledgement: SEND, WRITE.
    Data,
    /// By memory.
    Read,
    /// By eight bytes.
    Atomic,
}

/// A request on its way.
struct Open<M> {
    request: M,
    class: Class,
    /// Bytes that it moves.
    length: u64,
    first: Psn,
    packets: u32,
    /// Packets of the answer that have come.
    answered: u32,
}

impl<M> Open<M> {
    fn end(&self) -> Psn {
        self.first.plus(self.packets)
    }

    /// It waits for more than an acknowledgement.
    fn awaits_answer(&self) -> bool {
        self.class != Class::Data && self.answered < self.packets
    }

    /// The next packet of its answer.
    fn awaited(&self) -> Psn {
        self.first.plus(self.answered)
    }
}

/// A packet to send: of which request, and which bytes of it. Of a READ: all that have not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Which of the requests that are open.
    pub open: usize,
    /// Its number.
    pub psn: Psn,
    /// The first byte.
    pub at: u64,
    /// How many.
    pub length: u64,
    /// It begins the message.
    pub is_first: bool,
    /// It ends it.
    pub is_last: bool,
    /// The peer is to acknowledge it.
    pub wants_acknowledge: bool,
}

/// The state of this end (see the parent module). `M`: what the engine keeps of a request.
pub struct Requester<M> {
    path: Path,
    open: VecDeque<Open<M>>,
    /// The number of the first packet of the next request.
    next: Psn,
    /// The next packet to send, and of which open request it is.
    cursor: Psn,
    cursor_open: usize,
    /// The packet behind the last one that was ever sent.
    sent: Psn,
    acknowledged: Psn,
    /// When the oldest packet is given up.
    deadline: Option<u64>,
    /// How long the peer wants no packet.
    quiet_until: Option<u64>,
    retries: u8,
    rnr_retries: u8,
    /// Where it went back to since something was acknowledged: once in a round trip.
    went_back: Option<Psn>,
    /// Packets since an acknowledgement was asked for.
    unasked: u32,
}

impl<M> Requester<M> {
    /// One whose first packet has this number.
    pub fn new(path: Path, first: Psn) -> Self {
        Self {
            path,
            open: VecDeque::new(),
            next: first,
            cursor: first,
            cursor_open: 0,
            sent: first,
            acknowledged: first,
            deadline: None,
            quiet_until: None,
            retries: 0,
            rnr_retries: 0,
            went_back: None,
            unasked: 0,
        }
    }

    /// Requests on their way.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// One of them.
    pub fn get(&self, open: usize) -> Option<&M> {
        self.open.get(open).map(|open| &open.request)
    }

    /// Is everything sent that was admitted, and room for more?
    pub fn can_admit(&self) -> bool {
        self.cursor == self.next && self.cursor.since(self.acknowledged) < WINDOW && self.quiet_until.is_none()
    }

    /// Takes a request that moves so many bytes. False: more than a connection of this path can.
    pub fn admit(&mut self, request: M, class: Class, length: u64) -> bool {
        let packets = if class == Class::Atomic { 1 } else { self.path.packets(length) };
        if packets > MOST_PACKETS {
            return false;
        }
        let packets = packets as u32;
        self.open.push_back(Open { request, class, length, first: self.next, packets, answered: 0 });
        self.next = self.next.plus(packets);
        true
    }

    /// The next packet to send now. It counts as sent.
    pub fn next(&mut self, now: u64) -> Option<Segment> {
        if self.quiet_until.is_some_and(|until| now < until) {
            return None;
        }
        self.quiet_until = None;
        let index = self.cursor_open;
        let open = self.open.get(index)?;
        if self.cursor.since(self.acknowledged) >= WINDOW {
            return None;
        }
        let (mtu, end) = (u64::from(self.path.mtu), open.end());
        let segment = if open.class == Class::Data {
            let number = self.cursor.since(open.first).max(0).cast_unsigned();
            let at = u64::from(number) * mtu;
            let is_last = self.cursor.plus(1) == end;
            let length = open.length.saturating_sub(at).min(mtu);
            let wants_acknowledge = is_last || self.unasked + 1 >= ASK;
            Segment { open: index, psn: self.cursor, at, length, is_first: number == 0, is_last, wants_acknowledge }
        } else {
            let awaits = self.open.range(..index).filter(|open| open.awaits_answer()).count();
            if awaits >= MOST_READS {
                return None;
            }
            let at = u64::from(open.answered) * mtu;
            let length = open.length.saturating_sub(at);
            let wants_acknowledge = open.class == Class::Atomic;
            Segment { open: index, psn: open.awaited(), at, length, is_first: true, is_last: true, wants_acknowledge }
        };
        self.cursor = if open.class == Class::Data { self.cursor.plus(1) } else { end };
        self.unasked = if segment.wants_acknowledge { 0 } else { self.unasked.saturating_add(1) };
        if self.cursor == end {
            self.cursor_open += 1;
        }
        if self.cursor.since(self.sent) > 0 {
            self.sent = self.cursor;
        }
        if self.deadline.is_none() {
            self.deadline = self.path.wait().map(|wait| now.saturating_add(wait));
        }
        Some(segment)
    }

    /// Takes a packet back that cannot be made yet: it is the next one again.
    pub fn put_back(&mut self, segment: &Segment) {
        self.set_cursor(segment.psn);
    }

    /// Takes an acknowledgement. An error: of the request that is then the oldest, and of the connection.
    ///
    /// # Errors
    /// The peer has refused it, or has no receive request for too long.
    pub fn acknowledge(&mut self, now: u64, psn: Psn, syndrome: Syndrome) -> Result<(), WcStatus> {
        let until = if syndrome.is_ack() { psn.plus(1) } else { psn };
        // Of what was acknowledged before, or was not sent.
        if until.since(self.acknowledged) < 0 || self.sent.since(psn) <= 0 {
            return Ok(());
        }
        let reached = self.reach(until);
        if reached.since(self.acknowledged) > 0 {
            self.advance(now, reached);
        }
        if reached != until {
            // An answer before it is lost.
            self.go_back(reached);
            return Ok(());
        }
        match syndrome {
            _ if syndrome.is_ack() => Ok(()),
            Syndrome::NAK_SEQUENCE => {
                self.go_back(until);
                Ok(())
            }
            Syndrome::NAK_INVALID => Err(WcStatus::REM_INV_REQ_ERR),
            Syndrome::NAK_ACCESS => Err(WcStatus::REM_ACCESS_ERR),
            Syndrome::NAK_OPERATION => Err(WcStatus::REM_OP_ERR),
            _ => match syndrome.rnr() {
                Some(code) => self.wait(now, rnr_delay(code)),
                None => Ok(()),
            },
        }
    }

    /// How far an acknowledgement until here counts: not past an answer that has not come.
    fn reach(&self, until: Psn) -> Psn {
        let missing = self.open.iter().find(|open| open.awaits_answer()).map(Open::awaited);
        missing.filter(|missing| until.since(*missing) > 0).unwrap_or(until)
    }

    fn wait(&mut self, now: u64, delay: u64) -> Result<(), WcStatus> {
        if self.quiet_until.is_some() {
            return Ok(());
        }
        if self.path.rnr_retry < 7 {
            if self.rnr_retries >= self.path.rnr_retry {
                return Err(WcStatus::RNR_RETRY_EXC_ERR);
            }
            self.rnr_retries += 1;
        }
        self.set_cursor(self.acknowledged);
        self.quiet_until = Some(now.saturating_add(delay));
        // The peer has answered.
        (self.deadline, self.retries, self.went_back) = (None, 0, None);
        Ok(())
    }

    /// The place of a packet of an answer with so many bytes, in the message of the oldest request that is not done
    /// then. `None`: it is not the one that is waited for.
    pub fn answer(&mut self, now: u64, psn: Psn, class: Class, bytes: u64, is_last: bool) -> Option<u64> {
        let open = self.open.iter().find(|open| open.awaits_answer())?;
        let awaited = open.awaited();
        let ahead = psn.since(awaited);
        if self.sent.since(psn) <= 0 || ahead < 0 {
            return None;
        }
        if ahead > 0 {
            self.go_back(awaited);
            return None;
        }
        let at = u64::from(open.answered) * u64::from(self.path.mtu);
        let expected = match open.class {
            Class::Atomic => 8,
            _ => open.length.saturating_sub(at).min(self.path.mtu.into()),
        };
        let is_right = class == open.class && bytes == expected && is_last == (open.answered + 1 == open.packets);
        if !is_right {
            return None;
        }
        // What was asked for before it has been done.
        if awaited.since(self.acknowledged) > 0 {
            self.advance(now, awaited);
        }
        Some(at)
    }

    /// The packet of the answer is where [`Self::answer`] has said: those that were done then are taken.
    pub fn answered(&mut self, now: u64) {
        if let Some(open) = self.open.front_mut().filter(|open| open.awaits_answer()) {
            open.answered += 1;
            let awaited = open.awaited();
            self.advance(now, awaited);
        }
    }

    /// Takes the oldest request, if it is done.
    pub fn pop_done(&mut self) -> Option<M> {
        let is_done = |open: &Open<M>| !open.awaits_answer() && self.acknowledged.since(open.end()) >= 0;
        if !self.open.front().is_some_and(is_done) {
            return None;
        }
        self.cursor_open = self.cursor_open.saturating_sub(1);
        self.open.pop_front().map(|open| open.request)
    }

    /// Forgets all requests: the connection is in error.
    pub fn abandon(&mut self) {
        self.open.clear();
        self.cursor_open = 0;
    }

    /// Sends again what has waited too long.
    ///
    /// # Errors
    /// It was sent often enough: of the oldest request, and of the connection.
    pub fn expire(&mut self, now: u64) -> Result<(), WcStatus> {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return Ok(());
        }
        if self.retries >= self.path.retry {
            return Err(WcStatus::RETRY_EXC_ERR);
        }
        self.retries += 1;
        self.deadline = self.path.wait().map(|wait| now.saturating_add(wait));
        self.went_back = Some(self.acknowledged);
        self.set_cursor(self.acknowledged);
        Ok(())
    }

    /// When there is something to do again without a packet.
    pub fn timer(&self) -> Option<u64> {
        match (self.deadline, self.quiet_until) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn advance(&mut self, now: u64, to: Psn) {
        self.acknowledged = to;
        (self.retries, self.rnr_retries, self.went_back) = (0, 0, None);
        if self.cursor.since(to) < 0 {
            self.set_cursor(to);
        }
        let wait = self.path.wait().filter(|_| self.sent != to && self.quiet_until.is_none());
        self.deadline = wait.map(|wait| now.saturating_add(wait));
    }

    /// Sends from here on again, unless it did since the last progress.
    fn go_back(&mut self, to: Psn) {
        if self.went_back != Some(to) {
            self.went_back = Some(to);
            self.set_cursor(to);
        }
    }

    fn set_cursor(&mut self, to: Psn) {
        self.cursor = to;
        let covers = |open: &Open<M>| open.end().since(to) > 0;
        self.cursor_open = self.open.iter().position(covers).unwrap_or(self.open.len());
    }
}
