//! A device in this thread, which polls only when the counted run has it poll, with handlers that send the next request
//! themselves.

use super::BoxError;
use hamr::link::{Capabilities, Link, Peer};
use hamr_comm::abi::ids::HandlerKey;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::slot::{COUNT_BITS, ReqHdr, seq};
use hamr_comm::abi::window::{DeviceWindow, Queue, Shared, Window};
use hamr_comm::am::{MAX_QUEUES, Poller, SlotAccess, Slots};
use hamr_comm::handler::{Entry, Handler};
use hamr_comm::handshake::{DeviceHandshake, DeviceProfile};
use hamr_comm::migrate::MAX_MESSAGE;
use hamr_comm::registry::Table;
use hamr_comm::{BufferPtr, Context};
use hamr_kernels::bench::{empty, notice, sum_4, sum_14, sum_many};
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

/// Its link. Once the device serves, only the counted run polls it.
#[derive(Clone)]
pub(super) struct ManualLink {
    pub(super) window: Arc<Window<Shared>>,
    pub(super) device: Arc<Mutex<DeviceStage>>,
}

pub(super) enum DeviceStage {
    Greeting(Option<DeviceWindow<Shared>>, Box<DeviceHandshake>),
    Serving(Box<Poller<'static, Shared>>, Box<Layout>),
}

impl Link for ManualLink {
    fn kind(&self) -> &str {
        "manual"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
    fn window(&self) -> &Window<Shared> {
        &self.window
    }
    fn notify(&self) {}
    fn wait(&self, _max_us: u32) {
        let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        let DeviceStage::Greeting(window, handshake) = &mut *device else { return };
        let Some(own) = window.take() else { return };
        let table = table();
        let profile = DeviceProfile::new("manual", u32::MAX, MAX_QUEUES as u32);
        handshake.step(&own, table, &profile);
        let DeviceHandshake::Serving(a) = **handshake else {
            *window = Some(own);
            return;
        };
        if let Ok(poller) = Poller::new(own, &a, table, vec![0; MAX_MESSAGE].leak()) {
            DeviceHandshake::announce(poller.window());
            *device = DeviceStage::Serving(Box::new(poller), Box::new(a.layout));
        }
    }
    fn peer(&self) -> Peer {
        Peer::Alive
    }
    fn stop(&self, _limit: std::time::Duration) {}
}

/// Requests that a handler sends while it runs, in the hot slot of its own stream. The requester's
/// half of the slot is written only; the reply follows in the other half.
struct Sender {
    slots: Queue<Shared>,
    hdr: ReqHdr,
    count: u32,
    left: u64,
}

thread_local! {
    static NEXT: RefCell<Option<Sender>> = const { RefCell::new(None) };
}

/// Sends the first of `calls` requests and one more; their handler sends the others. The stream has made `count` calls.
#[inline(always)]
pub(super) fn begin(slots: Queue<Shared>, hdr: ReqHdr, count: u32, calls: u64) {
    NEXT.set(Some(Sender { slots, hdr, count, left: calls }));
    send_next();
}

/// Are there requests to come?
#[inline(always)]
pub(super) fn is_sending() -> bool {
    NEXT.with_borrow(Option::is_some)
}

#[inline(never)]
fn empty_again() {
    send_next();
}

#[inline(never)]
fn sum_again() {
    send_next();
    // The number keeps the linker from merging this function with its like.
    std::hint::black_box(2_u64);
}

#[inline(always)]
fn send_next() {
    NEXT.with_borrow_mut(|next| match next {
        Some(sender) if sender.left != 0 => {
            sender.left -= 1;
            sender.count += 1;
            sender.slots.hot().publish_request(sender.hdr.0, seq(1, sender.count, COUNT_BITS));
        }
        _ => *next = None,
    });
}

/// [`empty()`], and sends the next request.
pub(super) struct EmptyAgain;

impl Handler for EmptyAgain {
    const NAME: &'static str = "empty_again";
    type Kind = Context<'static>;
    type Args = ();
    type Output = ();
    #[inline(always)]
    fn run(cx: &mut Context<'_>, (): ()) {
        empty_again();
        empty(cx);
    }
}

/// [`sum_4()`], and sends the next request.
pub(super) struct SumAgain;

impl Handler for SumAgain {
    const NAME: &'static str = "sum_again";
    type Kind = Context<'static>;
    type Args = (u64, u64, u64, u64);
    type Output = u64;
    #[inline(always)]
    fn run(cx: &mut Context<'_>, (a, b, c, d): Self::Args) -> u64 {
        let sum = sum_4(cx, a, b, c, d);
        sum_again();
        sum
    }
}

/// A scalar and two buffers: what handlers over arrays have.
pub(super) struct Pointers;

impl Handler for Pointers {
    const NAME: &'static str = "pointers";
    type Kind = Context<'static>;
    type Args = (f32, BufferPtr<f32>, BufferPtr<f32>);
    type Output = u32;
    #[inline(always)]
    fn run(_cx: &mut Context<'_>, (a, x, y): Self::Args) -> u32 {
        a as u32 ^ x.len() as u32 ^ y.len() as u32
    }
}

/// The key of a handler of this table.
pub(super) fn key(name: &str) -> Result<HandlerKey, BoxError> {
    let at = table().iter().position(|entry| entry.name == name).ok_or("a handler is missing")?;
    Ok(HandlerKey(at as u16))
}

/// The device's handlers.
fn table() -> Table {
    static OWN: [Entry; 8] = [
        Entry::of::<empty>(),
        Entry::of::<notice>(),
        Entry::of::<sum_4>(),
        Entry::of::<sum_14>(),
        Entry::of::<sum_many>(),
        Entry::of::<Pointers>(),
        Entry::of::<EmptyAgain>(),
        Entry::of::<SumAgain>(),
    ];
    Table::of(Table::of_this_image().iter().chain(&OWN).collect())
}
