//! The device's copy as a side of a mirror: what it is told of the host, and its states and replies.

use super::asked::Asked;
use super::asleep::{Asleep, NotifyOwner};
use super::parts::{
    DEVICE_BYTES, OF_HOST, Pairs, ZEROED, all, append, load, misfit, misfits, of_device, parts, publish,
    words_of_rings, write,
};
use super::queue::{LookOrder, Replies, Requests};
use super::{Body, DeviceSide, Half, Lost, Message, Side};
use crate::handshake::HostHandshake;
use alloc::vec::Vec;
use core::mem::offset_of;
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::layout::Layout;
use hamr_shared_abi::preamble::{
    DEVICE_RECORD, DEVICE_WORDS, DeviceRecord, DeviceState, HOST_WORDS, HostState, MAGIC, PREAMBLE_BYTES, Preamble,
    SECTIONS, feature, word,
};
use hamr_shared_abi::section::{Section, SectionKind};
use hamr_shared_abi::slot::RepHdr;
use hamr_shared_abi::tasks::{TasksHeader, TasksLayout};
use hamr_shared_abi::window::Window;

/// The stream of a reply, and whether a handler was ended.
fn reply_of(message: &Message) -> Option<(u16, bool)> {
    match &message.body {
        Body::Half(half) if !half.of_host => Some((half.queue, RepHdr(half.hdr).has(RepHdr::FAULT))),
        _ => None,
    }
}

/// The device's copy.
pub struct DeviceCopy<K> {
    window: Window<K>,
    asleep: Asleep,
    /// What the device's card notifies this side by (abi §7).
    doorbell: u32,
    looks: Asked,
    /// The epoch laid out last; 0: none.
    epoch: u32,
    /// EPOCH_ACK and DEVICE_STATE that were carried.
    told: (u32, u32),
    /// The reply of a fault, which goes behind the state that the fault has left.
    fault: Option<Message>,
    streams: Vec<Replies<K>>,
    of_host: Vec<Requests<K>>,
    order: LookOrder,
    /// Wait words of the host queues.
    waits: Vec<u64>,
    /// Those of the host that are carried whenever they change.
    words: Vec<u64>,
    /// Where the heap begins, at which no host looks.
    heap: u64,
}

impl<K: Clone> DeviceCopy<K> {
    /// Over the window that a device serves, and no host but this side. In it may be the epoch of an earlier host.
    pub fn new(window: Window<K>) -> Self {
        let mut copy = Self {
            window,
            asleep: Asleep::new(),
            doorbell: 0,
            looks: Asked::default(),
            epoch: 0,
            told: (0, DeviceState::ABSENT.0),
            fault: None,
            streams: Vec::new(),
            of_host: Vec::new(),
            order: LookOrder::default(),
            waits: Vec::new(),
            words: Vec::new(),
            heap: PREAMBLE_BYTES,
        };
        if load(&copy.window, 0).is_ok_and(|magic| magic == MAGIC) {
            copy.epoch = load(&copy.window, word::EPOCH).unwrap_or(0);
            copy.told = (copy.epoch, load(&copy.window, word::DEVICE_STATE).unwrap_or(0));
        }
        copy
    }

    /// The device sleeps until this notifies it, and notifies this side by `doorbell`.
    #[must_use]
    pub fn with_doorbell(mut self, notify: NotifyOwner, doorbell: u32) -> Self {
        self.asleep.use_doorbell(notify);
        self.doorbell = doorbell;
        self
    }

