//! Launchers: how devices of one kind are started. A runtime has one per name in front of the colon
//! of a device spec.

use crate::doorbells::Doorbells;
use crate::link::{Link, Loopback, Protocol};
use crate::memfd::Processes;
use crate::{Error, ImageFile, Target};
use hamr_comm::abi::ids::RankId;
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::registry::Table;
use rustix::fd::OwnedFd;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

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
    /// Where in it the heap begins, which is last.
    pub heap_off: u64,
    /// Where memory of the host's is wanted for what the host polls, counted from the window's start, and its bytes; of a
    /// launcher that [has](Launcher::has_host_memory) such.
    pub host_memory: Option<(u64, u64)>,
    /// The device is to drive the window: it does not serve it, but as long a one of its own. Of a launcher whose
    /// [protocols](Launcher::protocols) have [`Protocol::DeviceDriven`].
    pub drives: bool,
    /// A program beside the host is to serve a section of the window; the device notifies it by a doorbell of its own, where
    /// [`Link::host_ends`] has that.
    pub has_side: bool,
    /// Run the device's dispatcher on this processor.
    pub cpu: Option<usize>,
    /// How long another process may take to answer that has a part in the start.
    pub start_deadline: Duration,
    /// As [`crate::Options::silence`].
    pub silence: Duration,
}

impl<'a> LaunchRequest<'a> {
    /// For a device with this name, without an image, and a window which ends with this heap; `limit` is for its start and
    /// its silence.
    pub fn new(device: &'a str, heap: Range<u64>, limit: Duration) -> Self {
        Self {
            device,
            argument: "",
            image: None,
            window_len: heap.end,
            heap_off: heap.start,
            host_memory: None,
            drives: false,
            has_side: false,
            cpu: None,
            start_deadline: limit,
            silence: limit,
        }
    }
}

/// The place of a device in a world, for [`Launcher::launch_rank`].
pub struct Home {
    /// Its rank.
    pub rank: RankId,
    /// The world's memory: a memfd, sealed against shrinking and growing, which begins with the
    /// world's header (abi §13). Its length is a power of two.
    pub world: Arc<OwnedFd>,
    /// Bytes of the world's memory.
    pub world_len: u64,
    /// The rank's home, mapped.
    pub window: Window<Shared>,
    /// Between this program and the rank.
    pub(crate) doorbells: Arc<Doorbells>,
    /// What ranks notify each other by, in their order.
    pub(crate) rank_doorbells: Arc<[OwnedFd]>,
    /// Which process each rank is, for ranks that are processes.
    pub(crate) processes: Arc<Processes>,
}

/// Starts devices of one kind.
pub trait Launcher: Send + Sync {
    /// One line for `hamr devices`.
    fn describe(&self) -> String;
    /// What images must be made for; `None` when this kind takes none.
    fn target(&self, argument: &str) -> Result<Option<Target>, Error>;
    /// Looks for what starts these devices, before an image is built for them.
    ///
    /// # Errors
    /// What is missing.
    fn check(&self, _argument: &str) -> Result<(), Error> {
        Ok(())
    }
    /// Is their window there before they are opened, with a length of its own?
    fn has_window(&self) -> bool {
        false
    }
    /// Is an image that they run already of use to find them?
    fn reads_image(&self) -> bool {
        false
    }
    /// How calls can come to these devices; the first is what they have unless [`crate::Options::protocol`] says another.
    fn protocols(&self) -> &'static [Protocol] {
        &Protocol::OF_ALL
    }
    /// Can their links have memory of the host's behind the window, for what the host polls?
    fn has_host_memory(&self) -> bool {
        false
    }
    /// Bytes of the window, where it is in the image's own memory (`image!(window = …)`), as it is where this is to come by `protocol`. Options whose sizes are the defaults become
    /// those for it ([`crate::Options::for_window`]).
    ///
    /// # Errors
    /// The image's file cannot be read any more.
    fn window_of(
        &self,
        _argument: &str,
        _image: &ImageFile,
        _protocol: Option<Protocol>,
    ) -> Result<Option<u64>, Error> {
        Ok(None)
    }
    /// Do these devices run the handlers of this program, in this process, as ranks of a world?
    fn is_this_program(&self) -> bool {
        false
    }
    /// Starts one. The handshake is the caller's business.
    ///
    /// # Errors
    /// What could not be started, and why.
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error>;
    /// A launcher of the same devices that wait for gdb at their first instruction, at this port of
    /// this machine. `None` when a debugger cannot hold devices of this kind.
    ///
    /// # Errors
    /// What is missing for it.
    fn for_debugger(&self, _port: u16) -> Result<Option<Box<dyn Launcher>>, Error> {
        Ok(None)
    }
    /// Starts one as a rank of a world, over its home.
    ///
    /// # Errors
    /// As [`Self::launch`]; a kind that has no such devices, which is most, says so.
    fn launch_rank(&self, request: &LaunchRequest<'_>, _home: Home) -> Result<Box<dyn Link>, Error> {
        let why = "a device of this kind cannot be a rank of a world: expected shm, qemu or thread".into();
        Err(Error::Launch { device: request.device.into(), why })
    }
}

/// Refuses an argument of a kind of device that takes none.
pub(crate) fn no_argument(kind: &str, argument: &str) -> Result<(), Error> {
    if argument.is_empty() {
        return Ok(());
    }
    Err(Error::UnknownDevice { name: format!("{kind}:{argument}"), known: format!("{kind}, which takes no argument") })
}

/// Devices inside this process, run by the threads that wait for them, for tests: `loopback` in every runtime.
pub struct LoopbackLauncher;

impl Launcher for LoopbackLauncher {
    fn describe(&self) -> String {
        "handlers run in this process, in the thread that waits: for tests".into()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        no_argument("loopback", argument).map(|()| None)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let heap = request.heap_off..request.window_len;
        let link = Loopback::try_new(heap, Table::of_this_image()).ok_or_else(|| Error::InvalidConfig {
            option: "Options::heap",
            expected: "a window that this process has memory for".into(),
            got: format!("{} bytes of window", request.window_len),
        })?;
        Ok(Box::new(link))
    }
}
