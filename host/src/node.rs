//! One device, attached: what it is, its memory, its streams, and how it ends.

use crate::keys::{Differences, Keys, compare, read_table};
use crate::memory::Memory;
use crate::runtime::plan_of;
use crate::sleepers::Sleepers;
use crate::stream::Core;
use crate::symbols::Symbols;
use crate::{
    Buffer, CallError, CallOptions, Error, HandlerInfo, ImageFile, LocalStream, Options, Pending, SharedStream,
};
use crate::{Stream, SubmitError};
use hamr_comm::abi::ids::{Epoch, Isa, NodeId};
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::preamble::{DeviceFacts, DeviceState, feature, word};
use hamr_comm::abi::rings::CrashRecord;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::ReqHdr;
use hamr_comm::abi::version::AbiVersion;
use hamr_comm::abi::window::{Queue, Shared};
use hamr_comm::handshake::{Answer, HostHandshake, Offer, Takeover};
use hamr_comm::link::{Capabilities, Link, Peer};
use hamr_comm::registry::Table;
use hamr_comm::{Call, Element, ErrorOf, Handler, ValueOf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// [`Inner::life`] of a device that is gone.
const DEAD: u32 = 0;

/// How long a crashed device may take to end, or to say that it waits.
const SETTLED: Duration = Duration::from_millis(200);

/// One attached device. `Send + Sync`: threads share it by reference and each calls through streams of its own.
///
/// Dropping it stops a device that this runtime started; calls still in flight end with [`CallError::DeviceLost`].
pub struct Node {
    inner: Arc<Inner>,
}

pub struct Inner {
    pub(crate) name: String,
    pub(crate) id: NodeId,
    pub(crate) link: Box<dyn Link>,
    pub(crate) layout: Layout,
    pub(crate) keys: Keys,
    pub(crate) options: Options,
    pub(crate) memory: Arc<Memory>,
    /// The epoch that streams may submit in; [`DEAD`] when there is none.
    pub(crate) life: AtomicU32,
    pub(crate) sleepers: Sleepers,
    pub(crate) me: Weak<Self>,
    why_dead: Mutex<Death>,
    /// The epoch of the last (or current) life.
    last_epoch: Mutex<Epoch>,
    /// The control stream's engine, made at its first use.
    control: Mutex<Option<Box<Core>>>,
    /// Which queue pairs belong to streams; index 0 is the control stream.
    queues: Mutex<Vec<QueueSlot>>,
    handlers: Vec<HandlerInfo>,
    /// Of its present life, or its last.
    facts: Mutex<Facts>,
    image: Option<ImageFile>,
    differences: Differences,
    closed: AtomicBool,
    attached: Instant,
    #[cfg(feature = "device-logs")]
    pub(crate) tails: crate::logs::Tails,
    /// Milliseconds after `attached` when [`Self::look_around`] last asked for the peer.
    looked: AtomicU32,
    /// Milliseconds after `attached` when this life was first seen to have crashed; zero: it was not.
    crash_seen: AtomicU32,
}

/// How a life ended.
#[derive(Default)]
struct Death {
    why: String,
    /// The device ended it by itself, after a fault; the next call may start another life.
    by_fault: Option<ByFault>,
}

/// What is left of a device whose life ended by a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByFault {
    /// It runs, and waits for an offer.
    Waits,
    /// It has to be started anew.
    Crashed,
}

/// What a device said of itself in one life, and how long it took to say it.
struct Facts {
    said: DeviceFacts,
    start: Duration,
    symbols: Arc<Symbols>,
}

impl Facts {
    fn new(said: DeviceFacts, start: Duration, image: Option<&ImageFile>) -> Self {
        let symbols = Arc::new(Symbols::new(image.map(|image| image.path.clone()), said.build_id));
        Self { said, start, symbols }
    }
}

