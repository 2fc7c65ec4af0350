//! What this program holds of a function: its memory, its registers, and, through vfio, the function itself; and how it lets go
//! of them when the system asks for the function back.

use super::vfio::Vfio;
use crate::mapping::Revocable;
use hamr_comm::abi::preamble::{MAGIC, word};
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::handshake::HostHandshake;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Registers in BAR 0: this machine's number among those that share the memory, and the doorbell, which takes a number and a vector.
const POSITION: u64 = 8;
const DOORBELL: u64 = 12;
const PEER_SHIFT: u32 = 16;

/// See the module's head.
pub(super) struct Card {
    pub(super) window: Window<Shared>,
    pub(super) registers: Option<Window<Shared>>,
    pub(super) vfio: Option<Vfio>,
    /// What was mapped of sysfs. What was mapped through vfio, `vfio` has.
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

    /// What rings this program: its number, and vector 0.
    pub(super) fn doorbell(&self) -> u32 {
        self.position() << PEER_SHIFT
    }

    /// Notifies the device, by the bell that it named; the other number of a pair when it named none, or its number is 0.
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

    /// Wakes whoever sleeps here, as the device does.
    pub(super) fn wake(&self) {
        if let Some(doorbell) = self.vfio.as_ref().and_then(Vfio::doorbell) {
            // The only error is a counter at its end, and then it is being woken already.
            let _ = rustix::io::write(&*doorbell, &1u64.to_ne_bytes());
        }
    }

    /// Says that this host leaves, if it ever said anything.
    pub(super) fn close(&self) {
        if self.load(0) == MAGIC {
            HostHandshake::close(&self.window);
        }
    }

    /// Has the system asked for the function back?
    pub(super) fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Acquire)
    }

    /// Ends this program's use of the function, and gives one back that it has through vfio. Its memory reads as zeros from now on, for
    /// whoever still looks, and what is still written goes nowhere. False when a mapping stays.
    pub(super) fn let_go(&self) -> bool {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        maps.retain(|map| map.revoke().is_err());
        maps.is_empty() & self.vfio.as_ref().is_none_or(Vfio::let_go)
    }
}

/// Waits for the system to ask for the function, which waits for this program to give it back: on the way to another driver, or
/// off the bus. Ends when it is dropped.
pub(super) struct Watcher {
    quit: Arc<OwnedFd>,
}

impl Watcher {
    /// `None` where nobody asks, or there is no thread to be had; then the system waits until the device is closed.
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
            // The device lives on, and must not wait for a host that is gone.
            card.close();
            card.notify();
            card.let_go();
            // Whoever sleeps looks at its peer.
            card.wake();
        };
        std::thread::Builder::new().name("hamr-vfio".into()).spawn(watch).ok()?;
        Some(Self { quit })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // The only error is a counter at its end, which it is not after one.
        let _ = rustix::io::write(&*self.quit, &1u64.to_ne_bytes());
    }
}
