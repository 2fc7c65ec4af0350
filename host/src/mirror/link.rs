//! The host's end: a link whose window is this program's own copy.

use super::carrier::{Carried, Carrier, RELEASED, State, text};
use super::carry::{FarSide, PAUSE, sleep, wake};
use super::rings::Brought;
use super::tender::Tender;
use crate::Error;
use crate::doorbells::event;
use crate::link::{Capabilities, FarHeap, Heap, Link, Peer, Protocol, wait_until_left};
use crate::mapping::map_window;
use crate::memfd::make_window;
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::preamble::{FOR_EVER, PREAMBLE_BYTES, word};
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::task_line::TaskLine;
use hamr_comm::abi::tasks::TasksLayout;
use hamr_comm::abi::window::{OutOfWindow, Shared, Window};
use hamr_comm::am::patience;
use hamr_comm::handshake::HostHandshake;
use hamr_comm::mirror::{Body, HostCopy, Lost, Message, Mirror, Turns};
use hamr_qemu::origin::Origin;
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long what people look at may take to come.
const LOOK_LIMIT: Duration = Duration::from_millis(500);
/// The same of what stands in an error; and where an access may take longer than a look.
const TASKS_LIMIT: Duration = Duration::from_millis(50);
const BLOCKING_TASKS_LIMIT: Duration = Duration::from_millis(200);
/// A device that is asked to leave has so long.
const LEAVE_LIMIT: Duration = Duration::from_secs(3);

/// Finds the device, and has it carried for.
type Connect<D> = Box<dyn Fn(&Carrier<D>, Duration) -> Result<(), String> + Send + Sync>;

/// A device that shares no memory with this program.
pub struct MirrorLink<D: FarSide + 'static> {
    kind: String,
    remote: String,
    protocol: Protocol,
    /// The near window's file.
    _memory: OwnedFd,
    carrier: Arc<Carrier<D>>,
    connect: Connect<D>,
    window_len: u64,
    log: Mutex<Brought>,
    trace: Mutex<Brought>,
    origin: Origin,
}

