//! An image that drives its host's memory (`hamr_comm::mirror::Driver`): its window is memory of its own, and the host's is reached by
//! a [`HostPort`].
//!
//! The dispatcher carries between two rounds. While a handler runs, what beats does: hosted the thread that watches the host, on bare
//! metal the tick.

use crate::{Board, Device};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use hamr_comm::abi::window::Window;
use hamr_comm::mirror::{Driver, HostPort, Lost, NotifyOwner};

#[cfg(hamr_bare)]
use alloc::{boxed::Box, sync::Arc};
#[cfg(hamr_bare)]
use spin::{Mutex, MutexGuard};
#[cfg(not(hamr_bare))]
use std::{
    boxed::Box,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Steps in a row, behind which a beat is over.
const MOST: u32 = 256;

/// What carries, and who does.
pub(crate) struct Driving<P, K> {
    driver: Mutex<Driver<P, K>>,
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

impl<P: HostPort, K: Clone> Driving<P, K> {
    /// Carries between what `port` reaches and `own` from now on; `notify` notifies the host.
    pub(crate) fn new(port: P, own: Window<K>, notify: NotifyOwner) -> Result<Self, Lost> {
        let is_rung = Arc::<AtomicBool>::default();
        let rung = is_rung.clone();
        let wake = move || rung.store(true, Ordering::Relaxed);
        Ok(Self {
            driver: Mutex::new(Driver::new(port, own, notify, Box::new(wake))?),
            rounds: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            is_awake: AtomicBool::new(true),
            is_rung,
            ends: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        })
    }

    /// `None` in a tick that has interrupted who carries, and behind a fault of that.
    #[cfg(hamr_bare)]
    fn driver(&self) -> Option<MutexGuard<'_, Driver<P, K>>> {
        self.driver.try_lock()
    }

    #[cfg(not(hamr_bare))]
    fn driver(&self) -> Option<MutexGuard<'_, Driver<P, K>>> {
        Some(self.driver.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Carries everything, unless the dispatcher sleeps, which begins no sleep while a thread has the lock.
    fn carry_all(&self, driver: &mut Driver<P, K>) {
        if self.is_awake.load(Ordering::Relaxed) {
            driver.look_now();
            let _ = (0..MOST).find(|_| !driver.step());
        }
    }

    /// Serves for ever.
    pub(crate) fn serve<B: Board>(&self, device: &mut Device<'_, B>) -> ! {
        loop {
            device.serve_while(|| {
                self.rounds.fetch_add(1, Ordering::Relaxed);
                if let Some(mut driver) = self.driver() {
                    driver.step();
                    // Of a beat that found this carrying.
                    driver.beat();
                }
                true
            });
        }
    }

    /// What was published last is carried.
    pub(crate) fn carry(&self) {
        if let Some(mut driver) = self.driver() {
            self.carry_all(&mut driver);
        }
    }

    /// The dispatcher is about to sleep. False: it is not to.
    pub(crate) fn prepare_sleep(&self) -> bool {
        let Some(mut driver) = self.driver() else { return false };
        let sleeps = !self.is_rung.swap(false, Ordering::Relaxed) && driver.prepare_sleep();
        self.is_awake.store(!sleeps, Ordering::Relaxed);
        sleeps
    }

    /// It has slept.
    pub(crate) fn end_sleep(&self) {
        if let Some(mut driver) = self.driver() {
            driver.end_sleep();
        }
        self.is_awake.store(true, Ordering::Relaxed);
    }

    /// From time to time, behind a step of ALIVE. True: a handler runs beside it for long.
    pub(crate) fn beat(&self) -> bool {
        let (rounds, ends) = (self.rounds.load(Ordering::Relaxed), self.ends.load(Ordering::Acquire));
        let Some(mut driver) = self.driver() else { return false };
        driver.beat();
        let is_beside = self.seen.swap(rounds, Ordering::Relaxed) == rounds && self.is_awake.load(Ordering::Relaxed);
        if is_beside || ends {
            self.carry_all(&mut driver);
        }
        if ends {
            self.has_ended.store(true, Ordering::Release);
        }
        is_beside
    }

    /// Was who carries abandoned? Then nothing is carried any more.
    #[cfg(hamr_bare)]
    pub(crate) fn is_abandoned(&self) -> bool {
        self.driver.is_locked()
    }

    /// In a handler of a signal that ends the process: what it has published is carried by the other thread.
    #[cfg(not(hamr_bare))]
    pub(crate) fn end(&self) {
        /// Between two looks whether it was carried, and how many there are.
        const PAUSE: core::time::Duration = core::time::Duration::from_millis(2);
        const PAUSES: u32 = 100;
        self.ends.store(true, Ordering::Release);
        for _ in 0..PAUSES {
            if self.has_ended.load(Ordering::Acquire) {
                break;
            }
            std::thread::sleep(PAUSE);
        }
    }
}
