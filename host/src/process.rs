//! Devices whose processor is a process of this machine: the image itself, or an emulator that runs
//! one.

use crate::doorbells::Doorbells;
use crate::launcher::LaunchRequest;
use crate::link::{Capabilities, HostEnds, Link, Peer};
use crate::{Error, ImageFile};
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::am::patience;
use hamr_qemu::origin::Origin;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Looks for the exit status of a process that has ended, a millisecond apart, before it counts as traced.
const TRACED_LOOKS: u32 = 20;

/// One epoch of such a device.
pub(crate) struct Process {
    id: u32,
    /// Names this process and no later one, also where the program reaps all children, or has the
    /// system do that (SIGCHLD ignored).
    pidfd: Arc<OwnedFd>,
    origin: Origin,
    how: Option<String>,
    /// As a shell has it: its exit code, or 128 and the signal that ended it.
    code: Option<u8>,
    is_killed: bool,
    /// Text of this kind of device about the end of its process.
    epilogue: Box<dyn Fn(ExitStatus) -> String + Send>,
    /// Values that must exist as long as the process.
    _kept: Box<dyn Send>,
}

impl Process {
    /// Takes over a child. A child whose end cannot be watched is killed.
    pub(crate) fn watch(
        mut child: Child,
        kept: impl Send + 'static,
        epilogue: impl Fn(ExitStatus) -> String + Send + 'static,
    ) -> Result<Self, Error> {
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self {
                id: child.id(),
                pidfd: Arc::new(pidfd),
                origin: Origin::here(),
                how: None,
                code: None,
                is_killed: false,
                epilogue: Box::new(epilogue),
                _kept: Box::new(kept),
            }),
            Err(e) => {
                // An error means that it has ended.
                let _ = child.kill();
                let _ = child.wait();
                Err(Error::os("watching the device's process")(e))
            }
        }
    }

    #[cfg(feature = "qemu")]
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn has_exited(&self) -> bool {
        has_exited_within(&self.pidfd, Duration::ZERO)
    }

    /// Waits for the end and returns a description of it.
    fn reap(&mut self) -> String {
        let Self { id, pidfd, how, code, epilogue, .. } = self;
        if let Some(how) = how {
            return how.clone();
        }
        let text = match status(pidfd) {
            Ok(Some(status)) => {
                let number = status.code().or(status.signal().map(|signal| 128 + signal));
                *code = number.and_then(|number| u8::try_from(number).ok());
                format!("its process {id} ended with {status}{}", epilogue(status))
            }
            // The next look may find it.
            Ok(None) => return format!("its process {id} ended; a program that traces it has its exit status"),
            Err(_) => format!("its process {id} ended; this program, or the system for it, took its exit status"),
        };
        how.insert(text).clone()
    }

    fn signal(&mut self, signal: Signal) {
        if self.origin.is_here() {
            self.is_killed |= signal == Signal::KILL;
            // An error means that it has ended.
            let _ = pidfd_send_signal(&*self.pidfd, signal);
        }
    }

    fn end(&mut self) {
        if self.origin.is_here() {
            self.signal(Signal::KILL);
            self.reap();
        }
    }
}

/// Has a process ended? Waits so long for that.
fn has_exited_within(pidfd: &OwnedFd, limit: Duration) -> bool {
    let begin = Instant::now();
    loop {
        let left = limit.saturating_sub(begin.elapsed());
        let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
        let left = Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            ended => return ended.is_ok_and(|n| n > 0),
        }
    }
}

/// The exit status of a child, at its end. `None`: a program that traces the child has it, and lets go when it likes.
fn status(pidfd: &OwnedFd) -> Result<Option<ExitStatus>, Errno> {
    // Also one that is waited for elsewhere has ended behind this.
    while poll(&mut [PollFd::new(pidfd, PollFlags::IN)], None) == Err(Errno::INTR) {}
    let mut looks = 0..TRACED_LOOKS;
    let ended = loop {
        match waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Err(Errno::INTR) => {}
            Ok(None) if looks.next().is_some() => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) => return Ok(None),
            ended => break ended?.ok_or(Errno::CHILD)?,
        }
    };
    // As `wait` has it: the code above the signal.
    let code = ended.exit_status().map(|code| (code & 0xff) << 8);
    let signal = ended.terminating_signal().map(|signal| signal | if ended.dumped() { 0x80 } else { 0 });
    Ok(Some(ExitStatus::from_raw(code.or(signal).ok_or(Errno::CHILD)?)))
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// What [`is_processor`] accepts, for messages.
pub(crate) const PROCESSORS: &str = "a processor from 0 to 1023, or none";

