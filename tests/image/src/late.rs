//! An image whose board fails after it has found the window, and before a host is served.
#![no_std]
#![no_main]

use hamr_kernels as _;

/// The usual board with a fault.
#[cfg(any(target_os = "none", hamr_bare))]
mod board {
    use hamr_device_fw::bare::{BareBoard, Hardware, StartError};
    use hamr_device_fw::board::Default as Usual;

    pub(crate) struct Late;

    impl BareBoard for Late {
        const NAME: &'static str = "breaks-late";

        fn start() -> Result<Hardware, StartError> {
            let hardware = Usual::start()?;
            // The fault is where this board would set up its own devices.
            hamr_tests_kernels::crashes::read_null();
            Ok(hardware)
        }

        fn console(text: &str) {
            Usual::console(text);
        }

        fn exit(code: u8) -> ! {
            Usual::exit(code)
        }
    }
}

hamr_device_fw::image!(board = board::Late);
