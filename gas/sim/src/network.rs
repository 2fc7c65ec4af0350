//! Ranks in a LogGP network: each has one processor, which polls, replies and sends.
//!
//! A message costs its sender and its receiver `o` of processor time and travels for `L`; a reply the same, behind the
//! message that it answers. A rank that can do both sends once for every 8 messages that it takes. Times are whole
//! nanoseconds; events at one time are in the order in which they were made. So a run is the same on every machine.

use std::collections::VecDeque;

use crate::patterns::Pattern;
use crate::scheme::{LinkId, Links, Scheme};
use crate::wheel::Wheel;

/// Messages that a rank may have unanswered, whatever the flow control.
const FLIGHTS: u32 = 128;
/// Messages taken between two that are sent.
const POLLS: u32 = 8;

/// The network's figures, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogGP {
    /// From the end of sending to the arrival.
    pub latency: u64,
    /// Processor time of sending or receiving.
    pub overhead: u64,
    /// Between two messages of a sender, at least.
    pub gap: u64,
}

impl Default for LogGP {
    fn default() -> Self {
        Self { latency: 1500, overhead: 200, gap: 50 }
    }
}

impl LogGP {
    /// From sending a message to having its reply.
    fn round_trip(self) -> u64 {
        2 * self.latency + 4 * self.overhead
    }
}

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Who sends to whom.
    pub pattern: Pattern,
    /// Ranks of the world.
    pub ranks: u32,
    /// Those that send.
    pub active: u32,
    /// Messages that each of them sends.
    pub messages: u32,
    /// Of random patterns.
    pub seed: u64,
    /// The network.
    pub network: LogGP,
}

/// What a run showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The flow control's name.
    pub scheme: &'static str,
    /// Messages of programs.
    pub messages: u64,
    /// Messages of the flow control itself.
    pub control: u64,
    /// Messages that waited for a credit.
    pub stalls: u64,
    /// Until all was answered, in nanoseconds.
    pub duration: u64,
    /// Messages answered per millisecond, behind the first two round trips.
    pub rate: f64,
    /// Jain's index of the messages that each sender had answered when the first was done.
    pub fairness: f64,
    /// The longest wait for a credit, over the mean one.
    pub starvation: f64,
    /// The most records that one event of the flow control looked at.
    pub most_steps: u64,
    /// Pairs of ranks that had messages.
    pub links: usize,
}

enum Event<S: Scheme> {
    Message(LinkId, S::Head),
    Reply(LinkId, S::Head, S::Tail),
    /// The processor of a rank is free.
    Free(u32),
}

impl<S: Scheme> Clone for Event<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S: Scheme> Copy for Event<S> {}

struct Rank<S: Scheme> {
    scheme: S::Rank,
    /// The program's next message.
    number: u32,
    unanswered: u32,
    answered: u32,
    stalled_at: Option<u64>,
    /// Messages taken since the last one was sent.
    polled: u32,
    is_busy: bool,
    idle_since: u64,
    /// Links with messages that came; for each message once, where they are taken in their order.
    ready: VecDeque<LinkId>,
    /// Replies, and what else goes first.
    first: VecDeque<(LinkId, S::Head, Option<S::Tail>)>,
    control: VecDeque<(LinkId, S::Head)>,
}

struct World<'a, S: Scheme> {
    scheme: &'a S,
    setting: Setting,
    wheel: Wheel<Event<S>>,
    ranks: Vec<Rank<S>>,
    links: Links<S>,
    posted: Vec<(LinkId, S::Head)>,
    waits: (u64, u64),
    early: u64,
    fairness: Option<f64>,
    outcome: Outcome,
}

/// Runs a pattern to its end, and checks that no credit is lost.
pub(crate) fn run<S: Scheme>(scheme: &S, setting: Setting) -> Outcome {
    let LogGP { latency, overhead, gap } = setting.network;
    let rank = || Rank {
        scheme: scheme.rank(),
        number: 0,
        unanswered: 0,
        answered: 0,
        stalled_at: None,
        polled: 0,
        is_busy: true,
        idle_since: 0,
        ready: VecDeque::new(),
        first: VecDeque::new(),
        control: VecDeque::new(),
    };
    let outcome = Outcome {
        scheme: S::NAME,
        messages: 0,
        control: 0,
        stalls: 0,
        duration: 0,
        rate: 0.0,
        fairness: 1.0,
        starvation: 1.0,
        most_steps: 0,
        links: 0,
    };
    let mut world = World {
        scheme,
        setting,
        wheel: Wheel::new(latency + 2 * overhead + gap + 1),
        ranks: (0..setting.ranks).map(|_| rank()).collect(),
        links: Links::new(),
        posted: Vec::new(),
        waits: (0, 0),
        early: 0,
        fairness: None,
        outcome,
    };
    for at in 0..setting.ranks {
        world.wheel.push(1, Event::Free(at));
    }
    while let Some(event) = world.wheel.pop() {
        world.event(event);
    }
    world.finish()
}

