//! The [`Board`] that the serve loop runs on, made of a [`BareBoard`] that has started.

#[cfg(feature = "driven")]
use super::driven;
use super::runtime::{Found, HostDoorbell, RUNTIME};
use super::{BareBoard, Hardware, isa};
use super::{doorbell, logging, memory, tick};
use crate::Board;
use crate::arch::{self, SPIN_ROUNDS, TimedSleep};
use crate::pci::Registers;
use core::marker::PhantomData;
use hamr_comm::abi::preamble::word;
use hamr_comm::abi::window::{DeviceWindow, Window};
use hamr_comm::am::{Activity, ControlHandoff};

/// The card's number of the program that serves a section beside the host: peer 2, vector 0 (abi §16).
const SIDE_DOORBELL: u32 = 2 << 16;

/// A board that has started.
pub(super) struct Running<B> {
    window: Option<DeviceWindow<()>>,
    registers: Option<Registers>,
    timed_sleep: TimedSleep,
    _board: PhantomData<B>,
}

impl Found {
    pub(super) fn of(hardware: &Hardware) -> Self {
        let Hardware { window, registers, timed_sleep } = hardware;
        Self {
            hz: timed_sleep.hz().max(1),
            doorbell: registers.as_ref().and_then(|registers| HostDoorbell::of(registers, window)),
            alive: window.keep_word(word::DEVICE_ALIVE).ok(),
            own_doorbell: window.keep_word(word::DEVICE_DOORBELL).ok(),
            acknowledge: timed_sleep.acknowledge(),
        }
    }
}

impl<B> Running<B> {
    pub(super) fn new(hardware: Hardware) -> Self {
        let Hardware { window, registers, timed_sleep } = hardware;
        isa::tick::prepare(timed_sleep.timer());
        Self { window: Some(window), registers, timed_sleep, _board: PhantomData }
    }
}

impl<B: BareBoard> Board for Running<B> {
    type Keep = ();
    type Order = arch::BusOrder;

    fn name(&self) -> &'static str {
        B::NAME
    }
    fn memory(&self) -> u64 {
        memory::ram()
    }
    fn build_id(&self) -> [u8; 20] {
        memory::build_id()
    }
    fn window(&mut self) -> Option<DeviceWindow<()>> {
        self.window.take()
    }
    fn set_activity(&mut self, activity: Option<&Activity>) {
        // This is before the first sleep, and so before the host notifies.
        if let (Some(_), Some(registers)) = (activity, &self.registers) {
            doorbell::name(registers.doorbell());
        }
        RUNTIME.set_activity(activity);
    }
    fn control_handoff(&self) -> Option<&'static ControlHandoff<(), arch::BusOrder>> {
        Some(&RUNTIME.control)
    }
    fn has_heartbeat(&self) -> bool {
        true
    }
    #[cfg(feature = "world")]
    fn is_rank(&self) -> bool {
        super::world::is_rank()
    }
    #[cfg(feature = "modules")]
    fn left(&mut self) {
        super::next_image::enter();
    }
    fn logs(&self) -> bool {
        true
    }
    fn logs_to(&mut self, section: Option<Window<()>>) {
        logging::attach(section);
    }
    #[cfg(feature = "driven")]
    fn is_driver(&self) -> bool {
        driven::driving().is_some()
    }
    fn notify(&mut self) {
        // What carries finds it, and notifies the host behind that.
        if !self.is_driver() {
            RUNTIME.notify();
        }
    }
    fn side_doorbell(&self) -> fn() {
        || {
            RUNTIME
                .found()
                .and_then(|found| found.doorbell.as_ref())
                .into_iter()
                .for_each(|d| d.notify_peer(SIDE_DOORBELL))
        }
    }
    #[inline]
    fn idle(&mut self, rounds: u32) {
        if rounds < SPIN_ROUNDS {
            return self.timed_sleep.idle(rounds);
        }
        timed_sleep(&mut self.timed_sleep, rounds);
    }
    fn doorbell(&self) -> bool {
        self.timed_sleep.has_doorbell()
    }
    fn sleep(&mut self, micros: u32) {
        sleep(&mut self.timed_sleep, micros);
    }
    // Not inlined: two divisions, at several places.
    #[inline(never)]
    fn micros(&mut self) -> u64 {
        self.timed_sleep.micros()
    }
    fn read_back(&mut self) {
        if let Some(registers) = &self.registers {
            // The value does not matter: the completion of the read comes behind the host's writes.
            let _ = registers.position();
        }
    }
}

// Not generic, so that they are compiled with this crate, for size.

/// A timed sleep between two rounds.
#[inline(never)]
fn timed_sleep(timed_sleep: &mut TimedSleep, rounds: u32) {
    // The sleep uses the timer, and a tick would end it.
    isa::tick::pause();
    timed_sleep.idle(rounds);
    tick::beat();
    isa::tick::resume();
}

/// Sleeps until the host notifies or so many microseconds have passed.
#[inline(never)]
fn sleep(timed_sleep: &mut TimedSleep, micros: u32) {
    #[cfg(feature = "driven")]
    if !driven::prepare_sleep() {
        return;
    }
    // This masks interrupts too: a notification that comes from here on stays pending and ends the
    // sleep.
    isa::tick::pause();
    if !doorbell::was_notified() {
        timed_sleep.sleep(micros);
        // The next round finds what ended this sleep, so it need not end the next sleep.
        doorbell::was_notified();
    }
    tick::beat();
    isa::tick::resume();
    #[cfg(feature = "driven")]
    driven::end_sleep();
}
