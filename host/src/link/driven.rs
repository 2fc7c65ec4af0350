//! Devices that drive this program's memory (docs/model.md, "Device-driven"): the window is memory of the host's, and the device's heap is
//! its own.

use super::{Capabilities, Decorator, FarHeap, Heap, Link, Peer, Protocol};
use crate::lock::lock_within;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::preamble::word;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::staging::Staging;
use hamr_comm::abi::window::{AtomicOp, OutOfWindow, Shared, Window, Word};
use hamr_comm::am::patience;
use hamr_qemu::origin::Origin;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What people look at may take so long to come.
const SHOW_LIMIT: Duration = Duration::from_millis(500);
/// The same of what stands in an error.
const TASKS_LIMIT: Duration = Duration::from_millis(50);
/// How long an answer is polled for, before sleeps of an eighth of the time waited.
const SPIN: Duration = Duration::from_micros(50);
/// Between two looks at an answer, at most.
const LONGEST_NAP: Duration = Duration::from_millis(1);

/// A link to such a device.
pub(crate) struct DrivenLink {
    driven: Arc<Driven>,
    window_len: u64,
}

struct Driven {
    link: Box<dyn Link>,
    /// The value of ASLEEP that the doorbell rang for last, and its epoch above.
    told: AtomicU64,
    /// Where STAGING is, and bytes of one copy.
    staging: u64,
    most: usize,
    /// The number of the last request there; who has the lock makes one.
    asked: Mutex<u32>,
    /// A device that does not answer for so long is taken for lost.
    silence: Duration,
    origin: Origin,
}

impl DrivenLink {
    /// Over a link whose window has this layout.
    pub(crate) fn new(link: Box<dyn Link>, layout: &Layout, silence: Duration) -> Self {
        let (staging, len) = layout.section(SectionKind::STAGING).map_or((0, 0), |section| (section.off, section.len));
        let (told, asked, origin) = (AtomicU64::new(0), Mutex::new(0), Origin::here());
        let most = len.saturating_sub(Staging::DATA) as usize;
        let driven = Driven { link, told, staging, most, asked, silence, origin };
        Self { driven: Arc::new(driven), window_len: layout.window_len() }
    }
}

impl Driven {
    fn window(&self) -> &Window<Shared> {
        self.link.window()
    }

    /// Has the device look.
    fn ring(&self) {
        // Behind what was published, and before the look at ASLEEP.
        fence(Ordering::SeqCst);
        let _ = self.window().atomic(word::BELL, AtomicOp::Add(1_u32));
        fence(Ordering::SeqCst);
        let load = |off| u64::from(self.window().word(off).map_or(0, |word| word.load()));
        let asleep = load(word::EPOCH) << 32 | load(word::ASLEEP);
        if asleep & 1 == 1 && self.told.swap(asleep, Ordering::Relaxed) != asleep {
            self.link.notify();
        }
    }

