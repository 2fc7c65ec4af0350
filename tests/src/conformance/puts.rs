//! Data that is put with its call: `put_sync`.

use super::{Gate, Open, driven, options, refusal};
use hamr::{BufferError, CallError, SubmitError};
use hamr_comm::BufferPtr;
use hamr_comm::abi::ids::NodeId;
use hamr_kernels::bench::empty;
use hamr_kernels::faults::panics;
use hamr_tests_kernels::{
    append_named, digest_buffer, digest_buffer_salted, digest_buffer_task, digest_of, echo, increment_after,
};

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(37) ^ seed).collect()
}

fn why<T: std::fmt::Debug, E: std::fmt::Debug>(outcome: Result<T, CallError<E>>) -> BufferError {
    match refusal(outcome.expect_err("the target is not usable")) {
        SubmitError::Buffer { why, .. } => why,
        other => panic!("expected a buffer error, got {other}"),
    }
}

/// The call sees the data, of every length around that of a line, at every offset in one; no other
/// byte changes.
pub fn every_length(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let mut expected = pattern(2048, 0xAA);
    let buffer = node.buffer(&expected).expect("room");
    let mut seed = 0u8;
    for len in (0..=130).chain([255, 256, 1000, 1024]) {
        seed = seed.wrapping_add(1);
        let (at, data) = (len % 67, pattern(len, seed));
        let to = buffer.ptr().slice(at..at + len + 5).expect("inside");
        expected[at..at + len].copy_from_slice(&data);
        let (salt, all) = (u64::from(seed), buffer.ptr());
        let sum = stream.put_sync(&data, to, digest_buffer::with(all, salt)).expect("runs");
        assert_eq!(sum, digest_of(&expected).wrapping_add(salt), "{len} bytes at {at}");
        // The same data with longer arguments, queued, and with a call that does not name the buffer.
        let salted = stream.put_sync(&data, to, digest_buffer_salted::with(all, [salt, 1, 2])).expect("runs");
        assert_eq!(salted, sum.wrapping_add(3), "{len} bytes at {at}");
        assert_eq!(stream.put_sync(&data, to, digest_buffer_task::with(all, salt)).expect("runs"), sum);
        expected[at..at + len].reverse();
        let reversed: Vec<u8> = data.iter().rev().copied().collect();
        assert_eq!(stream.put_sync(&reversed, to, echo::with(salt)).expect("runs"), salt);
        assert_eq!(node.read(buffer.ptr()).expect("answered"), expected, "{len} bytes at {at}");
        stream.put_sync(&reversed, to, empty::with()).expect("runs");
    }
    // Elements longer than a byte.
    let numbers = node.buffer(&[1.5f64; 10]).expect("room");
    stream.put_sync(&[2.5; 8], numbers.ptr(), empty::with()).expect("runs");
    assert_eq!(node.read(numbers.ptr()).expect("answered"), [2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 1.5, 1.5]);
    assert_eq!(stream.outstanding(), 0);
}

/// The node, its streams, and those that threads share.
pub fn receivers_are_alike(open: Open) {
    let node = open(options());
    let buffer = node.buffer(&[0u8; 64]).expect("room");
    macro_rules! check {
        ($on:expr) => {{
            let on = &$on;
            for len in [0, 1, 63, 64, 65, 300] {
                let (data, target) = (pattern(len, 3), node.buffer(&pattern(300, 9)).expect("room"));
                let sum = on.put_sync(&data, target.ptr(), digest_buffer::with(target.ptr(), 5)).expect("runs");
                assert_eq!(sum, digest_of(&[&data[..], &pattern(300, 9)[len..]].concat()).wrapping_add(5));
                // Behind calls of the same stream that name the buffer, whose results are unread.
                let before = on.offload(digest_buffer::with(target.ptr(), 0)).expect("sent");
                on.send(digest_buffer::with(target.ptr(), 0)).expect("sent");
                let again = on.put_sync(&data, target.ptr(), digest_buffer::with(target.ptr(), 6)).expect("waits");
                assert_eq!(again, sum.wrapping_add(1));
                assert_eq!(before.wait().expect("ran").wrapping_add(6), again);
                on.put_sync(&data[..len.min(64)], buffer.ptr(), echo::with(1u64)).expect("runs");
            }
        }};
    }
    check!(node);
    check!(node.local().expect("it has one"));
    check!(node.stream().expect("a stream is free"));
    check!(node.shared_stream().expect("a stream is free"));
}