/// Who has a queue pair.
enum QueueSlot {
    /// Nobody ever had it.
    Fresh,
    /// A stream.
    InUse,
    /// Nobody, but its counts go on, and perhaps calls that nobody waits for.
    Idle(Box<Core>),
}

/// What a device said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The spec it was opened by.
    pub name: String,
    /// Its id in this runtime.
    pub node: u16,
    /// Kind of link.
    pub link: String,
    /// Instruction set.
    pub isa: &'static str,
    /// Board.
    pub board: String,
    /// Process id of a hosted image; 0 otherwise.
    pub pid: u32,
    /// ABI version in use.
    pub abi: AbiVersion,
    /// Names of the accepted features.
    pub features: Vec<&'static str>,
    /// Bytes of memory of its board; 0 when it does not know.
    pub memory: u64,
    /// Bytes of heap.
    pub heap: u64,
    /// Bytes of the window.
    pub window: u64,
    /// Handlers in its table.
    pub handlers: u32,
    /// Build id of the image, hexadecimal; empty when it has none.
    pub build_id: String,
    /// Life of the device, counted from 1.
    pub epoch: u32,
    /// From its launch until it served, in this life.
    pub start: Duration,
    /// The image's file, when the runtime loaded it.
    pub image: Option<std::path::PathBuf>,
}

impl Node {
    pub(crate) fn attach(
        name: &str,
        id: NodeId,
        link: Box<dyn Link>,
        image: Option<ImageFile>,
        options: Options,
        begin: Instant,
    ) -> Result<Self, Error> {
        let layout = plan_of(&options)?;
        let epoch = first_epoch(name, link.as_ref(), options.start_deadline)?;
        #[cfg(feature = "device-logs")]
        Inner::say_log_level(link.window(), layout.section(SectionKind::LOG).ok(), options.log_level);
        let (said, handlers) = shake_hands(name, id, link.as_ref(), &options, epoch)?;
        let facts = Facts::new(said, begin.elapsed(), image.as_ref());
        let differences = compare(Table::of_this_image(), &handlers);
        let heap = layout.section(SectionKind::HEAP).map_err(|e| Error::Plan(format!("{e:?}")))?;
        let memory = Memory::new(id, name, link.window(), heap, options.max_buffers)
            .map_err(|e| Error::Plan(format!("the heap: {e}")))?;
        let memory = Arc::new(memory);
        let rings = said.features & feature::DOORBELL != 0;
        let is_rung = !link.descriptors().is_empty();
        let sleepers = Sleepers::new(link.window(), rings, is_rung).map_err(|e| Error::Plan(e.to_string()))?;
        let inner = Arc::new_cyclic(|me| Inner {
            name: name.into(),
            id,
            link,
            sleepers,
            me: me.clone(),
            layout,
            keys: Keys::of(&handlers),
            memory,
            life: AtomicU32::new(epoch.0),
            why_dead: Mutex::new(Death::default()),
            last_epoch: Mutex::new(epoch),
            control: Mutex::new(None),
            queues: Mutex::new((0..=options.streams).map(|_| QueueSlot::Fresh).collect()),
            options,
            handlers,
            facts: Mutex::new(facts),
            image,
            differences,
            closed: AtomicBool::new(false),
            attached: Instant::now(),
            #[cfg(feature = "device-logs")]
            tails: crate::logs::Tails::default(),
            looked: AtomicU32::new(0),
            crash_seen: AtomicU32::new(0),
        });
        let node = Self { inner };
        for warning in node.warnings() {
            tracing::warn!("{warning}");
        }
        Ok(node)
    }

