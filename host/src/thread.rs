//! Ranks that are threads of this process (`thread` in device specs), over their homes in a world's
//! memory: for tests of programs, and for a launcher that is a rank itself.

use crate::doorbells::{self, Doorbells};
use crate::launcher::{Home, LaunchRequest, Launcher, no_argument};
use crate::link::{Capabilities, Link, Peer};
use crate::program::{self, PROGRAM_CONFIG};
use crate::{Error, Target};
use hamr_comm::abi::window::{Shared, Window};
use hamr_device_fw::hosted::thread::serve;
use hamr_qemu::origin::Origin;
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a thread whose world has ended may take to leave its handler.
const LEAVE: Duration = Duration::from_secs(2);

/// The kind of their links.
pub(crate) const KIND: &str = "thread";

/// The launcher of such ranks.
pub(crate) struct ThreadLauncher;

impl Launcher for ThreadLauncher {
    fn describe(&self) -> String {
        "a thread of this process, with the handlers of this program: as a rank of a world".into()
    }

    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        no_argument(KIND, argument).map(|()| None)
    }

    fn is_this_program(&self) -> bool {
        true
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let why =
            "a thread is a rank of a world, no device alone: expected loopback, or Runtime::world_of_threads".into();
        Err(Error::Launch { device: request.device.into(), why })
    }

    fn launch_rank(&self, request: &LaunchRequest<'_>, home: Home) -> Result<Box<dyn Link>, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, Home { rank, world, window, doorbells, rank_doorbells, .. }) = (stop.clone(), home);
        let table = program::table();
        let own = doorbells.for_thread()?;
        let end = Arc::new(doorbells::event().map_err(Error::os("making a doorbell"))?);
        let (ends, outcome) = (End(end.clone()), Arc::new(OnceLock::new()));
        let says = outcome.clone();
        let serve = move || {
            let _ends = ends;
            let _ = says.set(serve(&*world, rank, own, rank_doorbells, table, PROGRAM_CONFIG, &seen));
        };
        let thread = std::thread::Builder::new().name(request.device.into()).spawn(serve);
        let thread = thread.map_err(Error::io("starting the thread of a rank"))?;
        let state = Mutex::new(State::Runs(thread));
        let (asked, origin) = (OnceLock::new(), Origin::here());
        Ok(Box::new(ThreadLink { window, doorbells, stop, asked, end, outcome, state, origin }))
    }
}

struct ThreadLink {
    window: Window<Shared>,
    doorbells: Arc<Doorbells>,
    stop: Arc<AtomicBool>,
    /// Since when the thread is to leave.
    asked: OnceLock<Instant>,
    /// Readable when the thread has ended.
    end: Arc<OwnedFd>,
    /// How the thread has ended, but by a panic.
    outcome: Arc<OnceLock<Result<(), String>>>,
    state: Mutex<State>,
    origin: Origin,
}

/// Says that its thread has ended, also by a panic.
struct End(Arc<OwnedFd>);

impl Drop for End {
    fn drop(&mut self) {
        // Nothing else was written.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

enum State {
    /// Never joined: destructors of the program's thread-locals may take their time.
    Runs(JoinHandle<()>),
    Ended(String),
}

impl ThreadLink {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the thread that has ended did so.
    fn how(&self) -> String {
        match self.outcome.get() {
            Some(Ok(())) => "its thread has ended".into(),
            Some(Err(why)) => why.clone(),
            None => "its thread panicked outside of handlers".into(),
        }
    }
}

impl Link for ThreadLink {
    fn kind(&self) -> &str {
        KIND
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { doorbell: true, world: true, ..Capabilities::default() }
    }
    fn window(&self) -> &Window<Shared> {
        &self.window
    }
    fn notify(&self) {
        self.doorbells.host.notify();
    }
    fn wait(&self, max_us: u32) {
        self.doorbells.host.wait(&self.end, max_us);
    }
    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        self.doorbells.host.descriptors().into_iter().chain([self.end.clone()]).collect()
    }
    fn wake(&self) {
        self.doorbells.host.wake();
    }
    fn peer(&self) -> Peer {
        let mut state = self.state();
        let how = match &*state {
            State::Runs(thread) if !thread.is_finished() => return Peer::Alive,
            State::Runs(_) => {
                // `is_finished` orders nothing, and the thread has said before how it ends.
                fence(Ordering::Acquire);
                self.how()
            }
            State::Ended(how) => how.clone(),
        };
        *state = State::Ended(how.clone());
        Peer::Gone(how)
    }
    fn terminate(&self) {
        self.asked.get_or_init(Instant::now);
        self.stop.store(true, Ordering::Release);
        self.notify();
    }
    /// A handler that does not return keeps its thread, and with it the memory, which the thread has
    /// mapped for itself.
    fn stop(&self, limit: Duration) {
        self.terminate();
        let begin = Instant::now();
        let asked = *self.asked.get_or_init(|| begin);
        while self.peer() == Peer::Alive {
            if asked.elapsed() > LEAVE || begin.elapsed() > limit {
                let how = "its thread was left in a handler that does not return";
                tracing::warn!(how, "ending a rank");
                *self.state() = State::Ended(how.into());
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// A world that did not start leaves no thread, as it leaves no process.
impl Drop for ThreadLink {
    fn drop(&mut self) {
        if self.origin.is_here() {
            self.stop(LEAVE);
        }
    }
}
