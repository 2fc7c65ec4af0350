//! A device under a hostile host. For any bytes in the window there is no panic, no hang, a reply
//! to every request that the device finds, no write outside of the device's own words, and
//! well-formed calls still work (abi §5).

mod handoff;
mod seeds;
mod two_lines;

use hamr_comm::abi::buffer::{BufferParts, WireBuffer};
use hamr_comm::abi::ids::{HandlerKey, NodeId};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::{HostState, MAGIC, feature, word};
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::{Place, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{Queue, Shared, Window};
use hamr_comm::am::Requester;
use hamr_comm::migrate::MAX_MESSAGE;
use hamr_comm::registry::Table;
use hamr_comm::{Context, Entry, Handler, Task};
use hamr_device_fw::Device;
use hamr_tests::hostile::*;
use proptest::prelude::*;
use std::time::Duration;

/// Fails, instead of hanging, when `f` takes minutes; it takes seconds on a quiet machine.
fn in_time(f: impl FnOnce() + Send + 'static) {
    let (done, wait) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        f();
        let _ = done.send(());
    });
    if let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = wait.recv_timeout(Duration::from_secs(200)) {
        panic!("the device hangs");
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => any::<u64>(),
        3 => 0..300u64,
        2 => 0..40_000u64,
        1 => (0..64u32).prop_map(|bit| 1 << bit),
        1 => (0..200u64).prop_map(|n| u64::MAX - n),
    ]
}

/// A buffer of this node with any range, or one of another node.
fn buffer() -> impl Strategy<Value = [u64; 2]> {
    (number(), number(), any::<(u32, u16)>(), prop_oneof![4 => Just(NODE.0), 1 => 0..0xFFFu16]).prop_map(
        |(off, len, (index, generation), node)| {
            WireBuffer::pack(BufferParts { off, index, len, generation, node: NodeId(node) }).words()
        },
    )
}

fn payload() -> impl Strategy<Value = [u64; 6]> {
    prop_oneof![
        4 => prop::array::uniform6(number()),
        // EXT with a plausible ticket, then descriptors.
        4 => (any::<(u32, u32, u32)>(), 0..6u64, prop::array::uniform4(number())).prop_map(
            |((deadline, seq, trace), ticket, [a, b, c, d])| {
                let seq = u64::from(seq | 1) << 32;
                [seq | u64::from(deadline), u64::from(trace) << 32 | ticket, a, b, c, d]
            }
        ),
        2 => (number(), buffer(), buffer()).prop_map(|(a, [b, c], [d, e])| [a, b, c, d, e, 0]),
    ]
}

fn header() -> impl Strategy<Value = u32> {
    let handlers = table().len() as u32;
    let key = prop_oneof![6 => 0..handlers, 1 => handlers..0x1_0000];
    let len = prop_oneof![3 => 0..64u32, 2 => Just(16u32), 2 => Just(32u32), 1 => Just(48u32), 1 => Just(40u32)];
    let flags = prop_oneof![
        2 => Just(0),
        2 => Just(ReqHdr::EXT),
        2 => Just(ReqHdr::EXT | ReqHdr::TICKET),
        2 => Just(ReqHdr::EXT | ReqHdr::TICKET | ReqHdr::UNORDERED),
        3 => (0..256u32).prop_map(|f| f << 24),
    ];
    (key, len, 0..4u32, flags).prop_map(|(key, len, place, flags)| key | len << 16 | place << 22 | flags)
}

fn message() -> impl Strategy<Value = Message> {
    (0..4u32, any::<bool>(), header(), payload(), prop_oneof![Just(0), any::<u32>()])
        .prop_map(|(stream, hot, hdr, words, ticket_hdr)| Message { stream, hot, hdr, words, ticket_hdr })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_message_is_answered(batches in prop::collection::vec(prop::collection::vec(message(), 1..40), 1..4)) {
        let mut bench = Bench::new();
        for batch in &batches {
            send(&mut bench, batch);
            bench.still_serves();
        }
    }

    #[test]
    fn any_bytes_in_the_head_of_a_window_are_refused_or_served(
        pokes in prop::collection::vec((0..0x800u64, number()), 1..12),
        open in any::<u32>(),
    ) {
        let mut bench = Bench::new();
        bench.offer();
        for (off, value) in pokes {
            // The head and the descriptors after it, 8 bytes at a time.
            bench.window.write_bytes(off, &value.to_le_bytes()).expect("inside the window");
        }
        // The offer itself stays valid, so that the device reads the rest.
        bench.say(0, MAGIC);
        bench.say(word::HOST_STATE, HostState::OFFERED.0);
        for _ in 0..70 {
            let _ = bench.device.poll();
        }
        bench.say(word::HOST_STATE, HostState::READY.0);
        bench.say(word::OPEN_QUEUES, open);
        for _ in 0..70 {
            let _ = bench.device.poll();
        }
        bench.attach();
        bench.still_serves();
    }
}
