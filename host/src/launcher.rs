//! Launchers: how devices of one kind are started. A runtime has one per name in front of the colon
//! of a device spec.

use crate::link::{Link, Loopback};
use crate::{Error, ImageFile, Target};
use hamr_comm::registry::Table;

/// What a launcher is asked for.
pub struct LaunchRequest<'a> {
    /// What to call the device in messages.
    pub device: &'a str,
    /// What stands behind the colon of the device spec; empty without one.
    pub argument: &'a str,
    /// The image, when the kind takes one.
    pub image: Option<&'a ImageFile>,
    /// Bytes of window the layout needs.
    pub window_len: u64,
    /// Run the device's dispatcher on this processor.
    pub cpu: Option<usize>,
}

/// Starts devices of one kind.
pub trait Launcher: Send + Sync {
    /// One line for `hamr devices`.
    fn describe(&self) -> String;
    /// What images must be made for; `None` when this kind takes none.
    fn target(&self, argument: &str) -> Result<Option<Target>, Error>;
    /// Starts one. The handshake is the caller's business.
    ///
    /// # Errors
    /// What could not be started, and why.
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error>;
}

/// Devices inside this process, run by the threads that wait for them: for tests.
pub(crate) struct LoopbackLauncher;

impl Launcher for LoopbackLauncher {
    fn describe(&self) -> String {
        "handlers run in this process, in the thread that waits: for tests".into()
    }
    fn target(&self, _argument: &str) -> Result<Option<Target>, Error> {
        Ok(None)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        Ok(Box::new(Loopback::new(request.window_len, Table::of_this_image())))
    }
}
