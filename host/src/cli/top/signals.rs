//! Signals to a program that has changed its terminal: a handler notes them, the program acts between two looks.

#![expect(unsafe_code, reason = "handlers of signals are C's")]

use libc::{SIG_DFL, SIG_IGN, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, c_int, sighandler_t};
use rustix::process::{Signal, getpid, kill_process};
use std::sync::atomic::{AtomicU32, Ordering};

/// Signals that end a program, that stop it, and that let it go on.
const HANDLED: [c_int; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGCONT];

/// A bit for each signal that came and was not acted on.
static CAME: AtomicU32 = AtomicU32::new(0);

extern "C" fn note(signal: c_int) {
    CAME.fetch_or(1 << signal, Ordering::Relaxed);
}

/// A signal that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Came {
    /// Ends the program, after [`Signals::default_of`] it.
    End(Signal),
    /// Stops it.
    Stop,
    /// It was stopped, and is not any more.
    Continue,
}

/// While it exists, signals are noted. The dispositions from before come back when it is dropped.
pub(super) struct Signals {
    before: [(c_int, sighandler_t); HANDLED.len()],
}

impl Signals {
    /// Notes signals from now on, but for those that this program was started to ignore (`nohup`).
    pub(super) fn note() -> Self {
        let before = HANDLED.map(|signal| {
            let before = set(signal, note as extern "C" fn(c_int) as sighandler_t);
            if before == SIG_IGN {
                set(signal, SIG_IGN);
            }
            (signal, before)
        });
        Self { before }
    }

    /// The next signal to act on.
    pub(super) fn next(&self) -> Option<Came> {
        // An end before all else; of a stop that is over already nothing is left to do but to show the screen.
        let came = CAME.load(Ordering::Relaxed);
        let signal = HANDLED.into_iter().find(|signal| came & 1 << signal != 0)?;
        CAME.fetch_and(!(1 << signal), Ordering::Relaxed);
        Some(match signal {
            SIGTSTP => Came::Stop,
            SIGCONT => Came::Continue,
            SIGHUP => Came::End(Signal::HUP),
            SIGINT => Came::End(Signal::INT),
            SIGQUIT => Came::End(Signal::QUIT),
            _ => Came::End(Signal::TERM),
        })
    }

    /// Does what the signal does to a program that does not handle it, and returns if that has gone on since.
    pub(super) fn default_of(&self, signal: Signal) {
        let number = signal.as_raw();
        let handled = set(number, SIG_DFL);
        // A process may signal itself. The signal comes before the call returns.
        let _ = kill_process(getpid(), signal);
        set(number, handled);
        CAME.fetch_and(!(1 << SIGCONT), Ordering::Relaxed);
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, before) in self.before {
            set(signal, before);
        }
    }
}

/// Sets a disposition, and returns the one before.
fn set(signal: c_int, disposition: sighandler_t) -> sighandler_t {
    // SAFETY: the disposition is one of the system's two, one that this function has returned, or `note`, which stores to an
    // atomic and does nothing else, as a handler may.
    unsafe { libc::signal(signal, disposition) }
}
