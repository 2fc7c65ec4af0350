//! The host's copy as a side of a mirror: what it offers and publishes, and what it is told of the device.

use super::asleep::{Asleep, NotifyOwner};
use super::parts::{
    DEVICE_BYTES, OF_HOST, Pairs, all, append, load, misfit, misfits, of_device, parts, publish, words_of_rings, write,
};
use super::queue::{LookOrder, Replies, Requests};
use super::{Body, Half, Lost, Message, SharedLooks, Side};
use alloc::vec::Vec;
use core::mem::offset_of;
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::layout::Layout;
use hamr_shared_abi::preamble::{
    DEVICE_RECORD, DEVICE_WORDS, DeviceRecord, HostState, MAGIC, PREAMBLE_BYTES, Preamble, feature, word,
};
use hamr_shared_abi::section::SectionKind;
use hamr_shared_abi::tasks::{TasksHeader, TasksLayout};
use hamr_shared_abi::window::Window;

/// The host's copy.
pub struct HostCopy<K> {
    window: Window<K>,
    /// Bytes of a whole one.
    len: u64,
    asleep: Asleep,
    looks: SharedLooks,
    /// How the device's process has ended, since it was started last.
    end: Option<Vec<u8>>,
    /// It is to be started again; that was carried; what came back.
    renews: bool,
    renewed: Option<Result<(), Vec<u8>>>,
    /// The epoch offered last, and the host's words that were carried.
    epoch: u32,
    words: Vec<(u64, u32)>,
    streams: Vec<Requests<K>>,
    of_host: Vec<Replies<K>>,
    order: LookOrder,
    /// Wait words of the host queues.
    waits: Vec<u64>,
}

impl<K: Clone> HostCopy<K> {
    /// Over the window that a host lays out.
    pub fn new(window: Window<K>) -> Self {
        Self {
            len: window.len(),
            window,
            asleep: Asleep::new(),
            looks: SharedLooks::default(),
            end: None,
            renews: false,
            renewed: None,
            epoch: 0,
            words: Vec::new(),
            streams: Vec::new(),
            of_host: Vec::new(),
            order: LookOrder::default(),
            waits: Vec::new(),
        }
    }

    /// The host sleeps until this notifies it.
    #[must_use]
    pub fn with_doorbell(mut self, notify: NotifyOwner) -> Self {
        self.asleep.use_doorbell(notify);
        self
    }

    /// Without what it had, over the front of a window of `len` bytes.
    pub(super) fn renew_front(&mut self, front: Window<K>, len: u64) {
        (self.window, self.len, self.epoch) = (front, len, 0);
        self.words.clear();
        self.streams.clear();
        self.of_host.clear();
        self.waits.clear();
    }

    /// Where threads look at the device's copy.
    pub fn looks(&self) -> &SharedLooks {
        &self.looks
    }

    /// How the device has ended, if it has.
    pub fn end(&self) -> Option<&[u8]> {
        self.end.as_deref()
    }

    /// Has the device started again.
    pub fn renew(&mut self) {
        (self.renews, self.renewed) = (true, None);
    }

    /// What has come of [`Self::renew`], once. An error's text is the other end's.
    pub fn renewed(&mut self) -> Option<Result<(), Vec<u8>>> {
        self.renewed.take()
    }

    /// Before the first offer: this copy is to begin as what an earlier host has left, of which `front` has
    /// [`PREAMBLE_BYTES`].
    ///
    /// # Errors
    /// Fewer bytes.
    pub fn follow(&mut self, front: &[u8]) -> Result<(), Lost> {
        let len = PREAMBLE_BYTES as usize;
        let front: &[u8; PREAMBLE_BYTES as usize] = front.try_into().map_err(|_| misfits(len))?;
        self.window.write_bytes(0, front)?;
        for word in [word::HOST_WAIT, word::DEVICE_WAIT] {
            self.window.word(word)?.store(0);
        }
        self.epoch = load(&self.window, word::EPOCH)?;
        self.words = [(word::HOST_STATE, load(&self.window, word::HOST_STATE)?)].into();
        Ok(())
    }