impl<D: FarSide + 'static> MirrorLink<D> {
    /// To the device that `far` finds in the program `remote` and reaches by `protocol`, within the time that it is given: at once, and when it was lost and
    /// is to be there again. Its window has `window_len` bytes, and its heap is reached by `heap`. What an earlier host has left comes
    /// within `limit`.
    ///
    /// # Errors
    /// No device, or it does not answer; no thread, no descriptor.
    pub fn start(
        (kind, remote, protocol): (&str, &str, Protocol),
        window_len: u64,
        far: impl Fn(Duration) -> Result<D, String> + Send + Sync + 'static,
        heap: Arc<dyn FarHeap>,
        limit: Duration,
    ) -> Result<Self, Error> {
        let make = || event().map(Arc::new).map_err(Error::os("making a doorbell"));
        // In a file, so that `inspect` finds it. Pages of the heap are never touched, so they take no memory.
        let memory = make_window(&format!("{kind}:{remote}"), window_len)?;
        let near = map_window(&memory, window_len, true)?;
        let connect = move |carrier: &Carrier<D>, limit: Duration| {
            let begin = Instant::now();
            let mut far = far(limit)?;
            let lost = |Lost(why)| why;
            let near = carrier.near.part(0, window_len).map_err(|e| e.to_string())?;
            let (doorbell, looks_itself) = (carrier.notified.clone(), carrier.looks_itself.clone());
            let notify = move || {
                if !looks_itself.load(Ordering::Relaxed) {
                    wake(&doorbell);
                }
            };
            let mut copy = HostCopy::new(near).with_doorbell(Box::new(notify));
            let is_released = || carrier.state().released;
            let front = front(&mut far, is_released, limit.saturating_sub(begin.elapsed())).map_err(lost)?;
            copy.follow(&front).map_err(lost)?;
            let looks = copy.looks().clone();
            let carried = Carried { mirror: Mirror::new(copy, far), has_ended: false };
            let install = |mirror: &mut Option<_>| {
                let mut state = carrier.state();
                if state.released {
                    return Err(RELEASED.to_owned());
                }
                let connects = state.connects;
                *state = State { looks, connects, ..State::default() };
                *mirror = Some(carried);
                Ok(())
            };
            carrier.turn(install)?;
            // Who sleeps on what came before is to sleep on what comes now.
            wake(&carrier.notified);
            carrier.tender.look();
            Ok(())
        };
        let tender = Tender::new(make()?);
        let carrier = Arc::new(Carrier {
            near,
            notified: make()?,
            heap,
            mirror: Turns::new(None),
            tender,
            is_told: AtomicBool::new(true),
            looks_itself: Arc::default(),
            is_asked: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let fail = |why| Error::Launch { device: kind.into(), why };
        connect(&carrier, limit).map_err(fail)?;
        let theirs = carrier.clone();
        let thread = std::thread::Builder::new().name("hamr-mirror".into()).spawn(move || theirs.tend());
        thread.map_err(|e| fail(format!("starting a thread that carries: {e}")))?;
        let (log, trace) = Default::default();
        let (kind, remote) = (kind.into(), remote.into());
        Ok(Self {
            kind,
            remote,
            protocol,
            _memory: memory,
            carrier,
            connect: Box::new(connect),
            window_len,
            log,
            trace,
            origin: Origin::here(),
        })
    }

    fn load(&self, off: u64) -> u32 {
        self.carrier.near.word(off).map_or(0, |word| word.observe())
    }

    /// Behind it the device is there, unless an error says why not.
    fn connect(&self, limit: Duration) -> Result<(), String> {
        let (carrier, begin) = (&self.carrier, Instant::now());
        let waited = carrier.changed.wait_timeout_while(carrier.state(), limit, |state| state.connects);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match () {
            () if state.connects => return Err("another thread of this program looks for it".into()),
            () if state.released => return Err(RELEASED.into()),
            () if state.lost.is_none() => return Ok(()),
            () => state.connects = true,
        }
        drop(state);
        let outcome = (self.connect)(carrier, limit.saturating_sub(begin.elapsed()));
        let mut state = carrier.state();
        (state.connects, state.is_new) = (false, outcome.is_ok());
        carrier.changed.notify_all();
        outcome
    }

    fn look(&self, off: u64, len: u32, until: Instant) -> Option<Vec<u8>> {
        // A copy of the process has no thread that carries.
        if !self.origin.is_here() {
            return None;
        }
        let looks = self.carrier.state().looks.clone();
        looks.look(off, len, until.saturating_duration_since(Instant::now()), || {
            // A side in this program answers at once, and nobody else notices.
            self.carrier.carry(true);
            self.carrier.tender.watch();
        })
    }

    fn refresh_tasks(&self, until: Instant) -> Option<()> {
        let near = &self.carrier.near;
        let tasks = TasksLayout::read(&Layout::of_window(near).ok()?, near).ok()?;
        let (off, len) = (tasks.line(0), tasks.tasks() * size_of::<TaskLine>() as u32);
        let Some(lines) = self.look(off, len, until) else {
            // What came before is of other calls.
            return near.zero(off, len.into()).ok();
        };
        near.write_bytes(off, &lines).ok()
    }
}

/// The front of a window, as an earlier host has left it.
fn front(far: &mut impl FarSide, is_released: impl Fn() -> bool, limit: Duration) -> Result<Vec<u8>, Lost> {
    let begin = Instant::now();
    let mut message = Message { body: Body::Look(0, PREAMBLE_BYTES as u32), ..Message::default() };
    far.put(&message)?;
    far.flush()?;
    loop {
        let left = limit.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return Err(Lost(format!("expected an answer within {limit:?}, none came")));
        }
        if is_released() {
            return Err(Lost(RELEASED.into()));
        }
        if far.take(&mut message)? {
            match message.body {
                Body::Seen(_) => return Ok(message.bytes),
                Body::Ended => return Err(Lost(format!("the device has ended: {}", text(&message.bytes)))),
                // Of the epoch that is over.
                _ => continue,
            }
        }
        far.flush()?;
        sleep(&far.descriptors(), Some(left.min(Duration::from_millis(10))));
    }
}

