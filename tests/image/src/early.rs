//! An image whose board fails before it has found the window.
#![no_std]
#![no_main]

use hamr_kernels as _;

/// The usual board with a fault.
#[cfg(any(target_os = "none", hamr_bare))]
mod board {
    use hamr_device_fw::bare::{BareBoard, Hardware, StartError};
    use hamr_device_fw::board::Default as Usual;

    pub(crate) struct Early;

    impl BareBoard for Early {
        const NAME: &'static str = "breaks-early";

        fn start() -> Result<Hardware, StartError> {
            panic!("no bus to be found");
        }

        fn console(text: &str) {
            Usual::console(text);
        }

        fn exit(code: u8) -> ! {
            Usual::exit(code)
        }
    }
}

hamr_device_fw::image!(board = board::Early);
