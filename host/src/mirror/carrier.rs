//! What carries for a [`MirrorLink`](super::MirrorLink): threads that wait, each for itself, and while none does, one of the link.

use super::carry::{Descriptor, FarSide, LONGEST_SLEEP, SPIN, sleep, wake};
use super::tender::{AWAKE, MOST_NAPS, NAP, NAPS, PARKED, Tender, WATCHES};
use crate::link::FarHeap;
use hamr_comm::abi::preamble::word;
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::am::patience;
use hamr_comm::mirror::{HostCopy, Looks, Lost, Mirror, Side, Turns};
use rustix::event::PollFlags;
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Looks of a thread that waits, before it looks at its own clock.
const POLLS: u32 = 4;
/// Of a thread that waits while nothing is carried.
const LOST_NAP: Duration = Duration::from_millis(1);
pub(super) const RELEASED: &str = "this program has released it";

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the link and its thread share: either carries.
pub(super) struct Carrier<D> {
    pub(super) near: Window<Shared>,
    /// Readable when something was put into the near window.
    pub(super) notified: Arc<OwnedFd>,
    pub(super) heap: Arc<dyn FarHeap>,
    /// Nothing is carried while there is none.
    pub(super) mirror: Turns<Option<Carried<D>>>,
    pub(super) tender: Tender,
    /// The near window's word was used up.
    pub(super) is_told: AtomicBool,
    /// Whose turn it is looks itself at what it puts into the near window, and needs no notification.
    pub(super) looks_itself: Arc<AtomicBool>,
    /// [`State::asks`] or the end is to be looked at.
    pub(super) is_asked: AtomicBool,
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

/// What is to be done behind a step.
enum Prepared {
    /// Something was carried.
    Moved,
    /// A sleep until one of them is ready, or so long; and [`Carrier::woken`].
    Sleep(Vec<Descriptor>, Duration),
    /// Nothing is carried any more.
    Lost,
}

/// What a step has carried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moved {
    Nothing,
    /// To the device alone.
    There,
    /// To the host, too; or nothing is carried any more.
    Back,
}

pub(super) struct Carried<D> {
    pub(super) mirror: Mirror<HostCopy<Shared>, D>,
    /// That the device has ended was told.
    pub(super) has_ended: bool,
}

#[derive(Default)]
pub(super) struct State {
    /// Why nothing is carried any more.
    pub(super) lost: Option<String>,
    /// A thread looks for the device.
    pub(super) connects: bool,
    /// It was found again, and nothing was asked of it since.
    pub(super) is_new: bool,
    pub(super) looks: Arc<Looks>,
    /// How the device has ended.
    pub(super) end: Option<String>,
    /// A new start is to be asked for;
    pub(super) asks: bool,
    /// or was, by a caller who may have waited for less long than it takes.
    pub(super) is_asked: bool,
    /// What came back.
    pub(super) renewed: Option<Result<(), String>>,
    pub(super) released: bool,
}

impl<D: FarSide> Carrier<D> {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_released(&self) -> bool {
        self.state().released
    }

    pub(super) fn ask(&self, what: impl FnOnce(&mut State)) {
        what(&mut self.state());
        self.is_asked.store(true, Ordering::Release);
        self.carry(true);
        self.tender.look();
    }

    /// Something was published, and its word says that nobody looks.
    pub(super) fn notified(&self) {
        // Behind the look at the word's value, which was stored behind the last `false`.
        fence(Ordering::Acquire);
        self.is_told.store(true, Ordering::Relaxed);
        if D::BLOCKS || !self.tender.gathers() {
            self.carry(false);
        }
    }

    /// For a thread that waits and comes again.
    pub(super) fn poll(&self) {
        if D::BLOCKS {
            return patience::rest();
        }
        self.tender.waits();
        let step = |mirror: &mut _| {
            self.carry_once(mirror, false);
        };
        let mut is_noted = false;
        for _ in 0..POLLS {
            let (moved, is_carried) = self.mirror.poll(|mirror| self.step(mirror, true), step);
            if !is_carried {
                self.tender.look();
            }
            match moved {
                // A reply is not to wait for the clock, which was read while it was on its way.
                Some(Moved::Back) if is_noted => return,
                Some(Moved::Back) => return self.tender.carries(),
                Some(Moved::There) => {
                    is_noted = true;
                    self.tender.carries();
                }
                Some(Moved::Nothing) | None => {}
            }
            patience::rest();
        }
    }

