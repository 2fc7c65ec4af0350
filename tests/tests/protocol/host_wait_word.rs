//! The wait word of a host queue (abi §12), explored exhaustively: a device with two messages, a host
//! thread that waits for the task which sent the first, and a worker that the doorbell wakes. Every
//! order of their steps, one store or load each; fences are assumed where abi §12 has them.
//!
//! No message is left unread for ever, and the waiting thread takes no message of a later task. Each
//! rule is shown to be needed: without it one of the two happens.

use crate::states::{Model, STUCK, search};

/// The waiting thread's fault.
const WRONG: &str = "a message of a later task was taken";

/// What a variant leaves out.
#[derive(Clone, Copy, Default)]
struct Without {
    /// The device notifies again for the same odd value.
    again: bool,
    /// A waiting thread looks at its own result once more before it takes a message.
    second_look: bool,
    /// A thread gives the queue up before it looks at it for the last time.
    release_first: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Holder {
    None,
    Waiter,
    Worker,
}

/// Steps of the device: it publishes, loads the wait word, waits for the reply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum DeviceStep {
    Publish1,
    Check1,
    /// Waits for the first reply, unless the messages are pipelined.
    Reply1,
    /// The first task has ended: its waiter's result is there.
    End1,
    Publish2,
    Check2,
    Reply2,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum WaiterStep {
    Waits,
    Holds,
    Looks,
    Found,
    Takes,
    Leaves,
    Releases,
    LastLook,
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum WorkerStep {
    Sleeps,
    Woken,
    Holds,
    Serves,
    Leaves,
    Releases,
    LastLook,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct State {
    device: DeviceStep,
    waiter: WaiterStep,
    worker: WorkerStep,
    /// Messages published, and answered, in order.
    published: u8,
    answered: u8,
    /// The waiter's result is there.
    ended: bool,
    word: u8,
    /// The largest value that the word had.
    last: u8,
    /// The odd value that the device notified for last, and the newest message then.
    notified: u8,
    notified_of: u8,
    bell: bool,
    holder: Holder,
    /// The waiter took a message of a later task.
    wrong: bool,
}

impl State {
    const FIRST: Self = Self {
        device: DeviceStep::Publish1,
        waiter: WaiterStep::Waits,
        worker: WorkerStep::Sleeps,
        published: 0,
        answered: 0,
        ended: false,
        word: 1,
        last: 1,
        notified: 0,
        notified_of: 0,
        bell: false,
        holder: Holder::None,
        wrong: false,
    };

    fn has_message(self) -> bool {
        self.answered < self.published
    }

    /// The device's rule (`HostQueue::needs_notify`), when it sees so many replies.
    fn needs_notify(self, answered: u8, without: Without) -> bool {
        let waits = self.word == self.notified && (without.again || answered < self.notified_of);
        self.word % 2 == 1 && answered < self.published && !waits
    }

    fn notify(self) -> Self {
        Self { bell: true, notified: self.word, notified_of: self.published, ..self }
    }

    fn even(self) -> Self {
        Self { word: self.last + 1, last: self.last + 1, ..self }
    }

    fn odd(self) -> Self {
        let word = (self.last + 1) | 1;
        Self { word, last: word, ..self }
    }

    /// All states that one step leads to. `pipelined`: both messages are of the first task.
    fn steps(self, pipelined: bool, without: Without) -> Vec<Self> {
        let mut next = Vec::new();
        let device = |device| Self { device, ..self };
        // The word may be seen before the replies that were published in front of it.
        let checked = |step: Self| {
            [0, self.answered].map(|seen| if self.needs_notify(seen, without) { step.notify() } else { step })
        };
        match self.device {
            DeviceStep::Publish1 => next.push(Self { published: 1, ..device(DeviceStep::Check1) }),
            DeviceStep::Check1 => {
                next.extend(checked(device(if pipelined { DeviceStep::Publish2 } else { DeviceStep::Reply1 })));
            }
            DeviceStep::Reply1 if self.answered >= 1 => next.push(device(DeviceStep::End1)),
            DeviceStep::End1 => next.push(Self { ended: true, ..device(DeviceStep::Publish2) }),
            DeviceStep::Publish2 => next.push(Self { published: 2, ..device(DeviceStep::Check2) }),
            DeviceStep::Check2 => next.extend(checked(device(DeviceStep::Reply2))),
            DeviceStep::Reply2 if self.answered == 2 => {
                next.push(Self { ended: true, ..device(DeviceStep::Done) });
            }
            // While it waits it looks at the word again and again.
            DeviceStep::Reply1 | DeviceStep::Reply2 if self.needs_notify(self.answered, without) => {
                next.push(self.notify());
            }
            _ => {}
        }
        let waiter = |waiter| Self { waiter, ..self };
        match self.waiter {
            WaiterStep::Waits => {
                if self.ended {
                    next.push(waiter(WaiterStep::Gone));
                }
                if self.holder == Holder::None {
                    next.push(Self { holder: Holder::Waiter, ..waiter(WaiterStep::Holds) });
                }
            }
            WaiterStep::Holds => next.push(Self { waiter: WaiterStep::Looks, ..self.even() }),
            WaiterStep::Looks => {
                // It may leave to sleep at any time.
                next.push(waiter(WaiterStep::Leaves));
                next.push(waiter(if self.ended { WaiterStep::Leaves } else { WaiterStep::Found }));
            }
            WaiterStep::Found if !self.has_message() => next.push(waiter(WaiterStep::Looks)),
            WaiterStep::Found if !without.second_look && self.ended => next.push(waiter(WaiterStep::Leaves)),
            WaiterStep::Found => next.push(waiter(WaiterStep::Takes)),
            WaiterStep::Takes => {
                let wrong = self.answered == 1 && !pipelined;
                next.push(Self { answered: self.answered + 1, wrong, ..waiter(WaiterStep::Looks) });
            }
            WaiterStep::Leaves => next.push(Self { waiter: WaiterStep::Releases, ..self.odd() }),
            WaiterStep::Releases | WaiterStep::LastLook => {
                let releases = (self.waiter == WaiterStep::Releases) != without.release_first;
                let step = if self.waiter == WaiterStep::Releases { WaiterStep::LastLook } else { WaiterStep::Gone };
                next.push(if releases {
                    Self { holder: Holder::None, ..waiter(step) }
                } else {
                    Self { bell: self.bell || self.has_message(), ..waiter(step) }
                });
            }
            WaiterStep::Gone => {}
        }
        let worker = |worker| Self { worker, ..self };
        match self.worker {
            WorkerStep::Sleeps if self.bell => next.push(Self { bell: false, ..worker(WorkerStep::Woken) }),
            WorkerStep::Sleeps => {}
            WorkerStep::Woken if self.has_message() && self.holder == Holder::None => {
                next.push(Self { holder: Holder::Worker, ..worker(WorkerStep::Holds) });
            }
            WorkerStep::Woken => next.push(worker(WorkerStep::Sleeps)),
            WorkerStep::Holds => next.push(Self { worker: WorkerStep::Serves, ..self.even() }),
            WorkerStep::Serves if self.has_message() => {
                next.push(Self { answered: self.answered + 1, ..self });
            }
            WorkerStep::Serves => next.push(worker(WorkerStep::Leaves)),
            WorkerStep::Leaves => next.push(Self { worker: WorkerStep::Releases, ..self.odd() }),
            WorkerStep::Releases => next.push(Self { holder: Holder::None, ..worker(WorkerStep::LastLook) }),
            WorkerStep::LastLook => {
                next.push(worker(if self.has_message() { WorkerStep::Woken } else { WorkerStep::Sleeps }));
            }
        }
        next
    }
}

impl Model for State {
    /// With both messages of the first task, or not.
    type Without = (bool, Without);

    fn next(&self, (pipelined, without): (bool, Without)) -> Vec<Self> {
        self.steps(pipelined, without)
    }

    fn fault(&self) -> Option<&'static str> {
        self.wrong.then_some(WRONG)
    }

    fn is_done(&self) -> bool {
        self.device == DeviceStep::Done
    }
}

#[test]
fn no_message_is_left_and_none_is_taken_for_another_task() {
    for pipelined in [false, true] {
        let states = search(State::FIRST, (pipelined, Without::default())).expect("the model holds");
        assert!(states > 100, "{states}");
    }
}

#[test]
fn one_notification_for_an_odd_value_is_not_enough() {
    let without = Without { again: true, ..Without::default() };
    assert_eq!(search(State::FIRST, (false, without)), Err(STUCK));
}

#[test]
fn without_a_second_look_a_later_task_is_served() {
    let without = Without { second_look: true, ..Without::default() };
    assert_eq!(search(State::FIRST, (false, without)), Err(WRONG));
}

#[test]
fn a_last_look_before_the_queue_is_given_up_is_too_early() {
    let without = Without { release_first: true, ..Without::default() };
    assert_eq!(search(State::FIRST, (false, without)), Err(STUCK));
}
