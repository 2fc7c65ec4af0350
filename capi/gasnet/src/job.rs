//! What this process is: the rank, the task that its `main` runs in, and what a thread may do now.
//!
//! In the modes PAR and PARSYNC any thread may call the library: [`lock`] is around each call, and what
//! the library keeps for all threads is used under it alone. In SEQ it is the thread of `main`, without
//! a lock.

#![expect(unsafe_code)]
// UNSAFETY: C has one rank per process and passes nothing to find it by, so a pointer to it is kept.

use crate::die::{die, ended, set_name};
use hamr_comm::abi::sync::{AtomicU32, Ordering};
use hamr_comm::world::{GasWorld, WorldRef};
use hamr_comm::{Fault, Task};
use hamr_gas::{GasError, Rank};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The rank of a C program.
pub(crate) type CRank = Rank<'static, ()>;

/// Pointers to what is on the stack of the task below `main`, which never returns.
struct Job {
    rank: *mut CRank,
    task: *const Task<'static>,
    gas: GasWorld,
}

// SAFETY: what the pointers lead to is used under `lock` (`with_rank`, `with_world`), or by the thread
// of `main` alone. A `GasWorld` is references to what any thread may read.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

static JOB: OnceLock<Job> = OnceLock::new();
/// Several threads may call.
static HAS_THREADS: AtomicBool = AtomicBool::new(false);
/// This process was forked by the rank.
static IS_COPY: AtomicBool = AtomicBool::new(false);
static MEDIUM: AtomicUsize = AtomicUsize::new(0);
/// The lock of PAR: 1 is held.
static LOCK: AtomicU32 = AtomicU32::new(0);

std::thread_local! {
    /// Is it the thread that `main` runs on?
    static IS_MAIN: Cell<bool> = const { Cell::new(false) };
    /// How often this thread has the lock.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// What this thread is in, where several may call.
    static BITS: Cell<i32> = const { Cell::new(0) };
    /// Memory that handlers of C are lent.
    static BUFFER: RefCell<Vec<u128>> = const { RefCell::new(Vec::new()) };
}

/// What the header looks at before it does without the library: see [`set_restriction`].
#[repr(C)]
struct MayBe {
    /// In SEQ what the thread of `main` is in: bits of [`restriction`]. Else those of a handler that runs, which has the
    /// lock.
    now: AtomicI32,
    /// Where several threads call: one has ever been in something else, and may be.
    ever: AtomicI32,
}

#[unsafe(export_name = "hamr_gex_may_be_restricted")]
static MAY_BE: MayBe = MayBe { now: AtomicI32::new(0), ever: AtomicI32::new(0) };

/// Why calls are not allowed.
pub(crate) mod restriction {
    pub(crate) const REQUEST_HANDLER: i32 = 1;
    pub(crate) const REPLY_HANDLER: i32 = 2;
    pub(crate) const LOCK: i32 = 4;
    pub(crate) const PREPARED: i32 = 8;
    pub(crate) const OPERATION: i32 = 16;
}

/// Runs the program of a rank.
pub(crate) fn enter(task: &mut Task<'_>, program: impl FnOnce() -> std::convert::Infallible) -> Result<u8, Fault> {
    Rank::run(task, (), |rank| {
        let task = rank.task();
        let gas = task.gas_world().ok_or(GasError::NoWorld)?;
        let task = std::ptr::from_ref(task).cast();
        set_name(rank.me().0, rank.size());
        // A process has one program.
        let _ = JOB.set(Job { rank: std::ptr::from_mut(rank).cast(), task, gas });
        IS_MAIN.set(true);
        match program() {}
    })
}

/// Is this the thread of `main`?
pub(crate) fn is_main() -> bool {
    IS_MAIN.get()
}

/// May this thread call the library?
pub(crate) fn is_here() -> bool {
    IS_MAIN.get() || has_threads()
}

