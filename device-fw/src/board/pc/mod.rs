//! What every PC has, with any chipset: ports, the old interrupt controllers, a console, an exit.
//! For boards of x86_64, also those outside of this crate.

#![expect(unsafe_code)]
// UNSAFETY: the numbers of ports, the same since the first PC, are stated here (contract
// "boards").

mod port;
mod uart;

pub use port::Port;

// SAFETY: isa-debug-exit, where QEMU's command line puts it: a write ends the machine, and does
// nothing without the device.
const DEBUG_EXIT: Port = unsafe { Port::new(0xF4) };
// SAFETY: the interrupt masks of the first 8259; with any value, it reaches no memory.
const FIRST_MASK: Port = unsafe { Port::new(0x21) };
// SAFETY: and of the second.
const SECOND_MASK: Port = unsafe { Port::new(0xA1) };

/// Silences the old interrupt controllers, which images do not use.
pub fn mask_interrupts() {
    FIRST_MASK.write(0xFF);
    SECOND_MASK.write(0xFF);
}

/// Writes to COM1: [`crate::bare::BareBoard::console`].
pub fn console(text: &str) {
    text.bytes().for_each(uart::put);
}

/// Ends a machine that has `-device isa-debug-exit,iobase=0xf4,iosize=4`, and stops the processor
/// elsewhere: [`crate::bare::BareBoard::exit`]. QEMU ends with `2 * code + 1`: the process that
/// started it halves that.
pub fn exit(code: u8) -> ! {
    DEBUG_EXIT.write(code);
    port::stop()
}
