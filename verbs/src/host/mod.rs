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
mod error;
mod remote;

pub use error::FabricError;
pub use remote::{Endpoint, Path, Wire};

use crate::ids::{CqId, MrId, Name, QpId};
use crate::wire::{
    ARENA, Access, Command, FABRIC_EPOCH, FABRIC_STATE, FabricState, Kind, LINE, MAGIC, MAX_COMPLETION_QUEUES,
    MAX_LOG2, MAX_QUEUE_PAIRS, MAX_REGIONS, Object, RemoteEnd, Reply, SQ_CI, SectionHead, Verb, WORD, word_of,
};
use adapter::Adapter;
use hamr::Node;
use hamr::side::{Closer, SideEnds};
use hamr_comm::abi::window::{Shared, Window};
use std::hash::RandomState;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// How long the adapter may take for one answer, the wait for other threads included.
const LIMIT: Duration = Duration::from_secs(1);

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
    state: Mutex<State>,
    /// The process that has opened it: a copy of that does nothing to it.
    owner: u32,
}

/// What there is of the adapter.
struct State {
    ends: Option<Ends>,
    adapter: Option<Adapter>,
    is_closed: bool,
}

/// What the device has opened.
struct Ends {
    section: Window<Shared>,
    off: u64,
    node: u16,
    epoch: u16,
    /// Of its wire.
    address: Option<Ipv4Addr>,
    random: RandomState,
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
    /// The device can have none, with the reason; the adapter does not start, or is of another build.
    pub fn open(node: &Node) -> Result<Self, FabricError> {
        Self::open_with(node, &Wire::Own)
    }

    /// [`Self::open`] with a wire to other adapters.
    ///
    /// # Errors
    /// As of [`Self::open`]; the adapter cannot have the wire, and says why on standard error.
    pub fn open_with(node: &Node, wire: &Wire) -> Result<Self, FabricError> {
        // Before the epoch's one adapter is used up.
        let program = adapter::program()?;
        let inner = Arc::new(Inner {
            state: Mutex::new(State { ends: None, adapter: None, is_closed: false }),
            owner: std::process::id(),
        });
        let SideEnds { section, memory, off, node, epoch } = node.open_side(inner.clone())?;
        // A closer that comes first finds nothing to close, and this finds that it is closed.
        let mut state = inner.lock(LIMIT)?;
        if state.is_closed {
            return Err(FabricError::Lost);
        }
        section.write(0, &SectionHead { magic: MAGIC, version: 1 })?;
        section.word(FABRIC_EPOCH)?.store(epoch.0);
        let len = section.len();
        let adapter = Adapter::start(&program, wire, &memory, off, len, epoch.0)?;
        section.word(FABRIC_STATE)?.publish(FabricState::ATTACHED.0);
        let (node, epoch) = (node.0, epoch.0 as u16);
        let ends = Ends {
            section,
            off,
            node,
            epoch,
            used: ARENA,
            address: wire.address(),
            random: RandomState::new(),
            regions: 0,
            completion_queues: 0,
            queue_pairs: 0,
        };
        (state.ends, state.adapter) = (Some(ends), Some(adapter));
        drop(state);
        Ok(Self(inner))
    }

    /// Makes a region of so many zeros.
    ///
    /// # Errors
    /// No room; the adapter is lost.
    pub fn region(&self, bytes: u64, access: Access) -> Result<Region, FabricError> {
        self.create(|ends| {
            let index = free(ends.regions, MAX_REGIONS, "regions")?;
            let off = ends.take(bytes)?;
            ends.regions += 1;
            // The address is the place, so that both are equal modulo any alignment.
            let lkey = 0x0100_0000 | u32::from(index);
            Ok(Object { kind: Kind::REGION, index, off, len: bytes, iova: off, lkey, access, ..Object::default() })
        })
        .map(|(id, object)| Region { inner: self.0.clone(), id: id.into(), off: object.off, len: bytes })
    }

    /// Makes a completion queue in which so many completions may wait.
    ///
    /// # Errors
    /// None, or more than 511; no room; the adapter is lost.
    pub fn completion_queue(&self, entries: u32) -> Result<CqId, FabricError> {
        // One more is for a handler that was ended before it said that it has taken one.
        let entries = if entries == 0 { 0 } else { entries.saturating_add(1) };
        let log2 = log2_of(entries, "completions of a queue")?;
        let made = self.create(|ends| {
            let index = free(ends.completion_queues, MAX_COMPLETION_QUEUES, "completion queues")?;
            let off = ends.take(LINE << log2)?;
            ends.completion_queues += 1;
            Ok(Object { kind: Kind::COMPLETION_QUEUE, index, off, log2, ..Object::default() })
        });
        made.map(|(id, _)| id.into())
    }

