//! A waker with a descriptor.

use crate::Error;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};

/// A waker that makes a descriptor readable, for programs that wait in `epoll` or `poll`.
///
/// ```no_run
/// # use hamr_comm::{offload, Context};
/// # #[offload] pub fn work(cx: &mut Context) {}
/// # fn wait_readable(_: std::os::fd::BorrowedFd) {}
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dev = hamr::Runtime::new()?.open("shm", hamr::Image::find("my-image")?)?;
/// use std::os::fd::AsFd;
/// let (fd, mut pending) = (hamr::WakeFd::new()?, dev.offload(work::with())?);
/// while !pending.poll_done(fd.waker()) {
///     wait_readable(fd.as_fd()); // your epoll, with whatever else is in it
///     fd.clear();                // before the next look, or a wake-up is lost
/// }
/// pending.wait()?; // returns at once
/// # Ok(()) }
/// ```
///
/// One serves any number of calls, of several devices: each call that is not done is asked again
/// after a wake-up.
pub struct WakeFd {
    event: Arc<Event>,
    /// One, so that a wait queue knows it again.
    waker: Waker,
}

struct Event(OwnedFd);

impl Wake for Event {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        // The only error is a counter at its end, and then it is readable anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl WakeFd {
    /// A descriptor that is not readable yet.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> Result<Self, Error> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(Error::os("making an eventfd"))?;
        let event = Arc::new(Event(fd));
        let waker = Waker::from(event.clone());
        Ok(Self { event, waker })
    }

    /// What makes it readable.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// It is not readable any more, until the next wake-up.
    pub fn clear(&self) {
        // The only error is that it was not readable.
        let _ = rustix::io::read(&self.event.0, &mut [0; 8]);
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.0.as_fd()
    }
}
