//! Two adapters without sockets or a clock: the same script over one adapter and over packets that are lost, repeated,
//! reordered and damaged; and packets of a peer that breaks the rules.

mod bench;

use bench::packets::{Bench, HALF, MTU, PSNS, Side, address, route};
use bench::{Random, connect, create, seeds};
use hamr_hca::Engine;
use hamr_hca::packet::{Acknowledge, AtomicEth, Header, MASK, Opcode, PORT, Reth, Route, Syndrome, parse, seal};
use hamr_hca::wire::faults::Plan;
use hamr_verbs::ring::Ring;
use hamr_verbs::testing::{LKEY, Section};
use hamr_verbs::wire::{
    ARENA, Command, Kind, LINE, OBJECTS, Object, Opcode as WrOpcode, QpState, RemoteEnd, Reply, SQ_CI, SendEntry, Sge,
    Verb, WcStatus, word_of,
};
use hamr_verbs::{Remote, SendWr};
use proptest::prelude::*;
use std::net::{Ipv4Addr, SocketAddrV4};
use zerocopy::{FromBytes, IntoBytes};

/// What is where in a half: what is sent and read by the peer; what is received; what the peer writes; what is read;
/// what atomics of the peer change; what these find.
const SOURCE: u64 = 0;
const RECEIVED: u64 = 8 << 10;
const WRITTEN: u64 = 16 << 10;
const READ: u64 = 24 << 10;
const ATOMICS: u64 = 31 << 10;
const FOUND: u64 = ATOMICS + 64;
/// Bytes of most of them.
const PART: u64 = 8 << 10;
/// The longest message.
const LONGEST: u64 = 3000;

/// A good request that needs no receive request, or one that does: `is_received`.
fn good(bench: &Bench, from: u16, id: u64, is_received: bool, random: &mut Random) {
    let most = if random.below(3) == 0 { LONGEST } else { 100 };
    let length = random.below(most);
    let (at, to) = (random.below(PART - 2 * LONGEST), random.below(PART - LONGEST));
    let bytes: Vec<u8> = (0..length.min(92)).map(|at| (at * 7 + id) as u8).collect();
    let middle = length / 3;
    let source = [bench.part(from, SOURCE + at, middle), bench.part(from, SOURCE + at + LONGEST, length - middle)];
    let written = bench.remote_part(1 - from, WRITTEN + to);
    let word = random.below(4) * 8;
    let request = match (is_received, random.below(6)) {
        (true, 0) => SendWr::inline(id, &bytes),
        (true, 1) => SendWr::send(id, &source).imm(id as u32),
        (true, 2) => SendWr::write(id, &source, written).imm(id as u32),
        (true, _) => SendWr::send(id, &source),
        (false, 0 | 1) => SendWr::write(id, &source, written),
        (false, 2) => SendWr::inline(id, &bytes).to(written),
        (false, 3) => {
            let atomic = bench.remote_part(1 - from, ATOMICS + word);
            SendWr::fetch_add(id, bench.part(from, FOUND + word, 8), atomic, id)
        }
        (false, 4) => {
            let atomic = bench.remote_part(1 - from, ATOMICS + word);
            let old = if random.below(2) == 0 { 0 } else { id };
            SendWr::compare_swap(id, bench.part(from, FOUND + word, 8), atomic, old, id)
        }
        (false, _) => {
            let into = [bench.part(from, READ + at, middle), bench.part(from, READ + at + middle, length - middle)];
            return bench.post(from, &SendWr::read(id, &into, bench.remote_part(1 - from, SOURCE + to)));
        }
    };
    bench.post(from, &if random.below(8) == 0 { request.quiet() } else { request });
}

