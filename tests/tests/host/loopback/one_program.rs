//! Host and device are one program: bodies of the host beside handlers with views, devices inside of devices.

use super::*;
use hamr_comm::{HOST, Host};
use hamr_tests::conformance::until;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

static VIEWED: AtomicBool = AtomicBool::new(false);
static WROTE: AtomicU32 = AtomicU32::new(0);

#[offload]
fn scribbles(cx: &mut Host, x: BufferPtr<u32>) {
    until("a handler views it", || VIEWED.load(Ordering::Acquire));
    let wrote = cx.write(&[9u32], x).is_ok();
    let mut read = [0];
    let read = cx.read(x, &mut read).is_ok() && read == [9];
    WROTE.store(1 + u32::from(wrote) + u32::from(read), Ordering::Release);
}

#[offload]
fn names_it(cx: &mut Context, x: BufferPtr<u32>) -> Result<(), Fault> {
    cx.send(HOST, scribbles::with(x)).map_err(|_| Fault::msg("not sent"))
}

#[offload]
fn views_it(cx: &mut Context, x: BufferPtr<u32>) -> Result<u32, Fault> {
    let view = cx.view_mut(x)?;
    view[0] = 1;
    VIEWED.store(true, Ordering::Release);
    let begin = Instant::now();
    while WROTE.load(Ordering::Acquire) == 0 && begin.elapsed() < Duration::from_millis(300) {
        std::thread::yield_now();
    }
    Ok(view[0])
}

/// A body that a worker runs writes nothing below a view of a running handler, whichever buffers that call names: it
/// waits for the handler's end.
#[test]
fn a_body_does_not_write_below_a_view() {
    let node = open(options());
    let buffer = node.buffer(&[0u32; 16]).expect("room");
    node.sync(names_it::with(buffer.ptr())).expect("runs");
    let seen = node.sync(views_it::with(buffer.ptr())).expect("runs");
    assert_eq!(seen, 1, "what a `&mut [u32]` refers to was changed by another thread");
    until("the body has written", || WROTE.load(Ordering::Acquire) != 0);
    assert_eq!(WROTE.load(Ordering::Acquire), 3, "it writes and reads behind the handler's end");
    until("it is free", || buffer.read().is_ok());
    assert_eq!(buffer.read().expect("there")[0], 9);
}

static INNER: Mutex<Option<Arc<Node>>> = Mutex::new(None);
static NOTED: AtomicU64 = AtomicU64::new(0);

#[offload]
fn note_caller(cx: &mut Host, value: u64) {
    NOTED.store(value << 32 | u64::from(cx.node().0), Ordering::Release);
}

/// Calls another device of this process, then leaves a message for the host.
#[offload]
fn asks_inner_then_sends(cx: &mut Context) -> u64 {
    let inner = INNER.lock().ok().and_then(|inner| inner.clone());
    let echoed = inner.map_or(0, |inner| inner.sync(echo::with(3u64)).unwrap_or(0));
    let sent = cx.send(HOST, note_caller::with(77)).is_ok();
    echoed * 10 + u64::from(sent)
}

/// The message comes, and from the device whose handler sent it.
#[test]
fn a_message_behind_a_call_of_another_device_is_its_own() {
    let (outer, inner) = (open(options()), Arc::new(open(options())));
    *INNER.lock().expect("free") = Some(inner.clone());
    let wait = |who: u16| {
        let begin = Instant::now();
        while NOTED.load(Ordering::Acquire) == 0 && begin.elapsed() < Duration::from_secs(3) {
            let _ = (outer.ping(), inner.ping());
            std::thread::sleep(Duration::from_millis(5));
        }
        let noted = NOTED.swap(0, Ordering::AcqRel);
        (noted >> 32 == 77, noted as u16 == who)
    };
    let number = outer.info().node;
    // Without the call in between it comes.
    let before = INNER.lock().expect("free").take();
    assert_eq!(outer.sync(asks_inner_then_sends::with()).expect("runs"), 1);
    assert_eq!(wait(number), (true, true));
    *INNER.lock().expect("free") = before;
    let called = outer.sync(asks_inner_then_sends::with()).expect("runs");
    assert_eq!(called, 31);
    let came = wait(number);
    *INNER.lock().expect("free") = None;
    assert_eq!(came, (true, true), "it came; from its own device");
}
