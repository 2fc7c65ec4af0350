//! The control stream while a queued handler runs. The handler itself calls what would interrupt
//! it, so each test controls the moment of the hand-off. Random messages reach it too, because the
//! handler is in the table.

use super::*;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::am::{Responder, SlotAccess, Slots};
use hamr_comm::builtin::ping;

fn bench() -> Bench {
    let bench = Bench::new();
    let descriptor = bench.layout.queue(&bench.window, 0).expect("own descriptor");
    set_control(bench.window.queue(&descriptor).ok());
    bench
}

/// A call of a task: where it is in the ring, its ticket, and the word of its reply there.
#[derive(Clone, Copy)]
struct Queued {
    at: u64,
    ticket: u32,
    word: u32,
}

/// Calls a task on stream 1, with these flags beside those of each such call.
fn queue(bench: &mut Bench, key: HandlerKey, flags: u32, ticket: u32, word: u32) -> Queued {
    let hdr = ReqHdr::inline(key, 16).with(ReqHdr::EXT | ReqHdr::TICKET | flags);
    let at = bench.streams[1].submit_ring(hdr, &[u64::from(word) << 32, ticket.into()]);
    Queued { at, ticket, word }
}

/// Its outcome: in the ring, or in the ticket slot where the device has taken it.
fn outcome(bench: &Bench, Queued { at, ticket, word }: Queued) -> Option<(Status, u64)> {
    let stream = &bench.streams[1];
    let mut words = [0];
    let hdr = stream.ring_reply(at)?;
    if !hdr.has(RepHdr::TAKEN) {
        stream.slots().ring(at as u32).read_reply(&mut words);
        return Some((hdr.status(), words[0]));
    }
    let line = stream.slots().ticket_slot(ticket).expect("planned");
    let hdr = RepHdr(line.rep_hdr_of(word)?);
    line.read_reply(&mut words);
    Some((hdr.status(), words[0]))
}

/// The value that a call returned, which must be there.
fn value(reply: Option<RepHdr>, line: hamr_comm::abi::window::Slot<'_, Coherent>) -> u64 {
    assert_eq!(reply.map(|hdr| (hdr.status(), hdr.len())), Some((Status::OK, 8)));
    let mut words = [0];
    line.read_reply(&mut words);
    words[0]
}

#[test]
fn pings_are_answered_beside_a_queued_call_and_nothing_else_is() {
    let mut bench = bench();
    let mut shown = 0;
    for (round, other_first) in [false, true].into_iter().cycle().take(40).enumerate() {
        let token = 1000 * round as u64;
        let control = &mut bench.streams[0];
        control.submit_hot(ReqHdr::inline(key(ping::NAME), 8), &[token]);
        // A ping waits for the other message before it, since its stream has an order.
        let other = other_first.then(|| control.submit_ring(ReqHdr::inline(key(Ping::NAME), 8), &[token + 1]));
        let last = control.submit_ring(ReqHdr::inline(key(ping::NAME), 8), &[token + 2]);
        let queued = queue(&mut bench, key(Struck::NAME), 0, 0, 1 + round as u32);
        let _ = bench.device.poll();
        let (status, found) = outcome(&bench, queued).expect("it ran");
        assert_eq!((status, found & LENT), (Status::OK, LENT), "the stream was lent");
        let control = &bench.streams[0];
        assert_eq!(value(control.hot_reply(), control.slots().hot()), token);
        // In some rounds the device polls the control stream before all others.
        if found & ANSWERED != 0 {
            shown += 1;
            assert_eq!(control.ring_reply(last).is_some(), !other_first);
        }
        if !other_first {
            // A message with a reply from the tick gets no second one: its slots have the next
            // messages at once.
            assert_eq!(value(control.ring_reply(last), control.slots().ring(last as u32)), token + 2);
            bench.streams[0].release_hot();
            bench.streams[0].release_oldest();
            bench.streams[1].release_oldest();
            bench.still_serves();
            continue;
        }
        for _ in 0..POLLS_A_ROUND {
            let _ = bench.device.poll();
        }
        let control = &bench.streams[0];
        assert_eq!(value(control.ring_reply(last), control.slots().ring(last as u32)), token + 2);
        if let Some(other) = other {
            assert_eq!(value(control.ring_reply(other), control.slots().ring(other as u32)), token + 1);
            bench.streams[0].release_oldest();
        }
        bench.streams[0].release_hot();
        bench.streams[0].release_oldest();
        bench.streams[1].release_oldest();
        bench.still_serves();
    }
    assert!(shown >= 30, "the tick answered in {shown} of 40 rounds");
    assert_eq!(tick() & LENT, 0, "no queued handler runs");
}

