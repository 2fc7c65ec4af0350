//! Starting a machine.

use crate::console::{Console, Source};
use crate::server::{self, MachineDoorbells};
use crate::{Card, Error, Machine, Program, Run, spawner};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::process::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A machine that runs. The caller ends it: dropping the child neither kills nor waits for it.
#[derive(Debug)]
pub struct Started {
    /// QEMU's process. It is killed when this process ends, however that happens.
    pub child: Child,
    /// Its output.
    pub console: Console,
    /// The server's end of the connection, for a machine with doorbells. It stays open while the
    /// machine runs.
    pub server: Option<OwnedFd>,
}

/// Starts QEMU with the window `memory` as the memory of a PCI card (BAR 2 of ivshmem's device).
/// The memory should be sealed against shrinking, as any file that two processes map. With
/// `doorbells`, the card has a doorbell too. The image is `file`, whatever is at its path by now.
///
/// # Errors
/// When QEMU is absent or too old, the row may not be used, or the process cannot be made. Errors
/// that QEMU itself finds show in its exit status and its [`Console`].
pub fn start(
    machine: &Machine,
    run: &Run<'_>,
    file: impl AsFd,
    memory: impl AsFd,
    doorbells: Option<MachineDoorbells<'_>>,
) -> Result<Started, Error> {
    // A descriptor for the child alone: whether a descriptor survives exec is a property of its
    // number.
    let (inherited, server) = match doorbells {
        Some(doorbells) => server::connect(&memory, run.peer, doorbells).map(|(theirs, ours)| (theirs, Some(ours)))?,
        None => {
            let copy = memory.as_fd().try_clone_to_owned();
            (copy.map_err(Error::os("copying the window's descriptor"))?, None)
        }
    };
    let number = inherited.as_raw_fd();
    let card = if server.is_some() { Card::Server(number) } else { Card::Memory(number) };
    let file = file.as_fd().try_clone_to_owned().map_err(Error::os("copying the image's descriptor"))?;
    let kernel = format!("/proc/self/fd/{}", file.as_raw_fd());
    let copy = |(memory, len): (BorrowedFd<'_>, u64)| memory.try_clone_to_owned().map(|copy| (copy, len));
    let host = run.host_memory.map(copy).transpose().map_err(Error::os("copying a descriptor of the host's memory"))?;
    let host_memory = host.as_ref().map(|(memory, len)| (memory.as_fd(), *len));
    let main = run.main_memory.map(|memory| memory.try_clone_to_owned()).transpose();
    let main = main.map_err(Error::os("copying a descriptor of main memory"))?;
    let main_memory = main.as_ref().map(AsFd::as_fd);
    let arguments = machine.arguments(&Run { image: Path::new(&kernel), host_memory, main_memory, ..*run }, card)?;
    let mut command = Program::find(machine)?.command();
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    tracing::debug!(?command, "starting a machine");
    let mut child = spawner::spawn(
        command,
        [inherited, file].into_iter().chain(host.map(|(memory, _)| memory)).chain(main).collect(),
    )
    .map_err(Error::os(format!("starting `{}`", machine.program)))?;
    let console = Console::new(&kernel, run.image);
    let heard = [
        child.stdout.take().map(|pipe| console.listen(run.device, Source::Image, pipe)),
        child.stderr.take().map(|pipe| console.listen(run.device, Source::Qemu, pipe)),
    ];
    match heard.into_iter().flatten().collect::<Result<(), _>>() {
        Ok(()) => Ok(Started { child, console, server }),
        Err(e) => {
            // An error means that the child has ended.
            let _ = child.kill();
            let _ = child.wait();
            Err(Error::os("starting a thread for the console")(e))
        }
    }
}

/// The thread that runs the machine's first processor, for pinning. It appears a moment after
/// QEMU's start.
pub fn vcpu_thread(process: u32) -> Option<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let is_vcpu = |task: &PathBuf| std::fs::read(task.join("comm")).is_ok_and(|name| name == b"CPU 0/TCG\n");
    let task = tasks.flatten().map(|entry| entry.path()).find(is_vcpu)?;
    Pid::from_raw(task.file_name()?.to_str()?.parse().ok()?)
}