/// A request, or a receive request with one for it, with which the connection ends.
fn wrong(bench: &Bench, from: u16, id: u64, random: &mut Random) {
    let (here, there) = (bench.part(from, SOURCE, 8), bench.remote_part(1 - from, WRITTEN));
    let outside = there.at(u64::from(1 + from) * HALF + (1 << 20));
    let keyless = Remote { rkey: there.rkey + 0x100, ..there };
    let receive = |sge: Sge| bench.receive(1 - from, id, &[sge]);
    let good = bench.part(1 - from, RECEIVED, 5);
    let id = id + 1;
    let post = |request: SendWr<'_>| bench.post(from, &request);
    match random.below(12) {
        0 => post(SendWr::send(id, &[Sge { lkey: 1, ..here }])),
        1 => {
            receive(Sge { lkey: 1, ..good });
            post(SendWr::inline(id, &[1]));
        }
        2 => {
            receive(good);
            post(SendWr::inline(id, &[1; 6]));
        }
        3 => post(SendWr::write(id, &[here], outside)),
        4 => post(SendWr::write(id, &[here], keyless)),
        5 => post(SendWr::read(id, &[here], outside)),
        6 => post(SendWr::read(id, &[here], keyless)),
        7 => post(SendWr::fetch_add(id, here, there.at(4), 1)),
        8 => post(SendWr::fetch_add(id, here, keyless, 1)),
        9 => post(SendWr::compare_swap(id, here, outside, 1, 1)),
        10 => post(SendWr::read(id, &[Sge { lkey: 1, ..here }], there)),
        _ => {
            receive(good);
            post(SendWr::write(id, &[here], keyless).imm(1));
        }
    }
}

/// Runs the script of a seed.
fn script(bench: &mut Bench, seed: u64) {
    let mut random = Random(seed);
    for qp in 0..2 {
        let bytes: Vec<u8> = (0..PART).map(|at| (at * 31 + seed + at / 256 + qp) as u8).collect();
        bench.fill(qp as u16, SOURCE, &bytes);
    }
    let mut id = 0;
    for _ in 0..8 {
        // As many receive requests as messages for them, in any order.
        let (count, mut others) = (1 + random.below(10), [random.below(10), random.below(10)]);
        for from in 0..2 {
            let (mut sends, mut receives) = (count, count);
            let others = &mut others[usize::from(from)];
            while sends + receives + *others != 0 {
                id += 1;
                match random.below(3) {
                    0 if sends != 0 => {
                        sends -= 1;
                        good(bench, from, id, true, &mut random);
                    }
                    1 if *others != 0 => {
                        *others -= 1;
                        good(bench, from, id, false, &mut random);
                    }
                    2 if receives != 0 => {
                        receives -= 1;
                        let (first, at) = (random.below(700), RECEIVED + random.below(PART - 2 * LONGEST));
                        let parts = [bench.part(1 - from, at, first), bench.part(1 - from, at + first, LONGEST)];
                        bench.receive(1 - from, id, &parts);
                    }
                    _ => {}
                }
                if random.below(4) == 0 {
                    bench.round();
                }
            }
        }
        bench.idle();
    }
    let from = random.below(2) as u16;
    wrong(bench, from, id + 1, &mut random);
    bench.idle();
    (0..2).for_each(|qp| bench.post(qp, &SendWr::inline(id + 3, &[])));
    (0..2).for_each(|qp| bench.receive(qp, id + 4, &[]));
    bench.idle();
}

/// Both have the same completions and memory.
fn compare(seeds: std::ops::Range<u64>, plan: Plan) {
    for seed in seeds {
        compare_two(Bench::own(6), Bench::remote(6, Plan { seed, ..plan }, 0), seed, plan);
    }
}

/// Places of a half that a peer writes.
fn is_peers(at: u64) -> bool {
    (WRITTEN..READ).contains(&at) || (ATOMICS..FOUND).contains(&at)
}

fn compare_two(mut own: Bench, mut remote: Bench, seed: u64, plan: Plan) {
    for bench in [&mut own, &mut remote] {
        bench.peers = seed.is_multiple_of(10).then_some(is_peers);
        script(bench, seed);
    }
    for (queue, expected) in &own.outcomes {
        let got = remote.outcomes.get(queue).map_or(&[][..], Vec::as_slice);
        let differs = expected.iter().zip(got).position(|(a, b)| a != b).unwrap_or(expected.len().min(got.len()));
        let (found, wanted) = (got.get(differs), expected.get(differs));
        assert!(expected == got, "seed {seed}, {plan:?}: {queue:?} at {differs}: {found:?}, expected {wanted:?}");
    }
    assert_eq!(own.outcomes.len(), remote.outcomes.len());
    for qp in 0..2 {
        assert!(own.memory(qp) == remote.memory(qp), "seed {seed}, {plan:?}: memory of {qp}");
        assert_eq!(own.state(qp), remote.state(qp), "seed {seed}, {plan:?}: state of {qp}");
    }
}

