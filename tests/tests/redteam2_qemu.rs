//! Failing tests of the second round, part A, on machines: tasks that are ended at any instruction.

use hamr::{CallError, CallOptions};
use hamr_comm::abi::status::Status;
use hamr_tests::conformance::{Gate, options};
use hamr_tests::devices;
use hamr_tests_xacc::claims::{claims_until_ended, keeps, takes};
use std::time::Duration;

fn limit() -> CallOptions {
    CallOptions { limit: Some(Duration::from_millis(1)), ..CallOptions::default() }
}

fn ended<V: std::fmt::Debug, E: std::fmt::Debug>(outcome: Result<V, CallError<E>>) {
    match outcome {
        Err(CallError::Fault(report)) if report.status == Status::RUNAWAY => {}
        other => panic!("expected a runaway, got {other:?}"),
    }
}

/// A runaway that claims: behind its end nothing of it is claimed.
fn claims(spec: &str) {
    let node = devices::open(spec, options());
    let (x, y) = (node.buffer(&[0u64; 8]).expect("room"), node.buffer(&[0u64; 8]).expect("room"));
    let mut left = 0;
    const ROUNDS: u32 = 100;
    for _ in 0..ROUNDS {
        ended(node.sync_with(claims_until_ended::with(x.ptr()), limit()));
        let gate = Gate::new(&node);
        let other = node.offload(keeps::with(y.ptr(), gate.ptr(), 0)).expect("sent");
        gate.wait_for(1);
        if let Err(why) = node.sync(takes::with(x.ptr())) {
            if left == 0 {
                println!("{why}");
            }
            left += 1;
        }
        gate.open();
        other.wait().expect("goes on");
    }
    println!("{spec}: {left} of {ROUNDS} left their claim");
    assert_eq!(left, 0, "of {ROUNDS} tasks that were ended left their claim");
}

macro_rules! machines {
    ($($machine:ident)*) => {$(
        mod $machine {
            const SPEC: &str = concat!("qemu:", stringify!($machine));

            #[test]
            fn j1_an_ended_task_claims_nothing() {
                super::claims(SPEC);
            }
        }
    )*};
}
machines! { riscv64 x86_64 }
