//! Instructions per call, on the host and on the device, in one thread, counted by callgrind: the
//! only number that does not vary between runs.
//!
//! The program runs itself under callgrind twice, with two numbers of calls; the difference is free
//! of start-up. Each counted part is a function of its own that is not inlined, so each number
//! includes a call and a return.
//!
//! A device does not poll once per call, but serves in a loop. In the rows of the loop each handler
//! sends the next request itself, so that the loop finds it by its next poll. What sending costs is
//! subtracted, but for the call.

use super::ahead::Ahead;
use super::callgrind::between;
use super::{BoxError, callgrind, gas_count, task_count, thread_count};
use hamr::link::{Capabilities, Link, Peer};
use hamr::{Node, Options, Pending, Runtime, SharedStream, Started, Stream};
use hamr_comm::abi::ids::HandlerKey;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::slot::{COUNT_BITS, ReqHdr, seq};
use hamr_comm::abi::table::record_flag;
use hamr_comm::abi::window::{DeviceWindow, Queue, Shared, Window};
use hamr_comm::am::{MAX_QUEUES, Poller, SlotAccess, Slots};
use hamr_comm::handler::{Entry, Handler};
use hamr_comm::handshake::{DeviceHandshake, DeviceProfile};
use hamr_comm::migrate::MAX_MESSAGE;
use hamr_comm::registry::Table;
use hamr_comm::{BufferPtr, Call, Context};
use hamr_kernels::bench::{empty, notice, sum_4, sum_14, sum_many};
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

/// Goals of an empty call: `sync` on the host, the serve loop on the device.
pub(crate) const GOALS: [f64; 2] = [40.0, 65.0];
const FEW: u64 = 1024;
const MANY: u64 = 2048;
/// Set by this program for its own run under callgrind.
const VARIABLE: &str = "HAMR_COUNT_CALLS";

/// The counted functions, and the description of each in the report.
const COUNTED: [(&str, &str); 44] = [
    ("host_submit", "start(empty)"),
    ("host_take", "its wait"),
    ("device_poll", "device, empty call found by one poll"),
    ("host_sync", "sync(empty), reply found by the first poll"),
    ("device_again", "device, one more empty call"),
    ("host_32b", "sync(32 B -> 8 B)"),
    ("device_32b", "device, 32 B -> 8 B"),
    ("host_112b", "sync(112 B -> 8 B)"),
    ("device_112b", "device, 112 B -> 8 B"),
    ("host_512b", "sync(vector of 512 B -> 8 B)"),
    ("device_512b", "device, vector of 512 B -> 8 B"),
    ("host_offload_512b", "offload(vector of 512 B -> 8 B)"),
    ("device_ring_512b", "device, one of these in the ring"),
    ("host_pointers", "sync(scalar, two pointers -> 4 B)"),
    ("device_pointers", "device, scalar, two pointers -> 4 B"),
    ("host_put_sync", "put_sync(64 B, notice(buffer))"),
    ("device_put_sync", "device, 64 B and notice(buffer)"),
    ("host_put", "put of 64 B"),
    ("host_put_8b", "put of 8 B"),
    ("host_get_8b", "get of 8 B"),
    ("host_heap", "allocate and drop of 64 B among 8,192 holes of the heap"),
    ("host_heap_4k", "the same of 4 KiB, which no hole has"),
    ("host_notify", "sync(notice(buffer))"),
    ("device_notify", "device, notice(buffer)"),
    ("host_shared", "SharedStream::sync(empty)"),
    ("threads_2", "sync(empty) of two threads at once"),
    ("host_offload", "offload(empty)"),
    ("host_get", "its wait"),
    ("device_ring", "device, one message of the ring"),
    ("host_send", "send(empty)"),
    ("device_one_way", "device, one one-way message"),
    ("host_send_batch", "send(empty), one of 16"),
    ("device_batch", "device, one of 16 one-way messages"),
    ("device_idle", "device, an idle round"),
    ("device_serve", "device, empty call in the serve loop"),
    ("device_serve_32b", "device, 32 B -> 8 B in the serve loop"),
    ("device_idle_64", "device, an idle round over 64 streams"),
    ("device_task", "device, an empty task"),
    ("device_turn", "device, a turn of a task that yields"),
    ("device_waiting", "device, a round while a task waits for the host"),
    ("device_host_call", "device, the host's reply, and the next call to it"),
    ("gas_request", "request_short to a rank"),
    ("gas_serve", "that rank's poll, and its reply"),
    ("gas_collect", "the poll that finds the reply"),
];
/// Streams of the last row.
const STREAMS: u32 = 64;
/// Holes of one line each between buffers, while the heap is counted.
const HOLES: usize = 8192;

