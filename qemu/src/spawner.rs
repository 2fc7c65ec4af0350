//! The thread that starts machines.
//!
//! A machine must not outlive its host, even one that is killed. Hosted images end when a socket
//! closes. QEMU has no option to end when a file or socket closes, so the kernel is asked to kill
//! it when its parent ends. "Parent" means the thread that forked, not the process: the kernel
//! would kill a machine that a worker thread started as soon as the worker is done. Hence one
//! thread forks all machines and runs until the process ends.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

struct Job {
    command: Command,
    answer: SyncSender<io::Result<Child>>,
}

/// The sender of jobs to the thread; made at the first use.
static SPAWNER: Mutex<Option<Sender<Job>>> = Mutex::new(None);

/// Runs the command from the thread that exists until the process ends.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    let (answer, child) = sync_channel(1);
    let gone = || io::Error::other("the thread that starts machines has ended");
    spawner()?.send(Job { command, answer }).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

fn spawner() -> io::Result<Sender<Job>> {
    let mut spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(jobs) = &*spawner {
        return Ok(jobs.clone());
    }
    let (sender, jobs) = channel::<Job>();
    let work = move || {
        // The sender in `SPAWNER` is never dropped, so this loop ends with the process.
        for Job { mut command, answer } in jobs {
            // If the caller was unwound meanwhile, the result cannot be sent, and this thread ends
            // the child.
            if let Err(lost) = answer.send(command.spawn())
                && let Ok(mut child) = lost.0
            {
                // An error means that the child has ended.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    };
    std::thread::Builder::new().name("hamr-qemu".into()).spawn(work)?;
    Ok(spawner.insert(sender).clone())
}
