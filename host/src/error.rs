//! What can go wrong, each with what was expected, what came, and what to do.

use crate::{FaultReport, Site};
use hamr_comm::Never;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::section::{Section, SectionKind};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Errors of opening devices and of their memory.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No launcher has this name.
    #[error("no device is named `{name}`: expected one of {known}")]
    UnknownDevice {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The image cannot be used.
    #[error("image {}: {why}", path.display())]
    BadImage {
        /// The file.
        path: PathBuf,
        /// Expected and got.
        why: String,
    },
    /// The image or module was not found and cannot be built here.
    #[error("no {what} `{name}`: {why}")]
    NoImage {
        /// `image` or `module`.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// Where the host searched and which command to type.
        why: String,
    },
    /// The device could not be started.
    #[error("device {device}: cannot start it: {why}")]
    Launch {
        /// Its name.
        device: String,
        /// What failed.
        why: String,
    },
    /// The device cannot be reached over its bus.
    #[error("device {device}: {why}")]
    Bus {
        /// Its name.
        device: String,
        /// Expected, got, and what to do.
        why: String,
    },
    /// The device published what no device may publish.
    #[error(
        "device {device} published {what}, which no device may publish: its image is broken or not hamr's; load another one"
    )]
    Corrupt {
        /// Its name.
        device: String,
        /// What it published.
        what: String,
    },
    /// The device checked the window and refused.
    #[error("device {device} refused the window: {why}")]
    Refused {
        /// Its name.
        device: String,
        /// Its reason.
        why: String,
    },
    /// The device did not reply in time.
    #[error("device {device} did not answer within {after:?} while {stage}")]
    Timeout {
        /// Its name.
        device: String,
        /// What the host was waiting for.
        stage: &'static str,
        /// For how long.
        after: Duration,
    },
    /// The device is gone.
    #[error("device {device} is gone while {stage}: {why}")]
    Lost {
        /// Its name.
        device: String,
        /// What the host was doing.
        stage: &'static str,
        /// How it ended.
        why: String,
    },
    /// The window already has a host.
    #[error("{window}: this window already has a host ({owner}); a second one is refused")]
    Owned {
        /// What was opened.
        window: String,
        /// Who owns it.
        owner: String,
    },
    /// An option that no window can be laid out for.
    #[error("{option}: expected {expected}, got {got}")]
    InvalidConfig {
        /// The field of [`Options`](crate::Options).
        option: &'static str,
        /// The values it may have.
        expected: String,
        /// The value it has.
        got: String,
    },
    /// The link's window is shorter than the options need.
    #[error(
        "device {device}: expected a window of at least {needed} bytes, got {has}{}{missing}; ask for less heap or fewer \
         streams (Options), or give the device more memory",
        if missing.is_empty() { "" } else { ", without room for " }
    )]
    WindowTooShort {
        /// Its name.
        device: String,
        /// Bytes that the layout has.
        needed: u64,
        /// Bytes of the window.
        has: u64,
        /// The bytes of each section that it has no room for, with the options that shrink it; empty where the window is too short for
        /// what it was before.
        missing: String,
    },
    /// No room in the device's heap.
    #[error(
        "device {device}: no room for {wanted} bytes: {free} of {total} bytes are free, {deferred} more will be when calls \
         in flight are answered (a larger heap: Options::heap)"
    )]
    OutOfMemory {
        /// Its name.
        device: String,
        /// Bytes asked for.
        wanted: u64,
        /// Bytes not allocated (perhaps not in one piece).
        free: u64,
        /// Bytes of the heap.
        total: u64,
        /// Bytes whose buffers were dropped while calls name them.
        deferred: u64,
    },
    /// All numbers of devices are in use.
    #[error(
        "device {device}: {limit} devices are open in this process; drop some `Node`, with its streams and buffers, first"
    )]
    TooManyDevices {
        /// Its name.
        device: String,
        /// The limit.
        limit: u16,
    },
    /// All allocation records are in use.
    #[error("device {device}: all {limit} buffers are in use (Options::max_buffers)")]
    TooManyBuffers {
        /// Its name.
        device: String,
        /// How many there can be.
        limit: u32,
    },
    /// All queue pairs are in use.
    #[error("device {device}: all {limit} streams are in use (Options::streams)")]
    TooManyStreams {
        /// Its name.
        device: String,
        /// How many there can be.
        limit: u32,
    },
    /// A buffer pointer is not usable.
    #[error("device {device}: {why}")]
    Buffer {
        /// Its name.
        device: String,
        /// What is wrong with it.
        why: BufferError,
    },
    /// The device does not take, or give back, a module.
    #[error("device {device}: module {module}: {why}")]
    Module {
        /// Its name.
        device: String,
        /// The module's.
        module: String,
        /// Expected and got.
        why: String,
    },
    /// The device does not take another image. Unless `why` says that it is gone, the image that it
    /// runs goes on.
    #[error("device {device}: image {}: {why}", path.display())]
    LoadImage {
        /// Its name.
        device: String,
        /// The image's file.
        path: PathBuf,
        /// Expected and got.
        why: String,
    },
    /// Work of the host has no outcome.
    #[error("device {device}: no outcome of {stage}: {why}")]
    NoOutcome {
        /// Its name.
        device: String,
        /// What the work was.
        stage: &'static str,
        /// The message of its panic, for example.
        why: String,
    },
    /// The operating system reported an error.
    #[error("{what}: {source}")]
    Os {
        /// What was tried.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
}

