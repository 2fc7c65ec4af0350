//! The barrier of GASNet-1: named or anonymous, in two phases.

#![expect(unsafe_code)]
// UNSAFETY: exported names; the result goes to memory of C.

use crate::die::die;
use crate::errors::{ERR_BARRIER_MISMATCH, ERR_NOT_READY, give};
use crate::job::{self, common};
use crate::progress;
use crate::team::BARRIER;
use std::ffi::c_int;
use std::sync::Mutex;

const ANONYMOUS: c_int = 1;
const MISMATCH: c_int = 2;

/// A phase that was notified: its step on the board, and how many ranks were seen.
#[derive(Clone, Copy)]
struct Phase {
    step: u64,
    said: u32,
}

/// What all ranks said.
#[derive(Clone, Copy, PartialEq)]
enum Agreed {
    Anonymous,
    Named(c_int),
    Mismatch,
}

static PHASE: Mutex<Option<Phase>> = Mutex::new(None);
static LAST: Mutex<Agreed> = Mutex::new(Agreed::Anonymous);

impl Agreed {
    fn of(id: c_int, flags: c_int) -> Self {
        match flags {
            flags if flags & MISMATCH != 0 => Self::Mismatch,
            flags if flags & ANONYMOUS != 0 => Self::Anonymous,
            _ => Self::Named(id),
        }
    }

    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Anonymous, other) => other,
            (one, Self::Anonymous) => one,
            (one, other) if one == other => one,
            _ => Self::Mismatch,
        }
    }

    fn bytes(self) -> [u8; 8] {
        let (kind, id) = match self {
            Self::Anonymous => (0, 0),
            Self::Named(id) => (1, id),
            Self::Mismatch => (2, 0),
        };
        (kind | u64::from(id as u32) << 32).to_le_bytes()
    }

    fn from_bytes(bytes: [u8; 8]) -> Self {
        let word = u64::from_le_bytes(bytes);
        match word as u32 {
            0 => Self::Anonymous,
            1 => Self::Named((word >> 32) as c_int),
            _ => Self::Mismatch,
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn gasnet_barrier_notify(id: c_int, flags: c_int) {
    job::check("gasnet_barrier_notify");
    let _locked = job::lock();
    let mut phase = common(&PHASE);
    if phase.is_some() {
        die("gasnet_barrier_notify: the last barrier was notified and not waited for");
    }
    let step = job::with_world(|world| BARRIER.say(world, &Agreed::of(id, flags).bytes()));
    *phase = Some(Phase { step, said: 0 });
}

/// How the barrier ended, if it has.
fn end(function: &str, id: c_int, flags: c_int) -> Option<c_int> {
    let _locked = job::lock();
    let mut inside = common(&PHASE);
    let Some(phase) = *inside else { die(&format!("{function}: no barrier was notified")) };
    let agreed = job::with_world(|world| {
        let said = BARRIER.said(world, phase.step, phase.said);
        *inside = Some(Phase { said, ..phase });
        (said == BARRIER.size()).then(|| {
            let said = (0..said).map(|rank| {
                let mut bytes = [0; 8];
                BARRIER.hear(world, rank, phase.step, &mut bytes);
                Agreed::from_bytes(bytes)
            });
            said.fold(Agreed::Anonymous, Agreed::with)
        })
    })?;
    *inside = None;
    *common(&LAST) = agreed;
    // A wait may have a name where the notification had none, and none where it had one.
    let is_mismatch = match (agreed, Agreed::of(id, flags)) {
        (Agreed::Mismatch, _) | (_, Agreed::Mismatch) => true,
        (Agreed::Named(agreed), Agreed::Named(id)) => agreed != id,
        _ => false,
    };
    Some(if is_mismatch { ERR_BARRIER_MISMATCH } else { 0 })
}

#[unsafe(no_mangle)]
extern "C" fn gasnet_barrier_wait(id: c_int, flags: c_int) -> c_int {
    const FUNCTION: &str = "gasnet_barrier_wait";
    job::check(FUNCTION);
    loop {
        match end(FUNCTION, id, flags) {
            Some(result) => return result,
            None => progress::poll_idle(FUNCTION),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn gasnet_barrier_try(id: c_int, flags: c_int) -> c_int {
    const FUNCTION: &str = "gasnet_barrier_try";
    progress::poll(FUNCTION);
    end(FUNCTION, id, flags).unwrap_or(ERR_NOT_READY)
}

#[unsafe(no_mangle)]
extern "C" fn gasnet_barrier(id: c_int, flags: c_int) -> c_int {
    gasnet_barrier_notify(id, flags);
    gasnet_barrier_wait(id, flags)
}

/// The name of the last barrier: 1 if it had none.
///
/// # Safety
/// A place for the name.
#[unsafe(no_mangle)]
unsafe extern "C" fn gasnet_barrier_result(id: *mut c_int) -> c_int {
    match *common(&LAST) {
        Agreed::Named(name) => {
            // SAFETY: the caller's promise.
            unsafe { give(id, name) };
            0
        }
        Agreed::Anonymous => 1,
        Agreed::Mismatch => 0,
    }
}
