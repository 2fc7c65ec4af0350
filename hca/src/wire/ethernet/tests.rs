use super::*;
use crate::packet::{self, Acknowledge, Header, Opcode, Operation, Syndrome, begin, parse, seal};
use proptest::prelude::*;

const GUEST: (Mac, Ipv4Addr) = ([0x52, 0x54, 0, 0, 0, 1], Ipv4Addr::new(10, 0, 0, 1));
const OURS: (Mac, Ipv4Addr) = ([0x52, 0x54, 0, 0, 0, 2], Ipv4Addr::new(10, 0, 0, 2));
const START: Duration = Duration::ZERO;

/// Frames of Linux 6.1 with `rdma_rxe`, on QEMU's `-netdev dgram`: it asks for this station; it acknowledges.
const ASKS: &str = "ffffffffffff525400000001080600010800060400015254000000010a0000010000000000000a000002";
const ACKNOWLEDGES: &str = "525400000002525400000001080045000030991c400040118d9e0a0000010a000002\
    f57012b7001c00001100ffff0000123400bfd0361f000001ffdbd67e";
/// What this station says to it; that guest took such frames.
const ANSWERS: &str = "525400000001525400000002080600010800060400025254000000020a0000025254000000010a000001";
const ASKS_TOO: &str = "ffffffffffff525400000002080600010800060400015254000000020a0000020000000000000a000001";
const ASKS_AGAIN: &str = "525400000001525400000002080600010800060400015254000000020a0000020000000000000a000001";
const SENDS: &str = "52540000000152540000000208004500003000004000401126bb0a0000020a000001\
    c00012b7001c00001140ffff000000110054ba351f00000194604a6f";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().map(|digit| digit.to_digit(16).expect("hexadecimal") as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn station() -> Station {
    Station::new(OURS.0, OURS.1)
}

/// The frames that a station has to send.
fn frames(station: &mut Station) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| {
        let frame = station.next().map(<[u8]>::to_vec);
        station.sent();
        frame
    })
    .collect()
}

/// The guest's answer to who asks for it.
fn answer(to: Mac) -> Vec<u8> {
    let mut guest = Station::new(GUEST.0, GUEST.1);
    let mut asker = Station::new(to, OURS.1);
    asker.send(START, GUEST.1, &[]);
    assert_eq!(guest.receive(START, &frames(&mut asker)[0]), None);
    frames(&mut guest).remove(0)
}

fn acknowledgement(station: &Station) -> Vec<u8> {
    let mut header = Header::new(Opcode::new(Operation::Acknowledge, true, true), 0x11, 0x54_BA35);
    header.acknowledge = Acknowledge { syndrome: Syndrome(0x1F), msn: 1 };
    let mut packet = Vec::new();
    begin(&header, 0, &mut packet);
    seal(&mut packet, &station.route_to(GUEST.1));
    packet
}

#[test]
fn a_station_answers_who_asks_for_it() {
    let mut station = station();
    assert_eq!(station.receive(START, &bytes(ASKS)), None);
    assert_eq!(frames(&mut station), [bytes(ANSWERS)]);
    // For another station; to another one; from this one; of a group.
    for (at, byte) in [(41, 3), (0, 0x52), (31, 2), (22, 0xFF)] {
        let mut other = bytes(ASKS);
        other[at] = byte;
        assert_eq!((station.receive(START, &other), frames(&mut station).len()), (None, 0), "{at}");
    }
}

#[test]
fn a_stock_packet_comes_with_its_check_value() {
    let frame = bytes(ACKNOWLEDGES);
    let mut station = station();
    let (route, at) = station.receive(START, &frame).expect("it is for this station");
    assert_eq!(
        (route.from, route.to, route.id),
        (SocketAddrV4::new(GUEST.1, 0xF570), OURS.1, 0x991C),
        "the number decides the check value"
    );
    let packet = &frame[at];
    let (header, payload) = parse(&route.headers(packet.len()), packet).expect("as rxe makes it");
    assert_eq!((header.to, header.psn, payload), (0x1234, 0xBF_D036, &[][..]));
    // Ethernet pads what is short.
    let padded = [&frame[..], &[0; 20]].concat();
    assert_eq!(station.receive(START, &padded).map(|(_, at)| at), Some(HEADERS..HEADERS + packet.len()));
}

