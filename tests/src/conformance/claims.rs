//! Claims: what a task keeps for itself across its waits, other handlers are refused.

use super::{Gate, Open, driven, is_loopback, options, until};
use crate::crashes::fault;
use hamr::{Buffer, CallError, CallOptions, Node, Options};
use hamr_comm::abi::status::Status;
use hamr_tests_xacc::claims::{
    READS, WAYS, clears_levels, keep, keeps, keeps_many, keeps_resource, uses, uses_inline, uses_resource,
};
use std::time::Duration;

/// A device whose image has claims.
fn opened(open: Open) -> Option<Node> {
    // That of the board of the tests has not: it has no `world`.
    Some(open(Options { tickets: 64, ..options() })).filter(|node| node.info().name != "microvm")
}

fn is_free(node: &Node, x: &Buffer<u64>) {
    for way in 0..WAYS.len() as u32 {
        node.sync(uses::with(x.ptr(), way)).expect("free");
        node.sync(uses_inline::with(x.ptr(), way)).expect("free");
    }
}

/// Handlers that could write to claimed bytes, or read what is half done, are refused with the number of the
/// task. The task itself and accesses to the rest of the buffer are not.
pub fn others_are_refused(open: Open) {
    let Some(node) = opened(open) else { return };
    for how in [0, keep::WRITES] {
        let x = node.buffer(&[5u64; 64]).expect("room");
        let part = |range| x.ptr().slice(range).expect("inside");
        let (mine, over, rest) = (part(16..32), part(20..40), part(32..64));
        let gate = Gate::new(&node);
        driven(&node, || {
            let held = node.offload(keeps::with(mine, gate.ptr(), how)).expect("sent");
            gate.wait_for(1);
            for way in 0..WAYS.len() as u32 {
                node.sync(uses::with(rest, way)).expect("not claimed");
                node.sync(uses_inline::with(rest, way)).expect("not claimed");
                let mut outcomes = vec![node.sync(uses::with(over, way))];
                if !WAYS[way as usize].starts_with("claim") {
                    outcomes.push(node.sync(uses_inline::with(over, way)));
                }
                for outcome in outcomes {
                    if how == 0 && way < READS {
                        outcome.expect("it may be read");
                        continue;
                    }
                    let report = fault(outcome);
                    assert_eq!(report.status, Status::BUFFER_BUSY, "{}: {report}", WAYS[way as usize]);
                    let [owner, from, to] = report.numbers;
                    assert_eq!((owner >> 32 > 40, to - from), (true, 128), "{report}");
                    let said = format!("task {} has claimed bytes {from:#x} to {to:#x}", (owner & 0xFFFF) - 1);
                    assert!(report.to_string().contains(&said), "{report}");
                }
            }
            assert!(node.put(&[1; 16], mine).is_err(), "its call names the buffer");
            gate.open();
            assert_eq!(held.wait().expect("goes on"), if how == 0 { 80 } else { 112 });
        });
        is_free(&node, &x);
        node.put(&[1; 16], mine).expect("free");
    }
}

/// However the task ends, and if its handler has lost the claim, or ends it before.
pub fn end_with_their_tasks(open: Open) {
    let Some(node) = opened(open) else { return };
    let x = node.buffer(&[5u64; 64]).expect("room");
    for how in [keep::FORGETS, keep::PANICS, keep::RELEASES] {
        let gate = Gate::new(&node);
        driven(&node, || {
            let held = node.offload(keeps::with(x.ptr(), gate.ptr(), how | keep::WRITES)).expect("sent");
            gate.wait_for(1);
            let outcome = node.sync(uses::with(x.ptr(), 0));
            assert_eq!(outcome.is_ok(), how == keep::RELEASES, "{outcome:?}");
            gate.open();
            let ended = held.wait();
            assert_eq!(ended.is_err(), how == keep::PANICS, "{ended:?}");
        });
        is_free(&node, &x);
    }
    let gate = Gate::new(&node);
    driven(&node, || {
        let held = node.offload(keeps::with(x.ptr(), gate.ptr(), keep::WRITES)).expect("sent");
        gate.wait_for(1);
        held.cancel();
        assert!(matches!(held.wait(), Err(CallError::Cancelled(_))));
        until("it ends", || node.sync(uses::with(x.ptr(), 0)).is_ok());
        let options = CallOptions { deadline: Some(Duration::from_millis(50)), ..CallOptions::default() };
        let held = node.offload_with(keeps::with(x.ptr(), gate.ptr(), keep::WRITES), options).expect("sent");
        let outcome = held.wait();
        assert!(matches!(outcome, Err(CallError::Deadline(_))), "{outcome:?}");
        until("it ends", || node.sync(uses::with(x.ptr(), 0)).is_ok());
    });
    is_free(&node, &x);
    let gate = Gate::new(&node);
    let held = driven(&node, || {
        let held = node.offload(keeps::with(x.ptr(), gate.ptr(), keep::WRITES | keep::FILLS)).expect("sent");
        gate.wait_for(1);
        held
    });
    node.restart().expect("starts again");
    assert!(held.wait().is_err(), "it ended with its epoch");
    if is_loopback(&node) {
        // Others end their process, or drop nothing.
        assert_eq!(x.read().expect("there"), [9; 64], "a task that is unwound may use what it claimed");
    }
    is_free(&node, &x);
}

