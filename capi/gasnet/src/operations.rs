//! Collectives that were begun, one after the other in each team: each is some steps of a team of
//! `hamr-gas`, in which all members wait for each other.

#![expect(unsafe_code)]
// UNSAFETY: events are pointers in C.

use crate::job::{self, Common};
use crate::memory::Bytes;
use crate::reduce::Reduce;
use crate::team::{STEP_BYTES, Team, check_collective};
use hamr_gas::{Collective, CollectiveCall, Wish};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, Ordering::Relaxed};

/// What a collective does.
pub(crate) enum What {
    /// The members wait for each other, in the same call.
    Meet(CollectiveCall),
    Broadcast {
        root: u32,
        source: Option<Bytes>,
        target: Bytes,
    },
    Reduce(Box<Reduce>),
    /// Into teams; a color and a key, the new team's scratch, what was said, and the team.
    Split {
        color: Option<u32>,
        key: i32,
        scratch: u64,
        wish: Option<Wish>,
        made: Option<Box<hamr_gas::Team>>,
    },
    /// The end of the team.
    Destroy {
        has_left: bool,
    },
}

/// A collective that was begun. A box, whose address is the event.
pub(crate) struct Operation {
    /// Set last of all; then the box belongs to the thread that finds it so, without the lock.
    is_done: AtomicBool,
    /// Used under the lock alone.
    work: Work,
}

struct Work {
    function: &'static str,
    team: &'static Team,
    what: What,
    /// Steps that are complete.
    steps: usize,
    /// The next one was begun.
    is_begun: bool,
    is_done: bool,
    /// No thread waits for its end.
    is_detached: bool,
}

/// An operation that is under way.
#[derive(Clone, Copy)]
struct Open {
    event: *mut Operation,
    team: &'static Team,
}

// SAFETY: it is used under `job::lock`.
unsafe impl Send for Open {}

/// In the order in which they were begun.
static OPEN: Common<Vec<Open>> = Common::new(Vec::new());
/// A part on its way between a team and the program's memory.
static PART: Common<[u8; STEP_BYTES]> = Common::new([0; STEP_BYTES]);
/// How many there are.
static LEFT: AtomicUsize = AtomicUsize::new(0);

impl Work {
    /// Goes as far as it can.
    fn step(&mut self) {
        let &mut Self { function, team, ref mut what, .. } = self;
        while !self.is_done {
            if !self.is_begun {
                what.say(function, team, self.steps);
                self.is_begun = true;
            }
            if let What::Destroy { has_left: true } = what {
                self.is_done = team.with(function, |team, rank| Ok(team.is_free(rank)));
                return;
            }
            if !team.with(function, |team, rank| team.has_come(rank)) {
                return;
            }
            self.is_done = what.take(function, team, self.steps);
            self.is_begun = matches!(what, What::Destroy { .. });
            self.steps += 1;
        }
    }
}

/// Bytes of a step of data of this length.
fn piece(len: usize, step: usize) -> (usize, usize) {
    let off = step * STEP_BYTES;
    (off, len.saturating_sub(off).min(STEP_BYTES))
}

impl What {
    /// Begins a step.
    fn say(&mut self, function: &str, team: &Team, step: usize) {
        let say = |call, part: &[u8]| team.with(function, |team, rank| team.say(rank, call, part));
        match self {
            Self::Split { color, key, scratch, wish, .. } => {
                *wish = Some(team.with(function, |team, rank| team.say_wish(rank, *color, *key, *scratch)));
            }
            Self::Destroy { .. } => team.with(function, |team, rank| team.say_end(rank)),
            Self::Meet(call) => say(*call, &[]),
            Self::Broadcast { root, source, target } => {
                let call = CollectiveCall::new(Collective::Broadcast, target.len, 1, Some(*root));
                let Some(source) = source else { return say(call, &[]) };
                let (off, len) = piece(target.len, step);
                PART.with(|part| {
                    source.read(off, &mut part[..len]);
                    say(call, &part[..len]);
                });
            }
            Self::Reduce(reduce) => {
                let call = CollectiveCall::new(Collective::Reduce, reduce.source.len, reduce.element, reduce.root)
                    .with_operation(reduce.op, reduce.data_type);
                PART.with(|part| {
                    let len = reduce.part(step, part);
                    say(call, &part[..len]);
                });
            }
        }
    }

