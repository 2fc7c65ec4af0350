//! Handlers that enter a no-abort section, as parts of the runtime do, and fail inside of it. Only
//! bare-metal images have the section.
//!
//! Tests include this file as well, for its signatures.

use hamr_comm::{Context, offload};

/// Panics in a no-abort section inside of another one.
#[offload(device, name = "hamr_checks::marks::breaks")]
pub(crate) fn breaks(_cx: &mut Context) -> u32 {
    let _outer = mark();
    let _inner = mark();
    panic!("broken in its middle");
}

/// Stays in the section for this long, and loops for ever afterwards.
#[offload(device, name = "hamr_checks::marks::puts_off")]
pub(crate) fn puts_off(_cx: &mut Context, micros: u32) -> u32 {
    use embedded_hal::delay::DelayNs;
    {
        let _outer = mark();
        drop(mark());
        hamr_device_fw::hal::Delay.delay_us(micros);
    }
    loop {
        core::hint::spin_loop();
    }
}

/// Enters a section and forgets its guard.
#[offload(device, name = "hamr_checks::marks::forgets")]
pub(crate) fn forgets(_cx: &mut Context) -> u32 {
    core::mem::forget(mark());
    0
}

/// Traps between the parts of a log line.
#[offload(device, name = "hamr_checks::marks::breaks_a_line")]
pub(crate) fn breaks_a_line(_cx: &mut Context) -> u64 {
    #[cfg(hamr_bare)]
    hamr_comm::info!("a line with {} in its middle", Trap);
    0
}

/// A value whose formatting traps.
#[cfg(all(feature = "device", any(target_os = "none", hamr_bare)))]
struct Trap;

#[cfg(all(feature = "device", hamr_bare))]
impl defmt::Format for Trap {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "the value {}", hamr_tests_kernels::crashes::read_null());
    }
}

#[cfg(all(feature = "device", hamr_bare))]
fn mark() -> hamr_device_fw::bare::NoAbort {
    hamr_device_fw::bare::NoAbort::begin()
}

#[cfg(all(feature = "device", not(hamr_bare)))]
use hosted::mark;

/// The replacement of the section where there is none.
#[cfg(all(feature = "device", not(any(target_os = "none", hamr_bare))))]
mod hosted {
    pub(super) struct NoMark;

    impl Drop for NoMark {
        fn drop(&mut self) {}
    }

    pub(super) fn mark() -> NoMark {
        NoMark
    }
}
