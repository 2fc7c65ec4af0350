//! A connection beside one whose peer is hostile: packets by chance, of which none does anything to the other connection, to memory
//! that the peer has no key of, or to the number of outcomes of a request.
//!
//! `HAMR_PACKETS` is how many, about; 60,000 without it.

mod bench;

use bench::packets::{Bench, HALF, MTU, STRANGER, address};
use bench::{connect, create};
use hamr_hca::packet::{
    Acknowledge, AtomicEth, Deth, Header, MASK, Opcode, PORT, Reth, Route, Syndrome, begin, parse, seal,
};
use hamr_hca::wire::faults::Plan;
use hamr_verbs::testing::LKEY;
use hamr_verbs::wire::{Command, Object, QpState, RemoteEnd, Reply, Sge, Verb, WcStatus};
use hamr_verbs::{Remote, SendWr};
use std::net::SocketAddrV4;

/// The queue pair of the hostile peer, and the numbers of its first packets, each way.
const QP: u16 = 3;
const NUMBER: u32 = 0x100 + QP as u32;
const PSN: u32 = MASK - 5;
const OWN_PSN: u32 = 3;
/// What the hostile peer has the key of: so many bytes from the middle of the region on.
const GIVEN: u64 = 4 << 10;
const KEY: u32 = 0x901;
/// Packets of a connection.
const PACKETS: u64 = 300;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// Often one of these, else one of all.
    fn mostly<const N: usize>(&mut self, often: [u64; N]) -> u64 {
        match self.below(4) {
            0 => self.0 ^ self.0 >> 29,
            _ => often[self.below(N as u64) as usize],
        }
    }
}

/// A packet of chance: near to what is expected, and far.
fn packet(random: &mut Random, given: &Object, expected: &mut u32, sent: u32) -> Vec<u8> {
    let opcode = loop {
        if let Some(opcode) = Opcode::parse(random.mostly([4, 0, 2, 6, 10, 12, 13, 16, 17, 18, 19, 20, 0x64]) as u8) {
            break opcode;
        }
    };
    let base = if opcode.is_request() { *expected } else { OWN_PSN + random.below(u64::from(sent) + 2) as u32 };
    let psn =
        base.wrapping_add(random.mostly([0, 0, 0, 0, 1, u64::from(u32::MAX), 1 << 23, (1 << 23) - 1]) as u32) & MASK;
    let addr = given.iova.wrapping_add(random.mostly([
        0,
        8,
        GIVEN - 8,
        GIVEN - 256,
        GIVEN,
        u64::MAX,
        given.iova.wrapping_neg(),
    ]));
    let rkey = match random.mostly([KEY.into(), KEY.into(), KEY.into(), 1, 0xFF]) as u32 {
        LKEY => KEY,
        other => other,
    };
    let length = random.mostly([0, 1, 8, 256, 600, 1 << 31, (1 << 31) + 1, u64::from(u32::MAX)]) as u32;
    let number = random.mostly([NUMBER.into(), NUMBER.into(), NUMBER.into(), NUMBER.into(), 0x100, 0x101]) as u32;
    let header = Header {
        is_solicited: random.below(2) == 0,
        wants_acknowledge: random.below(2) == 0,
        reth: Reth { addr, rkey, length },
        atomic: AtomicEth { addr, rkey, swap_add: random.below(9), compare: 0 },
        acknowledge: Acknowledge {
            syndrome: Syndrome(random.mostly([0x1F, 0x1F, 0x1F, 0x60, 0x20, 0x2C]) as u8),
            msn: psn,
        },
        deth: Deth { qkey: random.below(3) as u32, source: psn },
        ..Header::new(opcode, number, psn)
    };
    let payload = random.mostly([0, 1, 8, 50, MTU.into(), MTU.into(), 4096, 3]) as usize % 5000;
    let payload = if opcode.has_payload() { payload } else { 0 };
    if opcode.is_request() && psn == *expected {
        *expected = (psn + 1) & MASK;
    }
    let mut packet = Vec::new();
    begin(&header, payload, &mut packet);
    packet.resize(packet.len() + payload, 0xEE);
    packet
}

