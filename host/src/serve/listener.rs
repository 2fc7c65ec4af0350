//! Where hosts of other machines come in.

use crate::Error;
use crate::tcp::{Entrance, Sends};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An address at which hosts on any machine find the devices of one or several keepers: each host gets one of its own, and the
/// same when it comes back.
pub struct Listener(pub(super) Arc<Entrance>);

impl Listener {
    /// Listens at an address for hosts that open a device as `tcp:HOST:PORT`. They have `key`'s key, or that which is
    /// left for this user at a loopback address. A connection ends when its other end does not answer for `silence`
    /// ([`crate::Options::silence`]). `log` gets lines about connections that ended before they were a host's.
    ///
    /// # Errors
    /// An address that is not this machine's or taken, no key.
    pub fn open(
        at: SocketAddr,
        key: Option<&Path>,
        silence: Duration,
        log: impl Fn(&str) + Send + 'static,
    ) -> Result<Self, Error> {
        let fail = |why| Error::Launch { device: format!("tcp:{at}"), why };
        Entrance::listen(at, key, silence, log).map(Arc::new).map(Self).map_err(fail)
    }

    /// Takes away the key that it has left for hosts of this user, as its drop does: for a program that is about to be ended
    /// without one.
    pub fn takes_key_away(&self) -> impl FnOnce() + Send + 'static {
        let entrance = Arc::downgrade(&self.0);
        move || entrance.upgrade().iter().for_each(|entrance| entrance.take_key_away())
    }

    /// Where it listens: a port that was 0 is another one here.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

/// A way of one's own by which hosts come to one keeper: where they have said HELLO, it gets them here.
pub struct Arrivals(pub(super) Sends);

impl Arrivals {
    /// Gives the keeper a host that waits for its answer. Without the keeper the connection ends.
    pub fn send(&self, arrival: hamr_net::Arrival) {
        self.0.send(arrival);
    }
}
