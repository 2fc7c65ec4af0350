//! Calls that end without their value; the next call always works.

use super::{Log, Open, is_loopback, options, refusal};
use hamr::{CallError, FaultReport, Node, SubmitError};
use hamr_comm::abi::buffer::{BufferParts, WireBuffer};
use hamr_comm::abi::ids::NodeId;
use hamr_comm::abi::status::Status;
use hamr_comm::{BufferPtr, Context, Fault, Task};
use hamr_kernels::bench::{empty, sum_4};
use hamr_kernels::demo::node_of_device;
use hamr_kernels::faults::{DivideError, bump, divide, mend, panics, panics_task};
use hamr_tests_kernels::{alias, append, append_named, append_task, fails_at_length, refuse_at_length};

fn fault<E: std::fmt::Debug>(error: CallError<E>) -> FaultReport {
    match error {
        CallError::Fault(report) => *report,
        other => panic!("expected a fault, got {other}"),
    }
}

fn still_works(node: &Node) {
    assert_eq!(node.sync(sum_4::with(1, 2, 3, 4)).expect("the next call works"), 10);
}

/// A handler's own error arrives unchanged, short or long.
pub fn own_errors(open: Open) {
    let node = open(options());
    assert_eq!(node.sync(divide::with(7, 2)).expect("divides"), 3);
    let error = node.sync(divide::with(7, 0)).expect_err("divides by zero");
    assert!(matches!(error, CallError::Handler(DivideError::ByZero { dividend: 7 })), "{error:?}");
    let error = node.offload(divide::with(i64::MIN, -1)).expect("sent").wait().expect_err("overflows");
    assert!(matches!(error, CallError::Handler(DivideError::Overflow)), "{error:?}");
    let why =
        heapless::String::try_from("sixty-four letters are longer than the slot of a message can be.").expect("64");
    let error = node.sync(refuse_at_length::with(why.clone())).expect_err("refuses");
    assert!(matches!(&error, CallError::Handler(got) if *got == why), "{error:?}");
    still_works(&node);
}

/// Handlers that are found by name and function type; the errors have the name.
pub fn calls_by_name(open: Open) {
    let node = open(options());
    let divide = node.named::<fn(&mut Context, i64, i64) -> Result<i64, DivideError>>("hamr_kernels::faults::divide");
    let divide = divide.expect("the image has it");
    assert_eq!(divide.sync((7, 2)).expect("divides"), 3);
    assert_eq!(divide.offload((9, 2)).expect("sent").wait().expect("divides"), 4);
    let error = divide.sync((7, 0)).expect_err("divides by zero");
    assert!(matches!(error, CallError::Handler(DivideError::ByZero { dividend: 7 })), "{error:?}");
    let zero = node.named::<fn(&mut Context, u8, BufferPtr<u8>) -> Result<(), Fault>>("hamr_kernels::demo::fill<u8>");
    let (zero, bytes) = (zero.expect("an instance"), node.buffer(&[1u8; 100]).expect("room"));
    zero.sync((0, bytes.ptr())).expect("fills");
    assert_eq!(bytes.read().expect("reads"), [0; 100]);

    type Panics = fn(&mut Task, u32) -> u32;
    let panics = node.named::<Panics>("hamr_kernels::faults::panics_task").expect("the image has it");
    let report = fault(panics.sync((5,)).expect_err("panics"));
    assert!(report.to_string().contains("`hamr_kernels::faults::panics_task` on device"), "{report}");

    let missing = node.named::<Panics>("hamr_kernels::faults::panic_task").err().expect("another name");
    assert!(matches!(missing, SubmitError::MissingHandler { .. }), "{missing}");
    assert!(missing.to_string().contains("`hamr_kernels::faults::panic_task`"), "{missing}");
    for other in [
        node.named::<fn(&mut Context, u32) -> u32>("hamr_kernels::faults::panics_task").err(),
        node.named::<fn(&mut Task, u32) -> i32>("hamr_kernels::faults::panics_task").err(),
        node.named::<fn(&mut Task) -> u32>("hamr_kernels::faults::panics_task").err(),
    ] {
        assert!(matches!(&other, Some(SubmitError::OtherSignature { .. })), "{other:?}");
    }
    still_works(&node);
}

