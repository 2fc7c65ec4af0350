//! Who has a device: links and their attempts (abi §15.1), without the connections themselves.

use crate::frame::{Purpose, Reason};
use std::collections::VecDeque;
use std::time::Instant;

/// The place of a device's one host.
#[derive(Clone, Default, Debug)]
pub struct Seat {
    host: Option<Host>,
    /// The last attempts of the links that came last, the newest link first: an earlier attempt may come late.
    newest: VecDeque<([u8; 16], u64)>,
    /// The link that had the device last, whose heap it is;
    heap: Option<[u8; 16]>,
    /// and before the last grant.
    before: Option<[u8; 16]>,
}

/// The number of a refusal of a host that comes back to what is not what it has left.
pub(crate) const OTHER_MEMORY: u64 = 1;
/// Links of which a late attempt is known.
const MOST_KNOWN: usize = 16;

/// A link that is none: of who has the device without a connection.
const NEAR: [u8; 16] = [0; 16];

#[derive(Clone, Debug)]
struct Host {
    link: [u8; 16],
    attempt: u64,
    name: String,
    since: Instant,
    has_transfers: bool,
}

/// What becomes of an arrival.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is granted.
    Grant,
    /// The host's earlier connections are ended, their threads joined, and the device leaves its epoch; then
    /// [`Seat::free`], and the arrival is asked about again.
    Replace,
    /// It is refused, with what goes into the frame.
    Refuse(Reason, u64, String),
}

impl Seat {
    /// A host with this name has proved the key, and asks.
    pub fn ask(&mut self, link: [u8; 16], attempt: u64, purpose: Purpose, name: &str, now: Instant) -> Verdict {
        let stale = || Verdict::Refuse(Reason::Stale, 0, String::new());
        if purpose == Purpose::Transfers {
            let Some(host) = self.host.as_mut().filter(|host| (host.link, host.attempt) == (link, attempt)) else {
                return Verdict::Refuse(Reason::Stale, 0, "its connection for messages has ended".into());
            };
            return if std::mem::replace(&mut host.has_transfers, true) { stale() } else { Verdict::Grant };
        }
        if self.newest.iter().any(|(of, newest)| *of == link && attempt <= *newest) {
            return stale();
        }
        match &self.host {
            // What it had in the heap is not there, or may be another's by now.
            None if attempt > 1 && self.heap != Some(link) => {
                Verdict::Refuse(Reason::Stale, OTHER_MEMORY, String::new())
            }
            None => {
                self.newest.retain(|(of, _)| *of != link);
                self.newest.push_front((link, attempt));
                self.newest.truncate(MOST_KNOWN);
                self.before = self.heap.replace(link);
                self.host = Some(Host { link, attempt, name: name.into(), since: now, has_transfers: false });
                Verdict::Grant
            }
            Some(host) if host.link == link => Verdict::Replace,
            Some(host) => Verdict::Refuse(Reason::Busy, now.duration_since(host.since).as_secs(), host.name.clone()),
        }
    }

    /// The link that has the device.
    pub fn link(&self) -> Option<[u8; 16]> {
        self.host.as_ref().map(|host| host.link)
    }

    /// The link that had it last, whose heap it is.
    pub fn heap(&self) -> Option<[u8; 16]> {
        self.heap
    }

    /// A grant did not reach its host, which has touched nothing.
    pub fn withdraw(&mut self) {
        (self.host, self.heap) = (None, self.before);
    }

    /// A host of this machine has the device, by another way. Later, what was in the heap is not there.
    pub fn give_away(&mut self) {
        self.heap = Some(NEAR);
    }

