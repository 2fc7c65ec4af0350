//! The state of a resource after a runaway was ended while using it, on bare metal, where a call is
//! ended between any two instructions. One macro call per machine:
//!
//! ```no_run
//! hamr_tests::resources!("qemu:riscv64");
//! # fn main() {}
//! ```

use crate::conformance::options;
use crate::crashes::fault;
use crate::devices;
use hamr::CallOptions;
use hamr_comm::abi::status::Status;
use hamr_tests_kernels::resources::{RESOURCES, clears_owned, clears_resource, polls_resource, replaces_owned};
use std::time::Duration;

/// One test per case, on one kind of bare-metal machine with the image of `tests/image`.
#[macro_export]
macro_rules! resources {
    ($spec:expr) => {
        mod resources {
            #[test]
            fn a_resource_that_a_runaway_polled_is_free_or_poisoned() {
                $crate::resources::polled($spec);
            }
            #[test]
            fn a_value_that_a_runaway_replaced_is_dropped_once() {
                $crate::resources::replaced($spec);
            }
        }
    };
}

fn limit() -> CallOptions {
    CallOptions { limit: Some(Duration::from_millis(1)), ..CallOptions::default() }
}

/// Under QEMU, interrupts arrive at the ends of code blocks, and the compare-and-swap of a lock
/// ends one.
pub fn polled(spec: &str) {
    let node = devices::open(spec, options());
    let stream = node.stream().expect("free");
    let (mut free, mut poisoned) = (0, 0);
    for which in 0..RESOURCES {
        let report = fault(stream.sync_with(polls_resource::with(which), limit()));
        assert_eq!(report.status, Status::RUNAWAY, "{report}");
        match stream.sync(clears_resource::with(which)).expect("a reply") {
            (before, false, after) if (Status(before), Status(after)) == (Status::OK, Status::OK) => free += 1,
            (before, true, after) if (Status(before), Status(after)) == (Status::POISONED, Status::OK) => poisoned += 1,
            other => panic!("resource {which}: status, poisoned, status when cleared: {other:?}"),
        }
    }
    println!("{spec}: {free} free, {poisoned} poisoned and cleared");
    assert!(poisoned != 0, "no call was ended while it used its resource: this test shows nothing");
}

/// A value that may already be dropped is not dropped again.
pub fn replaced(spec: &str) {
    let node = devices::open(spec, options());
    let stream = node.stream().expect("free");
    for round in 0..30 {
        let report = fault(stream.sync_with(replaces_owned::with(), limit()));
        assert_eq!(report.status, Status::RUNAWAY, "{report}");
        assert_eq!(stream.sync(clears_owned::with()).expect("cleared"), 0, "round {round}: dropped twice");
    }
}
