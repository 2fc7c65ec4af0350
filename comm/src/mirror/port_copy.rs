//! The host's copy behind a port, as a side of a mirror: where a device that drives its host's memory looks, and when.

use super::parts::{DEVICE_BYTES, Pairs, load, of_device, parts, publish, reserve};
use super::port::{HostPort, Port, both, halves};
use super::queue::OTHERS;
use super::shadow::{Owner, Shadow, Which};
use super::{Body, HostCopy, Lost, Message, NotifyOwner, Side};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem::offset_of;
use hamr_shared_abi::layout::{Layout, LayoutError};
use hamr_shared_abi::preamble::{
    DEVICE_WORDS, DeviceState, HostState, MAGIC, PREAMBLE_BYTES, Preamble, Refusal, feature, word,
};
use hamr_shared_abi::rings::RingHeader;
use hamr_shared_abi::section::SectionKind;
use hamr_shared_abi::tasks::{TasksHeader, TasksLayout};
use hamr_shared_abi::window::{Shared, Window};

/// Looks in a row without a request behind which BELL is looked at.
const QUIET: u32 = 16;
/// Looks behind which it is in any case; and HOST_STATE, also where BELL has not changed (abi §3.4).
const MOST: u32 = 64;

/// Sections that are carried at once, and bytes of one at most.
const CARRIED: &[SectionKind] = &[SectionKind::QUEUES, SectionKind::TABLE, SectionKind::CRASH, SectionKind::TASKS];
const MOST_SECTION: u64 = 16 << 20;
/// Bytes of a copy at once.
pub(super) const PIECE: usize = 64 << 10;
/// Bytes that carrying takes for each slot, as more than it has outstanding there at both copies, and beside.
const PER_SLOT: usize = 256;
const SPARE: usize = 512 << 10;

/// The host's copy behind a port.
pub(super) struct PortCopy<P> {
    pub(super) far: Shadow<Port<P>>,
    copy: HostCopy<Shared>,
    /// Bytes of the device's window. The shadow has what is before the heap.
    len: u64,
    /// The layout in the shadow.
    pub(super) layout: Option<Layout>,
    /// Epoch that was looked at last: offered, refused or left.
    pub(super) seen: u32,
    /// Epoch of the offer that was carried, until the device has left it.
    pub(super) open: Option<u32>,
    serves: bool,
    /// The device is to leave that epoch, whatever its host says.
    is_over: bool,
    bell: u32,
    asleep: u32,
    /// The stream and the slot of the last request.
    last: Option<(usize, u32)>,
    /// Streams to look at since BELL has changed; and the one where that goes on when it changes again.
    streams: VecDeque<usize>,
    next: usize,
    /// Looks without a request, and since BELL was looked at.
    quiet: u32,
    looks: u32,
    /// Every place was looked at; a state was told.
    pub(super) has_looked: bool,
    pub(super) has_told: bool,
    /// A request was taken in this step: one at a time, so that no reply waits for a handler behind its own.
    has_given: bool,
    numbers: Vec<u32>,
}

impl<P: HostPort> PortCopy<P> {
    pub(super) fn new(port: P, len: u64, notify: NotifyOwner) -> Result<Self, Lost> {
        let far = Shadow::new(Port(port), Owner::Host, PREAMBLE_BYTES);
        let copy = HostCopy::new(far.window.part(0, PREAMBLE_BYTES)?).with_doorbell(notify);
        Ok(Self {
            far,
            copy,
            len,
            layout: None,
            seen: 0,
            open: None,
            serves: false,
            is_over: false,
            bell: 0,
            asleep: 0,
            last: None,
            streams: VecDeque::new(),
            next: 0,
            quiet: 0,
            looks: 0,
            has_looked: false,
            has_told: false,
            has_given: false,
            numbers: Vec::new(),
        })
    }

    pub(super) fn port(&mut self) -> &mut P {
        &mut self.far.memory.0
    }

    pub(super) fn load_bell(&mut self) -> u32 {
        self.port().load(word::BELL) as u32
    }

    /// Magic, EPOCH, HOST_STATE and OPEN_QUEUES.
    fn load_words(&mut self) -> [u32; 4] {
        let [magic, _] = halves(self.port().load(0));
        let [epoch, state] = halves(self.port().load(word::EPOCH));
        let [_, open] = halves(self.port().load(word::HOST_ALIVE));
        [magic, epoch, state, open]
    }

    pub(super) fn state(&mut self, epoch: u32, state: DeviceState) {
        self.port().store(DEVICE_WORDS, both(epoch, state.0));
    }

    pub(super) fn refuse(&mut self, epoch: u32, why: Refusal, expected: u32, got: u32) {
        self.serves = false;
        self.port().store(word::REFUSAL - 4, both(0, why.0));
        self.port().store(word::REFUSAL_DETAIL, both(expected, got));
        self.state(epoch, DeviceState::REFUSED);
    }

