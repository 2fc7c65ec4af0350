//! Datagrams between two adapters without sockets.

mod bench;

use bench::create;
use hamr_comm::abi::window::Private;
use hamr_hca::Engine;
use hamr_hca::packet::{Header, Opcode, Operation, PORT, Route, begin, parse, seal};
use hamr_verbs::memory::Memory;
use hamr_verbs::testing::{LKEY, Section};
use hamr_verbs::wire::{Command, Kind, Object, QpState, QpType, Reply, Sge, Verb, WORD, WcOpcode, WcStatus};
use hamr_verbs::{Address, Completion, Remote, SendWr};
use std::net::{Ipv4Addr, SocketAddrV4};
use zerocopy::IntoBytes;

/// The key of both queue pairs.
const QKEY: u32 = 0x1234;
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2)];
/// Bytes of the longest datagram.
const MTU: u32 = 4096;
/// Bytes before a datagram.
const GRH: u64 = 40;

/// An adapter whose queue pair 0 is of datagrams, with a handle of the other one's address.
struct Side {
    section: Section,
    engine: Engine<Private>,
}

impl Side {
    fn new(peer: Ipv4Addr) -> Self {
        let section = Section::new(3, 6);
        let mut engine = Engine::new(section.window.part(0, section.window.len()).expect("all of it"));
        engine.use_wire(MTU);
        for object in &section.objects {
            let is_first = object.kind == Kind::QUEUE_PAIR && object.index == 0;
            let object = if is_first { Object { qp_type: QpType::UD, lkey: QKEY, ..*object } } else { *object };
            assert_eq!(engine.command(&create(object)), Reply::DONE);
        }
        let kind = Kind::ADDRESS_HANDLE;
        let handle = Object { kind, generation: 1, iova: u32::from(peer).into(), ..Object::default() };
        assert_eq!(engine.command(&create(handle)), Reply::DONE);
        let place = kind.place(0).expect("the first");
        section.window.write_bytes(place, &handle.as_bytes()[..WORD as usize]).expect("inside");
        Memory::publish(&section.window, place + WORD, Object::live(1)).expect("inside");
        Self { section, engine }
    }

    fn address(&self) -> Address<'_> {
        self.section.verbs().address(self.section.id(0)).expect("there")
    }

    fn part(&self, at: u64, len: u32) -> Sge {
        Sge { addr: self.section.objects[0].iova + at, len, lkey: LKEY }
    }

    fn post(&self, request: &SendWr<'_>) {
        self.section.verbs().queue_pair(self.section.id(0)).and_then(|qp| qp.post(request)).expect("room");
    }

    fn receive(&self, id: u64, into: &[Sge]) {
        self.section.verbs().queue_pair(self.section.id(0)).and_then(|qp| qp.receive(id, into)).expect("room");
    }

    fn poll(&mut self) -> Vec<Completion> {
        while self.engine.round(0) != 0 {}
        let verbs = self.section.verbs();
        let cq = verbs.completion_queue(self.section.id(0)).expect("there");
        std::iter::from_fn(|| cq.poll().expect("valid")).collect()
    }

    fn outcomes(&mut self) -> Vec<(u64, WcStatus)> {
        self.poll().iter().map(|found| (found.id, found.status)).collect()
    }

    fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let (mut bytes, verbs) = (vec![0; len], self.section.verbs());
        verbs.region(self.section.id(0)).and_then(|region| region.copy_out(at, &mut bytes)).expect("inside");
        bytes
    }

    fn state(&self) -> u32 {
        self.section.state(0)
    }
}

fn sides() -> [Side; 2] {
    let [a, b] = ADDRESSES;
    [Side::new(b), Side::new(a)]
}

/// Carries what the first one sends.
fn carry([a, b]: &mut [Side; 2]) {
    let route = Route { from: SocketAddrV4::new(ADDRESSES[0], PORT), to: ADDRESSES[1], id: 0 };
    let mut packet = Vec::new();
    while let Some(to) = a.engine.transmit(0, &mut packet) {
        assert_eq!(to, ADDRESSES[1]);
        seal(&mut packet, &route);
        let headers = route.headers(packet.len());
        let (header, payload) = parse(&headers, &packet).expect("it is one");
        b.engine.receive(0, &headers, &header, payload);
    }
}

#[test]
fn a_datagram_comes_behind_its_headers() {
    let mut sides = sides();
    let [a, b] = &sides;
    assert_eq!([a, b].map(Side::state), [QpState::RTS.0; 2]);
    b.receive(1, &[b.part(0, 30), b.part(100, 500)]);
    b.receive(2, &[b.part(1000, 40 + MTU)]);
    a.post(&SendWr::inline(3, b"hello").datagram(a.address(), 0x100, QKEY).imm(9));
    let verbs = a.section.verbs();
    verbs.region(a.section.id(0)).and_then(|region| region.copy_in(0, &[5; MTU as usize])).expect("inside");
    // The key of its own.
    a.post(&SendWr::send(4, &[a.part(0, MTU)]).datagram(a.address(), 0x100, 1 << 31));
    carry(&mut sides);
    let [a, b] = &mut sides;
    assert_eq!(a.outcomes(), [(3, WcStatus::SUCCESS), (4, WcStatus::SUCCESS)]);
    let came = b.poll();
    let said = |found: &Completion| (found.id, found.opcode, found.bytes, found.immediate, found.source);
    let expected = [(1, WcOpcode::RECV, 45, Some(9), 0x100), (2, WcOpcode::RECV, 40 + MTU, None, 0x100)];
    assert_eq!(came.iter().map(said).collect::<Vec<_>>(), expected);
    assert_eq!((b.bytes(110, 5), b.bytes(1000 + GRH, MTU as usize)), (b"hello".to_vec(), vec![5; MTU as usize]));
    // The IPv4 header: version, protocol, addresses.
    let ip = b.bytes(1000 + 20, 20);
    assert_eq!((ip[0], ip[9], &ip[12..]), (0x45, 17, &[127, 0, 0, 1, 127, 0, 0, 2][..]));
}

