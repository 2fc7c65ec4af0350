//! The two copies of a window as sides of a mirror: offers and states, and the queue pairs of both directions.

use super::asked::Asked;
use super::asleep::{Asleep, NotifyOwner};
#[cfg(not(hamr_bare))]
use super::looks::Looks;
use super::queue::{Replies, Requests, Turn};
use super::{Body, DeviceSide, Half, Lost, Message, Side};
use crate::am::MAX_QUEUES;
use crate::handshake::HostHandshake;
#[cfg(not(hamr_bare))]
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::offset_of;
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::layout::{Layout, LayoutError};
use hamr_shared_abi::preamble::{
    DEVICE_RECORD, DEVICE_WORDS, DeviceRecord, DeviceState, HOST_WORDS, HostState, MAGIC, PREAMBLE_BYTES, Preamble,
    SECTIONS, feature, word,
};
use hamr_shared_abi::queue::QueueDescriptor;
use hamr_shared_abi::rings::RingHeader;
use hamr_shared_abi::section::{Section, SectionKind};
use hamr_shared_abi::slot::RepHdr;
use hamr_shared_abi::split::Split;
use hamr_shared_abi::tasks::{TasksHeader, TasksLayout};
use hamr_shared_abi::window::{OutOfWindow, Queue, Window};

impl From<OutOfWindow> for Lost {
    fn from(e: OutOfWindow) -> Self {
        Self::of(format_args!("{e}"))
    }
}

impl From<LayoutError> for Lost {
    fn from(e: LayoutError) -> Self {
        Self::of(format_args!("expected a window with a layout, found {e:?}"))
    }
}

pub(super) fn load<K>(window: &Window<K>, off: u64) -> Result<u32, Lost> {
    Ok(window.word(off)?.observe())
}

pub(super) fn publish<K>(window: &Window<K>, off: u64, value: u32) -> Result<(), Lost> {
    window.word(off)?.publish(value);
    Ok(())
}

/// The sections of `kinds` that a layout has, of a ring its header alone.
pub(super) fn parts(layout: &Layout, kinds: &'static [SectionKind]) -> impl Iterator<Item = Section> {
    let sections = kinds.iter().filter_map(|kind| layout.section(*kind).ok());
    let cut =
        |s: Section| Section { len: if RINGS.contains(&s.kind) { s.len.min(RingHeader::BYTES) } else { s.len }, ..s };
    sections.map(cut).collect::<Vec<_>>().into_iter()
}

const RINGS: &[SectionKind] = &[SectionKind::LOG, SectionKind::TRACE];
/// The host's words of a ring.
const RING_WORDS: [u64; 3] = [RingHeader::LEVEL, RingHeader::READER, RingHeader::CONSUMED];
/// What an offer has beside the front, and before the host's part of TASKS.
const OF_HOST: &[SectionKind] = &[SectionKind::QUEUES, SectionKind::LOG, SectionKind::TRACE];
/// What a host zeroes (abi §3.4).
const ZEROED: &[SectionKind] = &[SectionKind::LINES, SectionKind::TABLE, SectionKind::CRASH, SectionKind::TASKS];

/// What a host has laid out beside the front.
pub(super) fn parts_of_offer(layout: &Layout) -> impl Iterator<Item = Section> {
    parts(layout, ZEROED).chain(parts(layout, OF_HOST))
}

/// What the device has written behind a state.
pub(super) fn of_device(state: u32) -> &'static [SectionKind] {
    match DeviceState(state) {
        DeviceState::ACCEPTED => &[SectionKind::TABLE],
        DeviceState::CRASHED | DeviceState::STOPPED => &[SectionKind::CRASH],
        _ => &[],
    }
}

/// The words of the host that are carried whenever they change, behind HOST_STATE and OPEN_QUEUES.
fn words_of_rings(layout: &Layout) -> impl Iterator<Item = u64> {
    let rings = RINGS.iter().filter_map(|kind| layout.section(*kind).ok());
    let rings = rings.filter(|s| s.len >= RingHeader::BYTES).collect::<Vec<_>>().into_iter();
    rings.flat_map(|s| RING_WORDS.map(|off| s.off + off))
}

/// Has room for so many bytes more, as far as there is memory.
pub(super) fn reserve(bytes: &mut Vec<u8>, more: usize) -> Result<(), Lost> {
    bytes.try_reserve(more).map_err(|_| Lost::of(format_args!("expected memory for {more} bytes, there is less")))
}

/// Appends a range of the window.
fn append<K>(window: &Window<K>, off: u64, len: u64, bytes: &mut Vec<u8>) -> Result<(), Lost> {
    // Before memory is asked for: a layout says what it likes.
    if off.checked_add(len).is_none_or(|end| end > window.len()) {
        return Err(OutOfWindow { off, want: len, len: window.len() }.into());
    }
    let start = bytes.len();
    reserve(bytes, len as usize)?;
    bytes.resize(start + len as usize, 0);
    Ok(window.read_bytes(off, bytes.get_mut(start..).unwrap_or_default())?)
}

