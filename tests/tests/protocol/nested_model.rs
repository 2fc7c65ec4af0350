//! Calls that nest, explored exhaustively: threads of the host call tasks, whose bodies on the host call
//! devices again, and ranks call each other. Every order of steps of a few of them, over places,
//! backlogs, queue pairs of bodies, lanes and a lock of the program (abi §12, §13.3, docs/tasks.md).
//!
//! No state is stuck: each has a next step, or all have ended. Each rule is shown to be needed: without
//! it one is.

use crate::states::{self, STUCK, search};

/// What a variant does otherwise.
#[derive(Clone, Copy, Default)]
struct Otherwise {
    /// A call of a task or a body waits in the backlog for a place, instead of being refused.
    chained_calls_queue: bool,
    /// A body waits for a queue pair, instead of being refused.
    bodies_wait_for_pairs: bool,
    /// A body's calls go to the stream of the thread that waits for its task.
    bodies_use_the_threads_stream: bool,
    /// A task that came through a lane keeps it until it ends.
    lanes_keep_order: bool,
    /// A thread that waits runs bodies of all tasks.
    threads_run_foreign_bodies: bool,
}

#[derive(Clone, Copy)]
enum Op {
    /// Calls this handler and waits for its end, or for its refusal.
    Call(usize),
    Lock,
    Unlock,
}
use Op::{Call, Lock, Unlock};

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// A thread of the program, which has a stream of its own on each device.
    Thread,
    Body,
    Task(usize),
    /// It ends by itself.
    Inline(usize),
}

/// What runs where.
struct Handler(At, &'static [Op]);

struct Scene {
    handlers: &'static [Handler],
    /// The first handlers, by number, run from the start.
    begin: &'static [usize],
    /// Places, room in the backlog and queue pairs for bodies, of each device.
    devices: &'static [[usize; 3]],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    Runs,
    /// Its message is sent, and not taken.
    Sent,
    /// It waits in the backlog of the device.
    Queued,
    /// What it called has begun.
    Waits,
}

/// Something that runs: number, handler, next operation, who called it, and who runs it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Run {
    id: usize,
    handler: usize,
    next: usize,
    step: Step,
    caller: Option<usize>,
    /// A thread that waits, which runs this body.
    thread: Option<usize>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    runs: Vec<Run>,
    /// Who has the lock.
    lock: Option<usize>,
}

impl State {
    fn get(&self, id: usize) -> &Run {
        self.runs.iter().find(|run| run.id == id).expect("it runs")
    }

    fn set(&mut self, id: usize, change: impl FnOnce(&mut Run)) {
        change(self.runs.iter_mut().find(|run| run.id == id).expect("it runs"));
    }

    fn start(&mut self, handler: usize, caller: Option<usize>, thread: Option<usize>) {
        let id = (0..).find(|id| self.runs.iter().all(|run| run.id != *id)).expect("a number");
        self.runs.push(Run { id, handler, next: 0, step: Step::Runs, caller, thread });
        self.runs.sort_by_key(|run| run.id);
    }
}

struct Model<'s> {
    scene: &'s Scene,
    otherwise: Otherwise,
}

