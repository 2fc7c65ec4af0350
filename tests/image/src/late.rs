//! An image whose board fails after it has found the window, and before anybody is served.
#![no_std]
#![no_main]

use hamr_kernels as _;

/// The usual board, broken.
#[cfg(hamr_bare)]
mod board {
    use hamr_device_fw::bare::{BareBoard, Hardware, StartError};
    use hamr_device_fw::board::Default as Usual;

    pub(crate) struct Late;

    impl BareBoard for Late {
        const NAME: &'static str = "breaks-late";

        fn start() -> Result<Hardware, StartError> {
            let hardware = Usual::start()?;
            // What this board's own devices would need.
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
