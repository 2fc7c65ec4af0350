//! What this process is: the rank, the task that its `main` runs in, and what it may do now.

#![expect(unsafe_code)]
// UNSAFETY: C has one rank per process and passes nothing to find it by, so a pointer to it is kept.

use crate::die::{die, ended, set_name};
use hamr_comm::world::WorldRef;
use hamr_comm::{Fault, Task};
use hamr_gas::{GasError, Rank};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicI32, Ordering};

/// The rank of a C program.
pub(crate) type CRank = Rank<'static, ()>;

/// Pointers to what is on the stack of the task below `main`, which never returns.
#[derive(Clone, Copy)]
struct Job {
    rank: *mut CRank,
    task: *const Task<'static>,
}

std::thread_local! {
    /// Of the thread that `main` runs on; others have none.
    static JOB: Cell<Option<Job>> = const { Cell::new(None) };
    static MEDIUM: Cell<usize> = const { Cell::new(0) };
    static BUFFERS: RefCell<Buffers> = const { RefCell::new(Buffers { handler: Vec::new(), prepared: Vec::new() }) };
}

/// Memory that C code is lent.
struct Buffers {
    handler: Vec<u128>,
    prepared: Vec<u128>,
}

/// What the thread of `main` is in: bits of [`restriction`].
#[unsafe(export_name = "hamr_gex_is_restricted")]
static RESTRICTED: AtomicI32 = AtomicI32::new(0);

/// Why calls are not allowed.
pub(crate) mod restriction {
    pub(crate) const REQUEST_HANDLER: i32 = 1;
    pub(crate) const REPLY_HANDLER: i32 = 2;
    pub(crate) const LOCK: i32 = 4;
    pub(crate) const PREPARED: i32 = 8;
}

/// Runs the program of a rank.
pub(crate) fn enter(task: &mut Task<'_>, program: impl FnOnce() -> std::convert::Infallible) -> Result<u8, Fault> {
    Rank::run(task, (), |rank| {
        let task = std::ptr::from_ref(rank.task()).cast();
        set_name(rank.me().0, rank.size());
        JOB.set(Some(Job { rank: std::ptr::from_mut(rank).cast(), task }));
        match program() {}
    })
}

/// Is this the thread of `main` in a rank?
pub(crate) fn is_here() -> bool {
    JOB.get().is_some()
}

fn job() -> Job {
    JOB.get().unwrap_or_else(|| die("only the thread of main may call this library, but for puts and gets"))
}

/// The world, in any context.
pub(crate) fn with_world<R>(f: impl FnOnce(&WorldRef<'_>) -> R) -> R {
    // SAFETY: the task lives below `main` on this thread's stack (`enter`), which does not return, and
    // no unique reference to it exists: the rank borrows it for as long.
    let task = unsafe { &*job().task };
    match task.world() {
        Some(world) => f(&world),
        None => die("this program is no rank"),
    }
}

/// The rank, for a call that communicates.
pub(crate) fn with_rank<R>(function: &str, f: impl FnOnce(&mut CRank) -> Result<R, GasError>) -> Result<R, GasError> {
    check(function);
    // SAFETY: the rank lives below `main` (`enter`). This is the only reference to it: the functions of a
    // rank run C code in handlers alone, in which `check` refuses a second.
    let rank = unsafe { &mut *job().rank };
    match f(rank) {
        Err(GasError::Interrupted(_)) => ended(),
        other => other,
    }
}

/// The longest medium payload, which a rank learns when it begins.
pub(crate) fn max_medium() -> usize {
    MEDIUM.get()
}

pub(crate) fn set_max_medium(bytes: usize) {
    MEDIUM.set(bytes);
}

/// Refuses a call where the specification forbids it.
pub(crate) fn check(function: &str) {
    let bits = restriction();
    if bits != 0 {
        die(&format!("{function}: {}", why(bits)));
    }
}

pub(crate) fn restriction() -> i32 {
    RESTRICTED.load(Ordering::Relaxed)
}

/// Nothing but replies, queries and locks may be called until [`lift`].
pub(crate) fn restrict(bits: i32) {
    RESTRICTED.store(restriction() | bits, Ordering::Relaxed);
}

pub(crate) fn lift(bits: i32) {
    RESTRICTED.store(restriction() & !bits, Ordering::Relaxed);
}

fn why(bits: i32) -> &'static str {
    match bits {
        bits if bits & restriction::LOCK != 0 => "a handler-safe lock is held",
        bits if bits & restriction::PREPARED != 0 => "a message is prepared and not committed",
        bits if bits & restriction::REQUEST_HANDLER != 0 => "a handler of a request may only reply",
        _ => "a handler of a reply may not communicate",
    }
}

/// The same for the header.
///
/// # Safety
/// A string of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn hamr_gex_restricted(function: *const c_char) -> ! {
    // SAFETY: the caller's promise.
    let function = unsafe { CStr::from_ptr(function) };
    die(&format!("{}: {}", function.to_string_lossy(), why(restriction())))
}

/// Memory for the payload of a message whose handler runs: one at a time.
pub(crate) fn handler_buffer(bytes: usize) -> *mut u8 {
    BUFFERS.with_borrow_mut(|buffers| at_least(&mut buffers.handler, bytes))
}

/// Memory for a prepared message: one at a time.
pub(crate) fn prepared_buffer(bytes: usize) -> *mut u8 {
    BUFFERS.with_borrow_mut(|buffers| at_least(&mut buffers.prepared, bytes))
}

fn at_least(buffer: &mut Vec<u128>, bytes: usize) -> *mut u8 {
    let words = bytes.div_ceil(16).max(1);
    if buffer.len() < words {
        *buffer = vec![0; words];
    }
    buffer.as_mut_ptr().cast()
}
