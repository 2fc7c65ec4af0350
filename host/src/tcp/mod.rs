//! Devices on other machines (docs/network.md): `tcp:HOST:PORT`, and what a keeper has of hosts there.

mod entrance;
mod hosts;

pub(crate) use entrance::Entrance;
pub(crate) use hosts::{FarHosts, Told};

use crate::launcher::{LaunchRequest, Launcher};
use crate::link::{Link, Protocol};
use crate::mirror::{ChannelSide, MirrorLink, TransferHeap};
use crate::{Error, Target};
use hamr_comm::abi::version::AbiVersion;
use hamr_net::frame::{Bounds, Hello, MOST_TEXT, Purpose};
use hamr_net::key::{Key, KeyError};
use hamr_net::{Channel, Failure, Opened, Opening, link_id, resolve};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two attempts to find a server again.
const PAUSE: Duration = Duration::from_millis(100);

/// Devices that a server on this or another machine gives to its hosts: `tcp` in every runtime.
#[derive(Clone, Default, Debug)]
pub struct TcpLauncher {
    key: Option<PathBuf>,
}

impl TcpLauncher {
    /// With the key of this file. By default that of `HAMR_KEY`, or that which a server of this user has left, which
    /// servers at loopback addresses do.
    pub fn with_key(file: PathBuf) -> Self {
        Self { key: Some(file) }
    }

    fn key_file(&self) -> Option<PathBuf> {
        self.key.clone().or_else(key_in_environment)
    }
}

/// The file of `HAMR_KEY`. An empty variable sets nothing.
pub(crate) fn key_in_environment() -> Option<PathBuf> {
    std::env::var_os("HAMR_KEY").filter(|file| !file.is_empty()).map(PathBuf::from)
}

/// The name of this host, for people.
fn own_name() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    name.chars().filter(|c| !c.is_control()).take(MOST_TEXT / 4).collect()
}

impl Launcher for TcpLauncher {
    fn describe(&self) -> String {
        "a device that `serve --listen` gives to hosts on any machine: tcp:HOST:PORT".into()
    }

    fn protocols(&self) -> &'static [Protocol] {
        &[Protocol::Message]
    }

    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        let has_port =
            argument.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if has_port {
            return Ok(None);
        }
        Err(Error::UnknownDevice { name: format!("tcp:{argument}"), known: "tcp:HOST:PORT".into() })
    }

    fn has_window(&self) -> bool {
        true
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let &LaunchRequest { device, argument, window_len, heap_off, start_deadline: limit, silence, .. } = request;
        let fail = |why: String| Error::Launch { device: device.into(), why };
        let begin = Instant::now();
        let addresses = resolve(argument, limit).map_err(|e| fail(e.to_string()))?;
        let (key, link, host) = (self.key_file(), link_id().map_err(|e| fail(e.to_string()))?, own_name());
        // What the server says of the window lies outside of its heap.
        let bounds = Bounds { window: window_len, heap: heap_off..window_len, longest: heap_off as usize };
        let identity = Mutex::new(Identity { link, attempts: 0, is_other: false });
        let server = Server { addresses, key, identity, host, bounds, silence };
        let connected = server.connect(limit.saturating_sub(begin.elapsed()));
        let Connected { at, messages, transfers } = connected.map_err(|Unconnected { why, .. }| fail(why))?;
        // The kind is the server's device's, which the first connection tells.
        let (kind, remote) = (format!("tcp-{}", messages.kind), at.to_string());
        let heap = Arc::new(TransferHeap::new(transfers, limit));
        let (first, theirs, peer) = (Mutex::new(Some(messages)), heap.clone(), remote.clone());
        let far = move |limit| {
            let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let messages = match first {
                Some(messages) => messages,
                None => {
                    let (again, is_other) = server.connect_again(limit).map_err(|Unconnected { why, .. }| why)?;
                    theirs.replace(again.transfers, is_other);
                    again.messages
                }
            };
            Ok(ChannelSide::new(messages.channel, peer.clone()))
        };
        Ok(Box::new(MirrorLink::start((&kind, &remote, Protocol::Message), window_len, far, heap, limit)?))
    }
}

/// Where a device is.
struct Server {
    /// Of its machine, the best first.
    addresses: Vec<SocketAddr>,
    key: Option<PathBuf>,
    identity: Mutex<Identity>,
    host: String,
    bounds: Bounds,
    silence: Duration,
}

