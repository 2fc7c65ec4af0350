//! The section of a device's window that a third program serves (abi §16): a layer above starts that program, and ends it before
//! the device's epoch is over.

use super::{Device, NO_EPOCH};
use crate::Error;
use crate::link::HostEnds;
use hamr_comm::abi::ids::{Epoch, NodeId};
use hamr_comm::abi::preamble::feature;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::window::{Shared, Window};
use rustix::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What ends such a program.
pub trait Closer: Send + Sync {
    /// Ends the program, by force if it does not answer, within `limit`. True: it writes nothing into the window any more; the
    /// next epoch does not begin before.
    fn close(&self, limit: Duration) -> bool;
    /// Did it not start, and has it ended? Then there may be another in the epoch.
    fn has_failed(&self) -> bool;
}

/// How long a device that is dropped waits for such a program.
const LAST_LIMIT: Duration = Duration::from_secs(5);

/// What such a program is given, and what its starter has.
pub struct SideEnds {
    /// The section, as this program maps it.
    pub section: Window<Shared>,
    /// The window's memory, sealed.
    pub memory: OwnedFd,
    /// Where the section is in the window.
    pub off: u64,
    /// The device.
    pub node: NodeId,
    /// The epoch that it is opened in.
    pub epoch: Epoch,
    /// Microseconds that a side polls without result before it sleeps, as the device's offer has them.
    pub spin_us: u32,
    /// A socket: eight bytes notify the device.
    pub device: OwnedFd,
    /// A socket, readable when the device has notified the program.
    pub doorbell: OwnedFd,
}

/// The program of a device's present epoch, or of one before.
#[derive(Default)]
pub(crate) struct Side(Mutex<Last>);

#[derive(Default)]
struct Last {
    program: Option<(Epoch, Arc<dyn Closer>)>,
    /// The device is closed: there is no other.
    is_final: bool,
}

impl Side {
    /// Ends the program, if there is one, within `limit`, and returns what is left of that. Then none writes into the window
    /// any more. `None`: it has not ended.
    pub(crate) fn close(&self, limit: Duration) -> Option<Duration> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).program.clone();
        let Some((_, closer)) = last else { return Some(limit) };
        let begin = Instant::now();
        closer.close(limit).then(|| limit.saturating_sub(begin.elapsed()))
    }

    /// The same for good.
    pub(crate) fn close_finally(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_final = true;
        self.close(LAST_LIMIT);
    }
}

impl Device {
    /// See [`crate::Node::open_side`].
    pub(crate) fn open_side(&self, closer: Arc<dyn Closer>) -> Result<SideEnds, Error> {
        self.check_open("opening an adapter")?;
        let refused = |why: String| Error::Bus { device: self.name.clone(), why };
        let Some(HostEnds { memory, device, side, .. }) = self.link.host_ends() else {
            let kind = self.link.kind();
            return Err(refused(format!(
                "expected a device that this program started alone on `shm` or `qemu`, for an adapter; this one is `{kind}` with memory of another kind, a rank, or another program's"
            )));
        };
        let Ok(section) = self.layout.section(SectionKind::VERBS) else {
            let (option, expected) = ("Options::verbs", "the bytes of queues and registered memory".into());
            return Err(Error::InvalidConfig { option, expected, got: "0".into() });
        };
        if !self.accepted(feature::VERBS) {
            return Err(refused("expected an image with handlers that use verbs, this one has none".into()));
        }
        let doorbell = side.ok_or_else(|| refused("expected a device that can notify an adapter".into()))?;
        let window = self.link.window().part(section.off, section.len);
        let window = window.map_err(|_| Error::too_short(&self.name, &self.layout, self.link.window().len()))?;
        let mut last = self.side.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An epoch that begins finds it there, or has ended the last one by now.
        let epoch = Epoch(self.epoch.load(Ordering::Acquire));
        if epoch.0 == NO_EPOCH || last.is_final {
            return Err(refused("it has no epoch now".into()));
        }
        if last.program.as_ref().is_some_and(|(of, last)| *of == epoch && !last.has_failed()) {
            return Err(refused("it had an adapter in this epoch: restart it first".into()));
        }
        last.program = Some((epoch, closer));
        let (off, spin_us) = (section.off, self.options.idle_policy().spin_us);
        Ok(SideEnds { section: window, memory, off, node: self.id, epoch, spin_us, device, doorbell })
    }
}