/// A hosted device has room for all. On bare metal no more than the image has room for are claimed, and what
/// is refused leaves none behind.
pub fn as_many_as_the_image_chooses(open: Open) {
    let Some(node) = opened(open) else { return };
    let (x, y) = (node.buffer(&[5u64; 64]).expect("room"), node.buffer(&[5u64; 64]).expect("room"));
    let (gate, opened) = (Gate::new(&node), Gate::new(&node));
    opened.open();
    driven(&node, || {
        let held = node.offload(keeps_many::with(x.ptr(), gate.ptr(), 20)).expect("sent");
        gate.wait_for(1);
        for _ in 0..3 {
            let many = node.sync(keeps_many::with(y.ptr(), opened.ptr(), 29));
            if ["qemu", "pci"].iter().any(|kind| node.info().name.contains(kind)) {
                let report = fault(many);
                assert_eq!(report.status, Status::BUFFER_BUSY, "{report}");
                assert!(report.to_string().contains("expected at most 48 claimed ranges"), "{report}");
            } else {
                assert_eq!(many.expect("room"), 29);
            }
            assert_eq!(node.sync(keeps_many::with(y.ptr(), opened.ptr(), 28)).expect("room"), 28);
        }
        gate.open();
        assert_eq!(held.wait().expect("goes on"), 20);
    });
    assert_eq!(node.sync(keeps_many::with(x.ptr(), opened.ptr(), 40)).expect("room"), 40);
    is_free(&node, &x);
}

/// A resource that a task claims is its own across waits; a task that ends with the claim poisons it.
pub fn of_resources(open: Open) {
    let Some(node) = opened(open) else { return };
    let clear = || node.sync(clears_levels::with()).expect("runs");
    clear();
    for how in [0, keep::RELEASES, keep::PANICS, keep::FORGETS] {
        let gate = Gate::new(&node);
        driven(&node, || {
            let held = node.offload(keeps_resource::with(gate.ptr(), how)).expect("sent");
            gate.wait_for(1);
            let used = node.sync(uses_resource::with());
            if how == keep::RELEASES {
                assert!(!used.expect("free"), "the change is half done");
            } else {
                for report in [fault(used), fault(node.sync(keeps_resource::with(gate.ptr(), 0)))] {
                    assert_eq!(report.status, Status::RESOURCE_BUSY, "{report}");
                    let said =
                        format!("task {} has claimed the resource in its line ", (report.numbers[0] & 0xFFFF) - 1);
                    assert!(report.to_string().contains(&said), "{report}");
                }
                assert!(!clear(), "it is in use");
            }
            gate.open();
            let ended = held.wait();
            assert_eq!(ended.is_err(), how == keep::PANICS, "{ended:?}");
        });
        if how & (keep::PANICS | keep::FORGETS) != 0 {
            assert_eq!(fault(node.sync(uses_resource::with())).status, Status::POISONED);
            assert!(clear());
        }
        assert!(node.sync(uses_resource::with()).expect("free"), "{how}");
    }
    let gate = Gate::new(&node);
    let held = driven(&node, || {
        let held = node.offload(keeps_resource::with(gate.ptr(), 0)).expect("sent");
        gate.wait_for(1);
        held
    });
    node.restart().expect("starts again");
    assert!(held.wait().is_err(), "it ended with its epoch");
    // Processes and machines begin anew. A card does not: its task returned an error, and dropped its claim.
    assert_eq!(clear(), is_loopback(&node));
    let is_whole = node.sync(uses_resource::with()).expect("free");
    assert!(is_whole || node.info().name.starts_with("pci"));
}
