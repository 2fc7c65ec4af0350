//! Handler-safe locks. While a thread has one, it may not communicate: one that holds the library's lock, in a
//! handler, waits for such a thread, and never the other way round.

#![expect(unsafe_code)]
// UNSAFETY: locks are memory of C.

use crate::die::die;
use crate::errors::ERR_NOT_READY;
use crate::job::{self, restriction};
use hamr_comm::abi::sync::{AtomicU32, AtomicU64, Ordering};
use std::cell::Cell;
use std::ffi::c_int;

/// `gex_HSL_t`: `GEX_HSL_INITIALIZER` has this state.
const OPEN: u32 = 0x4C53_4800;
const HELD: u32 = OPEN + 1;
const GONE: u32 = OPEN + 2;

#[repr(C)]
struct Lock {
    state: AtomicU32,
    /// Its place among those that its holder has taken, from 1 on.
    depth: AtomicU32,
    /// The thread that holds it; 0: none, or one that has not stated it yet.
    owner: AtomicU64,
}

std::thread_local! {
    /// How many this thread holds. It has no destructor: those of a thread's values, and functions of `atexit`, take locks,
    /// too.
    static COUNT: Cell<u32> = const { Cell::new(0) };
}

fn this_thread() -> u64 {
    // SAFETY: the function takes nothing.
    unsafe { libc::pthread_self() }
}

impl Lock {
    /// # Safety
    /// A lock that was initialised.
    unsafe fn of<'a>(function: &str, lock: *const Self) -> &'a Self {
        // SAFETY: the caller's promise.
        let lock = unsafe { &*lock };
        match lock.state.load(Ordering::Relaxed) {
            OPEN | HELD => lock,
            GONE => die(&format!("{function}: the lock is destroyed")),
            _ => die(&format!("{function}: the lock is not initialised")),
        }
    }

    fn is_mine(&self) -> bool {
        self.state.load(Ordering::Relaxed) == HELD && self.owner.load(Ordering::Relaxed) == this_thread()
    }

    fn try_take(&self) -> bool {
        let taken = self.state.compare_exchange(OPEN, HELD, Ordering::Acquire, Ordering::Relaxed); // H1, partner H2
        if taken.is_err() {
            return false;
        }
        self.owner.store(this_thread(), Ordering::Relaxed);
        COUNT.set(COUNT.get() + 1);
        self.depth.store(COUNT.get(), Ordering::Relaxed);
        if job::is_here() {
            job::restrict(restriction::LOCK);
        }
        true
    }
}

/// Initialises a lock.
///
/// # Safety
/// Memory for a lock that nothing uses.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_HSL_Init(lock: *mut Lock) {
    let fresh = Lock { state: AtomicU32::new(OPEN), depth: AtomicU32::new(0), owner: AtomicU64::new(0) };
    // SAFETY: the caller's promise.
    unsafe { lock.write(fresh) };
}

/// Ends a lock.
///
/// # Safety
/// A lock.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_HSL_Destroy(lock: *mut Lock) {
    // SAFETY: the caller's promise.
    let lock = unsafe { Lock::of("gex_HSL_Destroy", lock) };
    if lock.state.load(Ordering::Relaxed) == HELD {
        die("gex_HSL_Destroy: the lock is held");
    }
    lock.state.store(GONE, Ordering::Relaxed);
}

/// Takes a lock.
///
/// # Safety
/// A lock.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_HSL_Lock(lock: *mut Lock) {
    // SAFETY: the caller's promise.
    let lock = unsafe { Lock::of("gex_HSL_Lock", lock) };
    if lock.is_mine() {
        die("gex_HSL_Lock: this thread has the lock already");
    }
    while !lock.try_take() {
        std::thread::yield_now();
    }
}

/// Takes a lock that is free.
///
/// # Safety
/// A lock.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_HSL_Trylock(lock: *mut Lock) -> c_int {
    // SAFETY: the caller's promise.
    let lock = unsafe { Lock::of("gex_HSL_Trylock", lock) };
    if lock.is_mine() {
        die("gex_HSL_Trylock: this thread has the lock already");
    }
    if lock.try_take() { 0 } else { ERR_NOT_READY }
}

/// Leaves a lock: the last one that this thread took.
///
/// # Safety
/// A lock.
#[unsafe(no_mangle)]
unsafe extern "C" fn gex_HSL_Unlock(lock: *mut Lock) {
    // SAFETY: the caller's promise.
    let lock = unsafe { Lock::of("gex_HSL_Unlock", lock) };
    if !lock.is_mine() {
        die("gex_HSL_Unlock: this thread has not the lock");
    }
    if lock.depth.load(Ordering::Relaxed) != COUNT.get() {
        die("gex_HSL_Unlock: another lock was taken later");
    }
    COUNT.set(COUNT.get() - 1);
    if COUNT.get() == 0 && job::is_here() {
        job::lift(restriction::LOCK);
    }
    // Before it is open: this thread may ask for it while the next holder has not stated itself.
    lock.owner.store(0, Ordering::Relaxed);
    lock.state.store(OPEN, Ordering::Release); // H2, partner H1
}

/// A handler leaves no lock behind.
pub(crate) fn check_none_held(handler: u8) {
    if job::restriction() & restriction::LOCK != 0 {
        die(&format!("handler {handler} returned with a handler-safe lock"));
    }
}