    /// Lays the window out for a new epoch, as a host does (abi §3.4).
    fn lay_out(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        let window = &self.window;
        if self.epoch != 0 && !HostHandshake::has_acknowledged(window, Epoch(self.epoch)) {
            return Err(Lost::of(format_args!("expected no offer before the device has left epoch {}", self.epoch)));
        }
        let short =
            || Lost::of(format_args!("expected an offer of at least {PREAMBLE_BYTES} bytes, got {}", bytes.len()));
        let (front, rest) = bytes.split_at_checked(PREAMBLE_BYTES as usize).ok_or_else(short)?;
        let word_of = |off: u64| {
            let bytes = front.get(off as usize..).and_then(<[u8]>::first_chunk::<4>);
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let epoch = word_of(word::EPOCH);
        publish(window, word::HOST_STATE, HostState::RESET.0)?;
        publish(window, 0, 0)?;
        publish(window, word::EPOCH, epoch)?;
        window.write_bytes(4, front.get(4..HOST_WORDS as usize).unwrap_or_default())?;
        if !self.asleep.has_doorbell() {
            let features = window.word(offset_of!(Preamble, features_offered) as u64)?;
            features.store(features.load() & !feature::DOORBELL);
        }
        window.zero(word::HOST_ALIVE, SECTIONS - word::HOST_ALIVE)?;
        window.write_bytes(SECTIONS, front.get(SECTIONS as usize..).unwrap_or_default())?;
        let layout = Layout::of_window(window)?;
        for section in parts(&layout, ZEROED) {
            window.zero(section.off, section.len)?;
        }
        let rest = write(window, parts(&layout, OF_HOST), rest)?;
        if let Ok(section) = layout.section(SectionKind::TASKS) {
            let header = size_of::<TasksHeader>();
            let (header, table) = rest.split_at_checked(header).ok_or_else(|| misfits(header))?;
            window.write_bytes(section.off, header)?;
            let tasks = TasksLayout::read(&layout, window)?;
            let (off, len) = tasks.table();
            all(write(window, [Section { off, len, ..section }].into_iter(), table)?)?;
        } else {
            all(rest)?;
        }
        let pairs = Pairs::of(window, &layout)?;
        self.streams = pairs.streams(window, Replies::new)?;
        self.of_host = pairs.of_host(window, |queue| Requests::new(queue, Epoch(epoch)))?;
        (self.epoch, self.told, self.fault) = (epoch, (0, DeviceState::ABSENT.0), None);
        self.asleep.enter(Epoch(epoch));
        self.words = words_of_rings(&layout).collect();
        self.waits = pairs.waits;
        self.heap = layout.heap().start;
        // Odd from the start.
        self.asleep.prepare_wait(window, word::HOST_WAIT, self.waits.iter().copied());
        self.asleep.cancel_wait(window, word::HOST_WAIT);
        window.word(word::HOST_DOORBELL)?.store(self.doorbell);
        publish(window, word::OPEN_QUEUES, word_of(word::OPEN_QUEUES))?;
        publish(window, word::HOST_STATE, HostState::OFFERED.0)?;
        publish(window, 0, MAGIC)
    }

    /// EPOCH_ACK and DEVICE_STATE: what was published before the state is found by looks behind this.
    fn state(&self) -> Result<(u32, u32), Lost> {
        let state = load(&self.window, word::DEVICE_STATE)?;
        Ok((load(&self.window, word::EPOCH_ACK)?, state))
    }

    /// The answer to a look.
    fn answer(&mut self, message: &mut Message) -> Result<bool, Lost> {
        let window = &self.window;
        self.looks.answer(self.heap, message, |off, bytes| Ok(window.read_bytes(off, bytes)?))
    }

    /// Where the heap begins, at which no host looks.
    pub(super) fn heap(&self) -> u64 {
        self.heap
    }

    /// Publishes a half. False: nothing waits for it.
    pub(super) fn put_half(&mut self, half: &Half, message: &Message) -> Result<bool, Lost> {
        let queue = usize::from(half.queue);
        let put = match half.of_host {
            false => self.streams.get_mut(queue).and_then(|end| end.put(half, message)),
            true => self.of_host.get_mut(queue).and_then(|end| end.put(half, message)),
        };
        self.asleep.note(None);
        put.ok_or_else(|| misfit(half))
    }

    /// Is a reply of a stream outstanding?
    pub(super) fn awaits(&self, stream: usize) -> bool {
        self.streams.get(stream).is_some_and(|end| !end.is_idle())
    }

    /// The slots of a stream in which replies are looked for next, or are outstanding at `all`.
    pub(super) fn awaited(&self, stream: usize, all: bool, numbers: &mut Vec<u32>) {
        if let Some(end) = self.streams.get(stream) {
            end.awaited(all, numbers);
        }
    }

    /// The slots of a host queue in which something may have come: of outstanding requests, then of the next ones.
    pub(super) fn asked(&self, queue: usize, numbers: &mut Vec<u32>) {
        if let Some(end) = self.of_host.get(queue) {
            end.asked(numbers);
        }
    }

    /// Is nothing outstanding?
    pub(super) fn is_idle(&self) -> bool {
        self.streams.iter().all(Replies::is_idle) && self.of_host.iter().all(Requests::is_idle)
    }
}

impl<K: Clone> DeviceSide for DeviceCopy<K> {
    fn renew(&mut self) {
        self.epoch = 0;
    }
}

impl<K: Clone> Side for DeviceCopy<K> {
    /// A state goes behind what was published before it, which a look behind the load of the state finds. The reply of the fault that
    /// has led to it goes behind the state: who reads that reply looks whether the epoch has ended.
    fn take(&mut self, message: &mut Message) -> Result<bool, Lost> {
        let mut now = self.state()?;
        while self.order.first(&mut self.streams, &mut self.of_host, message) {
            let mut is_fault = reply_of(message).is_some_and(|(_, is_fault)| is_fault);
            if is_fault {
                // It was published behind the state that the fault has left, perhaps since the look at that.
                now = self.state()?;
                // A device that leaves because its host asked it to has ended no epoch by a fault.
                is_fault = now != self.told && load(&self.window, word::HOST_STATE)? != HostState::CLOSING.0;
            }
            match &mut self.fault {
                None if is_fault => self.fault = Some(core::mem::take(message)),
                None => return Ok(true),
                // Replies of a queue pair stay in order; of two faults one is older than the state.
                Some(kept) => {
                    let stream = |reply| reply_of(reply).map(|(stream, _)| stream);
                    if is_fault || stream(message) == stream(kept) {
                        core::mem::swap(kept, message);
                    }
                    return Ok(true);
                }
            }
        }
        // CRASHED, the reply and STOPPED, which a device that ends its epoch publishes in this order: a look behind all of them shows each.
        let (acknowledged, state) = now;
        let has_crashed = self.fault.is_some() && state == DeviceState::STOPPED.0;
        let now = if has_crashed { (acknowledged, DeviceState::CRASHED.0) } else { now };
        if now == self.told {
            return match self.fault.take() {
                Some(fault) => {
                    *message = fault;
                    Ok(true)
                }
                None => self.answer(message),
            };
        }
        message.body = Body::State(now.0, now.1);
        message.bytes.clear();
        append(&self.window, DEVICE_WORDS, DEVICE_BYTES as u64, &mut message.bytes)?;
        if !of_device(state).is_empty() {
            for section in parts(&Layout::of_window(&self.window)?, of_device(state)) {
                append(&self.window, section.off, section.len, &mut message.bytes)?;
            }
        }
        self.told = now;
        Ok(true)
    }

