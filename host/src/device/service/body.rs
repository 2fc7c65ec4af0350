//! Runs a body: what it is lent, and what a panic of it becomes.

use super::super::Device;
use crate::BufferError;
use crate::services::Services;
use hamr_comm::Fault;
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::Shared;
use hamr_comm::am::{HostCallInfo, HostReply, HostResponder};
use hamr_comm::fault::{TRACED_TEXT, Trace, cut, discard};
use hamr_comm::host::{Caller, Host, HostCall};
use hamr_comm::migrate::NamedBuffer;
use hamr_comm::registry::Table;
use std::any::{Any, TypeId};
use std::cell::{Cell, OnceCell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once, Weak};

thread_local! {
    /// Bodies that this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Of the last panic in a body: text and place.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Bodies that this thread is in.
pub(super) fn depth() -> u32 {
    DEPTH.get()
}

/// Where bodies find services. The node's come first.
pub(crate) struct ServiceSources {
    /// They end with their node: one of them may own a share of the device.
    pub(crate) node: Weak<Services>,
    pub(crate) runtime: Arc<Services>,
}

/// One call, as its body sees it.
struct Call<'c> {
    device: &'c Device,
    sources: &'c ServiceSources,
    /// The node's services, once the body has asked for one.
    node: OnceCell<Option<Arc<Services>>>,
    place: Option<u32>,
    info: HostCallInfo<'c>,
    saw_cancel: Cell<bool>,
}

impl HostCall for Call<'_> {
    fn service(&self, wanted: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        let node = self.node.get_or_init(|| self.sources.node.upgrade()).as_deref();
        node.and_then(|node| node.get(wanted)).or_else(|| self.sources.runtime.get(wanted))
    }
    fn caller(&self) -> Caller {
        Caller { node: self.device.id, place: self.place }
    }
    fn read(&self, from: NamedBuffer, to: &mut [u8]) -> Result<(), Fault> {
        self.device.memory.read_lent(from, to).map_err(refused)
    }
    fn write(&self, from: &[u8], to: NamedBuffer) -> Result<(), Fault> {
        self.device.memory.write_lent(from, to).map_err(refused)
    }
    fn cancelled(&self) -> bool {
        let cancelled = self.info.is_cancelled();
        self.saw_cancel.set(self.saw_cancel.get() || cancelled);
        cancelled
    }
    fn deadline_us(&self) -> u32 {
        self.info.deadline_us
    }
}

fn refused(why: BufferError) -> Fault {
    Fault::with_text(Status::BAD_BUFFER, &why.to_string())
}

/// Takes the next message of a queue and runs its body. `place`: of the task that waits for it.
pub(super) fn run_next(
    device: &Device,
    sources: &ServiceSources,
    table: Table,
    place: Option<u32>,
    queue: &mut HostResponder<Shared>,
) -> Option<HostReply> {
    static HOOK: Once = Once::new();
    HOOK.call_once(note_panics);
    queue.run_next(table, |entry, info, frame, args| {
        let call = Call { device, sources, node: OnceCell::new(), place, info, saw_cancel: Cell::new(false) };
        let mut reply = Err(None);
        DEPTH.set(DEPTH.get() + 1);
        device.open_queues.idle.in_body(&mut || {
            let body = AssertUnwindSafe(|| (entry.serve)(&mut Host::new(&call), frame, args));
            reply = catch_unwind(body).map_err(Some);
        });
        DEPTH.set(DEPTH.get() - 1);
        let reply = reply.unwrap_or_else(|payload| {
            payload.into_iter().for_each(discard);
            frame.traced_fault(Status::PANIC, &PANIC.take(), &Trace::NONE)
        });
        (reply, call.saw_cancel.get())
    })
}

/// Notes text and place of panics in bodies, beside what the program's own hook does.
fn note_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if DEPTH.get() != 0 {
            let text = info.payload_as_str().unwrap_or("panic");
            let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
            // A long message is cut, so that its location fits behind it.
            let (text, mark) = cut(text, TRACED_TEXT.saturating_sub(place.len()));
            PANIC.set(format!("{text}{mark}{place}"));
        }
        before(info);
    }));
}
