//! The device's copy where it is read and written, and not mapped: over a bus that only the host drives, or through a debugger
//! (docs/model.md, "Host-driven").
//!
//! A shadow of it in this program is a side as any other. What is put there is written to the device's memory, and what may have
//! changed is read from it first. The device cannot say that it has something, so it is asked: an eighth of the time waited
//! apart. An empty call is one write, of its pair, and one read that finds the reply's.

use super::copies::{DEVICE_BYTES, Pairs, load, of_device, parts, parts_of_offer, publish};
use super::looks::Asked;
use super::queue::{Shape, chunk_of, ticket_of};
use super::{Body, DeviceCopy, DeviceSide, Half, Lost, Message, Side};
use crate::handshake::HostHandshake;
use alloc::vec::Vec;
use core::ops::Range;
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::layout::Layout;
use hamr_shared_abi::preamble::{DEVICE_RECORD, DEVICE_WORDS, HostState, MAGIC, PREAMBLE_BYTES, word};
use hamr_shared_abi::queue::QueueDescriptor;
use hamr_shared_abi::section::Section;
use hamr_shared_abi::slot::{
    INLINE_BYTES, INLINE_WORDS, Place, REP_HDR, REQ_HDR, RepHdr, ReqHdr, SECOND_BYTES, SECOND_WORDS, SLOT_BYTES,
    pair_hdr, pair_seq,
};
use hamr_shared_abi::window::{Shared, Window};
use std::time::{Duration, Instant};

/// Between two looks at states, and at host queues in which nothing has come lately, at least; and ten times as long as one takes.
const ROUND: Duration = Duration::from_millis(1);
/// A sleep lasts so long, at least.
const SHORTEST: Duration = Duration::from_micros(20);
/// Between two looks at a reply, at most.
const LONGEST: Duration = Duration::from_millis(1);
/// Between two looks while nothing is outstanding.
const IDLE: Duration = Duration::from_millis(10);

/// What an access of [`DrivenMemory`] promises, beside: an aligned pair of 8 bytes is read as one, or its word before its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promises {
    /// The bytes of one write are there in their order.
    pub write_ascends: bool,
    /// What a read of a line finds of it was there at one time, or its later bytes before its earlier ones.
    pub line_is_whole: bool,
}

/// A device's memory. Operations take place one behind the other.
pub trait DrivenMemory: Send {
    /// May an access take longer than a caller's own limit? Then a thread that has none makes it.
    const BLOCKS: bool = true;

    /// Of each access.
    fn promises(&self) -> Promises;

    /// Fills `to`.
    ///
    /// # Errors
    /// It is not reached any more, or has no such range.
    fn read(&mut self, off: u64, to: &mut [u8]) -> Result<(), Lost>;

    /// Stores `from`.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn write(&mut self, off: u64, from: &[u8]) -> Result<(), Lost>;
}

/// Which half of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Request,
    Reply,
}

impl Which {
    const fn pair(self) -> usize {
        match self {
            Self::Request => REQ_HDR,
            Self::Reply => REP_HDR,
        }
    }
}

/// The device's copy behind reads and writes.
pub struct DrivenCopy<M> {
    shadow: Window<Shared>,
    copy: DeviceCopy<Shared>,
    memory: M,
    streams: Vec<QueueDescriptor>,
    of_host: Vec<QueueDescriptor>,
    looks: Asked,
    /// Bytes of the shadow that are not written yet, of slots one behind the other.
    unwritten: Range<u64>,
    /// When something was put or found last; when to look again, at replies and at the rest.
    since: Instant,
    next: Instant,
    next_round: Instant,
    /// When the device asked its host for something last, and when to look whether it does again.
    since_asked: Instant,
    next_asked: Instant,
    /// A look out of turn has found a message of a host queue: replies are looked at before the next such look.
    owes_replies: bool,
    /// Slots, for the time of a look.
    numbers: Vec<u32>,
    bytes: Vec<u8>,
}

impl<M: DrivenMemory> DrivenCopy<M> {
    /// Over a device's memory with a window of `len` bytes. In it may be the epoch of an earlier host.
    ///
    /// # Errors
    /// It is not reached.
    pub fn new(mut memory: M, len: u64) -> Result<Self, Lost> {
        let shadow = Window::private(len).share();
        let mut front = [0; PREAMBLE_BYTES as usize];
        memory.read(0, &mut front)?;
        if front.iter().all(|byte| *byte == u8::MAX) {
            // What a bus answers where nothing is.
            return Err(Lost("expected memory, all of its bits are one: there is none, or not yet".into()));
        }
        shadow.write_bytes(0, &front)?;
        let copy = DeviceCopy::new(shadow.part(0, len)?);
        let now = Instant::now();
        Ok(Self {
            shadow,
            copy,
            memory,
            streams: Vec::new(),
            of_host: Vec::new(),
            looks: Asked::default(),
            unwritten: 0..0,
            since: now,
            next: now,
            next_round: now,
            since_asked: now,
            next_asked: now,
            owes_replies: false,
            numbers: Vec::new(),
            bytes: Vec::new(),
        })
    }

