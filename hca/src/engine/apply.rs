//! The effect of messages at the queue pair that they come to: checks and does one segment, of any wire.
//!
//! A segment is a slice of a message on the wire `self`, and what one packet brings on others. A message is
//!
//! | opcode | first | each segment, in order | behind the last one |
//! |---|---|---|---|
//! | SEND | [`Engine::begin_receive`] | [`Engine::receive_segment`] | [`Engine::end_receive`] |
//! | WRITE | | [`Engine::write_segment`] | with an immediate value: [`Engine::end_write`] |
//! | READ | | [`Engine::read_segment`] | |
//! | atomic | | [`Engine::atomic`], once | |
//!
//! `qp` is the responder's queue pair; the caller has seen that it is connected and in order. What it sends are bytes
//! of a packet or memory of this section ([`Source`]), what it reads goes likewise ([`Sink`]). A [`Nak`] says what to
//! answer the requester: nothing of the segment has happened, and the responder's own request is completed and its
//! queue pair in error, unless it is [`Nak::NotReady`] or [`Nak::Local`]. A responder over packets keeps the place
//! within a WRITE or READ itself, and the value of an atomic access for those that ask again; the place within a SEND
//! is in [`Receive`].
//!
//! A requester over packets has [`Engine::get`] for what it sends, and [`Engine::put`] for what it has read.

use super::Engine;
use super::outcome::Outcome;
use core::sync::atomic::{Ordering, fence};
use hamr_comm::abi::window::{AtomicOp, OutOfWindow};
use hamr_verbs::ring::Ring;
use hamr_verbs::wire::{Access, MAX_RECEIVE_SGE, MAX_SEND_SGE, QpState, ReceiveEntry, Sge, WORD, WcOpcode, WcStatus};
use zerocopy::{FromZeros, IntoBytes};

/// Bytes that are copied at once, so that a long message does not keep the others.
pub const SLICE: u64 = 256 << 10;

/// Parts of registered memory, one behind the other: what a request names, as a private copy. Keys are looked up at
/// each segment, so that nothing goes to a region that was deregistered meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Ranges {
    sges: [Sge; MAX_SEND_SGE],
    count: u32,
    right: Access,
}

/// Memory of the section, checked.
#[derive(Clone, Copy, Default)]
struct Part {
    off: u64,
    len: u64,
}

/// Where the bytes of a segment come from.
pub(super) enum Source<'a> {
    /// Memory from the place of the segment on.
    Ranges(&'a Ranges),
    /// The bytes of the segment, such as those of a packet.
    Bytes(&'a [u8]),
}

/// Where they go.
pub(super) enum Sink<'a> {
    /// Memory from the place of the segment on.
    Ranges(&'a Ranges),
    /// A packet's room for the segment.
    Bytes(&'a mut [u8]),
}

/// An end that has no such memory. Nothing was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    Source,
    Target,
}

/// Why a responder refuses a segment (see the module).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Nak {
    /// There is no receive request yet.
    NotReady,
    /// The message is too long, or an atomic access is not aligned.
    Invalid,
    /// A key, range or right.
    Access,
    /// The receive request is wrong.
    Operation,
    /// Memory of the requester. Never, where it is another adapter's.
    Local,
}

impl Nak {
    /// The outcome of the request.
    pub(super) fn status(self) -> WcStatus {
        match self {
            Self::NotReady => WcStatus::RNR_RETRY_EXC_ERR,
            Self::Invalid => WcStatus::REM_INV_REQ_ERR,
            Self::Access => WcStatus::REM_ACCESS_ERR,
            Self::Operation => WcStatus::REM_OP_ERR,
            Self::Local => WcStatus::LOC_PROT_ERR,
        }
    }
}

/// A receive request that a message has taken: a private copy.
#[derive(Clone, Copy)]
pub(super) struct Receive {
    pub(super) id: u64,
    /// Its position in its queue.
    pub(super) position: u32,
    /// The shared receive queue that it was in.
    pub(super) srq: Option<usize>,
    into: Ranges,
    /// Bytes of the message that have come.
    pub(super) at: u64,
}

impl Ranges {
    /// What local keys name: at most as many as a request has.
    pub(super) fn local(sges: &[Sge], right: Access) -> Self {
        let mut all = [Sge::default(); MAX_SEND_SGE];
        all.iter_mut().zip(sges).for_each(|(to, sge)| *to = *sge);
        Self { sges: all, count: sges.len() as u32, right }
    }

    /// The first `count` of these.
    pub(super) const fn first(sges: [Sge; MAX_SEND_SGE], count: usize, right: Access) -> Self {
        Self { sges, count: count as u32, right }
    }

