//! Another image in the place of the one that runs (`docs/modules.md`).

use super::Node;
use crate::image::ImageMemory;
use crate::{CallError, Error, Image, ImageFile, SubmitError, Target};
use hamr_comm::Call;
use hamr_comm::module::KeepImage;
use std::time::Duration;

/// How long calls in flight may take to end, without a deadline of the device's.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Node {
    /// [`Self::load_image_within`] the device's deadline.
    ///
    /// # Errors
    /// As that.
    pub fn load_image(&self, image: &Image) -> Result<(), Error> {
        self.load_image_within(image, self.device().options.deadline.unwrap_or(LONGEST_WAIT))
    }

    /// Has the device run another image from now on, in a new epoch: a process is started anew; a
    /// machine without an operating system goes on, when its image was built with the feature `modules`
    /// of `hamr-device-fw`. Streams go on, with the handlers of the new image; buffers stay. Calls in
    /// flight end first, and their results stay readable; threads that call without a pause can keep it
    /// waiting. A call that another thread submits meanwhile may end with
    /// [`CallError::PeerReset`](crate::CallError::PeerReset) or
    /// [`CallError::DeviceLost`](crate::CallError::DeviceLost), or runs in the new image. Modules end,
    /// and [`Named`](super::Named) handlers are to be found again.
    ///
    /// ```no_run
    /// # fn f(dev: &hamr::Node) -> Result<(), Box<dyn std::error::Error>> {
    /// dev.load_image(&hamr::Image::find("my-next-image")?)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::BadImage`], [`Error::NoImage`]: no image, or one for another device. [`Error::LoadImage`]:
    /// a call is in flight after `limit`, the image does not fit, the device or its link cannot, or the
    /// image did not start. Of each the old image runs on, of the last restarted.
    pub fn load_image_within(&self, image: &Image, limit: Duration) -> Result<(), Error> {
        let device = self.device();
        let info = self.info();
        let none = || Error::UnknownDevice { name: info.name.clone(), known: "a device that takes images".into() };
        let target = Target::of_image(device.image_kind(), info.isa).ok_or_else(none)?;
        let file = image.resolve(&target)?;
        device.load_image(file, limit, |file| self.hand_over(file))
    }

    /// Gives the device the bytes of a bare-metal image, for the end of the epoch.
    fn hand_over(&self, file: &ImageFile) -> Result<(), Error> {
        let refused = |why| Error::LoadImage { device: self.device().name.clone(), path: file.path.clone(), why };
        let ImageMemory { bytes, place } = file.memory()?;
        let buffer = self.buffer(&bytes).map_err(|why| refused(why.to_string()))?;
        self.sync(Call::<KeepImage>::new((buffer.ptr(), place))).map_err(|why| {
            refused(match why {
                CallError::Handler(refusal) => refusal.to_string(),
                CallError::Submit(why) if matches!(*why, SubmitError::MissingHandler { .. }) => {
                    "the image that runs lets no other into its place; build it with the feature `modules` of hamr-device-fw"
                        .into()
                }
                other => other.to_string(),
            })
        })
    }
}
