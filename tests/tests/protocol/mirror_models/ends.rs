//! How a server tells of the end of its device: a state, or the end of the process, goes to the host behind all replies
//! that were published before it. The device replies to one call, publishes CRASHED, replies to the other one, which
//! runs, and ends (abi §3.4). The host takes what is not answered at the end for lost.

use crate::states::{Model, holds, search};

#[derive(Clone, Copy, Default)]
struct Without {
    /// The looks are behind the load of state and process.
    look_behind: bool,
    /// The server goes on looking behind CRASHED.
    go_on: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Server {
    /// It loads whether the process has ended.
    Loads,
    /// It looks at the reply of a call, then that of the next; the load is done, if it is first.
    Looks(usize, Option<bool>),
    /// It sends what it has loaded.
    Tells(bool),
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Frame {
    Reply(usize),
    Ended,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    /// Steps of the device: the first reply, CRASHED, the second reply, the end.
    device: u8,
    server: Server,
    /// Replies that the server sent.
    sent: [bool; 2],
    wire: Vec<Frame>,
    /// Outcomes: a value, or lost.
    outcomes: [Option<bool>; 2],
}

const LOST: &str = "a call was lost that had its reply";

const FIRST: State =
    State { device: 0, server: Server::Loads, sent: [false; 2], wire: Vec::new(), outcomes: [None; 2] };

impl State {
    fn is_replied(&self, call: usize) -> bool {
        self.device >= [1, 3][call]
    }

    fn has_ended(&self) -> bool {
        self.device == 4
    }

    fn server(&self, without: Without) -> Option<Self> {
        let mut next = self.clone();
        next.server = match self.server {
            Server::Loads if without.look_behind => Server::Looks(0, None),
            Server::Loads => Server::Looks(0, Some(self.has_ended())),
            Server::Looks(call, loaded) => {
                let has_crashed = self.device >= 2;
                if self.is_replied(call) && !self.sent[call] && !(without.go_on && has_crashed) {
                    next.sent[call] = true;
                    next.wire.push(Frame::Reply(call));
                }
                match call {
                    0 => Server::Looks(1, loaded),
                    _ => Server::Tells(loaded.unwrap_or_else(|| self.has_ended())),
                }
            }
            Server::Tells(false) => Server::Loads,
            Server::Tells(true) => {
                next.wire.push(Frame::Ended);
                Server::Done
            }
            Server::Done => return None,
        };
        Some(next)
    }
}

impl Model for State {
    type Without = Without;

    fn next(&self, without: Without) -> Vec<Self> {
        let mut out: Vec<Self> = self.server(without).into_iter().collect();
        if !self.has_ended() {
            out.push(Self { device: self.device + 1, ..self.clone() });
        }
        if let Some(frame) = self.wire.first() {
            let mut next = self.clone();
            next.wire.remove(0);
            match *frame {
                Frame::Reply(call) => next.outcomes[call] = Some(true),
                Frame::Ended => next.outcomes = self.outcomes.map(|outcome| outcome.or(Some(false))),
            }
            out.push(next);
        }
        out
    }

    fn fault(&self) -> Option<&'static str> {
        self.outcomes.contains(&Some(false)).then_some(LOST)
    }

    fn is_done(&self) -> bool {
        self.outcomes == [Some(true); 2]
    }
}

#[test]
fn each_reply_that_was_published_arrives() {
    holds(FIRST, 40);
}

#[test]
fn a_look_in_front_of_the_load_loses_a_reply() {
    assert_eq!(search(FIRST, Without { look_behind: true, ..Without::default() }), Err(LOST));
}

#[test]
fn a_server_that_does_not_look_behind_crashed_loses_a_reply() {
    assert_eq!(search(FIRST, Without { go_on: true, ..Without::default() }), Err(LOST));
}
