//! Programs that this one starts: what they inherit is set, and who takes their exit status is not taken for granted.

#![expect(unsafe_code)]
// UNSAFETY: code that runs in a forked copy of a program with threads may use only what a signal handler may use;
// `pre_exec` is unsafe because the compiler cannot see that (contract "before exec").
//
// Contract "before exec". Code in the fork makes the kernel kill an emulator or a debugger with its
// host, keeps the descriptors from children of other threads, and sets back an ignored SIGCHLD and
// blocked signals for a child alone. It owns what it uses.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::task::Poll;

/// The number of the signal at a child's end, in all of Linux that this compiles for.
const SIGCHLD: i32 = 17;
const SIG_DFL: usize = 0;
/// The mask is the one that is given, likewise.
const SIG_SETMASK: i32 = 2;
/// "No child processes", likewise.
const ECHILD: i32 = 10;

unsafe extern "C" {
    fn signal(number: i32, action: usize) -> usize;
    /// Of sets as large as the largest that a C library has.
    fn sigprocmask(how: i32, set: *const [u64; 16], before: *mut [u64; 16]) -> i32;
}

/// Starts a program. Where this one ignores SIGCHLD, or this thread blocks signals, the child does not: programs that
/// wait for children of their own, as cargo does, fail with that, and one that blocks SIGTERM does not end by it. An
/// ignored SIGPIPE the standard library sets back.
///
/// # Errors
/// As [`Command::spawn`].
pub fn start(command: &mut Command) -> io::Result<Child> {
    is_there(command)?;
    if is_inherited(std::fs::read_to_string("/proc/thread-self/status").ok().as_deref()) {
        let reset = || {
            // SAFETY: one system call, and SIG_DFL is an action of every signal.
            unsafe { signal(SIGCHLD, SIG_DFL) };
            // SAFETY: one system call, which reads a set; no old one is asked for.
            unsafe { sigprocmask(SIG_SETMASK, &[0; 16], std::ptr::null_mut()) };
            Ok(())
        };
        // SAFETY: the closure runs after fork, where it may neither allocate nor take a lock, and does neither.
        unsafe { command.pre_exec(reset) };
    }
    // Another reason why it cannot be run comes from a child. The standard library panics where that is reaped elsewhere.
    catch_unwind(AssertUnwindSafe(|| command.spawn())).unwrap_or_else(|_| {
        Err(io::Error::other(
            "it cannot be run, and this program, or the system for it, took the exit status that says why",
        ))
    })
}

/// An error where there is no such program. Only a child would find that out, whose exit status may be another's.
fn is_there(command: &Command) -> io::Result<()> {
    let program = Path::new(command.get_program());
    if program.is_absolute() {
        return std::fs::metadata(program).map(drop);
    }
    let own = command.get_envs().find(|(name, _)| *name == "PATH").map(|(_, path)| path.map(OsString::from));
    match own.unwrap_or_else(|| std::env::var_os("PATH")) {
        Some(folders) if program.components().count() == 1 => {
            let is_in = |folder: PathBuf| std::fs::metadata(folder.join(program)).is_ok();
            if std::env::split_paths(&folders).any(is_in) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
        }
        _ => Ok(()),
    }
}

/// Does a thread with this status ignore SIGCHLD, or block any signal? Unknown: as if it did.
fn is_inherited(status: Option<&str>) -> bool {
    let mask = |name| {
        let text = status?.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(text.trim(), 16).ok()
    };
    mask("SigIgn:").is_none_or(|mask| mask >> (SIGCHLD - 1) & 1 != 0) || mask("SigBlk:") != Some(0)
}

/// Waits for a child's end. `None` where this process, or the system for it, took the exit status.
///
/// # Errors
/// The system's.
pub fn ended(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    unless_taken(child.wait().map(Some))
}

/// [`ended`] without a wait.
///
/// # Errors
/// The system's.
pub fn poll_end(child: &mut Child) -> io::Result<Poll<Option<ExitStatus>>> {
    match child.try_wait() {
        Ok(None) => Ok(Poll::Pending),
        ended => unless_taken(ended).map(Poll::Ready),
    }
}

fn unless_taken(ended: io::Result<Option<ExitStatus>>) -> io::Result<Option<ExitStatus>> {
    match ended {
        Err(e) if e.raw_os_error() == Some(ECHILD) => Ok(None),
        ended => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_a_child_would_inherit() {
        let of = |blocked: &str, ignored: &str| {
            is_inherited(Some(&format!(
                "Name:	x
SigBlk:	{blocked}
SigIgn:	{ignored}
"
            )))
        };
        let ignores = |mask: &str| of("0000000000000000", mask);
        assert!(ignores("0000000000010000") && ignores("ffffffffffffffff"));
        assert!(!ignores("0000000000001000") && !ignores("fffffffffffeffff") && !ignores("0"));
        assert!(of("0000000000010000", "0") && of("0000000000004000", "0") && of("none", "0"));
        assert!(is_inherited(None) && is_inherited(Some("")) && ignores("none"));
    }

    #[test]
    fn a_child_ends_with_its_status() {
        let mut child = start(Command::new("sh").args(["-c", "exit 3"])).expect("it runs");
        assert_eq!(ended(&mut child).expect("it ends").and_then(|status| status.code()), Some(3));
        let absent = |name| is_there(&Command::new(name)).map_err(|why| why.kind());
        assert_eq!(absent("/dev/null/no-program"), Err(io::ErrorKind::NotADirectory));
        assert_eq!(absent("hamr-no-program"), Err(io::ErrorKind::NotFound));
        assert_eq!((absent("sh"), absent("./no-program")), (Ok(()), Ok(())));
        start(&mut Command::new("hamr-no-program")).expect_err("it is not there");
    }
}