impl Error {
    /// The error for a window too short for `layout`.
    pub(crate) fn too_short(device: &str, layout: &Layout, has: u64) -> Self {
        Self::WindowTooShort { device: device.into(), needed: layout.window_len(), has, missing: missing(layout, has) }
    }

    pub(crate) fn os(what: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> Self {
        let what = what.into();
        move |e| Self::Os { what, source: e.into() }
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Os { what, source }
    }
}

/// The bytes of each section that a window of `has` bytes has no room for, and the options that its size follows from.
pub(crate) fn missing(layout: &Layout, has: u64) -> String {
    let short = |section: &Section| {
        let missing = section.off.saturating_add(section.len).saturating_sub(has).min(section.len);
        let options = match section.kind {
            SectionKind::QUEUES => "streams",
            SectionKind::LINES => "streams, ring, tickets",
            SectionKind::CHUNKS => "streams, ring, tickets, chunk",
            SectionKind::TABLE => "table",
            SectionKind::LOG => "log",
            SectionKind::TASKS => "tasks, host_chunk",
            SectionKind::HEAP => "heap, segment",
            _ => "fixed",
        };
        (missing > 0).then(|| format!("{missing} of {} ({options})", section.kind.name()))
    };
    layout.sections().iter().filter_map(short).collect::<Vec<_>>().join(", ")
}

/// What is wrong with a buffer pointer.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BufferError {
    /// It names another device's memory.
    #[error("the buffer belongs to node {owner}, not to node {here}")]
    Foreign {
        /// The node it names.
        owner: u16,
        /// The node it was used on.
        here: u16,
    },
    /// Its buffer was freed.
    #[error("the buffer was freed (record {index}, generation {generation}): its `Buffer` is no longer alive")]
    Freed {
        /// Allocation record.
        index: u32,
        /// Generation that the pointer carries.
        generation: u16,
    },
    /// It reaches past its allocation, or more is moved than it has room for.
    #[error("{wanted} bytes do not fit: the buffer has {has}")]
    Overrun {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes there.
        has: u64,
    },
    /// A call that names it has not been answered.
    #[error("the buffer is named by a call in flight: get that call's result first, or use `Stream::put`, which waits")]
    Busy,
    /// A submitted transfer of it has not ended.
    #[error("the buffer is in a transfer that has not ended: wait for its `PendingWork` first")]
    InTransfer,
    /// Its bytes cannot be shared: this program does not map them.
    #[error("expected memory that this program maps, and the device's is reached by copies only: use `put` and `get`")]
    NotMapped,
    /// The device is back with other memory, such as that of another server: what it had is not there.
    #[error("the device has other memory than before it was lost: put all of the buffer first")]
    Lost,
    /// The connection to the device's memory has ended.
    #[error("the device's memory is not reached any more")]
    Unreachable,
    /// Another thread has copied from or to it, whose place this one cannot take.
    #[error(
        "another thread used the buffer last, and the system now refuses membarrier(2): allow that call, or copy on that thread"
    )]
    NoBarrier,
}

