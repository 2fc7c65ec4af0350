//! Every kind of argument and result, on every way to call.

use super::{Open, options};
use hamr::{CallError, CallOptions, Node, SharedStream, Stream, SubmitError};
use hamr_comm::{Handler, Migratable};
use hamr_kernels::bench::{empty, sum_4, sum_6};
use hamr_kernels::faults::{echo_many, make_many};
use hamr_tests_kernels::long::{Ramp, ramp_later, ramp_length, ramp_of};
use hamr_tests_kernels::{Everything, Shape, digest, digest_five, digest_of, echo, letters};
use std::fmt::Debug;
use std::time::Duration;

/// Calls `echo` on each kind of stream with both ways of waiting; twice, so that reused slots are
/// covered.
fn there_and_back<T>(node: &Node, values: &[T])
where
    T: Migratable + Clone + PartialEq + Debug + 'static,
    echo<T>: Handler<Args = (T,), Output = T>,
{
    let stream = node.stream().expect("a stream is free");
    let shared = node.shared_stream().expect("a stream is free");
    let roomy = CallOptions::reply_capacity(1 << 14);
    for value in values.iter().chain(values) {
        let call = || echo::with(value.clone());
        assert_eq!(stream.sync_with(call(), roomy).expect("echoes"), *value);
        assert_eq!(stream.offload_with(call(), roomy).expect("sent").wait().expect("echoes"), *value);
        assert_eq!(shared.offload_with(call(), roomy).expect("sent").wait().expect("echoes"), *value);
        // The host reserves room by itself.
        assert_eq!(stream.sync(call()).expect("echoes"), *value);
        assert_eq!(stream.start(call()).expect("sent").wait().expect("echoes"), *value);
        assert_eq!(stream.offload(call()).expect("sent").wait().expect("echoes"), *value);
        assert_eq!(shared.sync(call()).expect("echoes"), *value);
        assert_eq!(node.sync(call()).expect("echoes"), *value);
        assert_eq!(node.offload(call()).expect("sent").wait().expect("echoes"), *value);
    }
    assert_eq!(stream.outstanding(), 0);
    assert_eq!(node.live_buffers(), 0, "long messages give their memory back");
}

/// 0, 1, 4, 8, 16, 32 and 48 bytes, in the message's own slot.
pub fn inline(open: Open) {
    let node = open(options());
    for _ in 0..3 {
        node.sync(empty::with()).expect("runs");
        node.offload(empty::with()).expect("sent").wait().expect("runs");
    }
    there_and_back(&node, &[0u8, 1, 255]);
    there_and_back(&node, &[f32::MIN_POSITIVE, -0.0, f32::INFINITY]);
    there_and_back(&node, &[0u64, 1, u64::MAX, 0x0123_4567_89AB_CDEF]);
    there_and_back(&node, &[u128::MAX, 1 << 100]);
    there_and_back(&node, &[std::array::from_fn::<u8, 48, _>(|i| i as u8 ^ 0xA5)]);
    assert_eq!(node.sync(sum_4::with(1, 2, 3, u64::MAX)).expect("runs"), 5);
    assert_eq!(node.sync(sum_6::with([1, 10, 100, 1000, 10_000, 100_000])).expect("runs"), 111_111);
}

