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
/// Ctrl-C and `docker stop` end this process, as they end others; also where its parent ignored them, as a shell
/// does for what it starts in the background.
pub(super) fn end_by_signals() {
    if std::process::id() != 1 {
        return;
    }
    for number in [SIGINT, SIGTERM] {
        // SAFETY: a function of the type of handlers, which makes one system call.
        unsafe { signal(number, end as extern "C" fn(i32) as usize) };
    }
}

/// Ends the process as a shell reports a signal's end. Its devices end with it, as they do when it is
/// killed.
extern "C" fn end(number: i32) {
    _exit(128 + number)
}
