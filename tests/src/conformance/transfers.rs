//! Transfers that are submitted: `put_async` and its relatives.

use super::memory::{pattern, why};
use super::{Gate, Open, driven, options, until};
use hamr::{BufferError, Error, Node, Options, PendingWork, SubmitError};
use hamr_kernels::demo::fill;
use hamr_tests_kernels::increment_after;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Elements that the thread of the transfers cannot read before the test says so.
pub struct Held {
    elements: Vec<u64>,
    caller: std::thread::ThreadId,
    opened: Mutex<Receiver<()>>,
}

impl Held {
    /// They are released by a message, or by dropping the sender.
    pub fn new(elements: Vec<u64>) -> (Self, Sender<()>) {
        let (opens, opened) = channel();
        (Self { elements, caller: std::thread::current().id(), opened: Mutex::new(opened) }, opens)
    }
}

impl AsRef<[u64]> for Held {
    fn as_ref(&self) -> &[u64] {
        if std::thread::current().id() != self.caller {
            // An error means that the sender was dropped.
            let _ = self.opened.lock().unwrap_or_else(PoisonError::into_inner).recv();
        }
        &self.elements
    }
}

/// Puts, copies and gets of every size, submitted together: each sees what was submitted before.
pub fn come_in_submission_order(open: Open) {
    let node = open(options());
    for len in [0, 1, 63, 64, 4096, 1 << 20] {
        let (first, second) = (pattern(len, 0), pattern(len, 0xFF));
        let (x, y) = (node.allocate::<u8>(len).expect("room"), node.allocate::<u8>(len).expect("room"));
        let shared: Arc<[u8]> = second.clone().into();
        let put = node.put_async(first.clone(), x.ptr()).expect("submitted");
        let copied = node.copy_to_async(x.ptr(), &node, y.ptr()).expect("submitted");
        let again = node.put_async(shared, x.ptr()).expect("submitted");
        let of_y = node.get_async(y.ptr(), vec![0; len]).expect("submitted");
        let of_x = node.get_async(x.ptr(), vec![0; len]).expect("submitted");
        assert!(of_x.wait().expect("reads") == second, "{len} bytes");
        assert!(of_y.wait().expect("reads") == first, "{len} bytes");
        assert!(put.is_done() && copied.is_done() && again.is_done(), "in order");
        assert!(put.wait().expect("writes") == first, "the source comes back");
        copied.wait().expect("copies");
        assert_eq!(again.wait_timeout(Duration::ZERO).expect("writes").len(), len);
        assert!(node.read(x.ptr()).expect("no transfer uses it") == second);
    }
    let x = node.buffer(&[1u32, 2, 3, 4]).expect("room");
    let part = |range| x.slice(range).expect("inside");
    node.put_async(&[9u32, 9][..], part(1..3)).expect("submitted").wait().expect("writes");
    node.copy_to_async(part(0..3), &node, part(1..4)).expect("submitted").wait().expect("ranges may overlap");
    assert_eq!(node.get_async(part(1..4), [0; 2]).expect("submitted").wait().expect("reads the front"), [1, 9]);
    assert_eq!(node.read(x.ptr()).expect("reads"), [1, 1, 9, 9]);
}

/// A copy to another node uses a buffer of each.
pub fn between_nodes(open: Open) {
    let (one, other) = (open(options()), open(options()));
    let data = pattern(1 << 20, 5);
    let (x, y) = (one.allocate::<u8>(data.len()).expect("room"), other.allocate::<u8>(data.len()).expect("room"));
    let put = one.put_async(data.clone(), x.ptr()).expect("submitted");
    let copied = one.copy_to_async(x.ptr(), &other, y.ptr()).expect("submitted");
    copied.wait().expect("copies behind the put");
    put.wait().expect("writes");
    assert!(other.read(y.ptr()).expect("no transfer uses it") == data);
    let foreign = BufferError::Foreign { owner: one.info().node, here: other.info().node };
    assert_eq!(why(one.copy_to_async(x.ptr(), &other, x.ptr()).map(drop)), foreign);
    assert_eq!(why(other.put_async(data, x.ptr()).map(drop)), foreign);
    assert_eq!(one.read(x.ptr()).expect("nothing is in use").len(), 1 << 20);
}

/// Until it ends, a transfer uses its buffers as a call in flight does.
pub fn use_their_buffers(open: Open) {
    let node = open(options());
    let (x, y) = (node.buffer(&[1u64; 4]).expect("room"), node.buffer(&[2u64; 4]).expect("room"));
    let (held, opens) = Held::new(vec![7; 4]);
    let put = node.put_async(held, x.ptr()).expect("submitted");
    assert!(!put.is_done(), "submitted, and not copied");
    assert_eq!(why(node.put(&[3], x.ptr())), BufferError::InTransfer);
    assert_eq!(why(node.read(x.ptr())), BufferError::InTransfer);
    assert_eq!(why(node.copy(y.ptr(), x.ptr())), BufferError::InTransfer);
    assert_eq!(why(node.copy(x.ptr(), y.ptr())), BufferError::InTransfer);
    for refused in [
        node.sync(fill::with(5u64, x.ptr())).map_err(super::refusal),
        node.offload(fill::with(5u64, x.ptr())).map(drop),
        node.send(fill::with(5u64, x.ptr())),
        node.put_sync(&[1u64], x.ptr(), fill::with(5u64, x.ptr())).map_err(super::refusal),
    ] {
        assert!(matches!(refused, Err(SubmitError::Buffer { why: BufferError::InTransfer, .. })), "{refused:?}");
    }
    // Others go on, and so do submitted transfers of the same buffer, behind it.
    node.sync(fill::with(5u64, y.ptr())).expect("runs");
    let get = node.get_async(x.ptr(), vec![0u64; 4]).expect("submitted");
    let (live, free) = (node.live_buffers(), node.free_bytes());
    let old = x.ptr();
    drop(x);
    assert_eq!((node.live_buffers(), node.free_bytes()), (live, free), "its memory is in use");
    assert!(matches!(why(node.get_async(old, vec![0u64; 4])), BufferError::Freed { .. }), "its owner has dropped it");
    opens.send(()).expect("the transfer waits");
    assert_eq!(get.wait().expect("reads"), [7; 4]);
    assert_eq!(put.wait().expect("writes").elements, [7; 4]);
    assert_eq!(node.live_buffers(), live - 1, "freed behind the last transfer");
}

