//! Two adapters over packets, or one, without sockets or a clock.

use super::{Before, create};
use hamr_comm::abi::window::Private;
use hamr_hca::Engine;
use hamr_hca::packet::{PORT, Route, parse, seal};
use hamr_hca::wire::faults::{Faults, Plan};
use hamr_verbs::testing::Section;
use hamr_verbs::wire::{Command, Object, RemoteEnd, Reply, Sge, Verb, WcOpcode, WcStatus};
use hamr_verbs::{Completion, Remote, SendWr, VerbsError};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Bytes of payload of a packet.
pub(crate) const MTU: u16 = 256;
/// Numbers of the first packets: they wrap within a script.
pub(crate) const PSNS: [u32; 2] = [0xFF_FFF0, 0xFF_FF00];
/// Bytes of the region that belong to each queue pair.
pub(crate) const HALF: u64 = 32 << 10;

/// A peer that is none of the two. Packets for it are lost.
pub(crate) const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

pub(crate) fn address(side: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 1 + side as u8)
}

/// One adapter with its section.
pub(crate) struct Side {
    pub(crate) section: Section,
    pub(crate) engine: Engine<Private>,
}

impl Side {
    pub(crate) fn new(log2: u8) -> Self {
        let section = Section::new(log2, 9);
        let mut engine = Engine::new(section.window.part(0, section.window.len()).expect("all of it"));
        for object in &section.objects {
            assert_eq!(engine.command(&create(*object)), Reply::DONE);
        }
        Self { section, engine }
    }

    pub(crate) fn word(&self, at: u64) -> u32 {
        self.section.window.word(at).expect("inside").load()
    }
}

/// What a completion says: number, status, bytes, and of good ones what it was and the immediate value.
pub(crate) type Outcome = (u64, WcStatus, u32, Option<(WcOpcode, Option<u32>)>);

/// The queue pairs 0 and 1, connected: of one adapter, or of two.
pub(crate) struct Bench {
    pub(crate) sides: Vec<Side>,
    /// Which queue pairs they are: 0 and 1 with receive requests of their own, or 2 and 3 with shared ones.
    pub(crate) base: u16,
    pub(crate) wires: [Faults<()>; 2],
    pub(crate) now: u64,
    pub(crate) outcomes: BTreeMap<(u16, bool), Vec<Outcome>>,
    pub(crate) packets: u64,
    /// What the adapters write is looked at, where these places of a half are a peer's to write.
    pub(crate) peers: Option<fn(u64) -> bool>,
}

impl Bench {
    pub(crate) fn own(log2: u8) -> Self {
        let mut side = Side::new(log2);
        assert_eq!(side.engine.command(&super::connect(0, 1)), Reply::DONE);
        Self::of(vec![side], Plan::default())
    }

    pub(crate) fn remote(log2: u8, plan: Plan, base: u16) -> Self {
        let sides = [0, 1].map(|side| {
            let (mut this, peer) = (Side::new(log2), 1 - side);
            let remote = RemoteEnd {
                address: address(peer).octets(),
                qp_number: 0x100 + u32::from(base) + peer as u32,
                psn: PSNS[peer],
                own_psn: PSNS[side],
                mtu: MTU,
                timeout: 14,
                retry: 7,
                reserved: 0,
            };
            let object = Object { index: base + side as u16, ..Object::default() };
            let command = Command { verb: Verb::CONNECT_REMOTE, peer: 0, object, remote };
            assert_eq!(this.engine.command(&command), Reply::DONE);
            this
        });
        Self { base, ..Self::of(sides.into(), plan) }
    }

    pub(crate) fn of(sides: Vec<Side>, plan: Plan) -> Self {
        let wires = [0, 1].map(|way| Faults::new(Plan { seed: plan.seed ^ way << 32, ..plan }));
        Self { sides, base: 0, wires, now: 1, outcomes: BTreeMap::new(), packets: 0, peers: None }
    }

    /// The adapter of a queue pair.
    pub(crate) fn at(&self, qp: u16) -> &Side {
        self.sides.get(usize::from(qp)).unwrap_or(&self.sides[0])
    }

    pub(crate) fn part(&self, qp: u16, at: u64, len: u64) -> Sge {
        let verbs = self.at(qp).section.verbs();
        let at = u64::from(qp) * HALF + at;
        verbs.region(self.at(qp).section.id(0)).and_then(|region| region.part(at..at + len)).expect("inside")
    }

    pub(crate) fn fill(&self, qp: u16, at: u64, bytes: &[u8]) {
        let Side { section, .. } = self.at(qp);
        let at = u64::from(qp) * HALF + at;
        section.verbs().region(section.id(0)).and_then(|region| region.copy_in(at, bytes)).expect("inside");
    }