fn run(seed: u64) -> u64 {
    let mut random = Random(seed);
    let mut bench = Bench::remote(6, Plan::default(), 0);
    let region = bench.sides[0].section.objects[0];
    let off = region.off + region.len / 2;
    let given = Object { index: 1, off, iova: off, len: GIVEN, lkey: KEY, ..region };
    let remote = RemoteEnd {
        address: STRANGER.octets(),
        qp_number: 0x77,
        psn: PSN,
        own_psn: OWN_PSN,
        mtu: MTU,
        timeout: 14,
        retry: 7,
        reserved: 0,
    };
    let engine = &mut bench.sides[0].engine;
    assert_eq!(engine.command(&create(given)), Reply::DONE);
    assert_eq!(engine.command(&Command { verb: Verb::CONNECT_REMOTE, remote, ..connect(QP, 0) }), Reply::DONE);
    // Memory of neither connection.
    let kept = [(region.off + 2 * HALF, off), (off + GIVEN, region.off + region.len)];
    let read = |bench: &Bench| {
        kept.map(|(from, to)| {
            let mut bytes = vec![0; (to - from) as usize];
            bench.sides[0].section.window.read_bytes(from, &mut bytes).expect("inside");
            bytes
        })
    };
    let before = read(&bench);
    let (mut expected, mut posted, mut good, mut delivered) = (PSN, Vec::new(), Vec::new(), 0);
    let there = Remote { addr: 77, rkey: 7 };
    for number in 0..PACKETS {
        let part = |at, len| Sge { addr: given.iova + at, len, lkey: KEY };
        let section = &bench.sides[0].section;
        let (verbs, id) = (section.verbs(), 1000 + number);
        let srq = verbs.shared_receive_queue(section.id(0)).expect("there");
        let _ = srq.receive(id, &[part(random.below(3000), 300), part(0, 300)]);
        let qp = verbs.queue_pair(section.id(QP)).expect("there");
        let post = match random.below(8) {
            0 => qp.post(&SendWr::read(id, &[part(1000, 600)], there)),
            1 => qp.post(&SendWr::fetch_add(id, part(2000, 8), there, 1)),
            2 => qp.post(&SendWr::inline(id, &[1; 50])),
            3 => qp.post(&SendWr::write(id, &[part(0, 700)], there)),
            _ => Err(hamr_verbs::VerbsError::Full),
        };
        posted.extend(post.is_ok().then_some(id));
        if number % 8 == 0 {
            bench.receive(1, number, &[bench.part(1, 0, 64)]);
            bench.post(0, &SendWr::inline(number, &number.to_le_bytes()));
            good.push((number, WcStatus::SUCCESS));
        }
        let mut bytes = packet(&mut random, &given, &mut expected, posted.len() as u32);
        let from = if random.below(8) == 0 { address(1) } else { STRANGER };
        // From the right address nothing of chance may come for the other connection.
        let is_others = from == address(1);
        let route = Route { from: SocketAddrV4::new(from, PORT), to: address(0), id: 0 };
        seal(&mut bytes, &route);
        if random.below(10) == 0 || is_others {
            let bit = random.below(8 * bytes.len() as u64);
            bytes[bit as usize / 8] ^= 1 << (bit % 8);
            bytes.truncate(bytes.len() - random.below(9) as usize % bytes.len());
        }
        let headers = route.headers(bytes.len());
        if let Ok((header, payload)) = parse(&headers, &bytes) {
            // The byte that the check value leaves out is no damage.
            if !is_others {
                delivered += 1;
                let now = bench.now;
                bench.sides[0].engine.receive(now, &headers, &header, payload);
            }
        }
        bench.round();
        if random.below(16) == 0 {
            let timer = bench.sides.iter().filter_map(|side| side.engine.next_timer()).min();
            bench.now = bench.now.max(timer.unwrap_or(0));
        }
    }
    let fail = Command { verb: Verb::FAIL, ..connect(QP, 0) };
    assert_eq!(bench.sides[0].engine.command(&fail), Reply::DONE);
    bench.idle();
    assert!(before == read(&bench), "seed {seed}: memory that nobody has a key of");
    let ids = |bench: &Bench, of| -> Vec<(u64, WcStatus)> {
        bench.outcomes.get(&of).into_iter().flatten().map(|(id, status, ..)| (*id, *status)).collect()
    };
    assert_eq!((ids(&bench, (0, false)), ids(&bench, (1, true))), (good.clone(), good), "seed {seed}");
    assert_eq!(bench.state(0), QpState::RTS.0, "seed {seed}");
    assert_eq!(bench.sides[0].section.state(QP), QpState::ERR.0);
    let done: Vec<u64> = ids(&bench, (QP, false)).iter().map(|(id, _)| *id).collect();
    assert_eq!(done, posted, "seed {seed}: each request has one outcome, in order");
    let mut received: Vec<u64> = ids(&bench, (QP, true)).iter().map(|(id, _)| *id).collect();
    let count = received.len();
    received.dedup();
    assert!(received.len() == count && received.is_sorted(), "seed {seed}: {received:?}");
    delivered
}

#[test]
fn a_hostile_peer_ends_its_own_connection_only() {
    let packets = std::env::var("HAMR_PACKETS").ok().and_then(|packets| packets.parse().ok()).unwrap_or(60_000_u64);
    let delivered: u64 = (0..packets.div_ceil(PACKETS)).map(run).sum();
    assert!(delivered > packets / 2, "{delivered} of {packets} packets are packets");
}