#[test]
fn a_script_has_one_outcome_over_any_wire() {
    compare(0..seeds(), Plan::default());
    compare(0..seeds(), Plan { loss: 20, ..Plan::default() });
    compare(0..seeds(), Plan { loss: 100, repeat: 100, damage: 20, reorder: 16, ..Plan::default() });
    compare(0..seeds(), Plan { reorder: 16, repeat: 500, ..Plan::default() });
}

/// Of one adapter both would take from one queue, so the other wire is one without faults.
#[test]
fn shared_receive_queues_serve_connections() {
    let plan = Plan { loss: 50, repeat: 50, reorder: 8, ..Plan::default() };
    for seed in 0..seeds().div_ceil(5) {
        let without = Bench::remote(6, Plan::default(), 2);
        compare_two(without, Bench::remote(6, Plan { seed, ..plan }, 2), seed, plan);
    }
}

#[test]
fn a_packet_of_another_address_is_dropped() {
    let mut bench = Bench::remote(4, Plan::default(), 0);
    bench.receive(1, 1, &[]);
    let header = Header::new(Opcode::parse(4).expect("SEND"), 0x101, PSNS[0]);
    let header = Header { wants_acknowledge: true, ..header };
    let mut packet = Vec::new();
    for from in [address(1), Ipv4Addr::new(127, 0, 0, 3)] {
        let headers = Route { from: SocketAddrV4::new(from, PORT), to: address(1), id: 0 }.headers(16);
        bench.sides[1].engine.receive(0, &headers, &header, &[]);
        assert_eq!(bench.sides[1].engine.transmit(0, &mut packet), None);
    }
    bench.sides[1].engine.receive(0, &route(0).headers(16), &header, &[]);
    assert_eq!(bench.sides[1].engine.transmit(0, &mut packet), Some(address(0)));
    bench.idle();
    assert_eq!(bench.outcomes[&(1, true)].len(), 1);
}

#[test]
fn a_peer_that_never_answers_ends_the_connection() {
    let mut bench = Bench::remote(4, Plan { loss: 1000, ..Plan::default() }, 0);
    bench.post(0, &SendWr::inline(1, &[1]));
    bench.post(0, &SendWr::inline(2, &[2]));
    bench.receive(0, 3, &[]);
    bench.idle();
    let (retry, flushed) = (WcStatus::RETRY_EXC_ERR, WcStatus::WR_FLUSH_ERR);
    assert_eq!(bench.outcomes[&(0, false)], [(1, retry, 0, None), (2, flushed, 0, None)]);
    assert_eq!(bench.outcomes[&(0, true)], [(3, flushed, 0, None)]);
    // Seven times again, each within 2^14 * 4.096 µs.
    assert_eq!((bench.packets, bench.now), (16, 1 + 8 * (4096 << 14)));
    assert_eq!((bench.state(0), bench.state(1)), (QpState::ERR.0, QpState::RTS.0));
}

/// All packets that a side has to send now.
fn sent(bench: &mut Bench, side: usize) -> Vec<Vec<u8>> {
    let (mut packets, mut packet) = (Vec::new(), Vec::new());
    while bench.sides[side].engine.transmit(bench.now, &mut packet).is_some() {
        seal(&mut packet, &route(side));
        packets.push(packet.clone());
    }
    packets
}

/// Packets come to a side.
fn come(bench: &mut Bench, side: usize, packets: &[Vec<u8>]) {
    for packet in packets {
        let headers = route(1 - side).headers(packet.len());
        let (header, payload) = parse(&headers, packet).expect("as it was sent");
        bench.sides[side].engine.receive(bench.now, &headers, &header, payload);
    }
}

