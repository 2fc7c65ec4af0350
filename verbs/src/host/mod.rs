//! The host's handle of an adapter: starts it beside a device, makes queues and regions, and ends it with the device's
//! epoch.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = hamr::Runtime::new()?;
//! use hamr_verbs::host::{Fabric, QpPlan};
//! use hamr_verbs::wire::Access;
//! let options = hamr::Options { verbs: 1 << 20, ..hamr::Options::default() };
//! let node = runtime.open_with("shm", hamr::Image::find("hamr-verbs-image")?, options)?;
//! let fabric = Fabric::open(&node)?;
//! let (cq, region) = (fabric.completion_queue(64)?, fabric.region(4096, Access::LOCAL_WRITE)?);
//! let [a, b] = [fabric.queue_pair(&QpPlan::new(cq))?, fabric.queue_pair(&QpPlan::new(cq))?];
//! fabric.connect(a, b)?;                          // handlers get a, b, cq and region.id()
//! # Ok(()) }
//! ```

mod adapter;
#[cfg(feature = "commands")]
pub(crate) mod commands;
mod error;
mod objects;
mod region;
mod remote;

pub use error::FabricError;
pub use region::Region;
pub use remote::{Endpoint, Path, Wire};

use crate::ids::{CqId, Name, QpId, SrqId};
use crate::wire::{
    ARENA, Access, CQ_CI, Command, FABRIC_EPOCH, FABRIC_STATE, FabricState, Kind, LINE, MAGIC, MAX_LOG2, Object,
    QpType, RemoteEnd, Reply, SQ_CI, SectionHead, Verb, word_of,
};
use adapter::{Adapter, Start};
use hamr::Node;
use hamr::side::{Closer, Ranges, SideEnds, lock_within};
use hamr_comm::abi::ids::NodeId;
#[cfg(feature = "testing")]
use hamr_comm::abi::window::{Shared, Window};
use objects::{Ends, Place};
use std::format;
use std::hash::RandomState;
use std::ops::Range;
use std::string::ToString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use std::vec::Vec;

/// How long the adapter may take for one answer, the wait for other threads included.
const LIMIT: Duration = Duration::from_secs(1);
/// How long the adapter of a [`Fabric`] that is dropped may take to end by itself.
const GRACE: Duration = Duration::from_millis(100);

/// A queue pair to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpPlan {
    /// Where sends complete.
    pub send_cq: CqId,
    /// Where receives complete.
    pub receive_cq: CqId,
    /// Requests to send at once: 1 to 512.
    pub sends: u32,
    /// The same of receives; of no meaning with [`Self::srq`].
    pub receives: u32,
    /// Where it takes receive requests, if not from a queue of its own.
    pub srq: Option<SrqId>,
    /// Of datagrams (UD): the key of those that it takes. It needs no connection, but an adapter with a wire.
    pub qkey: Option<u32>,
    /// How often it asks a peer that has no receive request again, 0 to 6 times; `None`: without an end.
    pub rnr_retry: Option<u8>,
    /// How long its peer waits each time: `min_rnr_timer`, 0 to 31.
    pub rnr_timer: u8,
}

impl QpPlan {
    /// 64 requests of each kind, which complete in one queue; a peer that is not ready is asked without an end, after
    /// 0.64 ms.
    pub const fn new(cq: CqId) -> Self {
        Self {
            send_cq: cq,
            receive_cq: cq,
            sends: 64,
            receives: 64,
            srq: None,
            qkey: None,
            rnr_retry: None,
            rnr_timer: 12,
        }
    }
}

/// The adapter of one device, in one epoch of it. At its end the adapter has ended, and handlers find it lost.
pub struct Fabric(Arc<Inner>);

struct Inner {
    /// What there is of the section; `None` before and behind its adapter's epoch. Who has the lock asks the adapter,
    /// or uses the section.
    ends: Mutex<Option<Ends>>,
    /// Set under that lock, unless [`Self::is_closed`].
    adapter: OnceLock<Adapter>,
    /// The device.
    node: NodeId,
    is_closed: AtomicBool,
    has_failed: AtomicBool,
    /// The process that has opened it: a copy of that does nothing to it.
    owner: u32,
}

