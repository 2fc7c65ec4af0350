//! What drivers of the embedded-hal ecosystem ask of a board: a [`Delay`], the doorbell as an output ([`NotifyPin`]), and the line on
//! which the host notifies as an input ([`DoorbellPin`]). For boards, and for handlers, which keep drivers in a `Resource`.
//!
//! Values without state: there is one board.

use core::convert::Infallible;
use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{ErrorType, InputPin, OutputPin};

#[cfg(all(hamr_bare, feature = "image"))]
use crate::bare::pins;
#[cfg(not(hamr_bare))]
use crate::hosted::pins;

/// Waits by the processor's clock. Waiting takes the processor: nobody else is served meanwhile.
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

/// The doorbell that the host hears: rings when it goes from low to high. A board without one is set without result.
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

/// The line that the host notifies on: high from a ring until the image next goes to sleep, or wakes.
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