/// Writes sections from the front of `bytes`, and returns what is behind them.
fn write<'b, K>(
    window: &Window<K>,
    sections: impl Iterator<Item = Section>,
    mut bytes: &'b [u8],
) -> Result<&'b [u8], Lost> {
    for section in sections {
        let len = usize::try_from(section.len).unwrap_or(usize::MAX);
        let (these, rest) = bytes.split_at_checked(len).ok_or_else(|| misfits(len - bytes.len()))?;
        window.write_bytes(section.off, these)?;
        bytes = rest;
    }
    Ok(bytes)
}

fn misfits(got: usize) -> Lost {
    Lost::of(format_args!("expected the bytes of a window's sections, got {got} more or fewer"))
}

/// Without what is behind them.
fn all(rest: &[u8]) -> Result<(), Lost> {
    if rest.is_empty() { Ok(()) } else { Err(misfits(rest.len())) }
}

/// The queue pairs of a layout: those of streams, and host queues.
pub(super) struct Pairs<'l> {
    pub(super) streams: Vec<QueueDescriptor>,
    pub(super) of_host: Vec<QueueDescriptor>,
    /// Wait words of the host queues.
    waits: Vec<u64>,
    layout: &'l Layout,
}

impl<'l> Pairs<'l> {
    /// Of a window that has at least what is before the heap.
    pub(super) fn of<K>(window: &Window<K>, layout: &'l Layout) -> Result<Self, Lost> {
        if layout.split() != Split::NONE {
            return Err(Lost::of(format_args!(
                "expected coherent placement behind a mirror, got split by {}",
                layout.split().distance()
            )));
        }
        if layout.queues() > MAX_QUEUES as u32 {
            return Err(Lost::of(format_args!("expected at most {MAX_QUEUES} queue pairs, got {}", layout.queues())));
        }
        let streams = (0..layout.queues()).map(|i| layout.queue(window, i)).collect::<Result<_, _>>()?;
        let tasks = TasksLayout::read(layout, window);
        let queues = || tasks.as_ref().ok().into_iter().flat_map(|tasks| (0..tasks.queues()).map(move |i| (tasks, i)));
        let of_host = queues().map(|(tasks, i)| tasks.queue(i)).collect();
        let waits = queues().map(|(tasks, i)| tasks.wait_word(i)).collect();
        Ok(Self { streams, of_host, waits, layout })
    }

    fn streams<K: Clone, E>(&self, window: &Window<K>, end: impl Fn(&Queue<K>) -> E) -> Result<Vec<E>, Lost> {
        ends(window, &self.streams, |index, d, queue| {
            queue.use_two_lines(index != 0 && self.layout.second_line_fits(d));
            end(queue)
        })
    }

    fn of_host<K: Clone, E>(&self, window: &Window<K>, end: impl Fn(&Queue<K>) -> E) -> Result<Vec<E>, Lost> {
        ends(window, &self.of_host, |_, _, queue| end(queue))
    }
}

/// Ends of queue pairs, in their order.
fn ends<K: Clone, E>(
    window: &Window<K>,
    all: &[QueueDescriptor],
    end: impl Fn(usize, &QueueDescriptor, &mut Queue<K>) -> E,
) -> Result<Vec<E>, Lost> {
    let mut ends = Vec::with_capacity(all.len());
    for (index, d) in all.iter().enumerate() {
        // By reference: see `Body`.
        match &mut window.queue(d) {
            Ok(queue) => ends.push(end(index, d, queue)),
            Err(why) => return Err((*why).into()),
        }
    }
    Ok(ends)
}

/// A message of a queue pair that there is not, or that does not fit.
fn misfit(half: &Half) -> Lost {
    Lost::of(format_args!("expected a slot of this window, got slot {} of queue pair {}", half.slot, half.queue))
}

/// The stream of a reply, and whether a handler was ended.
fn reply_of(message: &Message) -> Option<(u16, bool)> {
    match &message.body {
        Body::Half(half) if !half.of_host => Some((half.queue, RepHdr(half.hdr).has(RepHdr::FAULT))),
        _ => None,
    }
}

/// The host's copy.
pub struct HostCopy<K> {
    window: Window<K>,
    /// Bytes of a whole one.
    len: u64,
    asleep: Asleep,
    #[cfg(not(hamr_bare))]
    looks: Arc<Looks>,
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
    turn: Turn,
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
            #[cfg(not(hamr_bare))]
            looks: Arc::default(),
            end: None,
            renews: false,
            renewed: None,
            epoch: 0,
            words: Vec::new(),
            streams: Vec::new(),
            of_host: Vec::new(),
            turn: Turn::default(),
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
    #[cfg(not(hamr_bare))]
    pub fn looks(&self) -> &Arc<Looks> {
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
        #[cfg(not(hamr_bare))]
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
        Ok(self.turn.first(streams, &mut self.of_host, message))
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
            #[cfg(not(hamr_bare))]
            Body::Seen(off) => return self.looks.put(*off, &message.bytes),
            #[cfg(hamr_bare)]
            Body::Seen(_) => return Ok(()),
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

/// Words and record of the device.
pub(super) const DEVICE_BYTES: usize = (word::DEVICE_WAIT - DEVICE_WORDS) as usize;

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
    turn: Turn,
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
            turn: Turn::default(),
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
        while self.turn.first(&mut self.streams, &mut self.of_host, message) {
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