impl Fabric {
    /// Starts an adapter beside a device, which has [`hamr::Options::verbs`] bytes for it: once in an epoch. It is the
    /// program that `HAMR_HCA` names, else `hamr-hca` beside this one.
    ///
    /// # Errors
    /// The device can have none, with the reason; the adapter does not start, or is of another build. Then it may be
    /// tried again.
    pub fn open(node: &Node) -> Result<Self, FabricError> {
        Self::open_with(node, &Wire::Own)
    }

    /// [`Self::open`] with a wire to other adapters.
    ///
    /// # Errors
    /// As of [`Self::open`]; the adapter cannot have the wire, with the reason.
    pub fn open_with(node: &Node, wire: &Wire) -> Result<Self, FabricError> {
        let program = adapter::program()?;
        let inner = Arc::new(Inner {
            ends: Mutex::new(None),
            adapter: OnceLock::new(),
            node: NodeId(node.info().node),
            is_closed: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            owner: std::process::id(),
        });
        let ends = node.open_side(inner.clone())?;
        let this = Self(inner);
        // Nothing is locked while the program starts: a closer ends it meanwhile.
        let started = this.0.start(&program, wire, ends).and_then(|adapter| adapter.greeted(&program, wire));
        let attached = started.and_then(|()| this.0.attach());
        if attached.is_err() {
            this.0.has_failed.store(this.0.close(LIMIT), Ordering::Release);
        }
        attached.map(|()| this)
    }

    /// Makes a region of so many zeros.
    ///
    /// # Errors
    /// No room; rights of peers to write without [`Access::LOCAL_WRITE`]; the adapter is lost.
    pub fn region(&self, bytes: u64, access: Access) -> Result<Region, FabricError> {
        let (id, object) = self.0.region(bytes, access, LIMIT)?;
        Ok(Region { inner: self.0.clone(), id: id.into(), object })
    }

    /// Makes a completion queue in which so many completions may wait.
    ///
    /// # Errors
    /// None, or more than 511; no room; the adapter is lost.
    pub fn completion_queue(&self, entries: u32) -> Result<CqId, FabricError> {
        self.0.completion_queue(entries, LIMIT)
    }

    /// Makes a shared receive queue of so many requests, from which queue pairs can take.
    ///
    /// # Errors
    /// None, or more than 512; no room; the adapter is lost.
    pub fn shared_receive_queue(&self, receives: u32) -> Result<SrqId, FabricError> {
        let log2 = log2_of(receives, "requests of a queue")?;
        let of = (Kind::SHARED_RECEIVE_QUEUE, LINE << log2);
        let made = self.0.create(of, LIMIT, |_, base| Ok(Object { log2, ..base }));
        made.map(|(id, _)| id.into())
    }

    /// Makes a queue pair (RC) that can receive once it is connected.
    ///
    /// # Errors
    /// More than 512 requests; no room; a queue of another adapter; datagrams without a wire; the adapter is lost.
    pub fn queue_pair(&self, plan: &QpPlan) -> Result<QpId, FabricError> {
        self.0.queue_pair(plan, LIMIT)
    }

    /// Takes a queue pair back to its beginning: not connected, its requests and their completions that were not taken
    /// are of no effect, but those of a shared receive queue. Its id is another one from now on; handlers find no completion of the
    /// former when one has opened it.
    ///
    /// # Errors
    /// It is of another adapter, or was reset 65,534 times; the adapter is lost.
    pub fn reset(&self, qp: QpId) -> Result<QpId, FabricError> {
        self.0.with(LIMIT, |ends, adapter| {
            let place = ends.live(Kind::QUEUE_PAIR, qp.name())?;
            let &Place { object, bytes, .. } = ends.places.get(place).ok_or(FabricError::Foreign)?;
            let limit = FabricError::Limit { what: "resets", most: u64::from(u16::MAX) - 1, wanted: u16::MAX.into() };
            let generation = object.generation.checked_add(1).ok_or(limit)?;
            let object = Object { generation, ..object };
            // The entries there have another tag.
            let done = adapter(Command { verb: Verb::RESET, peer: 0, object, remote: RemoteEnd::default() });
            ends.settle(place, done)?;
            ends.forget(&object, 0)?;
            ends.section.zero(object.off, bytes)?;
            ends.tell(place, object).map(Into::into)
        })
    }

