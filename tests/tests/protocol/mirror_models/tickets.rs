//! Calls of tasks and CANCEL across a connection, which keeps order: the near end looks for requests in H and sends each
//! as one frame, the far end publishes it in D and looks for its reply. Per queue pair the far end looks at the slots
//! whose requests came; at a ticket slot until the request's reply, and behind TAKEN until its own. Both ends know what
//! is outstanding.
//!
//! A ring of two slots and one ticket. Each call is of a task or not; the host may cancel it; a task may end before it
//! waits, behind TAKEN, or only when it is cancelled.

use crate::states::{Model, STUCK, holds, search};

const CALLS: u8 = 3;
/// Two of the ring, then that of the ticket.
const SLOTS: usize = 3;
const TICKET: usize = 2;

#[derive(Clone, Copy, Default)]
struct Without {
    /// The header of the ticket slot goes with its request.
    ticket_header: bool,
    /// The header of an outstanding request is compared behind TAKEN, too.
    header_until_the_reply: bool,
    /// The far end no longer looks at the ticket slot behind a reply in the request's.
    end_of_look: bool,
    /// A CANCEL is the header alone, without payload.
    header_alone: bool,
    /// A CANCEL begins no look.
    no_second_look: bool,
}

/// A slot of either copy. Payload is 2c + 1 of the arguments of call c, 2c + 2 of its result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Slot {
    request: u8,
    cancel: bool,
    payload: u8,
    reply: u8,
    taken: bool,
}

/// What an end knows of an outstanding request: its word, whether its CANCEL was sent, and whether it is of a task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Outstanding {
    word: u8,
    cancelled: bool,
    of_task: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Frame {
    /// With the word of its ticket, of a task.
    Request {
        slot: usize,
        word: u8,
        payload: u8,
        ticket: Option<u8>,
    },
    Cancel {
        slot: usize,
        word: u8,
    },
    Reply {
        slot: usize,
        word: u8,
        payload: u8,
        taken: bool,
    },
}

