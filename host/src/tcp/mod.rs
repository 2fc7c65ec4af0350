//! Devices on other machines (docs/network.md): `tcp:HOST:PORT`, and what a keeper has of hosts there.

mod client;
mod entrance;
mod hosts;

pub use client::{Unconnected, Way, link_over};
pub(crate) use entrance::Entrance;
pub(crate) use hosts::{FarHosts, Sends, Told};

use crate::launcher::{LaunchRequest, Launcher};
use crate::link::{Link, Protocol};
use crate::{Error, Target};
use hamr_net::frame::{Bounds, Hello};
use hamr_net::key::Key;
use hamr_net::{Failure, Opened, Opening, resolve};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

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
        let &LaunchRequest { device, argument, start_deadline: limit, silence, .. } = request;
        let begin = Instant::now();
        let addresses =
            resolve(argument, limit).map_err(|e| Error::Launch { device: device.into(), why: e.to_string() })?;
        let key = self.key_file();
        let ways = addresses.into_iter().map(|at| Address { at, key: key.clone(), silence }).collect();
        link_over(ways, "tcp", "", request, limit.saturating_sub(begin.elapsed()))
    }
}

/// One of a server.
struct Address {
    at: SocketAddr,
    key: Option<PathBuf>,
    silence: Duration,
}

impl Way for Address {
    fn name(&self) -> String {
        self.at.to_string()
    }

    fn open(&self, hello: &Hello<'_>, bounds: Bounds, limit: Duration) -> Result<Opened, Unconnected> {
        let begin = Instant::now();
        let key = Key::of_host(self.at, self.key.as_deref())?;
        let left = limit.saturating_sub(begin.elapsed());
        let opening = Opening::begin(self.at, &key, hello, bounds, self.silence);
        opening.and_then(|opening| opening.finish(left)).map_err(|e| {
            let is_of_key = matches!(e, Failure::Key(_));
            // A server that leaves a key may just have left another one.
            Unconnected::from(e).or_pass(is_of_key && self.key.is_none())
        })
    }
}