    /// Looks at the host's words. An offer is in the shadow behind this.
    fn pull_words(&mut self) -> Result<(), Lost> {
        let words @ [magic, epoch, state, open] = self.load_words();
        if magic != MAGIC || epoch == 0 {
            return Ok(());
        }
        if self.open == Some(epoch) && !self.is_over {
            publish(&self.far.window, word::HOST_STATE, state)?;
            publish(&self.far.window, word::OPEN_QUEUES, open)?;
            let mut bytes = [0; 8];
            for off in self.copy.words().skip(2).collect::<Vec<_>>() {
                self.far.read(off & !7, &mut bytes)?;
                let at = (off & 4) as usize;
                self.far.window.write_bytes(off, bytes.get(at..at + 4).unwrap_or_default())?;
            }
            return Ok(());
        }
        if self.open.is_some() {
            // The device is to leave first.
            return publish(&self.far.window, word::HOST_STATE, HostState::CLOSING.0);
        }
        if self.seen == epoch {
            return Ok(());
        }
        match HostState(state) {
            // Both words are of one time.
            HostState::CLOSING if self.load_words() == words => {
                self.seen = epoch;
                self.state(epoch, DeviceState::STOPPED);
            }
            HostState::OFFERED => match self.pull_offer() {
                _ if self.load_words() != words => publish(&self.far.window, 0, 0)?,
                Ok(()) => self.seen = epoch,
                Err([why, expected, got]) => {
                    (self.seen, self.layout) = (epoch, None);
                    publish(&self.far.window, 0, 0)?;
                    self.refuse(epoch, Refusal(why), expected, got);
                }
            },
            _ => {}
        }
        Ok(())
    }

    /// Brings an offer into the shadow, or why there is none that this device takes.
    fn pull_offer(&mut self) -> Result<(), [u32; 3]> {
        let malformed = [Refusal::SECTION.0, 0, 0];
        let refused = |why: LayoutError| match why {
            LayoutError::Section(kind) => [Refusal::SECTION.0, kind.0, 0],
            LayoutError::Queue(index) => [Refusal::QUEUE.0, index, 0],
            LayoutError::Window(len) => [Refusal::WINDOW_LEN.0, 0, len as u32],
        };
        self.far.pull(0, PREAMBLE_BYTES).map_err(|_| malformed)?;
        let required = load(&self.far.window, offset_of!(Preamble, features_required) as u64).map_err(|_| malformed)?;
        if required & feature::DRIVEN == 0 {
            return Err([Refusal::FEATURES.0, feature::DRIVEN, required]);
        }
        let layout = Layout::of_front(&self.far.window, self.len).map_err(refused)?;
        if let Some(long) = parts(&layout, CARRIED).find(|section| section.len > MOST_SECTION) {
            return Err([Refusal::SECTION.0, long.kind.0, 0]);
        }
        let heap = layout.heap().start;
        self.make_room(&layout).ok_or([Refusal::WINDOW_LEN.0, 0, u32::try_from(heap).unwrap_or(u32::MAX)])?;
        self.lay_out(&layout).map_err(|_| malformed)?;
        self.layout = Some(layout);
        Ok(())
    }

    /// Has the shadow as long as what is before the heap. `None`: there is not so much memory.
    fn make_room(&mut self, layout: &Layout) -> Option<()> {
        let front = layout.heap().start;
        if self.far.window.len() < front {
            let mut preamble = [0; PREAMBLE_BYTES as usize];
            self.far.window.read_bytes(0, &mut preamble).ok()?;
            // Freed before the longer one is made.
            for len in [PREAMBLE_BYTES, front] {
                let shadow = Window::try_private(len)?.share();
                shadow.write_bytes(0, &preamble).ok()?;
                self.copy.renew_front(shadow.part(0, len).ok()?, self.len);
                self.far.window = shadow;
            }
        }
        Some(())
    }

    fn lay_out(&mut self, layout: &Layout) -> Result<(), Lost> {
        for section in layout.sections() {
            match section.kind {
                SectionKind::QUEUES => self.far.pull(section.off, section.len)?,
                SectionKind::LOG | SectionKind::TRACE => {
                    self.far.pull(section.off, section.len.min(RingHeader::BYTES))?;
                }
                SectionKind::LINES | SectionKind::TABLE | SectionKind::CRASH => {
                    self.far.window.zero(section.off, section.len)?;
                }
                SectionKind::TASKS => {
                    self.far.window.zero(section.off, section.len)?;
                    self.far.pull(section.off, size_of::<TasksHeader>() as u64)?;
                    let (table, len) = TasksLayout::read(layout, &self.far.window)?.table();
                    self.far.pull(table, len)?;
                }
                _ => {}
            }
        }
        let pairs = Pairs::of(&self.far.window, layout)?;
        let slots = pairs.streams.iter().chain(&pairs.of_host).map(|d| d.slots() as usize).sum::<usize>();
        // A message and the shadow keep the bytes of the longest, which double while they grow.
        let carried = parts(layout, CARRIED).fold(PREAMBLE_BYTES, |sum, section| sum.saturating_add(section.len));
        let spare = usize::try_from(carried.saturating_mul(4)).map_or(usize::MAX, |bytes| bytes.saturating_add(PIECE));
        reserve(&mut Vec::new(), slots.saturating_mul(PER_SLOT).saturating_add(spare.max(SPARE)))?;
        (self.far.streams, self.far.of_host) = (pairs.streams, pairs.of_host);
        Ok(())
    }