    /// Something was put or found: what comes next may come soon.
    fn moved(&mut self) {
        self.since = Instant::now();
        self.next = self.since;
    }

    /// Has the device left the last epoch that was offered, as far as is known?
    pub fn has_left(&self) -> bool {
        let epoch = load(&self.shadow, word::EPOCH).unwrap_or_default();
        HostHandshake::has_acknowledged(&self.shadow, Epoch(epoch))
    }

    /// Writes what was put.
    fn hand_over(&mut self) -> Result<(), Lost> {
        let range = core::mem::replace(&mut self.unwritten, 0..0);
        if range.is_empty() {
            return Ok(());
        }
        self.bytes.resize((range.end - range.start) as usize, 0);
        self.shadow.read_bytes(range.start, &mut self.bytes)?;
        self.memory.write(range.start, &self.bytes)
    }

    /// Has `len` bytes of the shadow written, behind what was before.
    fn push(&mut self, off: u64, len: u64) -> Result<(), Lost> {
        if self.unwritten.end != off || !self.memory.promises().write_ascends {
            self.hand_over()?;
            self.unwritten.start = off;
        }
        self.unwritten.end = off + len;
        Ok(())
    }

    fn read(&mut self, off: u64, to: &mut [u8]) -> Result<(), Lost> {
        self.hand_over()?;
        self.memory.read(off, to)
    }

    /// Brings a range of the shadow up to date.
    fn pull(&mut self, off: u64, len: u64) -> Result<(), Lost> {
        let mut bytes = core::mem::take(&mut self.bytes);
        bytes.resize(len as usize, 0);
        let read = self.read(off, &mut bytes);
        self.bytes = bytes;
        read?;
        Ok(self.shadow.write_bytes(off, &self.bytes)?)
    }

    /// Lays the device's window out, as the shadow is.
    fn push_offer(&mut self) -> Result<(), Lost> {
        const MAGIC_END: u64 = size_of::<u32>() as u64;
        let write_word = |memory: &mut M, off, value: u32| memory.write(off, &value.to_le_bytes());
        let epoch = load(&self.shadow, word::EPOCH)?;
        write_word(&mut self.memory, word::HOST_STATE, HostState::RESET.0)?;
        write_word(&mut self.memory, 0, 0)?;
        write_word(&mut self.memory, word::EPOCH, epoch)?;
        let front = [MAGIC_END..word::EPOCH, word::HOST_ALIVE..word::OPEN_QUEUES, word::HOST_WAIT..PREAMBLE_BYTES];
        let pairs = Pairs::of(&self.shadow)?;
        let sections = parts_of_offer(&pairs.layout).map(|Section { off, len, .. }| off..off.saturating_add(len));
        for range in front.into_iter().chain(sections) {
            self.push(range.start, range.end - range.start)?;
        }
        self.hand_over()?;
        for off in [word::OPEN_QUEUES, word::HOST_STATE, 0] {
            let value = load(&self.shadow, off)?;
            write_word(&mut self.memory, off, value)?;
        }
        (self.streams, self.of_host) = (pairs.streams, pairs.of_host);
        Ok(())
    }

    fn descriptor(&self, half: &Half) -> Option<QueueDescriptor> {
        let all = if half.of_host { &self.of_host } else { &self.streams };
        all.get(usize::from(half.queue)).copied()
    }

    /// Has one half of a slot written that was put into the shadow.
    fn push_half(&mut self, half: &Half) -> Result<(), Lost> {
        let Some(d) = self.descriptor(half) else { return Ok(()) };
        let Some(line) = d.slot(half.slot) else { return Ok(()) };
        let which = if half.of_host { Which::Reply } else { Which::Request };
        let pair = which.pair() as u64;
        if half.header_alone {
            return self.push(line + pair, 4);
        }
        let (len, chunk) = match which {
            Which::Request => {
                let hdr = ReqHdr(half.hdr);
                let has_second = half.slot == 0 && hdr.has_second_line();
                if has_second {
                    self.push(line + SLOT_BYTES as u64, SECOND_BYTES as u64)?;
                }
                if let Some((ticket, _)) = ticket_of(half, Shape::of(&d)) {
                    self.push(d.slot(ticket).unwrap_or(line) + pair, 4)?;
                }
                let chunk = chunk_of(half, Shape::of(&d)).map(|(number, len)| (d.chunk(number), len));
                (if has_second { INLINE_BYTES } else { hdr.len() }, chunk)
            }
            Which::Reply => {
                let chunk = reply_chunk(RepHdr(half.hdr), half.payload, &d);
                (RepHdr(half.hdr).len(), chunk.map(|len| (d.reply_chunk(half.slot), len)))
            }
        };
        if let Some((off, len)) = chunk {
            self.push(off, len as u64)?;
        }
        let end = line + pair + 8;
        match () {
            // One write, and one for all that are side by side.
            () if self.memory.promises().write_ascends && (len != 0 || self.unwritten.end == line) => {
                self.push(line, end - line)
            }
            () => {
                if len != 0 {
                    self.push(line, len.next_multiple_of(8) as u64)?;
                    self.hand_over()?;
                }
                self.push(end - 8, 8)
            }
        }
    }