/// A call that was never sent.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The device has no such handler.
    #[error(
        "{site}: the image has no such handler; rebuild it with the crate that defines it, and `use` that crate in main.rs"
    )]
    MissingHandler {
        /// Where.
        site: Box<Site>,
    },
    /// The device has it with other argument or result types.
    #[error("{site}: the image was built with another signature of it; rebuild the image")]
    OtherSignature {
        /// Where.
        site: Box<Site>,
    },
    /// The device has only its signature.
    #[error("{site}: the image holds no body of it; build the image with the handler crate's feature `device`")]
    NoBody {
        /// Where.
        site: Box<Site>,
    },
    /// It is a handler of a module that is gone, or was found by its name in an image that is.
    #[error(
        "{site}: its module was unloaded, its image replaced, or the device began another epoch; load or find it again"
    )]
    Unloaded {
        /// Where.
        site: Box<Site>,
    },
    /// A buffer argument is not usable.
    #[error("{site}: {why}")]
    Buffer {
        /// Where.
        site: Box<Site>,
        /// What is wrong with it.
        why: BufferError,
    },
    /// Too many results are unread.
    #[error(
        "{site}: {limit} calls are in flight or unread (Options::max_outstanding, StreamOptions::max_outstanding); get or drop some of them"
    )]
    Full {
        /// Where.
        site: Box<Site>,
        /// The limit.
        limit: usize,
    },
    /// The handler is a task, and the device was opened without tickets.
    #[error(
        "{site}: a task needs a ticket, and the device was opened with none; open it with Options::tickets of at least 1"
    )]
    NoTickets {
        /// Where.
        site: Box<Site>,
    },
    /// The handler is a task, and those of the image that runs now have less stack than the stream was opened
    /// for ([`StreamOptions::task_stack`](crate::StreamOptions::task_stack)).
    #[error(
        "{site}: expected tasks with {needed} bytes of stack (StreamOptions::task_stack), those of the image that runs now have \
         {has} (`image!(task_stack = …)`)"
    )]
    TaskStack {
        /// Where.
        site: Box<Site>,
        /// Bytes that the stream's tasks need.
        needed: u32,
        /// Bytes of a task's stack; 0: the image runs none.
        has: u32,
    },
    /// The handler is a task, and the device's image runs none.
    #[error(
        "{site}: the image runs no tasks; build it with the feature `tasks` of hamr-device-fw, and `image!(tasks = …)` of at least 1"
    )]
    NoTasks {
        /// Where.
        site: Box<Site>,
    },
    /// The device has no place for another task; nothing ran.
    #[error("{site}: the device has no place for another task; get the result of an earlier one first")]
    QueueFull {
        /// Where.
        site: Box<Site>,
    },
    /// The arguments are longer than a message.
    #[error("{site}: the arguments are {len} bytes long, a message takes {limit}; pass a buffer")]
    TooLong {
        /// Where.
        site: Box<Site>,
        /// Bytes.
        len: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// The time that the device is to enforce is more than a message has room for.
    #[error(
        "{site}: expected a CallOptions::limit of at most 35 minutes, got {limit:?}; the device enforces no longer one"
    )]
    LongLimit {
        /// Where.
        site: Box<Site>,
        /// What was asked for.
        limit: Duration,
    },
    /// No heap memory for a message longer than a chunk.
    #[error("{site}: {why}")]
    NoRoom {
        /// Where.
        site: Box<Site>,
        /// The allocator's reason.
        why: String,
    },
    /// No line became free before the deadline.
    #[error("{site}: the deadline passed before a slot became free")]
    Deadline {
        /// Where.
        site: Box<Site>,
    },
    /// The device is gone.
    #[error("{site}: the device is gone: {why}")]
    DeviceLost {
        /// Where.
        site: Box<Site>,
        /// How it ended.
        why: String,
    },
}

impl SubmitError {
    /// Says which handler it was, of a call by name.
    pub(crate) fn rename(&mut self, handler: &str) {
        let site = match self {
            Self::MissingHandler { site }
            | Self::OtherSignature { site }
            | Self::NoBody { site }
            | Self::Unloaded { site }
            | Self::Buffer { site, .. }
            | Self::Full { site, .. }
            | Self::NoTickets { site }
            | Self::TaskStack { site, .. }
            | Self::NoTasks { site }
            | Self::QueueFull { site }
            | Self::TooLong { site, .. }
            | Self::LongLimit { site, .. }
            | Self::NoRoom { site, .. }
            | Self::Deadline { site }
            | Self::DeviceLost { site, .. } => site,
        };
        site.handler = handler.to_owned().into();
    }
}

