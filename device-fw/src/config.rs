//! The options that an image gives its runtime: the words in `image!`.

use hamr_comm::migrate::{MAX_LONG, MAX_MESSAGE};

/// Set by `image!(on_fault = reset, longest_call_ms = 100)`. The fields of tasks exist with the
/// feature `tasks`.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// After a fault of a handler.
    pub on_fault: OnFault,
    /// The time limit, in milliseconds, of a call without a deadline of its own; 0: none.
    pub longest_call_ms: u32,
    /// Bytes of the longest arguments and result of a call, for which bare metal reserves memory: 16 KiB
    /// at least, and 1 GiB at most. Hosted, they may be as long as the window.
    pub longest_message: usize,
    /// Bytes of memory for the window, in whole pages of 4 KiB, where bare metal reserves it: on a board without a card, and of an
    /// image that drives its host's memory. 0: none.
    pub window: usize,
    /// Bytes of memory for what carries between the host's memory and that window: some more than twice what a host lays out before
    /// the heap. 0: the image drives no memory.
    #[cfg(feature = "driven")]
    pub driven: usize,
    /// Bytes of memory for modules, in whole pages of 4 KiB: what bare metal reserves. Hosted, a module
    /// may be no longer.
    #[cfg(feature = "modules")]
    pub modules: usize,
    /// The number of tasks that can run at the same time.
    #[cfg(feature = "tasks")]
    pub tasks: usize,
    /// Bytes of each task's stack. On bare metal whole pages of 4 KiB, on riscv64 a power of two.
    #[cfg(feature = "tasks")]
    pub task_stack: usize,
    /// Ranges of buffers, and resources, that tasks claim at a time on bare metal. Hosted, as many as they
    /// like.
    #[cfg(feature = "claims")]
    pub claims: usize,
    /// The settings that the image starts with, of these: those of tests differ by a byte of the file. What
    /// is memory on bare metal stays as it is here.
    #[doc(hidden)]
    pub at_start: fn(Self) -> Self,
}

impl Config {
    /// What `image!()` means.
    pub const DEFAULT: Self = Self {
        on_fault: OnFault::Continue,
        longest_call_ms: 0,
        longest_message: MAX_MESSAGE,
        window: 0,
        #[cfg(feature = "driven")]
        driven: 0,
        #[cfg(feature = "modules")]
        modules: if cfg!(hamr_bare) { 256 << 10 } else { 64 << 20 },
        // A system maps a stack's pages when they are used first; bare metal has all of them.
        #[cfg(feature = "tasks")]
        tasks: if cfg!(hamr_bare) { 4 } else { 16 },
        #[cfg(feature = "tasks")]
        task_stack: if cfg!(hamr_bare) { 32 << 10 } else { 256 << 10 },
        #[cfg(feature = "claims")]
        claims: 32,
        at_start: core::convert::identity,
    };
}

impl Config {
    /// Bytes of scratch memory. A constant of each image, so that its check ends the build.
    #[doc(hidden)]
    pub const fn scratch(&self) -> usize {
        assert!(
            self.longest_message >= MAX_MESSAGE && self.longest_message <= MAX_LONG,
            "hamr: `longest_message` is at least 16384, which every device takes, and at most 1 GiB"
        );
        self.longest_message
    }

    /// Bytes of the window. A constant likewise.
    #[doc(hidden)]
    pub const fn window(&self) -> usize {
        assert!(self.window.is_multiple_of(4096), "hamr: `window` is whole pages of 4096 bytes");
        self.window
    }
}

#[cfg(hamr_machine)]
impl Config {
    /// The number of tasks, also without the feature.
    #[doc(hidden)]
    pub const fn task_count(&self) -> usize {
        #[cfg(feature = "tasks")]
        return self.tasks;
        #[cfg(not(feature = "tasks"))]
        0
    }
}

/// What an image does after a handler was ended by a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFault {
    /// Serves the next call.
    Continue,
    /// Stops, and waits for the host to begin a new epoch: nothing that the handler may have broken
    /// is used again but statics.
    Reset,
}

/// The words that `image!` takes.
#[doc(hidden)]
#[expect(non_upper_case_globals, reason = "they read as words")]
pub mod words {
    use super::OnFault;
    pub const reset: OnFault = OnFault::Reset;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn an_image_reserves_at_least_what_every_device_takes_and_at_most_what_one_may() {
        let of = |longest_message| catch_unwind(|| Config { longest_message, ..Config::DEFAULT }.scratch()).ok();
        assert_eq!(Config::DEFAULT.scratch(), MAX_MESSAGE);
        assert_eq!([MAX_MESSAGE + 1, 1 << 20, MAX_LONG].map(of), [MAX_MESSAGE + 1, 1 << 20, MAX_LONG].map(Some));
        assert_eq!([0, MAX_MESSAGE - 1, MAX_LONG + 1, usize::MAX].map(of), [None; 4]);
    }
}
