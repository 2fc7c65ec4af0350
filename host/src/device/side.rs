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

/// What ends such a program.
pub trait Closer: Send + Sync {
    /// Returns when the program writes nothing into the window any more. The next epoch waits for it: it ends a program that
    /// does not answer.
    fn close(&self);
}

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
}

/// The program of a device's present epoch, or of one before.
#[derive(Default)]
pub(crate) struct Side(Mutex<Option<(Epoch, Arc<dyn Closer>)>>);

impl Side {
    /// Ends the program, if there is one.
    pub(crate) fn close(&self) {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, closer)) = last {
            closer.close();
        }
    }
}

impl Device {
    /// See [`crate::Node::open_side`].
    pub(crate) fn open_side(&self, closer: Arc<dyn Closer>) -> Result<SideEnds, Error> {
        self.check_open("opening an adapter")?;
        let refused = |why: String| Error::Bus { device: self.name.clone(), why };
        let Some(HostEnds { memory, .. }) = self.link.host_ends() else {
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
        let window = self.link.window().part(section.off, section.len);
        let window = window.map_err(|_| Error::too_short(&self.name, &self.layout, self.link.window().len()))?;
        let mut last = self.side.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An epoch that begins finds it there, or has ended the last one by now.
        let epoch = Epoch(self.epoch.load(Ordering::Acquire));
        if epoch.0 == NO_EPOCH {
            return Err(refused("it has no epoch now".into()));
        }
        if last.as_ref().is_some_and(|(of, _)| *of == epoch) {
            return Err(refused("it had an adapter in this epoch: restart it first".into()));
        }
        *last = Some((epoch, closer));
        Ok(SideEnds { section: window, memory, off: section.off, node: self.id, epoch })
    }
}
