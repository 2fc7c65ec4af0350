use super::*;
use crate::frame::Slot;
use crate::socket::Bytes;
use hamr_shared_abi::slot::{INLINE_WORDS, SECOND_WORDS};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Pid;
use std::io::{Read, Write};

const LIMIT: Duration = Duration::from_secs(20);

fn channel(socket: OwnedFd, end: End) -> Channel {
    let mut channel = Channel::new(socket, end, None, LIMIT).expect("an end");
    channel.begin(Phase::Messages, Bounds { window: 1 << 20, heap: 1 << 16..1 << 20, longest: 0 });
    channel
}

/// A pair that keeps what was written at once together.
fn packets() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket pair")
}

fn empty(word: u32) -> Frame<'static> {
    let (payload, second) = ([0; INLINE_WORDS], [0; SECOND_WORDS]);
    let (queue, of_host, header_alone, slot, hdr) = (1, false, false, 0, 0);
    Frame::Slot(Slot { queue, of_host, header_alone, slot, hdr, word, payload, second, bytes: &[] })
}

#[test]
fn what_one_step_collects_goes_in_one_write() {
    let (a, b) = packets();
    let mut host = channel(a, End::Host);
    for word in 1..=8 {
        host.push(&empty(word)).expect("it fits");
    }
    assert_eq!(host.flush(), Ok(true));
    let mut bytes = [0; 4096];
    assert_eq!(Bytes(&b).read(&mut bytes).expect("a packet"), 8 * 24);
}

#[test]
fn frames_come_out_whatever_they_come_in() {
    let mut all = Vec::new();
    for word in 0..50 {
        empty(word).encode(&mut all).expect("it fits");
        Frame::Offer(&all.clone()[..word as usize]).encode(&mut all).expect("it fits");
    }
    for piece in [1, 3, 31, 100, 1000] {
        let (a, b) = packets();
        let mut server = channel(b, End::Server);
        let mut pieces = all.chunks(piece);
        for word in 0..50 {
            for is_offer in [false, true] {
                let frame = loop {
                    match server.receive().expect("it is there") {
                        Some(frame) => break frame,
                        None => _ = Bytes(&a).write(pieces.next().expect("more")).expect("room"),
                    }
                };
                let length = if let Frame::Offer(bytes) = frame { bytes.len() } else { usize::MAX };
                assert_eq!((length == word as usize, frame == empty(word)), (is_offer, !is_offer));
            }
        }
        assert_eq!(server.receive(), Ok(None));
    }
}

#[test]
fn a_forked_process_does_not_write() {
    let (a, _b) = packets();
    let mut host = channel(a, End::Host);
    let Io::Secured(io) = &mut host.io else { panic!("expected a socket") };
    io.process = Pid::INIT;
    host.push(&empty(1)).expect("it fits");
    assert_eq!(host.flush(), Err(Broken::Forked));
}

#[test]
fn a_part_stands_before_an_offer_or_a_state() {
    let (a, b) = packets();
    let (mut host, mut server) = (channel(a, End::Host), channel(b, End::Server));
    server.bounds.longest = 10;
    for frame in [Frame::Part(&[1]), Frame::Renew] {
        host.push(&frame).expect("it fits");
    }
    assert_eq!(host.flush(), Ok(true));
    let e = server.receive().expect_err("it is not to be").to_string();
    assert_eq!(
        e,
        "expected zero in the reserved bytes of PART (what is between it and OFFER or STATE), got something else"
    );
}

/// Else it would wait for what comes, and the other end for more.
#[test]
fn a_look_that_sends_the_rest_leaves_no_thread_asleep() {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (a, b) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("a socket pair");
    let key = Key::random().expect("random bytes");
    let end = |socket, end| Channel::new(socket, end, Some(&key), LIMIT).expect("an end");
    let (mut host, mut server) = (end(a, End::Host), end(b, End::Server));
    while !(host.is_proven().expect("the key") & server.is_proven().expect("the key")) {}
    let piece = vec![1; CHUNK];
    while host.push_raw(&piece).expect("there") != 0 {}
    assert!(host.io.has_unsent(), "TLS has the rest of a piece");
    let mut to = vec![0; CHUNK];
    while server.take_raw(&mut to).expect("there") != 0 {}
    assert_eq!(host.receive(), Ok(None));
    assert!(!host.io.has_unsent(), "the look has sent it");
    assert!(host.interest().contains(PollFlags::OUT));
    assert_ne!(host.push_raw(&piece), Ok(0));
}
