//! Programs of `hamr-xacc` on machines.

use hamr::{CallError, CallOptions, Image, Options, World, WorldOptions};
use hamr_comm::abi::status::Status;
use hamr_tests::{devices, xacc};
use hamr_tests_kernels::worlds::fill;
use hamr_tests_xacc::claims::{claims_segment_until_ended, own_segment, puts_first};
use std::time::Duration;

/// Processes and machines of three instruction sets.
const MIXED: [&str; 4] = ["qemu:riscv64", "shm", "qemu:aarch64", "qemu:x86_64"];

/// A named image is built for each kind of rank.
fn world(specs: &[&str]) -> World {
    let rank = WorldOptions::default().rank;
    let rank = Options { segment: 8 << 20, start_deadline: devices::START_TIMEOUT, ..rank };
    let image = Image::find(devices::IMAGE).expect("a name");
    devices::runtime().world_with(specs, image, WorldOptions { rank, ..WorldOptions::default() }).expect("a world")
}

/// On bare metal nothing unwinds a task that panics.
#[test]
fn a_claim_ends_with_its_task() {
    world(&MIXED).nodes().iter().for_each(xacc::check_claims);
}

/// A task that is ended between any two instructions of a claim or of its end leaves the segment where it was, and all of
/// it to others.
#[test]
fn an_ended_task_leaves_the_segment_where_it_was() {
    let limit = CallOptions { limit: Some(Duration::from_millis(1)), ..CallOptions::default() };
    for spec in ["qemu:riscv64", "qemu:x86_64"] {
        let world = world(&[spec]);
        let node = world.node(0);
        let buffer = node.buffer(&[1u8; 64]).expect("room");
        let before = node.sync(own_segment::with()).expect("a rank");
        for round in 1..=300 {
            match node.sync_with(claims_segment_until_ended::with(), limit) {
                Err(CallError::Fault(report)) if report.status == Status::RUNAWAY => {}
                other => panic!("expected a runaway, got {other:?}"),
            }
            node.sync(puts_first::with(0xAB)).expect("its own segment");
            let (now, seen) = (node.sync(own_segment::with()).expect("a rank"), buffer.read().expect("there"));
            assert_eq!(
                (now, seen[0]),
                (before, 1),
                "start of the segment and bytes of the heap behind {round} tasks that were ended; a byte of another's buffer"
            );
            if round % 50 == 0 {
                assert_eq!(node.sync(fill::with(0)).expect("nobody has it"), 8 << 20);
            }
        }
        assert!(node.ping().is_ok());
    }
}

#[test]
fn collectives_are_in_the_order_of_the_nodes() {
    for machine in ["qemu:x86_64", "qemu:aarch64", "qemu:riscv64"] {
        let bits = xacc::check_collectives(&world(&[machine, machine]), 2);
        assert_eq!(bits, xacc::check_collectives(&world(&["shm", "shm"]), 2), "{machine}");
    }
    let mixed = world(&MIXED);
    xacc::check_collectives(&mixed, 2);
    xacc::check_exact(&mixed);
    xacc::check_host_arrays(&mixed);
    xacc::check_mismatches(&mixed, [(0, 1), (6, 4), (9, 3)]);
}

#[test]
fn himenos_field_has_the_same_bits_on_any_processor() {
    for machine in ["qemu:x86_64", "qemu:aarch64", "qemu:riscv64"] {
        xacc::check_himeno(&world(&[machine]), false);
    }
    xacc::check_himeno(&world(&MIXED), false);
}

/// Started runs, too, and one that fails.
#[test]
fn arrays_are_kept_between_runs() {
    let mixed = world(&["qemu:x86_64", "qemu:riscv64"]);
    xacc::check_kept(&mixed);
    xacc::check_failed_starts(&mixed);
}

/// Also a panic in a view, where nothing unwinds.
#[test]
fn images_read_and_write_each_others_coarrays() {
    let mixed = world(&MIXED);
    xacc::check_coarrays(&mixed);
    xacc::check_misused(&world(&["qemu:riscv64", "shm"]));
}
