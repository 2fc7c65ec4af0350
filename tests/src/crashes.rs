//! Faults of a handler: each ends its own call, with a report of where it happened, and the device
//! serves the next call. One macro call per device:
//!
//! ```no_run
//! hamr_tests::crashes!("shm");
//! # fn main() {}
//! ```

use crate::conformance::{Gate, options};
use crate::devices;
use crate::processes::resident;
use hamr::logs::LogEvent;
use hamr::{CallError, CallOptions, FaultReport, Image, Node, Options};
use hamr_comm::abi::status::Status;
use hamr_kernels::bench::sum_4;
use hamr_kernels::faults::panics;
use hamr_tests_kernels::crashes::{
    bad_address, divides, fma, illegal, loops, masks_interrupts, misaligned, null, null_twice, overflows, writes_code,
};
use hamr_tests_kernels::variants::RESETS;
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
            fn ten_thousand_faults_leak_nothing() {
                $crate::crashes::storm($spec);
            }
            #[test]
            fn an_image_file_of_another_build_gives_no_names() {
                $crate::crashes::another_build($spec);
            }
            #[test]
            fn each_fault_names_its_location_and_the_next_call_works() {
                $crate::crashes::each_fault_names_its_location($spec);
            }
            /// No call of its image may take longer than 200 ms.
            mod alone {
                #[test]
                fn on_fault_reset_begins_a_new_epoch() {
                    $crate::crashes::reset($spec);
                }
            }
        }
    };
}

/// The fault that a call ended with.
///
/// # Panics
/// When it did not.
pub fn fault<T: std::fmt::Debug, E: std::fmt::Debug>(outcome: Result<T, CallError<E>>) -> FaultReport {
    match outcome {
        Err(CallError::Fault(report)) => *report,
        other => panic!("expected a fault, got {other:?}"),
    }
}