    /// Makes a queue pair (RC) that can receive once it is connected.
    ///
    /// # Errors
    /// More than 512 requests; no room; a completion queue of another adapter; the adapter is lost.
    pub fn queue_pair(&self, plan: &QpPlan) -> Result<QpId, FabricError> {
        let (log2, receive_log2) =
            (log2_of(plan.sends, "requests of a queue")?, log2_of(plan.receives, "requests of a queue")?);
        let made = self.create(|ends| {
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
            let base = Object { kind: Kind::QUEUE_PAIR, index, qp_number: ends.qp_number(index), ..Object::default() };
            Ok(Object { log2, receive_log2, off, receive_off, send_cq, receive_cq, ..base })
        });
        made.map(|(id, _)| id.into())
    }

    /// Connects two queue pairs, which may be one, both ways.
    ///
    /// # Errors
    /// One of them is connected, or of another adapter; the adapter is lost.
    pub fn connect(&self, a: QpId, b: QpId) -> Result<(), FabricError> {
        self.0.with(|ends, adapter| {
            for qp in [a, b] {
                ends.check(qp.name(), ends.queue_pairs)?;
            }
            let object = Object { index: a.index(), ..Object::default() };
            adapter.ask(&Command { verb: Verb::CONNECT, peer: b.index().into(), object, remote: RemoteEnd::default() })
        })
    }

    /// Requests to send that the adapter has completed of a queue pair, modulo 2^32.
    ///
    /// # Errors
    /// It is of another adapter.
    pub fn completed(&self, qp: QpId) -> Result<u32, FabricError> {
        let state = self.0.lock(LIMIT)?;
        let ends = state.ends.as_ref().ok_or(FabricError::Lost)?;
        ends.check(qp.name(), ends.queue_pairs)?;
        Ok(ends.section.word(word_of(SQ_CI, qp.index()))?.load())
    }

    /// Where the section is in the window's memory, for programs that look at it from outside.
    pub fn section(&self) -> Option<Range<u64>> {
        let state = self.0.lock(LIMIT).ok()?;
        state.ends.as_ref().map(|ends| ends.off..ends.off + ends.section.len())
    }

    /// The adapter's process.
    ///
    /// # Errors
    /// It was ended.
    pub fn process(&self) -> Result<u32, FabricError> {
        self.0.with(|_, adapter| Ok(adapter.id()))
    }

    /// Has the adapter made an object, and then tells handlers of it.
    fn create(
        &self,
        plan: impl FnOnce(&mut Ends) -> Result<Object, FabricError>,
    ) -> Result<(Name, Object), FabricError> {
        self.0.with(|ends, adapter| {
            let object = Object { generation: 1, ..plan(ends)? };
            adapter.ask(&Command { verb: Verb::CREATE, peer: 0, object, remote: RemoteEnd::default() })?;
            let place = object.kind.place(object.index).ok_or(FabricError::Refused(Reply::MALFORMED))?;
            ends.section.write(place, object.as_bytes().get(..WORD as usize).unwrap_or_default())?;
            ends.section.word(place + WORD)?.publish(Object::live(object.generation));
            let name = Name { index: object.index, generation: object.generation, node: ends.node, epoch: ends.epoch };
            Ok((name, object))
        })
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        self.0.close();
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

    fn lock(&self, limit: Duration) -> Result<MutexGuard<'_, State>, FabricError> {
        if !self.is_here() {
            return Err(FabricError::Lost);
        }
        let begin = Instant::now();
        loop {
            match self.state.try_lock() {
                Ok(state) => return Ok(state),
                Err(TryLockError::Poisoned(state)) => return Ok(state.into_inner()),
                Err(TryLockError::WouldBlock) if begin.elapsed() >= limit => return Err(FabricError::Late),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(100)),
            }
        }
    }

    /// Asks the adapter for something. One that does not answer in time is ended: its answer would be taken for another's.
    fn with<R>(&self, ask: impl FnOnce(&mut Ends, &Adapter) -> Result<R, FabricError>) -> Result<R, FabricError> {
        let mut state = self.lock(LIMIT)?;
        let State { ends: Some(ends), adapter: Some(adapter), .. } = &mut *state else { return Err(FabricError::Lost) };
        let done = ask(ends, adapter);
        if matches!(done, Err(FabricError::Late | FabricError::Lost)) {
            state.end(Duration::ZERO);
        }
        done
    }
}

impl State {
    /// Ends the adapter, which has so long to end by itself; then handlers find it lost.
    fn end(&mut self, limit: Duration) {
        self.is_closed = true;
        if let Some(adapter) = self.adapter.take() {
            adapter.end(limit);
        }
        if let Some(ends) = &self.ends
            && let Ok(word) = ends.section.word(FABRIC_STATE)
        {
            word.publish(FabricState::LOST.0);
        }
    }
}

impl Closer for Inner {
    fn close(&self) {
        if !self.is_here() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.end(LIMIT);
        // The next epoch has the section.
        state.ends = None;
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
        let state = self.inner.lock(LIMIT)?;
        copy(&state.ends.as_ref().ok_or(FabricError::Lost)?.section, self.off + at)
    }
}