    fn offer(&mut self, epoch: Epoch, message: &mut Message) -> Result<(), Lost> {
        let layout = Layout::of_front(&self.window, self.len)?;
        let pairs = Pairs::of(&self.window, &layout)?;
        // Before they are copied with the front: what changes in between is carried once more.
        let carried = [word::HOST_STATE, word::OPEN_QUEUES].into_iter().chain(words_of_rings(&layout));
        self.words = carried.map(|off| Ok((off, load(&self.window, off)?))).collect::<Result<_, Lost>>()?;
        message.body = Body::Offer;
        message.bytes.clear();
        append(&self.window, 0, PREAMBLE_BYTES, &mut message.bytes)?;
        for section in parts(&layout, OF_HOST) {
            append(&self.window, section.off, section.len, &mut message.bytes)?;
        }
        if let Ok(tasks) = TasksLayout::read(&layout, &self.window) {
            let section = layout.section(SectionKind::TASKS)?;
            let (table, len) = tasks.table();
            append(&self.window, section.off, size_of::<TasksHeader>() as u64, &mut message.bytes)?;
            append(&self.window, table, len, &mut message.bytes)?;
        }
        self.streams = pairs.streams(&self.window, |queue| Requests::new(queue, epoch))?;
        self.of_host = pairs.of_host(&self.window, Replies::new)?;
        self.asleep.enter(epoch);
        self.epoch = epoch.0;
        if let Some((_, state)) = self.words.first_mut() {
            *state = HostState::OFFERED.0;
        }
        self.waits = pairs.waits;
        Ok(())
    }

    /// The words of the device, and what is behind them.
    fn put_state(&self, state: u32, bytes: &[u8]) -> Result<(), Lost> {
        let (front, rest) = bytes.split_at_checked(DEVICE_BYTES).ok_or_else(|| misfits(DEVICE_BYTES))?;
        let (words, record) = front.split_at_checked((DEVICE_RECORD - DEVICE_WORDS) as usize).unwrap_or_default();
        for (word, off) in words.chunks_exact(4).zip((DEVICE_WORDS..).step_by(4)).skip(2) {
            self.window.word(off)?.store(word.try_into().map_or(0, u32::from_le_bytes));
        }
        self.window.write_bytes(DEVICE_RECORD, record)?;
        // Each copy has a doorbell or has none.
        let offered = load(&self.window, offset_of!(Preamble, features_offered) as u64)?;
        let features = self.window.word(DEVICE_RECORD + offset_of!(DeviceRecord, features) as u64)?;
        let here = if self.asleep.has_doorbell() { offered & feature::DOORBELL } else { 0 };
        features.store(features.load() & !feature::DOORBELL | here);
        if rest.is_empty() || !self.is_in_epoch() {
            return Ok(());
        }
        let put = Layout::of_front(&self.window, self.len).map_err(Lost::from).and_then(|layout| {
            let rest = write(&self.window, parts(&layout, of_device(state)), rest)?;
            all(rest)
        });
        // The host may be about to offer another epoch.
        if self.is_in_epoch() { put } else { Ok(()) }
    }

    /// Publishes a half. False: nothing waits for it.
    pub(super) fn put_half(&mut self, half: &Half, message: &Message) -> Result<bool, Lost> {
        if !self.is_in_epoch() {
            return Ok(false);
        }
        let queue = usize::from(half.queue);
        let put = match half.of_host {
            false => self.streams.get_mut(queue).and_then(|end| end.put(half, message)),
            true => self.of_host.get_mut(queue).and_then(|end| end.put(half, message)),
        };
        self.asleep.note(self.waits.get(queue).copied().filter(|_| half.of_host));
        put.ok_or_else(|| misfit(half))
    }

    /// The slots of a stream in which something may have come: of outstanding requests, then of the next ones.
    pub(super) fn asked(&self, stream: usize, numbers: &mut Vec<u32>) {
        if let Some(end) = self.streams.get(stream) {
            end.asked(numbers);
        }
    }

