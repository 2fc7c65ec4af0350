//! Calls to the host (abi §12) across a connection: the server, which has D, looks for requests in host queues, sends
//! them, and publishes the replies that come back. Of one place: a task sends two messages and ends, perhaps before they
//! are answered; one from the backlog, whose TAKEN named no place, has the place next and sends one. The first body may
//! wait until the device cancels its call. Of that the device tells no one, but where it has no more work it notifies for a
//! fresh odd value while a message is unanswered, so the server looks.

use crate::states::{Model, NEVER_DONE, holds, search};

#[derive(Clone, Copy, Default)]
struct Without {
    /// The queue is looked at also for a task whose TAKEN named no place.
    without_a_place: bool,
    /// It is looked at also behind its task's reply.
    behind_the_reply: bool,
    /// A fresh odd value in the wait word in front of each sleep.
    fresh_value: bool,
    /// The header of an outstanding request is compared until its reply.
    header: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Device {
    Publishes(u8),
    /// It loads the wait word.
    Checks(u8),
    /// The first task has replied; the place is free when its messages are answered.
    Drains,
    /// The second task waits for its reply.
    Waits,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Server {
    Looks,
    PreparesWait,
    LooksAgain,
    Sleeps,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Frame {
    Request,
    Cancel,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    /// The first body waits for its cancellation.
    waits: bool,
    device: Device,
    /// Messages in D, and their replies; the first one's CANCEL.
    published: u8,
    answered: u8,
    cancelled: bool,
    /// The newest message that the device notified of for this value of the wait word.
    notified_of: Option<u8>,
    doorbell: bool,
    server: Server,
    sent: u8,
    cancel_sent: bool,
    there: Vec<Frame>,
    /// Of H.
    found: u8,
    body_cancelled: bool,
    replied: u8,
    /// Replies on their way back.
    back: u8,
}

const LIES: &str = "a message lies in D while the server sleeps";

fn first(waits: bool) -> State {
    State {
        waits,
        device: Device::Publishes(1),
        published: 0,
        answered: 0,
        cancelled: false,
        notified_of: None,
        doorbell: false,
        server: Server::Looks,
        sent: 0,
        cancel_sent: false,
        there: Vec::new(),
        found: 0,
        body_cancelled: false,
        replied: 0,
        back: 0,
    }
}

impl State {
    /// `QueueNotifier`.
    fn notified(&self, device: Device) -> Self {
        let needs = self.published > self.answered && self.notified_of.is_none_or(|of| self.answered >= of);
        match needs {
            true => Self { device, doorbell: true, notified_of: Some(self.published), ..self.clone() },
            false => Self { device, ..self.clone() },
        }
    }

    fn device(&self, out: &mut Vec<Self>) {
        let go = |device| Self { device, ..self.clone() };
        match self.device {
            Device::Publishes(number) => out.push(Self { published: number, ..go(Device::Checks(number)) }),
            Device::Checks(1) => out.push(self.notified(Device::Publishes(2))),
            Device::Checks(2) => out.push(self.notified(Device::Drains)),
            Device::Checks(_) => out.push(self.notified(Device::Waits)),
            Device::Drains if self.answered == 2 => out.push(go(Device::Publishes(3))),
            Device::Waits if self.answered == 3 => out.push(go(Device::Done)),
            Device::Drains | Device::Waits => out.push(self.notified(self.device)),
            Device::Done => {}
        }
        if self.published > 0 && self.answered == 0 && !self.cancelled {
            out.push(Self { cancelled: true, ..self.clone() });
        }
    }

    /// What the server finds; `None`: nothing.
    fn look(&self, without: Without) -> Option<Self> {
        if self.back > 0 {
            return Some(Self { back: self.back - 1, answered: self.answered + 1, ..self.clone() });
        }
        let looks = match self.device {
            Device::Drains => !without.behind_the_reply,
            Device::Publishes(3) | Device::Checks(3) | Device::Waits => !without.without_a_place,
            _ => true,
        };
        if looks && self.published > self.sent {
            let mut next = Self { sent: self.sent + 1, ..self.clone() };
            next.there.push(Frame::Request);
            return Some(next);
        }
        let is_outstanding = self.sent > 0 && self.answered == 0;
        if self.cancelled && is_outstanding && !self.cancel_sent && !without.header {
            let mut next = Self { cancel_sent: true, ..self.clone() };
            next.there.push(Frame::Cancel);
            return Some(next);
        }
        None
    }

    fn server(&self, without: Without, out: &mut Vec<Self>) {
        let go = |server| Self { server, ..self.clone() };
        let found = self.look(without);
        match (self.server, found) {
            (Server::Looks, Some(found)) => out.push(found),
            (Server::Looks, None) => out.push(go(Server::PreparesWait)),
            (Server::PreparesWait, _) => {
                let notified_of = self.notified_of.filter(|_| without.fresh_value);
                out.push(Self { notified_of, ..go(Server::LooksAgain) });
            }
            (Server::LooksAgain, Some(_)) => out.push(go(Server::Looks)),
            (Server::LooksAgain, None) => out.push(go(Server::Sleeps)),
            (Server::Sleeps, _) => {
                if self.doorbell {
                    out.push(Self { doorbell: false, ..go(Server::Looks) });
                }
                if self.back > 0 {
                    out.push(go(Server::Looks));
                }
            }
        }
    }

    fn host(&self, out: &mut Vec<Self>) {
        if let Some(frame) = self.there.first() {
            let mut next = self.clone();
            next.there.remove(0);
            match frame {
                Frame::Request => next.found += 1,
                Frame::Cancel => next.body_cancelled = true,
            }
            out.push(next);
        }
        if self.replied < self.found && (self.replied > 0 || !self.waits || self.body_cancelled) {
            out.push(Self { replied: self.replied + 1, back: self.back + 1, ..self.clone() });
        }
    }
}

impl Model for State {
    type Without = Without;

    fn next(&self, without: Without) -> Vec<Self> {
        let mut out = Vec::new();
        self.device(&mut out);
        self.server(without, &mut out);
        self.host(&mut out);
        // A look that changes nothing is no step.
        out.retain(|next| next != self);
        out
    }

    fn fault(&self) -> Option<&'static str> {
        let sleeps = self.server == Server::Sleeps && !self.doorbell && self.back == 0;
        let is_checked = !matches!(self.device, Device::Checks(_));
        (sleeps && is_checked && self.published > self.sent).then_some(LIES)
    }

    fn is_done(&self) -> bool {
        self.device == Device::Done
    }
}

#[test]
fn each_message_to_the_host_is_answered() {
    holds(first(false), 200);
    holds(first(true), 200);
}

#[test]
fn without_a_look_for_tasks_of_the_backlog_one_waits_for_ever() {
    let without = Without { without_a_place: true, ..Without::default() };
    assert_eq!(search(first(false), without), Err(LIES));
}

#[test]
fn without_a_look_behind_its_tasks_reply_a_place_is_never_free() {
    let without = Without { behind_the_reply: true, ..Without::default() };
    assert_eq!(search(first(false), without), Err(LIES));
}

#[test]
fn a_wait_word_that_is_left_odd_leaves_a_message() {
    let without = Without { fresh_value: true, ..Without::default() };
    assert_eq!(search(first(false), without), Err(LIES));
}

#[test]
fn a_header_that_is_not_compared_cancels_no_body() {
    let without = Without { header: true, ..Without::default() };
    assert_eq!(search(first(true), without), Err(NEVER_DONE));
}
