//! How ranks end: `gasnet_exit`, a return from `main`, `exit`, and wrong use.
//!
//! A rank that exits states its code on its board, then waits for the others to state theirs, so that
//! what they still print is not lost. Those that have not after [`GRACE`] get SIGQUIT; the job ends when
//! all have stated a code, [`LONGEST`] after the first at the latest. The default for SIGQUIT states code 0 and goes on.

#![expect(unsafe_code)]
// UNSAFETY: exported names, and functions of the C library.

use crate::board::{self, Fact};
use crate::die::{die, flush};
use crate::job;
use hamr_comm::abi::sync::{AtomicU64, Ordering};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32};
use std::time::{Duration, Instant};

const GRACE: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(2);
/// Between two looks at the others.
const PERIOD: Duration = Duration::from_micros(200);

unsafe extern "C" {
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Where this rank's [`Fact::Exit`] is, for the handler of SIGQUIT.
static EXIT: AtomicPtr<u64> = AtomicPtr::new(null_mut());

/// The rank's process; not one that the program forks.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// What this rank does at its end, from now on: before `main`.
pub(crate) fn prepare() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    job::with_world(|world| board::state(world, Fact::Pid, std::process::id().into()));
    let at = job::with_world(|world| board::address(world, world.me().0).1);
    EXIT.store(at.wrapping_add(Fact::Exit as usize).cast(), Ordering::Relaxed);
    // SAFETY: the function stays, and ignores its argument.
    unsafe { on_exit(at_exit, null_mut()) };
    // SAFETY: the handler makes one atomic store.
    let before = unsafe { libc::signal(libc::SIGQUIT, quit as extern "C" fn(c_int) as libc::sighandler_t) };
    if before != libc::SIG_DFL {
        // SAFETY: it is what was there.
        unsafe { libc::signal(libc::SIGQUIT, before) };
    }
}

extern "C" fn quit(_: c_int) {
    let exit = EXIT.load(Ordering::Relaxed);
    if exit.is_null() {
        return;
    }
    // SAFETY: it is on this rank's board, which stays mapped, aligned, and used by atomics only.
    let exit = unsafe { AtomicU64::from_ptr(exit) };
    // The rank may be exiting.
    let _ = exit.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire); // X1, partner X2
}

/// The program has called `exit`, or has returned from `main`.
extern "C" fn at_exit(code: c_int, _: *mut c_void) {
    if job::is_here() && PROCESS.load(Ordering::Relaxed) == std::process::id() {
        leave(code);
    }
}

/// Ends the process as a return from `main` does.
pub(crate) fn leave_by_exit(code: c_int) -> ! {
    // SAFETY: it is what the C library's start does with a program's code.
    unsafe { libc::exit(code) }
}

/// Ends the job with a code.
#[unsafe(no_mangle)]
extern "C" fn gasnet_exit(code: c_int) -> ! {
    if !job::is_here() {
        die("gasnet_exit: only the thread of main may call it; in GASNET_PAR any thread may");
    }
    leave(code)
}

fn leave(code: c_int) -> ! {
    flush();
    let code = code as u8;
    job::with_world(|world| {
        board::state(world, Fact::Exit, 1 + u64::from(code));
        let begin = Instant::now();
        let mut is_asked = false;
        while begin.elapsed() < LONGEST {
            let mut left = (0..world.size()).filter(|rank| board::fact(world, *rank, Fact::Exit) == 0).peekable(); // X2, partner X1
            if left.peek().is_none() {
                break;
            }
            if begin.elapsed() >= GRACE && !is_asked {
                is_asked = true;
                left.for_each(|rank| ask(board::fact(world, rank, Fact::Pid)));
            }
            std::thread::sleep(PERIOD);
        }
        world.exit(code)
    })
}

/// Sends SIGQUIT to a rank that has started.
fn ask(pid: u64) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended.
        let _ = kill_process(pid, Signal::QUIT);
    }
}
