//! The calls whose instructions are counted (`counts`), on the host and on the device, in one thread. Each counted part is a
//! function of its own that is not inlined, so each number includes a call and a return.
//!
//! A device does not poll once per call, but serves in a loop. In the rows of the loop each handler
//! sends the next request itself, so that the loop finds it by its next poll. What sending costs is
//! subtracted, but for the call.

use super::ahead::Ahead;
use super::manual::{DeviceStage, EmptyAgain, ManualLink, Pointers, SumAgain, key};
use super::{BoxError, gas_count, manual, task_count, thread_count};
use hamr::{Node, Options, Pending, Runtime, SharedStream, Started, Stream};
use hamr_comm::abi::slot::ReqHdr;
use hamr_comm::abi::window::Shared;
use hamr_comm::am::Poller;
use hamr_comm::handler::Handler;
use hamr_comm::handshake::DeviceHandshake;
use hamr_comm::{BufferPtr, Call};
use hamr_kernels::bench::{empty, notice, sum_4, sum_14, sum_many};
use std::sync::{Arc, Mutex, PoisonError};

/// Set by this program for its own run under callgrind.
pub(super) const VARIABLE: &str = "HAMR_COUNT_CALLS";

/// Streams of the last row.
const STREAMS: u32 = 64;
/// Holes of one line each between buffers, while the heap is counted.
const HOLES: usize = 8192;

type Words = heapless::Vec<u64, 128>;

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
    while manual::is_sending() {
        std::hint::black_box(poller.serve());
    }
}

#[inline(never)]
fn device_serve_32b(poller: &mut Poller<'static, Shared>) {
    while manual::is_sending() {
        std::hint::black_box(poller.serve());
    }
    std::hint::black_box(8_u64);
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
    manual::begin(slots()?, hdr, 0, calls);
    device_serve(poller);
    let hdr = ReqHdr::inline(key(SumAgain::NAME)?, 32);
    manual::begin(slots()?, hdr, calls as u32, calls);
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
