//! Failing tests of the second round, part A, on machines: tasks that are ended at any instruction.

use hamr::{CallError, CallOptions, Image, Options, WorldOptions};
use hamr_comm::abi::status::Status;
use hamr_tests::conformance::{Gate, options, until};
use hamr_tests::devices;
use hamr_tests_xacc::claims::{claims_segment_until_ended, claims_until_ended, keeps, own_segment, puts_first, takes};
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

/// A runaway that claims the segment: behind its end the segment is where it was.
fn segment(spec: &str) {
    let defaults = WorldOptions::default();
    let rank = Options { segment: 1 << 20, start_deadline: devices::START_TIMEOUT, ..defaults.rank.clone() };
    let image = Image::find(devices::IMAGE).expect("a name");
    let world = devices::runtime().world_with(&[spec], image, WorldOptions { rank, ..defaults }).expect("a world");
    let node = world.node(0);
    let buffer = node.buffer(&[1u8; 64]).expect("room");
    let before = node.sync(own_segment::with()).expect("a rank");
    for round in 1..=300 {
        ended(node.sync_with(claims_segment_until_ended::with(), limit()));
        node.sync(puts_first::with(0xAB)).expect("its own segment");
        let (now, seen) = (node.sync(own_segment::with()).expect("a rank"), buffer.read().expect("there"));
        assert_eq!(
            (now, seen[0]),
            (before, 1),
            "start of the segment and bytes of the heap behind {round} tasks that were ended; a byte of another's buffer"
        );
    }
    until("it serves", || node.ping().is_ok());
}

macro_rules! machines {
    ($($machine:ident)*) => {$(
        mod $machine {
            const SPEC: &str = concat!("qemu:", stringify!($machine));

            #[test]
            fn j1_an_ended_task_claims_nothing() {
                super::claims(SPEC);
            }
            #[test]
            fn j2_an_ended_task_leaves_the_segment_where_it_was() {
                super::segment(SPEC);
            }
        }
    )*};
}
machines! { riscv64 x86_64 }
