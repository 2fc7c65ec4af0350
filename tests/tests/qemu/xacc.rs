//! Programs of `hamr-xacc` on machines.

use hamr::{Image, Options, World, WorldOptions};
use hamr_tests::{devices, xacc};

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