/// The device serves calls.
///
/// # Panics
/// When it does not.
pub fn still_works(node: &Node) {
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

/// Panic, null pointer, stack overflow, illegal instruction, bad address.
pub fn each_fault_names_its_location(spec: &str) {
    let node = devices::open(spec, options());
    for round in 0..3 {
        expect(&fault(node.sync(panics::with(round))), Status::PANIC, "panics", "faults.rs");
        expect(&fault(node.sync(null::with())), Status::TRAP, "null", "crashes.rs");
        let report = fault(node.sync(overflows::with(u64::MAX)));
        expect(&report, Status::TRAP, "deeper", "crashes.rs");
        assert!(report.to_string().contains("stack overflow"), "{report}");
        expect(&fault(node.sync(illegal::with())), Status::TRAP, "illegal", "crashes.rs");
        still_works(&node);
        expect(&fault(node.sync(bad_address::with(64))), Status::TRAP, "bad_address", "crashes.rs");
        expect(&fault(node.sync(writes_code::with())), Status::TRAP, "writes_code", "crashes.rs");
        still_works(&node);
    }
    println!("misaligned: {:?}", node.sync(misaligned::with()));
    println!("divide by zero: {:?}", node.sync(divides::with(1, 0)));
    still_works(&node);
}

/// A handler that loops for ever is ended some time after its limit. A call without a limit is not
/// ended. Neither harms the next call.
pub fn runaway(spec: &str) {
    let node = devices::open(spec, options());
    let limit = |ms| CallOptions { limit: Some(Duration::from_millis(ms)), ..CallOptions::default() };
    for _ in 0..3 {
        let begin = Instant::now();
        let call = node.offload_with(loops::with(), limit(100)).expect("sent");
        let outcome = call.wait();
        // Measured before the names are looked up, which is not part of the call.
        let took = begin.elapsed();
        expect(&fault(outcome), Status::RUNAWAY, "loops", "crashes.rs");
        assert!(took >= Duration::from_millis(100), "never early: {took:?}");
        assert!(took < Duration::from_secs(5), "soon: {took:?}");
        still_works(&node);
    }
    // A limit that is not reached, and many calls while ticks arrive.
    let gate = Gate::new(&node);
    let waits = node.offload_with(wait_at::with(gate.ptr(), 7), limit(20_000)).expect("sent");
    gate.wait_for(1);
    std::thread::sleep(Duration::from_millis(200));
    gate.open();
    assert_eq!(waits.wait().expect("in time"), 7);
    let begin = Instant::now();
    let mut calls = 0u64;
    while begin.elapsed() < Duration::from_millis(500) {
        let floats = node.sync(fma::with(calls as f64, 3.0, 0.5)).expect("in time");
        assert_eq!(floats.to_bits(), (calls as f64 * 3.0 + 0.5).to_bits());
        calls += 1;
    }
    println!("{calls} calls beside the tick");
}

/// A handler leaves interrupts masked: when the device has rested, it has them again.
pub fn interrupts_come_back(node: &Node) {
    node.sync(masks_interrupts::with()).expect("runs");
    std::thread::sleep(Duration::from_secs(1));
    let limit = CallOptions { limit: Some(Duration::from_millis(100)), ..CallOptions::default() };
    let call = node.offload_with(loops::with(), limit).expect("sent");
    expect(&fault(call.wait()), Status::RUNAWAY, "loops", "crashes.rs");
    assert_eq!(node.sync(fma::with(2.0, 3.0, 0.5)).expect("works"), 6.5);
}

/// Thousands of faults of every kind that the device survives by itself; the host's memory does not
/// grow.
pub fn storm(spec: &str) {
    let node = devices::open(spec, options());
    // A hosted image needs a new epoch for each trap, which takes milliseconds; it survives panics.
    let epochs = spec.ends_with("shm");
    let mut before = 0;
    for round in 0..10_000 {
        if round == 2_000 {
            before = resident();
        }
        let report = match round % 4 {
            0 if !epochs || round % 100 == 0 => fault(node.sync(null::with())),
            1 if !epochs => fault(node.sync(illegal::with())),
            2 if !epochs => fault(node.sync(bad_address::with(128))),
            _ => fault(node.sync(panics::with(round))),
        };
        assert!(report.trace.frames().count() >= 2, "{report}");
        assert!(!report.to_string().is_empty());
    }
    still_works(&node);
    let grown = resident().saturating_sub(before);
    println!("{grown} bytes more, epoch {}", node.info().epoch);
    assert!(grown < 512 * 4096, "8000 faults cost {grown} bytes");
    assert_eq!(node.live_buffers(), 0);
}

/// The image's file is replaced by another build while the image runs: addresses get no names, and
/// the report contains the reason.
pub fn another_build(spec: &str) {
    let target = devices::runtime().target(spec).expect("known").expect("takes an image");
    let original = devices::image(spec).resolve(&target).expect("an image");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("hamr-checks");
    std::fs::copy(&original.path, &path).expect("a copy");
    let node = devices::runtime()
        .open_with(
            spec,
            Image::file(&path).expect("an image"),
            Options { start_deadline: devices::START_TIMEOUT, ..options() },
        )
        .expect("a device");
    let report = fault(node.sync(panics::with(1)));
    assert_eq!(report.backtrace().refused, None);
    // Another build has another build id; the running image is not changed.
    let mut bytes = std::fs::read(&path).expect("readable");
    let id: Vec<u8> = original.build_id.bytes().to_vec();
    let at = bytes.windows(20).position(|window| window == id).expect("the file contains its build id");
    bytes[at] ^= 0xFF;
    std::fs::remove_file(&path).expect("removed");
    std::fs::write(&path, bytes).expect("written");
    let report = fault(node.sync(null_twice::with()));
    println!("{report}");
    let why = report.backtrace().refused.expect("another build");
    assert!(
        why.contains(&original.build_id.to_hex()) && why.contains("is build") && why.contains("hamr-checks"),
        "{why}"
    );
    assert!(!report.to_string().contains("crashes.rs"), "{report}");
    assert!(report.trace.pc != 0 && report.to_string().contains(&format!("{:#x}", report.trace.pc)), "{report}");
    // Now there is no file at all.
    std::fs::remove_file(&path).expect("removed");
    if !spec.ends_with("shm") {
        let report = fault(node.sync(illegal::with()));
        assert!(report.to_string().contains("cannot be read"), "{report}");
        still_works(&node);
    }
}

/// The variant of the image that begins a new epoch after a fault, in the same process or machine.
pub fn reset(spec: &str) {
    let image = devices::variant(spec, RESETS);
    let options = Options { start_deadline: devices::START_TIMEOUT, ..options() };
    let open = |options| devices::runtime().open_with(spec, image.clone(), options);
    let node = open(options.clone()).expect("a device");
    let pid = node.info().pid;
    let kept = node.buffer(&[7u64; 100]).expect("room");
    let mut logs = node.logs().expect("an image that logs");
    for round in 1..5 {
        assert_eq!(node.info().epoch, round);
        expect(&fault(node.sync(panics::with(round))), Status::PANIC, "panics", "faults.rs");
        still_works(&node);
        assert_eq!(node.info().epoch, round + 1);
    }
    assert_eq!(node.info().pid, pid, "a panic ends no process");
    // The last lines of each epoch, read after all of them.
    let output = logs.poll();
    for round in 1..5 {
        let text = format!("asked to panic with {round}");
        let lines = output.iter().filter(|e| matches!(e, LogEvent::Line(line) if line.message.contains(&text)));
        assert_eq!(lines.count(), 1, "{text}: {output:?}");
    }
    assert_eq!(node.read(kept.ptr()).expect("buffers stay"), [7; 100]);
    // No call may take longer than the limit in the image.
    expect(&fault(node.sync(loops::with())), Status::RUNAWAY, "loops", "crashes.rs");
    still_works(&node);
    // Without a restart, the device stays lost, and calls report the reason.
    let node = open(Options { restart: false, ..options }).expect("a device");
    fault(node.sync(panics::with(9)));
    let error = node.sync(sum_4::with(1, 2, 3, 4)).expect_err("gone").to_string();
    assert!(error.contains("it ended by a fault: asked to panic with 9"), "{error}");
}