/// A call in flight: its word, and whether it was cancelled and moved to the ticket slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Call {
    sent: bool,
    of_task: bool,
    cancelled: bool,
    moved: bool,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Device {
    Idle,
    /// The result of this call is in the ring slot, its word is not.
    Ran(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Task {
    call: u8,
    word: u8,
    /// It ends only when it is cancelled.
    waits: bool,
    /// Its result is in the ticket slot, the word is not.
    ran: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    calls: [Call; CALLS as usize],
    /// Calls whose ring slots are free again.
    released: u8,
    /// Uses of the ticket.
    uses: u8,
    near: [Slot; SLOTS],
    near_next: u8,
    near_outstanding: [Option<Outstanding>; SLOTS],
    there: Vec<Frame>,
    back: Vec<Frame>,
    far: [Slot; SLOTS],
    far_outstanding: [Option<Outstanding>; SLOTS],
    device: Device,
    device_next: u8,
    /// The word of the ticket in the request that the device takes next.
    far_ticket: [u8; 2],
    task: Option<Task>,
    fault: Option<&'static str>,
}

const WRONG_ARGUMENTS: &str = "a call ran with another's arguments";
const WRONG_RESULT: &str = "a reply came with another's result";
const NOT_CANCELLED: &str = "a call was cancelled that its caller did not cancel";
const TWICE: &str = "a reply came twice";
const LOOKS_ON: &str = "a look without an end";

fn ring(call: u8) -> usize {
    usize::from(call % 2)
}

fn first() -> State {
    State {
        calls: [Call::default(); CALLS as usize],
        released: 0,
        uses: 0,
        near: [Slot::default(); SLOTS],
        near_next: 0,
        near_outstanding: [None; SLOTS],
        there: Vec::new(),
        back: Vec::new(),
        far: [Slot::default(); SLOTS],
        far_outstanding: [None; SLOTS],
        device: Device::Idle,
        device_next: 0,
        far_ticket: [0; 2],
        task: None,
        fault: None,
    }
}

impl State {
    fn host(&self, out: &mut Vec<Self>) {
        let sent = self.calls.iter().filter(|call| call.sent).count() as u8;
        let has_ticket = self.calls.iter().all(|call| !call.of_task || call.ended);
        if sent < CALLS && sent - self.released < 2 {
            for of_task in [false, true] {
                if of_task && !has_ticket {
                    continue;
                }
                let mut next = self.clone();
                next.calls[usize::from(sent)] = Call { sent: true, of_task, ..Call::default() };
                if of_task {
                    // The word of a request in a ticket slot is nothing; a header of the last call is gone.
                    next.near[TICKET].cancel = false;
                }
                let slot = &mut next.near[ring(sent)];
                *slot = Slot { request: sent + 1, cancel: false, payload: 2 * sent + 1, ..*slot };
                out.push(next);
            }
        }
        for (number, call) in self.calls.iter().enumerate() {
            if call.sent && !call.ended && !call.cancelled {
                let mut next = self.clone();
                next.calls[number].cancelled = true;
                let slot = if call.of_task { TICKET } else { ring(number as u8) };
                next.near[slot].cancel = true;
                out.push(next);
            }
        }
        // The oldest slot of the ring, and that of the ticket.
        let oldest = self.near[ring(self.released)];
        if self.released < sent && oldest.reply == self.released + 1 {
            let mut next = self.clone();
            let call = &mut next.calls[usize::from(self.released)];
            if oldest.taken {
                call.moved = true;
            } else {
                call.ended = true;
                next.expect(oldest.payload == 2 * self.released + 2, WRONG_RESULT);
            }
            next.released += 1;
            out.push(next);
        }
        if let Some(number) = self.calls.iter().position(|call| call.moved && !call.ended)
            && self.near[TICKET].reply == self.uses + 1
        {
            let mut next = self.clone();
            next.calls[number].ended = true;
            next.uses += 1;
            next.expect(self.near[TICKET].payload == 2 * number as u8 + 2, WRONG_RESULT);
            out.push(next);
        }
    }

    fn expect(&mut self, is: bool, fault: &'static str) {
        if !is {
            self.fault = Some(fault);
        }
    }

    fn near_end(&self, without: Without, out: &mut Vec<Self>) {
        let word = self.near_next + 1;
        let slot = ring(self.near_next);
        if self.near[slot].request == word {
            let mut next = self.clone();
            let of_task = self.calls[usize::from(self.near_next)].of_task;
            let ticket = of_task.then_some(self.uses + 1);
            next.there.push(Frame::Request { slot, word, payload: self.near[slot].payload, ticket });
            next.near_outstanding[slot] = Some(Outstanding { word, cancelled: false, of_task });
            if let Some(word) = ticket {
                next.near_outstanding[TICKET] = Some(Outstanding { word, cancelled: false, of_task });
            }
            next.near_next += 1;
            out.push(next);
        }
        for slot in 0..SLOTS {
            let Some(outstanding) = self.near_outstanding[slot] else { continue };
            let is_moved = slot == TICKET && self.calls.iter().any(|call| call.moved && !call.ended);
            let compares = !is_moved || !without.header_until_the_reply;
            if self.near[slot].cancel && !outstanding.cancelled && compares {
                let mut next = self.clone();
                next.there.push(Frame::Cancel { slot, word: outstanding.word });
                next.near_outstanding[slot] = Some(Outstanding { cancelled: true, ..outstanding });
                out.push(next);
            }
        }
        if let Some(&Frame::Reply { slot, word, payload, taken }) = self.back.first() {
            let mut next = self.clone();
            next.back.remove(0);
            match self.near_outstanding[slot].filter(|outstanding| outstanding.word == word) {
                Some(outstanding) => {
                    let at = &mut next.near[slot];
                    *at = Slot { reply: word, taken, payload, ..*at };
                    next.near_outstanding[slot] = None;
                    if outstanding.of_task && !taken {
                        next.near_outstanding[TICKET] = None;
                    }
                }
                None => next.fault = Some(TWICE),
            }
            out.push(next);
        }
    }

    fn far_end(&self, without: Without, out: &mut Vec<Self>) {
        if let Some(frame) = self.there.first() {
            let mut next = self.clone();
            next.there.remove(0);
            match *frame {
                Frame::Request { slot, word, payload, ticket } => {
                    let of_task = ticket.is_some();
                    if let Some(word) = ticket {
                        next.far_outstanding[TICKET] = Some(Outstanding { word, cancelled: false, of_task });
                        next.far[TICKET].cancel &= without.ticket_header;
                    }
                    next.far_ticket[slot] = ticket.unwrap_or(0);
                    let at = &mut next.far[slot];
                    *at = Slot { request: word, cancel: false, payload, ..*at };
                    next.far_outstanding[slot] = Some(Outstanding { word, cancelled: false, of_task });
                }
                Frame::Cancel { slot, word } => {
                    let outstanding = self.far_outstanding[slot].filter(|outstanding| outstanding.word == word);
                    if outstanding.is_some() || without.no_second_look {
                        next.far[slot].cancel = true;
                        if without.header_alone {
                            next.far[slot].payload = 2 * word - 1;
                        }
                        next.far_outstanding[slot] =
                            outstanding.or(Some(Outstanding { word, cancelled: true, of_task: slot == TICKET }));
                    }
                }
                Frame::Reply { .. } => unreachable!("replies go the other way"),
            }
            out.push(next);
        }
        for slot in 0..SLOTS {
            let Some(Outstanding { word, of_task, .. }) = self.far_outstanding[slot] else { continue };
            let Slot { reply, taken, payload, .. } = self.far[slot];
            if reply == word {
                let mut next = self.clone();
                next.back.push(Frame::Reply { slot, word, payload, taken });
                next.far_outstanding[slot] = None;
                if of_task && !taken && !without.end_of_look {
                    next.far_outstanding[TICKET] = None;
                }
                out.push(next);
            }
        }
    }

    fn device(&self, out: &mut Vec<Self>) {
        let call = self.device_next;
        let slot = ring(call);
        match self.device {
            Device::Idle if self.far[slot].request == call + 1 => {
                let mut next = self.clone();
                next.expect(self.far[slot].payload == 2 * call + 1, WRONG_ARGUMENTS);
                let header = if self.far_ticket[slot] == 0 { slot } else { TICKET };
                next.expect(!self.far[header].cancel || self.calls[usize::from(call)].cancelled, NOT_CANCELLED);
                if self.far_ticket[slot] != 0 {
                    for waits in [false, true] {
                        let mut next = next.clone();
                        next.task = Some(Task { call, word: self.far_ticket[slot], waits, ran: false });
                        let at = &mut next.far[slot];
                        *at = Slot { reply: call + 1, taken: true, ..*at };
                        next.device_next += 1;
                        out.push(next);
                    }
                }
                next.far[slot].payload = 2 * call + 2;
                next.device = Device::Ran(call);
                out.push(next);
            }
            Device::Idle => {}
            Device::Ran(call) => {
                let mut next = self.clone();
                let at = &mut next.far[slot];
                *at = Slot { reply: call + 1, taken: false, ..*at };
                (next.device, next.device_next) = (Device::Idle, call + 1);
                out.push(next);
            }
        }
        if let Some(task) = self.task {
            let mut next = self.clone();
            let is_cancelled = self.far[TICKET].cancel;
            next.expect(!is_cancelled || self.calls[usize::from(task.call)].cancelled, NOT_CANCELLED);
            if task.ran {
                next.far[TICKET].reply = task.word;
                next.task = None;
                out.push(next);
            } else if is_cancelled || !task.waits {
                next.far[TICKET].payload = 2 * task.call + 2;
                next.task = Some(Task { ran: true, ..task });
                out.push(next);
            }
        }
    }
}

impl Model for State {
    type Without = Without;

    fn next(&self, without: Without) -> Vec<Self> {
        let mut out = Vec::new();
        self.host(&mut out);
        self.near_end(without, &mut out);
        self.far_end(without, &mut out);
        self.device(&mut out);
        out
    }

    fn fault(&self) -> Option<&'static str> {
        let looks = [self.near_outstanding, self.far_outstanding].as_flattened().iter().flatten().count();
        let is_left = self.is_done() && looks != 0 && self.there.is_empty() && self.back.is_empty();
        self.fault.or(is_left.then_some(LOOKS_ON))
    }

    fn is_done(&self) -> bool {
        self.calls.iter().all(|call| call.ended)
    }
}

#[test]
fn each_call_ends_once_with_its_own_result() {
    holds(first(), 10_000);
}

#[test]
fn a_header_compared_until_taken_only_cancels_no_task() {
    let without = Without { header_until_the_reply: true, ..Without::default() };
    assert_eq!(search(first(), without), Err(STUCK));
}

#[test]
fn a_ticket_slot_without_its_header_cancels_the_next_task() {
    assert_eq!(search(first(), Without { ticket_header: true, ..Without::default() }), Err(NOT_CANCELLED));
}

#[test]
fn a_look_at_the_ticket_slot_of_a_call_that_did_not_wait_has_no_end() {
    assert_eq!(search(first(), Without { end_of_look: true, ..Without::default() }), Err(LOOKS_ON));
}

#[test]
fn a_cancel_with_payload_overwrites_the_result() {
    assert_eq!(search(first(), Without { header_alone: true, ..Without::default() }), Err(WRONG_RESULT));
}

#[test]
fn a_cancel_that_begins_a_look_sends_the_reply_twice() {
    assert_eq!(search(first(), Without { no_second_look: true, ..Without::default() }), Err(TWICE));
}
