//! Doorbells between this process and a device's process: one for each direction, and one for this
//! process alone.
//!
//! Those that a device, a rank or a keeper shares are pairs of sockets, because their flags are
//! given with each access. Of a pipe or an eventfd, whether an access may block is a flag of the open
//! file, which every process that has it can change, and where a thread that blocks is woken neither
//! by the device's end nor by a limit. Whether a write without a reader raises SIGPIPE is a property
//! of the program, and this may be one in another language.

use crate::Error;
use hamr_comm::abi::preamble::FOR_EVER;
use hamr_comm::am::patience;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::sync::Arc;
use std::time::Duration;

/// One notification.
const NOTIFICATION: [u8; 8] = 1u64.to_ne_bytes();

/// All doorbells of a device. They outlive its epochs: a notification of an old epoch causes a
/// wake-up without a result.
pub(crate) struct Doorbells {
    pub(crate) host: HostDoorbells,
    theirs: Theirs,
    side: Option<Side>,
}

/// Between the device and a program that serves a section of its window.
struct Side {
    /// The program sleeps on this.
    own: OwnedFd,
    /// The device notifies it by this.
    device: OwnedFd,
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

/// One direction: the end that is slept on, and the other. An emulator reads and writes its ends as it does an eventfd; they do not
/// block there either.
fn pair() -> Result<(OwnedFd, OwnedFd), Error> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(Error::os("making a doorbell"))
}

impl Doorbells {
    pub(crate) fn new() -> Result<Self, Error> {
        let ((notified, host), (own, device)) = (pair()?, pair()?);
        Ok(Self { host: HostDoorbells::new(notified, device)?, theirs: Theirs { own, host }, side: None })
    }

    /// With one for a program beside this one.
    pub(crate) fn with_side(self) -> Result<Self, Error> {
        let (own, device) = pair()?;
        Ok(Self { side: Some(Side { own, device }), ..self })
    }

    /// What the device notifies the program beside this one by.
    pub(crate) fn for_device(&self) -> Option<BorrowedFd<'_>> {
        self.side.as_ref().map(|side| side.device.as_fd())
    }

    /// What the program beside this one sleeps on.
    pub(crate) fn for_side(&self) -> Option<OwnedFd> {
        copy(&self.side.as_ref()?.own).ok()
    }

    /// The ends for the device's process: the one that it sleeps on, and the one by which it
    /// notifies.
    pub(crate) fn theirs(&self) -> [BorrowedFd<'_>; 2] {
        [self.theirs.own.as_fd(), self.theirs.host.as_fd()]
    }

    /// The same for a thread of this process.
    pub(crate) fn for_thread(&self) -> Result<[OwnedFd; 2], Error> {
        Ok([copy(&self.theirs.own)?, copy(&self.theirs.host)?])
    }

    /// What the other ranks of a world notify the device by.
    pub(crate) fn for_rank(&self) -> Result<OwnedFd, Error> {
        copy(&self.host.device)
    }

    /// The ends for a host that is another process, as [`HostDoorbells::of_keeper`] takes them.
    pub(crate) fn for_host(&self) -> Result<[OwnedFd; 2], Error> {
        Ok([copy(&self.host.notified)?, copy(&self.host.device)?])
    }
}

impl HostDoorbells {
    fn new(notified: OwnedFd, device: OwnedFd) -> Result<Self, Error> {
        let woken = event().map_err(Error::os("making a doorbell"))?;
        Ok(Self { notified: Arc::new(notified), woken: Arc::new(woken), device })
    }

