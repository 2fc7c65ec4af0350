//! Keeping a device for the hosts that come and go: the library half of `hamr serve`.
//!
//! A [`Keeper`] starts the device and gives it to one host at a time, which opens it as `at:NAME`.
//! Between two hosts it ends the epoch of the one that left, so that nothing of it runs behind the
//! next one's back; a device that does not leave is started again. Only [`crate::ShmLauncher`] and
//! QEMU have devices that can be kept: their memory and their doorbells can be given away.
//!
//! ```no_run
//! # fn main() -> Result<(), hamr::Error> {
//! let runtime = hamr::Runtime::new()?;
//! let image = hamr::Image::find("my-image")?;
//! let mut keeper = hamr::serve::Keeper::start(&runtime, "shm", image, &hamr::Options::default(), "board")?;
//! keeper.run(|event| println!("{event}"))     // until another process says stop: `hamr serve board --stop`
//! # }
//! ```

mod event;
mod group;
#[cfg(feature = "net")]
mod listener;

pub use event::{Event, Host};
#[cfg(feature = "net")]
pub use listener::{Arrivals, Listener};

use crate::at::has_left;
use crate::at::protocol::{self, Answer, Ask, Limit, shown};
use crate::link::{HostEnds, Link, Peer, Protocol, wait_until_left};
use crate::runtime::Launched;
#[cfg(feature = "net")]
use crate::tcp::{FarHosts, Told};
use crate::{Error, Image, Options, Runtime};
use group::{Group, Left};
use hamr_comm::handshake::HostHandshake;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use crate::at::LEAVE_TIMEOUT;

/// How long a new process of the device may take to read the window.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// A device whose process ends sooner than this was not worth starting.
const SHORT: Duration = Duration::from_secs(1);
/// So many of these in a row end the keeper.
const MOST_SHORT: u32 = 3;
/// Connections that have not said yet what they want. The oldest goes when another one comes,
const MOST_WAITING: usize = 16;
/// and each that has said nothing for so much time in which the keeper listened.
const SAY_TIMEOUT: Duration = Duration::from_secs(1);
/// Behind a connection that cannot be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long [`stop`] waits: a keeper may be about to end a device that does not leave.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A device that runs without this process being its host. Dropping it ends the device.
pub struct Keeper {
    name: String,
    device: String,
    link: Arc<dyn Link>,
    /// Readable when the device's process has ended.
    process: Arc<OwnedFd>,
    window_len: u64,
    image: OsString,
    /// Keepers that end with this one.
    group: Option<Arc<Group>>,
    /// `None` when it has been asked to stop.
    listener: Option<OwnedFd>,
    /// With how long the keeper has listened to each, the oldest first.
    waiting: VecDeque<(OwnedFd, Duration)>,
    host: Option<Near>,
    /// Hosts on other machines.
    #[cfg(feature = "net")]
    far: Option<FarHosts>,
    started: Instant,
    short: u32,
}

/// A host in this machine.
struct Near {
    socket: OwnedFd,
    pid: Option<i32>,
    /// Readable when its process has ended. A child that it has forked has the socket, too, which then
    /// stays open. `None` where the system has no such descriptors, or this PID
    /// namespace no such process.
    process: Option<OwnedFd>,
}

impl Near {
    fn has_ended(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ends = |process| poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)).is_ok_and(|n| n > 0);
        self.process.as_ref().is_some_and(ends)
    }
}

/// What there is to do.
enum Due {
    /// Another keeper of its group was asked to end.
    End,
    Accept,
    Device,
    Host,
    #[cfg(feature = "net")]
    Far,
    Waiting(usize),
}

