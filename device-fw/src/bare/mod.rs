//! The bare-metal image: from the processor's boot code to the serve loop, and back to it after a
//! fault.
//!
//! There are two stacks. The device's state is on the boot stack, in a frame that never ends; the
//! serve loop and the handlers it calls run on the serve stack. A panic or a trap abandons the
//! serve stack with all its frames, ends the call that was running, and starts the loop again. A
//! call without a fault pays nothing for this.
//!
//! `<isa>/` has the part of each instruction set that calls the runtime: `boot`, from the first
//! instruction to Rust code; `traps`, which end a handler with a fault; `tick`, the interrupt that
//! finds runaways. What the runtime calls of a processor is in `arch`.
//!
//! # An instruction set
//!
//! `boot.rs` has `_start` in section `.text.hamr.entry`, which ends in a jump to `crate::bare::entry`; the entries of
//! `traps.rs` call `fault::trapped` on a stack of their own. Before the jump, boot code has
//!
//! 1. parked all processors but one, and masked interrupts;
//! 2. a stack: `__hamr_boot_stack_top`, aligned as C's ABI demands, with an end for chains of frames;
//! 3. zeroed `__hamr_bss_start..end`, on which nothing relies earlier, page tables in `.bss` included;
//! 4. floating point and vectors on, in a defined mode: compiled code uses them anywhere;
//! 5. the trap vector set, on `__hamr_trap_stack_top`, so that an overflown stack is reported;
//! 6. translation and caches on where atomics or unaligned accesses need normal memory (aarch64); earlier
//!    code uses neither;
//! 7. where translation can do it: page 0, `__hamr_serve_guard..__hamr_serve_stack` and the guards of tasks
//!    trap, code is read-only, data cannot be run. Widths (`__hamr_serve_guard_bytes`, `guards::bytes` in
//!    `bare/<isa>`): `docs/faults.md`. Where boot code cannot set those of tasks, `guards::set` does, and
//!    returns their number.
//!
//! `run` saves the registers that a call preserves, floating point control too (contract "abandoning").
//! Traps call `abort` from the trap stack, where nothing may stay pending: an unacknowledged interrupt, a
//! level of nesting, a processor still in a trap (aarch64's stack select, x86_64's NMI).

#![expect(unsafe_code)]
// UNSAFETY: symbols of the linker script, the switch of stacks, and one raw pointer to the device
// across it (contract "abandoning").
//
// Contract "abandoning". A panic or trap in a handler leaves the serve stack, and that of the running
// task, for good by `stack::abort`; no destructor runs. Sound, because:
// - Only the serve loop and its callees run on these stacks. `bare::main` leaves the device alone
//   meanwhile, and borrows it again afterwards.
// - Before a handler runs, the poller notes the call for `fail_current` and writes its state to memory
//   (`spill_state`, `comm/src/am/dispatcher.rs`).
// - A handler's frames own views (no destructor), values, and `Resource` marks (`docs/faults.md`).
//   Borrows that rely on a destructor for soundness need a heap or threads, which images lack; where one has an allocator
//   (contract "driven image"), what it has allocated is leaked with its frames, and no library in an image relies on more.
// - The tick aborts a call only while the poller states that one runs, in atomics, not when it writes
//   the reply. `NoAbort` defers the abort. A begun fault path is not aborted.
// - After a fault in the runtime itself, only the poller's window and scratch memory are used again;
//   any fault during a fault ends the machine, as does, after the crash record, one before a host is
//   served (contract "ivshmem").
// - Backtraces read the stacks as words, between symbols of the linker script. Trap entries have their
//   own stacks; except the tick's they never return to the handler.
// - Interrupts and faults touch one static, `RUNTIME` (`bare/runtime.rs`), whose locks an interrupt
//   only tries. `Device` takes its pointer `activity` back before it moves the poller.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "arm")]
mod arm;
mod board;
mod console;
pub(crate) mod doorbell;
#[cfg(feature = "driven")]
mod driven;
mod early;
pub(crate) mod fault;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod guard_pages;
mod logging;
mod memory;
#[cfg(any(feature = "modules", not(any(target_arch = "riscv64", target_arch = "arm"))))]
mod module_memory;
#[cfg(feature = "modules")]
mod modules;
#[cfg(feature = "modules")]
mod mover;
#[cfg(feature = "modules")]
mod next_image;
mod no_abort;
pub(crate) mod pins;
mod record;
#[cfg(target_arch = "riscv64")]
mod riscv64;
pub(crate) mod runtime;
mod stacks;
#[cfg(feature = "tasks")]
mod task_stack;
pub(crate) mod tick;
mod walk;
#[cfg(feature = "world")]
mod world;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as isa;
#[cfg(target_arch = "arm")]
use arm as isa;
#[cfg(target_arch = "riscv64")]
use riscv64 as isa;
#[cfg(target_arch = "x86_64")]
use x86_64 as isa;

