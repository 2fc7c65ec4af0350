//! Hosts and servers that have the key and mean harm: what they say goes through a program that has the key as well, and says
//! something else now and then.

use hamr::{CallOptions, Node, Options};
use hamr_net::frame::{Bounds, Frame, Hello, Purpose, Transfer};
use hamr_net::key::Key;
use hamr_net::{Arrival, Broken, Channel, Door, Opening};
use hamr_tests::far::{key, open, serve};
use hamr_tests::{devices, processes};
use hamr_tests_kernels::{append, echo};
use rustix::event::{PollFd, Timespec, poll};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);
const WINDOW: u64 = 1 << 30;

/// Numbers that look random, and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Another value of so many bits: one bit of it is, or it is at an end.
    fn other(&mut self, value: u64, bits: u32) -> u64 {
        let most = u64::MAX >> (64 - bits);
        match self.next() % 6 {
            0 => 0,
            1 => most,
            2 => self.next() & most,
            _ => value ^ (1 << (self.next() % u64::from(bits))),
        }
    }

    fn other_32(&mut self, value: u32) -> u32 {
        self.other(value.into(), 32) as u32
    }

    fn other_bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        match self.next() % 4 {
            0 => bytes.truncate((self.next() % (bytes.len() as u64 + 1)) as usize),
            1 => bytes.extend((0..self.next() % 300).map(|n| n as u8)),
            _ => {
                for _ in 0..=self.next() % 3 {
                    let at = self.next() as usize % bytes.len().max(1);
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = self.other((*byte).into(), 8) as u8;
                    }
                }
            }
        }
        bytes
    }

    /// Says something else than this frame.
    fn lie(&mut self, frame: &Frame<'_>, to: &mut Channel) -> Result<(), Broken> {
        match self.next() % 12 {
            // Nothing, twice the same, bytes that are none.
            0 => return Ok(()),
            1 => return Ok([frame, frame].into_iter().try_for_each(|frame| to.push(frame))?),
            2 => {
                let junk: Vec<u8> = (0..1 + self.next() % 100).map(|_| self.next() as u8).collect();
                return to.push_raw(&junk).map(drop);
            }
            3 => return Ok(to.push(&Frame::Renew)?),
            4 => return Ok(to.push(&Frame::Renewed)?),
            5 => return Ok(to.push(&Frame::Ended("it says so"))?),
            _ => {}
        }
        let bytes;
        let other = match *frame {
            Frame::Slot(mut slot) => {
                match self.next() % 9 {
                    0 => slot.slot = self.other_32(slot.slot),
                    1 => slot.queue = self.other(slot.queue.into(), 15) as _,
                    2 => slot.of_host = !slot.of_host,
                    3 => slot.header_alone = !slot.header_alone,
                    4 => slot.hdr = self.other_32(slot.hdr),
                    5 => slot.word = self.other_32(slot.word),
                    6 => slot.payload[self.next() as usize % 6] = self.next(),
                    7 => slot.second[self.next() as usize % 8] = self.next(),
                    _ => {
                        bytes = self.other_bytes(slot.bytes);
                        slot.bytes = &bytes;
                    }
                }
                Frame::Slot(slot)
            }
            Frame::State { mut acknowledged, mut state, bytes: said, .. } => {
                match self.next() % 3 {
                    0 => acknowledged = self.other_32(acknowledged),
                    1 => state = self.other(state.into(), 4) as u32,
                    _ => {}
                }
                bytes = self.other_bytes(said);
                Frame::State { acknowledged, state, bytes: &bytes }
            }
            Frame::Offer(said) => {
                bytes = self.other_bytes(said);
                Frame::Offer(&bytes)
            }
            Frame::Word { off, value } => match self.next() % 2 {
                0 => Frame::Word { off: self.other_32(off), value },
                _ => Frame::Word { off, value: self.other_32(value) },
            },
            Frame::Look { off, len } => Frame::Look { off: self.other(off, 64), len: self.other_32(len) },
            Frame::Seen { off, bytes: said } => {
                bytes = self.other_bytes(said);
                Frame::Seen { off, bytes: &bytes }
            }
            Frame::Put(Transfer { off, total }) => Frame::Put(Transfer { off: self.other(off, 64), total }),
            Frame::Get(Transfer { off, total }) => Frame::Get(Transfer { off, total: self.other(total, 64) }),
            Frame::Done { .. } => Frame::Done { status: self.next() as u32 },
            ref same => return Ok(to.push(same)?),
        };
        // What cannot even be said is not.
        Ok(to.push(&other).or_else(|_| to.push(frame))?)
    }
}

