//! What the watcher of a device sleeps on: the device's doorbell, beside the thread that waits for a
//! reply there.
//!
//! Edge-triggered: a notification wakes the watcher, too, unless another thread takes it before the
//! watcher asks what there is. So who takes one passes it on where a message is there ([`Service::pass_on`]).
//!
//! [`Service::pass_on`]: super::Service::pass_on

use crate::device::Device;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::fd::OwnedFd;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

/// Wakes the watcher, for this program.
pub(super) struct Kick(Option<OwnedFd>);

/// [`epoll::EventData`] of the kick.
const KICK: u64 = 1;
/// Of what the link has.
const LINK: u64 = 0;

impl Kick {
    pub(super) fn new() -> Self {
        Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok())
    }

    pub(super) fn wake(&self) {
        if let Some(fd) = &self.0 {
            // The only error is a counter at its end, and then it is readable.
            let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
        }
    }
}

/// The descriptors of one link, watched.
pub(super) struct Bell<'k> {
    kick: &'k Kick,
    set: Option<OwnedFd>,
    /// Held: their numbers are in the set.
    _descriptors: Vec<Arc<OwnedFd>>,
}

impl<'k> Bell<'k> {
    /// Without descriptors, or where the system has none left, the watcher naps.
    pub(super) fn new(device: &Device, kick: &'k Kick) -> Self {
        let descriptors = device.link.descriptors();
        let set = kick.0.as_ref().filter(|_| !descriptors.is_empty()).and_then(|own| {
            let set = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&set, own, epoll::EventData::new_u64(KICK), flags).ok()?;
            for fd in &descriptors {
                epoll::add(&set, fd, epoll::EventData::new_u64(LINK), flags).ok()?;
            }
            Some(set)
        });
        Self { kick, set, _descriptors: descriptors }
    }

    /// Sleeps until the device notifies, or this program does; at most so long. False: it cannot be
    /// woken, the caller naps.
    pub(super) fn sleep(&self, device: &Device, limit: Duration) -> bool {
        let Some(set) = &self.set else { return false };
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); 4];
        // A signal ends it early, which is right.
        let Ok((events, _)) = epoll::wait(set, &mut events, Some(&limit)) else { return true };
        let has = |what| events.iter().any(|event| event.data.u64() == what);
        if has(KICK)
            && let Some(own) = &self.kick.0
        {
            let _ = rustix::io::read(own, &mut [0; 8]);
        }
        if has(LINK) {
            device.wait_queue.take_notification(&*device.link);
        }
        true
    }
}