pub use crate::board::bare_board::{BareBoard, Hardware, StartError};
#[doc(hidden)]
pub use crate::board::window::WindowMemory;
pub use crate::board::window::reserved_window;
pub use memory::ram;
#[cfg(feature = "modules")]
#[doc(hidden)]
pub use module_memory::reserve_modules;
pub use no_abort::NoAbort;
#[cfg(feature = "tasks")]
#[doc(hidden)]
pub use task_stack::reserve;

use crate::{Config, Device, OnFault, arch, crash};
use core::fmt::Write;
use hamr_comm::abi::rings::CrashRecord;
use hamr_comm::fault::{CUT, front};
use hamr_comm::registry::Table;
use hamr_comm::{error, info};
use runtime::{Found, RUNTIME};

/// Exit code of an image that cannot start.
const CANNOT_START: u8 = 2;
/// Exit code of an image whose runtime is broken.
pub(crate) const BROKEN: u8 = 101;

unsafe extern "Rust" {
    /// Defined by `image!`: [`main`] with the board it was given.
    #[link_name = "__hamr_main"]
    safe fn hamr_main() -> !;
}

/// Boot code jumps here.
pub(crate) extern "C" fn entry() -> ! {
    hamr_main()
}

/// Memory for one long message. A lock gives it away, once; as zeros it takes no bytes of the image's file.
#[doc(hidden)]
pub type Scratch<const BYTES: usize> = spin::Mutex<[u8; BYTES]>;

