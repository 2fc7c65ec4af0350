//! The host's handle of an adapter: starts it beside a device, makes queues and regions, and ends it with the device's epoch.
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

pub use error::FabricError;

use crate::ids::{CqId, MrId, Name, QpId};
use crate::wire::{
    ARENA, Access, Command, FABRIC_EPOCH, FABRIC_STATE, FabricState, Kind, LINE, MAGIC, MAX_COMPLETION_QUEUES,
    MAX_LOG2, MAX_QUEUE_PAIRS, MAX_REGIONS, Object, Reply, SQ_CI, SectionHead, Verb, WORD, word_of,
};
use adapter::{Adapter, Start};
use hamr::Node;
use hamr::side::{Closer, SideEnds, lock_within};
use hamr_comm::abi::ids::NodeId;
use hamr_comm::abi::window::{Shared, Window};
use rustix::fd::OwnedFd;
use rustix::net::SendFlags;
use std::format;
use std::ops::Range;
use std::path::Path;
use std::string::ToString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

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
    /// The same of receives.
    pub receives: u32,
}

impl QpPlan {
    /// 64 requests of each kind, which complete in one queue.
    pub const fn new(cq: CqId) -> Self {
        Self { send_cq: cq, receive_cq: cq, sends: 64, receives: 64 }
    }
}

/// The adapter of one device, in one epoch of it. At its end the adapter has ended, and handlers find it lost.
pub struct Fabric(Arc<Inner>);

struct Inner {
    /// What there is of the section; `None` before and behind its adapter's epoch. Who has the lock asks the adapter, or uses
    /// the section.
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

/// What the device has opened.
struct Ends {
    section: Window<Shared>,
    /// A socket that notifies the device.
    device: OwnedFd,
    off: u64,
    node: u16,
    epoch: u16,
    /// Handlers were told that it serves.
    is_attached: bool,
    /// Arena that is used.
    used: u64,
    regions: u16,
    completion_queues: u16,
    queue_pairs: u16,
}

impl Fabric {
    /// Starts an adapter beside a device, which has [`hamr::Options::verbs`] bytes for it: once in an epoch. It is the program that
    /// `HAMR_HCA` names, else `hamr-hca` beside this one.
    ///
    /// # Errors
    /// The device can have none, with the reason; the adapter does not start, or is of another build. Then it may be tried again.
    pub fn open(node: &Node) -> Result<Self, FabricError> {
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
        let started = this.0.start(&program, ends).and_then(|adapter| adapter.greeted(&program));
        let attached = started.and_then(|()| this.0.attach());
        if attached.is_err() {
            this.0.has_failed.store(this.0.close(LIMIT), Ordering::Release);
        }
        attached.map(|()| this)
    }

    /// Makes a region of so many zeros.
    ///
    /// # Errors
    /// No room; the adapter is lost.
    pub fn region(&self, bytes: u64, access: Access) -> Result<Region, FabricError> {
        let (id, object) = self.0.region(bytes, access, LIMIT)?;
        Ok(Region { inner: self.0.clone(), id: id.into(), off: object.off, len: bytes })
    }

    /// Makes a completion queue in which so many completions may wait.
    ///
    /// # Errors
    /// None, or more than 511; no room; the adapter is lost.
    pub fn completion_queue(&self, entries: u32) -> Result<CqId, FabricError> {
        self.0.completion_queue(entries, LIMIT)
    }

    /// Makes a queue pair (RC) that can receive once it is connected.
    ///
    /// # Errors
    /// More than 512 requests; no room; a completion queue of another adapter; the adapter is lost.
    pub fn queue_pair(&self, plan: &QpPlan) -> Result<QpId, FabricError> {
        self.0.queue_pair(plan, LIMIT)
    }

    /// Connects two queue pairs, which may be one, both ways.
    ///
    /// # Errors
    /// One of them is connected, or of another adapter; the adapter is lost.
    pub fn connect(&self, a: QpId, b: QpId) -> Result<(), FabricError> {
        self.0.connect(a, b, LIMIT)
    }

    /// Requests to send that the adapter has completed of a queue pair, modulo 2^32.
    ///
    /// # Errors
    /// It is of another adapter.
    pub fn completed(&self, qp: QpId) -> Result<u32, FabricError> {
        let ends = self.0.lock(LIMIT)?;
        let ends = ends.as_ref().ok_or(FabricError::Lost)?;
        ends.check(qp.name(), ends.queue_pairs)?;
        Ok(ends.section.word(word_of(SQ_CI, qp.index()))?.load())
    }

