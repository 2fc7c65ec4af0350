//! The thread that starts machines.
//!
//! A machine must not outlive its host, even one that is killed. Hosted images end when a socket closes; QEMU offers nothing
//! that ends it at the end of a file, so the kernel is asked to kill it when its parent dies. "Parent" means the thread that
//! forked, not the process: a machine that some worker thread started would be killed when that worker is done. Hence one
//! thread forks all machines and lives as long as the process.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

struct Job {
    command: Command,
    answer: SyncSender<io::Result<Child>>,
}

/// Where the thread hears of work; made at the first use.
static SPAWNER: Mutex<Option<Sender<Job>>> = Mutex::new(None);

/// Runs the command from the thread that lives as long as the process.
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
        // The sender in `SPAWNER` is never dropped, so this ends with the process.
        for Job { mut command, answer } in jobs {
            // Nobody listens if the caller was unwound meanwhile; then the reply ends the child.
            if let Err(lost) = answer.send(command.spawn())
                && let Ok(mut child) = lost.0
            {
                // Errors mean that it has ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    };
    std::thread::Builder::new().name("hamr-qemu".into()).spawn(work)?;
    Ok(spawner.insert(sender).clone())
}
