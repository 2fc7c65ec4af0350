//! Long puts and gets. HAM-Offload's failures over TCP (a put that waits for an acknowledgement, gets that meet results,
//! a get that ends before its bytes) are named here.

use super::common::{self, LIMIT, Server, bounds, hello};
use hamr_net::frame::{End, Frame, Hello, Phase, Purpose, Slot};
use hamr_net::{Broken, Channel, Memory, Transfers, serve_transfers};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const HEAP: u64 = 1 << 16;

/// A heap that is a vector.
struct Vector {
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Memory for Vector {
    fn write(&mut self, off: u64, bytes: &[u8]) {
        let at = (off - HEAP) as usize;
        self.bytes.lock().expect("no panic")[at..at + bytes.len()].copy_from_slice(bytes);
    }
    fn read(&mut self, off: u64, to: &mut [u8]) {
        let at = (off - HEAP) as usize;
        to.copy_from_slice(&self.bytes.lock().expect("no panic")[at..at + to.len()]);
    }
    fn fence(&mut self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}

type Heap = Arc<Mutex<Vec<u8>>>;

fn heap() -> Heap {
    Arc::new(Mutex::new(vec![0; (bounds().heap.end - HEAP) as usize]))
}

fn serving(mut channel: Channel, heap: &Heap) -> JoinHandle<Broken> {
    let mut memory = Vector { bytes: Arc::clone(heap) };
    std::thread::spawn(move || match serve_transfers(&mut channel, &mut memory) {
        Err(why) => {
            channel.bye(&why.to_string());
            why
        }
        Ok(never) => match never {},
    })
}

/// Over TLS.
fn far(server: &Server, heap: &Heap) -> (Transfers, JoinHandle<Broken>) {
    let mut host = common::opened(server, &Hello { purpose: Purpose::Transfers, ..hello() });
    let channel = server.arrival().grant(true, "shm", bounds()).expect("a host");
    (Transfers::new(host.finish().channel), serving(channel, heap))
}

/// Over a socket pair, and the server's end of it.
fn pair() -> (Transfers, Channel) {
    let (a, b) = UnixStream::pair().expect("a socket pair");
    let [a, b] = [(a, End::Host), (b, End::Server)].map(|(socket, end)| {
        socket.set_nonblocking(true).expect("a socket");
        let mut channel = Channel::new(socket.into(), end, None, LIMIT).expect("an end");
        channel.begin(Phase::Transfers, bounds());
        channel
    });
    (Transfers::new(a), b)
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed * 7 + (i >> 8)) as u8).collect()
}

#[test]
fn what_was_put_is_got() {
    let (server, heap) = (Server::start(), heap());
    let (mut transfers, serves) = far(&server, &heap);
    for (i, len) in [0, 1, 7, 8, 4095, 65_535, 65_536, 65_537, 900_001].into_iter().enumerate() {
        let (bytes, off) = (pattern(len, i), HEAP + i as u64);
        transfers.put(off, &bytes, LIMIT).expect("it is there");
        assert_eq!(heap.lock().expect("no panic")[i..i + len], bytes, "{len} bytes");
        let mut back = vec![0; len];
        transfers.get(off, &mut back, LIMIT).expect("it is there");
        assert_eq!(back, bytes);
    }
    drop(transfers);
    assert_eq!(serves.join().expect("no panic"), Broken::Closed);
}

#[test]
fn small_puts_do_not_wait_for_acknowledgements() {
    // HAM: 44 ms each, by Nagle's algorithm and a delayed acknowledgement.
    let (server, heap) = (Server::start(), heap());
    let (mut transfers, _serves) = far(&server, &heap);
    let begin = Instant::now();
    for round in 0..200 {
        transfers.put(HEAP, &[1; 4096][..8 << (round % 10)], LIMIT).expect("it is there");
    }
    // At 44 ms it is nine seconds; a busy machine makes less of one.
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
}

