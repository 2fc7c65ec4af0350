//! Transfers that a wait completes.

use crate::spmd::Spmd;
use crate::what::{Kind, What};
use core::panic::Location;

impl<'c> Spmd<'c> {
    /// XcalableMP's `nonblock`: transfers between coarrays in `f` are complete only behind the next
    /// [`wait_nonblock`](Self::wait_nonblock) or sync of this image. Their right sides may be written again
    /// when their calls return, and slices that they fill are there then.
    ///
    /// Until that wait the elements of a coarray that this image has gotten something into are refused: by
    /// its views, and as the right side of a transfer. Whatever would let others read what was put is
    /// refused, too: a post, the release of a lock, a barrier, and the end of a scope or of the program.
    #[track_caller]
    pub fn nonblock<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        let fabric = self.fabric();
        let outer = fabric.nonblock(Some(What::new(Kind::NONBLOCK, self.set(), Location::caller())));
        let result = f(self);
        fabric.nonblock(outer);
        result
    }

    /// Completes this image's transfers. It never waits for another image: each transfer is a copy that
    /// this one has made.
    pub fn wait_nonblock(&mut self) {
        self.fabric().complete();
    }
}
