//! RoCEv2 packets against Scapy's, and any bytes.

use hamr_hca::packet::{
    Acknowledge, AtomicEth, Deth, Header, Ipv4Udp, MASK, Opcode, Operation, PORT, Refused, Reth, Route, Syndrome,
    begin, icrc, parse, seal,
};
use proptest::prelude::*;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Made by `golden/roce.py`: name, headers, packet.
const GOLDEN: &str = include_str!("golden/roce.txt");

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).expect("a digit") as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn golden() -> Vec<(&'static str, Ipv4Udp, Vec<u8>)> {
    let lines = GOLDEN.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let [name, headers, packet] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            (name, hex(headers).try_into().expect("28 bytes"), hex(packet))
        })
        .collect()
}

fn make(header: &Header, payload: &[u8], route: &Route) -> Vec<u8> {
    let mut packet = vec![9];
    begin(header, payload.len(), &mut packet);
    packet.extend_from_slice(payload);
    seal(&mut packet, route);
    packet
}

fn route(port: u16, id: u16) -> Route {
    let from = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), port);
    Route { from, to: Ipv4Addr::new(10, 0, 0, 2), id }
}

/// Without what routers change.
fn masked(headers: &Ipv4Udp) -> Ipv4Udp {
    let mut headers = *headers;
    [1, 8, 10, 11, 26, 27].into_iter().for_each(|at| headers[at] = 0);
    headers
}

#[test]
fn scapy_makes_the_same_packets() {
    use Operation::{
        Acknowledge as Ack, AtomicAcknowledge, CompareSwap, FetchAdd, ReadRequest, ReadResponse, Send, Write,
    };
    let (counting, zeros): (Vec<u8>, _) = ((0..=255).collect(), vec![0; 256]);
    let header = |operation, first, last, psn| Header::new(Opcode::new(operation, first, last), 0x11, psn);
    let with = |value: Header, change: fn(&mut Header)| {
        let mut value = value;
        change(&mut value);
        value
    };
    let asking = |header: Header| Header { wants_acknowledge: true, ..header };
    let immediate =
        |header: Header| with(Header { immediate: 0xDEAD_BEEF, ..header }, |header| header.opcode.has_immediate = true);
    let ranged = |header: Header| Header {
        reth: Reth { addr: 0x1122_3344_5566_7788, rkey: 0xABCD_0042, length: 5000 },
        ..header
    };
    let told = |header: Header, syndrome, msn| Header {
        acknowledge: Acknowledge { syndrome: Syndrome(syndrome), msn },
        ..header
    };
    let atomic = |header: Header| {
        let operands = AtomicEth { addr: 0x1122_3344_5566_7788, rkey: 0xABCD_0042, swap_add: 3, compare: 4 };
        Header { atomic: operands, ..asking(header) }
    };
    let expected: Vec<(&str, Header, &[u8])> = vec![
        ("send_only", asking(header(Send, true, true, 0xFF_FFFE)), b"hello"),
        ("send_first", header(Send, true, false, 7), &counting),
        ("send_middle", header(Send, false, false, 8), &counting),
        (
            "send_last_imm",
            with(asking(immediate(header(Send, false, true, 9))), |header| header.is_solicited = true),
            b"x",
        ),
        (
            "send_only_inv",
            with(asking(immediate(header(Send, true, true, 9))), |header| {
                (header.opcode.has_immediate, header.opcode.has_invalidate) = (false, true);
            }),
            b"",
        ),
        ("write_only", asking(ranged(header(Write, true, true, 10))), b"abc"),
        ("write_only_imm", asking(ranged(immediate(header(Write, true, true, 10)))), b"abcd"),
        ("read_request", with(ranged(header(ReadRequest, true, true, 11)), |header| header.to = MASK), b""),
        ("read_response_first", told(header(ReadResponse, true, false, 11), 0x1F, 3), &zeros),
        ("read_response_middle", header(ReadResponse, false, false, 12), &zeros),
        ("read_response_last", told(header(ReadResponse, false, true, 13), 0x1F, 3), b"yy"),
        ("acknowledge", told(header(Ack, true, true, 14), 0x1F, 0xFF_FFFE), b""),
        ("nak_sequence", told(header(Ack, true, true, 14), 0x60, 4), b""),
        ("rnr_nak", told(header(Ack, true, true, 14), 0x2C, 4), b""),
        (
            "atomic_acknowledge",
            Header { original: 0x0102_0304_0506_0708, ..told(header(AtomicAcknowledge, true, true, 15), 0x1F, 5) },
            b"",
        ),
        ("compare_swap", atomic(header(CompareSwap, true, true, 15)), b""),
        ("fetch_add", atomic(header(FetchAdd, true, true, 15)), b""),
        (
            "ud_send_only_imm",
            with(immediate(header(Send, true, true, 16)), |header| {
                header.opcode.is_datagram = true;
                header.deth = Deth { qkey: 0x8001_0001, source: 0x22 };
            }),
            b"datagram!",
        ),
    ];
    let golden = golden();
    assert_eq!(golden.len(), expected.len());
    for ((name, headers, packet), (expected_name, header, payload)) in golden.iter().zip(&expected) {
        assert_eq!(name, expected_name);
        assert_eq!(parse(headers, packet), Ok((*header, *payload)), "{name}");
        let route =
            route(if header.opcode.is_datagram { PORT } else { 49152 }, if header.psn == 7 { 0x1234 } else { 0 });
        assert_eq!(make(header, payload, &route), *packet, "{name}");
        assert_eq!(masked(&route.headers(packet.len())), masked(headers), "{name}");
    }
}