#[test]
fn small_gets_beside_messages_are_their_own_bytes() {
    // HAM: overlapping reads and writes of messages and data on one socket.
    let (server, heap) = (Server::start(), heap());
    let (mut transfers, _serves) = far(&server, &heap);
    let mut host = common::opened(&server, &hello());
    let mut other = server.arrival().grant(true, "shm", bounds()).expect("a host");
    let mut host = host.finish().channel;
    let gets = std::thread::spawn(move || {
        for round in 0..3000usize {
            let bytes = pattern(1 + round % 4096, round);
            let off = HEAP + (round % 1000) as u64;
            transfers.put(off, &bytes, LIMIT).expect("it is there");
            let mut back = vec![0; bytes.len()];
            transfers.get(off, &mut back, LIMIT).expect("it is there");
            assert!(back == bytes, "round {round}");
        }
    });
    let mut word = 0;
    while !gets.is_finished() {
        word += 1;
        let bytes = pattern(word as usize % 3000, 1);
        let slot = Slot {
            queue: 1,
            of_host: false,
            header_alone: false,
            slot: 0,
            hdr: 2,
            word,
            payload: [word.into(); 6],
            second: [0; 8],
            bytes: &bytes,
        };
        host.push(&Frame::Slot(slot)).expect("it fits");
        common::receive(&mut host, &mut other, |frame| assert!(*frame == Frame::Slot(slot), "{word}"));
    }
    gets.join().expect("each get has its bytes");
}

#[test]
fn a_get_that_ends_at_any_byte_is_an_error() {
    // HAM: a get completes when its data arrives, before its message is read.
    let whole = [&[8, 0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[9; 40]].concat();
    for cut in 0..=whole.len() {
        let (mut transfers, mut other) = pair();
        let mut sent = 0;
        while sent < cut {
            sent += other.push_raw(&whole[sent..cut]).expect("room");
        }
        other.end();
        let mut back = [0; 40];
        let got = transfers.get(HEAP, &mut back, LIMIT);
        // What is whole counts, and only that.
        match cut == whole.len() {
            true => assert_eq!((got, back), (Ok(()), [9; 40])),
            false => assert_eq!(got, Err(Broken::Closed), "{cut} bytes"),
        }
    }
}

#[test]
fn a_transfer_has_its_callers_limit() {
    let (server, limit) = (Server::start(), Duration::from_millis(100));
    for is_put in [true, false] {
        let mut host = common::opened(&server, &Hello { purpose: Purpose::Transfers, ..hello() });
        // It is there, and does nothing.
        let _channel = server.arrival().grant(true, "shm", bounds()).expect("a host");
        let mut transfers = Transfers::new(host.finish().channel);
        let (begin, mut bytes) = (Instant::now(), vec![1; 900_000]);
        let ended = match is_put {
            true => transfers.put(HEAP, &bytes, limit),
            false => transfers.get(HEAP, &mut bytes, limit),
        };
        assert_eq!(ended, Err(Broken::Silent(limit)));
        assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
        // Half a transfer is on its way, so nothing more is.
        assert!(transfers.put(HEAP, &[1], limit).is_err());
    }
}

#[test]
fn a_socket_that_is_shut_ends_the_transfer_of_another_thread() {
    let (mut transfers, _other) = pair();
    let line = transfers.channel().line();
    let begin = Instant::now();
    let waits = std::thread::spawn(move || transfers.get(HEAP, &mut [0; 100], Duration::from_secs(600)));
    std::thread::sleep(Duration::from_millis(20));
    line.end();
    assert_eq!(waits.join().expect("no panic"), Err(Broken::Closed));
    assert!(begin.elapsed() < LIMIT);
}

#[test]
fn a_transfer_outside_of_the_heap_touches_nothing() {
    let (server, heap) = (Server::start(), heap());
    for (off, len) in [(HEAP - 1, 8), (0, 8), (bounds().heap.end - 7, 8)] {
        let (mut transfers, serves) = far(&server, &heap);
        transfers.put(off, &vec![1; len], LIMIT).expect_err("not the host's");
        let why = serves.join().expect("no panic").to_string();
        assert!(
            why.starts_with("expected a range of PUT inside of the heap, 0x10000 to 0x100000, got 8 bytes at"),
            "{why}"
        );
    }
    assert!(heap.lock().expect("no panic").iter().all(|byte| *byte == 0));
}