/// Arguments of every length from 0 to 200 bytes: in the slot, in two lines, in a chunk.
pub fn every_length(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let shared = node.shared_stream().expect("a stream is free");
    fn check<T>(node: &Node, stream: &Stream<'_>, shared: &SharedStream, value: T)
    where
        T: Migratable + AsRef<[u8]> + Clone + 'static,
        digest<T>: Handler<Args = (T,), Output = u64>,
    {
        let (call, expected) = (|| digest::with(value.clone()), digest_of(value.as_ref()));
        let what = format!("{} bytes", value.as_ref().len());
        // A short call between two of the same header, and one with other bytes in the second line.
        for round in 0..2 {
            assert_eq!(stream.sync(call()).expect("runs"), expected, "{what}");
            assert_eq!(stream.sync(call()).expect("runs"), expected, "{what}");
            assert_eq!(stream.sync(sum_4::with(1, 2, 3, round)).expect("runs"), 6 + round);
            assert_eq!(stream.start(call()).expect("sent").wait().expect("runs"), expected, "{what}");
            assert_eq!(stream.offload(call()).expect("sent").wait().expect("runs"), expected, "{what}");
            let deadline = CallOptions::deadline(Duration::from_secs(30));
            assert_eq!(stream.sync_with(call(), deadline).expect("runs"), expected, "{what}");
            assert_eq!(node.sync(call()).expect("runs"), expected, "{what}");
            assert_eq!(shared.sync(call()).expect("runs"), expected, "{what}");
            stream.send(call()).expect("sent");
        }
    }
    macro_rules! fixed {
        ($($len:literal)*) => {
            $(check(&node, &stream, &shared, std::array::from_fn::<u8, $len, _>(|i| (i * 7 + $len) as u8));)*
        };
    }
    node.sync(empty::with()).expect("runs");
    fixed!(1 2 3 47 48 49 50 55 56 57 63 64 65 104 111 112 113 200);
    // The length travels in 4 bytes more.
    for len in 0..=196u8 {
        let bytes: heapless::Vec<u8, 200> = (0..len).map(|i| i.wrapping_mul(11) ^ len).collect();
        check(&node, &stream, &shared, bytes);
    }
    stream.flush().expect("all ran");
    assert_eq!((stream.one_way_failures(), stream.outstanding(), node.live_buffers()), (0, 0, 0));
}

/// More buffers than a slot of one line can name.
pub fn many_buffers(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let buffers: Vec<_> = (1..6u8).map(|n| node.buffer(&vec![n; usize::from(n) * 9]).expect("room")).collect();
    let call = |a: usize| {
        let [a, b, c, d, e] = [a, 1, 2, 3, 4].map(|i| buffers[i].ptr());
        digest_five::with(a, b, c, d, e)
    };
    let expected: u64 = (1..6u8).fold(0, |sum, n| sum.wrapping_add(digest_of(&vec![n; usize::from(n) * 9])));
    for _ in 0..3 {
        assert_eq!(stream.sync(call(0)).expect("runs"), expected);
        assert_eq!(stream.start(call(0)).expect("sent").wait().expect("runs"), expected);
        assert_eq!(stream.offload(call(0)).expect("sent").wait().expect("runs"), expected);
    }
    // One buffer named twice, and all of them free behind the reply.
    assert!(stream.sync(call(1)).is_ok());
    for buffer in &buffers {
        node.put(&[7], buffer.ptr()).expect("answered");
    }
}

/// 49 bytes, exactly one chunk (1024), one element more, and the longest message there is.
pub fn chunks_and_buffers(open: Open) {
    let node = open(options());
    there_and_back(&node, &[std::array::from_fn::<u8, 49, _>(|i| i as u8)]);
    there_and_back(&node, &[std::array::from_fn::<u64, 128, _>(|i| i as u64 * 3)]);
    there_and_back(&node, &[std::array::from_fn::<u64, 129, _>(|i| !(i as u64))]);
    there_and_back(&node, &[std::array::from_fn::<u64, 2048, _>(|i| (i as u64) << 40)]);
    let many = std::array::from_fn(|i| i as u64);
    assert_eq!(node.sync(echo_many::with(many)).expect("runs"), many);
    // A short request with a long result.
    let made = node.sync(make_many::with(7)).expect("runs");
    assert!(made.iter().enumerate().all(|(i, v)| *v == 7 + i as u64));
    // Many at once: each has a chunk and a reply of its own.
    let stream = node.stream().expect("a stream is free");
    let pending: Vec<_> = (0..100).map(|s| stream.offload(make_many::with(s * 1000)).expect("sent")).collect();
    let echoed: Vec<_> = (0..100).map(|s| stream.offload(echo_many::with([s; 100])).expect("sent")).collect();
    for (s, echoed) in echoed.into_iter().enumerate().rev() {
        assert_eq!(echoed.wait().expect("runs"), [s as u64; 100]);
    }
    for (s, pending) in pending.into_iter().enumerate() {
        let made = pending.wait().expect("runs");
        assert_eq!((made[0], made[1023]), (s as u64 * 1000, s as u64 * 1000 + 1023));
    }
    assert_eq!(node.live_buffers(), 0);
}

/// Text and vectors, empty, in the slot, in the chunk, in a buffer.
pub fn owning(open: Open) {
    let node = open(options());
    let text = |len: usize| (0..len).map(|i| char::from(b'a' + (i % 26) as u8)).collect::<String>();
    let short = ["", "h", "grüße, 世界"].map(|t| heapless::String::<64>::try_from(t).expect("fits"));
    there_and_back(&node, &short);
    let long = [0, 44, 45, 1020, 1021, 4096];
    there_and_back(&node, &long.map(|n| heapless::String::<4096>::try_from(text(n).as_str()).expect("fits")));
    let numbers = [0, 1, 11, 12, 255, 256, 1000];
    there_and_back(&node, &numbers.map(|n: u32| (0..n).map(|i| i * i).collect::<heapless::Vec<u32, 1000>>()));
    let shapes = [Shape::Circle(2.0), Shape::Point, Shape::Box { width: 1.0, height: -1.0, filled: true }];
    there_and_back(&node, &[heapless::Vec::<Shape, 8>::new(), shapes.into_iter().collect()]);
    assert_eq!(node.sync(letters::with(28)).expect("fits a chunk"), text(28).as_str());
}

/// Values with invalid bit patterns, and composite values.
pub fn validated_and_composite(open: Open) {
    let node = open(options());
    there_and_back(&node, &[true, false]);
    there_and_back(&node, &['\0', 'ß', '\u{D7FF}', '\u{E000}', char::MAX]);
    there_and_back(&node, &[None, Some(0u64), Some(u64::MAX)]);
    there_and_back(&node, &[None, Some([1u64, 2, 3, 4, 5, 6, 7, 8])]);
    let shapes = [Shape::Point, Shape::Circle(f64::MAX), Shape::Box { width: 0.5, height: 1.5, filled: false }];
    there_and_back(&node, &shapes);
    let everything = Everything {
        unsigned: (u8::MAX, u16::MAX - 1, 3, 1 << 63, u128::MAX / 3),
        signed: (i8::MIN, i16::MIN, -3, i64::MIN, i128::MIN),
        floats: (1.5e-40, f64::EPSILON),
        checked: (true, '🦀'),
        pairs: [(1, -1), (2, -2), (3, -3)],
        rest: *b"fourteen bytes",
    };
    there_and_back(&node, &[everything]);
}

/// Room for the longest value of a result's type is reserved. With less, the error of a longer one
/// contains its length.
pub fn result_too_long(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let needed = |e| match e {
        CallError::ResultTooLong { needed, .. } => needed,
        other => panic!("expected ResultTooLong, got {other}"),
    };
    assert_eq!(stream.sync(letters::with(4096)).expect("the longest of its type").len(), 4096);
    let chunk = CallOptions::reply_capacity(0);
    assert_eq!(needed(stream.sync_with(letters::with(3000), chunk).expect_err("no room was reserved")), 3004);
    let one_more = stream.offload_with(letters::with(1021), chunk).expect("sent").wait();
    assert_eq!(needed(one_more.expect_err("one too many")), 1025);
    assert_eq!(stream.sync_with(letters::with(1020), chunk).expect("fits the chunk").len(), 1020);
    let exact = CallOptions::reply_capacity(3004);
    assert_eq!(stream.sync_with(letters::with(3000), exact).expect("fits exactly").len(), 3000);
    assert_eq!(needed(stream.sync_with(letters::with(3001), exact).expect_err("one too many")), 3005);
    assert_eq!(node.live_buffers(), 0);
    // Where the heap has no room, short results still arrive.
    let all = node.allocate::<u8>(node.free_bytes() as usize).expect("all of it");
    assert_eq!(stream.sync(letters::with(1020)).expect("fits the chunk").len(), 1020);
    assert_eq!(needed(stream.sync(letters::with(1021)).expect_err("no room")), 1025);
    drop(all);
    // A call whose result is discarded reserves nothing.
    let free = node.free_bytes();
    for seed in 0..100 {
        stream.send(make_many::with(seed)).expect("sent");
        stream.send(letters::with(4096)).expect("sent");
    }
    stream.flush().expect("all have run");
    assert_eq!(node.free_bytes(), free);
}

/// Longer than any message: the host's error contains the value's length, and nothing is sent.
pub fn too_long_to_send(open: Open) {
    let node = open(options());
    // The longest value of this type is shorter than a message, so only the requested reply room is
    // too long.
    let huge = CallOptions::reply_capacity(1 << 40);
    let refused = node.stream().expect("a stream is free").offload_with(letters::with(1), huge).err();
    assert!(matches!(refused, Some(SubmitError::NoRoom { .. })), "{refused:?}");
    assert_eq!(node.live_buffers(), 0);
    assert_eq!(node.sync(letters::with(3)).expect("the next call works"), "abc");
}

/// Up to the device's limit, which of a hosted one is the heap, on bare metal what its image says: arguments and
/// results, on both ways to call, and of tasks. One more is refused with the limit, one that the heap has no room
/// for now with what is free.
pub fn of_any_length(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let limit = node.limits().message;
    let long = limit.min(1 << 20);
    for length in [100, 5_000, (16 << 10) - 4, (16 << 10) - 3, 100_000, long - 4].map(|len| len.min(long - 4) as u32) {
        let (call, result) = (|| ramp_length::with(Ramp(length)), || ramp_of::with(length));
        let room = CallOptions::reply_capacity(length as usize + 4);
        assert_eq!(stream.sync(call()).expect("runs"), length);
        assert_eq!(stream.offload(call()).expect("sent").wait().expect("runs"), length);
        stream.send(call()).expect("sent");
        assert_eq!(stream.sync_with(result(), room).expect("fits"), Ramp(length));
        assert_eq!(stream.offload_with(result(), room).expect("sent").wait().expect("fits"), Ramp(length));
        // Two tasks that take turns, with different values.
        let lengths = [length, length / 2];
        let tasks = lengths.map(|n| stream.offload_with(ramp_later::with(Ramp(n)), room).expect("sent"));
        assert_eq!(tasks.map(|task| task.wait().expect("fits")), lengths.map(Ramp));
    }
    stream.flush().expect("all have run");
    assert_eq!((stream.one_way_failures(), node.live_buffers()), (0, 0));
    // Nothing of the heap is in use: a longer one is refused before it is sent, and the next goes on.
    match stream.sync(ramp_length::with(Ramp(limit as u32 - 3))) {
        Err(CallError::Submit(why)) => match *why {
            SubmitError::TooLong { len, limit: most, .. } => assert_eq!((len, most), (limit + 1, limit)),
            other => panic!("expected a refusal, got {other}"),
        },
        other => panic!("expected a refusal, got {other:?}"),
    }
    if limit > 16 << 10 {
        let most = node.allocate::<u8>(node.free_bytes() as usize - (64 << 10)).expect("room");
        let refused = stream.sync(ramp_length::with(Ramp(limit as u32 / 2))).expect_err("no room").to_string();
        assert!(refused.contains(&node.free_bytes().to_string()), "{refused}");
        drop(most);
    }
    // Without a word about its length a result has 16 KiB; a longer one than the device's is none for any.
    let too_long = |length: u32, options| match stream.sync_with(ramp_of::with(length), options) {
        Err(why @ CallError::ResultTooLong { needed, limit: most, .. }) => {
            assert_eq!((needed, most), (u64::from(length) + 4, limit));
            why.to_string()
        }
        other => panic!("expected a result that is too long, got {other:?}"),
    };
    too_long(1 << 20, CallOptions::default());
    if (limit as u64) < node.limits().heap {
        let text = too_long(limit as u32 - 3, CallOptions::reply_capacity(limit + 64));
        assert!(text.contains(&limit.to_string()) && !text.contains("reply_capacity"), "{text}");
    }
    assert_eq!(stream.sync(ramp_length::with(Ramp(7))).expect("goes on"), 7);
}