/// What completions of requests to send say, in their order.
fn statuses(bench: &Bench, qp: u16) -> Vec<(u64, WcStatus)> {
    bench.outcomes.get(&(qp, false)).into_iter().flatten().map(|(id, status, ..)| (*id, *status)).collect()
}

/// A message of which nothing comes any more ends its queue pair, if others wait for what it has taken.
#[test]
fn a_message_without_an_end_does_not_stop_a_shared_receive_queue() {
    let mut bench = Bench::remote(2, Plan::default(), 2);
    // Its adapter has another pair on the queue.
    assert_eq!(bench.sides[1].engine.command(&connect(0, 2)), Reply::DONE);
    for id in 0..4 {
        bench.receive(1, id, &[bench.part(1, 0, 3 * u64::from(MTU))]);
    }
    bench.post(0, &SendWr::send(100, &[bench.part(0, 0, 3 * u64::from(MTU))]));
    let packets = sent(&mut bench, 0);
    assert_eq!(packets.len(), 3);
    // Each packet of it gives its sender as much time as that tries itself; one that comes again gives none.
    let all = 8 * (4096 << 14);
    come(&mut bench, 1, &packets[..1]);
    assert_eq!(bench.sides[1].engine.next_timer(), Some(bench.now + all));
    bench.now += all - 1;
    come(&mut bench, 1, &packets[1..2]);
    bench.now += all - 1;
    come(&mut bench, 1, &packets[..1]);
    sent(&mut bench, 1);
    assert_eq!(bench.state(1), QpState::RTS.0);
    bench.now += 1;
    sent(&mut bench, 1);
    assert_eq!(bench.state(1), QpState::ERR.0);
    let Side { section, engine } = &mut bench.sides[1];
    let verbs = section.verbs();
    let cq = verbs.completion_queue(section.id(0)).expect("there");
    let (srq, qp) = (verbs.shared_receive_queue(section.id(0)), verbs.queue_pair(section.id(0)));
    let (srq, qp) = (srq.expect("there"), qp.expect("there"));
    let mut outcomes = || {
        while engine.round(0) != 0 {}
        std::iter::from_fn(|| cq.poll().expect("valid")).map(|found| (found.id, found.status)).collect::<Vec<_>>()
    };
    assert_eq!(outcomes(), [(0, WcStatus::WR_FLUSH_ERR)]);
    for id in 4..12 {
        srq.receive(id, &[]).and_then(|()| qp.post(&SendWr::inline(id, &[]))).expect("room");
        assert_eq!(outcomes(), [(id - 3, WcStatus::SUCCESS), (id, WcStatus::SUCCESS)]);
    }
}

/// A copy of a request that the network has kept finds a region that was deregistered meanwhile: nobody waits for it.
#[test]
fn a_read_that_comes_late_again_harms_nobody() {
    let mut bench = Bench::remote(4, Plan::default(), 0);
    bench.post(0, &SendWr::read(1, &[bench.part(0, 0, 8)], bench.remote_part(1, 0)));
    let packets = sent(&mut bench, 0);
    come(&mut bench, 1, &packets);
    bench.idle();
    let region = Object { kind: Kind::REGION, ..Object::default() };
    let destroy = Command { verb: Verb::DESTROY, ..create(region) };
    assert_eq!(bench.sides[1].engine.command(&destroy), Reply::DONE);
    come(&mut bench, 1, &packets);
    bench.idle();
    assert_eq!(bench.state(1), QpState::RTS.0);
    bench.receive(1, 2, &[]);
    bench.post(0, &SendWr::inline(3, &[]));
    bench.idle();
    assert_eq!(statuses(&bench, 0), [(1, WcStatus::SUCCESS), (3, WcStatus::SUCCESS)]);
}