/// Which host this is.
#[derive(Clone, Copy)]
struct Identity {
    /// This link, of all hosts' links.
    link: [u8; 16],
    /// How often it has connected.
    attempts: u64,
    /// It is a new host of other memory, and nobody was told.
    is_other: bool,
}

/// A connection for messages, and one for transfers.
struct Connected {
    at: SocketAddr,
    messages: Opened,
    transfers: Channel,
}

/// Why there is none.
struct Unconnected {
    why: String,
    /// A later attempt may do better.
    may_pass: bool,
    /// One as a new host does.
    is_other: bool,
}

impl From<Failure> for Unconnected {
    fn from(e: Failure) -> Self {
        Self { may_pass: e.may_pass(), is_other: matches!(e, Failure::OtherMemory(_)), why: e.to_string() }
    }
}

impl From<KeyError> for Unconnected {
    fn from(e: KeyError) -> Self {
        // A server that is about to start leaves one.
        Self { may_pass: matches!(e, KeyError::Absent { .. }), is_other: false, why: e.to_string() }
    }
}

impl Server {
    fn identity(&self) -> MutexGuard<'_, Identity> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To the first of the addresses that has it. Where none has, one that will not later is told first.
    fn connect(&self, limit: Duration) -> Result<Connected, Unconnected> {
        let begin = Instant::now();
        let mut told: Option<Unconnected> = None;
        let is_new = self.identity().attempts == 0;
        for (at, left) in self.addresses.iter().zip((1..=self.addresses.len() as u32).rev()) {
            // Also a connection that has failed may have been granted; but who connects for the first time has never been there.
            let Identity { link, attempts, .. } = {
                let mut identity = self.identity();
                identity.attempts = if is_new { 1 } else { identity.attempts + 1 };
                *identity
            };
            match self.connect_to(*at, link, attempts, limit.saturating_sub(begin.elapsed()) / left) {
                Ok(connected) => return Ok(connected),
                // What will not pass says more than what may.
                Err(e) if told.as_ref().is_none_or(|told| told.may_pass && !e.may_pass) => told = Some(e),
                Err(_) => {}
            }
        }
        let none = || Unconnected { why: "expected an address, got none".into(), may_pass: false, is_other: false };
        Err(told.unwrap_or_else(none))
    }

    fn connect_to(
        &self,
        at: SocketAddr,
        link: [u8; 16],
        attempt: u64,
        limit: Duration,
    ) -> Result<Connected, Unconnected> {
        let (begin, key) = (Instant::now(), Key::of_host(at, self.key.as_deref())?);
        // A server that leaves a key may just have left another one.
        let is_left = self.key.is_none();
        let open = |purpose| {
            let (abi, window) = ((AbiVersion::MIN, AbiVersion::CURRENT), self.bounds.window);
            let hello = Hello { abi, link, attempt, purpose, window, name: "", host: &self.host };
            let left = limit.saturating_sub(begin.elapsed());
            Opening::begin(at, &key, &hello, self.bounds.clone(), self.silence)?.finish(left)
        };
        let both = open(Purpose::Messages).and_then(|messages| Ok((messages, open(Purpose::Transfers)?.channel)));
        let (messages, transfers) = both.map_err(|e| {
            let is_of_key = matches!(e, Failure::Key(_));
            let e = Unconnected::from(e);
            Unconnected { may_pass: e.may_pass || is_of_key && is_left, ..e }
        })?;
        Ok(Connected { at, messages, transfers })
    }

    /// The same of a server that was lost, and may be about to start; and whether its memory is another one.
    fn connect_again(&self, limit: Duration) -> Result<(Connected, bool), Unconnected> {
        let begin = Instant::now();
        loop {
            let left = limit.saturating_sub(begin.elapsed());
            match self.connect(left) {
                Err(e) if e.is_other && self.identity().attempts > 1 => {
                    let link = link_id().map_err(Unconnected::from)?;
                    *self.identity() = Identity { link, attempts: 0, is_other: true };
                }
                Err(e) if e.may_pass && left > PAUSE => std::thread::sleep(PAUSE),
                outcome => return outcome.map(|to| (to, std::mem::take(&mut self.identity().is_other))),
            }
        }
    }
}