    /// What a remote key names, for the right that the peer needs.
    pub(super) fn remote(addr: u64, rkey: u32, len: u32, right: Access) -> Self {
        Self::local(&[Sge { addr, len, lkey: rkey }], right)
    }

    /// The first of them, which is all of what a remote key names.
    pub(super) fn whole(&self) -> Sge {
        self.sges[0]
    }

    fn sges(&self) -> &[Sge] {
        self.sges.get(..self.count as usize).unwrap_or(&self.sges)
    }

    /// Bytes of it.
    pub(super) fn len(&self) -> u64 {
        self.sges().iter().map(|sge| u64::from(sge.len)).sum()
    }
}

/// The rest of the part in which byte `at` is.
fn rest(parts: &[Part], mut at: u64) -> Part {
    for part in parts {
        if at < part.len {
            return Part { off: part.off + at, len: part.len - at };
        }
        at -= part.len;
    }
    Part::default()
}

/// Of memory that was checked: the caller's check was of other bytes.
impl From<OutOfWindow> for Refused {
    fn from(_: OutOfWindow) -> Self {
        Self::Target
    }
}

impl<K> Engine<K> {
    /// The memory that a scatter entry names. `None`: a wrong key, range or right. Of no bytes nothing is looked at.
    fn part(&self, sge: &Sge, right: Access) -> Option<Part> {
        if sge.len == 0 {
            return Some(Part::default());
        }
        let region = self.regions.get(sge.lkey as usize & 0xFF)?.as_ref()?;
        let (at, len) = (sge.addr.checked_sub(region.iova)?, u64::from(sge.len));
        let is_inside = at.checked_add(len).is_some_and(|end| end <= region.len);
        let is_ours = region.lkey == sge.lkey && region.access.has(right);
        (is_inside && is_ours).then_some(Part { off: region.off + at, len })
    }

    fn parts(&self, ranges: &Ranges) -> Option<[Part; MAX_SEND_SGE]> {
        let mut parts = [Part::default(); MAX_SEND_SGE];
        for (part, sge) in parts.iter_mut().zip(ranges.sges()) {
            *part = self.part(sge, ranges.right)?;
        }
        Some(parts)
    }

    /// Are all of these there?
    pub(super) fn has(&self, ranges: &Ranges) -> bool {
        ranges.sges().iter().all(|sge| self.part(sge, ranges.right).is_some())
    }

    /// Copies `len` bytes to place `at` of `to`: the last one is loaded first and stored last, behind all others, so
    /// that who sees it sees the rest. Both ends may overlap.
    pub(super) fn put(&self, from: &Source<'_>, to: &Ranges, at: u64, len: u64) -> Result<(), Refused> {
        let Some(last) = len.checked_sub(1) else { return Ok(()) };
        let to = self.parts(to).ok_or(Refused::Target)?;
        let from_parts = match from {
            Source::Ranges(from) => self.parts(from).ok_or(Refused::Source)?,
            Source::Bytes(_) => [Part::default(); MAX_SEND_SGE],
        };
        let last_to = rest(&to, at + last);
        if last_to.len == 0 {
            return Err(Refused::Target);
        }
        let last_byte = match from {
            Source::Ranges(_) => {
                let last_from = rest(&from_parts, at + last);
                if last_from.len == 0 {
                    return Err(Refused::Source);
                }
                self.window.load::<u8>(last_from.off)?
            }
            Source::Bytes(bytes) => *bytes.get(last as usize).ok_or(Refused::Source)?,
        };
        let mut done = 0;
        while done < last {
            let to = rest(&to, at + done);
            let most = to.len.min(last - done);
            let copied = match from {
                Source::Ranges(_) => {
                    let from = rest(&from_parts, at + done);
                    let len = most.min(from.len);
                    self.window.copy_within(from.off, to.off, len)?;
                    len
                }
                Source::Bytes(bytes) => {
                    let bytes = bytes.get(done as usize..(done + most) as usize).ok_or(Refused::Source)?;
                    self.window.write_bytes(to.off, bytes)?;
                    most
                }
            };
            // Both ends have the last byte, so they have those before it.
            if copied == 0 {
                return Err(Refused::Source);
            }
            done += copied;
        }
        // With the observation of the byte at the device.
        fence(Ordering::Release);
        Ok(self.window.store::<u8>(last_to.off, last_byte)?)
    }

    /// Copies the bytes at place `at` of `from` out.
    pub(super) fn get(&self, from: &Ranges, at: u64, to: &mut [u8]) -> Result<(), Refused> {
        let parts = self.parts(from).ok_or(Refused::Source)?;
        let mut done = 0;
        while done < to.len() {
            let part = rest(&parts, at + done as u64);
            let left = to.get_mut(done..).unwrap_or_default();
            let len = left.len().min(usize::try_from(part.len).unwrap_or(usize::MAX));
            let left = left.get_mut(..len).filter(|left| !left.is_empty()).ok_or(Refused::Source)?;
            self.window.read_bytes(part.off, left).map_err(|_| Refused::Source)?;
            done += len;
        }
        Ok(())
    }

