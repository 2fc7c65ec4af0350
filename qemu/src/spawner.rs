//! The thread that starts machines, and debuggers that have a device.
//!
//! Neither must outlive its host, even one that is killed. Hosted images end when a socket closes.
//! QEMU and gdbserver have no option to end when a file or socket closes, so the kernel is asked to
//! kill them when their parent ends. "Parent" means the thread that forked, not the process: the
//! kernel would kill a machine that a worker thread started as soon as the worker is done. Hence one
//! thread forks all of them and runs until the process ends.

use crate::inherit;
use crate::origin::Origin;
use rustix::fd::OwnedFd;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

struct Job {
    command: Command,
    answer: SyncSender<io::Result<Child>>,
}

/// The sender of jobs to the thread, made at the first use, and the process that has the thread: a
/// fork of it has not.
static SPAWNER: Mutex<Option<(Origin, Sender<Job>)>> = Mutex::new(None);

/// Starts the command in a process group of its own, so that the terminal's signals do not reach it,
/// from the thread that exists until the process ends: that end kills it. `inherited` stay open in it.
///
/// # Errors
/// As [`Command::spawn`].
pub fn spawn(mut command: Command, inherited: Vec<OwnedFd>) -> io::Result<Child> {
    command.process_group(0);
    inherit::tie(&mut command, inherited);
    let (answer, child) = sync_channel(1);
    let gone = || io::Error::other("the thread that starts machines has ended");
    send(Job { command, answer })?;
    child.recv().map_err(|_| gone())?
}

/// Gives the thread a job; starts it where there is none, or none any more.
fn send(mut job: Job) -> io::Result<()> {
    let mut spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((origin, jobs)) = &*spawner
        && origin.is_here()
    {
        match jobs.send(job) {
            Ok(()) => return Ok(()),
            Err(unsent) => job = unsent.0,
        }
    }
    let (sender, jobs) = channel::<Job>();
    // It has room.
    let _ = sender.send(job);
    let work = move || {
        // The sender in `SPAWNER` is never dropped while this thread is there, so this loop ends with the process.
        for Job { mut command, answer } in jobs {
            // If the caller was unwound meanwhile, the result cannot be sent, and this thread ends
            // the child.
            if let Err(lost) = answer.send(hamr_linker::child::start(&mut command))
                && let Ok(mut child) = lost.0
            {
                // An error means that the child has ended.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    };
    std::thread::Builder::new().name("hamr-spawner".into()).spawn(work)?;
    *spawner = Some((Origin::here(), sender));
    Ok(())
}