/// Buffers that the device cannot use: the fault names the buffer, and nothing is written.
pub fn bad_buffers(open: Open) {
    let node = open(options());
    let log = Log::new(&node, 1);
    let bytes = node.buffer(&[0u8; 100]).expect("room");
    let forged = |off, len, node| WireBuffer::pack(BufferParts { off, index: 0, len, generation: 0, node }).words();
    let own = log.ptr().node();
    let foreign = NodeId(own.0 + 1);
    for (words, says) in [
        (forged(8 << 20, 2, own), "buffer ends at byte"),
        (forged(0, WireBuffer::MAX_LEN - 1, own), "buffer ends at byte"),
        (forged(4, 2, own), "not a whole number of elements"),
        (forged(0, 2, foreign), "buffer of node"),
    ] {
        let report = fault(node.sync(append::with(words, 1)).expect_err("not a usable buffer"));
        assert_eq!(report.status, Status::BAD_BUFFER);
        assert!(report.to_string().contains(says), "{report}");
        assert_eq!(
            (&*report.site.handler, &*report.site.device),
            (<append as hamr_comm::Handler>::NAME, &*node.info().name)
        );
    }
    // Two views of one buffer, one of them written.
    let half = bytes.ptr().slice(50..100).expect("inside");
    let report = fault(node.sync(alias::with(bytes.ptr(), half)).expect_err("they overlap"));
    assert!(report.to_string().contains("overlap"), "{report}");
    node.sync(alias::with(bytes.ptr().slice(0..50).expect("inside"), half)).expect("they do not");
    // A handler's own error text.
    node.sync(append_named::with(log.ptr(), 1)).expect("there is room for one");
    let report = fault(node.sync(append_named::with(log.ptr(), 2)).expect_err("the log is full"));
    assert_eq!((report.status, &*report.text), (Status::FAILED, "a full log"));
    still_works(&node);
}

/// A panic ends its own call, with its message, and with file and line where the device knows them.
pub fn a_panic(open: Open) {
    let node = open(options());
    let say = |report: FaultReport, n: u32| {
        assert_eq!(report.status, Status::PANIC);
        assert!(report.text.contains(&format!("asked to panic with {n}")), "{report}");
        if !is_loopback(&node) {
            assert!(report.text.contains("faults.rs:"), "{report}");
        }
    };
    say(fault(node.sync(panics::with(17)).expect_err("panics")), 17);
    still_works(&node);
    say(fault(node.offload(panics::with(18)).expect("sent").wait().expect_err("panics")), 18);
    assert_eq!(node.sync(panics::with(u32::MAX)).expect("does not panic"), u32::MAX);
    still_works(&node);
}

/// A message that is too long is cut, is marked as cut, and keeps the location at its end.
pub fn a_long_message(open: Open) {
    let node = open(options());
    let text_of = |len, panics| fault(node.sync(fails_at_length::with(len, panics)).expect_err("fails")).text;
    let of = |len: usize| "ö".repeat(len);
    assert_eq!(text_of(40, false), of(40));
    assert_eq!(text_of(41, false), of(38) + "…");
    let short = text_of(100, true);
    assert!(short.starts_with(&of(100)) && !short.contains('…'), "{short}");
    let long = text_of(2000, true);
    let (text, place) = long.split_once('…').expect("it is marked as cut");
    assert!(text.len() > 300 && text.chars().all(|c| c == 'ö'), "{long}");
    // A device that reports the location with a short message does so with a long one.
    assert_eq!(
        short.contains(" at tests/kernels/src/lib.rs:"),
        place.starts_with(" at tests/kernels/src/lib.rs:"),
        "{long}"
    );
    assert!(long.len() <= hamr_comm::fault::TRACED_TEXT, "{}", long.len());
}

/// A panic costs one call, not a part of the device: two hundred in a row, waited for one by one
/// and all at once.
pub fn many_panics(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    for n in 0..200 {
        let report = fault(stream.sync(panics::with(n)).expect_err("panics"));
        assert!(report.text.contains(&format!("with {n}")), "{report}");
    }
    still_works(&node);
    let pending: Vec<_> = (0..200).map(|n| stream.offload(panics::with(n)).expect("sent")).collect();
    for (n, pending) in pending.into_iter().enumerate() {
        let report = fault(pending.wait().expect_err("panics"));
        assert!(report.text.contains(&format!("with {n}")), "{report}");
    }
    // Also queued: three times as many as there are ticket slots.
    for n in 0..24 {
        let report = fault(stream.sync(panics_task::with(n)).expect_err("panics"));
        assert!(report.text.contains(&format!("with {n}")), "{report}");
    }
    assert_eq!(stream.sync(panics_task::with(u32::MAX)).expect("does not panic"), u32::MAX);
    still_works(&node);
    assert_eq!(stream.outstanding(), 0);
}

