//! Worlds: N devices in one memory, which live and end together (abi §13, `docs/worlds.md`).
//!
//! `start` lays the memory out and starts the ranks, `run` calls all of them (`calls`), `started` does so without
//! waiting, `watch` follows them and ends all of them when one has left, was lost or hangs (`stall`);
//! `program` is about ranks that are ordinary programs.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = hamr::Runtime::new()?;
//! let world = runtime.world("shm", 4, hamr::Image::find("my-image")?)?;
//! let (here, there) = (world.node(0).buffer(&[1.0, 2.0])?, world.node(3).allocate::<f64>(2)?);
//! world.copy(here.ptr(), there.ptr())?;
//! # Ok(()) }
//! ```

mod calls;
mod program;
mod run;
mod stall;
mod start;
mod started;
mod turns;
mod watch;

use crate::{BufferError, Error, Node, Options, PendingWork, TaskInfo};
use hamr_comm::abi::ids::RankId;
use hamr_comm::{BufferPtr, Element};
use hamr_qemu::origin::Origin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use watch::Watched;

pub use calls::RunError;
#[cfg(feature = "cli")]
pub(crate) use program::{ARGUMENTS, Main};
pub use program::{ProgramError, is_rank, main, serve};
pub use started::StartedRun;

/// Sizes and habits of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldOptions {
    /// What every rank is opened with: `heap` is for buffers of this program, `segment` the rank's
    /// own. `restart` is off for ranks, and `cpu` is taken from `cpus`.
    pub rank: Options,
    /// Pins the dispatcher of rank r to the processor at r, and again from the front behind the
    /// last one. Empty: none is pinned.
    pub cpus: Vec<usize>,
    /// A rank that exists and does nothing for so long, neither stepping `alive` (abi §3.3) nor finding
    /// work, is lost; `None`: never. Processes and the machines of this crate step it while handlers run.
    pub stall: Option<Duration>,
}

impl Default for WorldOptions {
    fn default() -> Self {
        let rank = Options { heap: 1 << 20, segment: 64 << 20, streams: Some(8), ..Options::default() };
        // Three emulated machines on two processors stall for seconds.
        Self { rank, cpus: Vec::new(), stall: Some(Duration::from_secs(10)) }
    }
}

/// A rank that ended without an exit code, which ends its world.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} was lost: {why}")]
pub struct WorldError {
    /// The rank.
    pub rank: RankId,
    /// Its name in messages: `rank 2 (shm)`.
    pub name: String,
    /// How it ended; of a crash, with its text.
    pub why: String,
    /// The code that a shell would have for that end, where the rank is a process: its exit code, or 128 and a signal.
    pub code: Option<u8>,
}

crate::error::debug_as_display! {
    WorldError;
}

/// A task of a rank that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// The rank.
    pub rank: RankId,
    /// Its task, with what that waits for.
    pub task: TaskInfo,
}

impl std::fmt::Display for Stalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}: {}", self.rank, self.task)
    }
}

/// Devices in one memory: the ranks. Each is an ordinary [`Node`].
///
/// A rank that leaves ([`hamr_comm::world::WorldRef::exit`]), is lost, stopped or restarted ends the
/// world: calls in flight end with [`CallError::DeviceLost`](crate::CallError::DeviceLost), which
/// names that rank, and within two seconds no rank is left. Dropping the world ends all ranks.
pub struct World {
    watched: Arc<Watched>,
    runs: turns::InTurn<run::Runs>,
    watcher: Option<JoinHandle<()>>,
    origin: Origin,
}

impl World {
    /// Ranks.
    pub fn size(&self) -> u32 {
        self.nodes().len() as u32
    }

    /// One rank.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn node(&self, rank: u32) -> &Node {
        &self.nodes()[rank as usize]
    }

    /// All ranks, in order.
    pub fn nodes(&self) -> &[Node] {
        self.watched.nodes()
    }

    /// Copies one buffer to another, of the same rank or of two: one copy in this process. Transfers
    /// of the two by other threads are waited for, as in [`Node::put`] and [`Node::get`].
    ///
    /// # Errors
    /// A freed pointer, or one of no rank; lengths that differ; a buffer that a call in flight
    /// names.
    pub fn copy<T: Element>(&self, from: BufferPtr<T>, to: BufferPtr<T>) -> Result<(), Error> {
        let (source, target) = (self.owner(from)?, self.owner(to)?);
        source.copy_to(from, target, to)
    }

    /// Submits [`Self::copy`], as [`Node::copy_to_async`] on the rank that `from` is of.
    ///
    /// # Errors
    /// As [`Self::copy`], at once, and as [`Node::put_async`].
    pub fn copy_async<T: Element>(&self, from: BufferPtr<T>, to: BufferPtr<T>) -> Result<PendingWork<()>, Error> {
        let (source, target) = (self.owner(from)?, self.owner(to)?);
        source.copy_to_async(from, target, to)
    }

    /// The tasks that wait, of all ranks in their order: who waits for what, and where. Ranks that wait
    /// for each other in a circle all show it here.
    pub fn stalls(&self) -> Vec<Stalled> {
        let ranks = (0..).zip(self.nodes());
        let of_rank =
            |(rank, node): (u32, &Node)| node.tasks().into_iter().map(move |task| Stalled { rank: RankId(rank), task });
        ranks.flat_map(of_rank).collect()
    }

    /// How the world ended, as soon as that is known: the code that a rank left with, or the rank
    /// that was lost. `None` while it runs.
    pub fn outcome(&self) -> Option<Result<u8, WorldError>> {
        if self.origin.is_here() { self.watched.outcome() } else { Some(Err(self.of_another_process())) }
    }

    /// Waits until the world has ended and no rank is left.
    ///
    /// # Errors
    /// The rank that was lost.
    pub fn wait(&self) -> Result<u8, WorldError> {
        if self.origin.is_here() { self.watched.wait() } else { Err(self.of_another_process()) }
    }

    /// Its threads are of the process that this one is a copy of.
    #[cold]
    fn of_another_process(&self) -> WorldError {
        let device = self.node(0).device();
        WorldError { rank: RankId(0), name: device.name.clone(), why: device.why_closed().into(), code: None }
    }

    /// The rank that a pointer belongs to.
    fn owner<T: Element>(&self, ptr: BufferPtr<T>) -> Result<&Node, Error> {
        self.nodes().iter().find(|node| node.device().id == ptr.node()).ok_or_else(|| {
            let first = self.node(0);
            buffer_error(first, BufferError::Foreign { owner: ptr.node().0, here: first.device().id.0 })
        })
    }
}

impl Node {
    /// Is it a rank that is a thread of this process?
    fn is_thread(&self) -> bool {
        self.device().link.kind() == crate::thread::KIND
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            // The threads are of another process: this one waits for none.
            std::mem::forget(self.watcher.take());
            return;
        }
        self.watched.close();
        // All of them leave at once: each is waited for on its own.
        self.nodes().iter().filter(|node| node.is_thread()).for_each(|node| node.device().link.terminate());
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            // A panic of the thread has printed its own message; the ranks end with their nodes.
            let _ = watcher.join();
        }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.nodes()).finish()
    }
}

fn buffer_error(node: &Node, why: BufferError) -> Error {
    Error::Buffer { device: node.device().name.clone(), why }
}

static_assertions::assert_impl_all!(World: Send, Sync);