/// Every way a call can end without its value. The parts are boxed: a result travels through the
/// caller's hands at every call, an error seldom.
#[derive(Clone)]
#[non_exhaustive]
pub enum CallError<E = Never> {
    /// The handler returned its own error.
    Handler(E),
    /// The handler panicked, was given a bad buffer, or returned a [`hamr_comm::Fault`].
    Fault(Box<FaultReport>),
    /// The deadline passed. The call may still run; its reply will be discarded.
    Deadline(Box<Site>),
    /// It was cancelled.
    Cancelled(Box<Site>),
    /// The device began a new epoch while the call was in flight.
    PeerReset(Box<Site>),
    /// The device is gone, and how it ended.
    DeviceLost(Box<Site>, Box<str>),
    /// The result did not fit the space reserved for it.
    ResultTooLong {
        /// Where.
        site: Box<Site>,
        /// Bytes the result has.
        needed: u64,
        /// Bytes of the longest result of this device ([`Limits::message`](crate::Limits::message)).
        limit: usize,
    },
    /// It was never sent.
    Submit(Box<SubmitError>),
    /// The device replied with a value that no device may publish.
    Corrupt(Box<Site>, Box<str>),
}

/// As [`Display`](fmt::Display): a `main` that returns an error, and `expect`, show this.
macro_rules! debug_as_display {
    ($($error:ty $(, $e:ident)?;)*) => {$(
        impl$(<$e: std::fmt::Debug>)? std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    )*};
}
pub(crate) use debug_as_display;

debug_as_display! {
    Error;
    BufferError;
    SubmitError;
    CallError<E>, E;
}

impl<E> From<SubmitError> for CallError<E> {
    fn from(e: SubmitError) -> Self {
        Self::Submit(Box::new(e))
    }
}

impl<E> CallError<E> {
    /// Says which handler it was, of a call by name.
    pub(crate) fn rename(&mut self, handler: &str) {
        let site = match self {
            Self::Handler(_) => return,
            Self::Submit(e) => return e.rename(handler),
            Self::Fault(report) => &mut report.site,
            Self::Deadline(site)
            | Self::Cancelled(site)
            | Self::PeerReset(site)
            | Self::DeviceLost(site, _)
            | Self::ResultTooLong { site, .. }
            | Self::Corrupt(site, _) => site,
        };
        site.handler = handler.to_owned().into();
    }
}

impl<E: fmt::Debug> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler(e) => write!(f, "the handler returned an error: {e:?}"),
            Self::Fault(report) => write!(f, "{report}"),
            Self::Deadline(site) => write!(f, "{site}: the deadline passed{}", site.waited()),
            Self::Cancelled(site) => write!(f, "{site}: cancelled"),
            Self::PeerReset(site) => write!(f, "{site}: the device was restarted"),
            Self::DeviceLost(site, why) => write!(f, "{site}: the device is gone: {why}"),
            Self::ResultTooLong { site, needed, limit } if *needed > *limit as u64 => write!(
                f,
                "{site}: the result has {needed} bytes, a message takes {limit}; let the handler write into a buffer"
            ),
            Self::ResultTooLong { site, needed, .. } => write!(
                f,
                "{site}: the result has {needed} bytes, more than was reserved (CallOptions::reply_capacity reserves more)"
            ),
            Self::Submit(e) => write!(f, "{e}"),
            Self::Corrupt(site, what) => write!(f, "{site}: the device sent {what}"),
        }
    }
}

impl<E: fmt::Debug> std::error::Error for CallError<E> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::InspectError;
    use crate::world::{ProgramError, WorldError};
    use hamr_comm::abi::ids::RankId;

    #[test]
    fn every_error_is_debugged_as_it_is_shown() {
        let lost =
            || WorldError { rank: RankId(2), name: "rank 2 (shm)".into(), why: "it ended".into(), code: Some(3) };
        let config = || Error::InvalidConfig { option: "heap", expected: "a number".into(), got: "none".into() };
        let buffer = BufferError::Foreign { owner: 1, here: 2 };
        let errors: [&dyn std::error::Error; 6] = [
            &config(),
            &buffer,
            &lost(),
            &ProgramError::Lost(lost()),
            &ProgramError::Start(config()),
            &InspectError::Map(config()),
        ];
        for error in errors {
            assert_eq!(format!("{error:?}"), error.to_string());
        }
    }
}