    /// Puts a queue pair in error: its requests are flushed.
    ///
    /// # Errors
    /// It is of another adapter; the adapter is lost.
    pub fn set_error(&self, qp: QpId) -> Result<(), FabricError> {
        self.0.with(LIMIT, |ends, adapter| {
            ends.live(Kind::QUEUE_PAIR, qp.name())?;
            let object = Object { index: qp.index(), ..Object::default() };
            adapter(Command { verb: Verb::FAIL, peer: 0, object, remote: RemoteEnd::default() })
        })
    }

    /// Destroys a queue pair, with its requests.
    ///
    /// # Errors
    /// It is of another adapter; the adapter is lost.
    pub fn destroy_queue_pair(&self, qp: QpId) -> Result<(), FabricError> {
        self.0.destroy(Kind::QUEUE_PAIR, qp.name())
    }

    /// Destroys a completion queue, with what was not taken.
    ///
    /// # Errors
    /// A queue pair has it; it has completions of a shared receive queue that no handler has taken, so that this one would not go
    /// on: take them, or destroy that one first; it is of another adapter; the adapter is lost.
    pub fn destroy_completion_queue(&self, cq: CqId) -> Result<(), FabricError> {
        self.0.destroy(Kind::COMPLETION_QUEUE, cq.name())
    }

    /// Destroys a shared receive queue, with its requests.
    ///
    /// # Errors
    /// A queue pair takes from it; it is of another adapter; the adapter is lost.
    pub fn destroy_shared_receive_queue(&self, srq: SrqId) -> Result<(), FabricError> {
        self.0.destroy(Kind::SHARED_RECEIVE_QUEUE, srq.name())
    }

    /// Connects two queue pairs, which may be one, both ways.
    ///
    /// # Errors
    /// One of them is connected, or of another adapter; the adapter is lost.
    pub fn connect(&self, a: QpId, b: QpId) -> Result<(), FabricError> {
        self.0.connect(a, b, LIMIT)
    }

    /// Requests to send that the adapter has completed of a queue pair since it was made or reset, modulo 2^32.
    ///
    /// # Errors
    /// It is of another adapter.
    pub fn completed(&self, qp: QpId) -> Result<u32, FabricError> {
        let ends = self.0.lock(LIMIT)?;
        let ends = ends.as_ref().ok_or(FabricError::Lost)?;
        ends.live(Kind::QUEUE_PAIR, qp.name())?;
        Ok(ends.section.word(word_of(SQ_CI, qp.index()))?.load())
    }

    /// Where the section is in the window's memory, for programs that look at it from outside.
    pub fn section(&self) -> Option<Range<u64>> {
        let ends = self.0.lock(LIMIT).ok()?;
        ends.as_ref().map(|ends| ends.off..ends.off + ends.section.len())
    }

    /// Uses the section as its device does, with the device's number and epoch: for comparisons with a device that does the same.
    /// Meanwhile nothing else is asked of the adapter. Nothing wakes it here. It writes to what the device may view: only for tests and
    /// measurements.
    ///
    /// # Errors
    /// The adapter has ended, or is being asked.
    #[cfg(feature = "testing")]
    pub fn drive<R>(&self, run: impl FnOnce(&Window<Shared>, u16, u32) -> R) -> Result<R, FabricError> {
        let ends = self.0.lock(LIMIT)?;
        let ends = ends.as_ref().ok_or(FabricError::Lost)?;
        Ok(run(&ends.section, ends.node, ends.epoch.into()))
    }