/// Of so many frames of the host, or of the server, one is another; 0: none.
#[derive(Default)]
struct Harm {
    of_host: AtomicU64,
    of_server: AtomicU64,
}

impl Harm {
    fn set(&self, of_host: u64, of_server: u64) {
        self.of_host.store(of_host, Ordering::Relaxed);
        self.of_server.store(of_server, Ordering::Relaxed);
    }
}

/// Carries one connection until an end of it ends.
fn carry([mut host, mut server]: [Channel; 2], harm: &Harm, mut numbers: Numbers) -> Result<(), Broken> {
    // Bytes of a transfer behind a frame: of a PUT, and of a GET that is done.
    let (mut put, mut get, mut wanted) = (0, 0, 0);
    let mut some = vec![0; 1 << 16];
    loop {
        let mut is_idle = true;
        for is_host in [true, false] {
            let (from, to, one_in, raw) = match is_host {
                true => (&mut host, &mut server, &harm.of_host, &mut put),
                false => (&mut server, &mut host, &harm.of_server, &mut get),
            };
            if !to.flush()? {
                continue;
            }
            if *raw != 0 {
                let most = some.len().min(usize::try_from(*raw).unwrap_or(usize::MAX));
                let len = from.take_raw(&mut some[..most])?;
                let mut sent = 0;
                while sent < len {
                    sent += to.push_raw(&some[sent..len])?;
                    to.wait(Duration::from_millis(1));
                    to.flush()?;
                }
                *raw -= len as u64;
                is_idle &= len == 0;
                continue;
            }
            let Some(frame) = from.receive()? else { continue };
            is_idle = false;
            match frame {
                Frame::Put(Transfer { total, .. }) => put = total,
                Frame::Get(Transfer { total, .. }) => wanted = total,
                Frame::Done { status: 0 } => get = std::mem::take(&mut wanted),
                _ => {}
            }
            match one_in.load(Ordering::Relaxed) {
                one_in @ 1.. if numbers.next().is_multiple_of(one_in) => numbers.lie(&frame, to)?,
                _ => to.push(&frame)?,
            }
            to.flush()?;
        }
        if is_idle {
            let ends = [(host.line(), host.interest()), (server.line(), server.interest())];
            let mut fds =
                ends.each_ref().map(|(line, flags)| PollFd::new(&**line.descriptor().expect("a socket"), *flags));
            let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 }));
        }
    }
}

fn both(arrival: Arrival, server: SocketAddr, key: &Key, silence: Duration) -> Option<[Channel; 2]> {
    let Arrival { abi, link, attempt, purpose, window, .. } = arrival;
    let hello = Hello { abi: (abi, abi), link, attempt, purpose, window, name: "", host: "between" };
    // Whatever is said goes through.
    let heap = if purpose == Purpose::Messages { 0..0 } else { 0..WINDOW };
    let bounds = Bounds { window: WINDOW, heap, longest: WINDOW as usize };
    let opened = Opening::begin(server, key, &hello, bounds.clone(), silence).ok()?.finish(LIMIT).ok()?;
    let bounds = Bounds { window, ..bounds };
    let host = arrival.grant(opened.doorbell, &opened.kind, bounds).ok()?;
    Some([host, opened.channel])
}

