//! Atomic accesses to elements of coarrays.

use super::Coarray;
use crate::int::Int;
use crate::spmd::Spmd;
use hamr_comm::world::{AtomicOp, AtomicValue, RankId, SegAddr};
use hamr_comm::{Element, Fault};

impl<T: Element + AtomicValue, const N: usize> Coarray<'_, T, N> {
    /// An atomic access to an image's element; the value before it, or of [`AtomicOp::Store`] the value
    /// itself. It is atomic with those of all images, but not with other accesses to the element.
    ///
    /// # Errors
    /// There is no such image or element; a transfer to this image's is not complete.
    pub fn atomic(&mut self, image: impl Int, at: [i64; N], op: AtomicOp<T>, w: &mut Spmd<'_>) -> Result<T, Fault> {
        let image = image.number();
        let rank = self.rank(image, w)?;
        let (place, off) = self.place(image, at)?;
        let fabric = w.fabric();
        if rank == fabric.me {
            self.array.is_complete(w)?;
            return Ok(self.array.piece.atomic(place, op)?);
        }
        Ok(fabric.world().atomic(SegAddr { rank: RankId(rank), off }, op)?)
    }

    /// Sets an image's element: XcalableMP's `atomic_define`.
    ///
    /// # Errors
    /// As [`Self::atomic`].
    pub fn atomic_define(&mut self, image: impl Int, at: [i64; N], value: T, w: &mut Spmd<'_>) -> Result<(), Fault> {
        self.atomic(image, at, AtomicOp::Store(value), w).map(drop)
    }

    /// The value of an image's element: XcalableMP's `atomic_ref`.
    ///
    /// # Errors
    /// As [`Self::atomic`].
    pub fn atomic_ref(&mut self, image: impl Int, at: [i64; N], w: &mut Spmd<'_>) -> Result<T, Fault> {
        self.atomic(image, at, AtomicOp::Load, w)
    }
}
