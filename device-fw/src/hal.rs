//! What drivers of the embedded-hal ecosystem need of a board: a [`Delay`], the host's doorbell as
//! an output ([`NotifyPin`]), and this device's doorbell as an input ([`DoorbellPin`]). Boards use
//! them, and handlers, which keep drivers in a `Resource`.
//!
//! The values refer to the one board that an image has.

use core::convert::Infallible;
use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{ErrorType, InputPin, OutputPin};

#[cfg(all(hamr_bare, feature = "image"))]
use crate::bare::pins;
#[cfg(not(hamr_bare))]
use crate::hosted::pins;

/// Waits by the processor's clock. Waiting keeps the processor busy: no other call is served
/// meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delay;

impl DelayNs for Delay {
    fn delay_ns(&mut self, ns: u32) {
        let begin = pins::now_ns();
        // One more than asked for: the clock may be about to step.
        while pins::now_ns().wrapping_sub(begin) <= u64::from(ns) {
            core::hint::spin_loop();
        }
    }
}

impl Delay {
    /// Nanoseconds of the clock that [`DelayNs`] waits by, from some moment on.
    pub fn now_ns() -> u64 {
        pins::now_ns()
    }
}

/// The host's doorbell: the host is notified when the pin goes from low to high. On a board without
/// a doorbell setting the pin has no effect.
#[derive(Clone, Copy, Debug, Default)]
pub struct NotifyPin {
    is_high: bool,
}

impl NotifyPin {
    /// Low.
    pub const fn new() -> Self {
        Self { is_high: false }
    }
}

impl ErrorType for NotifyPin {
    type Error = Infallible;
}

impl OutputPin for NotifyPin {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.is_high = false;
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        if !core::mem::replace(&mut self.is_high, true) {
            pins::notify();
        }
        Ok(())
    }
}

/// This device's doorbell: high from a notification until the image next goes to sleep, or wakes.
#[derive(Clone, Copy, Debug, Default)]
pub struct DoorbellPin;

impl ErrorType for DoorbellPin {
    type Error = Infallible;
}

impl InputPin for DoorbellPin {
    fn is_high(&mut self) -> Result<bool, Infallible> {
        Ok(pins::is_notified())
    }
    fn is_low(&mut self) -> Result<bool, Infallible> {
        Ok(!pins::is_notified())
    }
}