    /// Is the entry at a position there?
    pub(super) fn is_there(&self, ring: &Ring, x: u32) -> bool {
        self.window.word(ring.word(x)).is_ok_and(|word| word.observe() == ring.expected(x))
    }

    /// The first line of an entry without its word.
    pub(super) fn read_line(&self, at: u64, to: &mut [u8]) -> bool {
        to.get_mut(..WORD as usize).is_some_and(|to| self.window.read_bytes(at, to).is_ok())
    }

    /// The ring of receives of a queue pair, and the position of its next one.
    fn receives(&self, qp: usize) -> Option<(Ring, u32)> {
        let qp = self.qp(qp)?;
        match qp.srq {
            Some(srq) => self.shared_receive_queues.get(srq)?.as_ref().map(|srq| (srq.ring, srq.next())),
            None => Some((qp.receives, qp.received)),
        }
    }

    /// Has a queue pair a receive request?
    pub(super) fn has_receive(&self, qp: usize) -> bool {
        self.receives(qp).is_some_and(|(ring, x)| self.is_there(&ring, x))
    }

    /// Bytes that the next receive request has room for. `None`: there is none.
    pub(super) fn receive_room(&self, qp: usize) -> Option<u64> {
        let (ring, x) = self.receives(qp).filter(|(ring, x)| self.is_there(ring, *x))?;
        let mut entry = ReceiveEntry::new_zeroed();
        self.read_line(ring.entry(x), entry.as_mut_bytes());
        let sges = entry.sge.iter().take(entry.sges as usize);
        Some(sges.map(|sge| u64::from(sge.len)).sum())
    }

    /// Takes the next receive request. What it names is not looked at.
    fn take_receive(&mut self, qp: usize) -> Result<Receive, Nak> {
        let (ring, x) = self.receives(qp).filter(|(ring, x)| self.is_there(ring, *x)).ok_or(Nak::NotReady)?;
        let mut entry = ReceiveEntry::new_zeroed();
        let is_read = self.read_line(ring.entry(x), entry.as_mut_bytes());
        let srq = self.qp(qp).and_then(|qp| qp.srq);
        let next = x.wrapping_add(1);
        match srq {
            Some(srq) => {
                if let Some(Some(srq)) = self.shared_receive_queues.get_mut(srq)
                    && srq.returned.pop_front().is_none()
                {
                    srq.taken = next;
                }
            }
            None => {
                if let Some(qp) = self.qp_mut(qp) {
                    qp.received = next;
                }
            }
        }
        let count = entry.sges as usize;
        let into = Ranges::local(entry.sge.get(..count).unwrap_or_default(), Access::LOCAL_WRITE);
        let receive = Receive { id: entry.id, position: x, srq, into, at: 0 };
        if !is_read || count > MAX_RECEIVE_SGE {
            return Err(self.refuse(qp, Some(receive), WcStatus::LOC_QP_OP_ERR, Nak::Operation));
        }
        Ok(receive)
    }

    /// Puts a responder in error, behind the completion of the receive request that a message has taken.
    fn refuse(&mut self, qp: usize, receive: Option<Receive>, status: WcStatus, nak: Nak) -> Nak {
        if let Some(receive) = receive {
            self.complete_receive(qp, &receive, &Outcome { status, ..Outcome::of(WcOpcode::RECV) });
        }
        self.set_state(qp, QpState::ERR);
        nak
    }

    /// Takes a receive request for a message of at least so many bytes.
    pub(super) fn begin_receive(&mut self, qp: usize, length: u64) -> Result<(), Nak> {
        if self.qp(qp).is_none_or(|qp| qp.receiving.is_some()) {
            return Err(self.refuse(qp, None, WcStatus::SUCCESS, Nak::Invalid));
        }
        let receive = self.take_receive(qp)?;
        if !self.has(&receive.into) {
            return Err(self.refuse(qp, Some(receive), WcStatus::LOC_PROT_ERR, Nak::Operation));
        }
        if receive.into.len() < length {
            return Err(self.refuse(qp, Some(receive), WcStatus::LOC_LEN_ERR, Nak::Invalid));
        }
        if let Some(qp) = self.qp_mut(qp) {
            qp.receiving = Some(receive);
        }
        Ok(())
    }

