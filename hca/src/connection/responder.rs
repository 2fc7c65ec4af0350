//! The end that answers: which packet was expected, and the answers that wait to be sent.

use super::{MOST_PACKETS, MOST_READS, Path, Psn};
use crate::packet::{MASK, Reth, Syndrome};
use std::collections::VecDeque;

/// Answers that wait at most: those to READs and atomics, an acknowledgement behind each, and a refusal.
const MOST_REPLIES: usize = 2 * MOST_READS + 2;

/// What a packet is that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The next one.
    New,
    /// One that came before.
    Duplicate,
    /// One that is dropped. What there is to answer is in the queue.
    Ignored,
}

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// An acknowledgement, or a refusal.
    Acknowledge {
        /// The packet that it is about.
        psn: Psn,
        /// What is said.
        syndrome: Syndrome,
    },
    /// What an atomic found.
    Atomic {
        /// Its packet.
        psn: Psn,
        /// The value.
        original: u64,
    },
    /// Memory.
    Read {
        /// The next packet.
        psn: Psn,
        /// What is left.
        range: Reth,
        /// It is the first packet.
        is_first: bool,
        /// Its request came before: where its memory is gone meanwhile, nobody waits for it.
        is_repeat: bool,
    },
}

impl Reply {
    fn psn(&self) -> Psn {
        match *self {
            Self::Acknowledge { psn, .. } | Self::Atomic { psn, .. } | Self::Read { psn, .. } => psn,
        }
    }
}

/// The state of this end (see the parent module).
pub struct Responder {
    path: Path,
    expected: Psn,
    /// Messages that are complete.
    msn: u32,
    /// The peer was told what is expected, and nothing is said until that comes.
    has_told: bool,
    /// Why the connection is in error: told again to each packet.
    refusal: Option<Syndrome>,
    replies: VecDeque<Reply>,
    /// What the last atomics found, so that none is done twice.
    atomics: VecDeque<(Psn, u64)>,
}

impl Responder {
    /// One that expects this packet first.
    pub fn new(path: Path, expected: Psn) -> Self {
        let (replies, atomics) = (VecDeque::new(), VecDeque::new());
        Self { path, expected, msn: 0, has_told: false, refusal: None, replies, atomics }
    }

    /// Bytes of payload of each packet of a message but the last.
    pub fn mtu(&self) -> u64 {
        self.path.mtu.into()
    }

    /// How long the other end of the path tries to send a packet, if not for ever.
    pub fn patience(&self) -> Option<u64> {
        self.path.wait().map(|wait| wait.saturating_mul(u64::from(self.path.retry) + 1))
    }

    /// Messages that are complete, modulo 2^24.
    pub fn msn(&self) -> u32 {
        self.msn
    }

    /// The packet that is expected.
    pub fn expected(&self) -> Psn {
        self.expected
    }

    /// Says what a packet of a request is.
    pub fn arrive(&mut self, psn: Psn) -> Arrival {
        let ahead = psn.since(self.expected);
        match self.refusal {
            _ if ahead < 0 => return Arrival::Duplicate,
            Some(syndrome) => self.acknowledge(self.expected, syndrome),
            None if ahead == 0 => return Arrival::New,
            None if !self.has_told => self.tell(Syndrome::NAK_SEQUENCE),
            None => {}
        }
        Arrival::Ignored
    }

    /// Tells the peer, once, why the expected packet is missing or has no place.
    fn tell(&mut self, syndrome: Syndrome) {
        self.has_told = true;
        self.acknowledge(self.expected, syndrome);
    }

    /// No receive request is there for the expected packet.
    pub fn not_ready(&mut self) {
        self.tell(Syndrome(Syndrome::RNR_NAK.0 | self.path.rnr_timer & 31));
    }

    /// A packet is refused, and so is all behind it. The connection is in error.
    pub fn refuse(&mut self, psn: Psn, syndrome: Syndrome) {
        (self.refusal, self.expected) = (Some(syndrome), psn);
        // Answers to what is behind it are not sent any more.
        self.replies.retain(|reply| reply.psn().since(psn) < 0);
        self.acknowledge(psn, syndrome);
    }

