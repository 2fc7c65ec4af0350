//! The usual board, which fails in two variants.

use crate::variant::variant;
use hamr_device_fw::bare::{BareBoard, Hardware, StartError};
use hamr_device_fw::board::Default as Usual;
use hamr_tests_kernels::variants::{FAILS_EARLY, FAILS_LATE};

pub(crate) struct Checks;

impl BareBoard for Checks {
    const NAME: &'static str = Usual::NAME;

    fn start() -> Result<Hardware, StartError> {
        assert!(variant() != FAILS_EARLY, "no bus to be found");
        let hardware = Usual::start()?;
        if variant() == FAILS_LATE {
            // Where a board would set up its own devices: it has found the window, and no host is served.
            hamr_tests_kernels::crashes::read_null();
        }
        Ok(hardware)
    }

    fn console(text: &str) {
        Usual::console(text);
    }

    fn exit(code: u8) -> ! {
        Usual::exit(code)
    }
}
