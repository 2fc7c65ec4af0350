//! Requests and replies of one queue pair, by copies of memory of which none is atomic: the mirror finds requests in H,
//! writes them to D, and brings replies back. One write of payload and word lands in either order, one read of both sees
//! either first. Messages are numbered, and the payload of a message or of its reply is its number.

use crate::states::{Model, holds, search};

const MESSAGES: u8 = 5;
/// The hot slot, and the ring of two.
const SLOTS: usize = 3;
const HOT: usize = 0;

#[derive(Clone, Copy, Default)]
struct Without {
    /// Payload in front of the word, in a write of its own.
    payload_first: bool,
    /// Payload read behind the word that says it is there.
    payload_behind: bool,
    /// A second look at the hot slot in front of a ring message.
    second_look: bool,
    /// Replies are looked for in the order of their messages.
    in_order: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Mirror {
    Idle,
    /// A ring message is found.
    Found(usize, u8),
    /// The message is to be written.
    Write(usize, u8),
    /// Its word is written, not its payload; its payload, not its word.
    Payload(usize, u8),
    Word(usize, u8),
    /// This slot's payload was read, and its word is read next.
    Read(usize, u8),
    /// The reply is there.
    Take(usize, u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Device {
    Idle,
    /// A ring message is found.
    Found(usize),
    /// The reply's payload is written, not its word.
    Ran(usize, u8),
}

/// Words of requests and replies, and payloads, by slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct State {
    sent: u8,
    in_ring: u8,
    near_request: [u8; SLOTS],
    near_reply: [u8; SLOTS],
    near_result: [u8; SLOTS],
    mirror: Mirror,
    carried: [u8; SLOTS],
    mirror_ring: u8,
    request: [u8; SLOTS],
    arguments: [u8; SLOTS],
    reply: [u8; SLOTS],
    result: [u8; SLOTS],
    device: Device,
    device_ring: u8,
    ran: u8,
    wrong: bool,
}

const FIRST: State = State {
    sent: 0,
    in_ring: 0,
    near_request: [0; SLOTS],
    near_reply: [0; SLOTS],
    near_result: [0; SLOTS],
    mirror: Mirror::Idle,
    carried: [0; SLOTS],
    mirror_ring: 0,
    request: [0; SLOTS],
    arguments: [0; SLOTS],
    reply: [0; SLOTS],
    result: [0; SLOTS],
    device: Device::Idle,
    device_ring: 0,
    ran: 0,
    wrong: false,
};

fn ring(position: u8) -> usize {
    1 + usize::from(position % 2)
}

fn with(mut of: [u8; SLOTS], slot: usize, value: u8) -> [u8; SLOTS] {
    of[slot] = value;
    of
}

impl State {
    /// Rules 7 and 11. The ring is answered when its newest message is.
    fn host(&self, out: &mut Vec<Self>) {
        let number = self.sent + 1;
        if number > MESSAGES {
            return;
        }
        let submit = |slot| Self { sent: number, near_request: with(self.near_request, slot, number), ..*self };
        if self.near_request[HOT] == self.near_reply[HOT] && self.ring_seems_answered() {
            out.push(submit(HOT));
        }
        let slot = ring(self.in_ring);
        if self.near_request[slot] == self.near_reply[slot] {
            out.push(Self { in_ring: self.in_ring + 1, ..submit(slot) });
        }
    }

    fn ring_seems_answered(&self) -> bool {
        let newest = ring(self.in_ring + 1);
        self.near_request[newest] == self.near_reply[newest]
    }

    fn mirror(&self, without: Without, out: &mut Vec<Self>) {
        let go = |mirror| Self { mirror, ..*self };
        let carried = |slot, number| Self {
            carried: with(self.carried, slot, number),
            mirror_ring: self.mirror_ring + u8::from(slot != HOT),
            ..go(Mirror::Idle)
        };
        match self.mirror {
            Mirror::Idle => {
                for slot in [HOT, ring(self.mirror_ring)] {
                    let number = self.near_request[slot];
                    if number > self.carried[slot] {
                        let looks = slot != HOT && !without.second_look;
                        out.push(go(if looks { Mirror::Found(slot, number) } else { Mirror::Write(slot, number) }));
                    }
                }
                let is_outstanding = |slot: &usize| self.carried[*slot] != self.near_reply[*slot];
                let oldest = (0..SLOTS).filter(is_outstanding).min_by_key(|slot| self.carried[*slot]);
                for slot in
                    (0..SLOTS).filter(|slot| is_outstanding(slot) && (without.in_order || oldest == Some(*slot)))
                {
                    let number = self.carried[slot];
                    if without.payload_behind {
                        out.push(go(Mirror::Read(slot, self.result[slot])));
                    }
                    if self.reply[slot] == number {
                        out.push(go(Mirror::Take(slot, number)));
                    }
                }
            }
            Mirror::Found(slot, number) => {
                let hot = self.near_request[HOT];
                out.push(go(match hot > self.carried[HOT] {
                    true => Mirror::Write(HOT, hot),
                    false => Mirror::Write(slot, number),
                }));
            }
            Mirror::Write(slot, number) => {
                let arguments = with(self.arguments, slot, number);
                out.push(Self { arguments, ..go(Mirror::Word(slot, number)) });
                if without.payload_first {
                    let request = with(self.request, slot, number);
                    out.push(Self { request, ..go(Mirror::Payload(slot, number)) });
                }
            }
            Mirror::Word(slot, number) => {
                out.push(Self { request: with(self.request, slot, number), ..carried(slot, number) });
            }
            Mirror::Payload(slot, number) => {
                out.push(Self { arguments: with(self.arguments, slot, number), ..carried(slot, number) });
            }
            Mirror::Read(slot, _) if self.reply[slot] != self.carried[slot] => out.push(go(Mirror::Idle)),
            Mirror::Read(slot, result) => out.push(self.replied(slot, result)),
            Mirror::Take(slot, _) => out.push(self.replied(slot, self.result[slot])),
        }
    }

    fn replied(&self, slot: usize, result: u8) -> Self {
        Self {
            mirror: Mirror::Idle,
            near_reply: with(self.near_reply, slot, self.carried[slot]),
            near_result: with(self.near_result, slot, result),
            ..*self
        }
    }

    /// Rules 6 and 8.
    fn device(&self, out: &mut Vec<Self>) {
        let is_there = |slot: usize| self.request[slot] != self.reply[slot];
        let ran = |slot| {
            let number = self.request[slot];
            let is_next = self.ran + 1 == number && self.arguments[slot] == number;
            let result = with(self.result, slot, number);
            Self { device: Device::Ran(slot, number), ran: number, wrong: !is_next, result, ..*self }
        };
        match self.device {
            Device::Idle => {
                if is_there(HOT) {
                    out.push(ran(HOT));
                }
                let slot = ring(self.device_ring);
                if is_there(slot) {
                    out.push(Self { device: Device::Found(slot), ..*self });
                }
            }
            Device::Found(slot) => out.push(ran(if is_there(HOT) { HOT } else { slot })),
            Device::Ran(slot, number) => out.push(Self {
                device: Device::Idle,
                device_ring: self.device_ring + u8::from(slot != HOT),
                reply: with(self.reply, slot, number),
                ..*self
            }),
        }
    }
}

const OUT_OF_ORDER: &str = "a message ran where another was due, or with another's arguments";
const OLD_RESULT: &str = "a reply came with another's result";
const TOO_EARLY: &str = "the ring seems answered, and one message of it is not";

impl Model for State {
    type Without = Without;

    fn next(&self, without: Without) -> Vec<Self> {
        let mut out = Vec::new();
        self.host(&mut out);
        self.mirror(without, &mut out);
        self.device(&mut out);
        out
    }

    fn fault(&self) -> Option<&'static str> {
        if self.wrong {
            return Some(OUT_OF_ORDER);
        }
        if self.near_reply != self.near_result {
            return Some(OLD_RESULT);
        }
        let is_answered = self.near_request[1..] == self.near_reply[1..];
        (self.ring_seems_answered() && !is_answered).then_some(TOO_EARLY)
    }

    fn is_done(&self) -> bool {
        self.sent == MESSAGES && self.near_request == self.near_reply
    }
}

#[test]
fn messages_and_replies_cross_in_order_and_whole() {
    holds(FIRST, 1000);
}

#[test]
fn payload_and_word_in_one_write_tear() {
    assert_eq!(search(FIRST, Without { payload_first: true, ..Without::default() }), Err(OUT_OF_ORDER));
}

#[test]
fn payload_of_the_read_that_finds_the_word_tears() {
    assert_eq!(search(FIRST, Without { payload_behind: true, ..Without::default() }), Err(OLD_RESULT));
}

#[test]
fn without_a_second_look_at_the_hot_slot_the_order_is_lost() {
    assert_eq!(search(FIRST, Without { second_look: true, ..Without::default() }), Err(OUT_OF_ORDER));
}

#[test]
fn replies_in_another_order_make_a_ring_seem_answered() {
    assert_eq!(search(FIRST, Without { in_order: true, ..Without::default() }), Err(TOO_EARLY));
}
