//! GASNet's interface between machines of all instruction sets and a process.

use hamr::{Image, Options, World, WorldOptions};
use hamr_tests::{devices, gas};

fn world(specs: &[&str]) -> World {
    let rank = WorldOptions::default().rank;
    let rank = Options { segment: 1 << 20, start_deadline: devices::START_TIMEOUT, ..rank };
    let image = Image::find(devices::IMAGE).expect("a name");
    devices::runtime().world_with(specs, image, WorldOptions { rank, ..WorldOptions::default() }).expect("a world")
}

#[test]
fn machines_and_a_process_send_messages() {
    let world = world(&["qemu:riscv64", "shm", "qemu:aarch64", "qemu:x86_64"]);
    gas::check_messages(&world);
    gas::check_checksums(&world, 8);
    gas::check_flood(&world, 200);
    gas::check_barriers(&world, 30);
    gas::check_transfers(&world);
    gas::check_limits(&world);
    gas::check_unequal(&world);
    gas::check_bad_replies(&world);
}

#[test]
fn machines_of_one_kind_send_messages() {
    for machine in ["qemu:x86_64", "qemu:aarch64", "qemu:riscv64"] {
        let world = world(&[machine, machine]);
        gas::check_messages(&world);
        gas::check_flood(&world, 200);
        gas::check_barriers(&world, 10);
    }
}
