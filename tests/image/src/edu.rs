//! QEMU's card `edu` (QEMU 7.2, `docs/specs/edu.txt`), whose engine copies between memory and a buffer of its own: how this image reaches
//! its host's memory where the machine has one.

#![expect(unsafe_code)]
// UNSAFETY: registers of the card, and memory that its engine writes (contract "boards").

use core::ptr::NonNull;
use hamr_comm::abi::sync::Order;
use hamr_comm::mirror::HostPort;
use hamr_device_fw::arch::BusOrder;
use hamr_device_fw::board::HostMemory;

/// Configuration space of the machine's first bus (QEMU 7.2, `hw/riscv/virt.c`), and bytes of a device's.
const ECAM: usize = 0x3000_0000;
const DEVICE: usize = 1 << 15;
/// Device and vendor.
const EDU: u32 = 0x11E8_1234;
/// Registers of a function: COMMAND, with memory and transactions on; the first base address.
const COMMAND: usize = 0x04;
const ON: u32 = 0b110;
const BAR: usize = 0x10;
/// Free for base addresses: behind all that [`hamr_device_fw::pci::Ivshmem`] takes.
const ADDRESS: u32 = 0x7000_0000;

/// Registers of the engine: source, destination, bytes, command.
const ENGINE: [usize; 4] = [0x80, 0x88, 0x90, 0x98];
const RUNS: u64 = 1;
/// Out of the buffer.
const OUT: u64 = 2;
/// The buffer's address for the engine, and bytes of a copy: half of it, as QEMU refuses all.
const BUFFER: u64 = 0x4_0000;
const PIECE: usize = 2048;

/// The card, and what else reaches the host's memory.
pub(crate) struct Edu {
    registers: usize,
    memory: HostMemory<(), BusOrder>,
}

/// A register of `T`.
fn register<T>(base: usize, off: usize) -> *mut T {
    core::ptr::with_exposed_provenance_mut(base + off)
}

impl Edu {
    /// The machine's. An error has `memory` back.
    pub(crate) fn find(memory: HostMemory<(), BusOrder>) -> Result<Self, HostMemory<(), BusOrder>> {
        // SAFETY: configuration space of 32 devices, which nothing else uses once the board has started; a read changes nothing.
        let is_it = |function: &usize| unsafe { register::<u32>(*function, 0).read_volatile() } == EDU;
        let Some(function) = (0..32).map(|number| ECAM + number * DEVICE).find(is_it) else { return Err(memory) };
        // SAFETY: as above, of this card: 1 MiB of registers appears where no other function is.
        unsafe {
            register::<u32>(function, BAR).write_volatile(ADDRESS);
            register::<u32>(function, COMMAND).write_volatile(ON);
        }
        Ok(Self { registers: ADDRESS as usize, memory })
    }

    /// Copies between an address and the buffer, and waits for the end.
    ///
    /// # Safety
    /// `bytes` are a piece at most; what is written is memory that no code uses meanwhile.
    unsafe fn copy(&mut self, from: u64, to: u64, bytes: usize, out: u64) {
        BusOrder::full();
        for (off, value) in ENGINE.into_iter().zip([from, to, bytes as u64, RUNS | out]) {
            // SAFETY: registers of this card, used here only; what the engine writes is the caller's promise.
            unsafe { register::<u64>(self.registers, off).write_volatile(value) };
        }
        // SAFETY: as above.
        while unsafe { register::<u64>(self.registers, ENGINE[3]).read_volatile() } & RUNS != 0 {
            core::hint::spin_loop();
        }
        BusOrder::full();
    }

    /// Where bytes of the host's memory are for the engine. `None`: there are not so many.
    fn host(&self, off: u64, bytes: usize) -> Option<u64> {
        let (base, len) = self.memory.place();
        off.checked_add(bytes as u64).filter(|end| *end <= len)?;
        Some(base.as_ptr().expose_provenance() as u64 + off)
    }
}

impl HostPort for Edu {
    fn load(&mut self, off: u64) -> u64 {
        self.memory.load(off)
    }
    fn store(&mut self, off: u64, value: u64) {
        self.memory.store(off, value);
    }
    fn pull(&mut self, off: u64, to: &mut [u8]) {
        let Some(host) = self.host(off, to.len()) else { return to.fill(0) };
        for (piece, from) in to.chunks_mut(PIECE).zip((host..).step_by(PIECE)) {
            let (to, bytes) = (NonNull::from_mut(piece).cast::<u8>(), piece.len());
            let to = to.as_ptr().expose_provenance() as u64;
            // SAFETY: the card's buffer; then `piece`, which is borrowed for it.
            unsafe {
                self.copy(from, BUFFER, bytes, 0);
                self.copy(BUFFER, to, bytes, OUT);
            }
        }
    }
    fn push(&mut self, off: u64, from: &[u8]) {
        let Some(host) = self.host(off, from.len()) else { return };
        for (piece, to) in from.chunks(PIECE).zip((host..).step_by(PIECE)) {
            // SAFETY: the card's buffer; then the host's memory, as a copy of the processor would write it.
            unsafe {
                self.copy(piece.as_ptr().expose_provenance() as u64, BUFFER, piece.len(), 0);
                self.copy(BUFFER, to, piece.len(), OUT);
            }
        }
    }
}