/// True if a set of processors has room for this number. Whether there is such a processor, the system says.
pub(crate) fn is_processor(cpu: usize) -> bool {
    cpu < rustix::thread::CpuSet::MAX_CPU
}

/// Runs a device's dispatcher on one processor. `thread` is a process or one thread of it.
pub(crate) fn pin(thread: Pid, cpu: usize) -> Result<(), Error> {
    if !is_processor(cpu) {
        let (option, expected) = ("Options::cpu", PROCESSORS.into());
        return Err(Error::InvalidConfig { option, expected, got: cpu.to_string() });
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    let what = || format!("pinning the device to processor {cpu}");
    rustix::thread::sched_setaffinity(Some(thread), &set).map_err(Error::os(what()))
}

/// Starts one epoch of an image. What it waits for besides the system has so long.
type Start = Box<dyn Fn(&ImageFile, Duration) -> Result<Process, Error> + Send + Sync>;

/// What the window is in.
pub(crate) enum Memory {
    /// The memory of a world.
    World,
    /// A file of its own, which another process can map.
    File(Arc<OwnedFd>),
    /// A part of a file, or more than one.
    Part,
}

/// The link to such a device.
pub(crate) struct ProcessLink {
    kind: &'static str,
    window: Window<Shared>,
    doorbells: Arc<Doorbells>,
    memory: Memory,
    /// As [`Capabilities::host_memory`].
    host_memory: bool,
    /// The device's window, or that with its heap, is in the memory of the image.
    is_in_image: bool,
    present: Mutex<Present>,
    /// [`Present::starts`] is over.
    started: Condvar,
    /// Readable when the process has ended. It is outside of the lock above, which is held while its exit status is
    /// taken: the reactor, which also sleeps for other devices, must not wait for that.
    end: Mutex<Arc<OwnedFd>>,
    start: Start,
    /// What it starts.
    image: Mutex<ImageFile>,
}

/// The process of the present epoch, or of the last.
struct Present {
    process: Process,
    /// A thread starts the next one, without the lock: others look at this one meanwhile.
    starts: bool,
    /// What was asked of the one that starts.
    asked: Option<Signal>,
}

/// [`Present::starts`] until it is dropped.
struct Starting<'l>(Option<&'l ProcessLink>);

impl Starting<'_> {
    /// Under the lock, so that what is asked from here on is asked of the new process.
    fn end(mut self, mut present: MutexGuard<'_, Present>) {
        present.starts = false;
        self.0.take().into_iter().for_each(|link| link.started.notify_all());
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.0 {
            link.present().starts = false;
            link.started.notify_all();
        }
    }
}

impl ProcessLink {
    /// Starts the device for the first time. `start` starts one epoch of it over the window's
    /// memory, which `start` owns.
    pub(crate) fn start(
        kind: &'static str,
        request: &LaunchRequest<'_>,
        window: Window<Shared>,
        doorbells: Arc<Doorbells>,
        memory: Memory,
        start: impl Fn(&ImageFile, Duration) -> Result<Process, Error> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let device = request.device;
        let none = || Error::Launch { device: device.into(), why: "expected an image for it, got none".into() };
        let image = request.image.ok_or_else(none)?.clone();
        let is_in_image = image.kind.is_bare() && (request.drives || matches!(memory, Memory::Part));
        let process = start(&image, request.start_deadline).map_err(|e| match e {
            Error::Os { what, source } => Error::Launch { device: device.into(), why: format!("{what}: {source}") },
            other => other,
        })?;
        let end = Mutex::new(process.pidfd.clone());
        Ok(Self {
            kind,
            window,
            doorbells,
            memory: if request.host_memory.is_some() { Memory::Part } else { memory },
            host_memory: request.host_memory.is_some(),
            is_in_image,
            present: Mutex::new(Present { process, starts: false, asked: None }),
            started: Condvar::new(),
            end,
            start: Box::new(start),
            image: Mutex::new(image),
        })
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps other threads from starting a process, where that of the present epoch has ended, or does within `limit`.
    fn begin_start(&self, limit: Duration) -> Result<Starting<'_>, String> {
        let killed = Some(self.present()).filter(|present| present.process.is_killed);
        if let Some(end) = killed.map(|present| present.process.pidfd.clone()) {
            has_exited_within(&end, limit);
        }
        let mut present = self.present();
        if present.starts {
            return Err("another thread starts its process".into());
        }
        if !present.process.has_exited() {
            return Err("its process has not ended".into());
        }
        // Reaped first, so that two processes never use one window at the same time.
        present.process.reap();
        (present.starts, present.asked) = (true, None);
        Ok(Starting(Some(self)))
    }