/// The program is one of PAR or PARSYNC.
pub(crate) fn allow_threads() {
    with_rank("gex_Client_Init", |rank| rank.comes_from_threads());
    HAS_THREADS.store(true, Ordering::Relaxed);
}

/// Any thread may call.
pub(crate) fn has_threads() -> bool {
    HAS_THREADS.load(Ordering::Relaxed)
}

#[inline]
fn job() -> &'static Job {
    match JOB.get() {
        Some(job) if is_here() => job,
        _ => elsewhere(),
    }
}

#[cold]
#[inline(never)]
fn elsewhere() -> ! {
    if IS_COPY.load(Ordering::Relaxed) {
        die(
            "a process that a rank has forked is no rank, and may call nothing of this library but puts, gets and gasnet_exit",
        );
    }
    die("only the thread of main may call this library, but for puts and gets; in GASNET_PAR any thread may")
}

/// This process is one that the rank has forked: it may not call, as the rank's messages would come to both.
pub(crate) fn become_copy() {
    IS_COPY.store(true, Ordering::Relaxed);
    IS_MAIN.set(false);
    HAS_THREADS.store(false, Ordering::Relaxed);
}

/// The world as a handler of a signal may use it, on any thread; `None`: this process is no rank.
pub(crate) fn gas() -> Option<GasWorld> {
    JOB.get().map(|job| job.gas)
}

/// The lock, as long as it lives.
pub(crate) struct Locked(bool);

impl Drop for Locked {
    fn drop(&mut self) {
        if !self.0 {
            return;
        }
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            LOCK.store(0, Ordering::Release); // T2, partner T1
        }
    }
}

/// Keeps other threads out of the library. A thread may take it again: handlers call back.
#[inline]
pub(crate) fn lock() -> Locked {
    if has_threads() { take() } else { Locked(false) }
}

/// The same; `None`: another thread is in the library.
#[inline]
pub(crate) fn try_lock() -> Option<Locked> {
    if has_threads() { try_take() } else { Some(Locked(false)) }
}

#[cold]
fn take() -> Locked {
    // Calls are short: none waits for a rank under the lock. More threads than processors are usual.
    loop {
        match try_take() {
            Some(locked) => return locked,
            None => std::thread::yield_now(),
        }
    }
}

#[inline]
fn try_take() -> Option<Locked> {
    let depth = DEPTH.get();
    // T1, partner T2
    if depth == 0 && LOCK.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return None;
    }
    DEPTH.set(depth + 1);
    Some(Locked(true))
}

/// The world, in any context.
pub(crate) fn with_world<R>(f: impl FnOnce(&WorldRef<'_>) -> R) -> R {
    let job = job();
    let _locked = lock();
    // SAFETY: the task lives below `main` on that thread's stack (`enter`), which does not return, and
    // no unique reference to it exists: the rank borrows it for as long. The lock keeps other threads
    // from it, its own among them, which suspends it in calls of the rank only.
    let task = unsafe { &*job.task };
    f(&job.gas.world(task))
}

/// The rank, for a call that communicates.
#[inline]
pub(crate) fn with_rank<R>(function: &str, f: impl FnOnce(&mut CRank) -> R) -> R {
    check(function);
    let _locked = lock();
    under_lock(f)
}

/// The same; `None`: another thread is in the library.
#[inline]
pub(crate) fn try_rank<R>(function: &str, f: impl FnOnce(&mut CRank) -> R) -> Option<R> {
    check(function);
    let _locked = try_lock()?;
    Some(under_lock(f))
}

#[inline]
fn under_lock<R>(f: impl FnOnce(&mut CRank) -> R) -> R {
    let job = job();
    // SAFETY: the rank lives below `main` (`enter`). This is the only reference to it: the lock keeps other
    // threads out, and the functions of a rank run C code in handlers alone, in which `check` refuses a
    // second.
    f(unsafe { &mut *job.rank })
}

/// A call of the rank failed: the job ends, or has ended.
#[cold]
#[inline(never)]
pub(crate) fn failed(function: &str, why: &GasError) -> ! {
    match why {
        GasError::Interrupted(_) => ended(),
        why => die(&format!("{function}: {why}")),
    }
}

/// What all threads have in common and use all the time: under the lock, which is the only one.
pub(crate) struct Common<T>(RefCell<T>);

// SAFETY: `with` is the one way to the value, by threads that may call the library, under the lock: in SEQ that of `main` alone.
unsafe impl<T: Send> Sync for Common<T> {}

impl<T> Common<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    /// Its use, in which there is no other.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        job();
        let _locked = lock();
        f(&mut self.0.borrow_mut())
    }
}

