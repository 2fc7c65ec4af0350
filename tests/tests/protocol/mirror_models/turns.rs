//! Who steps a mirror: the threads of the program, without one of its own. A thread marks `pending` and takes the lock;
//! who does not get it leaves, and the holder looks at the mark behind its release. What a step posts into H is for
//! another thread, perhaps, which sleeps on the connection.

use crate::states::{Model, STUCK, holds, search};

/// Two threads that publish a request each, and then notify.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Turn {
    threads: [Thread; 2],
    published: [bool; 2],
    carried: [bool; 2],
    pending: bool,
    held: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Thread {
    Publishes,
    Marks,
    Locks,
    Clears,
    Looks(usize),
    Releases,
    LooksAgain,
    Gone,
}

#[derive(Clone, Copy, Default)]
struct TurnWithout {
    /// A look at `pending` behind the release.
    look_again: bool,
    /// `pending` cleared in front of the looks.
    clear_first: bool,
}

impl Model for Turn {
    type Without = TurnWithout;

    fn next(&self, without: TurnWithout) -> Vec<Self> {
        let step = |t: usize| {
            let mut next = *self;
            let clear_first = !without.clear_first;
            next.threads[t] = match self.threads[t] {
                Thread::Publishes => {
                    next.published[t] = true;
                    Thread::Marks
                }
                Thread::Marks => {
                    next.pending = true;
                    Thread::Locks
                }
                Thread::Locks if self.held => Thread::Gone,
                Thread::Locks => {
                    next.held = true;
                    if clear_first { Thread::Clears } else { Thread::Looks(0) }
                }
                Thread::Clears => {
                    next.pending = false;
                    if clear_first { Thread::Looks(0) } else { Thread::Releases }
                }
                Thread::Looks(slot) => {
                    next.carried[slot] |= self.published[slot];
                    match (slot, clear_first) {
                        (0, _) => Thread::Looks(1),
                        (_, true) => Thread::Releases,
                        (_, false) => Thread::Clears,
                    }
                }
                Thread::Releases => {
                    next.held = false;
                    if without.look_again { Thread::Gone } else { Thread::LooksAgain }
                }
                Thread::LooksAgain if self.pending => Thread::Locks,
                Thread::LooksAgain => Thread::Gone,
                Thread::Gone => return None,
            };
            Some(next)
        };
        (0..2).filter_map(step).collect()
    }

    fn is_done(&self) -> bool {
        self.threads == [Thread::Gone; 2] && self.carried == [true; 2]
    }
}

const TURN: Turn =
    Turn { threads: [Thread::Publishes; 2], published: [false; 2], carried: [false; 2], pending: false, held: false };

#[test]
fn a_published_request_is_carried() {
    holds(TURN, 100);
}

#[test]
fn without_a_look_behind_the_release_a_request_stays() {
    assert_eq!(search(TURN, TurnWithout { look_again: true, ..TurnWithout::default() }), Err(STUCK));
}

#[test]
fn a_mark_cleared_behind_the_looks_is_lost() {
    assert_eq!(search(TURN, TurnWithout { clear_first: true, ..TurnWithout::default() }), Err(STUCK));
}