/// Panics between other calls of several streams, some queued: all other calls have their own
/// outcomes.
pub fn panics_everywhere(open: Open) {
    let node = open(options());
    let log = Log::new(&node, 400);
    let streams: Vec<_> = (0..3).map(|_| node.stream().expect("a stream is free")).collect();
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for n in 0..100 {
        for stream in &streams {
            bad.push(stream.offload(panics::with(n)).expect("sent"));
            good.push(stream.offload(append_task::with(log.words(), u64::from(n))).expect("sent"));
        }
    }
    let places: std::collections::BTreeSet<u64> = good.into_iter().map(|p| p.wait().expect("appends")).collect();
    assert_eq!(places.len(), 300, "every call had an index of its own");
    for pending in bad {
        assert_eq!(fault(pending.wait().expect_err("panics")).status, Status::PANIC);
    }
    assert_eq!(log.entries(&node).len(), 300);
}

/// The resource of a call that panicked is reported as poisoned, not used half-changed.
pub fn poisoned_resource(open: Open) {
    let node = open(options());
    // A loopback device shares its statics with the other tests of this process.
    if is_loopback(&node) {
        return;
    }
    let before = node.sync(bump::with(1, false)).expect("free");
    assert_eq!(node.sync(bump::with(2, false)).expect("free"), before + 2);
    assert_eq!(fault(node.sync(bump::with(1, true)).expect_err("panics")).status, Status::PANIC);
    for _ in 0..3 {
        let report = fault(node.sync(bump::with(1, false)).expect_err("left behind"));
        assert_eq!(report.status, Status::POISONED);
        assert!(report.to_string().contains("poisoned"), "{report}");
    }
    assert!(node.sync(mend::with(100)).expect("runs"), "it reports that it is poisoned");
    assert!(!node.sync(mend::with(200)).expect("runs"), "it is not any more");
    assert_eq!(node.sync(bump::with(1, false)).expect("mended"), 101);
    still_works(&node);
}

/// `#[offload(device)]`: an image runs it; a loopback device is built as a host and reports that it
/// has no body.
pub fn body_on_one_side(open: Open) {
    let node = open(options());
    let outcome = node.sync(node_of_device::with());
    // A loopback device has the handlers of this program, which cargo may have built with the
    // images' features.
    let name = <node_of_device as hamr_comm::Handler>::NAME;
    if !node.handlers().iter().any(|h| h.name == name && h.has_body()) {
        let error = outcome.expect_err("no body here");
        let output = error.to_string();
        assert!(output.contains("node_of_device") && output.contains("feature `device`"), "{output}");
        assert!(matches!(refusal(error), SubmitError::NoBody { .. }));
    } else {
        assert_eq!(outcome.expect("images have the body"), node.info().node);
    }
    still_works(&node);
}

/// The device record agrees with the device's behaviour.
pub fn ping_and_info(open: Open) {
    let node = open(options());
    let info = node.info();
    // A device that outlives its hosts has had epochs before.
    assert!(info.epoch >= 1);
    assert_eq!(info.heap, 8 << 20);
    assert_eq!(info.handlers as usize, node.handlers().len());
    assert!(info.window > info.heap && !info.board.is_empty() && !info.link.is_empty());
    assert!(node.handlers().is_sorted_by_key(|h| h.key));
    assert!(node.handlers().iter().any(|h| h.name == <empty as hamr_comm::Handler>::NAME && h.has_body()));
    for _ in 0..10 {
        assert!(node.ping().expect("serves") < std::time::Duration::from_secs(10));
    }
    assert!(node.is_alive());
    // A pointer to nothing is refused before the call is sent.
    let nothing = BufferPtr::from_wire(WireBuffer::pack(BufferParts {
        off: 0,
        index: 12,
        len: 2,
        generation: 3,
        node: NodeId(info.node),
    }));
    let error = refusal(node.sync(append_named::with(nothing, 1)).expect_err("no such buffer"));
    assert!(matches!(error, SubmitError::Buffer { .. }), "{error:?}");
}
