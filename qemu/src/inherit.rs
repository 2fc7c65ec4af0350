//! What runs between fork and exec of a machine, a debugger, or a program of [`crate::packages`]
//! (contract "before exec").

#![expect(unsafe_code)]
// UNSAFETY: code that runs in a forked copy of a program with threads may use only what a signal
// handler may use; `pre_exec` is unsafe because the compiler cannot see that.

use rustix::fd::OwnedFd;
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the child of `command` keep `inherited` open, and die with the *thread* that spawns it.
pub(crate) fn tie(command: &mut Command, inherited: Vec<OwnedFd>) {
    let host = getpid();
    // SAFETY: the closure runs after fork, where it may neither allocate nor take a lock, because
    // another thread may have been the lock's owner at the fork. `before_exec` makes system calls
    // and allocates nothing; an error travels as its number.
    unsafe { command.pre_exec(move || Ok(before_exec(host, &inherited)?)) };
}

fn before_exec(host: Pid, inherited: &[OwnedFd]) -> Result<(), Errno> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The host may have ended before that call, and then no signal comes: this process has another
    // parent already.
    if getppid() != Some(host) {
        return Err(Errno::SRCH);
    }
    // Cleared here and not in the host, where a child that another thread starts meanwhile would
    // inherit the descriptors as well.
    inherited.iter().try_for_each(|fd| fcntl_setfd(fd, FdFlags::empty()))
}