/// `.await`, joins, and what dropping one does.
pub fn are_futures(open: Open) {
    let node = open(options());
    let x = node.buffer(&[0u64; 4]).expect("room");
    let (held, opens) = Held::new(vec![1; 4]);
    let put = node.put_async(held, x.ptr()).expect("submitted");
    let get = node.get_async(x.ptr(), vec![0u64; 4]).expect("submitted");
    let opener = std::thread::spawn(move || opens.send(()));
    let (got, put) = pollster::block_on(async { (get.await, put.await) });
    assert_eq!((got.expect("reads"), put.expect("writes").elements), (vec![1; 4], vec![1; 4]));
    opener.join().expect("no panic").expect("the transfer waited");
    let (held, opens) = Held::new(vec![2; 4]);
    drop(node.put_async(held, x.ptr()).expect("submitted"));
    drop(opens);
    until("a dropped transfer ends", || node.read(x.ptr()).is_ok());
    assert_eq!(node.read(x.ptr()).expect("reads"), [2; 4]);
    let mut get = node.get_async(x.ptr(), vec![0u64; 4]).expect("submitted");
    assert_eq!(pollster::block_on(&mut get).expect("reads"), [2; 4]);
    assert!(matches!(pollster::block_on(&mut get), Err(Error::NoOutcome { .. })), "it was taken");
}

fn ended<V>(outcome: Result<PendingWork<V>, Error>) -> Error {
    outcome.map(drop).expect_err("refused at once")
}

/// What is refused is refused at once, and leaves nothing in use.
pub fn refusals(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let (x, y) = (node.buffer(&[1u64; 4]).expect("room"), node.buffer(&[2u64; 2]).expect("room"));
    let overrun = |error| matches!(error, Error::Buffer { why: BufferError::Overrun { wanted: 40, has: 32 }, .. });
    assert!(overrun(ended(node.put_async(vec![0u64; 5], x.ptr()))));
    assert!(overrun(ended(node.get_async(x.ptr(), vec![0u64; 5]))));
    let lengths = ended(node.copy_to_async(x.ptr(), &node, y.ptr()));
    assert!(matches!(lengths, Error::Buffer { why: BufferError::Overrun { wanted: 32, has: 16 }, .. }), "{lengths}");
    let gate = Gate::new(&node);
    driven(&node, || {
        let call = stream.offload(increment_after::with(gate.ptr(), x.ptr())).expect("sent");
        gate.wait_for(1);
        let busy = [ended(node.put_async(vec![0u64; 4], x.ptr())), ended(node.get_async(x.ptr(), vec![0u64; 4]))];
        for error in busy {
            assert!(matches!(error, Error::Buffer { why: BufferError::Busy, .. }), "{error}");
        }
        gate.open();
        call.wait().expect("runs");
    });
    // The thread of the transfers outlives a panic of the program's code there.
    let (held, opens) = Held::new(vec![2; 4]);
    let late = node.put_async(held, x.ptr()).expect("submitted").wait_timeout(Duration::from_millis(1));
    assert!(matches!(late, Err(Error::Timeout { .. })), "it waits for this thread");
    let panics = node.put_async(Panics(std::thread::current().id()), x.ptr()).expect("submitted");
    drop(opens);
    match panics.wait().map(drop) {
        Err(Error::NoOutcome { stage: "putting", why, .. }) => assert_eq!(why, "it panicked: on purpose"),
        other => panic!("expected its panic, got {other:?}"),
    }
    assert_eq!(node.read(x.ptr()).expect("nothing is in use"), [2; 4]);
}

/// Panics in the thread of the transfers.
struct Panics(std::thread::ThreadId);

impl AsRef<[u64]> for Panics {
    fn as_ref(&self) -> &[u64] {
        assert!(std::thread::current().id() == self.0, "on purpose");
        &[]
    }
}

/// Transfers that are not made when their node is dropped fail; memory stays until they have.
pub fn end_with_their_node(open: Open) {
    let node = open(Options { deadline: Some(Duration::from_secs(20)), ..options() });
    let x = node.buffer(&[1u64; 4]).expect("room");
    let (held, opens) = Held::new(vec![2; 4]);
    let first = node.put_async(held, x.ptr()).expect("submitted");
    let second = node.get_async(x.ptr(), vec![0u64; 4]).expect("submitted");
    drop::<Node>(node);
    drop(x);
    drop(opens);
    // The first may have begun before the drop.
    match first.wait().map(|held| held.elements.len()) {
        Ok(4) | Err(Error::Lost { .. }) => {}
        // Half of it was on its way over a connection.
        Err(Error::Buffer { why: BufferError::Unreachable, .. }) => {}
        other => panic!("expected an end, got {other:?}"),
    }
    assert!(matches!(second.wait(), Err(Error::Lost { stage: "getting", .. })));
}