    /// Is something new in this slot of a stream?
    fn pull_request(&mut self, stream: usize, number: u32) -> Result<bool, Lost> {
        let Some(d) = self.far.streams.get(stream).copied() else { return Ok(false) };
        self.far.pull_half(&d, number, Which::Request)
    }

    /// Looks where the last request came, at the hot slot or the ring.
    fn pull_last(&mut self) -> Result<bool, Lost> {
        let Some((stream, slot)) = self.last else { return Ok(false) };
        if slot == 0 {
            return self.pull_request(stream, 0);
        }
        let is_new = self.pull_request(stream, self.copy.next_ring(stream))?;
        if is_new {
            // A hot message was published before one in the ring, or finds it (rule 8).
            self.pull_request(stream, 0)?;
        }
        Ok(is_new)
    }

    fn pull_stream(&mut self, stream: usize) -> Result<bool, Lost> {
        let mut numbers = core::mem::take(&mut self.numbers);
        numbers.clear();
        self.copy.asked(stream, &mut numbers);
        let is_new = numbers.iter().try_fold(false, |is_new, number| Ok(self.pull_request(stream, *number)? | is_new));
        self.numbers = numbers;
        is_new
    }

    fn pull_replies(&mut self) -> Result<(), Lost> {
        for queue in 0..self.far.of_host.len() {
            let Some(d) = self.far.of_host.get(queue).copied() else { break };
            let mut numbers = core::mem::take(&mut self.numbers);
            numbers.clear();
            self.copy.awaited(queue, &mut numbers);
            let pulled: Result<(), Lost> =
                numbers.iter().try_for_each(|number| self.far.pull_half(&d, *number, Which::Reply).map(|_| ()));
            self.numbers = numbers;
            pulled?;
        }
        Ok(())
    }

    /// A fresh odd value in DEVICE_WAIT: what is published behind it counts BELL.
    fn store_wait(&mut self) -> Result<(), Lost> {
        self.copy.prepare_wait();
        let wait = load(&self.far.window, word::DEVICE_WAIT)?;
        self.port().store(word::DEVICE_WAIT, wait.into());
        Ok(())
    }

    /// Every place is looked at, or will be: what is published behind this counts BELL.
    fn look_around(&mut self) -> Result<(), Lost> {
        self.has_looked = true;
        if self.serves {
            self.store_wait()?;
        }
        self.pull_words()?;
        if self.serves {
            let open = load(&self.far.window, word::OPEN_QUEUES)? as usize;
            let (open, next) = (open.min(self.far.streams.len()), self.next);
            self.streams.clear();
            self.streams.extend((next..open).chain(0..next.min(open)));
            self.pull_replies()?;
        }
        Ok(())
    }

    /// The next message that is in the shadow.
    fn take_near(&mut self, message: &mut Message) -> Result<bool, Lost> {
        let is_there = self.copy.take(message)?;
        match &message.body {
            _ if !is_there => return Ok(false),
            Body::Offer => self.enter()?,
            Body::Half(half) if !half.of_host && !half.header_alone => {
                (self.last, self.quiet, self.has_given) = (Some((half.queue.into(), half.slot)), 0, true);
            }
            _ => {}
        }
        Ok(true)
    }

    /// An offer is carried.
    fn enter(&mut self) -> Result<(), Lost> {
        let epoch = load(&self.far.window, word::EPOCH)?;
        (self.open, self.is_over, self.last, self.asleep) = (Some(epoch), false, None, epoch << 16);
        self.streams.clear();
        Ok(())
    }