/// Instructions per call of each of [`COUNTED`].
pub(crate) struct Counts(Vec<f64>);

impl Counts {
    fn of(&self, function: &str) -> f64 {
        COUNTED.iter().zip(&self.0).find(|((name, _), _)| *name == function).map_or(0.0, |(_, count)| *count)
    }

    /// One empty call by `sync`.
    pub(crate) fn host(&self) -> f64 {
        self.of("host_sync")
    }

    /// One empty call by `start` and `wait`.
    pub(crate) fn host_in_halves(&self) -> f64 {
        self.of("host_submit") + self.of("host_take")
    }

    /// One empty call by `sync` of one of two threads.
    pub(crate) fn of_two_threads(&self) -> f64 {
        self.of("threads_2")
    }

    /// A short request and its reply: the side that asks, and the one that answers.
    pub(crate) fn gas(&self) -> [f64; 2] {
        [self.of("gas_request") + self.of("gas_collect"), self.of("gas_serve")]
    }

    /// One call in the serve loop.
    pub(crate) fn device(&self) -> f64 {
        self.of("device_serve")
    }

    /// Function, description and count of each row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str, f64)> {
        COUNTED.iter().zip(&self.0).map(|((name, about), count)| (*name, *about, *count))
    }
}

type Words = heapless::Vec<u64, 128>;

/// A device in this thread, which only [`device_poll`] polls once it serves.
#[derive(Clone)]
struct ManualLink {
    window: Arc<Window<Shared>>,
    device: Arc<Mutex<DeviceStage>>,
}

