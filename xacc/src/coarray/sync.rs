//! Syncs of images.

use super::no_image;
use crate::dist::NodeSet;
use crate::fabric::all_to_all;
use crate::int::Int;
use crate::spmd::Spmd;
use crate::what::{Kind, What};
use core::panic::Location;
use core::sync::atomic::{Ordering, fence};
use hamr_comm::Fault;

impl Spmd<'_> {
    /// Waits until all images have come here. What they have put before, this image sees behind it.
    ///
    /// # Errors
    /// An exchange of an array is not finished; an image is in another collective; the wait was
    /// interrupted.
    #[track_caller]
    pub fn sync_all(&mut self) -> Result<(), Fault> {
        let (fabric, set) = (self.fabric(), self.set());
        fabric.complete();
        fabric.all_closed(0)?;
        all_to_all(fabric, set, &What::new(Kind::SYNC_ALL, set, Location::caller()), (&[], 0), |_, _| {})
    }

    /// Ends the views of this image. Its puts are complete behind it, and in the order of what follows.
    pub fn sync_memory(&mut self) {
        self.wait_nonblock();
        fence(Ordering::SeqCst);
    }

    /// Waits until an image has come to a sync with this one, once more than before.
    ///
    /// # Errors
    /// As [`Self::sync_images`].
    #[track_caller]
    pub fn sync_image(&mut self, image: impl Int) -> Result<(), Fault> {
        self.sync_images([image.number()])
    }

    /// Waits until each of these images has come to a sync with this one, once more than before. `None`
    /// is no image, and this image does not wait for itself. The others of an image's list may differ.
    ///
    /// # Errors
    /// There is no such image; one is named twice; an image is in another collective with this one; the
    /// wait was interrupted.
    #[track_caller]
    pub fn sync_images(&mut self, images: impl IntoIterator<Item = impl Into<Option<i64>>>) -> Result<(), Fault> {
        let mut partners = NodeSet::EMPTY;
        for image in images.into_iter().filter_map(Into::into) {
            let rank = self.set().rank(image).ok_or_else(|| no_image(image, self.size()))?;
            if partners.contains(rank) {
                return Err(crate::error::fault(format_args!("image {image} is named twice")));
            }
            partners = partners.with(NodeSet::one(rank));
        }
        let (fabric, at) = (self.fabric(), Location::caller());
        fabric.complete();
        // Each pair by itself: its set is the two of it.
        let what = |rank| What::new(Kind::SYNC_IMAGES, NodeSet::one(rank).with(NodeSet::one(fabric.me)), at);
        for rank in fabric.others(partners) {
            fabric.tell(rank, &what(rank), &[])?;
        }
        for rank in fabric.others(partners) {
            fabric.hear(rank, &what(rank), &mut [])?;
        }
        Ok(())
    }

    /// [`Self::sync_images`] with all images, which may call it with fewer.
    ///
    /// # Errors
    /// As [`Self::sync_images`].
    #[track_caller]
    pub fn sync_images_all(&mut self) -> Result<(), Fault> {
        self.sync_images(0..self.size())
    }
}
