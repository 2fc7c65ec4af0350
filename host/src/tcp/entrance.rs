//! Where hosts of other machines come in, and which device of this server each of them gets.

use hamr_net::frame::Reason;
use hamr_net::key::{Key, LeftKey};
use hamr_net::{Arrival, Closer, Door};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Arrivals that a keeper is behind with; the next one is refused.
const MOST_COMING: u32 = 16;

/// Why nothing listens.
enum Unopened {
    System(Errno),
    Key(String),
}

impl From<Errno> for Unopened {
    fn from(e: Errno) -> Self {
        Self::System(e)
    }
}

/// A door, and the places behind it.
pub(crate) struct Entrance {
    at: SocketAddr,
    places: Arc<Mutex<Vec<Place>>>,
    closer: Closer,
    door: Option<JoinHandle<()>>,
    /// Where this user's hosts find the key.
    key: Option<LeftKey>,
}

/// That of one device. One whose keeper has gone is nobody's.
struct Place {
    taken: Taken,
    arrivals: Sender<Arrival>,
    bell: Arc<OwnedFd>,
}

/// Who is expected at a place.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Taken {
    /// The device's name. `None`: its keeper has gone.
    name: Option<String>,
    /// A host of this machine has the device.
    is_near: bool,
    /// Arrivals that its keeper has not looked at.
    coming: u32,
    /// The link that has the device.
    now: Option<[u8; 16]>,
    /// Its host has gone, and it leaves the epoch.
    leaves: bool,
    /// The link whose heap it is, which may come back;
    heap: Option<[u8; 16]>,
    /// and since when there is no host. `None`: there was none.
    free_since: Option<Instant>,
}

/// Which of several places this link is sent to, which asked for the device of that name, or for any. Where none is
/// free, the first one's keeper says who has it.
fn pick<'a>(places: impl Iterator<Item = &'a Taken> + Clone, link: [u8; 16], name: &str) -> Option<usize> {
    let open = places.enumerate().filter(|(_, place)| place.name.is_some());
    let is_free = |place: &Taken| place.now.is_none() && place.coming == 0 && !place.is_near && !place.leaves;
    // Where another one may come back, as late as may be.
    let longest = || open.clone().filter(|(_, place)| is_free(place)).min_by_key(|(_, place)| place.free_since);
    let first = |fits: &dyn Fn(&Taken) -> bool| open.clone().find(|(_, place)| fits(place)).map(|(index, _)| index);
    first(&|place| place.now == Some(link))
        // What it had there may be there still; its keeper knows.
        .or_else(|| first(&|place| place.heap == Some(link)))
        .or_else(|| first(&|place| place.name.as_deref() == Some(name)))
        .or_else(|| longest().map(|(index, _)| index))
        .or_else(|| first(&|place| place.leaves && place.coming == 0))
        .or_else(|| first(&|_| true))
}

fn locked(places: &Mutex<Vec<Place>>) -> MutexGuard<'_, Vec<Place>> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entrance {
    /// Listens. `log` gets lines about connections that were none.
    ///
    /// # Errors
    /// What keeps it from that.
    pub(crate) fn listen(
        at: SocketAddr,
        key: Option<&Path>,
        silence: Duration,
        log: impl Fn(&str) + Send + 'static,
    ) -> Result<Self, String> {
        let mut left = None;
        let keyed = |at| -> Result<Key, Unopened> {
            let (key, its) = Key::of_server(at, key).map_err(|e| Unopened::Key(e.to_string()))?;
            left = its;
            Ok(key)
        };
        let mut door = Door::open(at, keyed, silence).map_err(|e| match e {
            Unopened::System(e) => format!("listening at {at}: {}", std::io::Error::from(e)),
            Unopened::Key(why) => why,
        })?;
        let (closer, at) = (door.closer(), door.address());
        let places = Arc::<Mutex<Vec<Place>>>::default();
        let theirs = places.clone();
        let tend = move || {
            while let Some(arrival) = door.next(&log) {
                send(&mut locked(&theirs), arrival);
            }
        };
        let door = std::thread::Builder::new().name("hamr-door".into()).spawn(tend).map_err(|e| e.to_string())?;
        Ok(Self { at, places, closer, door: Some(door), key: left })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.at
    }

    pub(crate) fn take_key_away(&self) {
        self.key.iter().for_each(LeftKey::take_away);
    }

    /// A place for one more device, of that name. Its bell is rung when a host has come.
    pub(super) fn add(self: &Arc<Self>, name: &str, bell: Arc<OwnedFd>) -> (Ticket, Receiver<Arrival>) {
        let (arrivals, theirs) = channel();
        let taken = Taken {
            name: Some(name.into()),
            is_near: false,
            coming: 0,
            now: None,
            leaves: false,
            heap: None,
            free_since: None,
        };
        let mut places = locked(&self.places);
        places.push(Place { taken, arrivals, bell });
        let (entrance, index) = (self.clone(), places.len() - 1);
        (Ticket { entrance, index }, theirs)
    }
}