    /// The adapter's process.
    ///
    /// # Errors
    /// It was ended; [`FabricError::AnotherProcess`].
    pub fn process(&self) -> Result<u32, FabricError> {
        self.0.check_here()?;
        let adapter = self.0.adapter.get().filter(|_| !self.0.is_closed());
        adapter.map(Adapter::id).ok_or(FabricError::Lost)
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        self.0.close_in(GRACE, LIMIT);
    }
}

/// A power of two that is at least so much.
fn log2_of(entries: u32, what: &'static str) -> Result<u8, FabricError> {
    let log2 = entries.checked_next_power_of_two().map_or(u32::MAX, u32::trailing_zeros);
    let most = 1 << MAX_LOG2;
    match u8::try_from(log2) {
        Ok(log2) if log2 <= MAX_LOG2 && entries != 0 => Ok(log2),
        _ => Err(FabricError::Limit { what, most, wanted: entries.into() }),
    }
}

impl Inner {
    fn is_here(&self) -> bool {
        std::process::id() == self.owner
    }

    fn check_here(&self) -> Result<(), FabricError> {
        if self.is_here() { Ok(()) } else { Err(FabricError::AnotherProcess) }
    }

    fn region(&self, bytes: u64, access: Access, limit: Duration) -> Result<(Name, Object), FabricError> {
        // Before memory is taken for it.
        if !access.is_valid() {
            return Err(FabricError::Refused(Reply::MALFORMED));
        }
        self.create((Kind::REGION, bytes), limit, |ends, base| {
            // The address is the place, so that both are equal modulo any alignment.
            let lkey = ends.key(base.index, base.generation);
            Ok(Object { len: bytes, iova: base.off, lkey, access, ..base })
        })
    }

    fn completion_queue(&self, entries: u32, limit: Duration) -> Result<CqId, FabricError> {
        // One more is for a handler that was ended before it said that it has taken one.
        let entries = if entries == 0 { 0 } else { entries.saturating_add(1) };
        let log2 = log2_of(entries, "completions of a queue")?;
        let made = self.create((Kind::COMPLETION_QUEUE, LINE << log2), limit, |ends, base| {
            ends.section.word(word_of(CQ_CI, base.index))?.store(0);
            Ok(Object { log2, ..base })
        });
        made.map(|(id, _)| id.into())
    }

    fn queue_pair(&self, plan: &QpPlan, limit: Duration) -> Result<QpId, FabricError> {
        let log2 = log2_of(plan.sends, "requests of a queue")?;
        let receive_log2 = if plan.srq.is_some() { 0 } else { log2_of(plan.receives, "requests of a queue")? };
        let rnr_retry = plan.rnr_retry.unwrap_or(Object::FOR_EVER);
        for (what, most, wanted) in [("rnr_retry", 6, plan.rnr_retry.unwrap_or(0)), ("rnr_timer", 31, plan.rnr_timer)] {
            if u64::from(wanted) > most {
                return Err(FabricError::Limit { what, most, wanted: wanted.into() });
            }
        }
        let sends = (2 * LINE) << log2;
        let bytes = sends + if plan.srq.is_some() { 0 } else { LINE << receive_log2 };
        let made = self.create((Kind::QUEUE_PAIR, bytes), limit, |ends, base| {
            for cq in [plan.send_cq, plan.receive_cq] {
                ends.live(Kind::COMPLETION_QUEUE, cq.name())?;
            }
            if let Some(srq) = plan.srq {
                ends.live(Kind::SHARED_RECEIVE_QUEUE, srq.name())?;
            }
            let (qp_number, srq) = (ends.qp_number(base.index), plan.srq.map_or(0, |srq| srq.index() + 1));
            let receive_off = if srq == 0 { base.off + sends } else { 0 };
            // Less than 64, both.
            let (send_cq, receive_cq) = (plan.send_cq.index() as u8, plan.receive_cq.index() as u8);
            let rnr_timer = plan.rnr_timer;
            let (qp_type, lkey) = match plan.qkey {
                None => (QpType::RC, 0),
                // Without a wire nothing that it sends would complete.
                Some(qkey) => ends.address.map(|_| (QpType::UD, qkey)).ok_or(FabricError::NoWire)?,
            };
            let base = Object { qp_type, lkey, qp_number, srq, rnr_retry, rnr_timer, ..base };
            Ok(Object { log2, receive_log2, receive_off, send_cq, receive_cq, ..base })
        });
        made.map(|(id, _)| id.into())
    }