#[test]
fn frames_that_are_not_for_this_station_are_dropped() {
    let mut station = station();
    let checksum = |frame: &mut Vec<u8>| {
        let (ip, _) = Ipv4Header::from_slice(&frame[14..34]).expect("a header");
        frame[24..26].copy_from_slice(&ip.calc_header_checksum().to_be_bytes());
    };
    for (what, at, byte, is_summed) in [
        ("another station's", 5, 3, false),
        ("sent to all", 0, 0xFF, false),
        ("of another protocol", 13, 0x01, false),
        ("with a wrong checksum", 24, 0, false),
        ("longer than the frame", 17, 0x31, true),
        ("TCP", 23, 6, true),
        ("a first fragment", 20, 0x20, true),
        ("a later fragment", 21, 1, true),
        ("another address's", 33, 3, true),
        ("another port's", 37, 0xB8, false),
        ("a datagram that is shorter than its packet", 39, 0x1B, false),
        ("a datagram that is longer than its packet", 39, 0x1D, false),
    ] {
        let mut frame = bytes(ACKNOWLEDGES);
        frame[at] = byte;
        if what == "sent to all" {
            frame[..6].fill(0xFF);
        }
        if is_summed {
            checksum(&mut frame);
        }
        assert_eq!(station.receive(START, &frame), None, "{what}");
    }
    // With options, which a check value does not know.
    let mut frame = bytes(ACKNOWLEDGES);
    frame[14] = 0x46;
    frame[17] += 4;
    frame.splice(34..34, [1; 4]);
    let (ip, _) = Ipv4Header::from_slice(&frame[14..]).expect("a header");
    frame[24..26].copy_from_slice(&ip.calc_header_checksum().to_be_bytes());
    assert_eq!(station.receive(START, &frame), None);
    assert!(station.receive(START, &bytes(ACKNOWLEDGES)).is_some() && frames(&mut station).is_empty());
}

#[test]
fn packets_wait_until_it_is_known_where_they_go() {
    let mut station = station();
    let packet = acknowledgement(&station);
    for _ in 0..2 {
        station.send(START, GUEST.1, &packet);
    }
    station.send(START, Ipv4Addr::new(10, 0, 0, 9), &packet);
    let asked = frames(&mut station);
    assert_eq!((asked.len(), &asked[0]), (2, &bytes(ASKS_TOO)), "one question for each address");
    assert_eq!(station.receive(START, &answer(OURS.0)), None);
    assert_eq!(frames(&mut station), [bytes(SENDS), bytes(SENDS)]);
    // It is known now, and asked for again after a time, without a pause.
    station.send(KNOWN - Duration::from_nanos(1), GUEST.1, &packet);
    assert_eq!(frames(&mut station), [bytes(SENDS)]);
    station.send(KNOWN, GUEST.1, &packet);
    assert_eq!(frames(&mut station), [bytes(ASKS_AGAIN), bytes(SENDS)]);
}

#[test]
fn who_does_not_answer_is_asked_again_and_keeps_few_packets() {
    let mut station = station();
    for number in 0..2 * WAITING as u8 {
        station.send(START, GUEST.1, &[number]);
    }
    assert_eq!(frames(&mut station).len(), 1);
    station.send(UNKNOWN, GUEST.1, &[99]);
    assert_eq!(frames(&mut station), [bytes(ASKS_TOO)]);
    station.receive(UNKNOWN, &answer(OURS.0));
    let kept: Vec<u8> = frames(&mut station).iter().filter_map(|frame| frame.last().copied()).collect();
    assert_eq!(kept, (WAITING as u8 + 1..2 * WAITING as u8).chain([99]).collect::<Vec<_>>(), "the newest, in order");
    // What is longer than a packet is lost.
    station.send(UNKNOWN, GUEST.1, &[0; LONGEST]);
    assert_eq!(frames(&mut station).len(), 0);
}

#[test]
fn an_answer_that_nobody_asked_for_is_not_kept() {
    let mut station = station();
    station.receive(START, &answer(OURS.0));
    station.receive(START, &bytes(ASKS));
    assert_eq!((station.neighbours.len(), frames(&mut station).len()), (0, 1));
}

