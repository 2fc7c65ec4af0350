//! A function as this program uses it: its memory, its registers, and, through vfio, the function
//! itself; and how the program releases them when the system asks for the function back.

use super::vfio::Vfio;
use crate::Error;
use crate::mapping::Revocable;
use hamr_comm::abi::preamble::{MAGIC, word};
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::handshake::HostHandshake;
use hamr_qemu::origin::Origin;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Registers in BAR 0: this machine's number among those that share the memory, and the doorbell,
/// which takes a number and a vector.
const POSITION: u64 = 8;
const DOORBELL: u64 = 12;
const PEER_SHIFT: u32 = 16;

/// A function in use.
pub(super) struct Card {
    pub(super) window: Window<Shared>,
    pub(super) registers: Option<Window<Shared>>,
    pub(super) vfio: Option<Vfio>,
    /// Mappings through sysfs. Those through vfio are in `vfio`.
    maps: Mutex<Vec<Revocable>>,
    is_taken: AtomicBool,
}

impl Card {
    pub(super) fn new(
        window: Window<Shared>,
        registers: Option<Window<Shared>>,
        vfio: Option<Vfio>,
        maps: Vec<Revocable>,
    ) -> Self {
        Self { window, registers, vfio, maps: Mutex::new(maps), is_taken: AtomicBool::new(false) }
    }

    pub(super) fn load(&self, off: u64) -> u32 {
        self.window.word(off).map_or(0, |w| w.observe())
    }

    /// This machine's number among those that share the memory.
    fn position(&self) -> u32 {
        self.registers.as_ref().and_then(|registers| registers.word(POSITION).ok()).map_or(0, |word| word.load())
    }

    /// The value that notifies this program: its number, and vector 0.
    pub(super) fn doorbell(&self) -> u32 {
        self.position() << PEER_SHIFT
    }

    /// Notifies the device by the doorbell that it named. If it named none, or its number is 0, by
    /// the other number of a pair.
    pub(super) fn notify(&self) {
        let Some(registers) = &self.registers else { return };
        let doorbell = match self.load(word::DEVICE_DOORBELL) {
            0 => u32::from(self.position() == 0) << PEER_SHIFT,
            doorbell => doorbell,
        };
        if let Ok(register) = registers.word(DOORBELL) {
            register.publish(doorbell);
        }
    }

    /// Wakes the threads that sleep in this program, as the device does.
    pub(super) fn wake(&self) {
        if let Some(doorbell) = self.vfio.as_ref().and_then(Vfio::doorbell) {
            // The only error is a counter at its maximum, and then the program is being woken
            // already.
            let _ = rustix::io::write(&*doorbell, &1u64.to_ne_bytes());
        }
    }

    /// Announces to the device that this host leaves, if the host ever made an offer.
    pub(super) fn close(&self) {
        if self.load(0) == MAGIC {
            HostHandshake::close(&self.window);
        }
    }

    /// Has the system asked for the function back?
    pub(super) fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Acquire)
    }

    /// Maps a function through sysfs that left the bus and is there again, in the place of what was
    /// mapped before: its memory, and its registers where they were.
    pub(super) fn restore(&self, memory: &File, registers: Option<&File>) -> Result<(), Error> {
        let maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let files = [Some(memory), registers].into_iter().flatten();
        maps.iter().zip(files).try_for_each(|(map, file)| map.restore(file, 0))
    }

    /// Ends this program's use of the function, and returns one that it has through vfio. For
    /// threads of this program the memory then reads as zeros, and writes to it have no effect.
    /// False when a mapping could not be ended.
    pub(super) fn let_go(&self) -> bool {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        maps.retain(|map| map.revoke().is_err());
        maps.is_empty() & self.vfio.as_ref().is_none_or(Vfio::let_go)
    }
}

/// A thread that waits until the system asks for the function, on the way to another driver or off
/// the bus. The system waits meanwhile for this program to return it. The thread ends when this
/// value is dropped.
pub(super) struct Watcher {
    quit: Arc<OwnedFd>,
    origin: Origin,
}

impl Watcher {
    /// `None` where the system never asks, or no thread can be made; then the system waits until
    /// the device is closed.
    pub(super) fn of(card: &Arc<Card>) -> Option<Self> {
        let asked = card.vfio.as_ref()?.asked()?;
        let quit = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).ok()?);
        let (card, until) = (card.clone(), quit.clone());
        let watch = move || {
            let mut fds = [PollFd::new(&*asked, PollFlags::IN), PollFd::new(&*until, PollFlags::IN)];
            while poll(&mut fds, None) == Err(Errno::INTR) {}
            if fds[0].revents().is_empty() {
                return;
            }
            card.is_taken.store(true, Ordering::Release);
            // The device keeps running, and must not wait for a host that is gone.
            card.close();
            card.notify();
            card.let_go();
            // A woken thread checks its peer.
            card.wake();
        };
        std::thread::Builder::new().name("hamr-vfio".into()).spawn(watch).ok()?;
        Some(Self { quit, origin: Origin::here() })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            return;
        }
        // The only error is a counter at its maximum, which one write does not reach.
        let _ = rustix::io::write(&*self.quit, &1u64.to_ne_bytes());
    }
}
