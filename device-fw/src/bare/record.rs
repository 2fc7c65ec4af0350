//! A fault, as it is stored until the reply of its call is published.

use super::{TEXT, Text, console};
use hamr_comm::abi::status::Status;
use hamr_comm::fault::Trace;

/// One fault.
pub(crate) struct Fault {
    pub(super) status: Status,
    pub(super) text: Text<TEXT>,
    pub(super) trace: Trace,
}

impl Fault {
    /// Nothing was stored. No constant, because an image would contain all its bytes, most of them
    /// the room of an empty text.
    pub(super) const fn none() -> Self {
        Self { status: Status::PANIC, text: Text::new(), trace: Trace::NONE }
    }

    pub(crate) fn status(&self) -> Status {
        self.status
    }
    pub(crate) fn text(&self) -> &str {
        self.text.as_str()
    }
    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Reports it on the console: for a fault that no call has caused.
    #[inline(never)]
    pub(super) fn report(&self) {
        let Trace { pc, address, .. } = self.trace;
        console::report(self.text(), format_args!(", pc {pc:#x}, address {address:#x} (in the runtime)"));
    }
}
