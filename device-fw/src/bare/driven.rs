//! An image that drives its host's memory: feature `driven`. Its window, and memory for what carries, are what `image!` reserves.

#![expect(unsafe_code)]
// UNSAFETY: a global allocator, over a static; a second window over the own one (contract "driven image").
//
// Contract "driven image". The allocator's blocks are a library's, in a static that only `image!` makes. Its lock is tried once: a tick
// that has interrupted an allocation allocates nothing, and a handler that ends in one has broken the runtime (`NoAbort`). The own window
// has a second one beside it, by which a tick also copies into the heap while a handler has views: transfers that the host asks for, as
// those of another processor would be (`docs/unsafe.md` "racing copies"). The host refuses those of buffers that a call names; of others
// accepted, as where both ends are in one program.

use super::runtime::{Found, RUNTIME};
use super::{BareBoard, Hardware, NoAbort, StartError, reserved_window};
use crate::board::HostMemory;
use crate::driving::Driving;
use alloc::boxed::Box;
use core::alloc::{GlobalAlloc, Layout};
use core::mem::offset_of;
use core::ptr::{NonNull, null_mut};
use hamr_comm::abi::preamble::{MAGIC, Preamble, feature, word};
use hamr_comm::mirror::HostPort;
use linked_list_allocator::Heap;
use spin::{Mutex, Once};

type BareDriving = Driving<Box<dyn HostPort>, ()>;

/// What carries, where the host has this image drive its memory.
static DRIVING: Once<BareDriving> = Once::new();

/// Memory of what carries.
static MEMORY: Mutex<Heap> = Mutex::new(Heap::empty());

/// Locks are tried only: nothing runs in an allocation but ticks, which allocate nothing then.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: blocks are those of `Heap`, which keeps the contract; a lock that is taken gives none, and takes none back.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _mark = NoAbort::begin();
        let block = MEMORY.try_lock().and_then(|mut memory| memory.allocate_first_fit(layout).ok());
        block.map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let _mark = NoAbort::begin();
        if let (Some(mut memory), Some(block)) = (MEMORY.try_lock(), NonNull::new(block)) {
            // SAFETY: a block of `alloc`, with its layout (contract of this function).
            unsafe { memory.deallocate(block, layout) };
        }
    }
}

unsafe extern "Rust" {
    /// Defined by `image!`.
    #[link_name = "__hamr_driver_memory"]
    safe fn memory() -> (NonNull<u8>, usize);
}

/// Has the image drive the memory that the board has found, where a host's offer says so.
pub(super) fn start<B: BareBoard>(found: Found, mut hardware: Hardware) -> Result<(Found, Hardware), StartError> {
    let (base, len) = memory();
    if len == 0 || !is_to_drive(&mut hardware) {
        return Ok((found, hardware));
    }
    // SAFETY: a static that only `image!` makes, of `len` bytes aligned to 4096, which no code refers to but this function, once.
    unsafe { MEMORY.lock().init(base.as_ptr(), len) };
    let own = reserved_window()?;
    // SAFETY: what is copied through it beneath a view are transfers of the host, which refuses those of buffers that a call names:
    // racing copies, as another processor's would be.
    let beside = unsafe { own.beside() };
    let Hardware { window, registers, timed_sleep } = hardware;
    let port = B::host_port(HostMemory::new(window));
    let driving = Driving::new(port, beside, Box::new(|| RUNTIME.notify()));
    let driving = driving.map_err(|_| StartError::Board("expected memory for a window's preamble, there is less"))?;
    DRIVING.call_once(|| driving);
    let [alive, own_doorbell] = [word::DEVICE_ALIVE, word::DEVICE_DOORBELL].map(|off| own.keep_word(off).ok());
    Ok((Found { alive, own_doorbell, ..found }, Hardware { window: own, registers, timed_sleep }))
}

/// Waits for a host's offer.
fn is_to_drive(hardware: &mut Hardware) -> bool {
    #[cfg(feature = "world")]
    if super::world::is_found() {
        return false;
    }
    let load =
        |window: &hamr_comm::abi::window::DeviceWindow<()>, off| window.word(off).map_or(0, |word| word.observe());
    let mut rounds = 0;
    while load(&hardware.window, 0) != MAGIC {
        hardware.timed_sleep.idle(rounds);
        rounds = rounds.saturating_add(1);
    }
    load(&hardware.window, offset_of!(Preamble, features_required) as u64) & feature::DRIVEN != 0
}

/// What carries.
pub(super) fn driving() -> Option<&'static BareDriving> {
    DRIVING.get()
}

/// Of a tick, while a host is served. True: a handler runs for long.
pub(super) fn beat() -> bool {
    // A handler may be in the allocator.
    let driving = driving().filter(|_| RUNTIME.activity().is_some() && !MEMORY.is_locked());
    driving.is_some_and(BareDriving::beat)
}

/// What was published last is carried.
pub(super) fn carry() {
    driving().into_iter().for_each(BareDriving::carry);
}

/// The image is about to sleep. False: it is not to.
pub(super) fn prepare_sleep() -> bool {
    driving().is_none_or(BareDriving::prepare_sleep)
}

/// It has slept.
pub(super) fn end_sleep() {
    driving().into_iter().for_each(BareDriving::end_sleep);
}

/// Was what carries abandoned, or the allocator?
pub(super) fn is_abandoned() -> bool {
    MEMORY.is_locked() || driving().is_some_and(BareDriving::is_abandoned)
}

/// The memory of `Config::driven`.
#[doc(hidden)]
#[macro_export]
macro_rules! __driver_memory {
    ($($field:ident = $value:expr),*) => {
        #[unsafe(link_section = ".hamr.window")]
        static HAMR_DRIVER_MEMORY: $crate::bare::WindowMemory<{ $crate::__config!($($field = $value),*).driven }> =
            $crate::bare::WindowMemory::new();
        /// Called where the image starts.
        #[unsafe(no_mangle)]
        fn __hamr_driver_memory() -> (::core::ptr::NonNull<u8>, usize) {
            HAMR_DRIVER_MEMORY.place()
        }
    };
}