impl Model<'_> {
    fn at(&self, run: &Run) -> At {
        self.scene.handlers[run.handler].0
    }

    /// What this one calls next.
    fn target(&self, run: &Run) -> Option<(usize, At)> {
        match self.scene.handlers[run.handler].1.get(run.next)? {
            Call(handler) => Some((*handler, self.scene.handlers[*handler].0)),
            _ => None,
        }
    }

    fn free_place(&self, state: &State, device: usize) -> bool {
        let taken = state.runs.iter().filter(|run| self.at(run) == At::Task(device)).count();
        taken < self.scene.devices[device][0]
    }

    /// Bodies have so many queue pairs of the device: each from its call's message to its end.
    fn pairs(&self, state: &State, device: usize) -> usize {
        let has_pair = |run: &&Run| {
            let calls = matches!(self.target(run), Some((_, At::Task(to) | At::Inline(to))) if to == device);
            self.at(run) == At::Body && run.step != Step::Runs && calls
        };
        state.runs.iter().filter(has_pair).count()
    }

    /// The thread at the root of the calls that led to this run.
    fn root(&self, state: &State, run: &Run) -> usize {
        run.caller.map_or(run.id, |caller| self.root(state, state.get(caller)))
    }

    /// Is the message of this run behind one that keeps its queue pair?
    fn is_behind(&self, state: &State, run: &Run, to: usize) -> bool {
        let kept_by = |is: &dyn Fn(&Run) -> bool| {
            state.runs.iter().any(|task| {
                let caller = task.caller.map(|caller| state.get(caller));
                self.at(task) == At::Task(to) && caller.is_some_and(|caller| caller.id != run.id && is(caller))
            })
        };
        match self.at(run) {
            // Its own stream is kept by the task that the thread itself waits for.
            At::Body if self.otherwise.bodies_use_the_threads_stream => {
                let root = self.root(state, run);
                kept_by(&|caller| caller.id == root)
            }
            // Lanes have one direction, from rank to rank.
            At::Task(from) if self.otherwise.lanes_keep_order => kept_by(&|caller| self.at(caller) == At::Task(from)),
            _ => false,
        }
    }

    fn refused(&self, state: &State, id: usize) -> State {
        let mut next = state.clone();
        next.set(id, |run| (run.step, run.next) = (Step::Runs, run.next + 1));
        next
    }

    fn begun(&self, state: &State, id: usize, handler: usize, thread: Option<usize>) -> State {
        let mut next = state.clone();
        next.set(id, |run| run.step = Step::Waits);
        next.start(handler, Some(id), thread);
        next
    }

    fn stepped(&self, state: &State, id: usize, step: Step) -> State {
        let mut next = state.clone();
        next.set(id, |run| run.step = step);
        next
    }

    /// All states behind one step of this run, or of what serves it.
    fn steps(&self, state: &State, run: &Run, out: &mut Vec<State>) {
        let Some(op) = self.scene.handlers[run.handler].1.get(run.next) else { return self.end(state, run, out) };
        match (run.step, op) {
            (Step::Runs, Lock) if state.lock.is_none() => {
                out.push(State { lock: Some(run.id), ..self.refused(state, run.id) });
            }
            (Step::Runs, Unlock) => out.push(State { lock: None, ..self.refused(state, run.id) }),
            (Step::Runs, Call(handler)) => match (self.at(run), self.scene.handlers[*handler].0) {
                (At::Body, At::Task(to) | At::Inline(to)) if !self.otherwise.bodies_use_the_threads_stream => {
                    if self.pairs(state, to) < self.scene.devices[to][2] {
                        out.push(self.stepped(state, run.id, Step::Sent));
                    } else if !self.otherwise.bodies_wait_for_pairs {
                        out.push(self.refused(state, run.id));
                    }
                }
                _ => out.push(self.stepped(state, run.id, Step::Sent)),
            },
            (Step::Sent, Call(handler)) => self.serve(state, run, *handler, out),
            (Step::Queued, Call(handler)) => {
                if let At::Task(to) = self.scene.handlers[*handler].0
                    && self.free_place(state, to)
                {
                    out.push(self.begun(state, run.id, *handler, None));
                }
            }
            _ => {}
        }
    }

    /// Takes the message of this run.
    fn serve(&self, state: &State, run: &Run, handler: usize, out: &mut Vec<State>) {
        match self.scene.handlers[handler].0 {
            At::Body => {
                // A worker, of which there is always another.
                out.push(self.begun(state, run.id, handler, None));
                for thread in state.runs.iter().filter(|other| self.at(other) == At::Thread) {
                    let is_its = run.caller == Some(thread.id);
                    let is_free =
                        thread.step == Step::Waits && state.runs.iter().all(|run| run.thread != Some(thread.id));
                    if is_free && (is_its || self.otherwise.threads_run_foreign_bodies) {
                        out.push(self.begun(state, run.id, handler, Some(thread.id)));
                    }
                }
            }
            At::Inline(to) | At::Task(to) if self.is_behind(state, run, to) => {}
            At::Inline(_) => out.push(self.refused(state, run.id)),
            At::Task(to) if self.free_place(state, to) => out.push(self.begun(state, run.id, handler, None)),
            At::Task(to) => {
                let queued = |other: &&Run| {
                    other.step == Step::Queued && self.target(other).is_some_and(|(_, at)| at == At::Task(to))
                };
                let has_room = state.runs.iter().filter(queued).count() < self.scene.devices[to][1];
                let may = self.at(run) == At::Thread || self.otherwise.chained_calls_queue;
                out.push(match has_room && may {
                    true => self.stepped(state, run.id, Step::Queued),
                    false => self.refused(state, run.id),
                });
            }
            At::Thread => unreachable!("no handler"),
        }
    }

    /// The run ends, and its caller goes on, if it does not run a body itself.
    fn end(&self, state: &State, run: &Run, out: &mut Vec<State>) {
        let mut next = state.clone();
        next.runs.retain(|other| other.id != run.id);
        if let Some(caller) = run.caller {
            if next.runs.iter().any(|other| other.thread == Some(caller)) {
                return;
            }
            next = self.refused(&next, caller);
        }
        out.push(next);
    }
}