/// What all threads have in common, under the lock.
pub(crate) fn common<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The longest medium payload, which a rank learns when it begins.
pub(crate) fn max_medium() -> usize {
    MEDIUM.load(Ordering::Relaxed)
}

pub(crate) fn set_max_medium(bytes: usize) {
    MEDIUM.store(bytes, Ordering::Relaxed);
}

/// Is this a handler, in which nothing may be waited for?
pub(crate) fn is_handler() -> bool {
    restriction() & (restriction::REQUEST_HANDLER | restriction::REPLY_HANDLER) != 0
}

/// Refuses a call where the specification forbids it.
#[inline]
pub(crate) fn check(function: &str) {
    let bits = restriction();
    if bits != 0 {
        refuse(function, bits);
    }
}

#[cold]
#[inline(never)]
fn refuse(function: &str, bits: i32) -> ! {
    die(&format!("{function}: {}", why(bits)))
}

#[inline]
pub(crate) fn restriction() -> i32 {
    if has_threads() { BITS.get() } else { MAY_BE.now.load(Ordering::Relaxed) }
}

/// This thread may call nothing but replies, queries and locks until [`lift`].
pub(crate) fn restrict(bits: i32) {
    set_restriction(restriction() | bits);
}

pub(crate) fn lift(bits: i32) {
    set_restriction(restriction() & !bits);
}

/// Each thread reads in the header what it has stored here itself, so no order is needed.
fn set_restriction(bits: i32) {
    const HANDLER: i32 = restriction::REQUEST_HANDLER | restriction::REPLY_HANDLER;
    if !has_threads() {
        return MAY_BE.now.store(bits, Ordering::Relaxed);
    }
    let before = BITS.replace(bits);
    // Handlers run one at a time, under the lock.
    if (before ^ bits) & HANDLER != 0 {
        MAY_BE.now.store(bits & HANDLER, Ordering::Relaxed);
    }
    if bits & !HANDLER != 0 && MAY_BE.ever.load(Ordering::Relaxed) == 0 {
        MAY_BE.ever.store(1, Ordering::Relaxed);
    }
}

fn why(bits: i32) -> &'static str {
    match bits {
        bits if bits & restriction::OPERATION != 0 => "an operation of a reduction may call nothing of this library",
        bits if bits & restriction::LOCK != 0 => "a handler-safe lock is held",
        bits if bits & restriction::PREPARED != 0 => "a message is prepared and not committed",
        bits if bits & restriction::REQUEST_HANDLER != 0 => "a handler of a request may only reply",
        _ => "a handler of a reply may not communicate",
    }
}

/// Memory for the payload of a message whose handler runs: one at a time.
pub(crate) fn handler_buffer(bytes: usize) -> *mut u8 {
    let words = bytes.div_ceil(16).max(1);
    let lent = BUFFER.try_with(|buffer| {
        let mut buffer = buffer.borrow_mut();
        if buffer.len() < words {
            *buffer = vec![0; words];
        }
        buffer.as_mut_ptr()
    });
    // Behind this thread's destructors, as functions of `atexit` are, there is none any more.
    lent.unwrap_or_else(|_| vec![0; words].leak().as_mut_ptr()).cast()
}
