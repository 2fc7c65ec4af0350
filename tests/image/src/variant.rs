//! Which variant of this image it is: a byte of its file (`hamr_tests_kernels::variants`).

use core::hint::black_box;
use hamr_device_fw::{Config, OnFault};
use hamr_tests_kernels::variants::{MARK, NO_TASKS, RESETS};

#[repr(C)]
struct Variant {
    mark: [u8; MARK.len()],
    number: u8,
}

static VARIANT: Variant = Variant { mark: MARK, number: 0 };

/// The byte that stands in the file: the compiler takes it for unknown.
pub(crate) fn variant() -> u8 {
    let Variant { mark: _, number } = black_box(&VARIANT);
    *number
}

/// The settings of the variant, which are those of the build but for a few.
pub(crate) fn settings(built: Config) -> Config {
    match variant() {
        RESETS => Config { on_fault: OnFault::Reset, longest_call_ms: 200, ..built },
        NO_TASKS => Config { tasks: 0, ..built },
        _ => built,
    }
}