impl states::Model for State {
    type Without = (&'static Scene, Otherwise);

    fn next(&self, (scene, otherwise): Self::Without) -> Vec<Self> {
        let mut next = Vec::new();
        self.runs.iter().for_each(|run| Model { scene, otherwise }.steps(self, run, &mut next));
        next
    }

    fn is_done(&self) -> bool {
        self.runs.is_empty()
    }
}

const THREAD: At = At::Thread;
const BODY: At = At::Body;

/// Tasks of two devices with two places and two queue pairs for bodies each, whose bodies call the other
/// device, and that the first again.
const NESTED: Scene = Scene {
    handlers: &[
        Handler(THREAD, &[Call(1)]),
        Handler(At::Task(0), &[Call(2)]),
        Handler(BODY, &[Call(6), Call(3)]),
        Handler(At::Task(1), &[Call(4)]),
        Handler(BODY, &[Call(5), Call(7)]),
        Handler(At::Task(0), &[]),
        Handler(At::Inline(1), &[]),
        Handler(At::Inline(0), &[]),
    ],
    begin: &[0, 0],
    devices: &[[2, 2, 2], [2, 2, 2]],
};

/// Bodies of many tasks of one device that each keep a queue pair of it.
const PAIRS: Scene = Scene {
    handlers: &[
        Handler(THREAD, &[Call(1)]),
        Handler(At::Task(0), &[Call(2)]),
        Handler(BODY, &[Call(3)]),
        Handler(At::Task(0), &[Call(4)]),
        Handler(BODY, &[Call(5)]),
        Handler(At::Inline(0), &[]),
    ],
    begin: &[0, 0],
    devices: &[[8, 1, 2]],
};

/// Two ranks: a task calls one of the other, that a task here, and that an inline handler there.
const RANKS: Scene = Scene {
    handlers: &[
        Handler(THREAD, &[Call(1)]),
        Handler(At::Task(0), &[Call(2)]),
        Handler(At::Task(1), &[Call(3)]),
        Handler(At::Task(0), &[Call(4)]),
        Handler(At::Inline(1), &[]),
    ],
    begin: &[0, 0],
    devices: &[[4, 2, 1], [2, 2, 1]],
};

/// A thread has a lock while it waits for its task, whose body needs none; that of the other thread's
/// task needs it.
const LOCKED: Scene = Scene {
    handlers: &[
        Handler(THREAD, &[Lock, Call(2), Unlock]),
        Handler(THREAD, &[Call(3)]),
        Handler(At::Task(0), &[Call(4)]),
        Handler(At::Task(0), &[Call(5)]),
        Handler(BODY, &[]),
        Handler(BODY, &[Lock, Unlock]),
    ],
    begin: &[0, 1],
    devices: &[[2, 1, 1]],
};

/// All states: how many, or the fault.
fn explore(scene: &'static Scene, otherwise: Otherwise) -> Result<usize, &'static str> {
    let mut first = State { runs: Vec::new(), lock: None };
    scene.begin.iter().for_each(|handler| first.start(*handler, None, None));
    search(first, (scene, otherwise))
}

#[test]
fn no_nested_call_waits_for_ever() {
    for scene in [&NESTED, &PAIRS, &RANKS, &LOCKED] {
        let states = explore(scene, Otherwise::default()).expect("no call waits for ever");
        assert!(states > 20, "{states} states");
    }
}

#[test]
fn chained_calls_that_queue_wait_for_ever() {
    let otherwise = Otherwise { chained_calls_queue: true, ..Otherwise::default() };
    for scene in [&NESTED, &Scene { devices: &[[2, 2, 1], [1, 2, 1]], ..RANKS }] {
        assert_eq!(explore(scene, otherwise), Err(STUCK));
    }
}

#[test]
fn bodies_that_wait_for_queue_pairs_wait_for_ever() {
    let otherwise = Otherwise { bodies_wait_for_pairs: true, ..Otherwise::default() };
    assert_eq!(explore(&PAIRS, otherwise), Err(STUCK));
}

#[test]
fn bodies_on_the_stream_of_their_task_wait_for_ever() {
    let otherwise = Otherwise { bodies_use_the_threads_stream: true, ..Otherwise::default() };
    assert_eq!(explore(&PAIRS, otherwise), Err(STUCK));
}

#[test]
fn calls_in_lanes_that_keep_order_wait_for_ever() {
    let otherwise = Otherwise { lanes_keep_order: true, ..Otherwise::default() };
    assert_eq!(explore(&RANKS, otherwise), Err(STUCK));
}

#[test]
fn a_thread_that_runs_a_foreign_body_under_its_lock_waits_for_ever() {
    let otherwise = Otherwise { threads_run_foreign_bodies: true, ..Otherwise::default() };
    assert_eq!(explore(&LOCKED, otherwise), Err(STUCK));
}
