//! What happens when a handler panics or the processor traps: the text is kept, the serve stack abandoned.

#![expect(unsafe_code)]
// UNSAFETY: `arch::abandon` leaves frames behind (`docs/unsafe.md` "abandoning").

use super::{BROKEN, Text, console};
use crate::arch;
use core::fmt::Write;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_comm::abi::status::Status;
use spin::Mutex;

/// Longest text of a fault: what a crash record holds.
const TEXT: usize = 384;

/// The serve loop runs: a fault can be survived.
const ARMED: u32 = 1;
/// A fault is being handled: another one means that the handling itself is broken.
const HANDLING: u32 = 2;
static STATE: AtomicU32 = AtomicU32::new(0);
static LAST: Mutex<Fault> = Mutex::new(Fault { status: Status::PANIC, text: Text::new() });

/// One fault.
pub(crate) struct Fault {
    status: Status,
    text: Text<TEXT>,
}

impl Fault {
    pub(crate) fn status(&self) -> Status {
        self.status
    }
    pub(crate) fn text(&self) -> &str {
        self.text.as_str()
    }
}

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
}

/// The serve loop is about to run.
pub(super) fn arm() {
    STATE.store(ARMED, Ordering::Release);
}

/// The serve loop was abandoned; why.
pub(super) fn disarm() -> Fault {
    STATE.store(0, Ordering::Release);
    let mut last = LAST.lock();
    core::mem::replace(&mut *last, Fault { status: Status::PANIC, text: Text::new() })
}

/// The panic handler.
pub(super) fn panicked(info: &PanicInfo<'_>) -> ! {
    let mut text = Text::new();
    // Writing to `Text` never fails.
    let _ = write!(text, "{}", info.message());
    if let Some(at) = info.location() {
        let _ = write!(text, " at {}:{}", at.file(), at.line());
    }
    give_up(Fault { status: Status::PANIC, text })
}

/// The trap handler.
pub(crate) fn trapped(trap: Trap) -> ! {
    let Trap { name, cause, pc, address, stack } = trap;
    let mut text = Text::new();
    let _ = write!(text, "{name} (cause {cause}) at pc {pc:#x}, address {address:#x}, sp {stack:#x}");
    give_up(Fault { status: Status::TRAP, text })
}

fn give_up(fault: Fault) -> ! {
    if STATE.swap(HANDLING, Ordering::AcqRel) != ARMED {
        console::line(format_args!("hamr image: {} (outside of every call)", fault.text()));
        console::exit(BROKEN);
    }
    // Nobody else holds the lock: one processor, and the loop that takes it is not running.
    if let Some(mut last) = LAST.try_lock() {
        *last = fault;
    }
    // SAFETY: armed, so inside `run`; frames of the runtime own nothing that must be dropped, frames of handlers hold borrows
    // of the window, statics, and `Resource` guards, whose abandonment the next taker notices.
    unsafe { arch::abandon() }
}
