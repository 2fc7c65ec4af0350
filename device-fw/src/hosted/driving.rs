//! An image that drives its host's memory (`hamr_comm::mirror::Driver`): its window is memory of its own, and the host's is reached by
//! loads, stores and copies, which stand for a DMA engine.
//!
//! The dispatcher carries between two rounds. While a handler runs, the thread that watches the host does.

use super::ServedWindow;
use super::control::StartError;
use super::map::Mapping;
use crate::{Board, Device};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use core::time::Duration;
use hamr_comm::abi::sync::{Coherent, Order};
use hamr_comm::mirror::{Driver, HostPort, Lost};
use rustix::fd::{AsFd, OwnedFd};
use std::boxed::Box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Steps in a row, behind which a beat is over.
const MOST: u32 = 256;
/// Between two looks whether a fault was carried, and how many there are.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSES: u32 = 100;

/// The host's memory, mapped.
struct HostMemory {
    memory: ServedWindow,
    has_stored: bool,
}

impl HostPort for HostMemory {
    fn load(&mut self, off: u64) -> u64 {
        if core::mem::take(&mut self.has_stored) {
            Coherent::full();
        }
        let value = self.memory.load(off).unwrap_or(0);
        fence(Ordering::Acquire);
        value
    }
    fn store(&mut self, off: u64, value: u64) {
        self.has_stored = true;
        fence(Ordering::Release);
        // What is outside is nobody's.
        let _ = self.memory.store(off, value);
    }
    fn pull(&mut self, off: u64, to: &mut [u8]) {
        if self.memory.read_bytes(off, to).is_err() {
            to.fill(0);
        }
    }
    fn push(&mut self, off: u64, from: &[u8]) {
        self.has_stored = true;
        let _ = self.memory.write_bytes(off, from);
    }
}

/// What carries, and who does.
pub(super) struct Driving {
    driver: Mutex<Driver<HostMemory, Arc<Mapping>>>,
    /// Rounds of the dispatcher; those at the last beat.
    rounds: AtomicU32,
    seen: AtomicU32,
    /// It does not sleep.
    is_awake: AtomicBool,
    /// Something was carried while it was about to.
    is_rung: Arc<AtomicBool>,
    /// The process ends by a fault, as soon as that is carried.
    ends: AtomicBool,
    has_ended: AtomicBool,
}

/// Carries between `memory`, the host's, and `own` from now on; `notify` notifies the host. Returns the window that is served, too.
pub(super) fn start(
    memory: impl AsFd,
    own: impl AsFd,
    notify: impl FnMut() + Send + 'static,
) -> Result<(ServedWindow, Driving), StartError> {
    let port = HostMemory { memory: Mapping::of(memory, None::<OwnedFd>)?, has_stored: false };
    let is_rung = Arc::<AtomicBool>::default();
    let rung = is_rung.clone();
    let wake = move || rung.store(true, Ordering::Relaxed);
    let driver = Driver::new(port, Mapping::beside(&own)?, Box::new(notify), Box::new(wake));
    let driver = Mutex::new(driver.map_err(|Lost(_)| StartError::NoWindow)?);
    let [is_awake, ends, has_ended] = [true, false, false].map(AtomicBool::new);
    let [rounds, seen] = [0, 0].map(AtomicU32::new);
    let driving = Driving { driver, rounds, seen, is_awake, is_rung, ends, has_ended };
    Ok((Mapping::of(own, None::<OwnedFd>)?, driving))
}

impl Driving {
    fn driver(&self) -> MutexGuard<'_, Driver<HostMemory, Arc<Mapping>>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries everything, unless the dispatcher sleeps, which begins no sleep while a thread has the lock.
    fn carry_all(&self, driver: &mut Driver<HostMemory, Arc<Mapping>>) {
        if self.is_awake.load(Ordering::Relaxed) {
            driver.look_now();
            let _ = (0..MOST).find(|_| !driver.step());
        }
    }

    /// Serves for ever.
    pub(super) fn serve<B: Board>(&self, device: &mut Device<'_, B>) -> ! {
        loop {
            device.serve_while(|| {
                self.rounds.fetch_add(1, Ordering::Relaxed);
                self.driver().step();
                true
            });
        }
    }

    /// What was published last is carried.
    pub(super) fn carry(&self) {
        self.carry_all(&mut self.driver());
    }

    /// The dispatcher is about to sleep. False: it is not to.
    pub(super) fn prepare_sleep(&self) -> bool {
        let mut driver = self.driver();
        let sleeps = !self.is_rung.swap(false, Ordering::Relaxed) && driver.prepare_sleep();
        self.is_awake.store(!sleeps, Ordering::Relaxed);
        sleeps
    }

    /// It has slept.
    pub(super) fn end_sleep(&self) {
        let mut driver = self.driver();
        driver.end_sleep();
        self.is_awake.store(true, Ordering::Relaxed);
    }

    /// Of the thread that watches the host. True: a handler runs beside it for long.
    pub(super) fn beat(&self, alive: u32) -> bool {
        let (rounds, ends) = (self.rounds.load(Ordering::Relaxed), self.ends.load(Ordering::Acquire));
        let mut driver = self.driver();
        driver.beat(alive);
        let is_beside = self.seen.swap(rounds, Ordering::Relaxed) == rounds && self.is_awake.load(Ordering::Relaxed);
        if is_beside || ends {
            self.carry_all(&mut driver);
        }
        if ends {
            self.has_ended.store(true, Ordering::Release);
        }
        is_beside
    }

    /// In a handler of a signal that ends the process: what it has published is carried by the other thread.
    pub(super) fn end(&self) {
        self.ends.store(true, Ordering::Release);
        for _ in 0..PAUSES {
            if self.has_ended.load(Ordering::Acquire) {
                break;
            }
            std::thread::sleep(PAUSE);
        }
    }
}