impl<S: Scheme> World<'_, S> {
    fn event(&mut self, event: Event<S>) {
        let at = match event {
            Event::Message(link, head) => {
                let to = self.links.get(link).to;
                let rank = &mut self.ranks[to as usize];
                if S::is_control(head) && !S::POLLS_LANES {
                    rank.first.push_back((link, head, None));
                } else {
                    let came = &mut self.links.at(link).came;
                    if came.is_empty() || !S::POLLS_LANES {
                        rank.ready.push_back(link);
                    }
                    came.push_back(head);
                }
                to
            }
            Event::Reply(link, head, tail) => {
                let from = self.links.get(link).from;
                self.ranks[from as usize].first.push_back((link, head, Some(tail)));
                from
            }
            Event::Free(at) => return self.act(at),
        };
        let rank = &mut self.ranks[at as usize];
        if !rank.is_busy {
            rank.is_busy = true;
            let idle = self.wheel.now() - rank.idle_since;
            self.scheme.idled(&mut rank.scheme, idle);
            self.act(at);
        }
    }

    /// A rank whose processor is free does the next thing.
    fn act(&mut self, at: u32) {
        let rank = &mut self.ranks[at as usize];
        let has_mail = !rank.first.is_empty() || !rank.ready.is_empty();
        let cost = if has_mail && rank.polled < POLLS {
            Some(self.receive(at))
        } else {
            rank.polled = 0;
            self.send(at).or_else(|| has_mail.then(|| self.receive(at)))
        };
        match cost {
            Some(cost) => self.wheel.push(cost, Event::Free(at)),
            None => {
                let rank = &mut self.ranks[at as usize];
                (rank.is_busy, rank.idle_since) = (false, self.wheel.now());
            }
        }
    }

    fn receive(&mut self, at: u32) -> u64 {
        let LogGP { latency, overhead, .. } = self.setting.network;
        let rank = &mut self.ranks[at as usize];
        rank.polled += 1;
        let (link, head, tail) = rank.first.pop_front().unwrap_or_else(|| {
            let link = rank.ready.pop_front().expect("a rank that receives has mail");
            let came = &mut self.links.at(link).came;
            let head = came.pop_front().expect("a link that is ready has a message");
            if S::POLLS_LANES && !came.is_empty() {
                rank.ready.push_back(link);
            }
            (link, head, None)
        });
        let cost = match tail {
            Some(tail) => {
                self.scheme.reply(&mut rank.scheme, &mut self.links, link, head, tail);
                if !S::is_control(head) {
                    rank.unanswered -= 1;
                    rank.answered += 1;
                    self.answered(at);
                }
                overhead
            }
            None => {
                let tail = self.scheme.serve(&mut rank.scheme, &mut self.links, link, head);
                self.wheel.push(2 * overhead + latency, Event::Reply(link, head, tail));
                2 * overhead
            }
        };
        let rank = &mut self.ranks[at as usize];
        self.scheme.control(at, &mut rank.scheme, &mut self.links, &mut self.posted);
        rank.control.extend(self.posted.drain(..));
        cost
    }

    /// Sends a message of the flow control, or of the program; `None` if there is none that may be sent.
    fn send(&mut self, at: u32) -> Option<u64> {
        let LogGP { latency, overhead, gap } = self.setting.network;
        let now = self.wheel.now();
        let rank = &mut self.ranks[at as usize];
        let (link, head) = if let Some(posted) = rank.control.pop_front() {
            self.outcome.control += 1;
            posted
        } else {
            let Setting { pattern, ranks, active, messages, seed, .. } = self.setting;
            if rank.number == messages || rank.unanswered == FLIGHTS {
                return None;
            }
            let to = pattern.to(at, rank.number, ranks, active, seed)?;
            let link = self.links.open(self.scheme, at, to);
            let Some(head) = self.scheme.send(&mut rank.scheme, &mut self.links, link) else {
                if rank.stalled_at.is_none() {
                    rank.stalled_at = Some(now);
                    self.outcome.stalls += 1;
                    self.scheme.stalled(&mut self.links, link);
                }
                return None;
            };
            if let Some(since) = rank.stalled_at.take() {
                self.waits = (self.waits.0 + now - since, self.waits.1.max(now - since));
            }
            rank.number += 1;
            rank.unanswered += 1;
            self.outcome.messages += 1;
            (link, head)
        };
        self.wheel.push(overhead + latency, Event::Message(link, head));
        Some(overhead.max(gap))
    }

    /// A message of the program was answered.
    fn answered(&mut self, at: u32) {
        let now = self.wheel.now();
        if now <= 2 * self.setting.network.round_trip() {
            self.early += 1;
        }
        self.outcome.duration = now;
        if self.fairness.is_none() && self.ranks[at as usize].answered == self.setting.messages {
            let Setting { pattern, ranks, active, seed, .. } = self.setting;
            let senders = (0..active).filter(|&at| pattern.to(at, 0, ranks, active, seed).is_some());
            let shares = senders.map(|at| f64::from(self.ranks[at as usize].answered));
            let (count, sum, squares) =
                shares.fold((0.0, 0.0, 0.0), |(n, sum, squares), x| (n + 1.0, sum + x, squares + x * x));
            self.fairness = Some(sum * sum / (count * squares));
        }
    }

    fn finish(mut self) -> Outcome {
        for (me, rank) in (0..).zip(&self.ranks) {
            self.scheme.check(me, &rank.scheme, &self.links);
            self.outcome.most_steps = self.outcome.most_steps.max(S::most_steps(&rank.scheme));
        }
        let Outcome { messages, stalls, duration, .. } = self.outcome;
        let late = duration.saturating_sub(2 * self.setting.network.round_trip()).max(1);
        self.outcome.rate = (messages - self.early) as f64 * 1e6 / late as f64;
        self.outcome.fairness = self.fairness.unwrap_or(1.0);
        let mean = self.waits.0 as f64 / stalls.max(1) as f64;
        self.outcome.starvation = if stalls == 0 { 1.0 } else { self.waits.1 as f64 / mean };
        self.outcome.links = self.links.len();
        self.outcome
    }
}
