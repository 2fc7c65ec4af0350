//! I/O ports, and stopping (contract "boards").

#![expect(unsafe_code)]
// UNSAFETY: `in`, `out` and `hlt` have no intrinsics, and only the author of the board knows what a
// port does.

use core::arch::asm;

/// A port of one byte.
#[derive(Clone, Copy)]
pub struct Port(u16);

impl Port {
    /// The port of this number.
    ///
    /// # Safety
    /// Neither reading the port nor writing any value to it makes a device touch memory of the
    /// image or change how it is mapped.
    pub const unsafe fn new(port: u16) -> Self {
        Self(port)
    }

    /// Reads it.
    pub fn read(self) -> u8 {
        let value;
        // SAFETY: harmless (contract of `new`).
        unsafe { asm!("in al, dx", in("dx") self.0, out("al") value, options(nomem, nostack, preserves_flags)) };
        value
    }

    /// Writes it. Everything stored before is in memory by then.
    pub fn write(self, value: u8) {
        // SAFETY: as above. Not `nomem`: the write may end the machine, and the host reads the
        // memory then.
        unsafe { asm!("out dx, al", in("dx") self.0, in("al") value, options(nostack, preserves_flags)) };
    }
}

/// Stops the processor for good.
pub(super) fn stop() -> ! {
    loop {
        // SAFETY: only waits; interrupts are off, and an NMI comes back here or ends the machine.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}
