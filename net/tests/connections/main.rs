//! Hosts and a server over TCP on this machine: how they meet, whom the door keeps out, and what is said.

mod common;
mod hostile;
mod texts;
mod transfers;

use common::{Server, bounds, hello, opened};
use hamr_net::frame::{Frame, Purpose, Slot};
use hamr_net::key::Key;
use std::time::{Duration, Instant};

fn slot(hdr: u32, bytes: &[u8]) -> Frame<'_> {
    let (payload, second) = ([1, 2, 0, 0, 0, 0], [0; 8]);
    let (queue, of_host, header_alone, slot, word) = (3, false, false, 7, 0x0100_0001);
    Frame::Slot(Slot { queue, of_host, header_alone, slot, hdr, word, payload, second, bytes })
}

#[test]
fn messages_go_both_ways_in_order() {
    let server = Server::start();
    let mut host = opened(&server, &hello());
    let mut other = server.arrival().grant(true, "shm", bounds()).expect("a host");
    let mut host = host.finish().channel;
    let chunk = [5; 16 << 10];
    // More than the sockets hold: the sender goes on when the receiver has read.
    const MANY: u32 = 400;
    let (mut sent, mut got) = (0, 0);
    let end = Instant::now() + common::LIMIT;
    while got < MANY {
        assert!(Instant::now() < end, "{sent} sent, {got} came");
        while host.flush().expect("it is there") && sent < MANY {
            host.push(&slot(sent, &chunk)).expect("it fits");
            sent += 1;
        }
        match other.receive().expect("it is there") {
            None => other.wait(Duration::from_millis(20)),
            Some(frame) => {
                assert_eq!(frame, slot(got, &chunk));
                got += 1;
            }
        }
    }
    other.push(&slot(1, &[])).expect("it fits");
    assert!(other.flush().expect("it is there"));
    while host.receive().expect("it is there").is_none() {
        host.wait(Duration::from_secs(1));
    }
}

#[test]
fn long_offers_and_states_come_whole() {
    let server = Server::start();
    let mut host = opened(&server, &hello());
    let mut other = server.arrival().grant(true, "shm", bounds()).expect("a host");
    let mut host = host.finish().channel;
    let bytes: Vec<u8> = (0..bounds().longest).map(|i| (i * 7 / 3) as u8).collect();
    for len in [0, 1, 65_536, 65_537, bytes.len()] {
        host.push(&Frame::Offer(&bytes[..len])).expect("it fits");
        host.push(&Frame::Renew).expect("it fits");
        for want in [Frame::Offer(&bytes[..len]), Frame::Renew] {
            common::receive(&mut host, &mut other, |frame| assert!(*frame == want, "{len}"));
        }
    }
    // One byte more than this server's layout has is not kept.
    host.push(&Frame::Offer(&[bytes, vec![0; 65_537]].concat())).expect("it fits");
    let e = common::ends(&mut host, &mut other);
    assert!(e.to_string().starts_with("expected bytes in a row of PART to be at most 200000"), "{e}");
}

#[test]
fn both_connections_of_a_host_arrive_with_its_link() {
    let server = Server::start();
    for (purpose, attempt) in [(Purpose::Messages, 1), (Purpose::Transfers, 1), (Purpose::Messages, 2)] {
        let link = [attempt as u8; 16];
        let mut host = opened(&server, &hamr_net::frame::Hello { purpose, attempt, link, ..hello() });
        let arrival = server.arrival();
        assert_eq!((arrival.purpose, arrival.attempt, arrival.link), (purpose, attempt, link));
        assert_eq!((arrival.name.as_str(), arrival.host.as_str(), arrival.window), ("board", "desk", 1 << 20));
        let _server = arrival.grant(false, "qemu", bounds()).expect("a host");
        let opened = host.finish();
        assert_eq!((opened.doorbell, opened.kind.as_str()), (false, "qemu"));
    }
}

#[test]
fn a_range_that_is_not_the_hosts_ends_the_connection() {
    let server = Server::start();
    for bad in [Frame::Word { off: 1 << 16, value: 3 }, Frame::Look { off: 1 << 40, len: 8 }, Frame::Renewed] {
        let mut host = opened(&server, &hello());
        let mut other = server.arrival().grant(true, "shm", bounds()).expect("a host");
        let mut host = host.finish().channel;
        host.push(&bad).expect("it is a frame");
        let why = common::ends(&mut host, &mut other).to_string();
        assert!(why.starts_with("expected "), "{why}");
        other.bye(&why);
        // The host hears why.
        assert_eq!(common::closed(&mut host), hamr_net::Broken::Said(why));
    }
}

#[test]
fn a_key_is_good_for_its_server_only() {
    let (one, two) = (Server::start(), Server::start());
    let e = common::open_with(&two, &one.key, &hello()).finish(common::LIMIT).err().expect("another key");
    let at = two.at;
    assert_eq!(
        e.to_string(),
        format!("expected the server's key, {at} has another; give both the same file (--key FILE)")
    );
    two.until_told("refused: expected the same key at both ends, the other one has another");
    let random = Key::random().expect("a key");
    common::open_with(&one, &random, &hello()).finish(common::LIMIT).err().expect("another key");
}