    /// What the device said of itself.
    pub fn info(&self) -> DeviceInfo {
        let Inner { name, id, link, layout, image, .. } = &*self.inner;
        let (facts, start) = {
            let facts = self.inner.facts.lock().unwrap_or_else(PoisonError::into_inner);
            (facts.said, facts.start)
        };
        let id_bytes = if facts.build_id == [0; 20] { &[][..] } else { &facts.build_id[..] };
        DeviceInfo {
            name: name.clone(),
            node: id.0,
            link: link.kind().into(),
            isa: Isa(facts.isa).name(),
            board: facts.board_name().into(),
            pid: facts.pid,
            abi: AbiVersion::from_wire(facts.abi),
            features: feature_names(facts.features),
            memory: facts.memory,
            heap: self.inner.memory.heap_len(),
            window: layout.window_len(),
            handlers: facts.handlers,
            build_id: id_bytes.iter().map(|b| format!("{b:02x}")).collect(),
            epoch: self.inner.life.load(Ordering::Acquire),
            start,
            image: image.as_ref().map(|i| i.path.clone()),
        }
    }

    /// The device's handlers, in the order of their keys.
    pub fn handlers(&self) -> &[HandlerInfo] {
        &self.inner.handlers
    }

    /// One line for each handler that this program and the image do not agree on: missing, other types (calls of these
    /// two are refused), or built from other source (calls go through: the image is stale).
    pub fn warnings(&self) -> Vec<String> {
        let Differences { missing, other_signature, stale } = &self.inner.differences;
        let device = &self.inner.name;
        let missing =
            missing.iter().map(|h| format!("device {device}: its image has no handler `{h}`; calls of it are refused"));
        let other = other_signature
            .iter()
            .map(|h| format!("device {device}: its image has `{h}` with another signature; calls of it are refused"));
        let stale = stale.iter().map(|h| {
            format!("device {device}: its image was built from another version of `{h}`; rebuild the image (stale)")
        });
        missing.chain(other).chain(stale).collect()
    }

    /// What the link can do.
    pub fn capabilities(&self) -> Capabilities {
        self.inner.link.capabilities()
    }

    /// Is the device there, as far as anybody has noticed or can see now?
    pub fn is_alive(&self) -> bool {
        self.inner.look_at_peer();
        self.inner.life.load(Ordering::Acquire) != DEAD
    }

    /// A round trip through the control stream; proves that the dispatcher runs, whatever the other streams hold. A handler
    /// that is running is waited for: a device has one processor.
    ///
    /// # Errors
    /// As for any call.
    pub fn ping(&self) -> Result<Duration, CallError> {
        let begin = Instant::now();
        let token = std::process::id().into();
        match self.inner.control_call(hamr_comm::builtin::ping::with(token))? {
            echoed if echoed == token => Ok(begin.elapsed()),
            other => Err(CallError::Corrupt(
                self.inner.site::<hamr_comm::builtin::ping>("reading the answer"),
                format!("{other} in answer to ping {token}").into(),
            )),
        }
    }

