//! Requests to move data, and flushes: what a queue pair does in a round. The wire is `self`: its peer is in the same
//! engine, and each request is one message for it.

use super::Engine;
use super::apply::{Nak, Ranges, SLICE, Sink, Source};
use super::outcome::Outcome;
use crate::connection::rnr_delay;
use hamr_comm::abi::window::AtomicOp;
use hamr_verbs::ring::Ring;
use hamr_verbs::wire::{
    ATOMIC, Access, LINE, MAX_INLINE, MAX_MESSAGE, MAX_SEND_SGE, Object, Opcode, QpState, ReceiveEntry, SendEntry,
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
    pub(super) immediate: Option<u32>,
    pub(super) length: u64,
    pub(super) local: Local,
    pub(super) remote: Ranges,
    pub(super) operands: [u64; 2],
}

/// Its near end.
pub(super) enum Local {
    Ranges(Ranges),
    Inline([u8; MAX_INLINE]),
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

impl Request {
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
    pub(super) fn serve(&mut self, index: usize) -> u32 {
        let (mut steps, mut bytes) = (0, 0);
        while steps < MOST_REQUESTS && bytes < MOST_BYTES {
            let step = match self.qp(index).map(|qp| qp.state) {
                // Others send packets (`remote`, `datagram`).
                Some(QpState::RTS) if self.qp(index).is_some_and(|qp| qp.peer.is_some()) => self.send(index),
                Some(QpState::ERR) => self.flush(index),
                _ => Step::Idle,
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

    fn send(&mut self, index: usize) -> Step {
        let Some(qp) = self.qp_mut(index) else { return Step::Idle };
        if let Some(progress) = qp.progress.take() {
            return self.go_on(index, progress);
        }
        let (ring, x) = (qp.sends, qp.sent);
        match self.fetch(&ring, x) {
            None => Step::Idle,
            Some(Ok(request)) => self.go_on(index, Progress { request, at: 0, has_begun: false, give_up: None }),
            Some(Err((id, status))) => self.fail(index, id, status),
        }
    }

    /// The checked request at a position, or its number and what is wrong with it. `None`: there is none.
    pub(super) fn fetch(&self, ring: &Ring, x: u32) -> Option<Result<Request, (u64, WcStatus)>> {
        if !self.is_there(ring, x) {
            return None;
        }
        let mut entry = SendEntry::new_zeroed();
        let read = self.read_line(ring.entry(x), entry.as_mut_bytes());
        if entry.head & SendEntry::TWO_LINES != 0 {
            let _ = self.window.read_bytes(ring.entry(x) + LINE, &mut entry.second);
        }
        let request = if read { self.request(&entry) } else { Err(WcStatus::LOC_QP_OP_ERR) };
        Some(request.map_err(|status| (entry.id, status)))
    }

    /// Checks a request, for any wire: what is wrong at the near end is found before anything happens.
    fn request(&self, entry: &SendEntry) -> Result<Request, WcStatus> {
        let (opcode, flags, count) = entry.parts().ok_or(WcStatus::LOC_QP_OP_ERR)?;
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
        let local = if is_inline {
            let room = if has_second { MAX_INLINE } else { entry.first.len() };
            if length > room as u64 {
                return Err(WcStatus::LOC_LEN_ERR);
            }
            Local::Inline(entry.inline())
        } else {
            let right = if brings { Access::READ } else { Access::LOCAL_WRITE };
            let ranges = Ranges::first(entry.sges(), count, right);
            if !self.has(&ranges) {
                return Err(WcStatus::LOC_PROT_ERR);
            }
            if ranges.len() != length || length > MAX_MESSAGE || opcode.is_atomic() && length != u64::from(ATOMIC) {
                return Err(WcStatus::LOC_LEN_ERR);
            }
            Local::Ranges(ranges)
        };
        let right = match completion {
            WcOpcode::READ => Access::REMOTE_READ,
            WcOpcode::WRITE => Access::REMOTE_WRITE,
            _ => Access::REMOTE_ATOMIC,
        };
        Ok(Request {
            id: entry.id,
            opcode,
            completion,
            is_signaled: flags & SendEntry::SIGNALED != 0,
            immediate: opcode.has_immediate().then_some(entry.immediate),
            length,
            local,
            remote: Ranges::remote(entry.remote, entry.rkey, entry.length, right),
            operands: if opcode.is_atomic() { entry.operands() } else { [0; 2] },
        })
    }

    /// Is a queue pair connected with this one, and in order?
    fn is_connected(&self, peer: usize, with: usize) -> bool {
        self.qp(peer).is_some_and(|peer| peer.peer == Some(with) && peer.state == QpState::RTS)
    }

    /// Moves the next slice of a request, and completes it behind the last one.
    fn go_on(&mut self, index: usize, mut progress: Progress) -> Step {
        let (id, before) = (progress.request.id, progress.at);
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
        let done = self.step(peer, &mut progress);
        let Progress { request, at, .. } = &progress;
        match done {
            Ok(()) if *at < request.length => {
                self.keep(index, progress);
                Step::Moved(SLICE)
            }
            Ok(()) => {
                let length = if request.completion.brings() { 0 } else { request.length as u32 };
                let outcome = Outcome { length, ..Outcome::of(request.completion) };
                self.complete_send(index, id, request.is_signaled, &outcome);
                Step::Moved(*at - before)
            }
            Err(Nak::NotReady) => self.wait(index, peer, progress),
            Err(nak) => self.fail(index, id, nak.status()),
        }
    }

    /// The effect of the next slice at the peer, and behind the last one that of the message.
    fn step(&mut self, peer: usize, progress: &mut Progress) -> Result<(), Nak> {
        let Progress { request, at, has_begun, .. } = progress;
        let request = &*request;
        let Request { completion, length, remote, immediate, .. } = request;
        let len = (*length - *at).min(SLICE);
        let nothing = Ranges::local(&[], Access::READ);
        let (from, local) = match &request.local {
            Local::Ranges(ranges) => (Source::Ranges(ranges), ranges),
            Local::Inline(bytes) => (Source::Bytes(bytes), &nothing),
        };
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
    fn keep(&mut self, index: usize, progress: Progress) {
        if let Some(qp) = self.qp_mut(index).filter(|qp| qp.state == QpState::RTS) {
            qp.progress = Some(progress);
        }
    }

    /// Tries a request again in the next round, as long as the peer may have no receive request for it.
    fn wait(&mut self, index: usize, peer: usize, mut progress: Progress) -> Step {
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
    pub(super) fn fail(&mut self, index: usize, id: u64, status: WcStatus) -> Step {
        self.complete_send(index, id, true, &Outcome { status, ..Outcome::of(WcOpcode::SEND) });
        self.set_state(index, QpState::ERR);
        Step::Failed
    }

    /// Completes a request of a queue pair in error: sends first, then receives, each in their order.
    fn flush(&mut self, index: usize) -> Step {
        let status = WcStatus::WR_FLUSH_ERR;
        let Some(qp) = self.qp(index) else { return Step::Idle };
        let (sends, x) = (qp.sends, qp.sent);
        if self.is_there(&sends, x) {
            // The number is at the same place in both kinds of requests.
            let mut entry = ReceiveEntry::new_zeroed();
            self.read_line(sends.entry(x), entry.as_mut_bytes());
            return self.fail(index, entry.id, status);
        }
        if self.flush_receive(index) { Step::Failed } else { Step::Idle }
    }
}