    /// The host's connections have ended, nothing of them touches the window, and the device has left its epoch.
    pub fn free(&mut self) {
        self.host = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const STALE: Verdict = Verdict::Refuse(Reason::Stale, 0, String::new());
    const OTHER: Verdict = Verdict::Refuse(Reason::Stale, OTHER_MEMORY, String::new());

    fn alone() -> Verdict {
        Verdict::Refuse(Reason::Stale, 0, "its connection for messages has ended".into())
    }

    #[test]
    fn a_host_has_one_connection_of_each_kind_and_its_later_attempt_replaces_it() {
        let (mut seat, now) = (Seat::default(), Instant::now());
        let mut ask = |link, attempt, purpose| seat.ask([link; 16], attempt, purpose, "desk", now);
        // This server has not seen it.
        assert_eq!(ask(1, 2, Purpose::Messages), OTHER);
        assert_eq!(ask(1, 1, Purpose::Messages), Verdict::Grant);
        seat.free();
        let mut ask = |link, attempt, purpose| seat.ask([link; 16], attempt, purpose, "desk", now);
        assert_eq!(ask(1, 2, Purpose::Transfers), alone());
        assert_eq!(ask(1, 2, Purpose::Messages), Verdict::Grant);
        assert_eq!(ask(1, 2, Purpose::Messages), STALE);
        assert_eq!(ask(1, 2, Purpose::Transfers), Verdict::Grant);
        assert_eq!(ask(1, 2, Purpose::Transfers), STALE);
        assert_eq!(ask(1, 3, Purpose::Transfers), alone());
        assert_eq!(ask(2, 2, Purpose::Transfers), alone());
        // A half-open network delivers it late.
        assert_eq!(ask(1, 1, Purpose::Messages), STALE);
        assert_eq!(ask(1, 3, Purpose::Messages), Verdict::Replace);
        seat.free();
        let mut ask = |link, attempt, purpose| seat.ask([link; 16], attempt, purpose, "desk", now);
        assert_eq!(ask(1, 2, Purpose::Messages), STALE);
        assert_eq!(ask(1, 3, Purpose::Messages), Verdict::Grant);
        assert_eq!(ask(1, 2, Purpose::Transfers), alone());
        assert_eq!(ask(1, 3, Purpose::Transfers), Verdict::Grant);
    }

    /// What was promised in one order of events: connections of two links, late ones among them, losses, hosts of the
    /// server's machine.
    #[derive(Clone, Default)]
    struct Promised {
        /// Who is there, and whether with a connection for transfers.
        now: Option<([u8; 16], u64, bool)>,
        /// The last grant of each link.
        newest: [u64; 2],
        /// Whose heap it is.
        heap: Option<[u8; 16]>,
    }

    type Ask = fn(&mut Seat, [u8; 16], u64, Purpose) -> Verdict;

    fn as_it_is(seat: &mut Seat, link: [u8; 16], attempt: u64, purpose: Purpose) -> Verdict {
        seat.ask(link, attempt, purpose, "desk", Instant::now())
    }

    /// All orders of so many further events. An error is a promise that does not hold.
    fn explore(ask: Ask, seat: &Seat, promised: &Promised, more: u32, count: &mut u64) -> Result<(), &'static str> {
        *count += 1;
        if more == 0 {
            return Ok(());
        }
        for (number, attempt) in (0..2).flat_map(|number| (1..4).map(move |attempt| (number, attempt))) {
            let link = [number as u8 + 1; 16];
            for purpose in [Purpose::Messages, Purpose::Transfers] {
                let (mut seat, mut promised) = (seat.clone(), promised.clone());
                match (ask(&mut seat, link, attempt, purpose), purpose) {
                    (Verdict::Grant, Purpose::Messages) => {
                        if promised.now.is_some() {
                            return Err("two hosts");
                        }
                        if attempt <= promised.newest[number] {
                            return Err("an old connection serves");
                        }
                        if attempt > 1 && promised.heap != Some(link) {
                            return Err("a host comes back to another's heap");
                        }
                        promised.now = Some((link, attempt, false));
                        promised.newest[number] = attempt;
                        promised.heap = Some(link);
                    }
                    (Verdict::Grant, Purpose::Transfers) => {
                        if promised.now != Some((link, attempt, false)) {
                            return Err("transfers without messages");
                        }
                        promised.now = Some((link, attempt, true));
                    }
                    (Verdict::Replace, _) => {
                        if purpose != Purpose::Messages || promised.now.is_none_or(|(of, ..)| of != link) {
                            return Err("another host's connections end");
                        }
                        promised.now = None;
                        seat.free();
                    }
                    (Verdict::Refuse(..), _) => {}
                }
                explore(ask, &seat, &promised, more - 1, count)?;
            }
        }
        let (mut lost, mut after) = (seat.clone(), promised.clone());
        if after.now.take().is_some() {
            lost.free();
            return explore(ask, &lost, &after, more - 1, count);
        }
        lost.give_away();
        after.heap = Some([9; 16]);
        explore(ask, &lost, &after, more - 1, count)
    }

