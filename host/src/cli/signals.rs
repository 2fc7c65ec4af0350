//! Signals to the tool: as the first process of a container, for which one without a handler does nothing, and where it has changed its
//! terminal, or has files that are to go with it: a handler notes them, the program acts between two looks, or a thread does.

#![expect(unsafe_code, reason = "handlers of signals are C's")]

// Contract "signals of the command line". The handler that notes a signal changes an atomic and makes one system
// call, which wakes who waits for it. Dispositions are those of the process: they are back before what a signal does
// is done. As the first process, the tool has a handler that makes one system call, `_exit`.

use libc::{SIG_DFL, SIG_IGN, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, c_int, sighandler_t};
use rustix::process::{Signal, getpid, kill_process};
use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Of the whole tool, before it starts anything. Ctrl-C and `docker stop` end the first process, as they end others; also where
/// its parent ignored them, as a shell does for what it starts in the background. And the tool has the exit statuses of its children, as do
/// those of theirs, also where its parent wanted none.
pub(super) fn start() {
    let before = set(SIGCHLD, SIG_DFL);
    if before != SIG_IGN {
        set(SIGCHLD, before);
    }
    if std::process::id() == 1 {
        for signal in [SIGINT, SIGTERM] {
            set(signal, end as extern "C" fn(c_int) as sighandler_t);
        }
    }
}

/// Ends the process as a shell reports a signal's end. Its devices end with it, as they do when it is
/// killed.
extern "C" fn end(signal: c_int) {
    // SAFETY: a system call that does not return.
    unsafe { libc::_exit(128 + signal) }
}

/// Signals that end a program, that stop it, and that let it go on.
pub(super) const ALL: &[c_int] = &[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGCONT];
/// Those that end it.
pub(super) const ENDS: &[c_int] = &[SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// A bit for each signal that came and was not acted on.
static CAME: AtomicU32 = AtomicU32::new(0);

extern "C" fn note(signal: c_int) {
    CAME.fetch_or(1 << signal, Ordering::Relaxed);
    // An error means that nothing waits.
    let _ = futex::wake(&CAME, futex::Flags::PRIVATE, 1);
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
    before: Vec<(c_int, sighandler_t)>,
}

impl Signals {
    /// Notes these from now on, but for those that this program was started to ignore (`nohup`).
    pub(super) fn note(all: &[c_int]) -> Self {
        let noted = |signal: &c_int| {
            let before = set(*signal, note as extern "C" fn(c_int) as sighandler_t);
            if before == SIG_IGN {
                set(*signal, SIG_IGN);
            }
            (*signal, before)
        };
        Self { before: all.iter().map(noted).collect() }
    }

    /// Runs `clean` when one has come, also since [`Self::note`], and then what the signal did before: it ends the program.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn at_end(self, clean: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let work = move || {
            let signal = loop {
                if let Some(Came::End(signal)) = self.next() {
                    break signal;
                }
                // One that comes in between changes the word.
                let _ = futex::wait(&CAME, futex::Flags::PRIVATE, 0, None);
            };
            clean();
            drop(self);
            let _ = kill_process(getpid(), signal);
        };
        std::thread::Builder::new().name("hamr-signals".into()).spawn(work).map(drop)
    }

    /// The next signal to act on.
    pub(super) fn next(&self) -> Option<Came> {
        // An end before all else; of a stop that is over already nothing is left to do but to show the screen.
        let came = CAME.load(Ordering::Relaxed);
        let &signal = ALL.iter().find(|signal| came & 1 << **signal != 0)?;
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

    /// Does what the signal did before, and returns if the program has gone on since. For the first process the system's default is nothing.
    pub(super) fn default_of(&self, signal: Signal) {
        let number = signal.as_raw();
        let before = self.before.iter().find(|(handled, _)| *handled == number).map_or(SIG_DFL, |(_, before)| *before);
        let handled = set(number, before);
        // A process may signal itself. The signal comes before the call returns.
        let _ = kill_process(getpid(), signal);
        set(number, handled);
        CAME.fetch_and(!(1 << SIGCONT), Ordering::Relaxed);
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            set(*signal, *before);
        }
    }
}

/// Sets a disposition, and returns the one before.
fn set(signal: c_int, disposition: sighandler_t) -> sighandler_t {
    // SAFETY: the disposition is one of the system's two, one that this function has returned, `end`, which makes one system call,
    // or `note`, which changes an atomic and makes one, too, as handlers may.
    unsafe { libc::signal(signal, disposition) }
}