    /// Opens a stream: one ordered sequence of calls, for one thread at a time.
    ///
    /// # Errors
    /// When all queue pairs are in use, or the device is gone.
    pub fn stream(&self) -> Result<Stream<'_>, Error> {
        Stream::open(self)
    }

    /// Opens a stream that threads share, behind a lock.
    ///
    /// # Errors
    /// As for [`Self::stream`].
    pub fn shared_stream(&self) -> Result<SharedStream, Error> {
        SharedStream::open(self)
    }

    /// The calling thread's own stream, opened at the first use and closed with the thread or the device.
    ///
    /// # Errors
    /// As for [`Self::stream`].
    pub fn local(&self) -> Result<LocalStream<'_>, Error> {
        LocalStream::of(self)
    }

    /// Calls a handler and waits for its result, on the calling thread's stream.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn sync<H: Handler>(&self, call: Call<H>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        self.thread_stream::<H>()?.sync(call)
    }

    /// Starts a call on the calling thread's stream; the result is read from the [`Pending`].
    ///
    /// # Errors
    /// See [`SubmitError`]: nothing was sent.
    pub fn offload<H: Handler>(&self, call: Call<H>) -> Result<Pending<H, LocalStream<'_>>, SubmitError> {
        self.thread_stream::<H>()?.offload(call)
    }

    /// [`Self::offload`] with a deadline or a larger reply of one's own.
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub fn offload_with<H: Handler>(
        &self,
        call: Call<H>,
        options: CallOptions,
    ) -> Result<Pending<H, LocalStream<'_>>, SubmitError> {
        self.thread_stream::<H>()?.offload_with(call, options)
    }

    fn thread_stream<H: Handler>(&self) -> Result<LocalStream<'_>, SubmitError> {
        let site = || self.inner.site::<H>("submitting");
        self.local().map_err(|e| match e {
            Error::Lost { why, .. } => SubmitError::DeviceLost { site: site(), why },
            other => SubmitError::NoRoom { site: site(), why: other.to_string() },
        })
    }

    /// A buffer in the device's memory that holds a copy of `data`.
    ///
    /// # Errors
    /// When the heap or the table of buffers is full.
    pub fn buffer<T: Element>(&self, data: &[T]) -> Result<Buffer<T>, Error> {
        let buffer = Buffer::new(self, data.len())?;
        self.put(data, buffer.ptr())?;
        Ok(buffer)
    }

    /// A buffer of `len` elements; what they hold is unspecified.
    ///
    /// # Errors
    /// When the heap or the table of buffers is full.
    pub fn allocate<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        Buffer::new(self, len)
    }

    /// Bytes of heap that no buffer holds.
    pub fn free_bytes(&self) -> u64 {
        self.inner.memory.free_bytes()
    }

    /// Buffers alive, those of long messages in flight included.
    pub fn live_buffers(&self) -> usize {
        self.inner.memory.live()
    }

    /// Ends the device, whatever it is doing. Calls in flight end with [`CallError::DeviceLost`].
    pub fn stop(&self) {
        self.inner.stop("stopped by this program");
    }

    /// Starts the device anew, with the same image, in a new epoch. Calls in flight end with [`CallError::PeerReset`] or
    /// [`CallError::DeviceLost`], exactly once each; open streams go on in the new epoch. Buffers stay; what a handler was
    /// writing at the moment of death is unspecified.
    ///
    /// # Errors
    /// When the link cannot start its device again, or the device does not come up.
    pub fn restart(&self) -> Result<(), Error> {
        let inner = &*self.inner;
        // Held to the end: one restart at a time. The count is the host's own; the word in the window is only told.
        let mut last = inner.last_epoch.lock().unwrap_or_else(PoisonError::into_inner);
        inner.stop("being restarted");
        #[cfg(feature = "device-logs")]
        inner.keep_log_tail();
        inner.begin_anew(&mut last, ByFault::Crashed)
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.inner.memory
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.inner.closed.store(true, Ordering::Release);
        HostHandshake::close(self.inner.link.window());
        self.inner.ring_sleeper();
        self.inner.stop("closed by this program");
        self.inner.link.release();
        crate::stream::forget_closed();
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({} {})", self.inner.id, self.inner.name)
    }
}

impl Inner {
    pub(crate) fn site<H: Handler>(&self, stage: &'static str) -> Box<crate::Site> {
        Box::new(crate::Site { device: self.name.clone(), handler: H::NAME, stage })
    }

