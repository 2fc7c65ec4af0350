//! The tool as the first process of a container, for which a signal without a handler does nothing.

#![expect(unsafe_code)]
// UNSAFETY: the C library's functions are declared here; a handler of a signal is given to one
// (`docs/unsafe.md` "first process").

unsafe extern "C" {
    fn signal(number: i32, action: usize) -> usize;
    safe fn _exit(code: i32) -> !;
}

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
/// The action when none was set, SIG_DFL.
const DEFAULT: usize = 0;

/// Ctrl-C and `docker stop` end this process, as they end others. What they find ignored or handled stays
/// so.
pub(super) fn end_by_signals() {
    if std::process::id() != 1 {
        return;
    }
    for number in [SIGINT, SIGTERM] {
        // SAFETY: a function of the type of handlers, which makes one system call.
        let before = unsafe { signal(number, end as extern "C" fn(i32) as usize) };
        if before != DEFAULT {
            // SAFETY: what the function itself has returned.
            unsafe { signal(number, before) };
        }
    }
}

/// Ends the process as a shell reports a signal's end. Its devices end with it, as they do when it is
/// killed.
extern "C" fn end(number: i32) {
    _exit(128 + number)
}
