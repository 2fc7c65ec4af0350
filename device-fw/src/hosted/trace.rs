//! Return addresses of this process's stack, by the unwinder that panics use (contract
//! "hosted faults").

#![expect(unsafe_code)]
// UNSAFETY: the unwinder's C interface, and the header that the linker puts in front of the
// program.

use core::ffi::{c_int, c_void};
use hamr_comm::fault::{FRAMES, Trace};

/// Frames that are visited at most: the panic runtime's own are among them.
const DEEPEST: u32 = 64;
/// `_URC_NO_REASON` and `_URC_END_OF_STACK`.
const GO_ON: c_int = 0;
const ENOUGH: c_int = 5;
/// ELF header: where its type is, and the type of a program that was loaded anywhere.
const TYPE_OFFSET: usize = 16;
const DYNAMIC: u16 = 3;

#[repr(C)]
struct UnwindContext {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn _Unwind_Backtrace(step: extern "C" fn(*mut UnwindContext, *mut c_void) -> c_int, argument: *mut c_void)
    -> c_int;
    fn _Unwind_GetIPInfo(context: *mut UnwindContext, is_interrupted: *mut c_int) -> usize;
    fn _Unwind_GetCFA(context: *mut UnwindContext) -> usize;
    static __ehdr_start: [u8; 0];
}

/// What has been found on the way outwards.
struct Walk {
    trace: Trace,
    used: usize,
    steps: u32,
    /// What a loaded address is above the file's.
    bias: u64,
}

/// Where the caller is; in a signal's handler, where the signal came: the frames of the handler are
/// left out.
pub(super) fn here() -> Trace {
    let mut walk = Walk { trace: Trace::NONE, used: 0, steps: 0, bias: bias() };
    // SAFETY: `step` takes what it is given here, which outlives the call.
    unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
    walk.trace
}

extern "C" fn step(context: *mut UnwindContext, argument: *mut c_void) -> c_int {
    // SAFETY: `here` passes its `Walk`, and nothing else refers to it while the unwinder runs.
    let walk = unsafe { &mut *argument.cast::<Walk>() };
    let mut interrupted = 0;
    // SAFETY: the context is the unwinder's, valid for this call.
    let address = unsafe { _Unwind_GetIPInfo(context, &raw mut interrupted) } as u64;
    walk.steps += 1;
    if address == 0 || walk.steps > DEEPEST {
        return ENOUGH;
    }
    let address = address.wrapping_sub(walk.bias);
    if interrupted != 0 {
        // A signal came between two instructions: this is the one, and what was found before is the
        // handler of the signal.
        // SAFETY: as above.
        let stack = unsafe { _Unwind_GetCFA(context) } as u64;
        walk.trace = Trace { pc: address, stack, ..Trace::NONE };
        walk.used = 0;
    } else if let Some(frame) = walk.trace.frames.get_mut(walk.used) {
        *frame = address;
        walk.used += 1;
    } else if walk.trace.pc != 0 {
        return ENOUGH;
    } else {
        // The panic runtime's frames may fill all of them; only those of its callers are needed.
        walk.trace.frames.rotate_left(1);
        if let Some(last) = walk.trace.frames.last_mut() {
            *last = address;
        }
        if walk.steps as usize >= FRAMES + HIDDEN {
            return ENOUGH;
        }
    }
    GO_ON
}

/// Frames of the hook and of the standard library in front of the code that panicked.
const HIDDEN: usize = 6;

/// What a loaded address is above the file's; zero in a program that runs at the addresses in its
/// file.
fn bias() -> u64 {
    let header = &raw const __ehdr_start;
    // SAFETY: the linker defines it as the loaded ELF header, whose 64 bytes are read-only.
    let kind = unsafe { header.cast::<u8>().add(TYPE_OFFSET) };
    // SAFETY: as above; aligned, since the header is on a page.
    let kind = unsafe { kind.cast::<u16>().read() };
    if kind == DYNAMIC { header.addr() as u64 } else { 0 }
}
