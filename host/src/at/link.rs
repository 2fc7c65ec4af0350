//! The link to a device that another process keeps.

use super::protocol::{self, Answer, Ask, Limit, Unanswered};
use crate::doorbells::HostDoorbells;
use crate::launcher::LaunchRequest;
use crate::link::{Capabilities, Link, Peer, wait_until_left};
use crate::mapping::{Revocable, map_revocable};
use crate::{Error, ImageFile};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::preamble::{MAGIC, word};
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::am::patience;
use hamr_comm::handshake::HostHandshake;
use hamr_qemu::origin::Origin;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{SealFlags, fcntl_get_seals};
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the device may take to leave an epoch before its process is ended.
pub const LEAVE_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) struct ServedLink {
    /// Behind the colon of the spec.
    name: String,
    kind: String,
    image: Option<ImageFile>,
    window: Window<Shared>,
    map: Revocable,
    /// How long a keeper may take to grant a device, or another process of it.
    start_deadline: Duration,
    /// Never locked while a thread waits for a keeper.
    session: Mutex<Session>,
    /// Does a thread ask a keeper? One at a time does, in its [`Turn`].
    is_asking: Mutex<bool>,
    turn_ended: Condvar,
    /// The device wrote nothing any more when it was last stopped.
    has_left: AtomicBool,
    /// The memory is another keeper's than before.
    is_other: AtomicBool,
    is_released: AtomicBool,
    origin: Origin,
}

/// What there is of one keeper. Another one of the same name may follow.
#[derive(Clone)]
struct Session {
    /// To the keeper; `None` when this host has released the device.
    socket: Option<Arc<OwnedFd>>,
    doorbells: Arc<HostDoorbells>,
    /// Readable when the device's process has ended.
    process: Arc<OwnedFd>,
    /// No epoch has begun in it.
    is_new: bool,
    /// The keeper was asked for another process, and had not answered when the limit had passed.
    is_asked: bool,
}

/// Of the thread that asks a keeper.
struct Turn<'l>(&'l ServedLink);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.is_asking.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.turn_ended.notify_one();
    }
}

/// What a keeper granted.
struct Grant {
    session: Session,
    memory: OwnedFd,
    kind: String,
    image: OsString,
}

/// What the keeper answers that was asked for its device.
fn granted(socket: OwnedFd, window_len: u64, limit: Limit) -> Result<Grant, String> {
    let (answer, descriptors) = protocol::answered(&socket, limit)?;
    let (has, kind, image) = match answer {
        Answer::Granted { window_len, kind, image } => (window_len, kind, image),
        Answer::Refused(why) => return Err(why),
        Answer::Renewed | Answer::Stopped => return Err("expected a device, got another answer".into()),
    };
    let Ok([memory, notified, device, process]) = <[OwnedFd; protocol::DESCRIPTORS]>::try_from(descriptors) else {
        return Err("expected the descriptors of a device, got others".into());
    };
    let needed = SealFlags::SHRINK | SealFlags::SEAL;
    let is_sealed = fcntl_get_seals(&memory).is_ok_and(|seals| seals.contains(needed));
    let len = rustix::fs::fstat(&memory).map_or(0, |stat| stat.st_size as u64);
    if !is_sealed || len < has {
        return Err("expected memory that cannot shrink, got other".into());
    }
    if has < window_len {
        return Err(format!(
            "expected a window of at least {window_len} bytes for this layout, got {has}: ask for a smaller heap or fewer streams \
             (Options), or have `serve` make it longer (--option heap=…)"
        ));
    }
    let doorbells = HostDoorbells::of_keeper(notified, device)?;
    let (socket, process) = (Some(Arc::new(socket)), Arc::new(process));
    let session = Session { socket, doorbells: Arc::new(doorbells), process, is_new: true, is_asked: false };
    Ok(Grant { session, memory, kind, image })
}

