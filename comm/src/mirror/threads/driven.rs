//! The device's copy where it is read and written, and not mapped: over a bus that only the host drives, or through a debugger
//! (docs/model.md, "Host-driven").
//!
//! A shadow of it in this program is a side as any other. What is put there is written to the device's memory, and what may have
//! changed is read from it first. The device cannot say that it has something, so it is asked: an eighth of the time waited
//! apart. An empty call is one write, of its pair, and one read that finds the reply's.

use crate::handshake::HostHandshake;
use crate::mirror::asked::Asked;
use crate::mirror::parts::{DEVICE_BYTES, Pairs, load, of_device, parts, parts_of_offer, publish};
use crate::mirror::shadow::{DrivenMemory, Owner, Shadow, Which};
use crate::mirror::{Body, DeviceCopy, DeviceSide, Lost, Message, Side};
use alloc::vec::Vec;
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::layout::Layout;
use hamr_shared_abi::preamble::{DEVICE_RECORD, DEVICE_WORDS, HostState, MAGIC, PREAMBLE_BYTES, word};
use hamr_shared_abi::queue::QueueDescriptor;
use hamr_shared_abi::section::Section;
use hamr_shared_abi::slot::RepHdr;
use hamr_shared_abi::window::Shared;
use std::time::{Duration, Instant};

/// Between two looks at states, and at host queues in which nothing has come lately, at least; and ten times as long as one takes.
const ROUND: Duration = Duration::from_millis(1);
/// A sleep lasts so long, at least.
const SHORTEST: Duration = Duration::from_micros(20);
/// Between two looks at a reply, at most.
const LONGEST: Duration = Duration::from_millis(1);
/// Between two looks while nothing is outstanding.
const IDLE: Duration = Duration::from_millis(10);
/// Looks at replies in a row without a clock, where one takes no longer than [`QUICK`]: to read it takes as long.
const AT_ONCE: u32 = 16;
const QUICK: Duration = Duration::from_micros(1);

/// The device's copy behind reads and writes.
pub struct DrivenCopy<M> {
    far: Shadow<M>,
    copy: DeviceCopy<Shared>,
    looks: Asked,
    /// Something in the shadow was not looked for yet.
    is_fresh: bool,
    /// Looks that may go without a clock until it is read again.
    at_once: u32,
    /// Something was put or found since the clock was read last.
    has_moved: bool,
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
}

impl<M: DrivenMemory> DrivenCopy<M> {
    /// Over a device's memory with a window of `len` bytes. In it may be the epoch of an earlier host.
    ///
    /// # Errors
    /// It is not reached.
    pub fn new(mut memory: M, len: u64) -> Result<Self, Lost> {
        let mut front = [0; PREAMBLE_BYTES as usize];
        memory.read(0, &mut front)?;
        if front.iter().all(|byte| *byte == u8::MAX) {
            // What a bus answers where nothing is.
            return Err(Lost("expected memory, all of its bits are one: there is none, or not yet".into()));
        }
        let far = Shadow::new(memory, Owner::Device, len);
        far.window.write_bytes(0, &front)?;
        let copy = DeviceCopy::new(far.window.part(0, len)?);
        let now = Instant::now();
        Ok(Self {
            far,
            copy,
            looks: Asked::default(),
            is_fresh: true,
            at_once: 0,
            has_moved: true,
            since: now,
            next: now,
            next_round: now,
            since_asked: now,
            next_asked: now,
            owes_replies: false,
            numbers: Vec::new(),
        })
    }

    /// The clock. What comes behind what was put or found may come soon.
    fn now(&mut self) -> Instant {
        let now = Instant::now();
        if core::mem::take(&mut self.has_moved) {
            (self.since, self.next) = (now, now);
        }
        now
    }

    /// The next message that is in the shadow.
    fn found(&mut self, message: &mut Message) -> Result<bool, Lost> {
        self.is_fresh = self.is_fresh && self.copy.take(message)?;
        self.has_moved |= self.is_fresh;
        Ok(self.is_fresh)
    }

    /// Has the device left the last epoch that was offered, as far as is known?
    pub fn has_left(&self) -> bool {
        let epoch = load(&self.far.window, word::EPOCH).unwrap_or_default();
        HostHandshake::has_acknowledged(&self.far.window, Epoch(epoch))
    }

    /// Lays the device's window out, as the shadow is.
    fn push_offer(&mut self) -> Result<(), Lost> {
        const MAGIC_END: u64 = size_of::<u32>() as u64;
        let write_word = |memory: &mut M, off, value: u32| memory.write(off, &value.to_le_bytes());
        let epoch = load(&self.far.window, word::EPOCH)?;
        write_word(&mut self.far.memory, word::HOST_STATE, HostState::RESET.0)?;
        write_word(&mut self.far.memory, 0, 0)?;
        write_word(&mut self.far.memory, word::EPOCH, epoch)?;
        let front = [MAGIC_END..word::EPOCH, word::HOST_ALIVE..word::OPEN_QUEUES, word::HOST_WAIT..PREAMBLE_BYTES];
        let layout = Layout::of_front(&self.far.window, self.far.window.len())?;
        let pairs = Pairs::of(&self.far.window, &layout)?;
        let sections = parts_of_offer(&layout).map(|Section { off, len, .. }| off..off.saturating_add(len));
        for range in front.into_iter().chain(sections) {
            self.far.push(range.start, range.end - range.start)?;
        }
        self.far.hand_over()?;
        for off in [word::OPEN_QUEUES, word::HOST_STATE, 0] {
            let value = load(&self.far.window, off)?;
            write_word(&mut self.far.memory, off, value)?;
        }
        (self.far.streams, self.far.of_host) = (pairs.streams, pairs.of_host);
        Ok(())
    }