/// What is wrong with a request is not said of those before it.
#[test]
fn a_request_whose_region_is_gone_waits_for_those_before_it() {
    let mut bench = Bench::remote(4, Plan::default(), 0);
    let source = Object { index: 1, lkey: 0x101, ..bench.sides[0].section.objects[0] };
    assert_eq!(bench.sides[0].engine.command(&create(source)), Reply::DONE);
    // More packets than may be on their way.
    let long = 200 * u64::from(MTU);
    let there = bench.remote_part(1, 0);
    let inside = bench.part(0, 0, 8);
    let from = Sge { lkey: source.lkey, len: long as u32, ..inside };
    bench.post(0, &SendWr::write(1, &[inside], there));
    bench.post(0, &SendWr::write(2, &[from], there));
    let packets = sent(&mut bench, 0);
    assert_eq!(packets.len(), 128);
    let destroy = Command { verb: Verb::DESTROY, ..create(source) };
    assert_eq!(bench.sides[0].engine.command(&destroy), Reply::DONE);
    // The first is sent again, and the next has no bytes any more.
    bench.now = bench.sides[0].engine.next_timer().expect("an acknowledgement is waited for");
    assert_eq!(sent(&mut bench, 0).len(), 1);
    assert_eq!((bench.state(0), statuses(&bench, 0)), (QpState::RTS.0, vec![]));
    come(&mut bench, 1, &packets[..1]);
    bench.idle();
    assert_eq!(statuses(&bench, 0), [(1, WcStatus::SUCCESS), (2, WcStatus::LOC_PROT_ERR)]);
}

/// Packets that do not pass would be sent again and again.
#[test]
fn a_path_is_no_longer_than_the_wire() {
    for (mtu, reply) in [(4096, Reply::MALFORMED), (1024, Reply::DONE)] {
        let mut side = Side::new(4);
        side.engine.use_wire(1024);
        let (address, [psn, own_psn]) = (address(1).octets(), PSNS);
        let remote = RemoteEnd { address, qp_number: 0x101, psn, own_psn, mtu, timeout: 14, retry: 7, reserved: 0 };
        let command = Command { verb: Verb::CONNECT_REMOTE, peer: 0, object: Object::default(), remote };
        assert_eq!(side.engine.command(&command), reply, "{mtu}");
    }
}

/// Requests that were sent again, and behind them as many new ones, may come before an adapter that had no processor has
/// answered one.
#[test]
fn a_late_adapter_answers_requests_that_come_again_and_new_ones() {
    for is_read in [true, false] {
        let mut bench = Bench::remote(6, Plan::default(), 0);
        let there = bench.remote_part(1, ATOMICS);
        let post = |bench: &Bench, ids: std::ops::Range<u64>| {
            for id in ids {
                let into = bench.part(0, FOUND + id * 8, 8);
                let read = [into];
                let add = SendWr::fetch_add(id, into, there, 1);
                bench.post(0, &if is_read { SendWr::read(id, &read, there) } else { add });
            }
        };
        post(&bench, 0..32);
        let first = sent(&mut bench, 0);
        assert_eq!(first.len(), 16);
        come(&mut bench, 1, &first);
        let answers = sent(&mut bench, 1);
        bench.now = bench.sides[0].engine.next_timer().expect("an answer is waited for");
        let again = sent(&mut bench, 0);
        assert_eq!(again.len(), 16);
        come(&mut bench, 0, &answers);
        let new = sent(&mut bench, 0);
        assert_eq!(new.len(), 16);
        come(&mut bench, 1, &[again, new].concat());
        bench.idle();
        assert_eq!(statuses(&bench, 0), (0..32).map(|id| (id, WcStatus::SUCCESS)).collect::<Vec<_>>());
        assert_eq!(bench.state(1), QpState::RTS.0);
    }
}

/// A packet of a peer that breaks the rules, from the right address and with a right check value.
#[derive(Clone, Debug)]
struct Lie {
    opcode: u8,
    /// From the number that is expected, or was sent.
    psn: u32,
    of_request: bool,
    wants_acknowledge: bool,
    addr: u64,
    length: u32,
    rkey: u32,
    syndrome: u8,
    payload: usize,
}

