//! What happens when a handler panics or the processor traps: the fault is stored, and the serve
//! stack is abandoned. `bare::main` then ends the call with the fault.

#![expect(unsafe_code)]
// UNSAFETY: `arch::abort` leaves frames behind (contract "abandoning").

use super::record::Fault;
use super::runtime::RUNTIME;
use super::{Text, early, memory, stacks, walk};
use crate::arch;
use core::fmt::Write;
use core::panic::PanicInfo;
use core::sync::atomic::Ordering;
use hamr_comm::abi::status::Status;
use hamr_comm::fault::Trace;

/// The serve loop runs: a fault can be survived.
const ARMED: u32 = 1;
/// A fault is being handled: another one means that the handling itself is broken.
const HANDLING: u32 = 2;

/// What the processor reported.
pub(crate) struct Trap {
    /// The cause's name.
    pub(crate) name: &'static str,
    /// Its number.
    pub(crate) cause: u32,
    /// Address of the instruction.
    pub(crate) pc: u64,
    /// The address it used, where the cause has one.
    pub(crate) address: u64,
    /// Stack pointer.
    pub(crate) stack: u64,
    /// Frame pointer.
    pub(crate) frame: u64,
    /// Where the processor keeps the return address of a call just made; `None`: on the stack.
    pub(crate) link: Option<u64>,
}

/// The serve loop is about to run.
pub(super) fn arm() {
    RUNTIME.fault_state.store(ARMED, Ordering::Release);
}

/// The serve loop was abandoned; why.
pub(super) fn disarm() -> Fault {
    RUNTIME.fault_state.store(0, Ordering::Release);
    let mut last = RUNTIME.last_fault.lock();
    core::mem::replace(&mut *last, Fault::none())
}

/// The panic handler.
pub(super) fn panicked(info: &PanicInfo<'_>) -> ! {
    // A long message is cut, so that its location fits behind it: " at ", ":" and a number of up to
    // ten digits are 15 bytes.
    let mut text = Text::before(info.location().map_or(0, |at| at.file().len() + 15));
    // Writing to `Text` never fails.
    let _ = match info.message().as_str() {
        Some(message) => text.write_str(message),
        None => write!(text, "{}", info.message()),
    };
    text.behind();
    if let Some(at) = info.location() {
        let _ = text.write_str(" at ");
        let _ = text.write_str(at.file());
        let _ = text.write_char(':');
        text.number(at.line().into());
    }
    give_up(Fault { status: Status::PANIC, text, trace: Trace::NONE }, arch::frame_pointer(), None)
}

/// A trap of the runtime's own, which nothing can go on behind.
#[cfg(target_arch = "arm")]
pub(crate) fn ended(trap: Trap) -> ! {
    RUNTIME.fault_state.store(HANDLING, Ordering::Release);
    trapped(trap)
}

/// The trap handler.
pub(crate) fn trapped(trap: Trap) -> ! {
    let Trap { name, cause, pc, address, stack, frame, link } = trap;
    let mut text = Text::new();
    if memory::is_guard(address) {
        let _ = text.write_str("stack overflow: ");
    } else if let Some(task) = stacks::overflown(address, stack) {
        let _ = text.write_str("stack overflow of task ");
        text.number(task.into());
        let _ = text.write_str(": ");
    }
    let _ = text.write_str(name);
    let _ = text.write_str(" (cause ");
    text.number(cause.into());
    let _ = text.write_char(')');
    // A call to an address that is no code has made no frame yet.
    let called = if memory::is_code(pc) { None } else { link.or_else(|| memory::stack_word(stack)) };
    let trace = Trace { cause: cause.into(), pc, address, stack, ..Trace::NONE };
    give_up(Fault { status: Status::TRAP, text, trace }, frame, called)
}

/// The serve loop runs, and no fault is being handled.
pub(super) fn is_armed() -> bool {
    RUNTIME.fault_state.load(Ordering::Acquire) == ARMED
}

/// The call that was interrupted is over its time.
pub(super) fn overdue(at: Trap, limit_us: u64) -> ! {
    let mut text = Text::new();
    let _ = text.write_str("it may take ");
    text.number(limit_us);
    let _ = text.write_str(" us");
    let trace = Trace { pc: at.pc, stack: at.stack, ..Trace::NONE };
    give_up(Fault { status: Status::RUNAWAY, text, trace }, at.frame, None)
}

/// Ends the call, or the image. The trace begins at the frame that `frame` points to; `first` is as
/// in [`walk::frames`].
fn give_up(mut fault: Fault, frame: u64, first: Option<u64>) -> ! {
    walk::frames(frame, first, &mut fault.trace.frames);
    if RUNTIME.fault_state.swap(HANDLING, Ordering::AcqRel) != ARMED {
        early::end(&fault);
    }
    // The lock is free: there is one processor, and the loop that takes it is not running.
    if let Some(mut last) = RUNTIME.last_fault.try_lock() {
        *last = fault;
    }
    // SAFETY: armed, so inside `run`; frames of the runtime own nothing that must be dropped,
    // frames of handlers own borrows of the window, statics, and `Resource` guards, whose
    // abandonment the next taker notices.
    unsafe { arch::abort() }
}