    /// Looks at the replies that are looked for next, or `all`. True: one is of a fault, behind which there may be another state.
    fn pull_replies(&mut self, all: bool) -> Result<bool, Lost> {
        let mut has_fault = false;
        for queue in 0..self.far.streams.len() {
            if !self.copy.awaits(queue) {
                continue;
            }
            let Some(d) = self.far.streams.get(queue).copied() else { break };
            let mut numbers = core::mem::take(&mut self.numbers);
            numbers.clear();
            self.copy.awaited(queue, all, &mut numbers);
            let pulled: Result<(), Lost> = numbers.iter().try_for_each(|number| {
                let is_new = self.far.pull_half(&d, *number, Which::Reply)?;
                self.is_fresh |= is_new;
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
        Ok(RepHdr(load(&self.far.window, at)?).has(RepHdr::FAULT))
    }

    /// Looks at what the device asks of its host: in each queue what is outstanding, for CANCEL, and where the next one comes. In the
    /// hot slot last: what is there was published before the ring's, or finds it (rule 8).
    fn pull_of_host(&mut self) -> Result<(), Lost> {
        let begin = Instant::now();
        for queue in 0..self.far.of_host.len() {
            let Some(d) = self.far.of_host.get(queue).copied() else { break };
            let mut numbers = core::mem::take(&mut self.numbers);
            numbers.clear();
            self.copy.asked(queue, &mut numbers);
            let pulled: Result<(), Lost> = numbers.iter().try_for_each(|number| {
                if self.far.pull_half(&d, *number, Which::Request)? {
                    self.is_fresh = true;
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
        self.far.read(DEVICE_WORDS, &mut words)?;
        let [acknowledged, state] =
            [0, 4].map(|at| words[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)));
        let is_old = load(&self.far.window, word::DEVICE_STATE)? == state
            && load(&self.far.window, word::EPOCH_ACK)? == acknowledged;
        if is_old {
            return Ok(());
        }
        self.pull_replies(true)?;
        self.pull_of_host()?;
        // Without the two words, which come last.
        self.far.pull(DEVICE_WORDS + 8, DEVICE_BYTES as u64 - 8)?;
        // What an earlier host has laid out is not looked at.
        if !self.far.streams.is_empty()
            && load(&self.far.window, 0)? == MAGIC
            && let Ok(layout) = Layout::of_window(&self.far.window)
        {
            for section in parts(&layout, of_device(state)) {
                self.far.pull(section.off, section.len)?;
            }
        }
        self.is_fresh = true;
        publish(&self.far.window, word::EPOCH_ACK, acknowledged)?;
        publish(&self.far.window, word::DEVICE_STATE, state)
    }

    fn answer(&mut self, message: &mut Message) -> Result<bool, Lost> {
        self.far.hand_over()?;
        self.looks.answer(self.copy.heap(), message, |off, bytes| self.far.memory.read(off, bytes))
    }
}

impl<M: DrivenMemory> Side for DrivenCopy<M> {
    fn take(&mut self, message: &mut Message) -> Result<bool, Lost> {
        if self.found(message)? {
            return Ok(true);
        }
        if !self.looks.is_empty() {
            // Behind what was published before.
            self.look_now();
        } else if self.has_moved && self.at_once != 0 {
            self.at_once -= 1;
            if self.pull_replies(false)? {
                // A fault is told behind the state that it has left.
                self.pull_state()?;
            }
            return self.found(message);
        }
        let now = self.now();
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
            if self.found(message)? {
                self.owes_replies = true;
                return Ok(true);
            }
        }
        self.owes_replies = false;
        let begin = Instant::now();
        if self.pull_replies(false)? {
            self.pull_state()?;
        }
        let is_found = self.found(message)? || self.answer(message)?;
        self.has_moved |= is_found;
        let end = Instant::now();
        self.at_once = if end - begin <= QUICK { AT_ONCE } else { 0 };
        let longest = if self.copy.is_idle() { IDLE } else { LONGEST };
        self.next = end + ((end - self.since) / 8).min(longest).max(end - now);
        Ok(is_found)
    }

    fn put(&mut self, message: &Message) -> Result<(), Lost> {
        match &message.body {
            Body::Look(off, len) => self.looks.put(*off, *len)?,
            Body::Offer => {
                self.far.hand_over()?;
                self.copy.put(message)?;
                self.push_offer()?;
            }
            Body::HostWord(off, _) => {
                self.copy.put(message)?;
                self.far.push(*off, 4)?;
            }
            Body::Half(half) => {
                if self.copy.put_half(half, message)? {
                    self.far.push_half(half)?;
                }
            }
            _ => self.copy.put(message)?,
        }
        // The copy may have an answer by itself.
        (self.is_fresh, self.has_moved) = (true, true);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Lost> {
        self.copy.flush()?;
        self.far.hand_over()
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
        self.is_fresh = true;
        self.copy.renew();
    }

    fn look_now(&mut self) {
        self.next = self.now();
        self.next_round = self.next;
    }

    fn pause(&self) -> Option<Duration> {
        let left = if self.has_moved { Duration::ZERO } else { self.next.saturating_duration_since(Instant::now()) };
        Some(left.max(SHORTEST))
    }
}

// The device's words and record, of which the two first are a pair that the state goes by.
const _: () =
    assert!(word::EPOCH_ACK == DEVICE_WORDS && word::DEVICE_STATE == DEVICE_WORDS + 4 && DEVICE_RECORD > DEVICE_WORDS);
