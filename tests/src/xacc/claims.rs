//! Claims of a rank's segment.

use hamr::{CallError, Node};
use hamr_kernels::demo::isa;
use hamr_tests_kernels::worlds::fill;
use hamr_tests_xacc::claims::{claim, end};
use std::time::{Duration, Instant};

const FROM: u64 = 4096;
const HELD: &str = "a program has the segment";

/// A claim is held across waits and refuses others; it ends with its task, however that ends.
pub fn check_claims(node: &Node) {
    let whole = node.sync(fill::with(1)).expect("it is free");
    for wrong in [FROM + 1, whole, u64::MAX] {
        assert!(node.sync(claim::with(wrong, end::RETURN, gate(node).ptr())).is_err(), "from {wrong}");
    }
    for is_cancelled in [false, true] {
        let gate = gate(node);
        let held = node.offload(claim::with(FROM, end::RETURN, gate.ptr())).expect("sent");
        wait_until_held(node);
        let second = node.sync(claim::with(FROM, end::RETURN, gate.ptr())).expect_err("held").to_string();
        assert!(second.contains(HELD), "{second}");
        assert!(node.sync(isa::with()).is_ok(), "others are served");
        if is_cancelled {
            held.cancel();
            assert!(matches!(held.wait(), Err(CallError::Cancelled(..))));
        } else {
            node.words(gate.ptr()).expect("its own").get(0).expect("a word").publish(1);
            assert_eq!(held.wait().expect("its bytes are as they were"), whole - FROM);
        }
        assert_eq!(node.sync(fill::with(2)).expect("released"), whole);
    }
    let panicked = node.sync(claim::with(FROM, end::PANIC, gate(node).ptr())).expect_err("it panics").to_string();
    assert!(panicked.contains("it panics with a claim"), "{panicked}");
    assert_eq!(node.sync(fill::with(3)).expect("released"), whole);
}

fn gate(node: &Node) -> hamr::Buffer<u32> {
    node.buffer(&[0u32; 32]).expect("room")
}

fn wait_until_held(node: &Node) {
    let limit = Instant::now() + Duration::from_secs(20);
    loop {
        match node.sync(fill::with(9)) {
            Err(error) => return assert!(error.to_string().contains(HELD), "{error}"),
            Ok(_) => assert!(Instant::now() < limit, "it is never held"),
        }
    }
}