    /// All have said their part of a step. True: it was the last.
    fn take(&mut self, function: &str, team: &Team, step: usize) -> bool {
        let hear = |member, to: &mut [u8]| team.with(function, |team, rank| team.hear(rank, member, 0, to));
        match self {
            Self::Meet(_) => true,
            Self::Broadcast { root, target, source } => {
                let (off, len) = piece(target.len, step);
                let is_there = source.is_some_and(|source| source.at == target.at);
                if !is_there {
                    PART.with(|part| {
                        hear(*root, &mut part[..len]);
                        target.write(off, &part[..len]);
                    });
                }
                off + len >= target.len
            }
            Self::Reduce(reduce) => reduce.take(team, step, hear),
            Self::Split { wish, made, .. } => {
                if let Some(wish) = wish.take() {
                    *made = team.with(function, |team, rank| team.make(rank, wish)).map(Box::new);
                }
                true
            }
            Self::Destroy { has_left } => {
                *has_left = true;
                team.with(function, |team, rank| {
                    team.leave(rank);
                    Ok(())
                });
                false
            }
        }
    }
}

/// A barrier.
pub(crate) fn barrier() -> What {
    What::Meet(CollectiveCall::new(Collective::Barrier, 0, 0, None))
}

/// Begins a collective; its event.
pub(crate) fn begin(function: &'static str, team: &'static Team, what: What) -> *mut Operation {
    start(function, team, what, false)
}

/// Begins one whose end is not waited for: the members are compared when all have come.
pub(crate) fn begin_detached(function: &'static str, team: &'static Team, what: What) {
    start(function, team, what, true);
}

fn start(function: &'static str, team: &'static Team, what: What, is_detached: bool) -> *mut Operation {
    job::check(function);
    check_collective(function, team);
    let work = Work { function, team, what, steps: 0, is_begun: false, is_done: false, is_detached };
    let event = Box::into_raw(Box::new(Operation { is_done: AtomicBool::new(false), work }));
    let _locked = job::lock();
    let left = OPEN.with(|open| {
        open.push(Open { event, team });
        open.len()
    });
    LEFT.store(left, Relaxed);
    step();
    event
}

/// All operations that have begun go as far as they can, those of a team in their order. How many have ended. A thread that finds
/// another in the library leaves them to that one.
#[inline]
pub(crate) fn step() -> u32 {
    if LEFT.load(Relaxed) == 0 { 0 } else { step_all() }
}

fn step_all() -> u32 {
    let Some(_locked) = job::try_lock() else { return 0 };
    let mut open = OPEN.with(std::mem::take);
    let (mut at, mut ended) = (0, 0);
    while let Some(&Open { event, team }) = open.get(at) {
        // Those of its team that were begun before wait.
        let is_first = !open.iter().take(at).any(|before| std::ptr::eq(before.team, team));
        // SAFETY: it is a box until it is done, and this is the only reference to its work, under the lock: a step calls
        // functions of the program (reductions), to which the library is closed (`restriction::OPERATION`).
        let work = unsafe { &mut (*event).work };
        if is_first {
            work.step();
        }
        if !work.is_done {
            at += 1;
            continue;
        }
        open.remove(at);
        ended += 1;
        LEFT.store(open.len(), Relaxed);
        if work.is_detached {
            // SAFETY: a box of `start`, which nothing else knows.
            drop(unsafe { Box::from_raw(event) });
        } else {
            // SAFETY: it is a box until this store, behind which nothing here uses it.
            unsafe { &(*event).is_done }.store(true, Ordering::Release); // E1, partner E2
        }
    }
    OPEN.with(|place| *place = open);
    ended
}

/// Has it ended? Then it is handed over.
///
/// # Safety
/// An event of [`begin`], which is gone when this has a result.
pub(crate) unsafe fn take_ended(event: *mut Operation) -> Option<What> {
    // SAFETY: the caller's promise.
    if !unsafe { &(*event).is_done }.load(Ordering::Acquire) {
        // E2, partner E1
        return None;
    }
    // SAFETY: it is done, so nothing else uses it.
    Some(unsafe { Box::from_raw(event) }.work.what)
}
