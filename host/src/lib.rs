//! hamr: call functions on a device. The host half: start a device, load its image, call its
//! handlers, move data.
//!
//! ```no_run
//! # use hamr_comm::{offload, BufferPtr, Context, Fault};
//! # #[offload] pub fn axpy(cx: &mut Context, a: f64, x: BufferPtr<f64>, y: BufferPtr<f64>) -> Result<(), Fault> { Ok(()) }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dev = hamr::Runtime::new()?.open("shm", hamr::Image::find("my-image")?)?;
//! let (x, y) = (dev.buffer(&[1.0, 2.0])?, dev.buffer(&[3.0, 4.0])?);
//! dev.sync(axpy::with(2.0, x.ptr(), y.ptr()))?;
//! dev.put_sync(&[5.0, 6.0], x.ptr(), axpy::with(2.0, x.ptr(), y.ptr()))?;
//! # Ok(()) }
//! ```
//!
//! - [`Runtime`] opens devices by name; a [`Launcher`] per kind starts them.
//! - [`Node`] is one device (`Send + Sync`): calls, buffers, transfers. Its calls use a stream of
//!   the calling thread.
//! - [`Stream`] is one ordered sequence of calls (`Send`, not `Sync`): the fast way to call.
//!   [`SharedStream`] is the locked kind that threads share. All of them have the same methods.
//! - [`PendingWork`] is a transfer that was submitted ([`Node::put_async`]), or a function of the host
//!   in stream order ([`SharedStream::run_on_host`]), with the same methods as a [`Pending`].
//! - [`Pending`] and [`Started`] are calls in flight: `is_done`, `wait`, `wait_timeout`; dropping
//!   one detaches the call. A [`Pending`] is a future; [`WakeFd`] is for programs with `epoll`.
//!
//! | verb | waits | result | costs |
//! |---|---|---|---|
//! | [`sync`](Stream::sync) | until the result is there | returned | one round trip in the hot slot |
//! | [`put_sync`](Stream::put_sync) | as `sync` | returned | as `sync`, with 64 bytes of data; with more, a put before it |
//! | [`start`](Stream::start), of a stream only | in `wait` | [`Started`] | as `sync`; one at a time |
//! | [`offload`](Stream::offload) | in `wait`, or for a free slot | [`Pending`] | a ring slot and a completion entry |
//! | [`send`](Stream::send) | for a free slot only | none; failures are counted | a ring slot |
//!
//! A program may leave the start to [`main`](macro@main); [`Setting`] is an option from outside.
//!
//! Handlers are written with the crate `hamr-comm`; what this crate's own signatures name of it is
//! re-exported here.
//!
//! Features, all by default: `device-logs`, the lines that devices log ([`logs`]); `cli`, the command line of `hamr` as a
//! function ([`cli`]); `qemu`, devices that are machines in QEMU ([`qemu`]). Pages named `docs/…` are in the repository.
//!
//! Who may depend on it: host programs, `host/cli`, `tests`. It depends on `hamr-comm`, never on
//! handler crates.

// A stream that is closed or full must not end a program by a panic: `io::{print, note}`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub use hamr_comm::abi::ids::{Isa, NodeId, RankId};
pub use hamr_comm::abi::image::ImageKind;
pub use hamr_comm::abi::rings::LogLevel;
pub use hamr_comm::abi::version::AbiVersion;
pub use hamr_comm::abi::window::Words;
pub use hamr_comm::{BufferPtr, Call, Element, ErrorOf, Handler, Never, ValueOf};
pub use hamr_comm_macros::main;

mod at;
mod background;
mod build_id;
mod builder;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod cases;
#[cfg(feature = "cli")]
pub mod cli;
mod debugger;
mod device;
mod doorbells;
mod error;
mod fault;
pub mod gdb;
mod image;
pub mod inspect;
pub mod io;
mod keys;
mod launcher;
pub mod link;
mod lock;
#[cfg(feature = "device-logs")]
mod log_ring;
#[cfg(feature = "device-logs")]
pub mod logs;
mod mapping;
mod memfd;
mod memory;
pub mod mirror;
mod node;
mod node_number;
mod options;
pub mod pci;
mod process;
mod processors;
mod program;
#[cfg(feature = "qemu")]
pub mod qemu;
mod reactor;
mod relay;
mod runtime;
pub mod serve;
mod services;
mod settings;
mod shm;
mod site;
pub mod start;
mod stream;
mod symbols;
mod target;
mod task_info;
mod task_lines;
#[cfg(feature = "net")]
pub mod tcp;
mod text;
mod thread;
mod transfer;
mod unified;
mod untyped;
mod wait_queue;
mod wake_fd;
mod warning;
mod window;
pub mod world;

pub use background::PendingWork;
pub use build_id::BuildId;
pub use builder::{BuildRequest, build};
pub use error::{BufferError, CallError, Error, SubmitError};
pub use fault::{CrashReport, FaultReport};
pub use image::{Image, ImageFile};
pub use keys::HandlerInfo;
pub use launcher::{Home, LaunchRequest, Launcher, LoopbackLauncher};
pub use memory::{MemoryChange, MemoryEvent, MemoryHook};
pub use node::{Buffer, Chain, DeviceInfo, Features, HandlerFn, Limits, Module, Named, Node, NodeState, chain};
pub use options::{Options, WaitMode};
pub use runtime::Runtime;
pub use settings::Setting;
pub use shm::ShmLauncher;
pub use site::Site;
pub use stream::{
    CallOptions, LocalStream, Pending, RequestBlock, SharedStream, Started, Stream, StreamInfo, StreamOptions,
    StreamRef, StreamState,
};

pub use symbols::{Backtrace, BacktraceFrame, SourceLine};
pub use target::Target;
pub use task_info::{TaskInfo, TaskWait};
pub use transfer::{Scope, Transfer};
pub use unified::{Memory, MemoryMut, copy};
pub use wake_fd::WakeFd;
pub use warning::Warning;
pub use world::{RunError, Stalled, StartedRun, World, WorldError, WorldOptions};

/// For layers above, whose programs serve a section of a device's window.
#[doc(hidden)]
pub mod side {
    pub use crate::device::side::{Closer, SideEnds};
    pub use crate::lock::lock_within;
    pub use crate::memory::Ranges;
}

// Threads share a node and own their streams; a shared stream's calls move between them.
static_assertions::assert_impl_all!(Node: Send, Sync);
static_assertions::assert_impl_all!(Stream<'static>: Send);
static_assertions::assert_not_impl_any!(Stream<'static>: Sync);
static_assertions::assert_impl_all!(SharedStream: Send, Sync);
static_assertions::assert_impl_all!(Pending<hamr_comm::builtin::ping, SharedStream>: Send);
