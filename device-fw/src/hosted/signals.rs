//! Traps and runaways of a hosted image: its signal handler completes the call that was running
//! with a fault, and ends the process.
//!
//! The process cannot go on as a bare-metal image does: the handler may have taken a lock of the
//! system's libraries. So the host restarts it, in a new epoch. The host learns this from the
//! device's state, which is published before the reply.

#![expect(unsafe_code)]
// UNSAFETY: handlers of signals have only the system's C interface, and reach the device through a
// pointer (contract "hosted faults").
//
// Contract "hosted faults". The signal handler replies to a trap on its own stack, without allocation
// or lock, through the device, and ends with `_exit`. Accepted beyond the rules for signal handlers:
// - The unwinder uses a lock of the loader: a trap in the loader waits for that until the host's
//   deadline.
// - Rust does not know that the dispatcher's `&mut` to the device is unused from then on.
// - The handlers replace Rust's own for stack overflows and pass nothing on: no library that wants
//   SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP or SIGXCPU may be in an image. Hosts install none.
// A trap while the handler runs ends the process without a reply; so does another thread's, with the
// signal's own default. The thread that watches the host uses `_exit` too.

use super::runtime::RUNTIME;
use super::{HostedDriving, Process, trace};
use crate::Device;
use crate::runaway::Overdue;
use core::ffi::{c_int, c_void};
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use hamr_comm::abi::status::Status;
use hamr_comm::am::Activity;

/// The signal that ends a runaway.
const RUNAWAY: c_int = libc::SIGXCPU;
/// What traps are, and their names.
const TRAPS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "segmentation fault"),
    (libc::SIGBUS, "bus error"),
    (libc::SIGILL, "illegal instruction"),
    (libc::SIGFPE, "arithmetic exception"),
    (libc::SIGTRAP, "breakpoint"),
];
/// Exit code of a process that a handler has ended.
const ENDED: c_int = 101;
/// The handler's own stack: the unwinder and the reply take some kilobytes.
const STACK: usize = 256 << 10;
/// An address so near to the stack pointer is one of the stack.
const NEAR: u64 = 1 << 16;

/// From now on signals of this thread, which is to serve, end its calls.
pub(super) fn catch(device: *mut Device<'static, Process>) {
    RUNTIME.device.store(device, Ordering::Release);
    RUNTIME.dispatcher.store(thread(), Ordering::Release);
    // The unwinder allocates at its first use, which must not be in a handler.
    trace::here();
    let stack = libc::stack_t { ss_sp: std::vec![0_u8; STACK].leak().as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK };
    // SAFETY: leaked memory that nothing else uses.
    unsafe { libc::sigaltstack(&raw const stack, null_mut()) };
    for signal in TRAPS.into_iter().map(|(signal, _)| signal).chain([RUNAWAY]) {
        // SAFETY: all zeros is a value of it: no flags, an empty mask, the default action.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = handle as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // A call that has trapped is not ended once more, for having no time left.
        // SAFETY: a set of its own.
        unsafe { libc::sigaddset(&raw mut action.sa_mask, RUNAWAY) };
        // SAFETY: the handler has the signature that SA_SIGINFO asks for.
        unsafe { libc::sigaction(signal, &raw const action, null_mut()) };
    }
}

/// A process group of its own is never the terminal's foreground one, and some terminals stop what else
/// writes to them (`stty tostop`).
pub(super) fn write_to_terminals() {
    // SAFETY: no handler: the signal is ignored.
    unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
}

/// Starts a thread to which no signal comes that another process sends to this one: those are for the dispatcher, also
/// those that a program handles. The thread has them blocked from its first instruction on, as it begins with the mask of
/// the one that starts it. A trap of its own ends the process all the same.
pub(super) fn for_dispatcher<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: all zeros is a value of them, empty sets.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: a set of its own.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: sets of its own.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    let started = start();
    // SAFETY: what was blocked before; the set that is blocked now is not requested.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut()) };
    started
}

