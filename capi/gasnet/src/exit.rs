//! How ranks end: `gasnet_exit`, a return from `main`, `exit`, a signal, and wrong use.
//!
//! The job's exit code is the first that a rank states. A rank that exits waits for the others to do so, so that
//! what they still print is not lost. Those that have not after [`GRACE`] get SIGQUIT; the job ends when all have
//! stated an end, [`LONGEST`] after the first at the latest, also where a rank cannot write what it has printed. The default
//! for SIGQUIT states that and goes on.
//!
//! An end may come in a handler of a signal, which has interrupted anything: the program, the library under its lock,
//! or the serve loop while the task is suspended. So nothing here uses the task, the rank or the lock, but only words of
//! the boards and system calls. No rank sends another a signal, for which it would have to believe a process id: each has
//! a thread that waits for [`Fact::Ask`], sends SIGQUIT to its own process, and ends it where that takes too long.

#![expect(unsafe_code)]
// UNSAFETY: exported names, handlers of signals, and functions of the C library.

use crate::board::{self, Fact};
use crate::die::{die, flush};
use crate::job;
use hamr_comm::abi::sync::{AtomicU64, Ordering};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

const GRACE: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(2);
/// The name of the thread that waits for an end.
pub(crate) const LISTENER: &str = "hamr-quit";
/// Between two looks at the others.
const PERIOD: Duration = Duration::from_micros(200);

/// Signals that end a process from outside.
const OUTSIDE: [c_int; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGABRT,
];

unsafe extern "C" {
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// The rank's process; not one that the program forks.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// This rank exits.
static IS_LEAVING: AtomicBool = AtomicBool::new(false);

/// Is this the rank, and no process that the program has forked?
pub(crate) fn is_rank() -> bool {
    PROCESS.load(Ordering::Relaxed) == std::process::id()
}

/// What this rank does at its end, from now on: before `main`.
pub(crate) fn prepare() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    job::with_world(board::find);
    // SAFETY: the function stays, and ignores its argument.
    unsafe { on_exit(at_exit, null_mut()) };
    // SAFETY: the function stays, and changes atomics and a thread's own value.
    unsafe { pthread_atfork(None, None, Some(forked)) };
    catch(libc::SIGQUIT, quit as extern "C" fn(c_int) as libc::sighandler_t, 0);
    for signal in OUTSIDE {
        let handler = outside as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
        catch(signal, handler as libc::sighandler_t, libc::SA_SIGINFO);
    }
    let listener = std::thread::Builder::new().name(LISTENER.into());
    if let Err(why) = without_signals(|| listener.spawn(listen)) {
        die(&format!("the system has no thread for the end of the job: {why}"));
    }
}

extern "C" fn forked() {
    job::become_copy();
}