#[test]
fn many_addresses_do_not_drive_out_those_that_answer() {
    let mut station = station();
    station.send(START, GUEST.1, &[]);
    station.receive(START, &answer(OURS.0));
    for number in 0..3 * NEIGHBOURS as u32 {
        let at = Ipv4Addr::from_bits(0x0B00_0000 + number);
        station.send(Duration::from_nanos(u64::from(number) + 1), at, &[]);
    }
    assert_eq!((station.neighbours.len(), station.ready.len(), station.waiting.len()), (NEIGHBOURS, READY, WAITING));
    assert_eq!(station.neighbours[&GUEST.1].mac, Some(GUEST.0));
}

/// Two stations at sockets, of which one comes later.
#[test]
fn packets_go_from_socket_to_socket() {
    let folder = std::env::temp_dir().join(format!("hamr-ethernet-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let [a, b] = ["a", "b"].map(|name| folder.join(name));
    for path in [&a, &b] {
        let _ = std::fs::remove_file(path);
    }
    let mut ours = Ethernet::bind(&a, &b, OURS.0, OURS.1).expect("a socket");
    ours.send(GUEST.1, &[1]);
    assert!(!ours.is_full(), "without another socket, frames are lost");
    let mut guest = Ethernet::bind(&b, &a, GUEST.0, GUEST.1).expect("a socket");
    // More than the system keeps for a socket that is not read.
    let route = ours.route_to(GUEST.1);
    let deadline = Instant::now() + Duration::from_secs(10);
    let (mut came, mut full) = (Vec::new(), false);
    let mut buffers = [Box::new([0; LONGEST]), Box::new([0; LONGEST])];
    while came.len() < 100 && Instant::now() < deadline {
        if ours.station.ready.len() < READY / 2 {
            (0..50).for_each(|number| ours.send(GUEST.1, &[number; 4096 + OVERHEAD]));
        }
        full |= ours.is_full();
        assert_eq!(ours.receive(&mut buffers[0]), None);
        while let Some((route, packet)) = guest.receive(&mut buffers[1]) {
            came.push((route, packet.len(), packet[0]));
        }
    }
    assert!(full, "the socket's queue was full once");
    assert!(came.len() >= 100 && came.iter().all(|(from, len, _)| (*from, *len) == (route, 4096 + OVERHEAD)));
    // The device begins again.
    drop(ours);
    Ethernet::bind(&a, &b, OURS.0, OURS.1).expect("the next one has its place");
    let _ = std::fs::remove_dir_all(&folder);
}

proptest! {
    /// Whatever comes is refused, answered or parsed, and what is parsed lies in the frame.
    #[test]
    fn arbitrary_frames_do_no_harm(
        hex in prop::sample::select(&[ASKS, ANSWERS, ACKNOWLEDGES, SENDS][..]),
        changes in prop::collection::vec((0_usize..80, any::<u8>()), 0..6),
        length in 0_usize..80,
        more in prop::collection::vec(any::<u8>(), 0..80),
        raw in any::<bool>(),
    ) {
        let mut frame = if raw { Vec::new() } else { bytes(hex) };
        frame.extend(more);
        for (at, byte) in changes {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        if length > 60 {
            frame.truncate(length);
        }
        let mut station = station();
        station.send(START, GUEST.1, &[1, 2, 3]);
        if let Some((route, at)) = station.receive(UNKNOWN, &frame) {
            let packet = frame.get(at).expect("within the frame");
            let _ = packet::parse(&route.headers(packet.len()), packet);
        }
        prop_assert!(frames(&mut station).len() <= 3);
    }

    /// What one station sends, another one finds, whatever the packet.
    #[test]
    fn packets_come_as_they_were_sent(packet in prop::collection::vec(any::<u8>(), 0..LONGEST - HEADERS)) {
        let (mut ours, mut guest) = (station(), Station::new(GUEST.0, GUEST.1));
        ours.send(START, GUEST.1, &packet);
        for frame in frames(&mut ours) {
            prop_assert_eq!(guest.receive(START, &frame), None);
        }
        for frame in frames(&mut guest) {
            prop_assert_eq!(ours.receive(START, &frame), None);
        }
        let frame = frames(&mut ours).remove(0);
        let (route, at) = guest.receive(START, &frame).expect("for it");
        prop_assert_eq!((route, &frame[at]), (ours.route_to(GUEST.1), &packet[..]));
    }
}