    fn connect(&self, a: QpId, b: QpId, limit: Duration) -> Result<(), FabricError> {
        self.with(limit, |ends, adapter| {
            for qp in [a, b] {
                ends.live(Kind::QUEUE_PAIR, qp.name())?;
            }
            let object = Object { index: a.index(), ..Object::default() };
            adapter(Command { verb: Verb::CONNECT, peer: b.index().into(), object, remote: RemoteEnd::default() })
        })
    }

    /// Has the adapter made an object over so many zeros, and then tells handlers of it.
    fn create(
        &self,
        (kind, bytes): (Kind, u64),
        limit: Duration,
        plan: impl FnOnce(&Ends, Object) -> Result<Object, FabricError>,
    ) -> Result<(Name, Object), FabricError> {
        self.with(limit, |ends, adapter| {
            let place = ends.place(kind, bytes)?;
            let base = ends.places.get(place).map(|place| place.object).unwrap_or_default();
            let object = plan(ends, base)?;
            let done = adapter(Command { verb: Verb::CREATE, peer: 0, object, remote: RemoteEnd::default() });
            ends.settle(place, done)?;
            Ok((ends.tell(place, object)?, object))
        })
    }

    /// Is it the adapter of this device?
    #[cfg(feature = "commands")]
    fn is_of(&self, node: NodeId) -> bool {
        self.node == node
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn lock(&self, limit: Duration) -> Result<MutexGuard<'_, Option<Ends>>, FabricError> {
        self.check_here()?;
        lock_within(&self.ends, limit).ok_or(FabricError::Late)
    }

    /// Starts the program, and a thread that waits for its end.
    fn start(
        self: &Arc<Self>,
        program: &std::path::Path,
        wire: &Wire,
        side: SideEnds,
    ) -> Result<&Adapter, FabricError> {
        let SideEnds { section, memory, off, node, epoch, device, doorbell, spin_us } = side;
        let mut ends = self.lock(LIMIT)?;
        // A closer that came first has found nothing to end.
        if self.is_closed() {
            return Err(FabricError::Lost);
        }
        section.write(0, &SectionHead { magic: MAGIC, version: 1 })?;
        section.word(FABRIC_EPOCH)?.store(epoch.0);
        let (len, number) = (section.len(), epoch.0);
        let (memory, device_end, doorbell) = (&memory, &device, &doorbell);
        let start = Start { memory, device: device_end, doorbell, off, len, epoch: number, spin_us };
        let started = Adapter::start(program, wire, &start)?;
        let adapter = self.adapter.get_or_init(|| started);
        let (node, epoch) = (node.0, epoch.0 as u16);
        let (is_attached, address, mtu) = (false, wire.address(), wire.mtu());
        let (places, keys, mut free) = (Vec::new(), RandomState::new(), Ranges::new(len));
        // The front of the section; one that is not longer has no arena.
        free.allocate(ARENA);
        *ends = Some(Ends { section, device, off, node, epoch, address, mtu, is_attached, free, places, keys });
        drop(ends);
        let this = self.clone();
        let watch = move || {
            this.adapter.get().into_iter().for_each(Adapter::await_end);
            this.has_ended();
        };
        let thread = std::thread::Builder::new().name("hamr-hca-watch".to_string()).spawn(watch);
        let why = |e: std::io::Error| format!("starting the thread that watches it: {e}");
        thread.map_err(|e| FabricError::Start { program: program.into(), why: why(e) })?;
        Ok(adapter)
    }