    fn word(&self, off: u64) -> Result<Word<'_>, String> {
        self.window().word(self.staging + off).map_err(|e| e.to_string())
    }

    /// Until the device has done request `number`.
    fn wait(&self, number: u32, begin: Instant, limit: Duration) -> Result<(), String> {
        let done = self.word(Staging::DONE)?;
        while done.observe() != number {
            let waited = begin.elapsed();
            if waited < SPIN {
                patience::rest();
                continue;
            }
            match self.link.peer() {
                Peer::Gone(why) => return Err(why),
                Peer::Alive if waited <= limit => {}
                Peer::Alive => return Err(format!("expected an answer of the device within {limit:?}, none came")),
            }
            std::thread::sleep((waited / 8).min(LONGEST_NAP));
        }
        Ok(())
    }

    /// One request, for which the caller has the lock, with bytes for it. Behind it the device has done what it asks for.
    fn ask(
        &self,
        asked: &mut u32,
        kind: u32,
        (off, len): (u64, usize),
        bytes: &[u8],
        limit: Duration,
    ) -> Result<(), String> {
        let (window, staging, begin) = (self.window(), self.staging, Instant::now());
        // The device may be in the middle of one that was given up, and goes by what stands here.
        self.wait(*asked, begin, limit)?;
        let range = [off, len as u64].map(u64::to_le_bytes);
        for (at, bytes) in [(Staging::DATA, bytes), (Staging::OFF, range.as_flattened())] {
            window.write_bytes(staging + at, bytes).map_err(|e| e.to_string())?;
        }
        self.word(Staging::KIND)?.store(kind);
        *asked = asked.wrapping_add(1).max(1);
        self.word(Staging::NUMBER)?.publish(*asked);
        self.ring();
        if let Err(why) = self.wait(*asked, begin, limit) {
            // Where the device has not taken it, there is nothing to do any more. Its number stays: none is done twice.
            self.word(Staging::KIND)?.publish(Staging::NONE);
            return Err(why);
        }
        match self.word(Staging::STATUS)?.load() {
            Staging::OK => Ok(()),
            _ => Err(format!("expected {len} bytes of heap at {off:#x}, the device has none there")),
        }
    }

    /// To make a request.
    fn turn(&self) -> Result<MutexGuard<'_, u32>, String> {
        let late = || format!("expected the copies before this one to end within {:?}, they did not", self.silence);
        lock_within(&self.asked, self.silence).ok_or_else(late)
    }

    fn check(&self) -> Result<(), String> {
        if self.origin.is_here() { Ok(()) } else { Err("expected the process that has opened it, got a copy".into()) }
    }

    fn show(&self, kind: SectionKind, limit: Duration) {
        // Who comes beside a copy waits for no look.
        if self.check().is_ok()
            && let Ok(mut asked) = self.asked.try_lock()
        {
            // What does not come is not shown.
            let _ = self.ask(&mut asked, Staging::SHOW, (kind.0.into(), 0), &[], limit);
        }
    }
}

impl FarHeap for Driven {
    fn read(&self, off: u64, to: &mut [u8]) -> Result<(), String> {
        self.check()?;
        for (to, off) in to.chunks_mut(self.most.max(1)).zip((off..).step_by(self.most.max(1))) {
            let mut asked = self.turn()?;
            self.ask(&mut asked, Staging::GET, (off, to.len()), &[], self.silence)?;
            self.window().read_bytes(self.staging + Staging::DATA, to).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn write(&self, off: u64, from: &[u8]) -> Result<(), String> {
        self.check()?;
        for (from, off) in from.chunks(self.most.max(1)).zip((off..).step_by(self.most.max(1))) {
            let mut asked = self.turn()?;
            self.ask(&mut asked, Staging::PUT, (off, from.len()), from, self.silence)?;
        }
        Ok(())
    }
}

impl Decorator for DrivenLink {
    fn inner(&self) -> &dyn Link {
        &*self.driven.link
    }
    fn capabilities(&self) -> Capabilities {
        // BELL notifies the device, also where nothing notifies this side.
        Capabilities { doorbell: true, protocol: Protocol::DeviceDriven, ..self.driven.link.capabilities() }
    }
    fn heap(&self, off: u64, len: u64) -> Result<Heap, OutOfWindow> {
        match off.checked_add(len) {
            Some(end) if end <= self.window_len => Heap::far(self.driven.clone(), off),
            _ => Err(OutOfWindow { off, want: len, len: self.window_len }),
        }
    }
    fn notify(&self) {
        self.driven.ring();
    }
    fn refresh(&self, kind: SectionKind) {
        // Callers whose limit has passed ask for task lines.
        self.driven.show(kind, if kind == SectionKind::TASKS { TASKS_LIMIT } else { SHOW_LIMIT });
    }
    fn restart(&self, limit: Duration) -> Result<(), String> {
        if let Peer::Gone(_) = self.driven.link.peer() {
            // What was asked of the last process is not for the next.
            let mut asked = self.driven.asked.lock().unwrap_or_else(PoisonError::into_inner);
            *asked = 0;
            for off in [Staging::NUMBER, Staging::DONE] {
                if let Ok(word) = self.driven.window().word(self.driven.staging + off) {
                    word.publish(0);
                }
            }
        }
        self.driven.link.restart(limit)
    }
}