    /// The names in the image that runs.
    pub(crate) fn symbols(&self) -> Arc<Symbols> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).symbols.clone()
    }

    /// Was the [`Node`] dropped?
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Has its present life ended, or was there none?
    pub(crate) fn is_dead(&self) -> bool {
        self.life.load(Ordering::Acquire) == DEAD
    }

    pub(crate) fn why_dead(&self) -> String {
        self.why_dead.lock().unwrap_or_else(PoisonError::into_inner).why.clone()
    }

    /// Begins a new life of a device that is stopped, or waits.
    fn begin_anew(&self, last: &mut Epoch, from: ByFault) -> Result<(), Error> {
        let epoch = last.next();
        *last = epoch;
        let begin = Instant::now();
        if from == ByFault::Crashed {
            self.link.restart().map_err(|why| Error::Launch { device: self.name.clone(), why })?;
        }
        let (said, handlers) = shake_hands(&self.name, self.id, self.link.as_ref(), &self.options, epoch)?;
        if handlers != self.handlers {
            self.link.stop();
            return Err(Error::Launch {
                device: self.name.clone(),
                why: "it came back with other handlers; open it anew".into(),
            });
        }
        let facts = Facts::new(said, begin.elapsed(), self.image.as_ref());
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner) = facts;
        self.show_open_queues(&self.lock_queues());
        self.crash_seen.store(0, Ordering::Relaxed);
        self.sleepers.enter(said.features & feature::DOORBELL != 0);
        self.life.store(epoch.0, Ordering::Release);
        Ok(())
    }

    /// Gives a device that ended its life by a fault another one ([`Options::revive`]). True when it lives.
    #[cold]
    pub(crate) fn revive(&self) -> bool {
        if !self.options.revive || self.is_closed() {
            return false;
        }
        let mut last = self.last_epoch.lock().unwrap_or_else(PoisonError::into_inner);
        if self.life.load(Ordering::Acquire) != DEAD {
            return true;
        }
        // Taken: a life that cannot begin is not tried again.
        let by_fault = self.why_dead.lock().unwrap_or_else(PoisonError::into_inner).by_fault.take();
        let Some(from) = by_fault else { return false };
        let from = self.settle(from, *last);
        if from == ByFault::Crashed {
            self.link.stop();
        }
        tracing::warn!(device = self.name, why = self.why_dead(), "begins a new life");
        match self.begin_anew(&mut last, from) {
            Ok(()) => true,
            Err(e) => {
                let mut death = self.why_dead.lock().unwrap_or_else(PoisonError::into_inner);
                death.why = format!("{}; starting it anew failed: {e}", death.why);
                false
            }
        }
    }

    /// A device says that it crashed before it answers the call that did it. One that goes on waiting for an offer says so
    /// soon after.
    fn settle(&self, from: ByFault, epoch: Epoch) -> ByFault {
        let begin = Instant::now();
        while from == ByFault::Crashed && self.link.peer() == Peer::Alive && begin.elapsed() < SETTLED {
            if self.end_by_fault(epoch.0) == Some(ByFault::Waits) {
                return ByFault::Waits;
            }
            self.link.wait(20);
        }
        from
    }

    /// What the device says of its own end, if it has ended the life `life` by itself.
    fn end_by_fault(&self, life: u32) -> Option<ByFault> {
        let window = self.link.window();
        let observe = |at| window.word(at).map_or(0, |word| word.observe());
        let by_fault = match DeviceState(observe(word::DEVICE_STATE)) {
            DeviceState::CRASHED => ByFault::Crashed,
            DeviceState::STOPPED => ByFault::Waits,
            _ => return None,
        };
        (observe(word::EPOCH_ACK) == life).then_some(by_fault)
    }

    /// The text of the crash record, when there is one of this life.
    fn crash_text(&self, life: u32) -> Option<String> {
        let section = self.layout.section(SectionKind::CRASH).ok()?;
        let record: CrashRecord = self.link.window().read(section.off).ok()?;
        let text = record.text.get(..record.text_len as usize)?;
        (record.valid == CrashRecord::VALID && record.epoch == life).then(|| String::from_utf8_lossy(text).into_owned())
    }

    /// Calls through the control stream.
    fn control_call<H: Handler>(&self, call: Call<H>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let core = match &mut *control {
            Some(core) => core,
            none => none.insert(Box::new(
                self.fresh_core(0)
                    .map_err(|e| SubmitError::NoRoom { site: self.site::<H>("submitting"), why: e.to_string() })?,
            )),
        };
        core.sync(self, call)
    }

    /// Asks the link whether the device is there, and takes note.
    pub(crate) fn look_at_peer(&self) {
        // Loaded first: by the time the link answers, somebody may have restarted the device.
        let life = self.life.load(Ordering::Acquire);
        if life == DEAD {
            return;
        }
        // In this order: a process that has ended has said why before.
        let peer = self.link.peer();
        let by_fault = self.end_by_fault(life);
        match peer {
            Peer::Gone(why) if by_fault.is_none() => self.bury(life, &why, None),
            Peer::Alive if by_fault == Some(ByFault::Crashed) && !self.has_settled() => {}
            _ => self.bury_by_fault(life),
        }
    }

    /// An answer said that its handler was ended: perhaps the device did not survive that. Then the next call finds out before it
    /// is sent.
    #[cold]
    pub(crate) fn look_behind_fault(&self) {
        let life = self.life.load(Ordering::Acquire);
        if life != DEAD {
            self.bury_by_fault(life);
        }
    }

    /// Ends the life `life` if the device says that it did so itself.
    fn bury_by_fault(&self, life: u32) {
        if let Some(by_fault) = self.end_by_fault(life) {
            let text = self.crash_text(life).unwrap_or_else(|| "without a crash record".into());
            self.bury(life, &format!("it ended by a fault: {text}"), Some(by_fault));
        }
    }

    /// A device says that it crashed before it answers the call that did it. That answer still counts, so its end is believed a
    /// moment later, when it has not come to an end before.
    fn has_settled(&self) -> bool {
        let now = self.attached.elapsed().as_millis() as u32;
        // Zero: nobody has seen it yet.
        let seen = self.crash_seen.compare_exchange(0, now.max(1), Ordering::Relaxed, Ordering::Relaxed);
        seen.is_err_and(|seen| u128::from(now.wrapping_sub(seen)) > SETTLED.as_millis())
    }

    /// Rule 21, after a message was published: rings a device that sleeps. What it looks at is a line that changes only when
    /// the device goes to sleep or gets up.
    #[inline(always)]
    pub(crate) fn tell(&self) {
        if self.sleepers.device_is_down() {
            self.ring_device();
        }
    }

    /// The same after the ring message at `x`, for which perhaps nobody waits: every sixteenth time with a fence (rule 22).
    #[inline(always)]
    pub(crate) fn tell_of(&self, x: u64) {
        if x & 15 == 15 {
            self.ring_sleeper();
        } else {
            self.tell();
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn ring_device(&self) {
        if self.sleepers.glance() {
            self.link.ring();
        }
    }

    /// Rule 22: whatever was published before this is found by the device, if it has to be rung for that.
    pub(crate) fn ring_sleeper(&self) {
        if self.sleepers.owes_a_ring() {
            self.link.ring();
        }
    }

    /// For those who look again and again without waiting: gives a device inside this process its turn, and asks once a
    /// millisecond whether the peer is there.
    pub(crate) fn look_around(&self) {
        self.link.wait(0);
        let now = self.attached.elapsed().as_millis() as u32;
        if self.looked.swap(now, Ordering::Relaxed) != now {
            self.ring_sleeper();
            self.look_at_peer();
        }
    }

    /// Ends the life `life`, unless it has ended or another one has begun.
    fn bury(&self, life: u32, why: &str, by_fault: Option<ByFault>) {
        let mut kept = self.why_dead.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.life.compare_exchange(life, DEAD, Ordering::AcqRel, Ordering::Acquire);
        if life != DEAD && ended.is_ok() {
            *kept = Death { why: why.into(), by_fault };
        }
    }

    fn stop(&self, why: &str) {
        // If it died by itself, that is the better reason.
        self.look_at_peer();
        self.bury(self.life.load(Ordering::Acquire), why, None);
        // Whoever stops a device wants it stopped.
        self.why_dead.lock().unwrap_or_else(PoisonError::into_inner).by_fault = None;
        if self.link.outlives_host() {
            self.cancel_all();
        }
        self.link.stop();
    }

    /// Cancels whatever is in flight, for a device that finishes its call before it leaves. Lines without a call do not
    /// mind: the next epoch clears them.
    fn cancel_all(&self) {
        let window = self.link.window();
        for index in 0..self.layout.queues() {
            let descriptor = self.layout.queue(window, index);
            let Some(queue) = descriptor.ok().and_then(|d| window.queue(&d).ok()) else { continue };
            let queue: Queue<Shared> = queue;
            let ring = (0..queue.ring_len()).map(|i| queue.ring(i));
            let side = (0..queue.side_len()).filter_map(|i| queue.side(i));
            for line in std::iter::once(queue.hot()).chain(ring).chain(side) {
                line.set_req_hdr(line.req_hdr() | ReqHdr::CANCEL);
            }
        }
    }

    fn lock_queues(&self) -> std::sync::MutexGuard<'_, Vec<QueueSlot>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a queue pair that no stream has.
    pub(crate) fn take_queue(&self) -> Result<(u32, Box<Core>), Error> {
        if self.life.load(Ordering::Acquire) == DEAD && !self.revive() {
            return Err(Error::Lost { device: self.name.clone(), stage: "opening a stream", why: self.why_dead() });
        }
        let mut queues = self.lock_queues();
        let free = queues.iter_mut().enumerate().skip(1).find(|(_, slot)| !matches!(slot, QueueSlot::InUse));
        let Some((index, slot)) = free else {
            return Err(Error::TooManyStreams { device: self.name.clone(), limit: self.options.streams });
        };
        let core = match std::mem::replace(slot, QueueSlot::InUse) {
            QueueSlot::Idle(core) => core,
            QueueSlot::Fresh | QueueSlot::InUse => match self.fresh_core(index as u32) {
                Ok(core) => Box::new(core),
                Err(e) => {
                    *slot = QueueSlot::Fresh;
                    return Err(e);
                }
            },
        };
        self.show_open_queues(&queues);
        Ok((index as u32, core))
    }

    fn fresh_core(&self, index: u32) -> Result<Core, Error> {
        let window = self.link.window();
        let corrupt = |what: String| Error::Plan(format!("queue pair {index}: {what}"));
        let descriptor = self.layout.queue(window, index).map_err(|e| corrupt(format!("{e:?}")))?;
        let queue: Queue<Shared> = window.queue(&descriptor).map_err(|e| corrupt(e.to_string()))?;
        Ok(Core::new(index, queue, self))
    }

    /// Lets go of what calls of dropped streams held, as far as they are answered. For whoever finds a buffer busy or the
    /// heap full: nobody else looks at those answers.
    #[cold]
    pub(crate) fn reap_idle_queues(&self) {
        let mut queues = self.lock_queues();
        for slot in queues.iter_mut() {
            if let QueueSlot::Idle(core) = slot {
                core.reap(self);
            }
        }
        self.show_open_queues(&queues);
    }

    /// Tells the device which queue pairs to poll: up to the last that a stream has or that still has calls in flight.
    fn show_open_queues(&self, queues: &[QueueSlot]) {
        let last = queues.iter().rposition(|slot| match slot {
            QueueSlot::Fresh => false,
            QueueSlot::InUse => true,
            QueueSlot::Idle(core) => core.has_work(),
        });
        if let Ok(word) = self.link.window().word(word::OPEN_QUEUES) {
            word.publish(last.map_or(1, |last| last as u32 + 1));
        }
    }
}

/// Gives a queue pair back, with what is still in flight in it.
pub(crate) fn give_queue_back(inner: &Inner, index: u32, core: Box<Core>) {
    let mut queues = inner.lock_queues();
    if let Some(slot) = queues.get_mut(index as usize) {
        *slot = QueueSlot::Idle(core);
    }
    inner.show_open_queues(&queues);
    drop(queues);
    // Nobody will wait for what is in flight there.
    inner.ring_sleeper();
}

fn feature_names(bits: u32) -> Vec<&'static str> {
    feature::NAMES.iter().enumerate().filter(|(i, _)| bits & (1 << i) != 0).map(|(_, n)| *n).collect()
}

