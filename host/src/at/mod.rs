//! `at:NAME`: a device that another process keeps ([`crate::serve`]), and that outlives its hosts.
//!
//! That process listens on a UNIX socket whose name is in no file system, so that nothing is left
//! when it ends. It gives one host at a time the window's memory, the doorbells and a descriptor of
//! the device's process; everything else goes through the window, as on a bus (abi §8).

mod elsewhere;
mod link;
pub(crate) mod protocol;

use crate::launcher::{LaunchRequest, Launcher};
use crate::link::{Link, Protocol};
use crate::{Error, Target};
pub use link::LEAVE_TIMEOUT;
use link::ServedLink;
pub(crate) use link::has_left;

/// Attaches to devices that another process keeps: `at` in every runtime.
pub(crate) struct AtLauncher;

impl Launcher for AtLauncher {
    fn describe(&self) -> String {
        "a device that `serve NAME` keeps running: at:NAME".into()
    }

    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        let fail = |why| Error::Launch { device: format!("at:{argument}"), why };
        protocol::check_name(argument).map_err(fail)?;
        Ok(None)
    }

    fn has_window(&self) -> bool {
        true
    }

    fn protocols(&self) -> &'static [Protocol] {
        &Protocol::SHARED
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        Ok(Box::new(ServedLink::attach(request)?))
    }
}
