//! Links: the slow half of a connection to a device (the fast half is the window itself).
//!
//! A [`Link`] says what the connection can do, notifies, waits, and knows whether the peer is there. It is object-safe, so that a
//! host keeps devices of several kinds in one list; nothing here is on the path of a call that is answered at once.
//! [`Loopback`] runs the device inside the waiting thread: for unit tests, and for the conformance suite.
//! A [`Decorator`] changes some methods of another link. [`FaultInjector`] is one: it breaks a link on purpose.

mod decorator;
mod fault_injector;
mod loopback;

pub use decorator::Decorator;
pub use fault_injector::{FaultInjector, Faults};
pub use loopback::Loopback;

use hamr_comm::abi::window::{Shared, Window};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What a link can do: which of a message's protocols it allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capabilities {
    /// The host maps the device's memory: a `put` is a copy.
    pub host_maps_device: bool,
    /// The device can reach host memory.
    pub device_reaches_host: bool,
    /// Both sides cache the window coherently.
    pub coherent: bool,
    /// A 64-byte line read by the peer is never torn.
    pub line_read_atomic: bool,
    /// Ringing wakes a sleeping peer.
    pub doorbell: bool,
}

/// Is the peer there?
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peer {
    /// As far as the link knows.
    Alive,
    /// Gone for good in this epoch, and why.
    Gone(String),
}

/// See the module's head.
pub trait Link: Send + Sync {
    /// What to call it in messages: `shm`, `loopback`.
    fn kind(&self) -> &str;
    /// What it can do.
    fn capabilities(&self) -> Capabilities;
    /// The mapped window.
    fn window(&self) -> &Window<Shared>;
    /// Notifies the peer. A hint: a lost one costs latency only.
    fn notify(&self);
    /// Gives the peer a chance to run, or sleeps until it notifies or is gone, at most `max_us` microseconds. Called by whoever
    /// waits, after a first fruitless while; by one thread at a time where there is a doorbell, because it takes the rings, which
    /// are the waiters'.
    /// Zero means: no sleep. [`hamr_comm::abi::preamble::FOR_EVER`] is no limit.
    fn wait(&self, max_us: u32);
    /// Wakes whoever sleeps in [`Self::wait`] or on [`Self::descriptors`], or the next who would, as a ring of the peer does. Nothing
    /// to do where nobody rings.
    fn wake(&self) {}
    /// Is the peer there? A few hundred nanoseconds at most.
    fn peer(&self) -> Peer;
    /// Descriptors of which one is readable when the peer has rung or is gone: for whoever waits for several devices at once,
    /// and then calls [`Self::wait`], which takes the ring. Empty where nobody rings.
    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        Vec::new()
    }
    /// What the device writes to its card's doorbell register to ring this side, where there is such a register (abi §7).
    fn doorbell(&self) -> u32 {
        0
    }
    /// Ends the peer and returns when it writes nothing any more.
    fn stop(&self);
    /// Does the device live on when its host leaves? Then the window may hold what an earlier host left (abi §8), and
    /// [`Self::stop`] is a request that the device answers.
    fn outlives_host(&self) -> bool {
        false
    }
    /// The host will not use the link again, though streams of it may still hold it: lets the next host in. Before that, whatever is
    /// made of [`Self::window`] must have ceased to reach the device, because a thread may be in the middle of a store: a mapping is
    /// replaced by memory of this program's own. Nothing to do where the device ends with its host.
    fn release(&self) {}
    /// Starts a stopped peer again over the same window.
    ///
    /// # Errors
    /// Says why this link cannot.
    fn restart(&self) -> Result<(), String> {
        Err(format!("a {} link cannot start its device again", self.kind()))
    }
}

// A host keeps links of several kinds in one list.
static_assertions::assert_obj_safe!(Link);
