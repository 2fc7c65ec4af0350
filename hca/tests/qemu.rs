//! The same on a bare-metal machine.

mod common;

use common::conformance::conforms;
use common::two::{self, play, udp};
use common::{goes_on_without_its_host, is_gone, open, pair};

use hamr_verbs::host::Wire;

#[test]
fn a_handler_on_riscv64_sends_in_one_epoch_and_the_next() {
    let node = open("qemu:riscv64", 1 << 20);
    let old = pair(&node);
    old.sends(&node, 1000);
    let process = old.fabric.process().expect("it runs");
    node.restart().expect("it begins another epoch");
    assert!(is_gone(process));
    pair(&node).sends(&node, 1000);
}

#[test]
fn queue_pairs_conform() {
    conforms("qemu:riscv64", &Wire::Own);
}

#[test]
fn queue_pairs_conform_over_packets() {
    conforms("qemu:riscv64", &Wire::udp([127, 92, 0, 7].into()));
}

#[test]
fn a_machine_plays_ping_pong_with_a_process() {
    let wires = udp([[127, 92, 0, 8], [127, 92, 0, 9]], None);
    play(&two::pair(["qemu:riscv64", "shm"], &wires), 200);
}

#[test]
fn traffic_goes_on_while_the_host_is_stopped() {
    goes_on_without_its_host("qemu:riscv64", "traffic_goes_on_while_the_host_is_stopped");
}

#[test]
fn an_adapter_of_a_machine_sleeps_and_is_woken() {
    common::sleeps_without_work("qemu:riscv64");
    common::is_woken_by_a_post("qemu:riscv64", 50);
}

#[test]
fn a_task_on_riscv64_sets_up_and_waits() {
    common::waits_for_completions("qemu:riscv64", 200);
    common::sets_up_by_itself("qemu:riscv64");
}
