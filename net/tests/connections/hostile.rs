//! Whoever has not the key, and whoever has it and means harm.

use super::common::{self, LIMIT, SILENCE, Server, bounds, hello, opened};
use hamr_net::frame::{End, Frame, HEAD};
use hamr_net::{Broken, Channel, MOST_WAITING};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Pages of this process in memory, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("the process's memory");
    4096 * text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number")
}

/// A host gets in while others try.
fn a_host_gets_in(server: &Server) {
    let mut host = opened(server, &hello());
    let mut other = server.arrival().grant(true, "shm", bounds()).expect("a host");
    let mut host = host.finish().channel;
    host.push(&Frame::Renew).expect("it fits");
    common::receive(&mut host, &mut other, |frame| assert_eq!(*frame, Frame::Renew));
}

/// Has the server ended it?
fn is_ended(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a socket");
    let mut some = [0; 4096];
    loop {
        match stream.read(&mut some) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(e) => return !matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
        }
    }
}

/// Of one address a line a second, however many come.
fn lines_are_rare(server: &Server) {
    let log = server.log.lock().expect("no panic");
    let times: Vec<_> = log.iter().filter(|(_, line)| line.starts_with("127.0.0.1")).map(|(time, _)| *time).collect();
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(950), "{log:?}");
    }
    assert!(!times.is_empty());
}

/// What a host of this server sends first.
fn client_hello(server: &Server) -> Vec<u8> {
    let (mut a, b) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    b.set_nonblocking(true).expect("a socket");
    let mut host = Channel::new(b.into(), End::Host, Some(&server.key), SILENCE).expect("a host");
    assert_eq!(host.is_proven(), Ok(false));
    let mut bytes = vec![0; 4096];
    let len = a.read(&mut bytes).expect("a hello");
    bytes.truncate(len);
    bytes
}

#[test]
fn two_hundred_connections_at_once_lock_nobody_out() {
    let server = Server::start();
    a_host_gets_in(&server);
    let before = resident();
    let first = client_hello(&server);
    let many: Vec<_> = (0..200)
        .map(|i| {
            let mut stream = TcpStream::connect(server.at).expect("a connection");
            // Nothing, some of a hello, most of it.
            stream.write_all(&first[..[0, 40, first.len() - 1][i % 3]]).expect("a connection");
            stream
        })
        .collect();
    a_host_gets_in(&server);
    let grown = resident().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for 200 connections");
    server.until_told("too many connections that have not proved the key");
    let ended = many.into_iter().map(|mut stream| usize::from(is_ended(&mut stream))).sum::<usize>();
    assert!(ended >= 200 - MOST_WAITING, "{ended} of 200 have ended");
    server.until_told("more connections");
    lines_are_rare(&server);
    assert!(!server.has_arrivals());
}

