//! Doorbells between this process and a device's process: one for each direction, and one for this
//! process alone.
//!
//! Whether an access may block is a flag of the open file, not of a descriptor. A process that
//! receives a descriptor can therefore change the flag for every process with the same file. A
//! thread of this process must never block in a read or a write, where neither the device's end nor
//! a limit would wake it. So an image receives the other ends of pipes, which are open files of
//! their own.

use crate::Error;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::sync::Arc;
use std::time::Duration;

/// One notification.
const NOTIFICATION: [u8; 8] = 1u64.to_ne_bytes();

/// All doorbells of a device. They outlive its epochs: a notification of an old epoch causes a
/// wake-up without a result.
pub(crate) struct Doorbells {
    pub(crate) host: HostDoorbells,
    theirs: Theirs,
}

/// The ends that its host has.
pub(crate) struct HostDoorbells {
    /// Readable when the device has notified.
    notified: Arc<OwnedFd>,
    /// Readable when this process has woken itself.
    woken: Arc<OwnedFd>,
    /// Notifies the device.
    device: OwnedFd,
}

/// The ends for the device's process.
struct Theirs {
    /// The device sleeps on this.
    own: OwnedFd,
    /// The device notifies this process by this.
    host: OwnedFd,
}

impl Doorbells {
    /// For an image that is a process of its own: it shares no open file with this process.
    pub(crate) fn of_process() -> Result<Self, Error> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
        Self::new(pipe, pipe)
    }

    /// For an emulator, which needs an eventfd for each direction. It shares them with this process
    /// and is assumed to leave their flags alone; the image that it runs cannot reach them.
    pub(crate) fn of_emulator() -> Result<Self, Error> {
        let shared = || event().and_then(|fd| Ok((rustix::io::fcntl_dupfd_cloexec(&fd, 0)?, fd)));
        Self::new(shared, shared)
    }

    /// Each function makes an end to read from and an end to write to.
    fn new(
        to_host: impl Fn() -> Result<(OwnedFd, OwnedFd), Errno>,
        to_device: impl Fn() -> Result<(OwnedFd, OwnedFd), Errno>,
    ) -> Result<Self, Error> {
        let make = || {
            let ((notified, host), (own, device)) = (to_host()?, to_device()?);
            Ok((notified, device, Theirs { own, host }))
        };
        let (notified, device, theirs) = make().map_err(Error::os("making a doorbell"))?;
        Ok(Self { host: HostDoorbells::new(notified, device)?, theirs })
    }

    /// The ends for the device's process: the one that it sleeps on, and the one by which it
    /// notifies.
    pub(crate) fn theirs(&self) -> [BorrowedFd<'_>; 2] {
        [self.theirs.own.as_fd(), self.theirs.host.as_fd()]
    }

    /// What the other ranks of a world notify the device by: not the open file that this process uses,
    /// where it is a pipe.
    pub(crate) fn for_rank(&self) -> Result<OwnedFd, Error> {
        opened_anew(&self.host.device, OFlags::WRONLY)
    }

    /// The ends for a host that is another process, as [`HostDoorbells::new`] takes them; not the open
    /// files of this process, where they are pipes.
    pub(crate) fn for_host(&self) -> Result<[OwnedFd; 2], Error> {
        Ok([opened_anew(&self.host.notified, OFlags::RDONLY)?, opened_anew(&self.host.device, OFlags::WRONLY)?])
    }
}

impl HostDoorbells {
    /// `notified` is readable when the device has notified; writing to `device` notifies it. Neither
    /// blocks.
    pub(crate) fn new(notified: OwnedFd, device: OwnedFd) -> Result<Self, Error> {
        let woken = event().map_err(Error::os("making a doorbell"))?;
        Ok(Self { notified: Arc::new(notified), woken: Arc::new(woken), device })
    }

    /// One of them is readable when the device has notified or this process has woken itself.
    pub(crate) fn descriptors(&self) -> [Arc<OwnedFd>; 2] {
        [self.notified.clone(), self.woken.clone()]
    }

    /// Notifies the device.
    pub(crate) fn notify(&self) {
        // The only error is a full doorbell, and then the device is being woken already.
        let _ = rustix::io::write(&self.device, &NOTIFICATION);
    }

    /// Wakes this process, as the device does.
    pub(crate) fn wake(&self) {
        let _ = rustix::io::write(&*self.woken, &NOTIFICATION);
    }