    fn put(&mut self, message: &Message) -> Result<(), Lost> {
        match &message.body {
            Body::Offer => self.lay_out(&message.bytes)?,
            Body::HostWord(off @ (word::HOST_STATE | word::OPEN_QUEUES), value) => {
                publish(&self.window, *off, *value)?;
            }
            Body::HostWord(off, value) if self.words.contains(off) => publish(&self.window, *off, *value)?,
            Body::HostWord(off, _) => {
                return Err(Lost::of(format_args!("expected a word of the host, got offset {off:#x}")));
            }
            Body::Half(half) => return self.put_half(half, message).map(|_| ()),
            Body::Look(off, len) => return self.looks.put(*off, *len),
            Body::None | Body::State(..) | Body::Seen(_) | Body::Renew | Body::Renewed(_) | Body::Ended => {
                return Ok(());
            }
        }
        self.asleep.note(None);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Lost> {
        self.asleep.notify(&self.window, word::DEVICE_WAIT)
    }

    fn prepare_wait(&mut self) -> bool {
        self.asleep.prepare_wait(&self.window, word::HOST_WAIT, self.waits.iter().copied());
        let features = load(&self.window, DEVICE_RECORD + offset_of!(DeviceRecord, features) as u64).unwrap_or(0);
        // Nothing comes of one that has left.
        self.told == (self.epoch, DeviceState::SERVING.0) && features & feature::DOORBELL != 0
            || self.told == (self.epoch, DeviceState::STOPPED.0)
    }

    fn cancel_wait(&mut self) {
        self.asleep.cancel_wait(&self.window, word::HOST_WAIT);
    }
}
