//! What drivers of the embedded-hal ecosystem ask of a board: a [`Delay`], the doorbell as an output ([`Bell`]), and the line on
//! which the host rings as an input ([`Line`]). For boards, and for handlers, which keep drivers in a `Resource`.
//!
//! Values without state: there is one board.

use core::convert::Infallible;
use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{ErrorType, InputPin, OutputPin};

#[cfg(all(any(target_os = "none", hamr_bare), feature = "image"))]
use crate::bare::pins;
#[cfg(not(any(target_os = "none", hamr_bare)))]
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

/// The doorbell that the host hears: rings when it goes from low to high. A board without one is set in vain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bell {
    is_high: bool,
}

impl Bell {
    /// Low.
    pub const fn new() -> Self {
        Self { is_high: false }
    }
}

impl ErrorType for Bell {
    type Error = Infallible;
}

impl OutputPin for Bell {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.is_high = false;
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        if !core::mem::replace(&mut self.is_high, true) {
            pins::ring();
        }
        Ok(())
    }
}

/// The line that the host rings on: high from a ring until the image next goes to sleep, or wakes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line;

impl ErrorType for Line {
    type Error = Infallible;
}

impl InputPin for Line {
    fn is_high(&mut self) -> Result<bool, Infallible> {
        Ok(pins::is_rung())
    }
    fn is_low(&mut self) -> Result<bool, Infallible> {
        Ok(!pins::is_rung())
    }
}