    /// Sleeps until the device notifies or `end` is readable, or until `limit` has passed.
    pub(crate) fn sleep(&self, end: &OwnedFd, limit: Option<Duration>) {
        let limit = limit.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
        let doorbells = [&*self.notified, &*self.woken];
        let mut fds = [doorbells[0], doorbells[1], end].map(|fd| PollFd::new(fd, PollFlags::IN));
        // A signal ends the sleep early; callers expect early ends.
        if poll(&mut fds, limit.as_ref()).is_ok_and(|n| n > 0) {
            for (doorbell, _) in doorbells.iter().zip(&fds).filter(|(_, fd)| fd.revents().contains(PollFlags::IN)) {
                take(doorbell);
            }
        }
    }
}

/// Takes the pending notifications: all of an eventfd, up to sixty-four of a pipe, where more than
/// one or two are rare. Another thread may have taken them before.
fn take(doorbell: &OwnedFd) {
    let _ = rustix::io::read(doorbell, &mut [0; 64 * NOTIFICATION.len()]);
}

/// Another open file of the same pipe.
fn opened_anew(doorbell: &OwnedFd, access: OFlags) -> Result<OwnedFd, Error> {
    let path = format!("/proc/self/fd/{}", doorbell.as_raw_fd());
    let doorbell = match rustix::fs::open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
        // An eventfd has one open file only.
        Err(Errno::NXIO) => rustix::io::fcntl_dupfd_cloexec(doorbell, 0),
        doorbell => doorbell,
    };
    doorbell.map_err(Error::os("opening a doorbell for another process"))
}

fn event() -> Result<OwnedFd, Errno> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fcntl_setfl;
    use std::sync::mpsc;

    #[test]
    fn notifications_arrive_once() {
        let doorbells = Doorbells::of_process().expect("pipes");
        let [notified, woken] = doorbells.host.descriptors();
        let is_readable = |fd: &OwnedFd| {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&now)).is_ok_and(|n| n > 0)
        };
        let end = event().expect("an eventfd");
        for _ in 0..3 {
            assert!(!is_readable(&notified) && !is_readable(&woken));
            rustix::io::write(&doorbells.theirs.host, &NOTIFICATION).expect("the device notifies");
            doorbells.host.wake();
            assert!(is_readable(&notified) && is_readable(&woken));
            doorbells.host.sleep(&end, None);
        }
        assert!(!is_readable(&doorbells.theirs.own));
        doorbells.host.notify();
        assert!(is_readable(&doorbells.theirs.own));
    }

    /// With any use of the descriptors that it received.
    #[test]
    fn an_image_cannot_block_this_process_in_a_doorbell() {
        let doorbells = Doorbells::of_process().expect("pipes");
        for theirs in doorbells.theirs() {
            fcntl_setfl(theirs, OFlags::empty()).expect("its own file");
        }
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            // Another thread has taken the notification meanwhile.
            take(&doorbells.host.notified);
            // The image takes no notification, until the doorbell is full.
            (0..100_000).for_each(|_| doorbells.host.notify());
            tell.send(()).expect("the test waits");
        });
        told.recv_timeout(Duration::from_secs(20)).expect("neither blocks");
    }

    #[test]
    fn another_host_has_both_directions() {
        for doorbells in [Doorbells::of_process(), Doorbells::of_emulator()] {
            let doorbells = doorbells.expect("descriptors");
            let [notified, device] = doorbells.for_host().expect("descriptors");
            let other = HostDoorbells::new(notified, device).expect("an eventfd");
            rustix::io::write(&doorbells.theirs.host, &NOTIFICATION).expect("the device notifies");
            other.sleep(&event().expect("an eventfd"), None);
            other.notify();
            let mut read = [0; 64];
            assert_eq!(rustix::io::read(&doorbells.theirs.own, &mut read), Ok(NOTIFICATION.len()));
        }
    }

    #[test]
    fn another_rank_notifies_by_an_open_file_of_its_own() {
        for (doorbells, is_apart) in [(Doorbells::of_process(), true), (Doorbells::of_emulator(), false)] {
            let doorbells = doorbells.expect("descriptors");
            let doorbell = doorbells.for_rank().expect("a descriptor");
            rustix::io::write(&doorbell, &NOTIFICATION).expect("room");
            let mut read = [0; 64];
            assert_eq!(rustix::io::read(&doorbells.theirs.own, &mut read), Ok(NOTIFICATION.len()));
            fcntl_setfl(&doorbell, OFlags::empty()).expect("its own file");
            let ours = rustix::fs::fcntl_getfl(&doorbells.host.device).expect("open");
            assert_eq!(ours.contains(OFlags::NONBLOCK), is_apart);
        }
    }
}