    /// Memory of a queue pair's half, for its peer.
    pub(crate) fn remote_part(&self, qp: u16, at: u64) -> Remote {
        let Side { section, .. } = self.at(qp);
        section
            .verbs()
            .region(section.id(0))
            .and_then(|region| region.remote(u64::from(qp) * HALF + at))
            .expect("inside")
    }

    /// The bytes of a queue pair's half.
    pub(crate) fn memory(&self, qp: u16) -> Vec<u8> {
        let (mut bytes, Side { section, .. }) = (vec![0; HALF as usize], self.at(qp));
        let copied =
            section.verbs().region(section.id(0)).and_then(|region| region.copy_out(u64::from(qp) * HALF, &mut bytes));
        copied.expect("inside");
        bytes
    }

    pub(crate) fn post(&self, qp: u16, request: &SendWr<'_>) {
        let Side { section, .. } = self.at(qp);
        section.verbs().queue_pair(section.id(self.base + qp)).and_then(|qp| qp.post(request)).expect("room");
    }

    pub(crate) fn receive(&self, qp: u16, id: u64, into: &[Sge]) {
        let Side { section, .. } = self.at(qp);
        let verbs = section.verbs();
        if self.base == 0 {
            verbs.queue_pair(section.id(qp)).and_then(|qp| qp.receive(id, into)).expect("room");
        } else {
            verbs.shared_receive_queue(section.id(0)).and_then(|srq| srq.receive(id, into)).expect("room");
        }
    }

    pub(crate) fn state(&self, qp: u16) -> u32 {
        self.at(qp).section.state(self.base + qp)
    }

    /// A round of each adapter, and all that is on the wires then. How much was done.
    pub(crate) fn round(&mut self) -> usize {
        let mut steps = 0;
        let mut packet = Vec::new();
        let watched = self.sides.iter().filter(|_| self.peers.is_some());
        let before: Vec<_> = watched.map(|side| Before::of(&side.section, 2 * HALF)).collect();
        for side in 0..self.sides.len() {
            steps += self.sides[side].engine.round(self.now) as usize;
            steps += usize::from(self.sides[side].engine.next_timer().is_some_and(|timer| timer <= self.now));
            while let Some(to) = self.sides[side].engine.transmit(self.now, &mut packet) {
                if to == STRANGER {
                    steps += 1;
                    continue;
                }
                assert_eq!(to, address(1 - side));
                seal(&mut packet, &route(side));
                self.wires[side].push((), &packet);
                steps += 1;
                self.packets += 1;
            }
        }
        for side in 0..self.sides.len() {
            while let Some(((), packet)) = self.wires[side].pop() {
                steps += 1;
                let headers = route(side).headers(packet.len());
                if let Ok((header, payload)) = parse(&headers, &packet) {
                    self.sides[1 - side].engine.receive(self.now, &headers, &header, payload);
                }
            }
        }
        // Bytes behind a completion stay: views rely on it (`verbs/src/view.rs`, R2).
        for ((side, before), is_peers) in self.sides.iter().zip(before).zip(self.peers.iter().cycle()) {
            before.check(&side.section, |at| is_peers(at % HALF));
        }
        for side in &self.sides {
            let verbs = side.section.verbs();
            let cq = verbs.completion_queue(side.section.id(0)).expect("there");
            loop {
                let Completion { id, status, opcode, bytes, immediate, qp, .. } = match cq.poll() {
                    Ok(Some(found)) => found,
                    Ok(None) => break,
                    // Of an entry that a test has written itself.
                    Err(VerbsError::Corrupt) => continue,
                    Err(why) => panic!("{why:?}"),
                };
                let is_receive = [WcOpcode::RECV, WcOpcode::RECV_WITH_IMM].contains(&opcode);
                let good = (status == WcStatus::SUCCESS).then_some((opcode, immediate));
                self.outcomes.entry((qp - self.base, is_receive)).or_default().push((id, status, bytes, good));
            }
        }
        steps
    }

    /// Until there is nothing to do any more.
    pub(crate) fn idle(&mut self) {
        for _ in 0..100_000 {
            if self.round() != 0 {
                continue;
            }
            match self.sides.iter().filter_map(|side| side.engine.next_timer()).min() {
                Some(next) => self.now = self.now.max(next),
                None => return,
            }
        }
        panic!("the adapters are never idle");
    }
}

pub(crate) fn route(side: usize) -> Route {
    Route { from: SocketAddrV4::new(address(side), PORT), to: address(1 - side), id: 0 }
}
