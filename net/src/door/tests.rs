use super::*;

fn at(ip: &str) -> SocketAddr {
    format!("{ip}:1").parse().expect("an address")
}

#[test]
fn an_address_has_a_line_a_second() {
    let (mut complaints, mut lines, begin) = (Complaints::default(), Vec::new(), Instant::now());
    let mut log = |line: &str| lines.push(line.to_owned());
    for milliseconds in 0..2500 {
        let now = begin + Duration::from_millis(milliseconds);
        complaints.tell_rest(now, &mut log);
        complaints.complain(at("192.0.2.1"), "no", now, &mut log);
    }
    complaints.complain(at("192.0.2.2"), "nor", begin, &mut log);
    let end = begin + Duration::from_secs(4);
    complaints.tell_rest(end, &mut log);
    complaints.tell_rest(end + PAUSE, &mut log);
    assert!(!complaints.rest());
    let expected = [
        "192.0.2.1:1: refused: no",
        "192.0.2.1: refused: 999 more connections",
        "192.0.2.1: refused: 1000 more connections",
        "192.0.2.2:1: refused: nor",
        "192.0.2.1: refused: 500 more connections",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn many_addresses_take_no_memory() {
    let (mut complaints, mut lines, now) = (Complaints::default(), 0, Instant::now());
    for i in 0..10_000u32 {
        let ip = std::net::Ipv4Addr::from(i);
        complaints.complain((ip, 1).into(), "no", now, &mut |_| lines += 1);
    }
    assert!(complaints.rows.len() <= MOST_NAMED + 1 && lines <= MOST_NAMED + 1, "{lines}");
}

#[test]
fn a_user_is_one_address_or_one_network() {
    assert_eq!(network(at("[2001:db8:1:2:3::1]")), network(at("[2001:db8:1:2:ffff::9]")));
    assert_ne!(network(at("[2001:db8:1:2::1]")), network(at("[2001:db8:1:3::1]")));
    assert_eq!(network(at("[::ffff:192.0.2.1]")), network(at("192.0.2.1")));
    assert_ne!(network(at("192.0.2.1")), network(at("192.0.2.2")));
}