#[test]
fn slow_ones_have_five_seconds_however_they_talk() {
    let server = Server::start();
    let first = client_hello(&server);
    let begin = Instant::now();
    let mut drop_by_drop = TcpStream::connect(server.at).expect("a connection");
    // One that has the key, and says no HELLO.
    let socket = TcpStream::connect(server.at).expect("a connection");
    socket.set_nonblocking(true).expect("a socket");
    let mut silent = Channel::new(socket.into(), End::Host, Some(&server.key), SILENCE).expect("a host");
    let (mut drops, mut was_proven) = (first.iter(), false);
    let (mut drop_ended, mut silent_ended) = (None, None);
    while drop_ended.is_none() || silent_ended.is_none() {
        assert!(begin.elapsed() < LIMIT, "{drop_ended:?} {silent_ended:?}");
        let is_over = drops.next().is_none_or(|byte| drop_by_drop.write_all(&[*byte]).is_err());
        if drop_ended.is_none() && (is_over || is_ended(&mut drop_by_drop)) {
            drop_ended = Some(begin.elapsed());
        }
        match silent.is_proven().and_then(|is| silent.receive().map(|_| is)) {
            Ok(is) => was_proven |= is,
            Err(e) => _ = silent_ended.get_or_insert((begin.elapsed(), e)),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let (silent_after, why) = silent_ended.expect("it ended");
    assert!(was_proven && why == Broken::Closed, "{why}");
    for after in [drop_ended.expect("it ended"), silent_after] {
        assert!((4.5..12.0).contains(&after.as_secs_f32()), "{after:?}");
    }
    server.until_told("it said no HELLO within 5 s");
    assert!(!server.has_arrivals());
}

#[test]
fn garbage_is_refused_and_others_are_not_disturbed() {
    let server = Server::start();
    let mut seed = 0x1234_5678_9ABC_DEF1u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    // The first stays until it is told of: of the others there is a number, or that they went.
    let mut first = TcpStream::connect(server.at).expect("a connection");
    first.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("a connection");
    server.until_told("expected hamr, got other bytes");
    for round in 0..60 {
        let mut stream = TcpStream::connect(server.at).expect("a connection");
        let mut bytes: Vec<u8> = (0..random() % 3000).map(|_| random() as u8).collect();
        match round % 3 {
            0 => bytes.splice(..0, *b"GET / HTTP/1.1\r\n").for_each(drop),
            // A record of TLS with something in it.
            1 => bytes.splice(..0, [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).for_each(drop),
            _ => {}
        }
        // An error is a connection that has ended by now, as it is to.
        let _ = stream.write_all(&bytes);
    }
    a_host_gets_in(&server);
    server.until_told("more connections");
    lines_are_rare(&server);
    assert!(!server.has_arrivals());
}

/// What one end sends to another goes through here, is kept, and one bit of it may be another.
fn relay(to: SocketAddr, flip: Option<usize>) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (at, kept) = (listener.local_addr().expect("a port"), Arc::<Mutex<Vec<u8>>>::default());
    let keeps = Arc::clone(&kept);
    std::thread::spawn(move || {
        let (mut host, _) = listener.accept().expect("a host");
        let mut server = TcpStream::connect(to).expect("a server");
        let (mut back_from, mut back_to) = (server.try_clone().expect("a socket"), host.try_clone().expect("a socket"));
        std::thread::spawn(move || std::io::copy(&mut back_from, &mut back_to));
        let mut some = [0; 4096];
        while let Ok(len @ 1..) = host.read(&mut some) {
            let mut kept = keeps.lock().expect("no panic");
            let start = kept.len();
            kept.extend_from_slice(&some[..len]);
            if let Some(byte) = flip.and_then(|flip| kept.get_mut(start..)?.get_mut(flip.checked_sub(start)?)) {
                *byte ^= 1;
            }
            if server.write_all(&kept[start..]).is_err() {
                return;
            }
        }
    });
    (at, kept)
}

#[test]
fn a_replayed_connection_is_refused() {
    let server = Server::start();
    let (at, kept) = relay(server.at, None);
    let opening = hamr_net::Opening::begin(at, &server.key, &hello(), bounds(), SILENCE).expect("a relay");
    let host = std::thread::spawn(move || opening.finish(LIMIT).expect("a connection"));
    let _other = server.arrival().grant(true, "shm", bounds()).expect("a host");
    drop(host.join().expect("it is granted"));
    let bytes = kept.lock().expect("no panic").clone();
    assert!(bytes.len() > 500, "a hello, a proof, and HELLO: {}", bytes.len());
    let mut again = TcpStream::connect(server.at).expect("a connection");
    again.write_all(&bytes).expect("a connection");
    let end = Instant::now() + LIMIT;
    while !is_ended(&mut again) {
        assert!(Instant::now() < end, "it is let stay");
    }
    server.until_told("refused: expected hamr, got other bytes");
    assert!(!server.has_arrivals());
}

#[test]
fn a_flipped_bit_is_an_error_and_never_a_value() {
    let server = Server::start();
    let (at, kept) = relay(server.at, None);
    let opening = hamr_net::Opening::begin(at, &server.key, &hello(), bounds(), SILENCE).expect("a relay");
    let host = std::thread::spawn(move || opening.finish(LIMIT).expect("a connection"));
    drop(server.arrival().grant(true, "shm", bounds()).expect("a host"));
    drop(host.join().expect("it is granted"));
    let len = kept.lock().expect("no panic").len();
    // From the hello to the proof and HELLO.
    for flip in (0..len).step_by(97) {
        let (at, _) = relay(server.at, Some(flip));
        let opening = hamr_net::Opening::begin(at, &server.key, &hello(), bounds(), SILENCE).expect("a relay");
        let failure = opening.finish(Duration::from_secs(1)).err();
        assert!(failure.is_some(), "byte {flip} of {len}");
        assert!(!server.has_arrivals(), "byte {flip} of {len}");
    }
}

#[test]
fn frames_of_a_host_with_the_key_are_no_better() {
    let server = Server::start();
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    for round in 0..60u32 {
        let mut host = opened(&server, &hello());
        let mut other = server.arrival().grant(true, "shm", bounds()).expect("a host");
        let mut host = host.finish().channel;
        let mut bytes = Vec::new();
        for _ in 0..40 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            bytes.extend(seed.to_le_bytes());
        }
        // A right head, of which the kind or the length is at an end.
        let len = [u32::MAX, 1 << 16, 0, 24][round as usize % 4];
        bytes.splice(..HEAD, [len.to_le_bytes(), [(round % 20) as u8, 0, 0, 0]].concat()).for_each(drop);
        host.push_raw(&bytes).expect("it is there");
        // Says what is wrong, or waits for the rest of a frame which fits.
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end {
            // Not the host's, so it is told why by the door's user.
            if let Err(e) = other.receive() {
                assert!(e.to_string().starts_with("expected "), "{e}");
                break;
            }
            other.wait(Duration::from_millis(10));
        }
    }
}
