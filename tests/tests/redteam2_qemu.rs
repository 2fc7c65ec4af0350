//! A failing test of the second round, part A, on machines: tasks that are ended at any instruction.

use hamr::{CallError, CallOptions, Image, Options, WorldOptions};
use hamr_comm::abi::status::Status;
use hamr_tests::conformance::until;
use hamr_tests::devices;
use hamr_tests_xacc::claims::{claims_segment_until_ended, own_segment, puts_first};
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
            fn j2_an_ended_task_leaves_the_segment_where_it_was() {
                super::segment(SPEC);
            }
        }
    )*};
}
machines! { riscv64 x86_64 }
