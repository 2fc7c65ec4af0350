//! Collectives that were begun, one after the other in each team: each is some steps of a team of
//! `hamr-gas`, in which all members wait for each other.

#![expect(unsafe_code)]
// UNSAFETY: events are pointers in C.

use crate::job;
use crate::memory::Bytes;
use crate::reduce::Reduce;
use crate::team::{STEP_BYTES, Team, check_collective};
use hamr_gas::{Collective, CollectiveCall, Wish};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What a collective does.
pub(crate) enum What {
    /// The members wait for each other, in the same call.
    Meet(CollectiveCall),
    Broadcast {
        root: u32,
        source: Option<Bytes>,
        target: Bytes,
    },
    Reduce(Reduce),
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
    function: &'static str,
    team: &'static Team,
    what: What,
    /// Steps that are complete.
    steps: usize,
    /// The next one was begun.
    is_begun: bool,
    is_done: bool,
}

/// An operation that is under way.
struct Open(*mut Operation);

// SAFETY: it is used under `job::lock`.
unsafe impl Send for Open {}

/// In the order in which they were begun.
static OPEN: Mutex<VecDeque<Open>> = Mutex::new(VecDeque::new());
/// How many there are.
static LEFT: AtomicUsize = AtomicUsize::new(0);

impl Operation {
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
        let mut part = [0; STEP_BYTES];
        let (call, len) = match self {
            Self::Split { color, key, scratch, wish, .. } => {
                *wish = Some(team.with(function, |team, rank| team.say_wish(rank, *color, *key, *scratch)));
                return;
            }
            Self::Destroy { .. } => return team.with(function, |team, rank| team.say_end(rank)),
            Self::Meet(call) => (*call, 0),
            Self::Broadcast { root, source, target } => {
                let call = CollectiveCall::new(Collective::Broadcast, target.len, 1, Some(*root));
                let (off, len) = source.map_or((0, 0), |_| piece(target.len, step));
                source.iter().for_each(|source| source.read(off, &mut part[..len]));
                (call, len)
            }
            Self::Reduce(reduce) => {
                let call = CollectiveCall::new(Collective::Reduce, reduce.source.len, reduce.element, reduce.root);
                (call, reduce.part(step, &mut part))
            }
        };
        team.with(function, |team, rank| team.say(rank, call, &part[..len]));
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
                    let mut bytes = [0; STEP_BYTES];
                    hear(*root, &mut bytes[..len]);
                    target.write(off, &bytes[..len]);
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
    job::check(function);
    check_collective(function, team);
    let operation = Operation { function, team, what, steps: 0, is_begun: false, is_done: false };
    let event = Box::into_raw(Box::new(operation));
    let _locked = job::lock();
    LEFT.fetch_add(1, Relaxed);
    job::common(&OPEN).push_back(Open(event));
    step();
    event
}

/// All operations that have begun go as far as they can, those of a team in their order.
pub(crate) fn step() {
    if LEFT.load(Relaxed) == 0 {
        return;
    }
    let _locked = job::lock();
    // None while they step: an operation of the program may poll.
    let mut open = std::mem::take(&mut *job::common(&OPEN));
    if open.is_empty() {
        return;
    }
    let mut waiting: Vec<*const Team> = Vec::new();
    open.retain(|event| {
        // SAFETY: it is a box until `end`, which takes those that are done only, and this is the only
        // reference: a step calls functions of the program (reductions), which may call none of the library.
        let operation = unsafe { &mut *event.0 };
        let team = std::ptr::from_ref(operation.team);
        if !waiting.contains(&team) {
            operation.step();
            if !operation.is_done {
                waiting.push(team);
            }
        }
        !operation.is_done
    });
    let mut now = job::common(&OPEN);
    open.append(&mut now);
    LEFT.store(open.len(), Relaxed);
    *now = open;
}

/// Has it ended? Then it is handed over.
///
/// # Safety
/// An event of [`begin`], which is gone when this has a result.
pub(crate) unsafe fn take_ended(event: *mut Operation) -> Option<What> {
    let _locked = job::lock();
    // SAFETY: the caller's promise; the lock keeps other threads from a step of it.
    if !unsafe { &*event }.is_done {
        return None;
    }
    // SAFETY: as above; `OPEN` has it no more.
    Some(unsafe { Box::from_raw(event) }.what)
}
