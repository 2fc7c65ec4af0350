//! A server's door with a thread that tends it.

use hamr_net::frame::{Bounds, Frame, Hello, Purpose};
use hamr_net::key::Key;
use hamr_net::{Arrival, Broken, Channel, Closer, Door, Opened, Opening};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) const LIMIT: Duration = Duration::from_secs(20);
pub(crate) const SILENCE: Duration = Duration::from_secs(5);

pub(crate) fn version(minor: u16) -> hamr_shared_abi::version::AbiVersion {
    hamr_shared_abi::version::AbiVersion { major: 0, minor }
}

pub(crate) fn hello() -> Hello<'static> {
    let abi = (version(1), version(5));
    Hello { abi, link: [1; 16], attempt: 1, purpose: Purpose::Messages, window: 1 << 20, name: "board", host: "desk" }
}

pub(crate) fn bounds() -> Bounds {
    Bounds { window: 1 << 20, heap: 1 << 16..1 << 20, longest: 200_000 }
}

pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    pub(crate) key: Key,
    arrivals: Receiver<Arrival>,
    pub(crate) log: Arc<Mutex<Vec<(Instant, String)>>>,
    closer: Closer,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let key = Key::random().expect("a key");
        let mut door = Door::open(
            "127.0.0.1:0".parse().expect("an address"),
            |_| Ok::<_, rustix::io::Errno>(key.clone()),
            SILENCE,
        )
        .expect("a port");
        let (at, closer, log) = (door.address(), door.closer(), Arc::<Mutex<Vec<_>>>::default());
        let (to, arrivals) = channel();
        let lines = Arc::clone(&log);
        let thread = std::thread::spawn(move || {
            let tell = |line: &str| lines.lock().expect("no panic").push((Instant::now(), line.to_owned()));
            while let Some(arrival) = door.next(tell) {
                if to.send(arrival).is_err() {
                    return;
                }
            }
        });
        Self { at, key, arrivals, log, closer, thread: Some(thread) }
    }

    pub(crate) fn arrival(&self) -> Arrival {
        self.arrivals.recv_timeout(LIMIT).expect("a host arrives")
    }

    pub(crate) fn has_arrivals(&self) -> bool {
        self.arrivals.try_recv().is_ok()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.log.lock().expect("no panic").iter().map(|(_, line)| line.clone()).collect()
    }

    pub(crate) fn until_told(&self, words: &str) {
        let end = Instant::now() + LIMIT;
        while !self.lines().iter().any(|line| line.contains(words)) {
            assert!(Instant::now() < end, "`{words}` in {:?}", self.lines());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.closer.close();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok(), "the door's thread");
        }
    }
}

/// A host's opening on a thread of its own.
pub(crate) struct Host(Option<JoinHandle<Opened>>);

impl Host {
    pub(crate) fn finish(&mut self) -> Opened {
        self.0.take().expect("once").join().expect("it is granted")
    }
}

pub(crate) fn open_with(server: &Server, key: &Key, hello: &Hello<'_>) -> Opening {
    Opening::begin(server.at, key, hello, bounds(), SILENCE).expect("a server")
}

pub(crate) fn opened(server: &Server, hello: &Hello<'_>) -> Host {
    let opening = open_with(server, &server.key, hello);
    Host(Some(std::thread::spawn(move || opening.finish(LIMIT).expect("a connection"))))
}

/// Flushes one end until the other has a frame.
pub(crate) fn receive(from: &mut Channel, to: &mut Channel, take: impl FnOnce(&Frame<'_>)) {
    let end = Instant::now() + LIMIT;
    loop {
        let is_sent = from.flush().expect("it is there");
        match to.receive().expect("it is there") {
            Some(frame) => return take(&frame),
            None if is_sent => to.wait(Duration::from_millis(20)),
            None => {}
        }
        assert!(Instant::now() < end, "no frame comes");
    }
}

/// Flushes one end until the other ends.
pub(crate) fn ends(from: &mut Channel, to: &mut Channel) -> Broken {
    let end = Instant::now() + LIMIT;
    loop {
        // An error is the end that is waited for.
        let _ = from.flush();
        match to.receive() {
            Err(e) => return e,
            Ok(Some(_)) => {}
            Ok(None) => to.wait(Duration::from_millis(20)),
        }
        assert!(Instant::now() < end, "the connection does not end");
    }
}

/// Reads until the end.
pub(crate) fn closed(channel: &mut Channel) -> Broken {
    let end = Instant::now() + LIMIT;
    loop {
        match channel.receive() {
            Err(e) => return e,
            Ok(_) => channel.wait(Duration::from_millis(20)),
        }
        assert!(Instant::now() < end, "the connection does not end");
    }
}