/// Sets where the poller reports what it is doing.
pub(super) fn set_activity(activity: Option<&Activity>) {
    let activity = activity.map_or(null_mut(), |activity| (&raw const *activity).cast_mut());
    RUNTIME.activity.store(activity, Ordering::Release);
}

/// What the poller is doing.
fn activity() -> Option<&'static Activity> {
    // SAFETY: null, or in the device, which is in the frame of `main` for good. If it moves at this
    // moment, its words there are still words.
    unsafe { RUNTIME.activity.load(Ordering::Acquire).as_ref() }
}

/// Passes the poller's activity to `look`; ends the call whose number `look` returns.
pub(super) fn tick(look: impl FnOnce(&Activity) -> Option<Overdue>) {
    let Some(activity) = activity() else { return };
    if let Some(Overdue { serial, limit_us }) = look(activity) {
        RUNTIME.limit_us.store(limit_us, Ordering::Relaxed);
        RUNTIME.overdue_serial.store(serial, Ordering::Release);
        let thread = RUNTIME.dispatcher.load(Ordering::Acquire);
        // SAFETY: a system call that touches no memory.
        unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, RUNAWAY) };
    }
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    if signal == RUNAWAY {
        // Between the tick and here the call may have ended, and another begun.
        if activity().and_then(Activity::running) != Some(RUNTIME.overdue_serial.load(Ordering::Acquire)) {
            return;
        }
    }
    let is_dispatcher = thread() == RUNTIME.dispatcher.load(Ordering::Acquire);
    if !is_dispatcher && signal != RUNAWAY {
        // Another thread's trap ends no call. It ends the process when this returns, as a trap without a handler does.
        // SAFETY: the default takes nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: a signal to this thread, which is blocked here.
        unsafe { libc::raise(signal) };
        return;
    }
    let device = RUNTIME.device.load(Ordering::Acquire);
    if is_dispatcher && RUNTIME.handling.swap(1, Ordering::AcqRel) == 0 && !device.is_null() {
        // SAFETY: the kernel passes what SA_SIGINFO promises.
        let info = unsafe { &*info };
        // SAFETY: of a trap, the kernel fills the address in.
        let address = unsafe { info.si_addr() } as u64;
        // SAFETY: the dispatcher, which alone uses the device, was interrupted and will not go on.
        end_call(unsafe { &mut *device }, signal, address);
        RUNTIME.driving.get().into_iter().for_each(HostedDriving::end);
    }
    end(ENDED);
}

/// Ends the process without running anything more of it.
pub(super) fn end(code: c_int) -> ! {
    // SAFETY: a system call that does not return.
    unsafe { libc::_exit(code) }
}

/// Completes the call that was running with a fault, and records how this epoch ended. Allocates
/// nothing and takes no lock.
fn end_call(device: &mut Device<'static, Process>, signal: c_int, address: u64) {
    let mut trace = trace::here();
    trace.cause = signal as u64;
    let mut text = heapless::String::<64>::new();
    let status = if signal == RUNAWAY {
        let _ = write!(text, "it may take {} us", RUNTIME.limit_us.load(Ordering::Relaxed));
        Status::RUNAWAY
    } else {
        let has_address = signal == libc::SIGSEGV || signal == libc::SIGBUS;
        trace.address = if has_address { address } else { 0 };
        let name = TRAPS.iter().find(|(known, _)| *known == signal).map_or("signal", |(_, name)| *name);
        let overflow = signal == libc::SIGSEGV && trace.stack.abs_diff(address) < NEAR;
        // Fits: the longest name is short.
        let _ = write!(text, "{} (signal {signal})", if overflow { "stack overflow" } else { name });
        Status::TRAP
    };
    device.record_crash(&text, &trace);
    device.announce_crash();
    if device.is_running() {
        device.fail_current(status, &text, &trace);
    }
}

fn thread() -> u32 {
    // SAFETY: a system call without arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}
