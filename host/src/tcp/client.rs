//! The host's end: a device behind connections of any kind, and its way back to it.

use crate::Error;
use crate::launcher::LaunchRequest;
use crate::link::{Link, Protocol};
use crate::mirror::{ChannelSide, MirrorLink, TransferHeap};
use hamr_comm::abi::version::AbiVersion;
use hamr_net::frame::{Bounds, Hello, MOST_TEXT, Purpose};
use hamr_net::key::KeyError;
use hamr_net::{Channel, Failure, Opened, link_id};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two attempts to find a server again.
const PAUSE: Duration = Duration::from_millis(100);

/// One way to a server.
pub trait Way: Send + Sync {
    /// Where it leads, for people.
    fn name(&self) -> String;
    /// Opens a connection, within this limit.
    ///
    /// # Errors
    /// There is none.
    fn open(&self, hello: &Hello<'_>, bounds: Bounds, limit: Duration) -> Result<Opened, Unconnected>;
}

/// The link to the device `name` (any: empty) at the first of these ways that has it, within `limit`. Its kind begins with `kind`.
///
/// # Errors
/// No way leads to it.
pub fn link_over<W: Way + 'static>(
    ways: Vec<W>,
    kind: &str,
    name: &str,
    request: &LaunchRequest<'_>,
    limit: Duration,
) -> Result<Box<dyn Link>, Error> {
    let &LaunchRequest { device, window_len, heap_off, start_deadline, .. } = request;
    let fail = |why: String| Error::Launch { device: device.into(), why };
    let (link, host) = (link_id().map_err(|e| fail(e.to_string()))?, own_name());
    // What the server says of the window lies outside of its heap.
    let bounds = Bounds { window: window_len, heap: heap_off..window_len, longest: heap_off as usize };
    let identity = Mutex::new(Identity { link, attempts: 0, is_other: false });
    let server = Server { ways, identity, name: name.into(), host, bounds };
    let Connected { at, messages, transfers } = server.connect(limit).map_err(|Unconnected { why, .. }| fail(why))?;
    // The kind is the server's device's, which the first connection tells.
    let (kind, remote) = (format!("{kind}-{}", messages.kind), at);
    let heap = Arc::new(TransferHeap::new(transfers, start_deadline));
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
    Ok(Box::new(MirrorLink::start((&kind, &remote, Protocol::Message), window_len, far, heap, start_deadline)?))
}

/// The name of this host, for people.
fn own_name() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    name.chars().filter(|c| !c.is_control()).take(MOST_TEXT / 4).collect()
}

/// Where a device is.
struct Server<W> {
    /// Of its machine, the best first.
    ways: Vec<W>,
    identity: Mutex<Identity>,
    /// Which device.
    name: String,
    host: String,
    bounds: Bounds,
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
    at: String,
    messages: Opened,
    transfers: Channel,
}

/// Why there is no connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unconnected {
    why: String,
    /// A later attempt may do better.
    may_pass: bool,
    /// One as a new host does.
    is_other: bool,
}

impl Unconnected {
    /// A later attempt may do better where this says so, too.
    pub(super) fn or_pass(self, may_pass: bool) -> Self {
        Self { may_pass: self.may_pass || may_pass, ..self }
    }
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

impl<W: Way> Server<W> {
    fn identity(&self) -> MutexGuard<'_, Identity> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To the first of the addresses that has it. Where none has, one that will not later is told first.
    fn connect(&self, limit: Duration) -> Result<Connected, Unconnected> {
        let begin = Instant::now();
        let mut told: Option<Unconnected> = None;
        let is_new = self.identity().attempts == 0;
        for (way, left) in self.ways.iter().zip((1..=self.ways.len() as u32).rev()) {
            // Also a connection that has failed may have been granted; but who connects for the first time has never been there.
            let Identity { link, attempts, .. } = {
                let mut identity = self.identity();
                identity.attempts = if is_new { 1 } else { identity.attempts + 1 };
                *identity
            };
            match self.connect_to(way, link, attempts, limit.saturating_sub(begin.elapsed()) / left) {
                Ok(connected) => return Ok(connected),
                // What will not pass says more than what may.
                Err(e) if told.as_ref().is_none_or(|told| told.may_pass && !e.may_pass) => told = Some(e),
                Err(_) => {}
            }
        }
        let none = || Unconnected { why: "expected an address, got none".into(), may_pass: false, is_other: false };
        Err(told.unwrap_or_else(none))
    }

    fn connect_to(&self, way: &W, link: [u8; 16], attempt: u64, limit: Duration) -> Result<Connected, Unconnected> {
        let begin = Instant::now();
        let open = |purpose| {
            let (abi, window) = ((AbiVersion::MIN, AbiVersion::CURRENT), self.bounds.window);
            let hello = Hello { abi, link, attempt, purpose, window, name: &self.name, host: &self.host };
            way.open(&hello, self.bounds.clone(), limit.saturating_sub(begin.elapsed()))
        };
        let (messages, transfers) = (open(Purpose::Messages)?, open(Purpose::Transfers)?.channel);
        Ok(Connected { at: way.name(), messages, transfers })
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
