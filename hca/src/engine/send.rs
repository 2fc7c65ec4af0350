//! Requests to move data, and flushes: what a queue pair does in a round. The wire is `self`: its peer is in the same
//! engine, and each request is one message for it.

use super::Engine;
use super::apply::{Nak, Ranges, SLICE, Sink, Source};
use super::outcome::Outcome;
use crate::connection::rnr_delay;
use hamr_comm::abi::window::AtomicOp;
use hamr_verbs::ring::Cursor;
use hamr_verbs::wire::{
    ATOMIC, Access, LINE, MAX_INLINE, MAX_MESSAGE, MAX_SEND_SGE, Object, Opcode, QpState, ReceiveEntry, SendEntry, Sge,
    WcOpcode, WcStatus,
};
use zerocopy::{FromZeros, IntoBytes};

/// Requests of one queue pair in one round.
pub const MOST_REQUESTS: u32 = 16;
/// Bytes of one queue pair in one round, but for the message that exceeds them.
const MOST_BYTES: u64 = 64 << 10;
const _: () = assert!(MOST_BYTES <= SLICE);

/// What a step came to.
pub(super) enum Step {
    /// There is nothing to do, or the peer is not ready.
    Idle,
    /// So many bytes were moved.
    Moved(u64),
    /// A request was completed without that.
    Failed,
}

/// A checked request: a private copy.
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) opcode: Opcode,
    pub(super) completion: WcOpcode,
    pub(super) is_signaled: bool,
    is_inline: bool,
    pub(super) immediate: Option<u32>,
    pub(super) length: u64,
    pub(super) local: Ranges,
    /// The message, if it is inline.
    inline: [u8; MAX_INLINE],
    pub(super) remote: Ranges,
    operands: [u64; 2],
}

/// A request of which a part is done, or whose peer is not ready.
pub(super) struct Progress {
    request: Request,
    /// Bytes that are moved.
    at: u64,
    has_begun: bool,
    /// When the peer that is not ready is given up. `None`: it was ready so far, or it is waited for without an end.
    pub(super) give_up: Option<u64>,
}

impl Progress {
    const NONE: Self = Self { request: Request::NONE, at: 0, has_begun: false, give_up: None };
}

impl Request {
    /// One to be made in its place: what is stored in parts and then copied whole waits for the stores.
    pub(super) const NONE: Self = Self {
        id: 0,
        opcode: Opcode::SEND,
        completion: WcOpcode::SEND,
        is_signaled: false,
        is_inline: false,
        immediate: None,
        length: 0,
        local: Ranges::NONE,
        inline: [0; MAX_INLINE],
        remote: Ranges::NONE,
        operands: [0; 2],
    };

    /// Where its bytes are, or come to.
    pub(super) const fn near(&self) -> Source<'_> {
        if self.is_inline { Source::Bytes(&self.inline) } else { Source::Ranges(&self.local) }
    }

    /// It uses up a receive request.
    const fn is_received(&self) -> bool {
        matches!(self.opcode, Opcode::SEND) || self.opcode.has_immediate()
    }

    /// What it does at the peer, if it is an atomic access.
    pub(super) const fn atomic(&self) -> AtomicOp<u64> {
        let [expected, new] = self.operands;
        match self.opcode {
            Opcode::COMPARE_SWAP => AtomicOp::CompareSwap { expected, new },
            _ => AtomicOp::Add(expected),
        }
    }
}

impl<K> Engine<K> {
    /// Serves a queue pair; how many steps were made.
    #[inline]
    pub(super) fn serve(&mut self, index: usize) -> u32 {
        if self.has_work(index) { self.serve_some(index) } else { 0 }
    }

    /// Has a queue pair something to do, as far as a look says?
    #[inline(always)]
    fn has_work(&self, index: usize) -> bool {
        let Some(qp) = self.qp(index) else { return false };
        match qp.state {
            // Others send packets (`remote`, `datagram`).
            QpState::RTS => qp.peer.is_some() && (qp.progress.is_some() || self.is_there(&qp.sends)),
            state => state == QpState::ERR,
        }
    }

    #[inline(never)]
    fn serve_some(&mut self, index: usize) -> u32 {
        let (mut steps, mut bytes) = (0, 0);
        while steps < MOST_REQUESTS && bytes < MOST_BYTES && self.has_work(index) {
            let step = match self.qp_mut(index).map(|qp| (qp.state, qp.progress.take())) {
                Some((QpState::RTS, Some(progress))) => self.go_on(index, progress),
                Some((QpState::RTS, None)) => self.begin(index),
                _ => self.flush(index),
            };
            match step {
                Step::Idle => break,
                Step::Moved(more) => bytes += more,
                Step::Failed => {}
            }
            steps += 1;
        }
        steps
    }