/// The image's main: what `image!` calls, with the number of its tasks.
pub fn main<B: BareBoard, const TASKS: usize>(config: Config, scratch: &'static spin::Mutex<[u8]>) -> ! {
    let build = u64::from_be_bytes(memory::build_id().first_chunk().copied().unwrap_or_default());
    info!("image starts on {}, build {:016x}", B::NAME, build);
    let started = B::start().map(|hardware| (Found::of(&hardware), hardware));
    #[cfg(feature = "driven")]
    let started = started.and_then(|(found, hardware)| driven::start::<B>(found, hardware));
    let (found, hardware) = match started {
        Ok(started) => started,
        Err(why) => {
            console::line(format_args!("hamr image: {why}"));
            B::exit(CANNOT_START);
        }
    };
    // SAFETY: it is used while no host is served, when no view exists that anything goes on with,
    // and stores control words, the handler table and the crash record.
    crash::found(unsafe { hardware.window.beside() });
    // SAFETY: in this frame, which never ends, and not written any more.
    unsafe { RUNTIME.set_found(&found) };
    #[cfg(feature = "world")]
    world::join();
    info!("a window of {} bytes; timer at {} Hz", hardware.window.len(), hardware.timed_sleep.hz());
    let board = board::Running::<B>::new(hardware);
    #[cfg(feature = "tasks")]
    // SAFETY: here only, and this function runs once.
    let mut places = unsafe { task_stack::places::<TASKS>() };
    let mut scratch = scratch.lock();
    let Some(device) = Device::new(board, Table::of_this_image(), &mut scratch) else {
        console::line(format_args!("hamr image: the board has no window"));
        B::exit(CANNOT_START);
    };
    #[cfg(feature = "tasks")]
    let device = device.with_tasks(&mut places, config.task_stack);
    let mut device = device;
    tick::limit(config.longest_call_ms);
    #[cfg(feature = "modules")]
    modules::take();
    let device = &raw mut device;
    loop {
        fault::arm();
        isa::tick::resume();
        // SAFETY: the serve stack is used here only and ends at its symbol; `serve` never returns.
        // Abandoned frames own nothing but borrows of the device, which is in this frame.
        unsafe { arch::run(memory::serve_stack_top(), serve::<B>, device.cast()) };
        let what = fault::disarm();
        isa::tick::pause();
        // SAFETY: the frames of the serve stack were just abandoned, and nothing of this function
        // is inside of the logger.
        unsafe { logging::recover() };
        // This comes before the state below changes.
        let held = no_abort::take(RUNTIME.running());
        // SAFETY: `device` points to the local above; the only other borrow was in the frames just
        // abandoned.
        let device = unsafe { &mut *device };
        let in_call = device.is_running();
        let is_broken = held || !in_call;
        let ends = !device.is_serving();
        #[cfg(feature = "driven")]
        let ends = ends || driven::is_abandoned();
        if ends {
            early::end(&what);
        }
        if is_broken {
            what.report();
        }
        error!("abandoned: {}", what.text());
        let is_over = is_broken || config.on_fault == OnFault::Reset;
        if is_over {
            // This is announced before the reply, so that the host sends no other call after it.
            device.record_crash(what.text(), what.trace());
            device.announce_crash();
        }
        if in_call {
            device.fail_current(what.status(), what.text(), what.trace());
        }
        if is_over {
            // The runtime's state of this epoch is dropped with it: the host's next offer meets the
            // state of a fresh start.
            device.stop();
        }
    }
}

extern "C" fn serve<B: BareBoard>(device: *mut ()) -> ! {
    // SAFETY: `main` passes a pointer to its device and does not touch it until this call is
    // abandoned.
    let device = unsafe { &mut *device.cast::<Device<'_, board::Running<B>>>() };
    #[cfg(feature = "driven")]
    if let Some(driving) = driven::driving() {
        driving.serve(device)
    }
    device.serve()
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    fault::panicked(info)
}

/// Longest text of a fault: what fits into a crash record. A line on the console is as long, so
/// that one type formats both.
const TEXT: usize = CrashRecord::TEXT;

/// Text that is cut where it gets too long; [`CUT`] marks the cut.
pub(crate) struct Text<const N: usize> {
    text: heapless::String<N>,
    /// Bytes that may be used, but for the mark behind them.
    limit: usize,
    is_cut: bool,
}

impl<const N: usize> Text<N> {
    pub(crate) const fn new() -> Self {
        Self::before(0)
    }

    /// With so many bytes left for what comes [`Self::behind`].
    pub(crate) const fn before(behind: usize) -> Self {
        Self { text: heapless::String::new(), limit: N.saturating_sub(CUT.len() + behind), is_cut: false }
    }

    /// What comes now may use all the room there is.
    pub(crate) fn behind(&mut self) {
        (self.limit, self.is_cut) = (N.saturating_sub(CUT.len()), false);
    }

    /// Appends a number. Formatting would take more code at each place.
    #[inline(never)]
    pub(crate) fn number(&mut self, number: u64) {
        if number > 9 {
            self.number(number / 10);
        }
        let _ = self.write_char(char::from(b'0' + (number % 10) as u8));
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

impl<const N: usize> Write for Text<N> {
    #[inline(never)]
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        if self.is_cut {
            return Ok(());
        }
        let front = front(text, self.limit.saturating_sub(self.text.len()));
        self.is_cut = front.len() < text.len();
        for piece in [front, if self.is_cut { CUT } else { "" }] {
            // It fits: `front` has the room there is, and room for the mark is reserved.
            let _ = self.text.push_str(piece);
        }
        Ok(())
    }
}
