//! Forks: a copy of this process has its machines, nodes and worlds, and must leave their devices alone.
//!
//! An object that acts on something outside of the process has an [`Origin`], and does nothing where
//! that is another process. The path of calls has no instruction for that: a fork ends the copy's
//! epochs ([`InOneProcess`]), which each call compares already. A process that is made by the bare
//! system call `clone` is not noticed; one that shares this memory (`vfork`) does not need to be.

#![expect(unsafe_code)]
// UNSAFETY: the C library's function is declared here; it is given functions that may run at a fork
// (contract "forks").
//
// Contract "forks". `pthread_atfork` is given three functions. The one of the child runs where other
// threads' locks may be taken for good: it reads the list, of counted references, that `prepare` has
// locked on its own thread, stores to atomics, and replaces mapped windows by memory of the copy's own
// (contract "host map").

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, Weak};

unsafe extern "C" {
    safe fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
}

/// How many forks led to this process.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// What ends in a copy of this process.
static OBJECTS: Mutex<Objects> = Mutex::new(Vec::new());

type Objects = Vec<Weak<dyn InOneProcess>>;

thread_local! {
    /// The lock of [`OBJECTS`], while its thread forks: no other thread has it at that moment, of which the
    /// copy would wait for the release.
    static FORKING: RefCell<Option<MutexGuard<'static, Objects>>> = const { RefCell::new(None) };
}

/// An object that has no use in a copy of its process.
pub trait InOneProcess: Send + Sync {
    /// This is a copy. Called while the other threads of the process are gone with what they had
    /// locked: changes atomics, and makes system calls.
    fn forget(&self);
}

/// The process that an object is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin(u32);

impl Origin {
    /// This process.
    pub fn here() -> Self {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            // It fails without memory for three words; then forks go unnoticed.
            pthread_atfork(Some(prepare), Some(release), Some(forked));
        });
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Is it this process?
    pub fn is_here(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}

/// In copies of this process [`InOneProcess::forget`] is called for it.
pub fn register(object: Weak<dyn InOneProcess>) {
    // Forks are noticed from here on.
    Origin::here();
    let mut objects = OBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
    objects.retain(|object| object.strong_count() != 0);
    objects.push(object);
}

extern "C" fn prepare() {
    // An error means that the thread ends: then another thread's use of the lock is not waited for.
    let _ = FORKING.try_with(|forking| {
        if let Ok(mut forking) = forking.try_borrow_mut() {
            *forking = Some(OBJECTS.lock().unwrap_or_else(PoisonError::into_inner));
        }
    });
}

extern "C" fn release() {
    let _ = FORKING.try_with(|forking| forking.try_borrow_mut().map(|mut forking| drop(forking.take())));
}

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    let _ = FORKING.try_with(|forking| {
        if let Ok(forking) = forking.try_borrow() {
            let objects = forking.iter().flat_map(|objects| objects.iter());
            objects.filter_map(Weak::upgrade).for_each(|object| object.forget());
        }
    });
    release();
}