    fn find(&mut self, message: &mut Message) -> Result<bool, Lost> {
        self.looks += 1;
        let is_due = self.looks >= MOST;
        let is_others = is_due || self.looks.is_multiple_of(OTHERS) && !self.streams.is_empty();
        if self.take_near(message)? || !is_others && self.pull_last()? && self.take_near(message)? {
            return Ok(true);
        }
        self.quiet = self.quiet.saturating_add(1);
        self.notify()?;
        if !is_due && self.find_in_streams(message)? {
            return Ok(true);
        }
        if !is_due && self.serves && self.quiet < QUIET {
            return Ok(false);
        }
        let bell = self.load_bell();
        let is_new = core::mem::replace(&mut self.bell, bell) != bell;
        if is_new || !self.serves {
            self.look_around()?;
        } else if is_due {
            self.pull_words()?;
        } else {
            return Ok(false);
        }
        self.looks = 0;
        Ok(self.take_near(message)? || is_due && self.find_in_streams(message)?)
    }

    /// In the streams that are to be looked at, each in its turn.
    fn find_in_streams(&mut self, message: &mut Message) -> Result<bool, Lost> {
        while let Some(stream) = self.streams.pop_front() {
            self.next = stream + 1;
            if self.pull_stream(stream)? && self.take_near(message)? {
                // There may be more in it.
                self.streams.push_back(stream);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Rule 22.
    fn notify(&mut self) -> Result<(), Lost> {
        for off in self.copy.waits_of_host().collect::<Vec<_>>() {
            self.far.pull(off & !7, 8)?;
        }
        self.copy.flush()
    }

    /// From now on the host's doorbell rings where it counts BELL. False: it has counted it already, or there is something to do.
    pub(super) fn prepare_sleep(&mut self) -> Result<bool, Lost> {
        self.notify()?;
        self.asleep = self.asleep.wrapping_add(1) | 1;
        let asleep = self.asleep;
        self.port().store(word::ASLEEP, asleep.into());
        if self.load_bell() == self.bell && self.streams.is_empty() && self.serves {
            return Ok(true);
        }
        self.end_sleep();
        Ok(false)
    }

    pub(super) fn end_sleep(&mut self) {
        self.asleep = self.asleep.wrapping_add(1) & !1;
        let asleep = self.asleep;
        self.port().store(word::ASLEEP, asleep.into());
        // Before a handler runs, also at the host's words.
        self.looks = MOST;
    }

    fn put_state(&mut self, message: &Message, acknowledged: u32, state: u32) -> Result<(), Lost> {
        self.copy.put(message)?;
        self.far.push(DEVICE_WORDS + 8, DEVICE_BYTES as u64 - 8)?;
        for section in self.layout.iter().flat_map(|layout| parts(layout, of_device(state))) {
            self.far.push(section.off, section.len)?;
        }
        self.far.hand_over()?;
        if state == DeviceState::SERVING.0 {
            // Before the host knows that it serves: the word is odd in all that it publishes.
            self.store_wait()?;
        }
        self.port().store(DEVICE_WORDS, both(acknowledged, state));
        let is_now = self.open == Some(acknowledged);
        self.serves = is_now && state == DeviceState::SERVING.0;
        if is_now && [DeviceState::STOPPED.0, DeviceState::REFUSED.0].contains(&state) {
            self.open = None;
        }
        self.has_told = true;
        // What came before the first look.
        self.bell = self.bell.wrapping_sub(1);
        self.look_now();
        self.notify()
    }

    pub(super) fn look_now(&mut self) {
        self.quiet = QUIET;
    }

    /// Nothing more is carried in this epoch, but its end.
    pub(super) fn give_up(&mut self) -> Result<(), Lost> {
        (self.is_over, self.serves, self.last) = (true, false, None);
        self.streams.clear();
        publish(&self.far.window, word::HOST_STATE, HostState::CLOSING.0)
    }
}

impl<P: HostPort> Side for PortCopy<P> {
    fn take(&mut self, message: &mut Message) -> Result<bool, Lost> {
        Ok(!self.has_given && self.find(message)?)
    }

    fn put(&mut self, message: &Message) -> Result<(), Lost> {
        match &message.body {
            Body::State(acknowledged, state) => self.put_state(message, *acknowledged, *state),
            Body::Half(half) if self.copy.put_half(half, message)? => {
                self.quiet = 0;
                self.far.push_half(half)
            }
            Body::Half(_) => Ok(()),
            _ => self.copy.put(message),
        }
    }

    fn flush(&mut self) -> Result<(), Lost> {
        self.far.hand_over()?;
        // A handler that runs next may take any time: what was put is not to wait for the next look.
        if core::mem::take(&mut self.has_given) || self.copy.has_calls() { self.notify() } else { Ok(()) }
    }

    fn prepare_wait(&mut self) -> bool {
        true
    }

    fn cancel_wait(&mut self) {}
}

// A pair of words of the device's own each, which one store reaches.
const _: () = assert!(word::EPOCH_ACK == DEVICE_WORDS && word::DEVICE_STATE == DEVICE_WORDS + 4);
const _: () = assert!((word::REFUSAL - 4).is_multiple_of(8) && word::REFUSAL_DETAIL.is_multiple_of(8));
