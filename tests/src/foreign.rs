//! What programs in other languages do, and Rust's own start or library keeps from one: dispositions of
//! signals, closed descriptors, forks. For tests that run in a process of their own.

#![expect(unsafe_code)]

use crate::devices;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

unsafe extern "C" {
    safe fn fork() -> i32;
    safe fn _exit(code: i32) -> !;
    safe fn alarm(seconds: u32) -> u32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn signal(number: i32, action: usize) -> usize;
    fn close(number: i32) -> i32;
    fn sigaction(number: i32, action: *const Action, before: *mut Action) -> i32;
    fn pthread_sigmask(how: i32, set: *const [u64; 16], before: *mut [u64; 16]) -> i32;
    safe fn atexit(function: extern "C" fn()) -> i32;
    fn ptrace(request: i32, ...) -> i64;
}

/// The C library's `struct sigaction`.
#[repr(C)]
struct Action {
    handler: usize,
    mask: [u64; 16],
    flags: i32,
    restorer: usize,
}

/// What a program may have set that its children inherit, or that takes their exit status.
pub const INHERITED: [&str; 4] = ["SIGCHLD ignored", "SA_NOCLDWAIT", "SIGCHLD blocked", "SIGPIPE ignored"];

/// Sets one of [`INHERITED`].
///
/// # Panics
/// It is none of them.
pub fn set(inherited: &str) {
    match inherited {
        "SIGCHLD ignored" => ignore(SIGCHLD),
        "SIGPIPE ignored" => ignore(SIGPIPE),
        "SA_NOCLDWAIT" => {
            let action = Action { handler: 0, mask: [0; 16], flags: 2, restorer: 0 };
            // SAFETY: SIG_DFL with a flag.
            assert_eq!(unsafe { sigaction(SIGCHLD, &raw const action, std::ptr::null_mut()) }, 0);
        }
        "SIGCHLD blocked" => {
            let mut set = [0; 16];
            set[0] = 1 << (SIGCHLD - 1);
            // SAFETY: SIG_BLOCK of a set of its own.
            assert_eq!(unsafe { pthread_sigmask(0, &raw const set, std::ptr::null_mut()) }, 0);
        }
        other => panic!("{other}"),
    }
}

/// Does a process wait for its children as one does that a shell has started? The C library of one that starts
/// another blocks all signals for a moment, so it has a second for that. One that has ended does.
pub fn waits_for_children(process: u32) -> bool {
    let sees = || {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let mask =
            |name| status.lines().find_map(|line: &str| u64::from_str_radix(line.strip_prefix(name)?.trim(), 16).ok());
        ["SigIgn:", "SigBlk:"].iter().filter_map(mask).all(|mask| mask >> (SIGCHLD - 1) & 1 == 0)
    };
    let begin = Instant::now();
    while !sees() {
        if begin.elapsed() > Duration::from_secs(1) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// The numbers of signals.
pub const SIGINT: i32 = 2;
/// The same.
pub const SIGPIPE: i32 = 13;
/// The same.
pub const SIGCHLD: i32 = 17;

/// The action that the system has for a signal.
pub fn reset(number: i32) {
    // SAFETY: SIG_DFL.
    unsafe { signal(number, 0) };
}

/// Ignores a signal.
pub fn ignore(number: i32) {
    // SAFETY: SIG_IGN.
    unsafe { signal(number, 1) };
}

/// Blocks all signals in this thread and in those that it starts.
pub fn block_all() {
    let set = [u64::MAX; 16];
    // SAFETY: SIG_BLOCK of a set of its own.
    assert_eq!(unsafe { pthread_sigmask(0, &raw const set, std::ptr::null_mut()) }, 0);
}

/// Handles a signal by doing nothing.
pub fn handle(number: i32) {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: a function of the type of handlers.
    unsafe { signal(number, nothing as extern "C" fn(i32) as usize) };
}

/// Closes one of the descriptors 0 to 2.
pub fn close_stdio(number: i32) {
    assert!((0..3).contains(&number), "of those alone no object of Rust is the owner");
    // SAFETY: nothing in these tests relies on what is behind the number.
    unsafe { close(number) };
}

/// Forks; the child runs `f` and ends by its result, or by a signal after 40 seconds. Returns the child.
pub fn forked(f: impl FnOnce() -> i32) -> i32 {
    match fork() {
        0 => {
            alarm(40);
            _exit(std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(101))
        }
        child => child,
    }
}

/// Forks a child that traces a process for so long, and never asks how that has ended. Returns the child.
pub fn traced(process: u32, time: Duration) -> i32 {
    const SEIZE: i32 = 0x4206;
    forked(|| {
        let none = std::ptr::null_mut::<u8>();
        // SAFETY: of the four arguments that the system has none is an address of this process.
        let seized = unsafe { ptrace(SEIZE, process as i32, none, none) };
        std::thread::sleep(time);
        i32::from(seized != 0)
    })
}

/// Registers a function for the end of the process, as destructors of statics of C++ are.
pub fn at_exit(function: extern "C" fn()) {
    assert_eq!(atexit(function), 0, "the system has room for it");
}

/// The exit code of a child.
pub fn code_of(child: i32) -> Option<i32> {
    let mut status = 0;
    // SAFETY: a place for the status.
    let ended = unsafe { waitpid(child, &raw mut status, 0) };
    (ended == child && status & 0x7f == 0).then_some(status >> 8 & 0xff)
}

/// Reaps every child that has ended, as programs do that start none themselves.
pub fn reap_all() {
    // SAFETY: no status is asked for; WNOHANG.
    while unsafe { waitpid(-1, std::ptr::null_mut(), 1) } > 0 {}
}

/// Runs an ignored test of this program in a process of its own, at most a minute, with a variable in its
/// environment.
///
/// # Panics
/// When it does not start.
pub fn run_ignored(test: &str, (name, value): (&str, &str)) -> Output {
    let again = crate::processes::again(test);
    let mut command = Command::new("timeout");
    command.arg("60").arg(again.get_program()).args(again.get_args()).env(name, value);
    let (list, built) = devices::built("shm");
    command.env(list, built);
    command.output().expect("it starts")
}

/// [`run_ignored`] of one that must succeed.
///
/// # Panics
/// When it does not.
pub fn succeeds(test: &str, variable: (&str, &str)) {
    let output = run_ignored(test, variable);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let is_run = text(&output.stdout).contains("running 1 test");
    assert!(output.status.success() && is_run, "{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
}