/// The epoch to begin in. A device that outlives its hosts leaves the one it is in first.
fn first_epoch(name: &str, link: &dyn Link, limit: Duration) -> Result<Epoch, Error> {
    if !link.outlives_host() {
        return Ok(Epoch::FIRST);
    }
    let window = link.window();
    let takeover = Takeover::begin(window);
    link.ring();
    let begin = Instant::now();
    loop {
        if let Some(epoch) = takeover.step(window) {
            return Ok(epoch);
        }
        if begin.elapsed() > limit {
            let state = window.word(word::DEVICE_STATE).map_or(DeviceState::ABSENT, |w| DeviceState(w.observe()));
            return Err(Error::Bus {
                device: name.into(),
                why: format!(
                    "expected its image to leave epoch {} of an earlier host within {limit:?}, it still says `{}`: no image \
                     runs there, or a handler of it never ends; reset the device",
                    takeover.last().0,
                    state.text()
                ),
            });
        }
        link.wait(20);
    }
}

/// Lays the window out, waits for the device's word, reads its table, lets it serve.
fn shake_hands(
    name: &str,
    id: NodeId,
    link: &dyn Link,
    options: &Options,
    epoch: Epoch,
) -> Result<(DeviceFacts, Vec<HandlerInfo>), Error> {
    let window = link.window();
    let doorbell = if link.capabilities().doorbell { feature::DOORBELL } else { 0 };
    let offer = Offer {
        plan: options.plan(),
        node: id,
        features: feature::TICKETS | feature::DEADLINES | feature::CONTAIN | feature::LOGS | doorbell,
        required: feature::TICKETS,
        fingerprint: Table::of_this_image().fingerprint(),
        pid: std::process::id(),
        rest: options.rest(),
    };
    let (handshake, layout) =
        HostHandshake::offer(window, &offer, epoch).map_err(|e| Error::Plan(format!("device {name}: {e}")))?;
    if let Ok(bell) = window.word(word::HOST_BELL) {
        bell.store(link.bell());
    }
    let mut told = None;
    let begin = Instant::now();
    loop {
        let stage = if told.is_none() { "starting" } else { "being told to serve" };
        match handshake.step(window) {
            Answer::Waiting => {}
            Answer::Refused(why) => return Err(Error::Refused { device: name.into(), why: why.to_string() }),
            Answer::Corrupt(what) => {
                let why = format!("it published {what:#x}, which no device may say");
                return Err(Error::Refused { device: name.into(), why });
            }
            Answer::Accepted(facts) if told.is_none() => {
                let table = layout.section(SectionKind::TABLE).map_err(|e| Error::Plan(format!("{e:?}")))?;
                let handlers = read_table(window, table)
                    .map_err(|why| Error::Refused { device: name.into(), why: format!("it showed {why}") })?;
                told = Some((facts, handlers));
                handshake.ready(window);
            }
            Answer::Accepted(_) => {}
            Answer::Serving => match told {
                Some(known) => return Ok(known),
                None => {
                    let why = "it serves without having said what it is".into();
                    return Err(Error::Refused { device: name.into(), why });
                }
            },
        }
        if let Peer::Gone(why) = link.peer() {
            return Err(Error::Lost { device: name.into(), stage, why });
        }
        if begin.elapsed() > options.start_deadline {
            if link.outlives_host() && told.is_none() {
                let limit = options.start_deadline;
                let why = format!("expected an image to answer within {limit:?}, none did: load one into the device");
                return Err(Error::Bus { device: name.into(), why });
            }
            return Err(Error::Silent { device: name.into(), stage, after: options.start_deadline });
        }
        link.wait(20);
    }
}