    /// Does the next request, which is there, or begins to.
    fn begin(&mut self, index: usize) -> Step {
        let mut progress = self.spare.take().unwrap_or_else(|| Box::new(Progress::NONE));
        let Some(qp) = self.qp(index) else { return Step::Idle };
        (progress.at, progress.has_begun, progress.give_up) = (0, false, None);
        match self.fetch(&qp.sends, &mut progress.request) {
            Ok(()) => self.go_on(index, progress),
            Err(status) => self.fail(index, progress.request.id, status),
        }
    }

    /// Copies the request at a position where one is, and checks it, for any wire: what is wrong at the near end is found
    /// before anything happens.
    pub(super) fn fetch(&self, at: &Cursor, to: &mut Request) -> Result<(), WcStatus> {
        let mut entry = SendEntry::new_zeroed();
        let is_read = self.read_line(at, entry.as_mut_bytes());
        to.id = entry.id;
        let (opcode, flags, count) = entry.parts().filter(|_| is_read).ok_or(WcStatus::LOC_QP_OP_ERR)?;
        let completion = opcode.completion().ok_or(WcStatus::LOC_QP_OP_ERR)?;
        let known = SendEntry::SIGNALED | SendEntry::INLINE | SendEntry::TWO_LINES;
        let (is_inline, has_second) = (flags & SendEntry::INLINE != 0, flags & SendEntry::TWO_LINES != 0);
        let brings = completion.brings();
        let (least, most) = match () {
            () if is_inline => (0, 0),
            () if opcode.is_atomic() => (1, 1),
            () => (0, MAX_SEND_SGE),
        };
        let needs_second = !is_inline && (count > 1 || opcode == Opcode::COMPARE_SWAP);
        let is_known = flags & !known == 0 && (brings || !is_inline) && (has_second || !needs_second);
        if !is_known || !(least..=most).contains(&count) {
            return Err(WcStatus::LOC_QP_OP_ERR);
        }
        let length = u64::from(entry.length);
        let local_right = if brings { Access::READ } else { Access::LOCAL_WRITE };
        let second = if is_inline {
            let (first, second) = to.inline.split_at_mut(entry.first.len());
            first.copy_from_slice(&entry.first);
            second
        } else {
            to.local.set(entry.sges()[0], count, local_right).as_mut_bytes()
        };
        if has_second {
            let _ = self.window.read_bytes(at.entry() + LINE, second);
        }
        to.operands = [entry.operands()[0], second.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))];
        if is_inline {
            let room = if has_second { MAX_INLINE } else { entry.first.len() };
            if length > room as u64 {
                return Err(WcStatus::LOC_LEN_ERR);
            }
        } else {
            let total = self.total(&to.local).ok_or(WcStatus::LOC_PROT_ERR)?;
            if total != length || length > MAX_MESSAGE || opcode.is_atomic() && length != u64::from(ATOMIC) {
                return Err(WcStatus::LOC_LEN_ERR);
            }
        }
        let right = match completion {
            WcOpcode::READ => Access::REMOTE_READ,
            WcOpcode::WRITE => Access::REMOTE_WRITE,
            _ => Access::REMOTE_ATOMIC,
        };
        to.remote.set(Sge { addr: entry.remote, len: entry.length, lkey: entry.rkey }, 1, right);
        (to.opcode, to.completion, to.length) = (opcode, completion, length);
        (to.is_signaled, to.is_inline) = (flags & SendEntry::SIGNALED != 0, is_inline);
        to.immediate = opcode.has_immediate().then_some(entry.immediate);
        Ok(())
    }

    /// Is a queue pair connected with this one, and in order?
    fn is_connected(&self, peer: usize, with: usize) -> bool {
        self.qp(peer).is_some_and(|peer| peer.peer == Some(with) && peer.state == QpState::RTS)
    }

    /// Moves the next slice of a request, and completes it behind the last one.
    fn go_on(&mut self, index: usize, mut progress: Box<Progress>) -> Step {
        let id = progress.request.id;
        let peer = self.qp(index).and_then(|qp| qp.peer).filter(|peer| self.is_connected(*peer, index));
        let Some(peer) = peer else { return self.fail(index, id, WcStatus::RETRY_EXC_ERR) };
        if !progress.has_begun {
            let is_received = progress.request.is_received();
            if is_received && !self.has_receive(peer) {
                return self.wait(index, peer, progress);
            }
            // Nothing happens without room for what completes it.
            if !self.has_room(progress.request.is_signaled.then_some(index), is_received.then_some(peer)) {
                return Step::Failed;
            }
        }
        let before = progress.at;
        match self.step(peer, &mut progress) {
            Ok(()) if progress.at < progress.request.length => {
                self.keep(index, progress);
                Step::Moved(SLICE)
            }
            Ok(()) => {
                let Request { completion, length, is_signaled, .. } = progress.request;
                let outcome =
                    Outcome { length: if completion.brings() { 0 } else { length as u32 }, ..Outcome::of(completion) };
                self.complete_send(index, id, is_signaled, &outcome);
                let moved = progress.at - before;
                self.spare = Some(progress);
                Step::Moved(moved)
            }
            Err(Nak::NotReady) => self.wait(index, peer, progress),
            Err(nak) => self.fail(index, id, nak.status()),
        }
    }

    /// The effect of the next slice at the peer, and behind the last one that of the message.
    #[inline]
    fn step(&mut self, peer: usize, progress: &mut Progress) -> Result<(), Nak> {
        let Progress { request, at, has_begun, .. } = progress;
        let request = &*request;
        let Request { completion, length, remote, immediate, local, .. } = request;
        let len = (*length - *at).min(SLICE);
        let from = request.near();
        match *completion {
            WcOpcode::SEND => {
                if !*has_begun {
                    self.begin_receive(peer, *length)?;
                }
                self.receive_segment(peer, &from, len)?;
            }
            WcOpcode::WRITE => self.write_segment(peer, &from, remote, *at, len)?,
            WcOpcode::READ => self.read_segment(peer, remote, Sink::Ranges(local), *at, len)?,
            _ => {
                let before = self.atomic(peer, remote, request.atomic())?;
                self.put(&Source::Bytes(&before.to_le_bytes()), local, 0, len).map_err(|_| Nak::Local)?;
            }
        }
        *has_begun = true;
        *at += len;
        if *at < *length {
            return Ok(());
        }
        match (*completion, *immediate) {
            (WcOpcode::SEND, immediate) => self.end_receive(peer, immediate),
            (WcOpcode::WRITE, Some(immediate)) => self.end_write(peer, *length, immediate)?,
            _ => {}
        }
        Ok(())
    }

    /// Keeps a request for the next round, unless its queue pair is in error by now.
    fn keep(&mut self, index: usize, progress: Box<Progress>) {
        if let Some(qp) = self.qp_mut(index).filter(|qp| qp.state == QpState::RTS) {
            qp.progress = Some(progress);
        }
    }

    /// Tries a request again in the next round, as long as the peer may have no receive request for it.
    #[cold]
    fn wait(&mut self, index: usize, peer: usize, mut progress: Box<Progress>) -> Step {
        let timer = self.qp(peer).map_or(0, |peer| rnr_delay(peer.rnr_timer));
        let limit = self.qp(index).map(|qp| qp.rnr_retry).filter(|retry| *retry < Object::FOR_EVER);
        let now = self.now;
        let give_up = limit.map(|retry| *progress.give_up.get_or_insert(now + u64::from(retry) * timer));
        if give_up.is_some_and(|at| at <= now) {
            return self.fail(index, progress.request.id, Nak::NotReady.status());
        }
        self.keep(index, progress);
        Step::Idle
    }

    /// Completes the next send request with an error; the queue pair is in error from now on.
    #[cold]
    pub(super) fn fail(&mut self, index: usize, id: u64, status: WcStatus) -> Step {
        self.complete_send(index, id, true, &Outcome { status, ..Outcome::of(WcOpcode::SEND) });
        self.set_state(index, QpState::ERR);
        Step::Failed
    }

    /// Completes a request of a queue pair in error: sends first, then receives, each in their order.
    fn flush(&mut self, index: usize) -> Step {
        let status = WcStatus::WR_FLUSH_ERR;
        let Some(qp) = self.qp(index) else { return Step::Idle };
        if self.is_there(&qp.sends) {
            // The number is at the same place in both kinds of requests.
            let mut entry = ReceiveEntry::new_zeroed();
            self.read_line(&qp.sends, entry.as_mut_bytes());
            return self.fail(index, entry.id, status);
        }
        if self.flush_receive(index) { Step::Failed } else { Step::Idle }
    }
}
