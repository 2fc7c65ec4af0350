//! Split placement across a bus (abi §4.6, rule 25): both sides sleep, each polls memory of its own and posts writes to
//! the other's. Wait words are where their readers are. A processor's stores leave its buffer in order, later than they
//! are issued, and posted writes of one direction arrive in order; a read across the bus pushes the writes before it in
//! its direction, and its completion those of the other (PCI Express base specification, section 2.4.1).

use crate::states::{Model, STUCK, holds, search};

const CALLS: u8 = 2;
/// In arrays of both sides.
const HOST: usize = 0;
const DEVICE: usize = 1;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Pc {
    /// Publishes a request, or a reply.
    Sends,
    Fences,
    Checks,
    Polls,
    StoresOdd,
    FencesOdd,
    ReadsBack,
    AwaitsCompletion,
    PollsLast,
    Sleeps,
    StoresEven,
    Found,
    Ends,
}

/// What a side posts to the other's memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Write {
    Message(u8),
    Wait(u8),
    Bell,
    /// Of a read by the side that it arrives at.
    Completion,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Side {
    pc: Pc,
    /// Messages taken.
    taken: u8,
    /// Its wait word's last value, and the odd value that it notified for last.
    wait: u8,
    told: u8,
    /// Its store buffer, and what is on the bus behind that.
    stores: Vec<Write>,
    bus: Vec<Write>,
    /// Its own memory: the other's newest message and wait word; and a notification that no sleep has taken.
    message: u8,
    peer_wait: u8,
    bell: bool,
}

#[derive(Clone, Copy, Default)]
struct Without {
    read_back: bool,
    fence: bool,
    fresh_value: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Calls([Side; 2]);

impl Calls {
    fn new() -> Self {
        let side = |pc| Side {
            pc,
            taken: 0,
            wait: 0,
            told: 0,
            stores: Vec::new(),
            bus: Vec::new(),
            message: 0,
            peer_wait: 0,
            bell: false,
        };
        Self([side(Pc::Sends), side(Pc::Polls)])
    }

    /// The oldest write of a side's bus lands at the other.
    fn land(&mut self, from: usize) {
        let write = self.0[from].bus.remove(0);
        let at = &mut self.0[1 - from];
        match write {
            Write::Message(n) => at.message = n,
            Write::Wait(value) => at.peer_wait = value,
            Write::Bell => at.bell = true,
            Write::Completion => at.pc = Pc::PollsLast,
        }
    }

    /// The next step of a side's program, if it can make one.
    fn step(&mut self, who: usize, without: Without) -> Option<()> {
        let (is_idle_bus, [host, device]) = (self.0[who].bus.is_empty(), &mut self.0);
        let (side, peer) = if who == HOST { (host, device) } else { (device, host) };
        let found = side.message == side.taken + 1;
        side.pc = match side.pc {
            Pc::Sends => {
                side.stores.push(Write::Message(side.taken + u8::from(who == HOST)));
                Pc::Fences
            }
            Pc::Fences if side.stores.is_empty() || without.fence => Pc::Checks,
            Pc::Checks => {
                if side.peer_wait & 1 != 0 && side.peer_wait != side.told {
                    side.told = side.peer_wait;
                    side.stores.push(Write::Bell);
                }
                if who == HOST || side.taken < CALLS { Pc::Polls } else { Pc::Ends }
            }
            Pc::Polls if found => Pc::Found,
            Pc::Polls => Pc::StoresOdd,
            Pc::StoresOdd => {
                side.wait = if without.fresh_value { 1 } else { (side.wait + 1) | 1 };
                side.stores.push(Write::Wait(side.wait));
                Pc::FencesOdd
            }
            Pc::FencesOdd if !side.stores.is_empty() => return None,
            Pc::FencesOdd if without.read_back => Pc::PollsLast,
            Pc::FencesOdd => Pc::ReadsBack,
            // It arrives behind all writes before it; its completion travels behind those of the other direction.
            Pc::ReadsBack if is_idle_bus => {
                peer.bus.push(Write::Completion);
                Pc::AwaitsCompletion
            }
            Pc::PollsLast if found => Pc::StoresEven,
            Pc::PollsLast => Pc::Sleeps,
            // A wake-up without a message: a fresh odd value (rule 23).
            Pc::Sleeps if std::mem::take(&mut side.bell) => Pc::Polls,
            Pc::StoresEven => {
                let even = if without.fresh_value { 0 } else { (side.wait + 1) & !1 };
                side.wait = if without.fresh_value { side.wait } else { even };
                side.stores.push(Write::Wait(even));
                Pc::Found
            }
            Pc::Found => {
                side.taken += 1;
                if who == HOST && side.taken == CALLS { Pc::Ends } else { Pc::Sends }
            }
            Pc::Fences | Pc::ReadsBack | Pc::AwaitsCompletion | Pc::Sleeps | Pc::Ends => return None,
        };
        Some(())
    }
}

impl Model for Calls {
    type Without = Without;

    fn next(&self, without: Without) -> Vec<Self> {
        let mut all = Vec::new();
        for who in [HOST, DEVICE] {
            if !self.0[who].stores.is_empty() {
                let mut next = self.clone();
                let write = next.0[who].stores.remove(0);
                next.0[who].bus.push(write);
                all.push(next);
            }
            if !self.0[who].bus.is_empty() {
                let mut next = self.clone();
                next.land(who);
                all.push(next);
            }
            let mut next = self.clone();
            if next.step(who, without).is_some() {
                all.push(next);
            }
        }
        all
    }

    fn is_done(&self) -> bool {
        self.0.iter().all(|side| side.pc == Pc::Ends)
    }
}

#[test]
fn no_wake_up_is_lost() {
    holds(Calls::new(), 30_000);
}

#[test]
fn without_a_read_across_the_bus_one_is() {
    assert_eq!(search(Calls::new(), Without { read_back: true, ..Without::default() }), Err(STUCK));
}

#[test]
fn without_the_notifiers_fence_one_is() {
    assert_eq!(search(Calls::new(), Without { fence: true, ..Without::default() }), Err(STUCK));
}

#[test]
fn with_one_odd_value_one_is() {
    assert_eq!(search(Calls::new(), Without { fresh_value: true, ..Without::default() }), Err(STUCK));
}