/// Where hosts connect to, which that server sees instead of them.
fn between(server: SocketAddr, silence: Duration, seed: u64) -> (SocketAddr, Arc<Harm>) {
    let of = Key::read(&key()).expect("a key");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut door = Door::open(any, |_| Ok::<_, rustix::io::Errno>(of.clone()), silence).expect("an address");
    let (at, harm) = (door.address(), Arc::<Harm>::default());
    let its = harm.clone();
    std::thread::spawn(move || {
        for n in 1.. {
            let Some(arrival) = door.next(|line| println!("between: {line}")) else { return };
            let (key, harm, numbers) = (of.clone(), its.clone(), Numbers(seed.wrapping_mul(n) | 1));
            std::thread::spawn(move || {
                let is_messages = arrival.purpose == Purpose::Messages;
                let Some(ends) = both(arrival, server, &key, silence) else { return };
                if let Err(why) = carry(ends, &harm, numbers) {
                    println!("between: {} ended: {why}", if is_messages { "messages" } else { "transfers" });
                }
            });
        }
    });
    (at, harm)
}

fn options() -> Options {
    let deadline = Some(Duration::from_secs(1));
    Options { heap: 1 << 20, deadline, silence: Duration::from_secs(1), print_warnings: false, ..Options::default() }
}

/// A bit of everything. What it gives is not asked; that it ends is.
fn use_it(node: &Node) {
    let begin = Instant::now();
    let buffer = node.buffer(&[0u64; 512]);
    for n in 0..20u64 {
        let _ = node.sync(echo::with(n));
        let calls: Vec<_> = (0..8).filter_map(|n| node.offload(echo::with(n)).ok()).collect();
        calls.into_iter().for_each(|call| drop(call.wait()));
        if let Ok(buffer) = &buffer {
            let _ = node.sync_with(append::with(buffer.ptr().wire().words(), n), CallOptions::default());
            let _ = (buffer.write(&[n; 512]), buffer.read());
        }
        let _ = (node.ping(), node.tasks(), node.logs().map(|mut logs| logs.poll()));
        if begin.elapsed() > Duration::from_secs(3) {
            break;
        }
    }
    drop(buffer);
    assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
}

/// An error is one of the other connection, whose end this one has not seen yet.
fn works(node: &Node) -> Result<(), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    for n in 0..50u64 {
        assert_eq!(node.sync(echo::with(n)).map_err(|e| text(&e))?, n);
    }
    let buffer = node.buffer(&[7u64; 512]).map_err(|e| text(&e))?;
    assert_eq!(buffer.read().map_err(|e| text(&e))?, [7; 512]);
    Ok(())
}

fn rounds() -> u64 {
    std::env::var("HAMR_SOAK_LIES").map_or(12, |count| count.parse().expect("a number"))
}

/// Whatever it says, the server is there for the next one, and its memory does not grow.
#[test]
fn a_host_that_lies_disturbs_no_other() {
    let server = serve("shm", &options());
    let mut before = 0;
    for seed in 0..rounds() {
        let (at, harm) = between(server, options().silence, 0x9E37_79B9 + seed);
        let node = open(at, devices::image("shm"), options());
        harm.set([3, 10, 40][seed as usize % 3], 0);
        use_it(&node);
        drop(node);
        let begin = Instant::now();
        let next = loop {
            // Until the server has seen the end of the other one, and started its device again.
            match devices::runtime().open_with(&format!("tcp:{server}"), devices::image("shm"), options()) {
                Ok(node) => break node,
                Err(e) => assert!(begin.elapsed() < LIMIT, "{seed}: {e}"),
            }
        };
        works(&next).expect("nothing is between");
        if seed == 3 {
            before = processes::resident();
        }
    }
    let grown = processes::resident().saturating_sub(before);
    println!("{grown} bytes more");
    assert!(grown < 64 << 20, "{grown} bytes");
}

/// Whatever it says, each call of its host ends, and once it says the truth again they end well.
#[test]
fn a_server_that_lies_holds_nobody() {
    let server = serve("shm", &options());
    for seed in 0..rounds() {
        let (at, harm) = between(server, options().silence, 0x1234_5677 + seed);
        let node = open(at, devices::image("shm"), options());
        harm.set(0, [3, 10, 40][seed as usize % 3]);
        use_it(&node);
        harm.set(0, 0);
        let begin = Instant::now();
        while let Err(why) = works(&node) {
            assert!(begin.elapsed() < LIMIT, "{seed}: {why}");
            // What it was told of the epoch is wrong for good.
            let _ = (node.restart(), node.wait_until_back(Duration::from_secs(1)));
        }
    }
}