#[test]
fn a_datagram_without_a_place_is_dropped() {
    let mut sides = sides();
    let [a, _] = &sides;
    let send = |id, qp, qkey| a.post(&SendWr::inline(id, b"hello").datagram(a.address(), qp, qkey));
    // No receive request.
    send(1, 0x100, QKEY);
    carry(&mut sides);
    let [a, b] = &sides;
    let send = |id, qp, qkey| a.post(&SendWr::inline(id, b"hello").datagram(a.address(), qp, qkey));
    b.receive(2, &[b.part(0, GRH as u32 + 4)]);
    // One without room; another key, number, and a connected queue pair.
    send(3, 0x100, QKEY);
    send(4, 0x100, QKEY + 1);
    send(5, 0x999, QKEY);
    send(6, 0x101, QKEY);
    carry(&mut sides);
    let [a, b] = &mut sides;
    assert_eq!((a.outcomes().len(), b.outcomes()), (5, vec![]));
    // What is for a connection is not for it.
    let header = Header::new(Opcode::new(Operation::Send, true, true), 0x100, 0);
    let route = Route { from: SocketAddrV4::new(ADDRESSES[0], PORT), to: ADDRESSES[1], id: 0 };
    let mut packet = Vec::new();
    begin(&header, 0, &mut packet);
    seal(&mut packet, &route);
    b.engine.receive(0, &route.headers(packet.len()), &header, &[]);
    assert!(b.engine.transmit(0, &mut packet).is_none());
    // It waits for one that fits.
    a.post(&SendWr::inline(7, b"hell").datagram(a.address(), 0x100, QKEY));
    carry(&mut sides);
    assert_eq!(sides[1].outcomes(), [(2, WcStatus::SUCCESS)]);
}

#[test]
fn what_is_no_datagram_ends_the_queue_pair() {
    let nowhere = Remote { addr: 0, rkey: 0 };
    for is_atomic in [false, true] {
        let mut sides = self::sides();
        let [a, _] = &sides;
        let atomic = SendWr::fetch_add(1, a.part(0, 8), nowhere, 1);
        a.post(&if is_atomic { atomic } else { SendWr::inline(1, b"x").to(nowhere) });
        a.receive(2, &[]);
        carry(&mut sides);
        assert_eq!(sides[0].outcomes(), [(1, WcStatus::LOC_QP_OP_ERR), (2, WcStatus::WR_FLUSH_ERR)]);
        assert_eq!(sides[0].state(), QpState::ERR.0);
    }
    // An address handle that was destroyed.
    let mut sides = self::sides();
    let [a, _] = &mut sides;
    let handle = Object { kind: Kind::ADDRESS_HANDLE, ..Object::default() };
    assert_eq!(a.engine.command(&Command { verb: Verb::DESTROY, ..create(handle) }), Reply::DONE);
    a.post(&SendWr::inline(1, b"x").datagram(a.address(), 0x100, QKEY));
    carry(&mut sides);
    assert_eq!(sides[0].outcomes(), [(1, WcStatus::LOC_QP_OP_ERR)]);
    // One that has another in its place by now, and none.
    for has_one in [true, false] {
        let mut sides = self::sides();
        let [a, _] = &mut sides;
        assert_eq!(a.engine.command(&Command { verb: Verb::DESTROY, ..create(handle) }), Reply::DONE);
        let next = Object { generation: 2, iova: u32::from(ADDRESSES[1]).into(), ..handle };
        assert_eq!(a.engine.command(&create(next)), Reply::DONE);
        a.engine.told();
        let request = SendWr::inline(1, b"x");
        a.post(&if has_one { request.datagram(a.address(), 0x100, QKEY) } else { request });
        assert!(a.engine.transmit(0, &mut Vec::new()).is_none());
        // No packet has left, and the device is notified.
        assert_eq!((a.engine.told(), a.outcomes()), (1, vec![(1, WcStatus::LOC_QP_OP_ERR)]));
    }
}

/// A wire of shorter packets: what is longer fails at its sender, and is dropped by a receiver.
#[test]
fn a_datagram_is_one_packet_of_its_wire() {
    for mtu in [256, 1024, MTU] {
        let mut sides = self::sides();
        let [a, b] = &mut sides;
        a.engine.use_wire(mtu);
        b.receive(1, &[b.part(0, 8192)]);
        a.post(&SendWr::send(2, &[a.part(0, mtu)]).datagram(a.address(), 0x100, QKEY));
        a.post(&SendWr::send(3, &[a.part(0, mtu + 1)]).datagram(a.address(), 0x100, QKEY));
        carry(&mut sides);
        let [a, b] = &mut sides;
        assert_eq!(a.outcomes(), [(2, WcStatus::SUCCESS), (3, WcStatus::LOC_LEN_ERR)]);
        assert_eq!(b.outcomes(), [(1, WcStatus::SUCCESS)]);
    }
    let mut sides = self::sides();
    let [a, b] = &mut sides;
    b.engine.use_wire(1024);
    b.receive(1, &[b.part(0, 8192)]);
    for (id, bytes) in [(2, 1025), (3, 1024)] {
        a.post(&SendWr::send(id, &[a.part(0, bytes)]).datagram(a.address(), 0x100, QKEY));
    }
    carry(&mut sides);
    let bytes = sides.each_mut().map(|side| side.poll().iter().map(|found| found.bytes).collect::<Vec<_>>());
    assert_eq!(bytes, [vec![0, 0], vec![1024 + GRH as u32]]);
}
