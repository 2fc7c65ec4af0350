//! A device that drives its host's memory (abi §15.5) looks at one word, BELL, and at the streams when it has changed. Two threads of the
//! host publish a request each, in a stream of their own. Behind the publish and a full fence a thread loads DEVICE_WAIT; at an odd value
//! that was not told yet it counts BELL up, has another fence, loads ASLEEP, and rings the doorbell at an odd value. All words are in
//! the host's memory. The stores of a thread are in its store buffer until they are there, in order; a fence waits for that. The
//! device's stores are posted in order; its loads push them.

use crate::states::{Model, STUCK, holds, search};

const THREADS: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Thread {
    Publishes,
    Checks,
    CountsBell,
    LooksAtAsleep,
    Waits,
}

/// In a thread's store buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Buffered {
    Request,
    Bell,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Pc {
    LoadsBell,
    StoresWait,
    Looks(usize),
    StoresAsleep,
    LoadsBellLast,
    Sleeps,
    StoresAwake,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Write {
    Reply(usize),
    Wait(u8),
    Asleep(u8),
}

#[derive(Clone, Copy, Default)]
struct Without {
    /// DEVICE_WAIT has a fresh value behind the looks, and not before them;
    wait_first: bool,
    /// ASLEEP behind the last look at BELL;
    asleep_first: bool,
    /// a thread counts BELL before it publishes;
    publish_first: bool,
    /// it has no fence between the publish and its look at DEVICE_WAIT;
    first_fence: bool,
    /// it has none between BELL and its look at ASLEEP.
    second_fence: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Bell {
    threads: [Thread; THREADS],
    buffers: [Vec<Buffered>; THREADS],
    /// The host's memory.
    requests: [bool; THREADS],
    replies: [bool; THREADS],
    bell: u8,
    wait: u8,
    asleep: u8,
    /// The value of DEVICE_WAIT that was told last, by any thread; and a notification that no sleep has taken.
    told: u8,
    rung: bool,
    pc: Pc,
    posted: Vec<Write>,
    /// What the device knows: BELL, its own words, and the requests that it has served.
    seen: u8,
    own_wait: u8,
    own_asleep: u8,
    served: [bool; THREADS],
}

impl Bell {
    fn new(without: Without) -> Self {
        Self {
            threads: [if without.publish_first { Thread::Checks } else { Thread::Publishes }; THREADS],
            buffers: Default::default(),
            requests: [false; THREADS],
            replies: [false; THREADS],
            bell: 0,
            wait: 1,
            asleep: 0,
            told: 0,
            rung: false,
            pc: Pc::LoadsBell,
            posted: Vec::new(),
            seen: 0,
            own_wait: 1,
            own_asleep: 0,
            served: [false; THREADS],
        }
    }

    fn thread(&mut self, who: usize, without: Without) -> Option<()> {
        let behind = if without.publish_first { Thread::Publishes } else { Thread::Waits };
        let is_fenced = self.buffers[who].is_empty();
        self.threads[who] = match self.threads[who] {
            Thread::Publishes => {
                self.buffers[who].push(Buffered::Request);
                if without.publish_first { Thread::Waits } else { Thread::Checks }
            }
            Thread::Checks if !is_fenced && !without.first_fence => return None,
            Thread::Checks if self.wait & 1 == 1 && self.wait != self.told => {
                self.told = self.wait;
                Thread::CountsBell
            }
            Thread::Checks => behind,
            Thread::CountsBell => {
                self.buffers[who].push(Buffered::Bell);
                Thread::LooksAtAsleep
            }
            Thread::LooksAtAsleep if !is_fenced && !without.second_fence => return None,
            Thread::LooksAtAsleep => {
                self.rung |= self.asleep & 1 == 1;
                behind
            }
            Thread::Waits => return None,
        };
        Some(())
    }

    /// The oldest store of a thread is there.
    fn drain(&mut self, who: usize) -> Option<()> {
        match *self.buffers[who].first()? {
            Buffered::Request => self.requests[who] = true,
            Buffered::Bell => self.bell += 1,
        }
        self.buffers[who].remove(0);
        Some(())
    }

    fn device(&mut self, without: Without) -> Option<()> {
        let loads = self.posted.is_empty();
        self.pc = match self.pc {
            Pc::LoadsBell | Pc::LoadsBellLast | Pc::Looks(_) if !loads => return None,
            Pc::LoadsBell if self.bell != self.seen => {
                self.seen = self.bell;
                if without.wait_first { Pc::Looks(0) } else { Pc::StoresWait }
            }
            Pc::LoadsBell if without.asleep_first => Pc::LoadsBellLast,
            Pc::LoadsBell => Pc::StoresAsleep,
            Pc::StoresWait => {
                self.own_wait += 2;
                self.posted.push(Write::Wait(self.own_wait));
                if without.wait_first { Pc::LoadsBell } else { Pc::Looks(0) }
            }
            Pc::Looks(stream) => {
                if self.requests[stream] && !self.served[stream] {
                    self.served[stream] = true;
                    self.posted.push(Write::Reply(stream));
                }
                match stream + 1 {
                    THREADS if without.wait_first => Pc::StoresWait,
                    THREADS => Pc::LoadsBell,
                    next => Pc::Looks(next),
                }
            }
            Pc::StoresAsleep => {
                self.own_asleep += 1;
                self.posted.push(Write::Asleep(self.own_asleep));
                if without.asleep_first { Pc::Sleeps } else { Pc::LoadsBellLast }
            }
            Pc::LoadsBellLast if self.bell != self.seen => {
                if without.asleep_first {
                    Pc::LoadsBell
                } else {
                    Pc::StoresAwake
                }
            }
            Pc::LoadsBellLast if without.asleep_first => Pc::StoresAsleep,
            Pc::LoadsBellLast => Pc::Sleeps,
            Pc::Sleeps if std::mem::take(&mut self.rung) => Pc::StoresAwake,
            Pc::Sleeps => return None,
            Pc::StoresAwake => {
                self.own_asleep += 1;
                self.posted.push(Write::Asleep(self.own_asleep));
                Pc::LoadsBell
            }
        };
        Some(())
    }
}

impl Model for Bell {
    type Without = Without;

    fn next(&self, without: Without) -> Vec<Self> {
        let mut all = Vec::new();
        if !self.posted.is_empty() {
            let mut next = self.clone();
            match next.posted.remove(0) {
                Write::Reply(stream) => next.replies[stream] = true,
                Write::Wait(value) => next.wait = value,
                Write::Asleep(value) => next.asleep = value,
            }
            all.push(next);
        }
        for who in 0..THREADS {
            let mut next = self.clone();
            if next.thread(who, without).is_some() {
                all.push(next);
            }
            let mut next = self.clone();
            if next.drain(who).is_some() {
                all.push(next);
            }
        }
        let mut next = self.clone();
        if next.device(without).is_some() {
            all.push(next);
        }
        all
    }

    fn is_done(&self) -> bool {
        self.replies.iter().all(|reply| *reply)
    }
}

fn without(without: Without) {
    assert_eq!(search(Bell::new(without), without), Err(STUCK));
}

#[test]
fn every_request_is_found() {
    holds(Bell::new(Without::default()), 300);
}

#[test]
fn with_a_fresh_wait_word_behind_the_looks_one_is_not() {
    without(Without { wait_first: true, ..Without::default() });
}

#[test]
fn with_asleep_behind_the_last_look_one_is_not() {
    without(Without { asleep_first: true, ..Without::default() });
}

#[test]
fn with_bell_before_the_request_one_is_not() {
    without(Without { publish_first: true, ..Without::default() });
}

#[test]
fn without_a_fence_behind_the_request_one_is_not() {
    without(Without { first_fence: true, ..Without::default() });
}

#[test]
fn without_a_fence_behind_bell_one_is_not() {
    without(Without { second_fence: true, ..Without::default() });
}
