//! Locks of images.
//!
//! An image that wants a lock takes a number, and waits until it is its number's turn (Lamport's
//! tickets): images have a lock in the order in which they asked for it.

use super::Coarray;
use crate::dist::NodeSet;
use crate::int::Int;
use crate::spmd::Spmd;
use core::cell::RefCell;
use hamr_comm::Fault;
use hamr_comm::world::AtomicOp;

/// Numbers of a lock: the next ticket, the one whose turn it is, and who has it: a rank, plus 1.
const TICKET: i64 = 0;
const TURN: i64 = 1;
const HOLDER: i64 = 2;

/// Locks, of which each image has the same number: XcalableMP's `lock_t` coarrays.
pub struct Locks<'c> {
    numbers: RefCell<Coarray<'c, u32, 2>>,
}

impl<'c> Spmd<'c> {
    /// So many locks on each image, all free. All nodes of the executing set call this.
    ///
    /// # Errors
    /// There is no room; a node is in another collective.
    #[track_caller]
    pub fn locks(&mut self, n: impl Int) -> Result<Locks<'c>, Fault> {
        Ok(Locks { numbers: RefCell::new(self.own([n.number(), 3]).coarray(self)?) })
    }
}

impl Locks<'_> {
    /// Waits until lock `nth` of an image is free, and runs `f` while this image has it. Images have it
    /// in the order in which they ask for it.
    ///
    /// # Errors
    /// There is no such image or lock; this image has it already; the wait was interrupted; those of `f`;
    /// transfers of a [`nonblock`](Spmd::nonblock) are not complete at its end.
    #[track_caller]
    pub fn locked<'s, R>(
        &self,
        image: impl Int,
        nth: impl Int,
        w: &mut Spmd<'s>,
        f: impl FnOnce(&mut Spmd<'s>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let (image, nth) = (image.number(), nth.number());
        self.is_not_mine(image, nth, w)?;
        let ticket = self.number(image, nth, TICKET, AtomicOp::Add(1), w)?;
        let (fabric, set) = (w.fabric(), w.set());
        while self.number(image, nth, TURN, AtomicOp::Load, w)? != ticket {
            // A wait for the image that has it; for any, while one that may have it does not say so yet.
            let holder = self.number(image, nth, HOLDER, AtomicOp::Load, w)?;
            let of = holder.checked_sub(1).map_or(set, NodeSet::one);
            fabric.wait_until(of, || {
                Ok(self.number(image, nth, TURN, AtomicOp::Load, w)? == ticket
                    || self.number(image, nth, HOLDER, AtomicOp::Load, w)? != holder)
            })?;
        }
        self.with(image, nth, w, f)
    }

    /// [`Self::locked`] if the lock is free; `None`: another image has it.
    ///
    /// # Errors
    /// As [`Self::locked`].
    pub fn try_locked<'s, R>(
        &self,
        image: impl Int,
        nth: impl Int,
        w: &mut Spmd<'s>,
        f: impl FnOnce(&mut Spmd<'s>) -> Result<R, Fault>,
    ) -> Result<Option<R>, Fault> {
        let (image, nth) = (image.number(), nth.number());
        self.is_not_mine(image, nth, w)?;
        let turn = self.number(image, nth, TURN, AtomicOp::Load, w)?;
        let take = AtomicOp::CompareSwap { expected: turn, new: turn.wrapping_add(1) };
        if self.number(image, nth, TICKET, take, w)? != turn {
            return Ok(None);
        }
        self.with(image, nth, w, f).map(Some)
    }

    /// Lock 0 of image 0: XcalableMP's `critical`.
    ///
    /// # Errors
    /// As [`Self::locked`].
    #[track_caller]
    pub fn critical<'s, R>(
        &self,
        w: &mut Spmd<'s>,
        f: impl FnOnce(&mut Spmd<'s>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        self.locked(0, 0, w, f)
    }

    /// Runs `f` with the lock, which is this image's turn, and frees it.
    fn with<'s, R>(
        &self,
        image: i64,
        nth: i64,
        w: &mut Spmd<'s>,
        f: impl FnOnce(&mut Spmd<'s>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let me = w.fabric().me + 1;
        self.number(image, nth, HOLDER, AtomicOp::Store(me), w)?;
        let result = f(w).and_then(|result| w.fabric().all_complete().map(|()| result));
        self.number(image, nth, HOLDER, AtomicOp::Store(0), w)?;
        self.number(image, nth, TURN, AtomicOp::Add(1), w)?;
        result
    }

    fn is_not_mine(&self, image: i64, nth: i64, w: &mut Spmd<'_>) -> Result<(), Fault> {
        if self.number(image, nth, HOLDER, AtomicOp::Load, w)? != w.fabric().me + 1 {
            return Ok(());
        }
        Err(crate::error::fault(format_args!("this image has lock {nth} of image {image} already")))
    }

    fn number(&self, image: i64, nth: i64, of: i64, op: AtomicOp<u32>, w: &mut Spmd<'_>) -> Result<u32, Fault> {
        self.numbers.borrow_mut().atomic(image, [nth, of], op, w)
    }
}
