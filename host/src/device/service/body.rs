//! Runs a body: what it is lent, and what a panic of it becomes.

use super::super::Device;
use crate::BufferError;
use crate::memory::DeviceMemory;
use crate::services::Services;
use hamr_comm::Fault;
use hamr_comm::abi::ids::{Epoch, NodeId};
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
use std::sync::atomic::Ordering;
use std::sync::{Arc, Once, PoisonError, Weak};

thread_local! {
    /// The body that this thread runs.
    static HERE: Cell<Here> = const { Cell::new(Here { caller: 0, depth: 0, has_panicked: false }) };
    /// Those that called the bodies around that one.
    static OUTER: RefCell<Vec<u16>> = const { RefCell::new(Vec::new()) };
    /// Of the last panic in the innermost body that had one: text and place.
    static PANIC: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// What a thread knows of the innermost body that it is in.
#[derive(Clone, Copy)]
struct Here {
    /// The device that called it; 0: there is none.
    caller: u16,
    /// Bodies that this thread is in.
    depth: u16,
    /// `PANIC` is of this body.
    has_panicked: bool,
}

/// Bodies that this thread is in.
pub(super) fn depth() -> u16 {
    HERE.get().depth
}

/// Does this thread run a body, inside of others or not, for a call of such a device?
pub(crate) fn is_called_by(is: impl Fn(NodeId) -> bool) -> bool {
    let Here { caller, .. } = HERE.get();
    // An error means that the thread is ending, likewise below.
    let is_outer = || OUTER.try_with(|outer| outer.borrow().iter().any(|caller| is(NodeId(*caller)))).unwrap_or(false);
    caller != 0 && (is(NodeId(caller)) || is_outer())
}

/// Where bodies find services. The node's come first.
pub(crate) struct ServiceSources {
    /// They end with their node: one of them may own a share of the device.
    pub(crate) node: Weak<Services>,
    /// They end with their runtime: likewise.
    pub(crate) runtime: Weak<Services>,
}

/// One call, as its body sees it.
struct Call<'c> {
    device: &'c Device,
    sources: &'c ServiceSources,
    /// The services of node and runtime, once the body has asked for one that is there.
    services: [OnceCell<Option<Arc<Services>>>; 2],
    place: Option<u32>,
    epoch: Epoch,
    info: HostCallInfo<'c>,
    saw_cancel: Cell<bool>,
}

impl HostCall for Call<'_> {
    fn service(&self, wanted: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        let ServiceSources { node, runtime } = self.sources;
        self.services
            .iter()
            .zip([node, runtime])
            .find_map(|(services, of)| services.get_or_init(|| of.upgrade()).as_ref()?.get(wanted))
    }
    fn caller(&self) -> Caller {
        Caller { node: self.device.id, place: self.place }
    }
    fn read(&self, from: NamedBuffer, to: &mut [u8]) -> Result<(), Fault> {
        self.copy(|memory| memory.read_lent(from, to))
    }
    fn write(&self, from: &[u8], to: NamedBuffer) -> Result<(), Fault> {
        self.copy(|memory| memory.write_lent(from, to))
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

impl Call<'_> {
    /// A body may outlive the epoch of its call: the buffers are the next one's then.
    fn copy(&self, copy: impl FnOnce(&DeviceMemory) -> Result<(), BufferError>) -> Result<(), Fault> {
        let refused = |why: &str| Fault::with_text(Status::BAD_BUFFER, why);
        let _copying = self.device.service.copying.read().unwrap_or_else(PoisonError::into_inner);
        if self.device.epoch.load(Ordering::Acquire) != self.epoch.0 {
            return Err(refused("the device's epoch in which this was called is over"));
        }
        copy(&self.device.memory).map_err(|why| refused(&why.to_string()))
    }
}

/// Takes the next message of a queue and runs its body. `place`: of the task that waits for it.
pub(super) fn run_next(
    device: &Device,
    sources: &ServiceSources,
    table: Table,
    place: Option<u32>,
    queue: &mut HostResponder<Shared>,
) -> Option<HostReply> {
    watch_panics();
    let epoch = queue.epoch();
    queue.run_next(table, |entry, info, frame, args| {
        let (services, saw_cancel) = ([const { OnceCell::new() }; 2], Cell::new(false));
        let call = Call { device, sources, services, place, epoch, info, saw_cancel };
        let mut reply = Err(None);
        let outer = HERE.get();
        HERE.set(Here { caller: device.id.0, depth: outer.depth + 1, has_panicked: false });
        // An error means that the thread is ending.
        let outer_panic = outer.has_panicked.then(take_panic);
        if outer.depth != 0 {
            let _ = OUTER.try_with(|callers| callers.borrow_mut().push(outer.caller));
        }
        device.open_queues.idle.in_body(&mut || {
            let body = AssertUnwindSafe(|| (entry.serve)(&mut Host::new(&call), frame, args));
            reply = catch_unwind(body).map_err(Some);
        });
        let noted = HERE.replace(outer).has_panicked.then(take_panic).flatten();
        if let Some(panic) = outer_panic {
            let _ = PANIC.try_with(|noted| noted.replace(panic));
        }
        if outer.depth != 0 {
            let _ = OUTER.try_with(|callers| callers.borrow_mut().pop());
        }
        let reply = reply.unwrap_or_else(|payload| {
            let text = payload.as_deref().map_or("panic", text_of);
            // The last panic is another one where the body caught that, and began this one without a hook.
            let place = noted.filter(|(noted, _)| noted == text).map_or(String::new(), |(_, place)| place);
            // A long message is cut, so that its location fits behind it.
            let (text, mark) = cut(text, TRACED_TEXT.saturating_sub(place.len()));
            let text = format!("{text}{mark}{place}");
            payload.into_iter().for_each(discard);
            frame.traced_fault(Status::PANIC, &text, &Trace::NONE)
        });
        (reply, call.saw_cancel.get())
    })
}

/// What was noted of a panic; nothing where the thread is ending.
#[cold]
fn take_panic() -> Option<(String, String)> {
    PANIC.try_with(RefCell::take).unwrap_or_default()
}

/// What a panic says.
fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic")
}

/// Has the text and place of panics in bodies noted. By the thread that opens the device, since one that
/// unwinds must not change the hook; until another one does, the text is the payload's.
pub(super) fn watch_panics() {
    static HOOK: Once = Once::new();
    if !HOOK.is_completed() && !std::thread::panicking() {
        HOOK.call_once(note_panics);
    }
}

/// Notes text and place of panics in bodies, beside what the program's own hook does.
fn note_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let here = HERE.get();
        if here.depth != 0 {
            let text = info.payload_as_str().unwrap_or("panic");
            let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
            // An error means that the thread is ending.
            let _ = PANIC.try_with(|noted| noted.replace(Some((text.into(), place))));
            HERE.set(Here { has_panicked: true, ..here });
        }
        before(info);
    }));
}