    /// The connection was refused something, and says so.
    pub fn has_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// The expected packet, of data, was taken.
    pub fn taken(&mut self, is_last: bool, wants_acknowledge: bool) {
        let psn = self.expected;
        self.step(1, is_last);
        if wants_acknowledge {
            self.acknowledge(psn, Syndrome::ACK);
        }
    }

    /// Has an answer of so many bytes as many packets as one may have?
    pub fn can_answer(&self, length: u32) -> bool {
        self.path.packets(length.into()) <= MOST_PACKETS
    }

    /// The expected packet asks for this range, which was checked.
    pub fn read(&mut self, range: Reth) {
        let psn = self.expected;
        // Of at most 2^32 bytes, and a path of at least 256.
        self.step(self.path.packets(range.length.into()) as u32, true);
        self.push_answer(Reply::Read { psn, range, is_first: true, is_repeat: false });
    }

    /// The expected packet is an atomic, which found this.
    pub fn atomic(&mut self, original: u64) {
        let psn = self.expected;
        self.step(1, true);
        if self.atomics.len() == MOST_READS {
            self.atomics.pop_front();
        }
        self.atomics.push_back((psn, original));
        self.push_answer(Reply::Atomic { psn, original });
    }

    /// Data came again: what has come is acknowledged.
    pub fn duplicate(&mut self) {
        self.acknowledge(self.expected.before(), Syndrome::ACK);
    }

    /// A READ came again: its answer is sent again from there on, if it is of packets that came before, and does not wait
    /// to be sent. Its range is checked when it is read.
    pub fn duplicate_read(&mut self, psn: Psn, range: Reth) {
        let packets = self.path.packets(range.length.into()) as u32;
        if !self.can_answer(range.length) || psn.plus(packets).since(self.expected) > 0 {
            return;
        }
        if self.replies.iter().any(|reply| matches!(reply, Reply::Read { is_first: true, .. }) && reply.psn() == psn) {
            return;
        }
        // What is behind it is asked for again, too.
        self.replies.retain(|reply| reply.psn().since(psn) < 0);
        self.push(Reply::Read { psn, range, is_first: true, is_repeat: true });
    }

    /// An atomic came again: what it found is sent again. One that is no more known is not answered.
    pub fn duplicate_atomic(&mut self, psn: Psn) {
        // The last one of this number, which comes again behind 2^24 packets.
        if let Some(&(_, original)) = self.atomics.iter().rfind(|(kept, _)| *kept == psn) {
            let reply = Reply::Atomic { psn, original };
            if !self.replies.contains(&reply) {
                self.push(reply);
            }
        }
    }

    /// The next answer to send.
    pub fn pop(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// What is left of an answer, to be sent next.
    pub fn again(&mut self, rest: Reply) {
        self.replies.push_front(rest);
    }

    /// Is there nothing to send?
    pub fn is_idle(&self) -> bool {
        self.replies.is_empty()
    }

    fn step(&mut self, packets: u32, is_last: bool) {
        self.expected = self.expected.plus(packets);
        self.has_told = false;
        self.msn = self.msn.wrapping_add(is_last.into()) & MASK;
    }

    /// One acknowledgement says what those before it have said.
    fn acknowledge(&mut self, psn: Psn, syndrome: Syndrome) {
        match self.replies.back_mut() {
            Some(Reply::Acknowledge { psn: last, syndrome: said }) if said.is_ack() || *said == syndrome => {
                (*last, *said) = (psn, syndrome);
            }
            _ => self.push(Reply::Acknowledge { psn, syndrome }),
        }
    }

    /// An answer to a new request. Where a peer asks for more than it may wait for, it has the oldest: answers that are
    /// here because their requests came again.
    fn push_answer(&mut self, reply: Reply) {
        while self.answers().count() >= MOST_READS {
            let oldest = self.answers().min_by_key(|(_, answer)| answer.psn().since(self.expected)).map(|(at, _)| at);
            self.replies.remove(oldest.unwrap_or(0));
        }
        self.push(reply);
    }

    /// Those to READs and atomics, and where they are.
    fn answers(&self) -> impl Iterator<Item = (usize, &Reply)> {
        self.replies.iter().enumerate().filter(|(_, reply)| !matches!(reply, Reply::Acknowledge { .. }))
    }

    fn push(&mut self, reply: Reply) {
        // What is lost here, the peer asks for again.
        if self.replies.len() < MOST_REPLIES {
            self.replies.push_back(reply);
        }
    }
}
