//! QEMU's inter-VM shared memory function: BAR0 has four registers, BAR2 is the memory (QEMU,
//! `specs/ivshmem-spec`; contract "ivshmem").

#![expect(unsafe_code)]
// UNSAFETY: registers and memory of a function are addresses that the bus gave it.
//
// Contract "ivshmem". BAR0 and BAR2 were sized, placed where the board states free, mapped addresses,
// and enabled; a second function's BAR2 right behind that of the first, at addresses free for both.
// The second window over BAR2 (`crash::WINDOW`), for faults while no host is served, stores by a
// checked layout and makes no view.

use super::{Bar, Bus, Function, Message, PciError, Space, msix};
use core::ptr::NonNull;
use hamr_comm::abi::window::DeviceWindow;
use volatile_register::{RO, RW, WO};

const VENDOR: u16 = 0x1AF4;
const DEVICE: u16 = 0x1110;

/// BAR0.
#[repr(C)]
struct RegisterBlock {
    interrupt_mask: RW<u32>,
    interrupt_status: RW<u32>,
    iv_position: RO<u32>,
    doorbell: WO<u32>,
}
const _: () = assert!(core::mem::offset_of!(RegisterBlock, doorbell) == 12);

/// The function's registers.
pub struct Registers(NonNull<RegisterBlock>);

// SAFETY: device memory without thread affinity; `&Registers` offers nothing.
unsafe impl Send for Registers {}

impl Registers {
    fn block(&self) -> &RegisterBlock {
        // SAFETY: BAR0 is mapped and decodes for as long as the image runs (`Ivshmem::find`), and
        // every register is a cell.
        unsafe { self.0.as_ref() }
    }

    /// This side's number among those that share the memory; 0 with `ivshmem-plain`, which has no
    /// server.
    pub fn position(&self) -> u32 {
        self.block().iv_position.read()
    }

    /// The same registers once more: writes to the doorbell do not disturb each other.
    #[cfg(feature = "image")]
    pub(crate) fn again(&self) -> Self {
        Self(self.0)
    }

    /// What peers write to their doorbell registers to notify this device: its number and vector 0.
    pub fn doorbell(&self) -> u32 {
        self.position() << 16
    }

    /// Notifies the peer that `doorbell` belongs to. Without a server, or without such a peer,
    /// nothing happens.
    pub fn notify(&mut self, doorbell: u32) {
        // SAFETY: any value may be written; the device only signals.
        unsafe { self.block().doorbell.write(doorbell) };
    }
}

/// The function, enabled.
pub struct Ivshmem<'b> {
    /// Its registers.
    pub registers: Registers,
    function: Function<'b>,
    low: &'b Space,
    memory: NonNull<u8>,
    len: usize,
}

impl<'b> Ivshmem<'b> {
    /// Finds the function and enables its registers and memory.
    ///
    /// # Safety
    /// The address spaces of `bus` are free addresses that the board maps: `low` and `high` for
    /// registers, and as normal, cacheable memory any address below `reach` that firmware or this
    /// function gives the memory, two functions' one behind the other. Called once.
    pub unsafe fn find(bus: &'b mut Bus) -> Result<Self, PciError> {
        #[cfg(feature = "split")]
        let behind = Self::place_second(bus)?;
        #[cfg(not(feature = "split"))]
        let behind = 0;
        let mut function = bus.ecam.find(VENDOR, DEVICE, 0)?;
        let registers = Bar::enable(&mut function, 0, &bus.low, &bus.low)?;
        let memory = Bar::enable(&mut function, 2, &bus.low, &bus.high)?;
        let memory = Bar { len: memory.len + behind, ..memory };
        match memory.address.checked_add(memory.len) {
            Some(end) if end <= bus.reach => {}
            end => return Err(PciError::OutOfReach { bar: 2, end: end.unwrap_or(u64::MAX) }),
        }
        let at = |bar: Bar, index| {
            NonNull::new(core::ptr::with_exposed_provenance_mut(bar.address as usize))
                .ok_or(PciError::NotMemory { bar: index })
        };
        Ok(Self {
            registers: Registers(at(registers, 0)?.cast::<RegisterBlock>()),
            function,
            low: &bus.low,
            memory: at(memory, 2)?,
            len: memory.len as usize,
        })
    }

    /// Where there is a second function, its memory, for what the host polls, follows that of the first. Returns its bytes.
    #[cfg(feature = "split")]
    fn place_second(bus: &mut Bus) -> Result<u64, PciError> {
        let Ok(mut second) = bus.ecam.find(VENDOR, DEVICE, 1) else { return Ok(0) };
        let second_len = Bar::len(&mut second, 2)?;
        let mut first = bus.ecam.find(VENDOR, DEVICE, 0)?;
        let first_len = Bar::len(&mut first, 2)?;
        let both = first_len.saturating_mul(2);
        // Each lies at a multiple of its own size.
        let at = if second_len > first_len { None } else { bus.high.take(both) };
        let at = at.ok_or(PciError::NoRoom { bar: 2, bytes: both })?;
        Bar::place(&mut first, 2, at);
        let mut second = bus.ecam.find(VENDOR, DEVICE, 1)?;
        Bar::place(&mut second, 2, at + first_len);
        Bar::enable(&mut second, 2, &bus.low, &bus.high)?;
        Ok(second_len)
    }

    /// Makes a notification of this device interrupt by `message`. False when the function has no
    /// doorbell (`ivshmem-plain`).
    ///
    /// # Safety
    /// A write of the message's data to its address interrupts, and does nothing else.
    pub unsafe fn listen(&mut self, message: Message) -> Result<bool, PciError> {
        // SAFETY: the board maps the addresses of `bus` (contract of `find`); the message only
        // interrupts (contract of this function).
        unsafe { msix::send(&mut self.function, self.low, message) }
    }

    /// The memory as a window, or with the feature `world` where that is a world, the rank's home;
    /// and the registers.
    pub fn into_parts(self) -> (DeviceWindow<()>, Registers) {
        // SAFETY: the memory is decoded for as long as the image runs (`find`), that of a second function
        // right behind it; it is aligned to the first one's size, which is a power of two of at least 4 KiB,
        // and nothing else in the image refers to it; `self` is consumed, and `find` runs once, so there is
        // one of these.
        let window = unsafe { DeviceWindow::new(self.memory, self.len, ()) };
        #[cfg(all(feature = "world", hamr_machine))]
        let window = crate::rank::find_home(window, self.registers.position());
        // SAFETY: as in `bare::main`, where the same is done for boards that find their window in
        // another way.
        #[cfg(feature = "image")]
        crate::crash::found(unsafe { window.beside() });
        (window, self.registers)
    }
}