impl<D: FarSide + 'static> Link for MirrorLink<D> {
    fn kind(&self) -> &str {
        &self.kind
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { doorbell: true, protocol: self.protocol, ..Capabilities::default() }
    }
    fn window(&self) -> &Window<Shared> {
        &self.carrier.near
    }
    fn heap(&self, off: u64, len: u64) -> Result<Heap, OutOfWindow> {
        match off.checked_add(len) {
            Some(end) if end <= self.window_len => Heap::far(self.carrier.heap.clone(), off),
            _ => Err(OutOfWindow { off, want: len, len: self.window_len }),
        }
    }
    fn notify(&self) {
        if self.origin.is_here() {
            self.carrier.notified();
        }
    }
    fn wait(&self, max_us: u32) {
        // In a copy of the process nothing is carried.
        match (max_us, self.origin.is_here()) {
            (0, false) => patience::rest(),
            (0, true) => self.carrier.poll(),
            (_, false) => std::thread::sleep(PAUSE),
            (_, true) => {
                let limit = (max_us != FOR_EVER).then(|| Duration::from_micros(max_us.into()));
                let _sleeper = (!D::BLOCKS).then(|| self.carrier.tender.sleeper(max_us));
                self.carrier.wait(limit);
            }
        }
    }
    fn wake(&self) {
        wake(&self.carrier.notified);
    }
    fn watch(&self) {
        if self.origin.is_here() {
            self.carrier.tender.watch();
        }
    }
    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        vec![self.carrier.notified.clone()]
    }
    fn peer(&self) -> Peer {
        let state = self.carrier.state();
        match state.lost.as_ref().or(state.end.as_ref()) {
            Some(why) => Peer::Gone(why.clone()),
            None => Peer::Alive,
        }
    }
    fn stop(&self, limit: Duration) {
        let near = &self.carrier.near;
        if self.carrier.state().lost.is_some() {
            return;
        }
        HostHandshake::close(near);
        self.notify();
        let epoch = Epoch(self.load(word::EPOCH));
        wait_until_left(self, limit.min(LEAVE_LIMIT), |near| HostHandshake::has_acknowledged(near, epoch));
    }
    fn outlives_host(&self) -> bool {
        true
    }
    fn is_back(&self, limit: Duration) -> Result<(), Option<String>> {
        Ok(self.connect(limit)?)
    }
    fn release(&self) {
        // A copy of the process has none of it.
        if self.origin.is_here() {
            self.carrier.ask(|state| state.released = true);
        }
    }
    fn remote(&self) -> Option<&str> {
        Some(&self.remote)
    }
    fn round_trip(&self) -> Option<Duration> {
        let begin = Instant::now();
        self.look(word::DEVICE_STATE, size_of::<u32>() as u32, begin + LOOK_LIMIT).map(|_| begin.elapsed())
    }
    fn refresh(&self, kind: SectionKind) {
        let until = Instant::now() + LOOK_LIMIT;
        // Who comes beside another waits for no look of it.
        let locked = |ring: &Mutex<Brought>| {
            let mut ring = ring.try_lock().ok()?;
            ring.bring(&self.carrier.near, kind, |off, len| self.look(off, len, until))
        };
        // What does not come is not shown.
        let _ = match kind {
            SectionKind::LOG => locked(&self.log),
            SectionKind::TRACE => locked(&self.trace),
            // Callers whose limit has passed ask for these.
            SectionKind::TASKS => {
                self.refresh_tasks(Instant::now() + if D::BLOCKS { BLOCKING_TASKS_LIMIT } else { TASKS_LIMIT })
            }
            _ => None,
        };
    }
    fn if_memory_is_other(&self, lose: &dyn Fn()) {
        self.carrier.heap.if_it_is_other(lose);
    }
    fn restart(&self, limit: Duration) -> Result<(), String> {
        let begin = Instant::now();
        let carrier = &self.carrier;
        self.connect(limit)?;
        {
            let mut state = carrier.state();
            // It has left the epoch in which it was lost before it was given away again.
            if std::mem::take(&mut state.is_new) && state.end.is_none() {
                return Ok(());
            }
            // A second request would be one of another start.
            if !std::mem::replace(&mut state.is_asked, true) {
                (state.asks, state.renewed) = (true, None);
            }
        }
        carrier.ask(|_| {});
        let mut state = carrier.state();
        while state.renewed.is_none() && state.lost.is_none() {
            let left = limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Err(format!("expected its device to start again within {limit:?}, it did not"));
            }
            state = carrier.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let Some(outcome) = state.renewed.take() else { return Err(state.lost.clone().unwrap_or_default()) };
        state.is_asked = false;
        if outcome.is_ok() {
            state.end = None;
        }
        outcome
    }
}

impl<D: FarSide + 'static> Drop for MirrorLink<D> {
    fn drop(&mut self) {
        self.release();
    }
}