pub(super) fn ring(bell: &OwnedFd) {
    // An error means that it is rung.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

fn send(places: &mut [Place], arrival: Arrival) {
    let index = pick(places.iter().map(|place| &place.taken), arrival.link, &arrival.name);
    // Without a keeper the connection ends.
    let Some(place) = index.and_then(|index| places.get_mut(index)) else { return };
    if place.taken.coming >= MOST_COMING {
        return arrival.refuse(Reason::Busy, 0, "many hosts that wait");
    }
    if place.arrivals.send(arrival).is_ok() {
        place.taken.coming += 1;
        ring(&place.bell);
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        self.closer.close();
        if let Some(door) = self.door.take() {
            let _ = door.join();
        }
    }
}

/// What a keeper has of its place.
pub(super) struct Ticket {
    entrance: Arc<Entrance>,
    index: usize,
}

impl Ticket {
    fn set(&self, what: impl FnOnce(&mut Taken)) {
        if let Some(place) = locked(&self.entrance.places).get_mut(self.index) {
            what(&mut place.taken);
        }
    }

    /// An arrival was taken.
    pub(super) fn came(&self) {
        self.set(|taken| taken.coming = taken.coming.saturating_sub(1));
    }

    /// Has this link the device now, `None`: no link; and whose heap is it?
    pub(super) fn has(&self, link: Option<[u8; 16]>, heap: Option<[u8; 16]>) {
        self.set(|taken| {
            if taken.now.is_some() && link.is_none() {
                taken.free_since = Some(Instant::now());
            }
            (taken.now, taken.heap) = (link, heap);
        });
    }

    /// Has a host of this machine the device?
    pub(super) fn is_near(&self, is_near: bool) {
        self.set(|taken| {
            taken.is_near = is_near;
            taken.free_since = Some(Instant::now());
        });
    }

    /// The device leaves the epoch of a host, or it has left.
    pub(super) fn leaves(&self, leaves: bool) {
        self.set(|taken| taken.leaves = leaves);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.set(|taken| taken.name = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str, now: Option<u8>, heap: Option<u8>) -> Taken {
        let (name, link) = (Some(name.into()), |n| [n; 16]);
        let (is_near, coming, leaves, free_since) = (false, 0, false, heap.map(|_| Instant::now()));
        Taken { name, is_near, coming, now: now.map(link), leaves, heap: heap.map(link), free_since }
    }

    #[test]
    fn a_host_comes_back_to_its_device_and_a_new_one_goes_to_a_free_one() {
        let mut places = [place("a", Some(1), Some(1)), place("b", None, Some(2)), place("c", None, None)];
        let go = |places: &[Taken], link, name| pick(places.iter(), [link; 16], name);
        assert_eq!(go(&places, 1, ""), Some(0));
        assert_eq!(go(&places, 2, ""), Some(1));
        assert_eq!(go(&places, 3, ""), Some(2));
        assert_eq!(go(&places, 3, "b"), Some(1));
        // Of two that had hosts, that which is free for longer.
        places[2].free_since = Some(Instant::now());
        assert_eq!(go(&places, 3, ""), Some(1));
        places[2].is_near = true;
        assert_eq!(go(&places, 3, ""), Some(1));
        places[1].coming = 1;
        // All are taken; also for the one that was there.
        assert_eq!((go(&places, 3, ""), go(&places, 2, "")), (Some(0), Some(1)));
        // One is about to be free.
        (places[1].coming, places[1].leaves) = (0, true);
        assert_eq!(go(&places, 3, ""), Some(1));
        places[0].name = None;
        assert_eq!(go(&places, 1, ""), Some(1));
        places.iter_mut().for_each(|place| place.name = None);
        assert_eq!(go(&places, 1, ""), None);
    }
}