impl ServedLink {
    pub(super) fn attach(request: &LaunchRequest<'_>) -> Result<Self, Error> {
        let fail = |why| Error::Launch { device: request.device.into(), why };
        let start_deadline = request.start_deadline;
        let (name, limit) = (request.argument, Limit::of(start_deadline));
        let socket = protocol::connect(name, Ask::Attach, limit).map_err(|why| fail(why.explained(name)))?;
        let Grant { session, memory, kind, image } = granted(socket, request.window_len, limit).map_err(fail)?;
        let session = Session { is_new: false, ..session };
        let (window, map) = map_revocable(&memory, 0, request.window_len, true)?;
        Ok(Self {
            name: request.argument.into(),
            kind: format!("at-{kind}"),
            // Names in messages only.
            image: Some(image).filter(|image| !image.is_empty()).and_then(|path| ImageFile::open(path.as_ref()).ok()),
            window,
            map,
            start_deadline,
            session: Mutex::new(session),
            is_asking: Mutex::new(false),
            turn_ended: Condvar::new(),
            has_left: AtomicBool::new(false),
            is_other: AtomicBool::new(false),
            is_released: AtomicBool::new(false),
            origin: Origin::here(),
        })
    }

    fn locked(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self) -> Session {
        self.locked().clone()
    }

    /// Ends the connection. To close it is not enough: a child that this process has forked has it, too.
    fn end(&self, socket: &OwnedFd) {
        if self.origin.is_here() {
            // An error means that the keeper has ended.
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
    }

    fn load(&self, off: u64) -> u32 {
        self.window.word(off).map_or(0, |w| w.observe())
    }

    /// Waits until no other thread asks a keeper.
    fn turn(&self, limit: Limit) -> Result<Turn<'_>, String> {
        let is_asking = self.is_asking.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.turn_ended.wait_timeout_while(is_asking, limit.left(), |is_asking| *is_asking);
        let (mut is_asking, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *is_asking, true) {
            return Err("another thread of this program waits for the process that keeps it".into());
        }
        Ok(Turn(self))
    }

    /// A process for the next epoch, from the same keeper or from one of the same name that followed
    /// it.
    fn renew(&self, limit: Limit) -> Result<(), String> {
        let _turn = self.turn(limit)?;
        let (socket, is_asked) = {
            let mut session = self.locked();
            let socket = session.socket.clone().ok_or_else(released)?;
            if std::mem::take(&mut session.is_new) {
                return Ok(());
            }
            (socket, session.is_asked)
        };
        let renewed = protocol::renew(&socket, is_asked, limit);
        if let Err(Unanswered::Never(_)) = renewed {
            self.follow(limit)?;
            self.locked().is_new = false;
            return Ok(());
        }
        let mut session = self.locked();
        session.is_asked = renewed.is_err();
        session.process = Arc::new(renewed?);
        Ok(())
    }

    /// Takes the device of the keeper that followed. In a turn.
    fn follow(&self, limit: Limit) -> Result<(), String> {
        let grant = granted(protocol::connect(&self.name, Ask::Attach, limit)?, self.window.len(), limit)?;
        let mut session = self.locked();
        // Behind `release` the memory must stay away.
        if session.socket.is_none() {
            return Err(released());
        }
        // The old memory has no other user: its device ended with its keeper.
        self.map.restore(&grant.memory, 0).map_err(|e| e.to_string())?;
        self.is_other.store(true, Ordering::Release);
        *session = grant.session;
        Ok(())
    }
}

fn released() -> String {
    "this program has released it".into()
}

/// Has the keeper at the other end ended?
fn has_ended(keeper: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(keeper, PollFlags::empty())], Some(&now)).is_ok_and(|n| n > 0)
}

/// Does the device of this window write nothing any more: because it was never laid out, or because
/// it acknowledged the end of its epoch?
pub(crate) fn has_left(window: &Window<Shared>) -> bool {
    let load = |off| window.word(off).map_or(0, |w| w.observe());
    load(0) != MAGIC || HostHandshake::has_acknowledged(window, Epoch(load(word::EPOCH)))
}