    /// It serves: handlers may use it from now on.
    fn attach(&self) -> Result<(), FabricError> {
        let mut ends = self.lock(LIMIT)?;
        match ends.as_mut().filter(|_| !self.is_closed()) {
            None => Err(FabricError::Lost),
            Some(ends) => {
                ends.is_attached = true;
                ends.section.word(FABRIC_STATE)?.publish(FabricState::ATTACHED.0);
                Ok(())
            }
        }
    }

    /// Asks the adapter for something, within `limit`, the wait for other threads included. One that does not answer within
    /// [`LIMIT`] is ended.
    fn with<R>(
        &self,
        limit: Duration,
        ask: impl FnOnce(&mut Ends, &dyn Fn(Command) -> Result<(), FabricError>) -> Result<R, FabricError>,
    ) -> Result<R, FabricError> {
        let begin = Instant::now();
        let mut ends = self.lock(limit)?;
        let adapter = self.adapter.get().filter(|_| !self.is_closed()).ok_or(FabricError::Lost)?;
        let given = ends.as_mut().ok_or(FabricError::Lost)?;
        let left = || limit.saturating_sub(begin.elapsed());
        let at_first = left();
        // Nothing is begun that cannot be answered.
        if at_first.is_zero() {
            return Err(FabricError::Late);
        }
        let adapter_does = |command| adapter.ask(command, left());
        let done = given.take_back(&adapter_does).and_then(|()| ask(given, &adapter_does));
        let is_lost = match done {
            Err(FabricError::Late) => at_first >= LIMIT / 2,
            Err(FabricError::Lost) => true,
            _ => false,
        };
        if is_lost {
            self.end(&mut ends, adapter, Duration::ZERO, LIMIT);
        }
        done
    }

    fn destroy(&self, kind: Kind, name: Name) -> Result<(), FabricError> {
        self.with(LIMIT, |ends, adapter| {
            let at = ends.live(kind, name)?;
            let object = Object { kind, index: name.index, ..Object::default() };
            let done = adapter(Command { verb: Verb::DESTROY, peer: 0, object, remote: RemoteEnd::default() });
            ends.settle(at, done)?;
            if let Some(place) = ends.places.get_mut(at) {
                place.is_live = false;
            }
            ends.forget(&object, 0)
        })
    }

    /// Ends the adapter, which has so long to end by itself; then handlers find it lost. False: not within `limit`.
    fn end(&self, ends: &mut Option<Ends>, adapter: &Adapter, grace: Duration, limit: Duration) -> bool {
        self.is_closed.store(true, Ordering::Release);
        let has_ended = adapter.end(grace, limit);
        if has_ended && let Some(ends) = ends {
            ends.tell_lost();
        }
        has_ended
    }

    /// Ends the adapter, which has so long to end by itself, within `limit`. True: it writes nothing any more.
    fn close_in(&self, grace: Duration, limit: Duration) -> bool {
        if !self.is_here() {
            return true;
        }
        let begin = Instant::now();
        self.is_closed.store(true, Ordering::Release);
        // Who asks it something has the lock, and stops at that.
        self.adapter.get().into_iter().for_each(Adapter::hang_up);
        let Some(mut ends) = lock_within(&self.ends, limit) else { return false };
        // Under the lock it is there, or never will be.
        let left = limit.saturating_sub(begin.elapsed());
        let has_ended = self.adapter.get().is_none_or(|adapter| self.end(&mut ends, adapter, grace, left));
        if has_ended {
            // The next epoch has the section.
            *ends = None;
        }
        has_ended
    }

    /// It has ended, by itself or not.
    fn has_ended(&self) {
        self.is_closed.store(true, Ordering::Release);
        let ends = lock_within(&self.ends, Duration::MAX);
        if let Some(Some(ends)) = ends.as_deref() {
            ends.tell_lost();
        }
    }
}

impl Closer for Inner {
    fn close(&self, limit: Duration) -> bool {
        self.close_in(LIMIT.min(limit / 2), limit)
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }
}
