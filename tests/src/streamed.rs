//! Devices at the other end of two connections, each a pair of sockets: one for messages, one for transfers. Threads of
//! this program serve them.

use crate::mirrored::{Device, Far, once};
use hamr::link::{Link, Protocol};
use hamr::mirror::{ChannelSide, MirrorLink, Served, ServedHeap, TransferHeap, serve};
use hamr::{Error, LaunchRequest, Launcher, Target};
use hamr_net::frame::{Bounds, End, Phase};
use hamr_net::{Channel, serve_transfers};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the longest offer or state.
const LONGEST: usize = 1 << 24;
const SILENCE: Duration = Duration::from_secs(5);

/// Starts such devices.
pub struct StreamedLauncher(pub Far);

/// Both ends of a connection: the host's, and the server's.
fn connection(phase: Phase, bounds: &Bounds) -> [Channel; 2] {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (host, server) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("a pair of sockets");
    let channel = |(socket, end): (OwnedFd, End)| {
        let mut channel = Channel::new(socket, end, None, SILENCE).expect("no TLS");
        channel.begin(phase, bounds.clone());
        channel
    };
    [(host, End::Host), (server, End::Server)].map(channel)
}

impl Launcher for StreamedLauncher {
    fn describe(&self) -> String {
        "a device behind a pair of sockets: for tests".into()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        self.0.target(argument)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let &LaunchRequest { window_len, heap_off, start_deadline: limit, .. } = request;
        let Device { link, window } = self.0.start(request)?;
        let bounds = Bounds { window: window_len, heap: heap_off..window_len, longest: LONGEST };
        let [messages, served] = connection(Phase::Messages, &bounds);
        let [transfers, mut of_heap] = connection(Phase::Transfers, &bounds);
        std::thread::spawn(move || {
            serve(ChannelSide::new(served, "the host"), Served::new(link, limit).expect("a preamble"))
        });
        std::thread::spawn(move || serve_transfers(&mut of_heap, &mut ServedHeap::new(window)).map(drop));
        let heap = Arc::new(TransferHeap::new(transfers, limit));
        let far = once(ChannelSide::new(messages, "the device"));
        Ok(Box::new(MirrorLink::start(("streamed", "a thread", Protocol::Message), window_len, far, heap, limit)?))
    }
}
