//! Links: the slow half of a connection to a device (the fast half is the window itself).
//!
//! A [`Link`] states what the connection can do, notifies, waits, and knows whether the peer is
//! there. It is object-safe, so that a host keeps devices of several kinds in one list. None of it
//! is on the path of a call whose reply comes at once. [`Loopback`] runs the device inside the
//! waiting thread: for unit tests, and for the conformance suite. A [`Decorator`] changes some
//! methods of another link. [`FaultInjector`] is one: it breaks a link on purpose. A [`PcieModel`]
//! counts what a link's operations would cost over another bus.

mod decorator;
mod driven;
mod fault_injector;
mod loopback;
mod pcie_model;

pub use decorator::Decorator;
pub(crate) use driven::DrivenLink;
pub use fault_injector::{FaultInjector, Faults};
pub use loopback::Loopback;
pub use pcie_model::{Copying, Operations, PcieClock, PcieCosts, PcieModel};

pub use crate::mapping::{Revocable, WindowFile};
pub use crate::memory::{FarHeap, Heap};
use crate::{Error, ImageFile};
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::window::{OutOfWindow, Shared, Window};
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a link can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capabilities {
    /// A notification wakes a sleeping peer.
    pub doorbell: bool,
    /// The window is a home in a world: the device is a rank of it.
    pub world: bool,
    /// How calls come to it.
    pub protocol: Protocol,
    /// [`Link::window`] goes on behind the device's memory with memory of this side's, for what the host polls.
    pub host_memory: bool,
}

/// How calls come to a device and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Protocol {
    /// Host and device map the same window.
    #[default]
    Mapped,
    /// Likewise, and each polls memory that the other only writes: requests in the device's, replies in the host's.
    Split,
    /// Each has a copy of it, and messages carry what is published.
    Message,
    /// The host reads and writes the device's memory, which it does not map; the device does nothing but serve it.
    HostDriven,
    /// The device loads and stores words of the host's memory, which it does not map, and has a DMA engine copy the rest.
    DeviceDriven,
}

impl Protocol {
    /// As people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Split => "split",
            Self::Message => "message",
            Self::HostDriven => "host-driven",
            Self::DeviceDriven => "device-driven",
        }
    }

    /// Has each side a copy of the window, so that threads of this program carry between them?
    pub(crate) const fn is_carried(self) -> bool {
        matches!(self, Self::Message | Self::HostDriven)
    }
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl Protocol {
    /// Those that a program chooses among.
    pub(crate) const CHOICES: [Self; 4] = [Self::Mapped, Self::Split, Self::HostDriven, Self::DeviceDriven];

    /// Those that need nothing of a device but that it serves a window.
    pub(crate) const OF_ALL: [Self; 3] = [Self::Mapped, Self::Split, Self::HostDriven];

    /// Those of links whose memory both sides map.
    pub(crate) const SHARED: [Self; 2] = [Self::Mapped, Self::Split];

    /// What a link of this protocol can do.
    pub(crate) fn and_others(self) -> &'static [Self] {
        match self {
            Self::Mapped | Self::Split => &Self::SHARED,
            Self::Message => &[Self::Message],
            Self::HostDriven => &[Self::HostDriven],
            Self::DeviceDriven => &[Self::DeviceDriven],
        }
    }

    /// Refuses what a program has chosen for a device that cannot do it.
    pub(crate) fn check(chosen: Option<Self>, can: &[Self], device: &str) -> Result<(), Error> {
        let Some(chosen) = chosen.filter(|chosen| !can.contains(chosen)) else { return Ok(()) };
        let names = can.iter().map(Self::to_string).collect::<Vec<_>>().join(", ");
        let expected = format!("{}{names} for {device}", if can.len() > 1 { "one of " } else { "" });
        Err(Error::InvalidConfig { option: "Options::protocol", expected, got: chosen.to_string() })
    }
}

/// Those that a program chooses among.
impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let chosen = Self::CHOICES.into_iter().find(|protocol| protocol.to_string() == text);
        chosen.ok_or_else(|| format!("expected one of {}, got {text}", Self::CHOICES.map(|p| p.to_string()).join(", ")))
    }
}

/// Is the peer there?
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peer {
    /// The peer is there, as far as the link knows.
    Alive,
    /// Gone for good in this epoch, and why.
    Gone(String),
}

/// What another process needs to be the host of a device over shared memory.
#[derive(Debug)]
pub struct HostEnds {
    /// The window's memory, sealed.
    pub memory: OwnedFd,
    /// A socket, readable when the device has notified.
    pub notified: OwnedFd,
    /// A socket: eight bytes notify the device.
    pub device: OwnedFd,
    /// Readable when the device's process has ended.
    pub process: Arc<OwnedFd>,
    /// A socket, readable when the device has notified a program that serves a section beside the host: where it was started with
    /// one.
    pub side: Option<OwnedFd>,
}

/// Waits until the device has left its epoch, which `has_left` says of its window, at most so long.
pub(crate) fn wait_until_left(link: &dyn Link, limit: Duration, has_left: impl Fn(&Window<Shared>) -> bool) -> bool {
    let begin = Instant::now();
    while !has_left(link.window()) {
        if begin.elapsed() > limit || link.peer() != Peer::Alive {
            return false;
        }
        // A sleep and not a wait on the doorbell: the notification may be meant for a waiter.
        std::thread::sleep(Duration::from_micros(100));
    }
    true
}