    /// Where the section is in the window's memory, for programs that look at it from outside.
    pub fn section(&self) -> Option<Range<u64>> {
        let ends = self.0.lock(LIMIT).ok()?;
        ends.as_ref().map(|ends| ends.off..ends.off + ends.section.len())
    }

    /// The adapter's process.
    ///
    /// # Errors
    /// It was ended.
    pub fn process(&self) -> Result<u32, FabricError> {
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

/// The next index of a kind of object.
fn free(used: u16, most: u16, what: &'static str) -> Result<u16, FabricError> {
    if used >= most {
        return Err(FabricError::Limit { what, most: most.into(), wanted: u64::from(used) + 1 });
    }
    Ok(used)
}

impl Ends {
    /// Takes so many bytes of the arena, all zero. Nothing of it is given back in this epoch, so no ring becomes a region.
    fn take(&mut self, bytes: u64) -> Result<u64, FabricError> {
        let has = self.section.len();
        let end =
            self.used.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(LINE)).filter(|end| *end <= has);
        let wanted = self.used.saturating_add(bytes).saturating_sub(ARENA);
        let limit = FabricError::Limit { what: "bytes (Options::verbs)", most: has.saturating_sub(ARENA), wanted };
        let end = end.ok_or(limit)?;
        let off = std::mem::replace(&mut self.used, end);
        self.section.zero(off, bytes)?;
        Ok(off)
    }

    /// Is an object one of these?
    fn check(&self, name: Name, count: u16) -> Result<(), FabricError> {
        let is_here = name.node == self.node && name.epoch == self.epoch && name.index < count;
        if is_here { Ok(()) } else { Err(FabricError::Foreign) }
    }
}

impl Inner {
    fn is_here(&self) -> bool {
        std::process::id() == self.owner
    }

    fn region(&self, bytes: u64, access: Access, limit: Duration) -> Result<(Name, Object), FabricError> {
        self.create(limit, |ends| {
            let index = free(ends.regions, MAX_REGIONS, "regions")?;
            let off = ends.take(bytes)?;
            ends.regions += 1;
            // The address is the place, so that both are equal modulo any alignment.
            let lkey = 0x0100_0000 | u32::from(index);
            Ok(Object { kind: Kind::REGION, index, off, len: bytes, iova: off, lkey, access, ..Object::default() })
        })
    }

    fn completion_queue(&self, entries: u32, limit: Duration) -> Result<CqId, FabricError> {
        // One more is for a handler that was ended before it said that it has taken one.
        let entries = if entries == 0 { 0 } else { entries.saturating_add(1) };
        let log2 = log2_of(entries, "completions of a queue")?;
        let made = self.create(limit, |ends| {
            let index = free(ends.completion_queues, MAX_COMPLETION_QUEUES, "completion queues")?;
            let off = ends.take(LINE << log2)?;
            ends.completion_queues += 1;
            Ok(Object { kind: Kind::COMPLETION_QUEUE, index, off, log2, ..Object::default() })
        });
        made.map(|(id, _)| id.into())
    }

    fn queue_pair(&self, plan: &QpPlan, limit: Duration) -> Result<QpId, FabricError> {
        let (log2, receive_log2) =
            (log2_of(plan.sends, "requests of a queue")?, log2_of(plan.receives, "requests of a queue")?);
        let made = self.create(limit, |ends| {
            for cq in [plan.send_cq, plan.receive_cq] {
                ends.check(cq.name(), ends.completion_queues)?;
            }
            let index = free(ends.queue_pairs, MAX_QUEUE_PAIRS, "queue pairs")?;
            let sends = (2 * LINE) << log2;
            let off = ends.take(sends + (LINE << receive_log2))?;
            let receive_off = off + sends;
            ends.queue_pairs += 1;
            // Less than 64, both.
            let (send_cq, receive_cq) = (plan.send_cq.index() as u8, plan.receive_cq.index() as u8);
            let base = Object { kind: Kind::QUEUE_PAIR, index, qp_number: u32::from(index) + 1, ..Object::default() };
            Ok(Object { log2, receive_log2, off, receive_off, send_cq, receive_cq, ..base })
        });
        made.map(|(id, _)| id.into())
    }

