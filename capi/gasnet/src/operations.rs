//! Collectives that were begun, one after the other in each team: each is some steps of the board, in
//! which all members wait for each other.

#![expect(unsafe_code)]
// UNSAFETY: events are pointers in C.

use crate::board::STEP_BYTES;
use crate::job;
use crate::memory::Bytes;
use crate::reduce::Reduce;
use crate::team::{Team, check_collective};
use hamr_comm::world::WorldRef;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What a collective does.
pub(crate) enum What {
    Barrier,
    Broadcast {
        root: u32,
        source: Option<Bytes>,
        target: Bytes,
    },
    Reduce(Reduce),
    /// Of what each member says, to all.
    Gather {
        mine: Vec<u8>,
        all: Vec<u8>,
    },
}

/// A collective that was begun. A box, whose address is the event.
pub(crate) struct Operation {
    team: &'static Team,
    what: What,
    /// Steps that are complete.
    steps: usize,
    /// The board's number of the one that was begun.
    begun: Option<u64>,
    /// Members of it that have said their part.
    said: u32,
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
    fn step(&mut self, world: &WorldRef<'_>) {
        while !self.is_done {
            let step = match self.begun {
                Some(step) => step,
                None => {
                    let mut part = [0; STEP_BYTES];
                    let len = self.what.part(self.team, self.steps, &mut part);
                    let step = self.team.say(world, part.get(..len).unwrap_or_default());
                    (self.begun, self.said) = (Some(step), 0);
                    step
                }
            };
            self.said = self.team.said(world, step, self.said);
            if self.said < self.team.size() {
                return;
            }
            self.is_done = self.what.take(self.team, self.steps, |rank, to| self.team.hear(world, rank, step, to));
            self.begun = None;
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
    /// What this member says in a step; its length.
    fn part(&mut self, team: &Team, step: usize, to: &mut [u8; STEP_BYTES]) -> usize {
        match self {
            Self::Broadcast { root, source: Some(source), .. } if *root == team.rank() => {
                let (off, len) = piece(source.len, step);
                source.read(off, &mut to[..len]);
                len
            }
            Self::Barrier | Self::Broadcast { .. } => 0,
            Self::Reduce(reduce) => reduce.part(step, to),
            Self::Gather { mine, .. } => {
                to[..mine.len()].copy_from_slice(mine);
                mine.len()
            }
        }
    }

    /// All have said their part of a step. True: it was the last.
    fn take(&mut self, team: &Team, step: usize, mut hear: impl FnMut(u32, &mut [u8])) -> bool {
        match self {
            Self::Barrier => true,
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
            Self::Gather { mine, all } => {
                all.resize(mine.len() * team.size() as usize, 0);
                for (rank, to) in (0..).zip(all.chunks_exact_mut(mine.len().max(1))) {
                    hear(rank, to);
                }
                true
            }
        }
    }
}

/// Begins a collective; its event.
pub(crate) fn begin(function: &str, team: &'static Team, what: What) -> *mut Operation {
    job::check(function);
    check_collective(function, team);
    let operation = Operation { team, what, steps: 0, begun: None, said: 0, is_done: false };
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
    job::with_world(|world| {
        let mut waiting: Vec<*const Team> = Vec::new();
        open.retain(|event| {
            // SAFETY: it is a box until `end`, which takes those that are done only, and this is the only
            // reference: a step calls functions of the program (reductions), which may call none of the library.
            let operation = unsafe { &mut *event.0 };
            let team = std::ptr::from_ref(operation.team);
            if !waiting.contains(&team) {
                operation.step(world);
                if !operation.is_done {
                    waiting.push(team);
                }
            }
            !operation.is_done
        });
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