#[test]
fn a_changed_bit_is_found() {
    for (name, headers, packet) in golden() {
        for bit in 0..packet.len() * 8 {
            let mut packet = packet.clone();
            packet[bit / 8] ^= 1 << (bit % 8);
            // The byte that congested routers set is not covered, and not looked at.
            assert_eq!(parse(&headers, &packet).is_ok(), bit / 8 == 4, "{name}, bit {bit}");
        }
        for at in 0..headers.len() {
            let mut headers = headers;
            headers[at] ^= 0x10;
            assert_eq!(parse(&headers, &packet).is_ok(), [1, 8, 10, 11, 26, 27].contains(&at), "{name}, byte {at}");
        }
    }
}

#[test]
fn wrong_packets_are_refused_by_their_fault() {
    let header = Header::new(Opcode::new(Operation::Send, true, true), 1, 2);
    let (route, good) = (route(PORT, 0), make(&header, b"abc", &route(PORT, 0)));
    let again = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = good[..good.len() - 4].to_vec();
        change(&mut packet);
        let headers = route.headers(packet.len() + 4);
        packet.extend_from_slice(&icrc(&headers, &packet).to_le_bytes());
        parse(&headers, &packet).err()
    };
    assert_eq!(again(&|_| ()), None);
    assert_eq!(again(&|packet| packet[0] = 21), Some(Refused::Opcode));
    assert_eq!(again(&|packet| packet[0] = 0x66), Some(Refused::Opcode));
    assert_eq!(again(&|packet| packet[1] |= 1), Some(Refused::Version));
    assert_eq!(again(&|packet| packet[3] = 0), Some(Refused::Partition));
    assert_eq!(again(&|packet| packet.truncate(12)), Some(Refused::Padding));
    assert_eq!(again(&|packet| packet.truncate(8)), Some(Refused::Length));
    assert_eq!(again(&|packet| packet.push(0)), Some(Refused::Length));
    assert_eq!(again(&|packet| packet[0] = 12), Some(Refused::Length));
    assert_eq!(again(&|packet| packet.splice(0..1, [17]).for_each(drop)), Some(Refused::Padding));
    assert_eq!(parse(&route.headers(0), &[]), Err(Refused::Length));
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(
        mut packet in proptest::collection::vec(any::<u8>(), 0..120),
        opcode in 0..=0x66_u8,
        is_sealed in any::<bool>(),
    ) {
        let route = route(PORT, 0);
        if is_sealed && packet.len() >= 12 {
            (packet[0], packet[1], packet[2], packet[3]) = (opcode, packet[1] & 0xF0, 0xFF, 0xFF);
            seal(&mut packet, &route);
        }
        let headers = route.headers(packet.len());
        if let Ok((header, payload)) = parse(&headers, &packet) {
            prop_assert!(is_sealed);
            // What was parsed is made again, but for bits that are not looked at.
            let again = make(&header, payload, &route);
            prop_assert_eq!(parse(&headers, &again), Ok((header, payload)));
        }
    }
}