/// A thread sleeps in `poll` for its reply while another one polls by `wait(0)`, and so takes both replies out of the
/// socket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Sleep {
    /// Replies on their way, in the socket, and in H: of the sleeper and of the other.
    on_way: [bool; 2],
    socket: [bool; 2],
    near: [bool; 2],
    wait_word_is_odd: bool,
    woken: bool,
    sleeper: Sleeper,
    poller: Poller,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Sleeper {
    PreparesWait,
    Looks,
    Sleeps,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Poller {
    Polls,
    /// It has posted replies.
    Posted,
    Done,
}

const SLEEP: Sleep = Sleep {
    on_way: [true; 2],
    socket: [false; 2],
    near: [false; 2],
    wait_word_is_odd: false,
    woken: false,
    sleeper: Sleeper::PreparesWait,
    poller: Poller::Polls,
};

impl Sleep {
    /// A step of the mirror.
    fn stepped(self) -> Self {
        Self { near: [0, 1].map(|i| self.near[i] || self.socket[i]), socket: [false; 2], ..self }
    }
}

impl Model for Sleep {
    /// Steps that post do not look at HOST_WAIT.
    type Without = bool;

    fn next(&self, without: bool) -> Vec<Self> {
        let mut out = Vec::new();
        for i in 0..2 {
            if self.on_way[i] {
                let mut next = *self;
                (next.on_way[i], next.socket[i]) = (false, true);
                out.push(next);
            }
        }
        let looked = |of: Self| {
            let next = of.stepped();
            Self { sleeper: if next.near[0] { Sleeper::Done } else { Sleeper::Sleeps }, ..next }
        };
        match self.sleeper {
            Sleeper::PreparesWait => out.push(Self { wait_word_is_odd: true, sleeper: Sleeper::Looks, ..*self }),
            Sleeper::Looks => out.push(looked(*self)),
            Sleeper::Sleeps if self.woken || self.socket != [false; 2] => {
                out.push(looked(Self { woken: false, ..*self }));
            }
            _ => {}
        }
        match self.poller {
            Poller::Polls if self.near[1] => out.push(Self { poller: Poller::Done, ..*self }),
            Poller::Polls if self.socket != [false; 2] => {
                out.push(Self { poller: Poller::Posted, ..self.stepped() });
            }
            Poller::Posted => {
                let woken = self.woken || self.wait_word_is_odd && !without;
                out.push(Self { poller: Poller::Polls, woken, ..*self });
            }
            _ => {}
        }
        out
    }

    fn is_done(&self) -> bool {
        self.sleeper == Sleeper::Done && self.poller == Poller::Done
    }
}

#[test]
fn a_step_wakes_the_thread_for_which_it_has_posted() {
    holds(SLEEP, 20);
}

#[test]
fn a_step_that_posts_and_wakes_no_thread_leaves_one_asleep() {
    assert_eq!(search(SLEEP, true), Err(STUCK));
}

/// A one-way call after which its thread leaves, beside a thread that steps for a call of its own, and one that has
/// notified. DEVICE_WAIT of H is odd, and fresh at the start of each step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct OneWay {
    caller: Caller,
    /// The slot's word is in the caller's store buffer; in memory.
    buffered: bool,
    published: bool,
    carried: bool,
    wait_word: u8,
    notified_for: u8,
    pending: bool,
    stepper: Stepper,
    other: Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Caller {
    Publishes,
    LoadsWaitWord,
    Marks,
    Locks,
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stepper {
    Starts,
    Looks,
    Releases,
    LooksAgain,
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Other {
    Notifies,
    Gone,
}

const ONE_WAY: OneWay = OneWay {
    caller: Caller::Publishes,
    buffered: false,
    published: false,
    carried: false,
    wait_word: 1,
    notified_for: 1,
    pending: false,
    stepper: Stepper::Starts,
    other: Other::Notifies,
};

impl OneWay {
    /// A thread's own stores are seen by it at once.
    fn caller(&self, without: bool, out: &mut Vec<Self>) {
        let go = |caller| Self { caller, ..*self };
        match self.caller {
            Caller::Publishes => out.push(Self { buffered: true, ..go(Caller::LoadsWaitWord) }),
            Caller::LoadsWaitWord if self.buffered && !without => {}
            Caller::LoadsWaitWord if self.wait_word == self.notified_for => out.push(go(Caller::Gone)),
            Caller::LoadsWaitWord => out.push(Self { notified_for: self.wait_word, ..go(Caller::Marks) }),
            Caller::Marks => out.push(Self { pending: true, ..go(Caller::Locks) }),
            Caller::Locks if self.stepper == Stepper::Gone => {
                let wait_word = self.wait_word + 2;
                out.push(Self { carried: true, pending: false, wait_word, ..go(Caller::Gone) });
            }
            Caller::Locks => out.push(go(Caller::Gone)),
            Caller::Gone => {}
        }
        if self.buffered {
            out.push(Self { buffered: false, published: true, ..*self });
        }
    }

    fn stepper(&self, out: &mut Vec<Self>) {
        let go = |stepper| Self { stepper, ..*self };
        out.push(match self.stepper {
            Stepper::Starts => Self { wait_word: self.wait_word + 2, pending: false, ..go(Stepper::Looks) },
            Stepper::Looks => Self { carried: self.carried || self.published, ..go(Stepper::Releases) },
            Stepper::Releases => go(Stepper::LooksAgain),
            Stepper::LooksAgain => go(if self.pending { Stepper::Starts } else { Stepper::Gone }),
            Stepper::Gone => return,
        });
    }
}

impl Model for OneWay {
    /// The fence between the publish and the load of DEVICE_WAIT.
    type Without = bool;

    fn next(&self, without: bool) -> Vec<Self> {
        let mut out = Vec::new();
        self.caller(without, &mut out);
        self.stepper(&mut out);
        let is_held = matches!(self.stepper, Stepper::Looks | Stepper::Releases);
        if self.other == Other::Notifies && is_held && self.wait_word != self.notified_for {
            out.push(Self { other: Other::Gone, notified_for: self.wait_word, pending: true, ..*self });
        }
        out
    }

    fn is_done(&self) -> bool {
        self.caller == Caller::Gone && self.stepper == Stepper::Gone && self.carried
    }
}

#[test]
fn a_one_way_call_is_carried_though_its_thread_leaves() {
    holds(ONE_WAY, 100);
}

#[test]
fn without_a_fence_in_front_of_device_wait_a_one_way_call_stays() {
    assert_eq!(search(ONE_WAY, true), Err(STUCK));
}