fn lies() -> impl Strategy<Value = Lie> {
    let psn = prop_oneof![4 => (0..4_u32).boxed(), 2 => (0..MASK).boxed(), 1 => ((MASK - 200)..=MASK).boxed()];
    let addr =
        prop_oneof![4 => (0..KEPT).boxed(), 1 => any::<u64>().boxed(), 1 => ((KEPT - 300)..(KEPT + 300)).boxed()];
    let length = prop_oneof![4 => (0..2000_u32).boxed(), 1 => any::<u32>().boxed()];
    let rkey = prop_oneof![6 => Just(LKEY).boxed(), 1 => any::<u32>().boxed(), 1 => Just(LKEY + 1).boxed()];
    let payload = prop_oneof![2 => Just(usize::from(MTU)), 2 => 0..300_usize];
    let flags = (any::<bool>(), any::<bool>());
    (0..24_u8, psn, flags, addr, length, rkey, any::<u8>(), payload).prop_map(
        |(opcode, psn, (of_request, wants_acknowledge), addr, length, rkey, syndrome, payload)| Lie {
            opcode,
            psn,
            of_request,
            wants_acknowledge,
            addr,
            length,
            rkey,
            syndrome,
            payload,
        },
    )
}

/// Bytes of the region that the peer may name.
const KEPT: u64 = 16 << 10;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// H17: whatever a connected peer sends, the adapter answers within bounds, and writes what it may write only.
    #[test]
    fn an_adapter_survives_any_peer(lies in proptest::collection::vec(lies(), 1..100)) {
        let section = Section::new(4, 9);
        let mut engine = Engine::new(section.window.part(0, section.window.len()).expect("all of it"));
        let region = Object { len: KEPT, ..section.objects[0] };
        for object in [region].iter().chain(&section.objects[1..]) {
            assert_eq!(engine.command(&create(*object)), Reply::DONE);
        }
        let (address, qp_number) = (address(1).octets(), 0x101);
        let [psn, own_psn] = PSNS;
        let remote = RemoteEnd { address, qp_number, psn, own_psn, mtu: MTU, timeout: 14, retry: 7, reserved: 0 };
        let command = Command { verb: Verb::CONNECT_REMOTE, peer: 0, object: Object::default(), remote };
        assert_eq!(engine.command(&command), Reply::DONE);
        let verbs = section.verbs();
        let qp = verbs.queue_pair(section.id(0)).expect("there");
        let cq = verbs.completion_queue(section.id(0)).expect("there");
        let part = |at, len| Sge { addr: region.iova + at, len, lkey: LKEY };
        let there = Remote { addr: 77, rkey: 7 };
        let (mut packet, mut expected, mut now) = (Vec::new(), psn, 1);
        let not_its_own = || {
            let ring = section.objects[1].off;
            let behind = ring + (LINE << 9);
            let kept = [(OBJECTS, ARENA), (region.off + KEPT, ring), (behind, section.window.len())];
            kept.map(|(from, to)| {
                let mut bytes = vec![0; (to - from) as usize];
                section.window.read_bytes(from, &mut bytes).expect("inside");
                bytes
            })
        };
        for (posted, lie) in (0_u64..).zip(&lies) {
            // All that a connection may wait for.
            let _ = qp.receive(posted, &[part(0, 300), part(500, 300)]);
            let _ = match posted % 4 {
                0 => qp.post(&SendWr::read(posted, &[part(1000, 600)], there)),
                1 => qp.post(&SendWr::fetch_add(posted, part(2000, 8), there, 1)),
                2 => qp.post(&SendWr::inline(posted, &[1; 50])),
                _ => qp.post(&SendWr::write(posted, &[part(0, 700)], there)),
            };
            let before = not_its_own();
            let Some(opcode) = Opcode::parse(lie.opcode) else { continue };
            let base = if opcode.is_request() == lie.of_request { expected } else { own_psn };
            let number = base.wrapping_add(lie.psn) & MASK;
            let &Lie { addr, rkey, length, wants_acknowledge, .. } = lie;
            let addr = region.iova.wrapping_add(addr);
            let header = Header {
                wants_acknowledge,
                reth: Reth { addr, rkey, length },
                atomic: AtomicEth { addr, rkey, swap_add: 1, compare: 0 },
                acknowledge: Acknowledge { syndrome: Syndrome(lie.syndrome), msn: lie.psn },
                ..Header::new(opcode, 0x100, number)
            };
            let payload = vec![9; if opcode.has_payload() { lie.payload } else { 0 }];
            engine.receive(now, &route(1).headers(60), &header, &payload);
            engine.round(now);
            // A window of its own packets, the longest answer, and what was in the queue.
            let mut sent = 0;
            while engine.transmit(now, &mut packet).is_some() {
                sent += 1;
                prop_assert!(sent <= 128 + 34 + 16 * (KEPT / u64::from(MTU)));
            }
            if opcode.is_request() && number == expected {
                expected = (expected + 1) & MASK;
            }
            now = now.max(engine.next_timer().unwrap_or(now));
            while cq.poll().expect("valid").is_some() {}
            let after = not_its_own();
            prop_assert!(before == after);
        }
    }

    /// H15 over packets: whatever a device writes into its ring, the adapters come to an end, and write what they may
    /// write only.
    #[test]
    fn adapters_survive_any_request(
        lies in proptest::collection::vec((any::<[u32; 32]>(), 0..8_u32, any::<u8>()), 1..12),
    ) {
        let mut bench = Bench::remote(4, Plan::default(), 0);
        let objects = bench.sides[0].section.objects.clone();
        let (region, cq, pair) = (objects[0], objects[1], objects[2]);
        let not_its_own = |bench: &Bench| {
            bench.sides.iter().flat_map(|Side { section: Section { window, .. }, .. }| {
                [(OBJECTS, region.off), (cq.off + (LINE << 9), window.len())].map(|(from, to)| {
                    let mut bytes = vec![0; (to - from) as usize];
                    window.read_bytes(from, &mut bytes).expect("inside");
                    bytes
                })
            }).collect::<Vec<_>>()
        };
        for (mut words, opcode, shape) in lies {
            let entry_of = |words: &[u32; 32]| SendEntry::read_from_bytes(words.as_bytes()).expect("its bytes");
            let mut entry = entry_of(&words);
            // Nearly right in most fields.
            if shape & 7 != 0 {
                let flags = [SendEntry::SIGNALED, SendEntry::SIGNALED | SendEntry::INLINE, 0x11 << 8, words[0] & 0x1F00];
                let count = if opcode > 4 { 1 } else { words[1] as usize % 4 };
                entry.head = SendEntry::head(WrOpcode(opcode), flags[shape as usize % 4], count);
                (entry.rkey, entry.remote) = (LKEY, region.iova + u64::from(words[2] % (1 << 20)));
                words[8..].chunks_mut(4).for_each(|sge| {
                    if let [addr, high, len, lkey] = sge {
                        (*addr, *high) = (region.iova as u32 + *addr % (1 << 20), 0);
                        (*len, *lkey) = (*len % 600, LKEY);
                    }
                });
                let sges = entry_of(&words);
                (entry.first, entry.second) = (sges.first, sges.second);
                entry.length = entry.sges().iter().take(count).map(|sge| sge.len).sum();
                if shape & 8 == 0 {
                    entry.length = if opcode > 4 { 8 } else { entry.length.max(1) };
                }
            }
            let ring = Ring::new(pair.off, pair.log2, 2, pair.tag());
            let x = bench.sides[0].word(word_of(SQ_CI, 0));
            entry.word = ring.expected(x);
            bench.sides[0].section.window.write_bytes(ring.entry(x), entry.as_bytes()).expect("inside");
            bench.receive(1, x.into(), &[bench.part(1, 0, 600)]);
            let before = not_its_own(&bench);
            bench.idle();
            prop_assert!(before == not_its_own(&bench));
            if bench.state(0) == QpState::ERR.0 {
                return Ok(());
            }
            prop_assert_eq!(bench.sides[0].word(word_of(SQ_CI, 0)), x + 1);
        }
    }
}
