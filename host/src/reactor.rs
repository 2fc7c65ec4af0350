//! The one thread of a process that wakes tasks: it sleeps on the doorbells of all devices for
//! which tasks wait and no other thread sleeps. It starts when the first task waits. It reaches a
//! device through [`Notified`].

use hamr_qemu::origin::Origin;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The reactor notices this late that a device ended without a doorbell.
const MAX_SLEEP: Duration = Duration::from_secs(1);
/// How long the reactor keeps a device whose tasks were all woken: most tasks wait again.
pub(crate) const KEEP_WATCHING: Duration = Duration::from_millis(1);

/// A device that notifies by descriptors and has tasks that wait for it.
pub(crate) trait Notified: Send + Sync {
    /// Become readable when it notifies, and when it has ended.
    fn descriptors(&self) -> Vec<Arc<OwnedFd>>;

    /// The longest time between two checks, where the program set one.
    fn longest_sleep(&self) -> Option<Duration>;

    /// The reactor is about to sleep: what it has to do here, when it checks again at `next_check`.
    /// `None`: nothing any more, until [`register`] is called again.
    fn attend(&self, next_check: Instant) -> Option<Registration>;

    /// The reactor is awake. Wakes tasks for which this is a reason.
    fn on_wake(&self, wake: Wake);
}

/// What the reactor has to do for one device.
pub(crate) struct Registration {
    /// Sleep on its descriptors: no other thread does.
    pub(crate) leads: bool,
    /// Wake up at this moment at the latest.
    pub(crate) until: Instant,
}

/// Why the reactor is awake, as far as one device is concerned.
pub(crate) enum Wake {
    /// One of its descriptors is readable.
    Notified,
    /// It is time for a check, of a device that the reactor leads.
    Due,
    /// The same of a device that another thread leads.
    DueBesideLeader,
    /// Another reason, such as the deadline of a task.
    Other,
    /// There is no reactor: every task is woken, and polls again.
    NoReactor,
}

/// What the reactor keeps of a device.
pub(crate) type Interest<'a> = &'a Weak<dyn Notified>;

struct Reactor {
    /// Wakes the thread.
    kick: OwnedFd,
    devices: Mutex<Vec<Weak<dyn Notified>>>,
}

/// The reactor of this process; a fork has its own. `None`: no descriptor or no thread was available.
static REACTOR: Mutex<Option<(Origin, Option<Arc<Reactor>>)>> = Mutex::new(None);

/// Has the reactor watch the device for the tasks. Without a reactor tasks are woken at once, and poll
/// again and again.
pub(crate) fn register(interest: Interest<'_>) {
    let Some(reactor) = reactor() else {
        if let Some(device) = interest.upgrade() {
            device.on_wake(Wake::NoReactor);
        }
        return;
    };
    let mut devices = reactor.devices.lock().unwrap_or_else(PoisonError::into_inner);
    if !devices.iter().any(|known| known.ptr_eq(interest)) {
        devices.push(interest.clone());
    }
    drop(devices);
    // The only error is a counter at its end, and then it wakes up anyway.
    let _ = rustix::io::write(&reactor.kick, &1u64.to_ne_bytes());
}

fn reactor() -> Option<Arc<Reactor>> {
    let mut reactor = REACTOR.lock().unwrap_or_else(PoisonError::into_inner);
    match &*reactor {
        Some((origin, reactor)) if origin.is_here() => reactor.clone(),
        _ => reactor.insert((Origin::here(), start())).1.clone(),
    }
}

fn start() -> Option<Arc<Reactor>> {
    let kick = eventfd(0, EventfdFlags::CLOEXEC).ok()?;
    let reactor = Arc::new(Reactor { kick, devices: Mutex::new(Vec::new()) });
    let runs = reactor.clone();
    std::thread::Builder::new().name("hamr-reactor".into()).spawn(move || runs.run()).ok()?;
    Some(reactor)
}

/// One device in one round of the reactor.
struct Watched {
    device: Weak<dyn Notified>,
    /// Empty where another thread leads.
    descriptors: Vec<Arc<OwnedFd>>,
    leads: bool,
    /// The reactor checks the device at this moment, whether or not it has notified.
    next_check: Instant,
}

/// Between two checks of a device that does not notify.
fn check_interval(device: &dyn Notified) -> Duration {
    device.longest_sleep().map_or(MAX_SLEEP, |longest| longest.min(MAX_SLEEP))
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
            for Watched { device, descriptors, leads, next_check } in &mut watched {
                // All of them are asked, so that the next device's are at the front.
                let notified = descriptors.iter().filter(|_| ready.next() == Some(true)).count() != 0;
                let Some(device) = device.upgrade() else { continue };
                let is_due = *next_check <= now;
                if notified || is_due {
                    *next_check = now + check_interval(&*device);
                }
                device.on_wake(match (notified, is_due, *leads) {
                    (true, ..) => Wake::Notified,
                    (_, true, true) => Wake::Due,
                    (_, true, false) => Wake::DueBesideLeader,
                    _ => Wake::Other,
                });
            }
        }
    }

    /// The devices to be watched now, and until when; `before` is what was watched in the last
    /// round.
    fn look(&self, before: &[Watched], until: &mut Option<Instant>) -> Vec<Watched> {
        let (mut seen, now) = (Vec::new(), Instant::now());
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        devices.retain(|interest| {
            let Some(device) = interest.upgrade() else { return false };
            let known = before.iter().find(|watched| watched.device.ptr_eq(interest));
            let next_check = known.map_or_else(|| now + check_interval(&*device), |watched| watched.next_check);
            let registration = device.attend(next_check);
            let stays = registration.is_some();
            // Kept even without a registration: the last reference to a device must not be dropped
            // while the lock is taken.
            seen.push((interest.clone(), device, next_check, registration));
            stays
        });
        // From here on without the lock, for which others' tasks wait: a link may take its time,
        // and so may the end of a device.
        drop(devices);
        let mut watch = |(interest, device, next_check, registration): Seen| {
            let Registration { leads, until: next } = registration?;
            let descriptors = if leads { device.descriptors() } else { Vec::new() };
            *until = Some(until.map_or(next, |until| until.min(next)));
            Some(Watched { device: interest, descriptors, leads, next_check })
        };
        seen.into_iter().filter_map(&mut watch).collect()
    }
}

/// A device that exists, and what its tasks need.
type Seen = (Weak<dyn Notified>, Arc<dyn Notified>, Instant, Option<Registration>);