    /// Looks at one half of a slot, and brings it into the shadow when it is new.
    fn pull_half(&mut self, d: &QueueDescriptor, number: u32, which: Which) -> Result<bool, Lost> {
        let Some(line) = d.slot(number) else { return Ok(false) };
        let at = which.pair();
        let mut bytes = [0; SLOT_BYTES];
        let is_whole = self.memory.promises().line_is_whole;
        let end = at + 8;
        let begin = if is_whole { 0 } else { at };
        self.read(line + begin as u64, &mut bytes[begin..end])?;
        let mut old = [0; 8];
        self.shadow.read_bytes(line + at as u64, &mut old)?;
        let pair: [u8; 8] = bytes[at..end].try_into().unwrap_or_default();
        if pair == old {
            return Ok(false);
        }
        let [new, old] = [pair, old].map(u64::from_le_bytes);
        if pair_seq(new) != pair_seq(old) {
            let (req, rep) = (ReqHdr(pair_hdr(new)), RepHdr(pair_hdr(new)));
            let len = if which == Which::Reply { rep.len() } else { req.len() };
            let len = len.next_multiple_of(8).min(INLINE_WORDS * 8);
            if !is_whole && len != 0 {
                self.read(line, &mut bytes[..len])?;
            }
            self.shadow.write_bytes(line, &bytes[..len])?;
            let mut payload = [0; INLINE_WORDS];
            for (word, bytes) in payload.iter_mut().zip(bytes[..len].chunks_exact(8)) {
                *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            }
            let chunk = match which {
                Which::Reply => reply_chunk(rep, payload, d).map(|len| (d.reply_chunk(number), len)),
                Which::Request => {
                    let (hdr, word, second) = (req.0, pair_seq(new), [0; SECOND_WORDS]);
                    let half =
                        Half { queue: 0, of_host: true, header_alone: false, slot: number, hdr, word, payload, second };
                    chunk_of(&half, Shape::of(d)).map(|(number, len)| (d.chunk(number), len))
                }
            };
            if let Some((off, len)) = chunk {
                self.pull(off, len as u64)?;
            }
        }
        self.shadow.write_bytes(line + at as u64, &pair)?;
        Ok(true)
    }

    /// Looks at the replies that are looked for next, or `all`. True: one is of a fault, behind which there may be another state.
    fn pull_replies(&mut self, all: bool) -> Result<bool, Lost> {
        let mut has_fault = false;
        for queue in 0..self.streams.len() {
            let Some(d) = self.streams.get(queue).copied() else { break };
            let mut numbers = core::mem::take(&mut self.numbers);
            numbers.clear();
            self.copy.awaited(queue, all, &mut numbers);
            let pulled: Result<(), Lost> = numbers.iter().try_for_each(|number| {
                let is_new = self.pull_half(&d, *number, Which::Reply)?;
                has_fault |= is_new && self.is_fault(&d, *number)?;
                Ok(())
            });
            self.numbers = numbers;
            pulled?;
        }
        Ok(has_fault)
    }

    fn is_fault(&self, d: &QueueDescriptor, number: u32) -> Result<bool, Lost> {
        let at = d.slot(number).unwrap_or_default() + Which::Reply.pair() as u64;
        Ok(RepHdr(load(&self.shadow, at)?).has(RepHdr::FAULT))
    }

    /// Looks at what the device asks of its host: in each queue what is outstanding, for CANCEL, and where the next one comes. In the
    /// hot slot last: what is there was published before the ring's, or finds it (rule 8).
    fn pull_of_host(&mut self) -> Result<(), Lost> {
        let begin = Instant::now();
        for queue in 0..self.of_host.len() {
            let Some(d) = self.of_host.get(queue).copied() else { break };
            let mut numbers = core::mem::take(&mut self.numbers);
            numbers.clear();
            self.copy.asked(queue, &mut numbers);
            let pulled: Result<(), Lost> = numbers.iter().try_for_each(|number| {
                if self.pull_half(&d, *number, Which::Request)? {
                    self.since_asked = Instant::now();
                }
                Ok(())
            });
            self.numbers = numbers;
            pulled?;
        }
        let end = Instant::now();
        let took = end - begin;
        self.next_asked = end + ((end - self.since_asked) / 8).max(took).min(ROUND.max(10 * took));
        Ok(())
    }

