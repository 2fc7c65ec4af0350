//! I/O ports, and stopping (`docs/unsafe.md` "boards").

#![expect(unsafe_code)]
// UNSAFETY: `in`, `out` and `hlt` have no intrinsics, and only whoever knows the board can vouch for a port.

use core::arch::asm;

/// A port of one byte.
#[derive(Clone, Copy)]
pub(super) struct Port(u16);

impl Port {
    /// # Safety
    /// Neither reading the port nor writing any value to it makes a device touch memory of the image or change how it is mapped.
    pub(super) const unsafe fn new(port: u16) -> Self {
        Self(port)
    }

    pub(super) fn read(self) -> u8 {
        let value;
        // SAFETY: harmless, says the caller of `new`.
        unsafe { asm!("in al, dx", in("dx") self.0, out("al") value, options(nomem, nostack, preserves_flags)) };
        value
    }

    /// Not `nomem`: what was stored before is in memory when the machine ends.
    pub(super) fn write(self, value: u8) {
        // SAFETY: as above.
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
