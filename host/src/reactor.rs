//! The one thread of a process that wakes tasks: it sleeps on the doorbells of all devices for which tasks wait and no other
//! thread sleeps. Started when the first task waits.

use crate::node::Device;
use crate::wait_queue::Registration;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Devices that died without a word are noticed this late.
const MAX_SLEEP: Duration = Duration::from_secs(1);
/// How long a device whose tasks were all woken keeps the reactor's attention: most tasks wait again.
const KEEP_WATCHING: Duration = Duration::from_millis(1);

/// Whom the reactor is to look after.
pub(crate) type Interest<'a> = &'a Weak<Device>;

struct Reactor {
    /// Wakes the thread.
    kick: OwnedFd,
    devices: Mutex<Vec<Weak<Device>>>,
}

static REACTOR: OnceLock<Option<Reactor>> = OnceLock::new();

/// Has the reactor look after the tasks of a device. Without a reactor (no descriptor or no thread was to be had) tasks are
/// woken at once, and look again and again.
pub(crate) fn attend(device: Interest<'_>) {
    let Some(reactor) = REACTOR.get_or_init(start) else {
        if let Some(inner) = device.upgrade() {
            inner.wait_queue.wake_all();
        }
        return;
    };
    let mut devices = reactor.devices.lock().unwrap_or_else(PoisonError::into_inner);
    if !devices.iter().any(|known| known.ptr_eq(device)) {
        devices.push(device.clone());
    }
    drop(devices);
    // The only error is a counter at its end, and then it wakes up anyway.
    let _ = rustix::io::write(&reactor.kick, &1u64.to_ne_bytes());
}

fn start() -> Option<Reactor> {
    let kick = eventfd(0, EventfdFlags::CLOEXEC).ok()?;
    let work = || {
        if let Some(reactor) = REACTOR.wait() {
            reactor.run();
        }
    };
    std::thread::Builder::new().name("hamr-reactor".into()).spawn(work).ok()?;
    Some(Reactor { kick, devices: Mutex::new(Vec::new()) })
}

/// One device in one round of the reactor.
struct Watched {
    device: Weak<Device>,
    /// Its bell and its end; empty where another thread leads.
    descriptors: Vec<Arc<OwnedFd>>,
    leads: bool,
    /// Sleeps last no longer than this without a look at the device.
    net: Instant,
}

/// Between two looks at a device that is silent.
fn net_of(inner: &Device) -> Duration {
    inner.options.longest_sleep.map_or(MAX_SLEEP, |longest| longest.min(MAX_SLEEP))
}

impl Reactor {
    fn run(&self) {
        let mut watched = Vec::new();
        loop {
            let mut until = None;
            watched = self.look(&watched, &mut until);
            let descriptors = watched.iter().flat_map(|w| &w.descriptors);
            let mut fds = vec![PollFd::new(&self.kick, PollFlags::IN)];
            fds.extend(descriptors.map(|fd| PollFd::new(&**fd, PollFlags::IN)));
            let limit = until.map(|until: Instant| {
                let left = until.saturating_duration_since(Instant::now());
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
            });
            // A signal ends it early, which is right.
            let _ = poll(&mut fds, limit.as_ref());
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            let mut ready = ready.into_iter();
            if ready.next() == Some(true) {
                let _ = rustix::io::read(&self.kick, &mut [0; 8]);
            }
            let now = Instant::now();
            for Watched { device, descriptors, leads, net } in &mut watched {
                // All of them are asked, so that the next device's are at the front.
                let notified = descriptors.iter().filter(|_| ready.next() == Some(true)).count() != 0;
                let Some(inner) = device.upgrade() else { continue };
                if notified {
                    // Takes the ring; does not sleep, because there is one, or the device is gone.
                    inner.link.wait(1);
                }
                let is_due = *net <= now;
                if notified || is_due {
                    *net = now + net_of(&inner);
                    inner.check_peer();
                }
                if notified || is_due && *leads {
                    inner.wait_queue.wake_from_reactor();
                } else {
                    inner.wait_queue.wake_expired(now);
                }
            }
        }
    }

    /// Who is to be watched now, and until when; `before` is who was.
    fn look(&self, before: &[Watched], until: &mut Option<Instant>) -> Vec<Watched> {
        let (mut seen, now) = (Vec::new(), Instant::now());
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        devices.retain(|device| {
            let Some(inner) = device.upgrade() else { return false };
            let known = before.iter().find(|watched| watched.device.ptr_eq(device));
            let net = known.map_or_else(|| now + net_of(&inner), |watched| watched.net);
            let registration = inner.wait_queue.attend(net);
            let stays = registration.is_some();
            seen.push((inner, net, registration));
            stays
        });
        // From here on without the lock, for which others' tasks wait: a link may take its time, and so may the end of a device.
        drop(devices);
        let mut watch = |(inner, net, registration): (Arc<Device>, Instant, Option<Registration>)| {
            let registration = registration?;
            let descriptors = if registration.leads { inner.link.descriptors() } else { Vec::new() };
            let next = if registration.idle { now + KEEP_WATCHING } else { registration.until };
            *until = Some(until.map_or(next, |until| until.min(next)));
            Some(Watched { device: inner.me.clone(), descriptors, leads: registration.leads, net })
        };
        seen.into_iter().filter_map(&mut watch).collect()
    }
}