    fn connect(&self, a: QpId, b: QpId, limit: Duration) -> Result<(), FabricError> {
        self.with(limit, |ends, adapter| {
            for qp in [a, b] {
                ends.check(qp.name(), ends.queue_pairs)?;
            }
            let object = Object { index: a.index(), ..Object::default() };
            adapter(Command { verb: Verb::CONNECT, peer: b.index().into(), object })
        })
    }

    /// Has the adapter made an object, and then tells handlers of it.
    fn create(
        &self,
        limit: Duration,
        plan: impl FnOnce(&mut Ends) -> Result<Object, FabricError>,
    ) -> Result<(Name, Object), FabricError> {
        self.with(limit, |ends, adapter| {
            let object = Object { generation: 1, ..plan(ends)? };
            adapter(Command { verb: Verb::CREATE, peer: 0, object })?;
            let place = object.kind.place(object.index).ok_or(FabricError::Refused(Reply::MALFORMED))?;
            ends.section.write(place, object.as_bytes().get(..WORD as usize).unwrap_or_default())?;
            ends.section.word(place + WORD)?.publish(Object::live(object.generation));
            let name = Name { index: object.index, generation: object.generation, node: ends.node, epoch: ends.epoch };
            Ok((name, object))
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
        if !self.is_here() {
            return Err(FabricError::Lost);
        }
        lock_within(&self.ends, limit).ok_or(FabricError::Late)
    }

    /// Starts the program, and a thread that waits for its end.
    fn start(self: &Arc<Self>, program: &Path, side: SideEnds) -> Result<&Adapter, FabricError> {
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
        let started = Adapter::start(program, &start)?;
        let adapter = self.adapter.get_or_init(|| started);
        let (node, epoch) = (node.0, epoch.0 as u16);
        let (used, is_attached) = (ARENA, false);
        let (regions, completion_queues, queue_pairs) = (0, 0, 0);
        *ends = Some(Ends {
            section,
            device,
            off,
            node,
            epoch,
            is_attached,
            used,
            regions,
            completion_queues,
            queue_pairs,
        });
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
        let left = limit.saturating_sub(begin.elapsed());
        let done = ask(given, &|command| adapter.ask(command, left));
        let is_lost = match done {
            Err(FabricError::Late) => left >= LIMIT / 2,
            Err(FabricError::Lost) => true,
            _ => false,
        };
        if is_lost {
            self.end(&mut ends, adapter, Duration::ZERO, LIMIT);
        }
        done
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

impl Ends {
    /// The adapter writes nothing any more: handlers find that, also of a device that sleeps.
    fn tell_lost(&self) {
        if self.is_attached
            && let Ok(word) = self.section.word(FABRIC_STATE)
        {
            word.publish(FabricState::LOST.0);
            // Always, so that no fence is needed. An error means that the device is being notified already, or gone.
            let _ = rustix::net::send(&self.device, &1_u64.to_ne_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
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

/// Registered memory. It stays as long as its adapter.
pub struct Region {
    inner: Arc<Inner>,
    id: MrId,
    off: u64,
    len: u64,
}

impl Region {
    /// Its name, for handlers.
    pub fn id(&self) -> MrId {
        self.id
    }

    /// Copies bytes in. It has no order with messages.
    ///
    /// # Errors
    /// They leave the region; its adapter is closed.
    pub fn put(&self, at: u64, from: &[u8]) -> Result<(), FabricError> {
        self.access(at, from.len(), |section, off| Ok(section.write_bytes(off, from)?))
    }

    /// Copies bytes out, likewise.
    ///
    /// # Errors
    /// As of [`Self::put`].
    pub fn get(&self, at: u64, to: &mut [u8]) -> Result<(), FabricError> {
        self.access(at, to.len(), |section, off| Ok(section.read_bytes(off, to)?))
    }

    fn access(
        &self,
        at: u64,
        len: usize,
        copy: impl FnOnce(&Window<Shared>, u64) -> Result<(), FabricError>,
    ) -> Result<(), FabricError> {
        let wanted = at.saturating_add(len as u64);
        if wanted > self.len {
            return Err(FabricError::Limit { what: "bytes of the region", most: self.len, wanted });
        }
        let ends = self.inner.lock(LIMIT)?;
        copy(&ends.as_ref().ok_or(FabricError::Lost)?.section, self.off + at)
    }
}