/// What the launcher of ranks needs, whatever it was started with: the exit statuses of its children, and an error where nothing
/// reads what it says.
pub(crate) fn prepare_launcher() {
    if disposition(libc::SIGCHLD) == libc::SIG_IGN {
        // SAFETY: the default takes nothing.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
    // SAFETY: it is ignored. Ranks get the default: the standard library sets it back in what it starts.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Handles a signal whose disposition is the default.
fn catch(signal: c_int, handler: libc::sighandler_t, flags: c_int) {
    if disposition(signal) != libc::SIG_DFL {
        return;
    }
    // SAFETY: all zeros is a value of it: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler;
    action.sa_flags = flags | libc::SA_RESTART;
    // SAFETY: the handler has the type that the flags ask for, and uses what a handler may (above).
    unsafe { libc::sigaction(signal, &raw const action, null_mut()) };
}

fn disposition(signal: c_int) -> libc::sighandler_t {
    // SAFETY: all zeros is a value of it.
    let mut now: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: it sets nothing, and writes to a structure of its own.
    unsafe { libc::sigaction(signal, null(), &raw mut now) };
    now.sa_sigaction
}

/// Starts something that no signal interrupts: threads inherit what is blocked.
fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: all zeros is a value of them.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: a set of its own.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: sets of its own.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    let result = start();
    // SAFETY: what was set before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut()) };
    result
}

/// Waits until this rank exits, or another asks it to; then asks the program, and ends it where it does not end by itself.
fn listen() {
    let Some(word) = board::my_word(Fact::Ask) else { return };
    let low = word.as_ptr().cast::<u32>();
    while word.load(Ordering::Acquire) == 0 {
        // SAFETY: the low half of a word of the board, which stays mapped; the system compares and sleeps.
        unsafe { libc::syscall(libc::SYS_futex, low, libc::FUTEX_WAIT, 0, null::<libc::timespec>()) };
    }
    let Some(gas) = job::gas() else { return };
    // However this rank ends now, the first code is that of the job.
    if let Some(code) = first() {
        gas.foretell(code);
    }
    // One that exits, or has stated its end, waits for the others.
    if !IS_LEAVING.load(Ordering::Relaxed) && board::mine(Fact::Exit) == 0 {
        match disposition(libc::SIGQUIT) {
            // The signal would end it at once, or do nothing.
            libc::SIG_DFL | libc::SIG_IGN => board::state(Fact::Exit, 1),
            _ => {
                // SAFETY: a signal to this process.
                unsafe { libc::kill(std::process::id() as i32, libc::SIGQUIT) };
            }
        }
    }
    std::thread::sleep(LONGEST);
    // Something keeps it: output that nothing reads, or a lock that what the handler has interrupted holds.
    if let Some(code) = first() {
        gas.exit(code);
    }
}

/// The first code that a rank has stated.
fn first() -> Option<u8> {
    board::fact(0, Fact::Code).checked_sub(1).map(|code| code as u8)
}

/// Wakes the thread that waits at a word.
fn wake(word: &AtomicU64) {
    word.store(1, Ordering::Release);
    // SAFETY: as in `listen`; it wakes all that sleep there.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr().cast::<u32>(), libc::FUTEX_WAKE, i32::MAX) };
}

/// The default for SIGQUIT; it is that of the system in a process that the program has forked.
extern "C" fn quit(signal: c_int) {
    match is_rank() {
        true => board::state(Fact::Exit, 1),
        false => end_by(signal),
    }
}

/// Ends the process by a signal that is handled on this thread: it is blocked until the handler returns.
fn end_by(signal: c_int) {
    // SAFETY: the default takes nothing.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: a signal to this thread.
    unsafe { libc::raise(signal) };
}

/// A signal from outside: what the program does on SIGQUIT; without that, the signal's own default.
extern "C" fn outside(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes what SA_SIGINFO promises.
    let from = unsafe { &*info }.si_code;
    // `abort`, or `raise` and `pthread_kill`.
    let is_own = signal == libc::SIGABRT && from != libc::SI_USER;
    let on_quit = disposition(libc::SIGQUIT);
    let own = quit as extern "C" fn(c_int) as libc::sighandler_t;
    if is_rank() && !is_own && ![own, libc::SIG_DFL, libc::SIG_IGN].contains(&on_quit) {
        // SAFETY: the program's handler runs here, on this thread.
        unsafe { libc::raise(libc::SIGQUIT) };
    }
    end_by(signal);
}

/// The program has called `exit`, or has returned from `main`.
extern "C" fn at_exit(code: c_int, _: *mut c_void) {
    if is_rank() {
        leave(code);
    }
}

/// Ends the process as a return from `main` does.
pub(crate) fn leave_by_exit(code: c_int) -> ! {
    // SAFETY: it is what the C library's start does with a program's code.
    unsafe { libc::exit(code) }
}

/// Ends the job with a code, or a process that a rank has forked.
#[unsafe(no_mangle)]
extern "C" fn gasnet_exit(code: c_int) -> ! {
    if is_rank() {
        leave(code);
    }
    flush();
    // SAFETY: the process ends.
    unsafe { libc::_exit(code) }
}

fn leave(code: c_int) -> ! {
    let begin = Instant::now();
    let Some(gas) = job::gas() else { die("gasnet_exit: expected a process that is a rank") };
    let stated = 1 + u64::from(code as u8);
    if let Some(word) = board::word(0, Fact::Code) {
        // C1: all ranks leave with the code of the first that comes here. An error: it was another.
        let _ = word.compare_exchange(0, stated, Ordering::SeqCst, Ordering::SeqCst);
    }
    let code = first().unwrap_or(code as u8);
    gas.foretell(code);
    IS_LEAVING.store(true, Ordering::Relaxed);
    if let Some(word) = board::my_word(Fact::Ask) {
        wake(word);
    }
    flush();
    board::state(Fact::Exit, 1);
    let mut is_asked = false;
    while begin.elapsed() < LONGEST && (0..board::ranks()).any(|rank| board::fact(rank, Fact::Exit) == 0) {
        if begin.elapsed() >= GRACE && !is_asked {
            is_asked = true;
            (0..board::ranks()).filter_map(|rank| board::word(rank, Fact::Ask)).for_each(wake);
        }
        std::thread::sleep(PERIOD);
    }
    gas.exit(code)
}