    #[test]
    fn no_order_of_events_breaks_a_promise() {
        let run = |ask| explore(ask, &Seat::default(), &Promised::default(), 5, &mut 0);
        let mut count = 0;
        assert_eq!(explore(as_it_is, &Seat::default(), &Promised::default(), 5, &mut count), Ok(()));
        assert!(count > 100_000, "{count}");
        // Seats that forget something.
        let twins: [(Ask, &str); 4] = [
            (
                |seat, link, attempt, purpose| {
                    seat.free();
                    as_it_is(seat, link, attempt, purpose)
                },
                "two hosts",
            ),
            (
                |seat, link, attempt, purpose| {
                    seat.newest.clear();
                    as_it_is(seat, link, attempt, purpose)
                },
                "an old connection serves",
            ),
            (
                |seat, link, attempt, purpose| {
                    seat.heap = Some(link);
                    as_it_is(seat, link, attempt, purpose)
                },
                "a host comes back to another's heap",
            ),
            (
                |seat, link, attempt, purpose| {
                    seat.host.iter_mut().for_each(|host| host.attempt = attempt);
                    as_it_is(seat, link, attempt, purpose)
                },
                "transfers without messages",
            ),
        ];
        for (twin, broken) in twins {
            assert_eq!(run(twin), Err(broken));
        }
    }

    #[test]
    fn a_host_comes_back_where_nobody_else_was() {
        let (mut seat, now) = (Seat::default(), Instant::now());
        let is_granted = |seat: &mut Seat, link, attempt| {
            seat.ask([link; 16], attempt, Purpose::Messages, "desk", now) == Verdict::Grant
        };
        assert!(is_granted(&mut seat, 1, 1));
        seat.free();
        // Another one has gone before it was told.
        assert!(is_granted(&mut seat, 2, 1));
        seat.withdraw();
        assert!(is_granted(&mut seat, 1, 2));
        seat.free();
        // One of the server's machine was there.
        seat.give_away();
        assert!(!is_granted(&mut seat, 1, 3) && is_granted(&mut seat, 3, 1));
    }

    #[test]
    fn another_host_waits_for_its_end() {
        let (mut seat, now) = (Seat::default(), Instant::now());
        assert_eq!(seat.ask([1; 16], 1, Purpose::Messages, "desk", now), Verdict::Grant);
        let later = now + Duration::from_secs(840);
        let busy = Verdict::Refuse(Reason::Busy, 840, "desk".into());
        assert_eq!(seat.ask([2; 16], 1, Purpose::Messages, "lab", later), busy);
        seat.free();
        assert_eq!(seat.ask([2; 16], 1, Purpose::Messages, "lab", later), Verdict::Grant);
        assert_eq!(
            seat.ask([1; 16], 2, Purpose::Messages, "desk", later),
            Verdict::Refuse(Reason::Busy, 0, "lab".into())
        );
        // The heap is not the one that it left.
        seat.free();
        assert_eq!(seat.ask([1; 16], 3, Purpose::Messages, "desk", later), OTHER);
        assert_eq!(seat.ask([2; 16], 2, Purpose::Messages, "lab", later), Verdict::Grant);
    }
}