    /// Looks at the device's state. What was published before a new one, and what stands behind it, is in the shadow before it is.
    fn pull_state(&mut self) -> Result<(), Lost> {
        let mut words = [0; 8];
        self.read(DEVICE_WORDS, &mut words)?;
        let [acknowledged, state] =
            [0, 4].map(|at| words[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)));
        let is_old =
            load(&self.shadow, word::DEVICE_STATE)? == state && load(&self.shadow, word::EPOCH_ACK)? == acknowledged;
        if is_old {
            return Ok(());
        }
        self.pull_replies(true)?;
        self.pull_of_host()?;
        // Without the two words, which come last.
        self.pull(DEVICE_WORDS + 8, DEVICE_BYTES as u64 - 8)?;
        // What an earlier host has laid out is not looked at.
        if !self.streams.is_empty()
            && load(&self.shadow, 0)? == MAGIC
            && let Ok(layout) = Layout::of_window(&self.shadow)
        {
            for section in parts(&layout, of_device(state)) {
                self.pull(section.off, section.len)?;
            }
        }
        publish(&self.shadow, word::EPOCH_ACK, acknowledged)?;
        publish(&self.shadow, word::DEVICE_STATE, state)
    }

    fn answer(&mut self, message: &mut Message) -> Result<bool, Lost> {
        self.hand_over()?;
        self.looks.answer(self.copy.heap(), message, |off, bytes| self.memory.read(off, bytes))
    }
}

/// Bytes in the chunk of a reply.
fn reply_chunk(hdr: RepHdr, payload: [u64; INLINE_WORDS], d: &QueueDescriptor) -> Option<usize> {
    let len = usize::try_from(payload[1]).ok()?;
    (hdr.place() == Place::Chunk && len <= d.rep_chunk as usize).then_some(len)
}

impl<M: DrivenMemory> Side for DrivenCopy<M> {
    fn take(&mut self, message: &mut Message) -> Result<bool, Lost> {
        if self.copy.take(message)? {
            self.moved();
            return Ok(true);
        }
        if !self.looks.is_empty() {
            // Behind what was published before.
            self.look_now();
        }
        let now = Instant::now();
        if now < self.next {
            return Ok(false);
        }
        // Before replies, which may go on for ever.
        let is_round = now >= self.next_round;
        if is_round || now >= self.next_asked && !self.owes_replies {
            self.pull_of_host()?;
            if is_round {
                self.pull_state()?;
                let end = Instant::now();
                self.next_round = end + ROUND.max(10 * (end - now));
            }
            if self.copy.take(message)? {
                self.owes_replies = true;
                self.moved();
                return Ok(true);
            }
        }
        self.owes_replies = false;
        if self.pull_replies(false)? {
            // A fault is told behind the state that it has left.
            self.pull_state()?;
        }
        if self.copy.take(message)? || self.answer(message)? {
            self.moved();
            return Ok(true);
        }
        let end = Instant::now();
        let longest = if self.copy.is_idle() { IDLE } else { LONGEST };
        self.next = end + ((end - self.since) / 8).min(longest).max(end - now);
        Ok(false)
    }

    fn put(&mut self, message: &Message) -> Result<(), Lost> {
        match message.body {
            Body::Look(off, len) => self.looks.put(off, len)?,
            Body::Offer => {
                self.hand_over()?;
                self.copy.put(message)?;
                self.push_offer()?;
            }
            Body::HostWord(off, _) => {
                self.copy.put(message)?;
                self.push(off, 4)?;
            }
            Body::Half(half) => {
                if self.copy.put_half(&half, &message.bytes)? {
                    self.push_half(&half)?;
                }
            }
            _ => self.copy.put(message)?,
        }
        self.moved();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Lost> {
        self.copy.flush()?;
        self.hand_over()
    }

    fn prepare_wait(&mut self) -> bool {
        self.copy.prepare_wait()
    }

    fn cancel_wait(&mut self) {
        self.copy.cancel_wait();
    }
}

impl<M: DrivenMemory> DeviceSide for DrivenCopy<M> {
    const BLOCKS: bool = M::BLOCKS;

    fn renew(&mut self) {
        self.copy.renew();
    }

    fn look_now(&mut self) {
        self.next = Instant::now();
        self.next_round = self.next;
    }

    fn pause(&self) -> Option<Duration> {
        Some(self.next.saturating_duration_since(Instant::now()).max(SHORTEST))
    }
}

// The device's words and record, of which the two first are a pair that the state goes by.
const _: () =
    assert!(word::EPOCH_ACK == DEVICE_WORDS && word::DEVICE_STATE == DEVICE_WORDS + 4 && DEVICE_RECORD > DEVICE_WORDS);
