//! What a handler does wrong ends its own call, with a fault that says where; the device serves the next one. One macro
//! call per device:
//!
//! ```no_run
//! hamr_tests::crashes!("shm");
//! # fn main() {}
//! ```

use crate::conformance::{Gate, options};
use crate::devices;
use hamr::{CallError, CallOptions, FaultReport, Node};
use hamr_comm::abi::status::Status;
use hamr_kernels::bench::sum_4;
use hamr_kernels::faults::panics;
use hamr_tests_kernels::crashes::{bad_address, divides, fma, illegal, loops, misaligned, null, overflows};
use hamr_tests_kernels::wait_at;
use std::time::{Duration, Instant};

/// One test per case, on one kind of device with the image of `tests/image`.
#[macro_export]
macro_rules! crashes {
    ($spec:expr) => {
        mod crashes {
            #[test]
            fn a_runaway_is_ended_and_the_next_call_works() {
                $crate::crashes::runaway($spec);
            }
            #[test]
            fn each_fault_says_where_and_the_fifth_call_works() {
                $crate::crashes::each_fault_says_where($spec);
            }
        }
    };
}

fn fault<T: std::fmt::Debug, E: std::fmt::Debug>(outcome: Result<T, CallError<E>>) -> FaultReport {
    match outcome {
        Err(CallError::Fault(report)) => *report,
        other => panic!("expected a fault, got {other:?}"),
    }
}

fn still_works(node: &Node) {
    assert_eq!(node.sync(sum_4::with(1, 2, 3, 4)).expect("the next call works"), 10);
}

/// Checks that a fault names the function and the file it happened in.
fn expect(report: &FaultReport, status: Status, function: &str, file: &str) {
    println!("{report}\n");
    assert_eq!(report.status, status, "{report}");
    let backtrace = report.backtrace();
    assert_eq!(backtrace.refused, None);
    assert!(backtrace.names(function), "no {function} in\n{report}");
    assert!(report.to_string().contains(&format!("{file}:")), "no {file} in\n{report}");
}

/// Panic, null, stack overflow, illegal instruction, bad address.
pub fn each_fault_says_where(spec: &str) {
    let node = devices::open(spec, options());
    for round in 0..3 {
        expect(&fault(node.sync(panics::with(round))), Status::PANIC, "panics", "faults.rs");
        expect(&fault(node.sync(null::with())), Status::TRAP, "null", "crashes.rs");
        expect(&fault(node.sync(overflows::with(u64::MAX))), Status::TRAP, "deeper", "crashes.rs");
        expect(&fault(node.sync(illegal::with())), Status::TRAP, "illegal", "crashes.rs");
        still_works(&node);
        expect(&fault(node.sync(bad_address::with(64))), Status::TRAP, "bad_address", "crashes.rs");
        still_works(&node);
    }
    println!("misaligned: {:?}", node.sync(misaligned::with()));
    println!("divide by zero: {:?}", node.sync(divides::with(1, 0)));
    still_works(&node);
}

/// A handler that loops for ever is ended some time after its limit, one without a limit is not; neither harms the next call.
pub fn runaway(spec: &str) {
    let node = devices::open(spec, options());
    let limit = |ms| CallOptions { limit: Some(Duration::from_millis(ms)), ..CallOptions::default() };
    for _ in 0..3 {
        let begin = Instant::now();
        let call = node.offload_with(loops::with(), limit(100)).expect("sent");
        expect(&fault(call.get()), Status::RUNAWAY, "loops", "crashes.rs");
        assert!(begin.elapsed() >= Duration::from_millis(100), "never early: {:?}", begin.elapsed());
        assert!(begin.elapsed() < Duration::from_secs(5), "soon: {:?}", begin.elapsed());
        still_works(&node);
    }
    // Enough time, taken or not, and calls in numbers while ticks come.
    let gate = Gate::new(&node);
    let waits = node.offload_with(wait_at::with(gate.ptr(), 7), limit(20_000)).expect("sent");
    gate.wait_for(1);
    std::thread::sleep(Duration::from_millis(200));
    gate.open();
    assert_eq!(waits.get().expect("in time"), 7);
    let begin = Instant::now();
    let mut calls = 0u64;
    while begin.elapsed() < Duration::from_millis(500) {
        let floats = node.sync(fma::with(calls as f64, 3.0, 0.5)).expect("in time");
        assert_eq!(floats.to_bits(), (calls as f64 * 3.0 + 0.5).to_bits());
        calls += 1;
    }
    println!("{calls} calls beside the tick");
}
