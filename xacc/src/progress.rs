//! How far a run is, for who waits for it: a message to the host's program, each second.

use crate::int::Int;
use crate::spmd::Spmd;
use hamr_comm::{Fault, Host, offload};

hamr_comm::on_host! {
    extern crate std;

    /// What a host's program does with a report: so many steps are done, of so many.
    pub struct Watcher(pub std::boxed::Box<dyn Fn(u32, u32) + Send + Sync>);
}

/// Seconds from the beginning to the first report, and from one to the next.
const EVERY: f64 = 1.0;

/// Puts what [`Progress`] calls into the table of this host's program, which serves a [`Watcher`].
#[macro_export]
macro_rules! watched {
    () => {
        $crate::__entry!($crate::progress::progress, "hamr_xacc::progress::progress");
    };
}

/// Called by the first node.
///
/// # Errors
/// The host's program serves no [`Watcher`].
#[offload(unlisted)]
pub fn progress(cx: &mut Host, done: u32, of: u32) -> Result<(), Fault> {
    (cx.service::<Watcher>()?.0)(done, of);
    Ok(())
}

/// The steps of a program: where the host's program serves a [`Watcher`], it learns each second how many are done.
pub struct Progress {
    next: f64,
    of: u32,
}

impl Progress {
    /// None is done.
    pub fn new(w: &Spmd, of: impl Int) -> Self {
        Self { next: w.seconds() + EVERY, of: steps(of) }
    }

    /// So many are done; the first node reports it when it is time. All nodes may call this, in any order.
    pub fn done(&mut self, w: &mut Spmd, done: impl Int) {
        if w.me() == 0 && w.seconds() >= self.next {
            self.next = w.seconds() + EVERY;
            // A program that does not watch has no body for it.
            let _ = w.send_host(progress::with(steps(done), self.of));
        }
    }
}

fn steps(n: impl Int) -> u32 {
    u32::try_from(n.number().max(0)).unwrap_or(u32::MAX)
}