    /// Carries what is published in the near window, and where `back` what has come.
    pub(super) fn carry(&self, back: bool) {
        if D::BLOCKS {
            return self.tender.look();
        }
        let step = |mirror: &mut _| {
            self.carry_once(mirror, back);
        };
        if !self.mirror.carry(step) {
            self.tender.look();
        }
    }

    pub(super) fn turn<R>(&self, act: impl FnOnce(&mut Option<Carried<D>>) -> R) -> R {
        let step = |mirror: &mut _| {
            self.carry_once(mirror, false);
        };
        let (result, is_carried) = self.mirror.turn(act, step);
        if !is_carried {
            self.tender.look();
        }
        result
    }

    /// A step, of which the tender knows. True: something was carried, or nothing is any more.
    fn carry_once(&self, carried: &mut Option<Carried<D>>, back: bool) -> bool {
        let has_moved = self.step(carried, back) != Moved::Nothing;
        if has_moved {
            self.tender.carries();
        }
        has_moved
    }

    fn step(&self, carried: &mut Option<Carried<D>>, back: bool) -> Moved {
        let Some(Carried { mirror, has_ended }) = carried else { return Moved::Back };
        if self.is_asked.load(Ordering::Relaxed) && self.is_asked.swap(false, Ordering::AcqRel) {
            let mut state = self.state();
            if std::mem::take(&mut state.asks) {
                mirror.sides().0.renew();
            }
            if state.released {
                drop(state);
                *carried = None;
                self.end(RELEASED.into());
                return Moved::Back;
            }
        }
        // Who publishes from here on carries it, or has it carried: it is told so once for each odd value of the word, and an offer
        // begins with an even one.
        let is_even = self.near.word(word::DEVICE_WAIT).is_ok_and(|word| word.load() & 1 == 0);
        if is_even || self.is_told.load(Ordering::Relaxed) {
            self.is_told.store(false, Ordering::Relaxed);
            fence(Ordering::Release);
            mirror.sides().0.prepare_wait();
        }
        let was_full = mirror.sides().1.is_full();
        let carry = |mirror: &mut Mirror<_, _>| {
            let there = mirror.to_device()?;
            Ok(match () {
                () if back && mirror.to_host()? => Moved::Back,
                () if there => Moved::There,
                () => Moved::Nothing,
            })
        };
        let moved = match carry(mirror) {
            Ok(moved) => moved,
            Err(Lost(why)) => {
                *carried = None;
                self.end(why);
                return Moved::Back;
            }
        };
        if !back && moved != Moved::Nothing {
            // There may be more than one step carries.
            self.mirror.has_more();
            if mirror.sides().1.is_asked() {
                self.tender.hurry();
            }
        }
        let (copy, far) = mirror.sides();
        if !was_full && far.is_full() {
            // Who sleeps on what comes is to sleep until more can go, too.
            wake(&self.notified);
            self.tender.look();
        }
        if back {
            if copy.end().is_some() != *has_ended {
                *has_ended = !*has_ended;
                self.state().end = copy.end().map(text);
                wake(&self.notified);
            }
            if let Some(outcome) = copy.renewed() {
                self.state().renewed = Some(outcome.map_err(|why| text(&why)));
                self.changed.notify_all();
            }
        }
        moved
    }

    /// A step of a thread that means to sleep behind it. `looks_itself`: it takes what is put into the near window.
    fn prepare_wait(&self, looks_itself: bool) -> Prepared {
        self.turn(|carried| {
            let Some(Carried { mirror, .. }) = carried else { return Prepared::Lost };
            let is_notified = mirror.sides().1.prepare_wait();
            // A fresh value for what is published while this thread sleeps.
            self.is_told.store(true, Ordering::Relaxed);
            let moved = self.look(carried, looks_itself);
            let Some(Carried { mirror, .. }) = carried else { return Prepared::Lost };
            let far = mirror.sides().1;
            if moved {
                return Prepared::Moved;
            }
            Prepared::Sleep(far.descriptors(), if is_notified { LONGEST_SLEEP } else { far.pause() })
        })
    }

