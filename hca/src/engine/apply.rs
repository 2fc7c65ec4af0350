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
use hamr_verbs::ring::Cursor;
use hamr_verbs::wire::{Access, MAX_RECEIVE_SGE, MAX_SEND_SGE, QpState, ReceiveEntry, Sge, WORD, WcOpcode, WcStatus};
use zerocopy::{FromZeros, IntoBytes};

/// Bytes that are copied at once, so that a long message does not keep the others.
pub const SLICE: u64 = 256 << 10;

/// Bytes that one access stores.
const WHOLE: u64 = size_of::<u64>() as u64;

/// Parts of registered memory, one behind the other: what a request names, as a private copy. Keys are looked up at
/// each segment, so that nothing goes to a region that was deregistered meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Ranges {
    sges: [Sge; MAX_SEND_SGE],
    count: u32,
    right: Access,
}

/// Memory of the section, checked.
#[derive(Clone, Copy)]
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
    pub(super) const NONE: Self =
        Self { sges: [Sge { addr: 0, len: 0, lkey: 0 }; MAX_SEND_SGE], count: 0, right: Access::READ };

    /// What a remote key names, for the right that the peer needs.
    pub(super) fn remote(addr: u64, rkey: u32, len: u32, right: Access) -> Self {
        let mut this = Self::NONE;
        this.set(Sge { addr, len, lkey: rkey }, 1, right);
        this
    }

    /// Becomes `count` of these: the first, and the others, which are for the caller to set.
    #[inline]
    pub(super) fn set(&mut self, sge: Sge, count: usize, right: Access) -> &mut [Sge] {
        let [first, others @ ..] = &mut self.sges;
        (*first, self.count, self.right) = (sge, count as u32, right);
        others
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

impl Part {
    const NOTHING: Self = Self { off: 0, len: 0 };
}

/// Of memory that was checked: the caller's check was of other bytes.
impl From<OutOfWindow> for Refused {
    fn from(_: OutOfWindow) -> Self {
        Self::Target
    }
}

impl<K> Engine<K> {
    /// The memory that a scatter entry names. `None`: a wrong key, range or right. Of no bytes nothing is looked at.
    #[inline]
    fn part(&self, sge: &Sge, right: Access) -> Option<Part> {
        if sge.len == 0 {
            return Some(Part::NOTHING);
        }
        let region = self.regions.get(sge.lkey as usize & 0xFF)?.as_ref()?;
        let (at, len) = (sge.addr.checked_sub(region.iova)?, u64::from(sge.len));
        let is_inside = at.checked_add(len).is_some_and(|end| end <= region.len);
        let is_ours = region.lkey == sge.lkey && region.access.has(right);
        (is_inside && is_ours).then_some(Part { off: region.off + at, len })
    }

    /// The rest of the part in which byte `at` is, of no bytes behind the last. `None`: not all of them are there.
    #[inline]
    fn rest(&self, ranges: &Ranges, mut at: u64) -> Option<Part> {
        let mut found = Part::NOTHING;
        for sge in ranges.sges() {
            let Part { off, len } = self.part(sge, ranges.right)?;
            if found.len == 0 && at < len {
                found = Part { off: off + at, len: len - at };
            }
            at = at.saturating_sub(len);
        }
        Some(found)
    }

    /// The bytes of all of these. `None`: not all of them are there.
    #[inline]
    pub(super) fn total(&self, ranges: &Ranges) -> Option<u64> {
        ranges
            .sges()
            .iter()
            .try_fold(0, |sum, sge| Some(sum + self.part(sge, ranges.right).map(|_| u64::from(sge.len))?))
    }

    /// Copies `len` bytes to place `at` of `to`: the last one is loaded first and stored last, behind all others, so
    /// that who sees it sees the rest. Both ends may overlap.
    pub(super) fn put(&self, from: &Source<'_>, to: &Ranges, at: u64, len: u64) -> Result<(), Refused> {
        let Some(last) = len.checked_sub(1) else { return Ok(()) };
        let to_rest = |done| self.rest(to, at + done).filter(|part| part.len != 0).ok_or(Refused::Target);
        let from_rest = |done: u64| {
            let part = match from {
                Source::Ranges(from) => self.rest(from, at + done),
                // From the front of the slice.
                Source::Bytes(bytes) => Some(Part { off: done, len: (bytes.len() as u64).saturating_sub(done) }),
            };
            part.filter(|part| part.len != 0).ok_or(Refused::Source)
        };
        let (mut to_part, mut from_part) = (to_rest(0)?, from_rest(0)?);
        if len == WHOLE && to_part.len.min(from_part.len) >= WHOLE && (to_part.off | from_part.off) % WHOLE == 0 {
            // All bytes are the last one.
            let value = match from {
                Source::Ranges(_) => self.window.load::<u64>(from_part.off)?,
                Source::Bytes(bytes) => bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)),
            };
            fence(Ordering::Release);
            return Ok(self.window.store::<u64>(to_part.off, value)?);
        }
        let last_to = if last < to_part.len { to_part.off + last } else { to_rest(last)?.off };
        let last_from = if last < from_part.len { from_part.off + last } else { from_rest(last)?.off };
        let last_byte = match from {
            Source::Ranges(_) => self.window.load::<u8>(last_from)?,
            Source::Bytes(bytes) => *bytes.get(last_from as usize).ok_or(Refused::Source)?,
        };
        let mut done = 0;
        while done < last {
            let len = to_part.len.min(from_part.len).min(last - done);
            match from {
                Source::Ranges(_) => self.window.copy_within(from_part.off, to_part.off, len)?,
                Source::Bytes(bytes) => {
                    let bytes = bytes.get(done as usize..(done + len) as usize).ok_or(Refused::Source)?;
                    self.window.write_bytes(to_part.off, bytes)?;
                }
            }
            done += len;
            if done < last {
                (to_part, from_part) = (to_rest(done)?, from_rest(done)?);
            }
        }
        // With the observation of the byte at the device.
        fence(Ordering::Release);
        Ok(self.window.store::<u8>(last_to, last_byte)?)
    }

    /// Copies the bytes at place `at` of `from` out.
    pub(super) fn get(&self, from: &Ranges, at: u64, to: &mut [u8]) -> Result<(), Refused> {
        let mut done = 0;
        while done < to.len() {
            let part = self.rest(from, at + done as u64).ok_or(Refused::Source)?;
            let left = to.get_mut(done..).unwrap_or_default();
            let len = left.len().min(usize::try_from(part.len).unwrap_or(usize::MAX));
            let left = left.get_mut(..len).filter(|left| !left.is_empty()).ok_or(Refused::Source)?;
            self.window.read_bytes(part.off, left).map_err(|_| Refused::Source)?;
            done += len;
        }
        Ok(())
    }

    /// Is the entry at a position there?
    #[inline]
    pub(super) fn is_there(&self, at: &Cursor) -> bool {
        self.window.word(at.word()).is_ok_and(|word| word.observe() == at.expected())
    }

    /// The first line of an entry without its word.
    #[inline]
    pub(super) fn read_line(&self, at: &Cursor, to: &mut [u8]) -> bool {
        to.get_mut(..WORD as usize).is_some_and(|to| self.window.read_bytes(at.entry(), to).is_ok())
    }

    /// The next receive request of a queue pair, if there is one.
    fn next_receive(&self, qp: usize) -> Option<&Cursor> {
        let qp = self.qp(qp)?;
        let next = match qp.srq {
            Some(srq) => self.shared_receive_queues.get(srq)?.as_ref()?.next(),
            None => &qp.receives,
        };
        self.is_there(next).then_some(next)
    }

    /// Has a queue pair a receive request?
    pub(super) fn has_receive(&self, qp: usize) -> bool {
        self.next_receive(qp).is_some()
    }

    /// Bytes that the next receive request has room for. `None`: there is none.
    pub(super) fn receive_room(&self, qp: usize) -> Option<u64> {
        let mut entry = ReceiveEntry::new_zeroed();
        self.read_line(self.next_receive(qp)?, entry.as_mut_bytes());
        let sges = entry.sge.iter().take(entry.sges as usize);
        Some(sges.map(|sge| u64::from(sge.len)).sum())
    }

    /// Takes the next receive request for a new message. What it names is not looked at.
    fn take_receive(&mut self, index: usize) -> Result<(), Nak> {
        if self.qp(index).is_some_and(|qp| qp.receiving.is_some()) {
            return Err(self.refuse(index, Nak::Invalid));
        }
        let at = *self.next_receive(index).ok_or(Nak::NotReady)?;
        let mut entry = ReceiveEntry::new_zeroed();
        let is_read = self.read_line(&at, entry.as_mut_bytes());
        let Some(Some(qp)) = self.queue_pairs.get_mut(index) else { return Err(Nak::NotReady) };
        match qp.srq.and_then(|srq| self.shared_receive_queues.get_mut(srq)) {
            Some(Some(srq)) => {
                if srq.returned.pop_front().is_none() {
                    srq.receives = at.plus(1);
                }
            }
            _ => qp.receives = at.plus(1),
        }
        let receive = qp.receiving.insert(Receive {
            id: entry.id,
            position: at.position(),
            srq: qp.srq,
            into: Ranges::NONE,
            at: 0,
        });
        let count = entry.sges as usize;
        if !is_read || count > MAX_RECEIVE_SGE {
            return Err(self.refuse_receive(index, WcStatus::LOC_QP_OP_ERR, Nak::Operation));
        }
        let [first, second] = entry.sge;
        if let [to, ..] = receive.into.set(first, count, Access::LOCAL_WRITE) {
            *to = second;
        }
        Ok(())
    }

    /// Puts a responder in error.
    fn refuse(&mut self, qp: usize, nak: Nak) -> Nak {
        self.set_state(qp, QpState::ERR);
        nak
    }

    /// The same behind the completion of the receive request that a message has taken.
    #[cold]
    fn refuse_receive(&mut self, qp: usize, status: WcStatus, nak: Nak) -> Nak {
        self.complete_receive(qp, &Outcome { status, ..Outcome::of(WcOpcode::RECV) });
        self.refuse(qp, nak)
    }

    /// Takes a receive request for a message of at least so many bytes.
    pub(super) fn begin_receive(&mut self, qp: usize, length: u64) -> Result<(), Nak> {
        self.take_receive(qp)?;
        let Some(receive) = self.qp(qp).and_then(|qp| qp.receiving.as_ref()) else { return Err(Nak::NotReady) };
        match self.total(&receive.into) {
            None => Err(self.refuse_receive(qp, WcStatus::LOC_PROT_ERR, Nak::Operation)),
            Some(room) if room < length => Err(self.refuse_receive(qp, WcStatus::LOC_LEN_ERR, Nak::Invalid)),
            Some(_) => Ok(()),
        }
    }

    /// Copies the next bytes of the message that a receive request was taken for.
    pub(super) fn receive_segment(&mut self, qp: usize, from: &Source<'_>, len: u64) -> Result<(), Nak> {
        let Some(receive) = self.qp(qp).and_then(|qp| qp.receiving.as_ref()) else {
            return Err(self.refuse(qp, Nak::Invalid));
        };
        if receive.into.len() - receive.at < len {
            return Err(self.refuse_receive(qp, WcStatus::LOC_LEN_ERR, Nak::Invalid));
        }
        match self.put(from, &receive.into, receive.at, len) {
            Err(Refused::Source) => return Err(Nak::Local),
            Err(Refused::Target) => return Err(self.refuse_receive(qp, WcStatus::LOC_PROT_ERR, Nak::Operation)),
            Ok(()) => {}
        }
        if let Some(receive) = self.qp_mut(qp).and_then(|qp| qp.receiving.as_mut()) {
            receive.at += len;
        }
        Ok(())
    }

    /// Completes the receive request of a message of which all has come.
    pub(super) fn end_receive(&mut self, qp: usize, immediate: Option<u32>) {
        if let Some(receive) = self.qp(qp).and_then(|qp| qp.receiving.as_ref()) {
            let length = receive.at as u32;
            self.complete_receive(qp, &Outcome { length, immediate, ..Outcome::of(WcOpcode::RECV) });
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
            Err(Refused::Target) => Err(self.refuse(qp, Nak::Access)),
        }
    }

    /// Completes a receive request with the immediate value of a write of so many bytes.
    pub(super) fn end_write(&mut self, qp: usize, length: u64, immediate: u32) -> Result<(), Nak> {
        self.take_receive(qp)?;
        let outcome =
            Outcome { length: length as u32, immediate: Some(immediate), ..Outcome::of(WcOpcode::RECV_WITH_IMM) };
        self.complete_receive(qp, &outcome);
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
            Err(Refused::Source) => Err(self.refuse(qp, Nak::Access)),
        }
    }

    /// Does an atomic access to the eight bytes that the peer names; the value before it. It is one with all others of
    /// this adapter, and with the atomic accesses of the device.
    pub(super) fn atomic(&mut self, qp: usize, at: &Ranges, op: AtomicOp<u64>) -> Result<u64, Nak> {
        let part = self.rest(at, 0).filter(|part| part.len == size_of::<u64>() as u64);
        let done = match part {
            None => Err(Nak::Access),
            // Aligned where it is, whatever its address is.
            Some(part) => self.window.atomic(part.off, op).map_err(|_| Nak::Invalid),
        };
        done.map_err(|nak| self.refuse(qp, nak))
    }

    /// Completes the next receive request of a queue pair in error: the one of a message that has not ended, then those
    /// of its own that no message has taken. False: there is none.
    pub(super) fn flush_receive(&mut self, qp: usize) -> bool {
        let Some((receiving, srq)) = self.qp(qp).map(|qp| (&qp.receiving, qp.srq)) else { return false };
        let taken = match (receiving, srq) {
            (Some(_), _) => Ok(()),
            (None, None) => self.take_receive(qp),
            (None, Some(_)) => Err(Nak::NotReady),
        };
        match taken {
            Ok(()) => {
                self.complete_receive(qp, &Outcome { status: WcStatus::WR_FLUSH_ERR, ..Outcome::of(WcOpcode::RECV) });
                true
            }
            Err(nak) => nak != Nak::NotReady,
        }
    }
}
