//! What `next_image` and the instruction sets tell each other of an image that waits.

use core::ops::Range;

/// What waits.
pub(super) struct NextImage {
    /// Where the bytes wait.
    pub(super) from: usize,
    /// Where they go to, up to the end of both images.
    pub(super) to: Range<usize>,
    /// How many there are: whole words, and not zero.
    pub(super) bytes: usize,
    pub(super) entry: usize,
    /// Where the mover is: the last page of RAM.
    pub(super) mover: usize,
}

/// Instructions that run anywhere.
pub(super) struct Code {
    start: extern "C" fn(),
    end: extern "C" fn(),
}

impl Code {
    /// Those from one symbol to the other.
    pub(super) const fn between(start: extern "C" fn(), end: extern "C" fn()) -> Self {
        Self { start, end }
    }

    pub(super) fn start(&self) -> *const () {
        self.start as *const ()
    }

    pub(super) fn len(&self) -> usize {
        (self.end as *const ()).addr() - self.start().addr()
    }
}
