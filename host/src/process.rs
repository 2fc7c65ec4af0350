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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&*self.pidfd, PollFlags::IN)], Some(&now)).is_ok_and(|n| n > 0)
    }

    /// Waits for the end and returns a description of it.
    fn reap(&mut self) -> String {
        let Self { id, pidfd, how, code, epilogue, .. } = self;
        how.get_or_insert_with(|| match status(pidfd) {
            Ok(status) => {
                let number = status.code().or(status.signal().map(|signal| 128 + signal));
                *code = number.and_then(|number| u8::try_from(number).ok());
                format!("its process {id} ended with {status}{}", epilogue(status))
            }
            Err(_) => format!("its process {id} ended; this program, or the system for it, took its exit status"),
        })
        .clone()
    }

    fn signal(&self, signal: Signal) {
        if self.origin.is_here() {
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

/// The exit status of a child, at its end.
fn status(pidfd: &OwnedFd) -> Result<ExitStatus, Errno> {
    // Also one that is waited for elsewhere has ended behind this.
    while poll(&mut [PollFd::new(pidfd, PollFlags::IN)], None) == Err(Errno::INTR) {}
    let ended = loop {
        match waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {
            Err(Errno::INTR) => {}
            ended => break ended?.ok_or(Errno::CHILD)?,
        }
    };
    // As `wait` has it: the code above the signal.
    let code = ended.exit_status().map(|code| (code & 0xff) << 8);
    let signal = ended.terminating_signal().map(|signal| signal | if ended.dumped() { 0x80 } else { 0 });
    Ok(ExitStatus::from_raw(code.or(signal).ok_or(Errno::CHILD)?))
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

/// Starts one epoch of an image.
type Start = Box<dyn Fn(&ImageFile) -> Result<Process, Error> + Send + Sync>;

/// The link to such a device.
pub(crate) struct ProcessLink {
    kind: &'static str,
    capabilities: Capabilities,
    window: Window<Shared>,
    doorbells: Option<Arc<Doorbells>>,
    /// The window's memory, of a device that is no rank.
    memory: Option<Arc<OwnedFd>>,
    process: Mutex<Process>,
    /// Readable when the process has ended. It is outside of the lock above, which stays locked
    /// while one process ends and another starts: the reactor, which also sleeps for other devices,
    /// must not wait for that.
    end: Mutex<Arc<OwnedFd>>,
    start: Start,
    /// What it starts.
    image: Mutex<ImageFile>,
}

impl ProcessLink {
    /// Starts the device for the first time. `start` starts one epoch of it over the window's
    /// memory, which `start` owns.
    pub(crate) fn start(
        kind: &'static str,
        request: &LaunchRequest<'_>,
        capabilities: Capabilities,
        window: Window<Shared>,
        doorbells: Option<Arc<Doorbells>>,
        memory: Option<Arc<OwnedFd>>,
        start: impl Fn(&ImageFile) -> Result<Process, Error> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let device = request.device;
        let none = || Error::Launch { device: device.into(), why: "expected an image for it, got none".into() };
        let image = request.image.ok_or_else(none)?.clone();
        let process = start(&image).map_err(|e| match e {
            Error::Os { what, source } => Error::Launch { device: device.into(), why: format!("{what}: {source}") },
            other => other,
        })?;
        let capabilities = Capabilities { doorbell: doorbells.is_some(), ..capabilities };
        let end = Mutex::new(process.pidfd.clone());
        Ok(Self {
            kind,
            capabilities,
            window,
            doorbells,
            memory,
            process: Mutex::new(process),
            end,
            start: Box::new(start),
            image: Mutex::new(image),
        })
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.capabilities
    }
    fn window(&self) -> &Window<Shared> {
        &self.window
    }
    fn notify(&self) {
        if let Some(doorbells) = &self.doorbells {
            doorbells.host.notify();
        }
    }
    fn wait(&self, max_us: u32) {
        match &self.doorbells {
            _ if max_us == 0 => patience::rest(),
            Some(doorbells) => doorbells.host.wait(&self.end(), max_us),
            None => std::thread::sleep(Duration::from_micros(max_us.into())),
        }
    }
    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        self.doorbells
            .iter()
            .flat_map(|doorbells| doorbells.host.descriptors().into_iter().chain([self.end()]))
            .collect()
    }
    fn wake(&self) {
        if let Some(doorbells) = &self.doorbells {
            doorbells.host.wake();
        }
    }
    fn peer(&self) -> Peer {
        let mut process = self.process();
        if process.has_exited() { Peer::Gone(process.reap()) } else { Peer::Alive }
    }
    fn exit_code(&self) -> Option<u8> {
        self.process().code
    }
    fn terminate(&self) {
        self.process().signal(Signal::TERM);
    }
    /// It is killed, which it cannot put off.
    fn stop(&self, _limit: Duration) {
        self.process().end();
    }
    fn host_ends(&self) -> Option<HostEnds> {
        let [notified, device] = self.doorbells.as_ref()?.for_host().ok()?;
        let memory = rustix::io::fcntl_dupfd_cloexec(self.memory.as_ref()?, 0).ok()?;
        Some(HostEnds { memory, notified, device, process: self.end() })
    }
    fn set_image(&self, image: &ImageFile) -> Result<(), String> {
        if self.capabilities.world {
            return Err("a rank of a world keeps its image".into());
        }
        *self.image.lock().unwrap_or_else(PoisonError::into_inner) = image.clone();
        Ok(())
    }
    fn restart(&self, _limit: Duration) -> Result<(), String> {
        let mut process = self.process();
        if !process.has_exited() {
            return Err("its process has not ended".into());
        }
        // Reaped first, so that two processes never use one window at the same time.
        process.reap();
        let image = self.image.lock().unwrap_or_else(PoisonError::into_inner).clone();
        *process = (self.start)(&image).map_err(|e| e.to_string())?;
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = process.pidfd.clone();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_beyond_the_set_is_refused() {
        for cpu in [rustix::thread::CpuSet::MAX_CPU, usize::MAX] {
            let error = pin(rustix::process::getpid(), cpu).expect_err("no set holds it").to_string();
            assert!(error.starts_with("Options::cpu: expected a processor from 0 to 1023"), "{error}");
        }
        assert!(PROCESSORS.contains(&(rustix::thread::CpuSet::MAX_CPU - 1).to_string()));
    }
}