/// A sleeping host is notified of replies from before a queued handler, which may run for ever, in
/// any round.
#[test]
fn a_sleeping_host_is_notified_of_a_ping_before_a_queued_handler() {
    let mut bench = bench();
    let mut answered_before = 0;
    // The device polls the control stream before all others in one round of 64, which falls on each
    // step here once.
    for round in 0..1000 {
        if round % 2 == 0 {
            let _ = bench.device.poll();
        }
        // Two queued calls, and so many others that the device has fenced after the first of the
        // two: then no notification is due.
        let queued = [0, 1].map(|n| queue(&mut bench, key(Struck::NAME), ReqHdr::UNORDERED, n, 1 + round));
        for stream in [2, 3] {
            for call in 0..7 {
                bench.streams[stream].submit_ring(ReqHdr::inline(key(Ping::NAME), 8), &[call]);
            }
        }
        let first = (0..POLLS_A_ROUND).any(|_| {
            let _ = bench.device.poll();
            outcome(&bench, queued[0]).is_some()
        });
        assert!(first && outcome(&bench, queued[1]).is_none(), "one of them ran in round {round}");
        // The host pings, and sleeps.
        bench.streams[0].submit_hot(ReqHdr::inline(key(ping::NAME), 8), &[round.into()]);
        bench.say(word::HOST_WAIT, 2 * round + 1);
        let notifications = notifications();
        let second = (0..3).any(|_| {
            let _ = bench.device.poll();
            outcome(&bench, queued[1]).is_some()
        });
        assert!(second, "the other ran in round {round}");
        let (status, found) = outcome(&bench, queued[1]).expect("there");
        assert_eq!(status, Status::OK);
        // If the tick replied, the tick must notify.
        if found & ANSWERED == 0 {
            answered_before += 1;
            assert!(
                found >> NOTIFICATIONS_SHIFT > notifications,
                "round {round}: it sleeps, its ping has a reply, and no notification was sent"
            );
        }
        bench.say(word::HOST_WAIT, 2 * round + 2);
        for (stream, lines) in [(1, 2), (2, 7), (3, 7)] {
            (0..lines).for_each(|_| bench.streams[stream].release_oldest());
        }
        bench.streams[0].release_hot();
    }
    assert!(answered_before > 5, "{answered_before} of 1000 pings were answered before the handler");
}

/// Callers that sleep again and again, and are notified of each reply, do not delay a queued call.
#[test]
fn a_queued_call_runs_among_callers_that_sleep() {
    let mut bench = bench();
    let queued = queue(&mut bench, key(Struck::NAME), 0, 0, 1);
    let polls = (1..1000).find(|poll| {
        bench.say(word::HOST_WAIT, 2 * poll + 1);
        bench.streams[2].submit_hot(ReqHdr::inline(key(Ping::NAME), 8), &[0]);
        let _ = bench.device.poll();
        if bench.streams[2].hot_reply().is_some() {
            bench.streams[2].release_hot();
        }
        outcome(&bench, queued).is_some()
    });
    assert!(polls.is_some_and(|polls| polls <= 64 + 2), "it ran after {polls:?} polls");
}

/// Before a reply is counted, the host reads it and sends the next message in the same slot.
#[test]
fn the_next_message_may_come_before_a_reply_is_counted() {
    let mut bench = bench();
    let descriptor = bench.layout.queue(&bench.window, 0).expect("own descriptor");
    let queue = bench.window.queue(&descriptor).expect("own queue");
    let mut responder = Responder::new(queue, bench.epoch);
    for token in 0..3 {
        let host = &mut bench.streams[0];
        if token == 0 {
            host.submit_hot(ReqHdr::inline(key(ping::NAME), 8), &[token]);
        }
        let found = responder.upcoming().expect("the message is there");
        responder.slot(found.slot).publish_reply(RepHdr::inline(Status::OK, 0).0, found.seq);
        assert!(host.hot_reply().is_some());
        host.release_hot();
        host.submit_hot(ReqHdr::inline(key(ping::NAME), 8), &[token + 1]);
        responder.advance(found);
    }
}

#[test]
fn a_handler_that_panics_leaves_the_stream_intact() {
    let table = Table::of(table().iter().chain([&STRIKES]).collect());
    // Its name sorts after those of the other handlers, which other code here calls by index.
    let strikes = table.iter().position(|entry| entry.name == Strikes::NAME).expect("in the table");
    let (ping, strikes) = (key(ping::NAME), HandlerKey::of_index(strikes as u16));
    let mut bench = Bench::with(table);
    for round in 0..10u32 {
        bench.streams[0].submit_hot(ReqHdr::inline(ping, 8), &[round.into()]);
        let queued = queue(&mut bench, strikes, 0, 0, 1 + round);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..POLLS_A_ROUND {
                let _ = bench.device.poll();
            }
        }));
        assert!(caught.is_err() && bench.device.is_running());
        bench.device.fail_current(Status::PANIC, "on purpose", &hamr_comm::fault::Trace::NONE);
        assert_eq!(outcome(&bench, queued).map(|(status, _)| status), Some(Status::PANIC));
        assert_eq!(value(bench.streams[0].hot_reply(), bench.streams[0].slots().hot()), u64::from(round));
        bench.streams[0].release_hot();
        bench.streams[1].release_oldest();
        // A ping with a reply from beside the handler must not be found again: its slot already has
        // the next one.
        bench.still_serves();
    }
    bench.attach();
    assert_eq!(tick() & LENT, 0, "of another epoch nothing lies there");
    bench.still_serves();
}

struct Strikes;
impl Handler for Strikes {
    const NAME: &'static str = "hostile::strikes";
    type Kind = Task<'static>;
    type Args = ();
    type Output = ();
    fn run(_: &mut Task<'_>, (): ()) {
        assert_eq!(tick() & LENT, LENT, "the stream is here");
        panic!("on purpose");
    }
}
static STRIKES: Entry = Entry::of::<Strikes>();