impl Keeper {
    /// Starts the device of `spec` with `image`. Hosts attach to `at:NAME`; their [`Options`] need no
    /// longer window than these.
    ///
    /// # Errors
    /// A name that is taken or no name, a kind whose devices cannot be kept, and as
    /// [`Runtime::open_with`].
    pub fn start(runtime: &Runtime, spec: &str, image: Image, options: &Options, name: &str) -> Result<Self, Error> {
        let fail = |why: String| Error::Launch { device: format!("at:{name}"), why };
        protocol::check_name(name).map_err(fail)?;
        let hosts = "a device that is kept (each host that attaches says its own)";
        Protocol::check(options.protocol, &[Protocol::Mapped], hosts)?;
        // Before the device is started.
        let listener = protocol::listen(name)?.ok_or_else(|| {
            fail(format!("expected a name of its own, `serve {name}` runs already; `serve {name} --stop` ends it"))
        })?;
        let Launched { link, image, window_len, begin, .. } =
            runtime.launch_as(&format!("at:{name}"), spec, image, options)?;
        let link = Arc::<dyn Link>::from(link);
        let Some(HostEnds { process, .. }) = link.host_ends() else {
            let why =
                format!("a device of kind {} cannot be given to other processes: expected shm or qemu", link.kind());
            link.stop(Duration::MAX);
            return Err(Error::Launch { device: spec.into(), why });
        };
        Ok(Self {
            name: name.into(),
            device: spec.into(),
            link,
            process,
            window_len,
            image: image.map(|image| image.path.into_os_string()).unwrap_or_default(),
            group: None,
            listener: Some(listener),
            waiting: VecDeque::new(),
            host: None,
            #[cfg(feature = "net")]
            far: None,
            started: begin,
            short: 0,
        })
    }

    /// The name by which hosts of this machine open its device: `at:NAME`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes hosts at an address, too, beside those of this machine.
    ///
    /// # Errors
    /// No descriptor for it.
    #[cfg(feature = "net")]
    pub fn listen(&mut self, at: &Listener) -> Result<(), Error> {
        let far = FarHosts::at(&at.0, &self.name).map_err(Error::os("making a doorbell"))?;
        self.far = Some(far);
        Ok(())
    }

    /// Takes hosts by a way of the caller's, instead of at an address.
    ///
    /// # Errors
    /// No descriptor for it.
    #[cfg(feature = "net")]
    pub fn take_arrivals(&mut self) -> Result<Arrivals, Error> {
        let (far, sends) = FarHosts::sent().map_err(Error::os("making a doorbell"))?;
        self.far = Some(far);
        Ok(Arrivals(sends))
    }

    /// Bytes of the device's window.
    pub fn window_len(&self) -> u64 {
        self.window_len
    }

    /// Keeps the device until a process of this user asks for its end ([`stop`]). Behind it there is none any more.
    ///
    /// # Errors
    /// A device that ends again and again.
    pub fn run(&mut self, mut tell: impl FnMut(Event)) -> Result<(), Error> {
        let outcome = self.keep(&mut tell);
        self.close();
        if let Err(why) = &outcome {
            tell(Event::Ended { why: why.to_string() });
        }
        outcome
    }