/// The connection to one device (see the module).
pub trait Link: Send + Sync {
    /// What to call it in messages: `shm`, `loopback`.
    fn kind(&self) -> &str;
    /// What it can do.
    fn capabilities(&self) -> Capabilities;
    /// The mapped window. Where the device is in this program, it may end where the heap begins, of
    /// which handlers have views.
    fn window(&self) -> &Window<Shared>;
    /// The heap, which is this range of the device's window.
    ///
    /// # Errors
    /// There is no such range.
    fn heap(&self, off: u64, len: u64) -> Result<Heap, OutOfWindow> {
        self.window().copies(off, len).map(Heap::mapped)
    }
    /// Notifies the peer. A hint: a lost one costs latency only.
    fn notify(&self);
    /// Gives the peer a chance to run, or sleeps until the peer notifies or is gone, at most
    /// `max_us` microseconds. A waiting thread calls it when polling found nothing. Where there is
    /// a doorbell, one thread at a time does, because the call consumes the notifications of all
    /// waiters. Zero means: no sleep. [`hamr_comm::abi::preamble::FOR_EVER`] is no limit.
    fn wait(&self, max_us: u32);
    /// Wakes the thread that sleeps in [`Self::wait`] or on [`Self::descriptors`], or the next one
    /// that would, as a notification of the peer does. Nothing to do without a doorbell.
    fn wake(&self) {}
    /// A task waits, whose thread will not call [`Self::wait`] for it: from now on [`Self::descriptors`] tell of what comes.
    fn watch(&self) {}
    /// Is the peer there? A few hundred nanoseconds at most.
    fn peer(&self) -> Peer;
    /// Descriptors of which one is readable when the peer has notified or is gone. A thread that
    /// waits for several devices sleeps on them and then calls [`Self::wait`], which consumes the
    /// notification. Empty without a doorbell.
    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        Vec::new()
    }
    /// What the device writes to its card's doorbell register to notify this side, where there is
    /// such a register (abi §7).
    fn doorbell(&self) -> u32 {
        0
    }
    /// How the peer's process has ended, as a shell has it: its exit code, or 128 and a signal. `None`: it runs, or
    /// there is none.
    fn exit_code(&self) -> Option<u8> {
        None
    }
    /// Asks the peer's process to end, where it has one; returns at once.
    fn terminate(&self) {}
    /// Ends the peer and returns when it writes nothing any more, or `limit` is over: then the end is under way, and
    /// [`Self::restart`] waits for it. [`Duration::MAX`] is as long as the kind of device may need.
    fn stop(&self, limit: Duration);
    /// Does the device run on when its host leaves? Then the window may contain what an earlier
    /// host left (abi §8), and [`Self::stop`] is a request that the device acknowledges.
    fn outlives_host(&self) -> bool {
        false
    }
    /// The host will not use the link again, though its streams may still have it: the next host
    /// may come. Before that, all mappings of [`Self::window`] must have ceased to reach the
    /// device, because a thread may be in the middle of a store: a mapping is replaced by memory of
    /// this program's own. Nothing to do where the device ends with its host.
    fn release(&self) {}
    /// The file of the image that the device runs, where the link did not load it and knows it.
    fn image(&self) -> Option<ImageFile> {
        None
    }
    /// What a host in another process needs, where the device can have one ([`crate::serve`]).
    fn host_ends(&self) -> Option<HostEnds> {
        None
    }
    /// Is a device that was gone there again, started by another program? Then [`Self::restart`] takes
    /// what is there. May take some milliseconds, and where the other program does not answer, `limit`.
    ///
    /// # Errors
    /// It is not; and why, where more is known than that.
    fn is_back(&self, _limit: Duration) -> Result<(), Option<String>> {
        Err(None)
    }
    /// May the device run this image in the place of its present one?
    ///
    /// # Errors
    /// The reason why not.
    fn check_image(&self, _next: &ImageFile) -> Result<(), String> {
        Ok(())
    }
    /// [`Self::restart`] starts this image from now on. It is made for what the device's last was.
    ///
    /// # Errors
    /// The reason why this link cannot.
    fn set_image(&self, _image: &ImageFile) -> Result<(), String> {
        Err(format!("a {} link cannot give its device another image", self.kind()))
    }
    /// The program at the other end of a connection, as this program names it. `None`: there is no connection.
    fn remote(&self) -> Option<&str> {
        None
    }
    /// The time of a message to that program and back, measured now. `None`: there is no connection, or no answer.
    fn round_trip(&self) -> Option<Duration> {
        None
    }
    /// Brings what the device shows in this section up to date, where the window is a copy: task lines, log, trace.
    fn refresh(&self, _kind: SectionKind) {}
    /// Before an epoch begins: has the device other memory than before, such as that of another server? Then `lose` is called
    /// before anything of its heap is read.
    fn if_memory_is_other(&self, _lose: &dyn Fn()) {}
    /// Starts a stopped peer again over the same window. Where another program does so, it has `limit`.
    ///
    /// # Errors
    /// The reason why this link cannot.
    fn restart(&self, _limit: Duration) -> Result<(), String> {
        Err(format!("a {} link cannot start its device again", self.kind()))
    }
}

// A host keeps links of several kinds in one list.
static_assertions::assert_obj_safe!(Link);
