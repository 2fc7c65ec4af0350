//! Threads, where there are some.

/// Lets another thread go on: there may be more of them than processors.
pub(crate) fn pause() {
    #[cfg(not(hamr_bare))]
    {
        extern crate std;
        std::thread::yield_now();
    }
    #[cfg(hamr_bare)]
    core::hint::spin_loop();
}

/// A number that no other thread has at the same time; not 0.
#[cfg(not(hamr_bare))]
pub(crate) fn this_thread() -> usize {
    extern crate std;
    std::thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| core::ptr::from_ref(here).addr())
}

/// An image without a system has one thread for programs and handlers.
#[cfg(hamr_bare)]
pub(crate) fn this_thread() -> usize {
    1
}