/// A target that is too short, freed, or another device's: nothing is written, nothing runs.
pub fn refusals(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let log = node.buffer(&[0u64; 8]).expect("room");
    let target = node.buffer(&[1u8; 40]).expect("room");
    let call = || append_named::with(log.ptr(), 1);
    assert_eq!(why(stream.put_sync(&[9; 41], target.ptr(), call())), BufferError::Overrun { wanted: 41, has: 40 });
    let part = target.ptr().slice(8..16).expect("inside");
    assert_eq!(why(stream.put_sync(&[9; 9], part, call())), BufferError::Overrun { wanted: 9, has: 8 });
    let mut parts = target.ptr().parts();
    parts.len = 64;
    let forged = BufferPtr::<u8>::from_wire(hamr_comm::abi::buffer::WireBuffer::pack(parts));
    assert!(matches!(why(stream.put_sync(&[9; 64], forged, call())), BufferError::Overrun { .. }));
    let mut parts = target.ptr().parts();
    parts.node = NodeId(4095);
    let theirs = BufferPtr::<u8>::from_wire(hamr_comm::abi::buffer::WireBuffer::pack(parts));
    assert!(matches!(why(stream.put_sync(&[9], theirs, call())), BufferError::Foreign { owner: 4095, .. }));
    let freed = node.buffer(&[3u8; 40]).expect("room").ptr();
    assert!(matches!(why(stream.put_sync(&[9], freed, call())), BufferError::Freed { .. }));
    // A good target, and a call that cannot be sent.
    let gone = node.buffer(&[0u64; 4]).expect("room").ptr();
    assert!(matches!(why(stream.put_sync(&[7], target.ptr(), append_named::with(gone, 1))), BufferError::Freed { .. }));
    assert_eq!(node.read(target.ptr()).expect("no call names it")[1..], [1; 39]);
    assert_eq!(node.read(log.ptr()).expect("no call names it"), [0; 8], "nothing ran");
    assert_eq!(stream.put_sync(&[5; 40], target.ptr(), call()).expect("runs"), 0);
    assert_eq!(node.read(target.ptr()).expect("answered"), [5; 40]);
    node.stop();
    let lost = refusal(stream.put_sync(&[6], target.ptr(), call()).expect_err("no device"));
    assert!(matches!(lost, SubmitError::DeviceLost { .. }), "{lost:?}");
}

/// A target that a call of another stream names.
pub fn busy_targets(open: Open) {
    let node = open(options());
    let (stream, other) = (node.stream().expect("a stream is free"), node.stream().expect("a stream is free"));
    let gate = Gate::new(&node);
    let data = node.buffer(&[1u64; 8]).expect("room");
    driven(&node, || {
        let call = other.offload(increment_after::with(gate.ptr(), data.ptr())).expect("sent");
        gate.wait_for(1);
        assert_eq!(why(stream.put_sync(&[9; 8], data.ptr(), echo::with(1u64))), BufferError::Busy);
        let slice = data.ptr().slice(2..3).expect("inside");
        assert_eq!(why(stream.put_sync(&[9], slice, echo::with(1u64))), BufferError::Busy, "no part of it either");
        gate.open();
        assert_eq!(call.wait().expect("runs"), 16);
    });
    assert_eq!(node.read(data.ptr()).expect("answered"), [2; 8]);
    // The target is one of the call's own buffers, and free behind its reply.
    for n in 0..50u64 {
        let sum = stream.put_sync(&[n; 8], data.ptr(), increment_after::with(gate.ptr(), data.ptr()));
        assert_eq!(sum.expect("runs"), 8 * (n + 1));
        node.put(&[0], data.ptr()).expect("answered");
        node.put(&[1], gate.ptr()).expect("answered");
    }
}

/// A handler that fails has been given the data, and its buffers are free.
pub fn faults_leave_the_data(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let target = node.buffer(&[0u8; 64]).expect("room");
    for n in 1..4u8 {
        let fault = stream.put_sync(&[n; 64], target.ptr(), panics::with(7)).expect_err("it panics");
        assert!(matches!(fault, CallError::Fault(_)), "{fault:?}");
        assert_eq!(node.read(target.ptr()).expect("answered"), [n; 64]);
        assert_eq!(stream.put_sync(&[n], target.ptr(), echo::with(n)).expect("runs"), n);
    }
}
