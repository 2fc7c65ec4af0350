//! Posts, and waits for them.

use super::no_image;
use crate::error::fault;
use crate::int::Int;
use crate::posts::{Posts, TAGS};
use crate::spmd::Spmd;
use core::cell::Cell;
use hamr_comm::Fault;

impl Spmd<'_> {
    /// Lets one [`wait`](Self::wait) of an image go on, which then sees what this one has done before:
    /// XcalableMP's `post(image, tag)`. It never waits; there is no limit of posts. Tags are 0 to 15.
    ///
    /// # Errors
    /// There is no such image or tag; transfers of a [`nonblock`](Self::nonblock) are not complete.
    pub fn post(&mut self, to: impl Int, tag: u8) -> Result<(), Fault> {
        let rank = self.set().rank(to).ok_or_else(|| no_image(to.number(), self.size()))?;
        let fabric = self.fabric();
        fabric.all_complete()?;
        fabric.posts().post(fabric.world(), rank, known(tag)?)
    }

    /// Waits for a post and takes it: XcalableMP's `wait(image, tag)`. `None` is any image, any tag; of
    /// several posts that of the lowest image is taken, and of these the lowest tag.
    ///
    /// # Errors
    /// There is no such image or tag; the wait was interrupted.
    #[track_caller]
    pub fn wait(&mut self, from: impl Into<Option<i64>>, tag: impl Into<Option<u8>>) -> Result<(i64, u8), Fault> {
        let (size, set, fabric) = (self.size(), self.set(), self.fabric());
        let images = from.into().map_or(0..size, |image| image..image.saturating_add(1));
        if images.end > size {
            return Err(no_image(images.start, size));
        }
        let tags = match tag.into() {
            Some(tag) => known(tag)?..tag + 1,
            None => 0..TAGS,
        };
        let found = Cell::new(None);
        let look = || {
            let (posts, world) = (fabric.posts(), fabric.world());
            for (image, tag) in images.clone().flat_map(|image| tags.clone().map(move |tag| (image, tag))) {
                let rank = set.rank(image).ok_or_else(|| no_image(image, size))?;
                if posts.take(world, rank, tag)? {
                    found.set(Some((image, tag)));
                    break;
                }
            }
            Ok(found.get().is_some())
        };
        // Of any image or tag, there is no one word to name, but those who may post.
        match set.rank(images.start).filter(|_| images.end - images.start == 1 && tags.len() == 1) {
            Some(rank) => fabric.wait_for(rank, Posts::word(tags.start), look)?,
            None => fabric.wait_until(images.clone().filter_map(|image| set.rank(image)).collect(), look)?,
        }
        found.get().ok_or_else(|| Fault::msg("a wait without a post"))
    }
}

fn known(tag: u8) -> Result<u8, Fault> {
    if tag < TAGS { Ok(tag) } else { Err(fault(format_args!("no tag {tag}, tags are 0 to 15"))) }
}