enum DeviceStage {
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
        let profile = DeviceProfile {
            features: u32::MAX,
            board: "manual",
            memory: 0,
            pid: 0,
            build_id: [0; 20],
            tasks: 0,
            task_stack: 0,
            longest_message: 0,
            max_queues: MAX_QUEUES as u32,
            max_chunk: u32::MAX,
        };
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

pub(crate) type Flight<'s, 'n> = Started<'s, 'n, empty>;

#[inline(never)]
pub(crate) fn host_submit<'s, 'n>(stream: &'s Stream<'n>) -> Option<Flight<'s, 'n>> {
    stream.start(empty::with()).ok()
}

#[inline(never)]
fn device_poll(poller: &mut Poller<'static, Shared>) {
    std::hint::black_box(poller.poll());
}

#[inline(never)]
pub(crate) fn host_take(flight: Flight<'_, '_>) -> bool {
    flight.wait().is_ok()
}

// The call that programs make most. The reply is in the slot before the request is sent, so that
// the first poll finds it.

#[inline(never)]
fn host_sync(stream: &Stream<'_>) -> bool {
    stream.sync(empty::with()).is_ok()
}

#[inline(never)]
fn host_32b(stream: &Stream<'_>, a: u64) -> u64 {
    stream.sync(sum_4::with(a, 2, 3, 4)).unwrap_or(0)
}

#[inline(never)]
fn host_112b(stream: &Stream<'_>, a: &[u64; 14]) -> u64 {
    stream.sync(sum_14::with(*a)).unwrap_or(0)
}

#[inline(never)]
fn host_512b(stream: &Stream<'_>, words: &Words) -> u64 {
    stream.sync(sum_many::with(words.clone())).unwrap_or(0)
}

#[inline(never)]
fn host_offload_512b<'s, 'n>(stream: &'s Stream<'n>, words: &Words) -> Option<Pending<sum_many, &'s Stream<'n>>> {
    stream.offload(sum_many::with(words.clone())).ok()
}

#[inline(never)]
fn host_pointers(stream: &Stream<'_>, a: f32, x: BufferPtr<f32>, y: BufferPtr<f32>) -> u32 {
    stream.sync(Call::<Pointers>::new((a, x, y))).unwrap_or(1)
}

#[inline(never)]
fn host_put_sync(stream: &Stream<'_>, data: &[u32; 16], to: BufferPtr<u32>) -> u32 {
    stream.put_sync(data, to, notice::with(to)).unwrap_or(1)
}

#[inline(never)]
fn host_put(node: &Node, data: &[u32; 16], to: BufferPtr<u32>) -> bool {
    node.put(data, to).is_ok()
}

#[inline(never)]
fn host_put_8b(node: &Node, data: &[u64; 1], to: BufferPtr<u64>) -> bool {
    node.put(data, to).is_ok()
}

#[inline(never)]
fn host_get_8b(node: &Node, from: BufferPtr<u64>, data: &mut [u64; 1]) -> bool {
    node.get(from, data).is_ok()
}

#[inline(never)]
fn host_heap(node: &Node) -> bool {
    node.allocate::<u8>(64).is_ok()
}

#[inline(never)]
fn host_heap_4k(node: &Node) -> bool {
    node.allocate::<u8>(4096).is_ok()
}

#[inline(never)]
fn host_notify(stream: &Stream<'_>, to: BufferPtr<u32>) -> u32 {
    stream.sync(notice::with(to)).unwrap_or(1)
}

#[inline(never)]
fn host_shared(stream: &SharedStream) -> bool {
    stream.sync(empty::with()).is_ok()
}

#[inline(never)]
fn host_send(stream: &Stream<'_>) -> bool {
    stream.send(empty::with()).is_ok()
}

#[inline(never)]
fn host_offload<'s, 'n>(stream: &'s Stream<'n>) -> Option<Pending<empty, &'s Stream<'n>>> {
    stream.offload(empty::with()).ok()
}

#[inline(never)]
fn host_get(pending: Pending<empty, &Stream<'_>>) -> bool {
    pending.wait().is_ok()
}

#[inline(never)]
fn device_again(poller: &mut Poller<'static, Shared>) {
    // The number keeps the linker from merging this function with its like.
    device_poll(poller);
    std::hint::black_box(2_u64);
}

#[inline(never)]
fn device_32b(poller: &mut Poller<'static, Shared>) {
    device_poll(poller);
    std::hint::black_box(3_u64);
}

#[inline(never)]
fn device_112b(poller: &mut Poller<'static, Shared>) {
    device_poll(poller);
    std::hint::black_box(10_u64);
}

#[inline(never)]
fn device_512b(poller: &mut Poller<'static, Shared>) {
    device_poll(poller);
    std::hint::black_box(13_u64);
}

#[inline(never)]
fn device_ring_512b(poller: &mut Poller<'static, Shared>) {
    device_poll(poller);
    std::hint::black_box(14_u64);
}

#[inline(never)]
fn device_pointers(poller: &mut Poller<'static, Shared>) {
    device_poll(poller);
    std::hint::black_box(15_u64);
}

#[inline(never)]
fn device_put_sync(poller: &mut Poller<'static, Shared>) {
    device_poll(poller);
    std::hint::black_box(11_u64);
}

#[inline(never)]
fn device_notify(poller: &mut Poller<'static, Shared>) {
    device_poll(poller);
    std::hint::black_box(4_u64);
}

#[inline(never)]
fn device_ring(poller: &mut Poller<'static, Shared>) {
    device_poll(poller);
    std::hint::black_box(5_u64);
}

#[inline(never)]
fn host_send_batch(stream: &Stream<'_>) -> bool {
    (0..16).all(|_| stream.send(empty::with()).is_ok())
}

#[inline(never)]
fn device_batch(poller: &mut Poller<'static, Shared>) {
    device_poll(poller);
    std::hint::black_box(20_u64);
}

#[inline(never)]
fn device_one_way(poller: &mut Poller<'static, Shared>) {
    device_poll(poller);
    std::hint::black_box(9_u64);
}

// Not counted.
#[inline(never)]
fn device_shared(poller: &mut Poller<'static, Shared>) {
    device_poll(poller);
    std::hint::black_box(12_u64);
}

#[inline(never)]
fn device_idle(poller: &mut Poller<'static, Shared>) {
    device_poll(poller);
    std::hint::black_box(6_u64);
}

#[inline(never)]
fn device_idle_64(poller: &mut Poller<'static, Shared>) {
    device_poll(poller);
    std::hint::black_box(7_u64);
}

// The deployed serve loop's steps, until all requests were sent.

#[inline(never)]
fn device_serve(poller: &mut Poller<'static, Shared>) {
    while NEXT.with_borrow(Option::is_some) {
        std::hint::black_box(poller.serve());
    }
}

#[inline(never)]
fn device_serve_32b(poller: &mut Poller<'static, Shared>) {
    while NEXT.with_borrow(Option::is_some) {
        std::hint::black_box(poller.serve());
    }
    std::hint::black_box(8_u64);
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

#[inline(never)]
fn empty_again() {
    send_next();
}

#[inline(never)]
fn sum_again() {
    send_next();
    // As in `device_again`.
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

/// [`empty`], and sends the next request.
struct EmptyAgain;

impl Handler for EmptyAgain {
    const NAME: &'static str = "empty_again";
    const BODY: u64 = 0;
    const FLAGS: u32 = record_flag::HAS_BODY;
    type Kind = Context<'static>;
    type Args = ();
    type Output = ();
    #[inline(always)]
    fn run(cx: &mut Context<'_>, (): ()) {
        empty_again();
        empty(cx);
    }
}

/// [`sum_4`], and sends the next request.
struct SumAgain;

impl Handler for SumAgain {
    const NAME: &'static str = "sum_again";
    const BODY: u64 = 0;
    const FLAGS: u32 = record_flag::HAS_BODY;
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
struct Pointers;

impl Handler for Pointers {
    const NAME: &'static str = "pointers";
    const BODY: u64 = 0;
    const FLAGS: u32 = record_flag::HAS_BODY;
    type Kind = Context<'static>;
    type Args = (f32, BufferPtr<f32>, BufferPtr<f32>);
    type Output = u32;
    #[inline(always)]
    fn run(_cx: &mut Context<'_>, (a, x, y): Self::Args) -> u32 {
        a as u32 ^ x.len() as u32 ^ y.len() as u32
    }
}

/// The key of a handler of this table.
fn key(name: &str) -> Result<HandlerKey, BoxError> {
    let at = table().iter().position(|entry| entry.name == name).ok_or("a handler is missing")?;
    Ok(HandlerKey(at as u16))
}

/// In a process that was started to be counted: makes the calls and returns true.
#[inline(never)]
pub(crate) fn counted_run() -> Result<bool, BoxError> {
    let Ok(calls) = std::env::var(VARIABLE) else { return Ok(false) };
    let calls: u64 = calls.parse()?;
    // If the device misses a call in its one poll, the host stops waiting after this time.
    let deadline = Some(std::time::Duration::from_secs(5));
    let options =
        Options { heap: 1 << 22, streams: Some(STREAMS), ring: 64, chunk: 1024, deadline, ..Options::default() };
    let (host, device) = super::both_ends(1 << 25)?;
    let host = Arc::new(host);
    let device = Arc::new(Mutex::new(DeviceStage::Greeting(Some(device), Box::new(DeviceHandshake::Waiting))));
    let link = ManualLink { window: host.clone(), device: device.clone() };
    let node = Runtime::new()?.attach("manual", Box::new(link), options)?;
    let stream = node.stream()?;
    let mut device = device.lock().unwrap_or_else(PoisonError::into_inner);
    let DeviceStage::Serving(poller, layout) = &mut *device else { return Err("the device does not serve".into()) };
    let ahead_of = |number| Ahead::new(&host, layout, number);
    let mut ahead = ahead_of(1)?;
    let buffer = node.buffer(&[0u32; 16])?;
    // One kind after the other, so that each call is counted among calls of its kind.
    let failed = || -> BoxError { "a call failed".into() };
    for _ in 0..calls {
        ahead.skip();
        let flight = host_submit(&stream).ok_or("not submitted")?;
        device_poll(poller);
        if !host_take(flight) {
            return Err(failed());
        }
    }
    for _ in 0..calls {
        ahead.answer(0);
        if !host_sync(&stream) {
            return Err(failed());
        }
        device_again(poller);
    }
    for i in 0..calls {
        ahead.answer(8);
        host_32b(&stream, i);
        device_32b(poller);
    }
    for i in 0..calls {
        ahead.answer(8);
        host_112b(&stream, &[i; 14]);
        device_112b(poller);
    }
    let words: Words = (0..64).collect();
    for _ in 0..calls {
        ahead.answer(8);
        host_512b(&stream, &words);
        device_512b(poller);
    }
    let floats = node.buffer(&[0f32; 16])?;
    for i in 0..calls {
        ahead.answer(4);
        host_pointers(&stream, i as f32, floats.ptr(), floats.ptr());
        device_pointers(poller);
    }
    for i in 0..calls {
        ahead.answer(4);
        host_put_sync(&stream, &[i as u32; 16], buffer.ptr());
        device_put_sync(poller);
    }
    for i in 0..calls {
        if !host_put(&node, &[i as u32; 16], buffer.ptr()) {
            return Err(failed());
        }
        ahead.answer(4);
        host_notify(&stream, buffer.ptr());
        device_notify(poller);
    }
    let value = node.buffer(&[0u64])?;
    for i in 0..calls {
        if !host_put_8b(&node, &[i], value.ptr()) || !host_get_8b(&node, value.ptr(), &mut [0]) {
            return Err(failed());
        }
    }
    let mut buffers = (0..2 * HOLES).map(|_| node.allocate::<u8>(64)).collect::<Result<Vec<_>, _>>()?;
    let mut is_kept = false;
    buffers.retain(|_| {
        is_kept = !is_kept;
        is_kept
    });
    for _ in 0..calls {
        if !host_heap(&node) || !host_heap_4k(&node) {
            return Err(failed());
        }
    }
    drop(buffers);
    for _ in 0..calls {
        let pending = host_offload(&stream).ok_or("not submitted")?;
        device_ring(poller);
        if !host_get(pending) {
            return Err(failed());
        }
    }
    for _ in 0..calls {
        let pending = host_offload_512b(&stream, &words).ok_or("not submitted")?;
        device_ring_512b(poller);
        pending.wait().map_err(|e| e.to_string())?;
    }
    for _ in 0..calls {
        if !host_send(&stream) {
            return Err(failed());
        }
        device_one_way(poller);
    }
    for _ in 0..calls.div_ceil(16) {
        if !host_send_batch(&stream) {
            return Err(failed());
        }
        device_batch(poller);
    }
    for _ in 0..calls {
        device_idle(poller);
    }
    // A stream that the host does not use itself.
    let _open = node.stream()?;
    let slots = || host.queue(&layout.queue(&host, 2).map_err(|e| format!("{e:?}"))?).map_err(BoxError::from);
    let hdr = ReqHdr::inline(key(EmptyAgain::NAME)?, 0);
    NEXT.set(Some(Sender { slots: slots()?, hdr, count: 0, left: calls }));
    send_next();
    device_serve(poller);
    let hdr = ReqHdr::inline(key(SumAgain::NAME)?, 32);
    NEXT.set(Some(Sender { slots: slots()?, hdr, count: calls as u32, left: calls }));
    send_next();
    device_serve_32b(poller);
    let shared = node.shared_stream()?;
    let mut ahead = ahead_of(3)?;
    for _ in 0..calls {
        ahead.answer(0);
        if !host_shared(&shared) {
            return Err(failed());
        }
        device_shared(poller);
    }
    let pair = [(node.stream()?, ahead_of(4)?), (node.stream()?, ahead_of(5)?)];
    let _pair = thread_count::run(pair, calls, host_sync)?;
    let _streams = (5..STREAMS).map(|_| node.stream()).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..calls {
        device_idle_64(poller);
    }
    gas_count::run(calls)?;
    task_count::run(calls)?;
    Ok(true)
}

/// Counts; where callgrind is missing, the reason.
pub(crate) fn count() -> Result<Result<Counts, String>, BoxError> {
    if !callgrind::is_installed() {
        return Ok(Err("valgrind is not installed (`apt-get install valgrind`)".into()));
    }
    let run = |calls: u64| callgrind::profile(VARIABLE, &calls.to_string());
    let (few, many) = (run(FEW)?, run(MANY)?);
    let per_call = |(function, _): &(&str, &str)| {
        let inside = |profile: &str| {
            inclusive(profile, function).ok_or_else(|| format!("callgrind gave no count for {function}"))
        };
        Ok((inside(&many)? - inside(&few)?) as f64 / (MANY - FEW) as f64)
    };
    Ok(Ok(Counts(COUNTED.iter().map(per_call).collect::<Result<_, BoxError>>()?)))
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

/// Instructions inside of `function`, all calls together; of a poll, those that a function of
/// [`COUNTED`] makes.
fn inclusive(profile: &str, function: &str) -> Option<u64> {
    match function {
        "device_poll" => between(profile, "counted_run", function),
        "device_serve" | "device_serve_32b" => {
            let sent = if function == "device_serve" { "empty_again" } else { "sum_again" };
            Some(between(profile, "counted_run", function)? - between(profile, "thunk", sent)?)
        }
        "device_task" | "device_turn" | "device_waiting" | "device_host_call" => {
            between(profile, "tasks_counted", function)
        }
        poll if poll.starts_with("device_") => between(profile, poll, "device_poll"),
        "threads_2" => between(profile, "threads_counted", "host_sync"),
        gas if gas.starts_with("gas_") => between(profile, "gas_counted", gas),
        host => between(profile, "counted_run", host),
    }
}