    /// Copies the next bytes of the message that a receive request was taken for.
    pub(super) fn receive_segment(&mut self, qp: usize, from: &Source<'_>, len: u64) -> Result<(), Nak> {
        let Some(mut receive) = self.qp(qp).and_then(|qp| qp.receiving) else {
            return Err(self.refuse(qp, None, WcStatus::SUCCESS, Nak::Invalid));
        };
        let refused = if receive.into.len() - receive.at < len {
            Some((WcStatus::LOC_LEN_ERR, Nak::Invalid))
        } else {
            match self.put(from, &receive.into, receive.at, len) {
                Err(Refused::Source) => return Err(Nak::Local),
                Err(Refused::Target) => Some((WcStatus::LOC_PROT_ERR, Nak::Operation)),
                Ok(()) => None,
            }
        };
        receive.at += len;
        if let Some(qp) = self.qp_mut(qp) {
            qp.receiving = refused.is_none().then_some(receive);
        }
        match refused {
            Some((status, nak)) => Err(self.refuse(qp, Some(receive), status, nak)),
            None => Ok(()),
        }
    }

    /// Completes the receive request of a message of which all has come.
    pub(super) fn end_receive(&mut self, qp: usize, immediate: Option<u32>) {
        if let Some(receive) = self.qp_mut(qp).and_then(|qp| qp.receiving.take()) {
            let length = receive.at as u32;
            self.complete_receive(qp, &receive, &Outcome { length, immediate, ..Outcome::of(WcOpcode::RECV) });
        }
    }

    /// Writes the bytes at place `at` of what the peer names.
    pub(super) fn write_segment(
        &mut self,
        qp: usize,
        from: &Source<'_>,
        to: &Ranges,
        at: u64,
        len: u64,
    ) -> Result<(), Nak> {
        match self.put(from, to, at, len) {
            Ok(()) => Ok(()),
            Err(Refused::Source) => Err(Nak::Local),
            Err(Refused::Target) => Err(self.refuse(qp, None, WcStatus::SUCCESS, Nak::Access)),
        }
    }

    /// Completes a receive request with the immediate value of a write of so many bytes.
    pub(super) fn end_write(&mut self, qp: usize, length: u64, immediate: u32) -> Result<(), Nak> {
        let receive = self.take_receive(qp)?;
        let outcome =
            Outcome { length: length as u32, immediate: Some(immediate), ..Outcome::of(WcOpcode::RECV_WITH_IMM) };
        self.complete_receive(qp, &receive, &outcome);
        Ok(())
    }

    /// Reads the bytes at place `at` of what the peer names.
    pub(super) fn read_segment(
        &mut self,
        qp: usize,
        from: &Ranges,
        to: Sink<'_>,
        at: u64,
        len: u64,
    ) -> Result<(), Nak> {
        let read = match to {
            Sink::Ranges(to) => self.put(&Source::Ranges(from), to, at, len),
            Sink::Bytes(to) => self.get(from, at, to),
        };
        match read {
            Ok(()) => Ok(()),
            Err(Refused::Target) => Err(Nak::Local),
            Err(Refused::Source) => Err(self.refuse(qp, None, WcStatus::SUCCESS, Nak::Access)),
        }
    }

    /// Does an atomic access to the eight bytes that the peer names; the value before it. It is one with all others of
    /// this adapter, and with the atomic accesses of the device.
    pub(super) fn atomic(&mut self, qp: usize, at: &Ranges, op: AtomicOp<u64>) -> Result<u64, Nak> {
        let part = self.parts(at).map(|parts| rest(&parts, 0)).filter(|part| part.len == size_of::<u64>() as u64);
        let done = match part {
            None => Err(Nak::Access),
            // Aligned where it is, whatever its address is.
            Some(part) => self.window.atomic(part.off, op).map_err(|_| Nak::Invalid),
        };
        done.map_err(|nak| self.refuse(qp, None, WcStatus::SUCCESS, nak))
    }

    /// Completes the next receive request of a queue pair in error: the one of a message that has not ended, then those
    /// of its own that no message has taken. False: there is none.
    pub(super) fn flush_receive(&mut self, qp: usize) -> bool {
        let taken = self.qp_mut(qp).and_then(|qp| qp.receiving.take());
        let is_own = self.qp(qp).is_some_and(|qp| qp.srq.is_none());
        let receive = match taken {
            Some(receive) => Ok(receive),
            None if is_own => self.take_receive(qp),
            None => Err(Nak::NotReady),
        };
        let outcome = Outcome { status: WcStatus::WR_FLUSH_ERR, ..Outcome::of(WcOpcode::RECV) };
        match receive {
            Ok(receive) => self.complete_receive(qp, &receive, &outcome),
            Err(nak) => return nak != Nak::NotReady,
        }
        true
    }
}