impl Link for ServedLink {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { doorbell: true, ..Capabilities::default() }
    }

    fn window(&self) -> &Window<Shared> {
        &self.window
    }

    fn notify(&self) {
        self.session().doorbells.notify();
    }

    fn wait(&self, max_us: u32) {
        // Without the lock of the session, and its counts.
        if max_us == 0 {
            return patience::rest();
        }
        let Session { doorbells, process, .. } = self.session();
        doorbells.wait(&process, max_us);
    }

    fn wake(&self) {
        self.session().doorbells.wake();
    }

    fn peer(&self) -> Peer {
        let Session { socket, process, .. } = self.session();
        let Some(socket) = socket else { return Peer::Gone(released()) };
        if self.has_left.load(Ordering::Acquire) {
            return Peer::Gone("it has left, as it was asked to".into());
        }
        let mut fds = [PollFd::new(&*process, PollFlags::IN), PollFd::new(&*socket, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A system call that fails says nothing.
        let _ = poll(&mut fds, Some(&now));
        let [process, keeper] = fds.map(|fd| !fd.revents().is_empty());
        match (process, keeper) {
            (false, false) => Peer::Alive,
            (true, false) => Peer::Gone("its process ended".into()),
            (_, true) => Peer::Gone(format!("`serve {}`, which kept it, has ended", self.name)),
        }
    }

    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        let Session { doorbells, process, .. } = self.session();
        doorbells.descriptors().into_iter().chain([process]).collect()
    }

    fn stop(&self, limit: Duration) {
        let whole = Limit::of(limit);
        HostHandshake::close(&self.window);
        self.notify();
        if !wait_until_left(self, limit.min(LEAVE_TIMEOUT), has_left) && self.peer() == Peer::Alive {
            // Its process is ended by the keeper. An error means that both are gone, or that the limit is over: then
            // a restart asks for another process first.
            let _ = self.renew(Limit::of(whole.left().min(self.start_deadline)));
        }
        self.has_left.store(true, Ordering::Release);
        self.wake();
    }

    fn outlives_host(&self) -> bool {
        true
    }

    fn release(&self) {
        self.is_released.store(true, Ordering::Release);
        let mut session = self.locked();
        // In this order, because remaining streams, results and log readers may still write to the
        // window. If the mapping cannot be ended, the connection stays until the link is dropped.
        if self.map.revoke().is_ok()
            && let Some(socket) = session.socket.take()
        {
            self.end(&socket);
        }
    }

    fn image(&self) -> Option<ImageFile> {
        self.image.clone()
    }

    fn is_back(&self, limit: Duration) -> Result<(), Option<String>> {
        let is_there = || self.session().socket.map(|keeper| !has_ended(&keeper));
        if let Some(false) = is_there() {
            let limit = Limit::of(limit);
            let _turn = self.turn(limit)?;
            // Unless another thread has meanwhile.
            if let Some(false) = is_there() {
                self.follow(limit)?;
            }
        }
        if is_there() == Some(true) { Ok(()) } else { Err(None) }
    }

    fn if_memory_is_other(&self, lose: &dyn Fn()) {
        if self.is_other.swap(false, Ordering::AcqRel) {
            lose();
        }
    }

    fn restart(&self, limit: Duration) -> Result<(), String> {
        self.renew(Limit::of(limit.min(self.start_deadline)))?;
        self.has_left.store(false, Ordering::Release);
        // After a loss that nothing acknowledged the window may be as the old epoch left it.
        if self.load(0) == MAGIC && !has_left(&self.window) {
            return Err(format!("expected at:{} to leave its epoch, it did not", self.name));
        }
        Ok(())
    }
}

impl Drop for ServedLink {
    fn drop(&mut self) {
        if !*self.is_released.get_mut() && self.origin.is_here() {
            HostHandshake::close(&self.window);
            self.notify();
        }
        if let Some(socket) = self.session().socket {
            self.end(&socket);
        }
    }
}
