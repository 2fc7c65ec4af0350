//! A program may have several devices: each has what it sends by itself, and a thread has that of the device whose handlers it
//! runs.

use super::Outgoing;
use alloc::sync::Arc;
use core::cell::RefCell;
use core::mem::ManuallyDrop;

std::thread_local! {
    /// That of the device whose handlers the thread runs. It has no destructor, so it is there as long as the thread:
    /// destructors of a thread that ends call devices, too. Who enters a device here leaves it.
    static HERE: ManuallyDrop<RefCell<Option<Arc<Outgoing>>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// That of one device, which has it wherever its handlers run. An image that is the only program of
/// its machine has a static instead.
pub(crate) struct Owned(Arc<Outgoing>);

impl Default for Owned {
    fn default() -> Self {
        Self(Arc::new(Outgoing::new()))
    }
}

impl Owned {
    /// The handlers that this thread runs from now on are the device's.
    pub(crate) fn enter_thread(&self) {
        HERE.with(|here| here.replace(Some(self.0.clone())));
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        HERE.with(|here| {
            let is_mine = here.borrow().as_ref().is_some_and(|here| Arc::ptr_eq(here, &self.0));
            if is_mine {
                here.take();
            }
        });
    }
}

/// Runs `f`, which runs handlers of a device. Behind it this thread runs those that it did before: a handler of
/// another device may have called this one.
#[cfg(feature = "tasks")]
pub fn as_another<R>(f: impl FnOnce() -> R) -> R {
    struct Before(Option<Arc<Outgoing>>);
    impl Drop for Before {
        fn drop(&mut self) {
            HERE.with(|here| here.replace(self.0.take()));
        }
    }
    let _before = Before(HERE.with(|here| here.borrow().clone()));
    f()
}

/// That of the device whose handlers this thread runs.
pub(crate) fn here<R>(f: impl FnOnce(&Outgoing) -> R) -> R {
    HERE.with(|here| {
        let entered = here.borrow();
        match &*entered {
            Some(entered) => f(entered),
            None => nowhere(f),
        }
    })
}

/// Tests run handlers without a device. Apart, since a task's stack has no room for it.
#[cold]
#[inline(never)]
fn nowhere<R>(f: impl FnOnce(&Outgoing) -> R) -> R {
    f(&Outgoing::new())
}
