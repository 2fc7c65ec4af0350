//! The link to a device that another process keeps.

use super::protocol::{self, Answer, Ask};
use crate::doorbells::HostDoorbells;
use crate::launcher::LaunchRequest;
use crate::link::{Capabilities, Link, Peer};
use crate::mapping::{Revocable, map_revocable};
use crate::{Error, ImageFile};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::preamble::{FOR_EVER, MAGIC, word};
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::handshake::HostHandshake;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{SealFlags, fcntl_get_seals};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the device may take to leave an epoch before its process is ended.
pub const LEAVE_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) struct ServedLink {
    /// Behind the colon of the spec.
    name: String,
    kind: String,
    image: Option<ImageFile>,
    window: Window<Shared>,
    map: Revocable,
    session: Mutex<Session>,
    /// The device wrote nothing any more when it was last stopped.
    has_left: AtomicBool,
    is_released: AtomicBool,
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
}

/// What a keeper granted.
struct Grant {
    session: Session,
    memory: OwnedFd,
    kind: String,
    image: String,
}

/// Asks the keeper for its device.
fn ask(name: &str, window_len: u64) -> Result<Grant, String> {
    let socket = protocol::connect(name, Ask::Attach)?;
    let (answer, descriptors) = protocol::answered(&socket)?;
    let (has, kind, image) = match answer {
        Answer::Granted { window_len, kind, image } => (window_len, kind, image),
        Answer::Refused(why) => return Err(why),
        Answer::Renewed => return Err("expected a device, got another answer".into()),
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
    let doorbells = HostDoorbells::new(notified, device).map_err(|e| e.to_string())?;
    let (socket, process) = (Some(Arc::new(socket)), Arc::new(process));
    let session = Session { socket, doorbells: Arc::new(doorbells), process, is_new: true };
    Ok(Grant { session, memory, kind, image })
}

impl ServedLink {
    pub(super) fn attach(request: &LaunchRequest<'_>) -> Result<Self, Error> {
        let fail = |why| Error::Launch { device: request.device.into(), why };
        let Grant { session, memory, kind, image } = ask(request.argument, request.window_len).map_err(fail)?;
        let session = Session { is_new: false, ..session };
        let (window, map) = map_revocable(&memory, 0, request.window_len, true)?;
        Ok(Self {
            name: request.argument.into(),
            kind: format!("at-{kind}"),
            // Names in messages only.
            image: Some(image)
                .filter(|image| !image.is_empty())
                .and_then(|path| ImageFile::open(Path::new(&path)).ok()),
            window,
            map,
            session: Mutex::new(session),
            has_left: AtomicBool::new(false),
            is_released: AtomicBool::new(false),
        })
    }

    fn locked(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self) -> Session {
        self.locked().clone()
    }

    fn load(&self, off: u64) -> u32 {
        self.window.word(off).map_or(0, |w| w.observe())
    }

    /// Waits until the device has left its epoch, at most [`LEAVE_TIMEOUT`].
    fn wait_until_left(&self) -> bool {
        let begin = Instant::now();
        loop {
            if has_left(&self.window) {
                return true;
            }
            if begin.elapsed() > LEAVE_TIMEOUT || self.peer() != Peer::Alive {
                return false;
            }
            // A sleep and not a wait on the doorbell: the notification may be meant for a waiter.
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// A process for the next epoch, from the same keeper or from one of the same name that followed
    /// it.
    fn renew(&self) -> Result<(), String> {
        let mut session = self.locked();
        let Some(socket) = session.socket.clone() else { return Err("this program has released it".into()) };
        if std::mem::take(&mut session.is_new) {
            return Ok(());
        }
        match protocol::renew(&socket) {
            Ok(process) => session.process = Arc::new(process),
            Err(_) => *session = self.follow()?,
        }
        session.is_new = false;
        Ok(())
    }

    /// Takes the device of the keeper that followed.
    fn follow(&self) -> Result<Session, String> {
        let grant = ask(&self.name, self.window.len())?;
        // The old memory has no other user: its device ended with its keeper.
        self.map.restore(&grant.memory, 0).map_err(|e| e.to_string())?;
        Ok(grant.session)
    }
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
        Capabilities {
            host_maps_device: true,
            device_reaches_host: false,
            coherent: true,
            line_read_atomic: false,
            doorbell: true,
            world: false,
        }
    }

    fn window(&self) -> &Window<Shared> {
        &self.window
    }

    fn notify(&self) {
        self.session().doorbells.notify();
    }

    fn wait(&self, max_us: u32) {
        if max_us == 0 {
            return std::hint::spin_loop();
        }
        let limit = Duration::from_micros(max_us.into());
        let Session { doorbells, process, .. } = self.session();
        doorbells.sleep(&process, (max_us != FOR_EVER).then_some(limit));
    }

    fn wake(&self) {
        self.session().doorbells.wake();
    }

    fn peer(&self) -> Peer {
        let Session { socket, process, .. } = self.session();
        let Some(socket) = socket else { return Peer::Gone("this program has released it".into()) };
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

    fn stop(&self) {
        HostHandshake::close(&self.window);
        self.notify();
        if !self.wait_until_left() && self.peer() == Peer::Alive {
            // Its process is ended by the keeper. An error means that both are gone.
            let _ = self.renew();
        }
        self.has_left.store(true, Ordering::Release);
        self.wake();
    }

    fn outlives_host(&self) -> bool {
        true
    }

    fn release(&self) {
        self.is_released.store(true, Ordering::Release);
        // In this order, because remaining streams, results and log readers may still write to the
        // window. If the mapping cannot be ended, the connection stays until the link is dropped.
        if self.map.revoke().is_ok() {
            self.locked().socket.take();
        }
    }

    fn image(&self) -> Option<ImageFile> {
        self.image.clone()
    }

    fn is_back(&self) -> bool {
        let mut session = self.locked();
        match &session.socket {
            None => false,
            Some(socket) if !has_ended(socket) => true,
            Some(_) => match self.follow() {
                Ok(next) => {
                    *session = next;
                    true
                }
                Err(_) => false,
            },
        }
    }

    fn restart(&self) -> Result<(), String> {
        self.renew()?;
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
        if !*self.is_released.get_mut() {
            HostHandshake::close(&self.window);
            self.notify();
        }
    }
}