    /// The end of the present process, or while another one starts, that of the last.
    fn end(&self) -> Arc<OwnedFd> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Link for ProcessLink {
    fn kind(&self) -> &str {
        self.kind
    }
    fn capabilities(&self) -> Capabilities {
        let world = matches!(self.memory, Memory::World);
        Capabilities { doorbell: true, world, host_memory: self.host_memory, ..Capabilities::default() }
    }
    fn window(&self) -> &Window<Shared> {
        &self.window
    }
    fn notify(&self) {
        self.doorbells.host.notify();
    }
    fn wait(&self, max_us: u32) {
        match max_us {
            0 => patience::rest(),
            _ => self.doorbells.host.wait(&self.end(), max_us),
        }
    }
    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        self.doorbells.host.descriptors().into_iter().chain([self.end()]).collect()
    }
    fn wake(&self) {
        self.doorbells.host.wake();
    }
    fn peer(&self) -> Peer {
        let process = &mut self.present().process;
        if process.has_exited() { Peer::Gone(process.reap()) } else { Peer::Alive }
    }
    fn exit_code(&self) -> Option<u8> {
        self.present().process.code
    }
    fn terminate(&self) {
        let mut present = self.present();
        match present.starts {
            true => _ = present.asked.get_or_insert(Signal::TERM),
            false => present.process.signal(Signal::TERM),
        }
    }
    /// It is killed, which it cannot put off.
    fn stop(&self, limit: Duration) {
        let begin = Instant::now();
        let left = || limit.saturating_sub(begin.elapsed());
        let mut present = self.present();
        if !present.process.origin.is_here() {
            return;
        }
        while present.starts {
            present.asked = Some(Signal::KILL);
            if left().is_zero() {
                return;
            }
            present = self.started.wait_timeout(present, left()).unwrap_or_else(PoisonError::into_inner).0;
        }
        present.process.signal(Signal::KILL);
        let end = present.process.pidfd.clone();
        drop(present);
        if has_exited_within(&end, left()) {
            self.peer();
        }
    }
    fn host_ends(&self) -> Option<HostEnds> {
        let Memory::File(memory) = &self.memory else { return None };
        let [notified, device] = self.doorbells.for_host().ok()?;
        let memory = rustix::io::fcntl_dupfd_cloexec(memory, 0).ok()?;
        let side = self.doorbells.for_side();
        Some(HostEnds { memory, notified, device, process: self.end(), side })
    }
    fn check_image(&self, next: &ImageFile) -> Result<(), String> {
        if matches!(self.memory, Memory::World) {
            return Err("a rank of a world keeps its image".into());
        }
        if !self.is_in_image {
            return Ok(());
        }
        let present = self.image.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let [at, next] = [&present, next].map(|image| image.reserved_window().map_err(|e| e.to_string()));
        let (at, next) = (at?, next?);
        if at == next {
            return Ok(());
        }
        let got = match next.is_empty() {
            true => "one without: say `image!(window = BYTES)`".into(),
            false => format!("one at {next:#x?}"),
        };
        Err(format!("expected an image with its window at {at:#x?}, where the present one has it, got {got}"))
    }
    fn set_image(&self, image: &ImageFile) -> Result<(), String> {
        self.check_image(image)?;
        *self.image.lock().unwrap_or_else(PoisonError::into_inner) = image.clone();
        Ok(())
    }
    fn restart(&self, limit: Duration) -> Result<(), String> {
        let begin = Instant::now();
        let starting = self.begin_start(limit)?;
        let image = self.image.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let left = limit.saturating_sub(begin.elapsed());
        let mut next = (self.start)(&image, left).map_err(|e| e.to_string())?;
        let mut present = self.present();
        let asked = present.asked;
        if asked == Some(Signal::KILL) {
            drop(present);
            // The new process ends before those that wait in `stop` go on.
            return Err("it was stopped while it started".into());
        }
        if let Some(signal) = asked {
            next.signal(signal);
        }
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = next.pidfd.clone();
        let last = std::mem::replace(&mut present.process, next);
        starting.end(present);
        drop(last);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Image;
    use std::process::Command;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// In which what waits for nothing ends, on a busy machine.
    const SOON: Duration = Duration::from_secs(10);

    /// A link whose processes sleep. Each but the first starts when the test says so, which is told that one is to.
    fn sleeps() -> (ProcessLink, Receiver<u32>, Sender<()>) {
        let (asks, asked) = channel();
        let (go, goes) = channel::<()>();
        let gate = Mutex::new((0, asks, goes));
        let start = move |_: &ImageFile, _: Duration| {
            let mut gate = gate.lock().expect("no test panics in it");
            let (count, asks, goes) = &mut *gate;
            *count += 1;
            if *count > 1 {
                asks.send(*count).expect("the test waits");
                // The end of a test that has failed lets it go on, too.
                let _ = goes.recv_timeout(SOON);
            }
            let child = Command::new("sleep").arg("60").spawn().map_err(Error::io("starting `sleep`"))?;
            Process::watch(child, (), |_| String::new())
        };
        let own = std::env::current_exe().expect("a program");
        let program = Image::program(own, [""; 0]).expect("a program");
        let program = program.resolve(&crate::Target::hosted()).expect("it is one");
        let request = LaunchRequest { image: Some(&program), ..LaunchRequest::new("sleeps", 4096..4096, SOON) };
        let (window, doorbells) = (Window::private(4096).share(), Arc::new(Doorbells::new().expect("descriptors")));
        let link = ProcessLink::start("sleeps", &request, window, doorbells, Memory::World, start);
        (link.expect("it starts"), asked, go)
    }

    /// Neither one that looks nor one that ends a device waits for the start of its next process beyond its own limit.
    #[test]
    fn no_thread_waits_for_a_process_that_starts() {
        let (link, asked, go) = sleeps();
        assert_eq!(link.peer(), Peer::Alive);
        link.stop(SOON);
        assert!(matches!(link.peer(), Peer::Gone(_)) && link.exit_code() == Some(128 + 9));
        std::thread::scope(|scope| {
            let restart = scope.spawn(|| link.restart(Duration::MAX));
            asked.recv_timeout(SOON).expect("it starts the next");
            let begin = Instant::now();
            assert!(matches!(link.peer(), Peer::Gone(_)) && link.exit_code() == Some(128 + 9));
            link.terminate();
            assert_eq!(link.restart(SOON), Err("another thread starts its process".into()));
            link.stop(Duration::from_millis(20));
            assert!(begin.elapsed() < SOON / 2, "{:?}", begin.elapsed());
            go.send(()).expect("it waits");
            // It was stopped, though that has not waited for it.
            assert_eq!(restart.join().expect("a thread"), Err("it was stopped while it started".into()));
            assert!(matches!(link.peer(), Peer::Gone(_)));
            let restart = scope.spawn(|| link.restart(Duration::MAX));
            asked.recv_timeout(SOON).expect("another one may be started");
            let stop = scope.spawn(|| link.stop(Duration::MAX));
            std::thread::sleep(Duration::from_millis(20));
            go.send(()).expect("it waits");
            stop.join().expect("it waits for the end");
            assert!(matches!(link.peer(), Peer::Gone(_)));
            // Either thread may have come first.
            let _ = restart.join().expect("a thread");
        });
    }

    #[test]
    fn a_process_that_starts_is_asked_to_end() {
        let (link, asked, go) = sleeps();
        assert_eq!(link.restart(SOON), Err("its process has not ended".into()));
        // Its end is under way.
        link.stop(Duration::ZERO);
        std::thread::scope(|scope| {
            let restart = scope.spawn(|| link.restart(SOON));
            asked.recv_timeout(SOON).expect("it starts the next");
            link.terminate();
            go.send(()).expect("it waits");
            assert_eq!(restart.join().expect("a thread"), Ok(()));
        });
        assert!(has_exited_within(&link.end(), SOON));
        assert!(matches!(link.peer(), Peer::Gone(_)) && link.exit_code() == Some(128 + 15));
    }

    #[test]
    fn a_processor_beyond_the_set_is_refused() {
        for cpu in [rustix::thread::CpuSet::MAX_CPU, usize::MAX] {
            let error = pin(rustix::process::getpid(), cpu).expect_err("no set holds it").to_string();
            assert!(error.starts_with("Options::cpu: expected a processor from 0 to 1023"), "{error}");
        }
        assert!(PROCESSORS.contains(&(rustix::thread::CpuSet::MAX_CPU - 1).to_string()));
    }
}