    /// The same behind its sleep. True: something was carried.
    fn woken(&self, is_ready: bool, looks_itself: bool) -> bool {
        self.turn(|carried| {
            let Some(Carried { mirror, .. }) = carried else { return false };
            if is_ready {
                let far = mirror.sides().1;
                far.woken();
                // The notification is taken from all, and its word is used up: who still sleeps is to have another one.
                far.prepare_wait();
            }
            self.look(carried, looks_itself)
        })
    }

    fn look(&self, carried: &mut Option<Carried<D>>, looks_itself: bool) -> bool {
        self.looks_itself.store(looks_itself, Ordering::Relaxed);
        let moved = self.carry_once(carried, true);
        self.looks_itself.store(false, Ordering::Relaxed);
        moved
    }

    fn end(&self, why: String) {
        // Whoever transfers is not to wait for its own end. Before the loss is known: who knows of it connects again.
        self.heap.end();
        let mut state = self.state();
        state.looks.end();
        state.lost = Some(why);
        drop(state);
        self.changed.notify_all();
        wake(&self.notified);
    }

    /// Until this program is notified, or so long. Notifications that come meanwhile are taken.
    pub(super) fn wait(&self, limit: Option<Duration>) {
        let prepared = if D::BLOCKS { Prepared::Sleep(Vec::new(), LONGEST_SLEEP) } else { self.prepare_wait(true) };
        let (mut descriptors, longest) = match prepared {
            Prepared::Sleep(descriptors, longest) => (descriptors, Some(longest)),
            Prepared::Moved => (Vec::new(), Some(Duration::ZERO)),
            Prepared::Lost => (Vec::new(), Some(LOST_NAP)),
        };
        let is_far = !descriptors.is_empty();
        descriptors.push((self.notified.clone(), PollFlags::IN));
        let mut ready = sleep(&descriptors, limit.into_iter().chain(longest).min());
        if ready.pop() == Some(true) {
            let _ = rustix::io::read(&*self.notified, &mut [0; 8]);
        }
        if is_far {
            self.woken(ready.contains(&true), true);
        }
    }

    /// The thread.
    pub(super) fn tend(&self) {
        let tender = &self.tender;
        let mut naps = 0;
        let mut last = Instant::now();
        while !self.is_released() {
            let is_polled = tender.was_polled();
            if is_polled || tender.has_sleeper() {
                naps = if is_polled { 0 } else { naps + 1 };
                if naps < MOST_NAPS {
                    tender.does(NAPS);
                    tender.sleep(NAP);
                } else {
                    tender.does(PARKED);
                    // Who has found it awake.
                    self.carry(false);
                    if tender.has_sleeper() {
                        tender.sleep(LONGEST_SLEEP);
                    }
                }
                tender.does(AWAKE);
                // What threads have published, and what has come for them, that look at nothing now; and whether the far side is
                // there, at which no look for messages looks.
                self.prepare_wait(false);
                continue;
            }
            if last.elapsed() < Duration::from_micros(patience::limit(SPIN)) {
                if self.woken(false, false) {
                    last = Instant::now();
                }
                patience::rest();
                continue;
            }
            tender.does(WATCHES);
            let prepared = if tender.has_sleeper() { Prepared::Moved } else { self.prepare_wait(false) };
            let (mut descriptors, longest) = match prepared {
                Prepared::Sleep(descriptors, longest) => (descriptors, Some(longest)),
                Prepared::Lost => (Vec::new(), None),
                Prepared::Moved => {
                    tender.does(AWAKE);
                    last = Instant::now();
                    continue;
                }
            };
            descriptors.push(tender.descriptor());
            let mut ready = sleep(&descriptors, longest);
            tender.does(AWAKE);
            if ready.pop() == Some(true) {
                tender.kicked();
            }
            if self.woken(ready.contains(&true), false) {
                last = Instant::now();
            }
        }
    }
}