    /// Keeps several devices, each on a thread, until a process of this user asks for the end of one of them, which is that of all. One
    /// that ends by itself is no other's end. `tell` gets their names with the events.
    ///
    /// # Errors
    /// No thread, no descriptor; and what has ended one of them.
    pub fn run_all(keepers: &mut [Self], tell: impl Fn(&str, Event) + Sync) -> Result<(), Error> {
        let group = Arc::new(Group::of(keepers.len()).map_err(Error::os("making a doorbell"))?);
        let (group, tell) = (&group, &tell);
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for keeper in keepers {
                keeper.group = Some(group.clone());
                let work = move || {
                    let name = keeper.name.clone();
                    let _left = Left(group);
                    keeper.run(|event| tell(&name, event))
                };
                match std::thread::Builder::new().name("hamr-keeper".into()).spawn_scoped(scope, work) {
                    Ok(thread) => threads.push(thread),
                    Err(e) => {
                        group.end();
                        return Err(Error::io("starting a thread that keeps a device")(e));
                    }
                }
            }
            let panicked = |_| Err(Error::Launch { device: "serve".into(), why: "a keeper has panicked".into() });
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).fold(Ok(()), Result::and)
        })
    }

    /// Gives up its place, its names and the device.
    fn close(&mut self) {
        #[cfg(feature = "net")]
        {
            self.far = None;
        }
        (self.host, self.listener) = (None, None);
        self.waiting.clear();
        self.link.stop(Duration::MAX);
    }

    fn keep(&mut self, tell: &mut impl FnMut(Event)) -> Result<(), Error> {
        loop {
            match self.wait() {
                Due::End => return Ok(()),
                Due::Accept => self.accept(),
                Due::Device => {
                    let Peer::Gone(why) = self.link.peer() else {
                        // It has another process by now, of which a descriptor was not to be had.
                        std::thread::sleep(ACCEPT_PAUSE);
                        if let Some(ends) = self.link.host_ends() {
                            self.process = ends.process;
                        }
                        continue;
                    };
                    self.count_end(&why)?;
                    self.start_again()?;
                    tell(Event::Restarted { why });
                }
                Due::Host => self.attend_host(tell)?,
                #[cfg(feature = "net")]
                Due::Far => self.attend_far(tell)?,
                Due::Waiting(index) => {
                    let Some((socket, _)) = self.waiting.remove(index) else { continue };
                    match protocol::asked(&socket) {
                        Some(Ask::Attach) => self.attach(socket, tell),
                        Some(Ask::Stop) => {
                            if let Some(group) = &self.group {
                                group.end();
                                group.wait_for_others(STOP_TIMEOUT - SAY_TIMEOUT);
                            }
                            self.close();
                            // An error means that it waits no more.
                            let _ = protocol::answer(&socket, &Answer::Stopped, &[]);
                            return Ok(());
                        }
                        None => {
                            let why = "expected a request of this version of hamr, got something else".into();
                            // As above.
                            let _ = protocol::answer(&socket, &Answer::Refused(why), &[]);
                        }
                    }
                }
            }
        }
    }

    fn wait(&mut self) -> Due {
        loop {
            let waiting = self.waiting.len();
            let mut fds: Vec<_> = self.waiting.iter().map(|(socket, _)| PollFd::new(socket, PollFlags::IN)).collect();
            // A host asks for another process itself, when it has taken in what the last one left.
            let host = self.host.as_ref();
            let (is_far, bell) = self.far_host();
            #[cfg(feature = "net")]
            let has_bell = bell.is_some();
            let device = if is_far { bell } else { Some(&*self.process) };
            let device = host.map(|host| &host.socket).or(device).unwrap_or(&self.process);
            fds.push(PollFd::new(device, PollFlags::IN));
            let process = host.and_then(|host| host.process.as_ref());
            let end = self.group.as_ref().map(|group| &group.end);
            let more = process.into_iter().chain(end).chain(&self.listener).chain(bell);
            fds.extend(more.map(|fd| PollFd::new(fd, PollFlags::IN)));
            let has_end = end.is_some();
            let limit = Timespec { tv_sec: SAY_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
            let begin = Instant::now();
            if poll(&mut fds, (waiting != 0).then_some(&limit)).is_err() {
                continue;
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            // What the keeper does between two looks, such as waiting for its device, counts for none of them.
            let listened = begin.elapsed();
            self.waiting.iter_mut().for_each(|(_, heard)| *heard += listened);
            let (asking, rest) = ready.split_at(waiting);
            let (device, rest) = rest.split_at(1 + usize::from(process.is_some()));
            let (end, rest) = rest.split_at(usize::from(has_end));
            if end.contains(&true) {
                return Due::End;
            }
            // The host first: the next one may be waiting for its end.
            if device.contains(&true) {
                return match host {
                    Some(_) => Due::Host,
                    #[cfg(feature = "net")]
                    None if is_far => Due::Far,
                    None => Due::Device,
                };
            }
            #[cfg(feature = "net")]
            if has_bell && rest.last() == Some(&true) {
                return Due::Far;
            }
            if let Some(index) = asking.iter().position(|ready| *ready) {
                return Due::Waiting(index);
            }
            if rest.contains(&true) {
                return Due::Accept;
            }
            self.waiting.retain(|(_, heard)| *heard < SAY_TIMEOUT);
        }
    }

    /// Has a host on another machine the device, and what is readable when such hosts want something?
    fn far_host(&self) -> (bool, Option<&OwnedFd>) {
        #[cfg(feature = "net")]
        return self.far.as_ref().map_or((false, None), |far| (far.host().is_some(), Some(far.bell())));
        #[cfg(not(feature = "net"))]
        (false, None)
    }

    /// A host on another machine has come, or left.
    #[cfg(feature = "net")]
    fn attend_far(&mut self, tell: &mut impl FnMut(Event)) -> Result<(), Error> {
        let near = self.host.as_ref().map(|host| shown(host.pid));
        let Some(far) = &mut self.far else { return Ok(()) };
        let name = |name| Host::Far(name);
        match far.look(&self.link, &self.name, self.window_len, near.as_deref()) {
            None => {}
            Some(Told::Attached(host)) => {
                self.short = 0;
                tell(Event::Attached { host: name(host) });
            }
            Some(Told::Refused(host, why)) => tell(Event::Refused { host: name(host), why }),
            Some(Told::Left(host, why)) => {
                tell(Event::Left { host: name(host), why });
                // It may have started the device again.
                if let Some(ends) = self.link.host_ends() {
                    self.process = ends.process;
                }
                self.end_epoch(tell)?;
                if let Some(far) = &mut self.far {
                    far.free();
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        let accepted = rustix::net::accept_with(listener, rustix::net::SocketFlags::CLOEXEC);
        match accepted {
            Ok(socket) if protocol::same_user(&socket).is_ok() => {
                if self.waiting.len() >= MOST_WAITING {
                    self.waiting.pop_front();
                }
                self.waiting.push_back((socket, Duration::ZERO));
            }
            Ok(_) => {}
            // The connection stays where it is, such as without a descriptor for it: the next look sees it again.
            Err(_) => std::thread::sleep(ACCEPT_PAUSE),
        }
    }

    fn attach(&mut self, socket: OwnedFd, tell: &mut impl FnMut(Event)) {
        let peer = protocol::same_user(&socket).ok().flatten();
        let pid = protocol::number(peer);
        let near = self.host.as_ref().map(|host| shown(host.pid));
        #[cfg(feature = "net")]
        let near = near.or_else(|| self.far.as_ref().and_then(FarHosts::host).map(str::to_owned));
        if let Some(host) = near {
            let why = format!("at:{} has a host, {host}; a second one is refused", self.name);
            // An error means that it has left.
            let _ = protocol::answer(&socket, &Answer::Refused(why.clone()), &[]);
            return tell(Event::Refused { host: Host::Process(pid), why });
        }
        let Some(HostEnds { memory, notified, device, process, .. }) = self.link.host_ends() else { return };
        let (kind, image) = (self.link.kind().into(), self.image.clone());
        let granted = Answer::Granted { window_len: self.window_len, kind, image };
        let descriptors = [memory.as_fd(), notified.as_fd(), device.as_fd(), process.as_fd()];
        if protocol::answer(&socket, &granted, &descriptors).is_ok() {
            let process = peer.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
            self.host = Some(Near { socket, pid, process });
            #[cfg(feature = "net")]
            if let Some(far) = &mut self.far {
                far.give_away(true);
            }
            self.short = 0;
            tell(Event::Attached { host: Host::Process(pid) });
        }
    }

    /// The host wants another process, or has left.
    fn attend_host(&mut self, tell: &mut impl FnMut(Event)) -> Result<(), Error> {
        let Some(host) = self.host.take() else { return Ok(()) };
        match protocol::receive(&host.socket) {
            Err(Errno::INTR | Errno::AGAIN) if !host.has_ended() => self.host = Some(host),
            Ok((bytes, _)) if bytes == protocol::RENEW => {
                let why = format!("{} asked for it", shown(host.pid));
                self.link.stop(Duration::MAX);
                self.start_again()?;
                tell(Event::Restarted { why });
                if protocol::answer(&host.socket, &Answer::Renewed, &[self.process.as_fd()]).is_ok() {
                    self.host = Some(host);
                } else {
                    self.has_left(&host, tell);
                }
            }
            _ => {
                #[cfg(feature = "net")]
                if let Some(far) = &self.far {
                    far.leaves(true);
                }
                self.end_epoch(tell)?;
                self.has_left(&host, tell);
            }
        }
        Ok(())
    }

    /// A host of this machine has it no more.
    fn has_left(&mut self, host: &Near, tell: &mut impl FnMut(Event)) {
        tell(Event::Left { host: Host::Process(host.pid), why: None });
        #[cfg(feature = "net")]
        if let Some(far) = &mut self.far {
            far.leaves(false);
            far.give_away(false);
        }
    }

    /// Behind it the device has a process and is in no epoch.
    fn end_epoch(&mut self, tell: &mut impl FnMut(Event)) -> Result<(), Error> {
        let window = self.link.window();
        let mut why = None;
        if !crate::at::has_left(window) {
            HostHandshake::close(window);
            self.link.notify();
            if !wait_until_left(&*self.link, LEAVE_TIMEOUT, has_left) && self.link.peer() == Peer::Alive {
                why = Some(format!("it did not leave its epoch within {LEAVE_TIMEOUT:?}"));
                self.link.stop(Duration::MAX);
            }
        }
        if let Peer::Gone(end) = self.link.peer() {
            self.start_again()?;
            tell(Event::Restarted { why: why.unwrap_or(end) });
        }
        Ok(())
    }

    /// The device ended without a host. One that does so again and again is given up.
    fn count_end(&mut self, why: &str) -> Result<(), Error> {
        self.short = if self.started.elapsed() < SHORT { self.short + 1 } else { 0 };
        if self.short < MOST_SHORT {
            return Ok(());
        }
        let why = format!("expected a device that stays, it ended {MOST_SHORT} times in a row: {why}");
        Err(Error::Launch { device: self.device.clone(), why })
    }

    /// Starts a device whose process has ended.
    fn start_again(&mut self) -> Result<(), Error> {
        let fail = |why: String| Error::Launch { device: self.device.clone(), why };
        // The new process must not take the offer of an epoch that is over.
        HostHandshake::close(self.link.window());
        self.link.restart(START_TIMEOUT).map_err(fail)?;
        self.started = Instant::now();
        if let Some(ends) = self.link.host_ends() {
            self.process = ends.process;
        }
        // It acknowledges the end of the old epoch. If it ends instead, the next look sees that.
        wait_until_left(&*self.link, START_TIMEOUT, has_left);
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.link.stop(Duration::MAX);
    }
}

/// Ends the device that is kept under this name, and returns when the name is free.
///
/// # Errors
/// When there is none, or its keeper does not say so within ten seconds.
pub fn stop(name: &str) -> Result<(), Error> {
    stop_within(name, STOP_TIMEOUT)
}

/// [`stop()`] with another limit than ten seconds.
///
/// # Errors
/// As of [`stop()`].
pub fn stop_within(name: &str, limit: Duration) -> Result<(), Error> {
    let fail = |why| Error::Bus { device: format!("at:{name}"), why };
    let limit = Limit::of(limit);
    let socket = protocol::connect(name, Ask::Stop, limit).map_err(|why| fail(why.explained(name)))?;
    match protocol::answered(&socket, limit).map_err(|why| fail(why.into()))? {
        (Answer::Stopped, _) => Ok(()),
        (Answer::Refused(why), _) => Err(fail(why)),
        _ => Err(fail("expected its end, got another answer".into())),
    }
}