    /// The ends that another process has sent: sockets, or neither is used.
    pub(crate) fn of_keeper(notified: OwnedFd, device: OwnedFd) -> Result<Self, String> {
        let is_socket = |fd| fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_socket());
        if !is_socket(&notified) || !is_socket(&device) {
            return Err("expected doorbells that are sockets, got others".into());
        }
        Self::new(notified, device).map_err(|e| e.to_string())
    }

    /// One of them is readable when the device has notified or this process has woken itself.
    pub(crate) fn descriptors(&self) -> [Arc<OwnedFd>; 2] {
        [self.notified.clone(), self.woken.clone()]
    }

    /// Notifies the device.
    pub(crate) fn notify(&self) {
        // An error means that it is full, and then the device is being woken already, or gone.
        let _ = send(&self.device, &NOTIFICATION, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Wakes this process, as the device does.
    pub(crate) fn wake(&self) {
        let _ = rustix::io::write(&*self.woken, &NOTIFICATION);
    }

    /// [`crate::link::Link::wait`] of a link whose device ends when `end` is readable.
    pub(crate) fn wait(&self, end: &OwnedFd, max_us: u32) {
        match max_us {
            0 => patience::rest(),
            FOR_EVER => self.sleep(end, None),
            us => self.sleep(end, Some(Duration::from_micros(us.into()))),
        }
    }

    /// Sleeps until the device notifies or `end` is readable, or until `limit` has passed.
    fn sleep(&self, end: &OwnedFd, limit: Option<Duration>) {
        let limit = limit.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
        let doorbells = [&*self.notified, &*self.woken];
        let mut fds = [doorbells[0], doorbells[1], end].map(|fd| PollFd::new(fd, PollFlags::IN));
        // A signal ends the sleep early; callers expect early ends. Another thread may have taken what
        // is there before.
        if poll(&mut fds, limit.as_ref()).is_ok_and(|n| n > 0) {
            let [notified, woken, _] = fds.map(|fd| fd.revents().contains(PollFlags::IN));
            if notified {
                // Up to sixty-four notifications, where more than one or two are rare.
                let _ = recv(doorbells[0], &mut [0; 64 * NOTIFICATION.len()], RecvFlags::DONTWAIT);
            }
            if woken {
                let _ = rustix::io::read(doorbells[1], &mut [0; NOTIFICATION.len()]);
            }
        }
    }
}

/// Another descriptor of the same socket.
fn copy(doorbell: &OwnedFd) -> Result<OwnedFd, Error> {
    fcntl_dupfd_cloexec(doorbell, 0).map_err(Error::os("copying a doorbell"))
}

/// A doorbell of this process alone.
pub(crate) fn event() -> Result<OwnedFd, Errno> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::sync::mpsc;

    fn is_readable(fd: impl AsFd) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).is_ok_and(|n| n > 0)
    }

    fn taken(own: impl AsFd) -> usize {
        recv(own, &mut [0; 512], RecvFlags::DONTWAIT).map_or(0, |(bytes, _)| bytes)
    }

    #[test]
    fn notifications_arrive_once() {
        let doorbells = Doorbells::new().expect("sockets");
        let [notified, woken] = doorbells.host.descriptors();
        let end = event().expect("an eventfd");
        for _ in 0..3 {
            assert!(!is_readable(&*notified) && !is_readable(&*woken));
            rustix::io::write(&doorbells.theirs.host, &NOTIFICATION).expect("the device notifies");
            doorbells.host.wake();
            assert!(is_readable(&*notified) && is_readable(&*woken));
            doorbells.host.sleep(&end, None);
        }
        assert!(!is_readable(&doorbells.theirs.own));
        doorbells.host.notify();
        assert!(is_readable(&doorbells.theirs.own));
    }

    /// With any use of the descriptors that it received: an image, a rank, a keeper.
    #[test]
    fn a_peer_cannot_block_this_process_in_a_doorbell() {
        let doorbells = Doorbells::new().expect("sockets");
        let rank = doorbells.for_rank().expect("a descriptor");
        let [notified, device] = doorbells.for_host().expect("descriptors");
        let [own, host] = doorbells.theirs();
        for fd in [own, host, rank.as_fd(), notified.as_fd(), device.as_fd()] {
            fcntl_setfl(fd, OFlags::empty()).expect("a file");
        }
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            // Another thread has taken the notification between the look and here.
            let taken = recv(&*doorbells.host.notified, &mut [0; 8], RecvFlags::DONTWAIT);
            // The device takes no notification, until the doorbell is full.
            (0..100_000).for_each(|_| doorbells.host.notify());
            tell.send(taken).expect("the test waits");
        });
        let taken = told.recv_timeout(Duration::from_secs(20)).expect("neither blocks");
        assert_eq!(taken.map(|_| ()), Err(Errno::AGAIN));
    }

    #[test]
    fn other_hosts_and_ranks_have_their_directions() {
        let doorbells = Doorbells::new().expect("sockets");
        let [notified, device] = doorbells.for_host().expect("descriptors");
        let other = HostDoorbells::of_keeper(notified, device).expect("an eventfd");
        rustix::io::write(&doorbells.theirs.host, &NOTIFICATION).expect("the device notifies");
        other.sleep(&event().expect("an eventfd"), None);
        other.notify();
        assert_eq!(taken(&doorbells.theirs.own), NOTIFICATION.len());
        let rank = doorbells.for_rank().expect("a descriptor");
        send(&rank, &NOTIFICATION, SendFlags::DONTWAIT).expect("room");
        assert_eq!(taken(&doorbells.theirs.own), NOTIFICATION.len());
    }

    #[test]
    fn doorbells_that_may_block_are_refused() {
        let socket = || Doorbells::new().expect("sockets").host.device;
        let pipe = || pipe_with(PipeFlags::CLOEXEC).expect("a pipe").1;
        let eventfd = || event().expect("an eventfd");
        let refused: [(OwnedFd, OwnedFd); 4] =
            [(pipe(), socket()), (socket(), pipe()), (socket(), eventfd()), (eventfd(), socket())];
        for (notified, device) in refused {
            assert!(HostDoorbells::of_keeper(notified, device).is_err_and(|why| why.contains("sockets")));
        }
    }
}