    /// The slots of a host queue in which replies are looked for next.
    pub(super) fn awaited(&self, queue: usize, numbers: &mut Vec<u32>) {
        if let Some(end) = self.of_host.get(queue) {
            end.awaited(false, numbers);
        }
    }

    /// The ring slot of a stream in which the next request comes.
    pub(super) fn next_ring(&self, stream: usize) -> u32 {
        self.streams.get(stream).map_or(1, Requests::next_ring)
    }

    /// The host's words that are carried whenever they change.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> {
        self.words.iter().map(|(off, _)| *off)
    }

    /// Something was put and not told, while requests are at the device.
    pub(super) fn has_calls(&self) -> bool {
        self.asleep.is_new() && self.streams.iter().any(|end| !end.is_idle())
    }

    /// The wait words that decide whether the host is notified of what was put.
    pub(super) fn waits_of_host(&self) -> impl Iterator<Item = u64> {
        self.asleep.put_in().chain([word::HOST_WAIT]).filter(|_| self.asleep.is_new())
    }

    /// Is this copy laid out for the epoch that was carried last?
    fn is_in_epoch(&self) -> bool {
        load(&self.window, word::EPOCH) == Ok(self.epoch) && load(&self.window, 0) == Ok(MAGIC)
    }
}

impl<K: Clone> Side for HostCopy<K> {
    fn take(&mut self, message: &mut Message) -> Result<bool, Lost> {
        message.bytes.clear();
        if core::mem::take(&mut self.renews) {
            message.body = Body::Renew;
            return Ok(true);
        }
        if let Some((off, len)) = self.looks.take() {
            message.body = Body::Look(off, len);
            return Ok(true);
        }
        if load(&self.window, 0)? != MAGIC {
            return Ok(false);
        }
        let (state, epoch) = (load(&self.window, word::HOST_STATE)?, load(&self.window, word::EPOCH)?);
        if epoch != self.epoch {
            if state != HostState::OFFERED.0 {
                return Ok(false);
            }
            let offered = self.offer(Epoch(epoch), message);
            // The host may have given up, and be about to offer another epoch.
            let is_there = load(&self.window, word::EPOCH)? == epoch && load(&self.window, 0)? == MAGIC;
            return if is_there { offered.map(|()| true) } else { Ok(false) };
        }
        for (off, told) in &mut self.words {
            let now = load(&self.window, *off)?;
            if now != *told {
                *told = now;
                message.body = Body::HostWord(*off, now);
                return Ok(true);
            }
        }
        let open = self.words.get(1).map_or(0, |(_, open)| *open as usize);
        let streams = self.streams.get_mut(..open).unwrap_or_default();
        Ok(self.order.first(streams, &mut self.of_host, message))
    }

    fn put(&mut self, message: &Message) -> Result<(), Lost> {
        match &message.body {
            Body::Ended => self.end = Some(message.bytes.clone()),
            Body::Renewed(is_started) => {
                let outcome = if *is_started { Ok(()) } else { Err(message.bytes.clone()) };
                self.end.take_if(|_| *is_started);
                self.renewed = Some(outcome);
            }
            Body::State(acknowledged, state) => {
                self.put_state(*state, &message.bytes)?;
                publish(&self.window, word::EPOCH_ACK, *acknowledged)?;
                publish(&self.window, word::DEVICE_STATE, *state)?;
            }
            Body::Half(half) => return self.put_half(half, message).map(|_| ()),
            Body::Seen(off) => return self.looks.put(*off, &message.bytes),
            Body::None | Body::Offer | Body::HostWord(..) | Body::Look(..) | Body::Renew => return Ok(()),
        }
        self.asleep.note(None);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Lost> {
        self.asleep.notify(&self.window, word::HOST_WAIT)
    }

    fn prepare_wait(&mut self) -> bool {
        self.asleep.prepare_wait(&self.window, word::DEVICE_WAIT, [].into_iter());
        self.asleep.has_doorbell()
    }

    fn cancel_wait(&mut self) {
        self.asleep.cancel_wait(&self.window, word::DEVICE_WAIT);
    }
}
