//! Coarrays: arrays of which each node, called image here, has its own, and which all images read and
//! write by themselves.

mod atomic;
mod lock;
mod nonblock;
mod post;
mod sync;
mod transfer;

pub use lock::Locks;
pub use transfer::{Local, Remote, kind};

use crate::array::{Array, Section, View, ViewMut};
use crate::dist::{Shape, or_refuse};
use crate::error::fault;
use crate::int::Int;
use crate::section::{Region, Sel};
use crate::spmd::Spmd;
use crate::what::Kind;
use core::panic::Location;
use hamr_comm::{Element, Fault};

/// An array of `N` dimensions that each image of an executing set has for itself, at the same place of
/// its segment.
///
/// Images are the nodes of the executing set, by their numbers; indices are those of one image's array.
/// A transfer is complete when its call returns, in a [`nonblock`](Spmd::nonblock) at a wait. What an image has put, another one sees behind a sync:
/// [`sync_all`](Spmd::sync_all), [`sync_images`](Spmd::sync_images), a [`wait`](Spmd::wait) for a post,
/// a lock, a barrier or any other collective of both. Where two images use an element between the same
/// two syncs and one of them writes it, its value is any, unless both accesses are atomic.
pub struct Coarray<'c, T, const N: usize> {
    array: Array<'c, T, N>,
}

impl<const N: usize> Shape<'_, N> {
    /// A coarray of this shape, which is [`Spmd::own`]'s, all zero. All nodes of the executing set call
    /// this.
    ///
    /// # Errors
    /// The shape is distributed, or of another executing set, or differs between the nodes; there is no
    /// room; a node is in another collective.
    #[track_caller]
    pub fn coarray<'c, T: Element>(&self, w: &mut Spmd<'c>) -> Result<Coarray<'c, T, N>, Fault> {
        let made = Coarray::new(self, w, |w| self.zeros(w))?;
        // No image writes before all have set theirs to zero.
        w.meet(&self.reached::<T>(Kind::COARRAY, w, Location::caller()))?;
        Ok(made)
    }
}

impl<'c, T: Element, const N: usize> Coarray<'c, T, N> {
    /// One of this shape, whose elements are those of an array.
    pub(crate) fn new(
        shape: &Shape<'_, N>,
        w: &mut Spmd<'c>,
        array: impl FnOnce(&mut Spmd<'c>) -> Result<Array<'c, T, N>, Fault>,
    ) -> Result<Self, Fault> {
        if shape.nodes() != w.set() || shape.axes.iter().any(|axis| axis.on.is_some()) {
            return Err(Fault::msg("a coarray's shape is that of `w.own` of the executing set"));
        }
        Ok(Self { array: array(w)? })
    }

    /// The array that has its elements.
    pub(crate) fn into_array(self) -> Array<'c, T, N> {
        self.array
    }

    /// This image's elements, until its next communication.
    ///
    /// # Panics
    /// A transfer of a [`nonblock`](Spmd::nonblock) to them is not complete.
    #[track_caller]
    pub fn view<'a>(&'a self, w: &'a Spmd<'_>) -> View<'a, 'c, T, N> {
        or_refuse(self.array.is_complete(w));
        View::new(&self.array)
    }

    /// [`Self::view`], to be written.
    ///
    /// # Panics
    /// As [`Self::view`].
    #[track_caller]
    pub fn view_mut<'a>(&'a mut self, w: &'a Spmd<'_>) -> ViewMut<'a, 'c, T, N> {
        or_refuse(self.array.is_complete(w));
        ViewMut::new(&mut self.array)
    }

    /// A part of this image's elements, as the right side of an assignment to something else.
    ///
    /// # Panics
    /// The selection reaches beyond the coarray.
    #[track_caller]
    pub fn section(&self, sel: [Sel; N]) -> Section<'_, 'c, T, N> {
        self.array.section(sel)
    }

    /// A part of an image's elements, as the right side of a [`put`](Self::put) to another coarray:
    /// XcalableMP's `b[sel]:[image]`.
    pub fn at(&self, image: impl Int, sel: [Sel; N]) -> Remote<'_, 'c, T, N> {
        Remote::new(self, image.number(), sel)
    }

    /// Assigns to a section of an image's elements: XcalableMP's `a[to]:[image] = from`. The right side
    /// is a section of this image's elements of this coarray; a slice, in row-major order; a value,
    /// which goes to all of the section; a [`section`](Self::section) of another array or coarray, whose
    /// elements are here; or [`at`](Self::at) of another coarray, whose elements are anywhere. Dimensions
    /// of one element are left out on both sides, the others must agree. Where both sides overlap, the
    /// right one is read first.
    ///
    /// # Errors
    /// There is no such image or element; the shapes differ; a transfer to this image's elements of a
    /// coarray is not complete.
    pub fn put<K>(
        &mut self,
        image: impl Int,
        to: [Sel; N],
        from: impl Local<T, N, K>,
        w: &mut Spmd<'_>,
    ) -> Result<(), Fault> {
        from.put(self, image.number(), to, w)
    }

    /// Assigns an image's section to one of this image: XcalableMP's `a[to] = a[from]:[image]`.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn get(&mut self, to: [Sel; N], image: impl Int, from: [Sel; N], w: &mut Spmd<'_>) -> Result<(), Fault> {
        self.copy((w.me(), to), (image, from), w)
    }

    /// Copies an image's section to a slice, in row-major order.
    ///
    /// # Errors
    /// There is no such image or element; the lengths differ.
    pub fn get_into(&self, image: impl Int, from: [Sel; N], to: &mut [T], w: &mut Spmd<'_>) -> Result<(), Fault> {
        transfer::get_into(self, image.number(), from, to, w)
    }

    /// Assigns an image's section to one of an image: XcalableMP's `a[..]:[i] = a[..]:[j]`, also where
    /// both are others, or both are the same.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn copy(
        &mut self,
        to: (impl Int, [Sel; N]),
        from: (impl Int, [Sel; N]),
        w: &mut Spmd<'_>,
    ) -> Result<(), Fault> {
        transfer::copy(self, (to.0.number(), to.1), (from.0.number(), from.1), w)
    }

    /// The rank of an image that has a part of this coarray.
    fn rank(&self, image: i64, w: &Spmd<'_>) -> Result<u32, Fault> {
        match w.set().rank(image) {
            None => Err(no_image(image, w.size())),
            Some(rank) if !self.array.set.contains(rank) => {
                Err(fault(format_args!("image {image} has no part of this coarray")))
            }
            Some(rank) => Ok(rank),
        }
    }

    /// A part of an image's elements.
    fn region(&self, image: i64, sel: [Sel; N]) -> Result<Region<N>, Fault> {
        self.array.desc.region(sel).map_err(|e| fault(format_args!("image {image}, {e}")))
    }

    /// The place of an element, and of its first byte in the segment.
    fn place(&self, image: i64, at: [i64; N]) -> Result<(usize, u64), Fault> {
        let desc = &self.array.desc;
        let outside = || fault(format_args!("image {image}, {}", desc.explain(at)));
        let place = desc.offset(at).ok_or_else(outside)?;
        Ok((place, self.array.piece.off() + (place * size_of::<T>()) as u64))
    }
}

/// An image that the executing set does not have.
#[cold]
fn no_image(image: i64, size: i64) -> Fault {
    fault(format_args!("no image {image}, there are {size}"))
}
