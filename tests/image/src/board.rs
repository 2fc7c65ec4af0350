//! The usual board, which fails in two variants, and on riscv64 uses the engine of a card where there is one.

#[cfg(target_arch = "riscv64")]
use crate::edu::Edu;
use crate::variant::variant;
#[cfg(target_arch = "riscv64")]
use alloc::boxed::Box;
#[cfg(target_arch = "riscv64")]
use hamr_comm::mirror::HostPort;
#[cfg(target_arch = "riscv64")]
use hamr_device_fw::arch::BusOrder;
use hamr_device_fw::bare::{BareBoard, Hardware, StartError};
use hamr_device_fw::board::Default as Usual;
#[cfg(target_arch = "riscv64")]
use hamr_device_fw::board::HostMemory;
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

    /// By the engine of a card, where there is one.
    #[cfg(target_arch = "riscv64")]
    fn host_port(memory: HostMemory<(), BusOrder>) -> Box<dyn HostPort> {
        match Edu::find(memory) {
            Ok(edu) => Box::new(edu),
            Err(memory) => Box::new(memory),
        }
    }

    fn console(text: &str) {
        Usual::console(text);
    }

    fn exit(code: u8) -> ! {
        Usual::exit(code)
    }
}
