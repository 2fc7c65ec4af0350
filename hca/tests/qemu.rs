//! The same on a bare-metal machine.

mod common;
#[allow(dead_code, unreachable_pub, reason = "each binary of tests uses a part")]
#[path = "../../tests/src/stepper.rs"]
mod stepper;

use common::conformance::conforms;
use common::two::{self, play, udp};
use common::{goes_on_without_its_host, is_gone, open, pair};

use hamr::{Image, Options, Runtime};
use hamr_verbs::host::{Fabric, QpPlan, Wire};
use hamr_verbs::steps::{Queues, ROUTINES, SHARED, Settled, settle, steps};
use hamr_verbs::wire::Access;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;
use stepper::{SPEC, Stepped};

/// Requests of a queue of the test by steps.
const DEPTH: u32 = 2;

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

#[test]
fn what_comes_is_computed_on_in_place() {
    common::computes_in_place("qemu:riscv64", 500);
}

/// H1: what a task has published when it is ended completes once, in front of whichever instruction that is, and its
/// queues go on. `--nocapture` prints the instructions of each routine.
#[test]
fn a_task_that_is_ended_at_any_instruction_leaves_queues_that_go_on() {
    let mut runtime = Runtime::new().expect("a runtime");
    let stepped = Stepped::register(&mut runtime);
    let image = Image::find("hamr-verbs-image").expect("an image");
    let target = runtime.target(SPEC).expect("known").expect("takes an image");
    let file = image.resolve(&target).expect("it was built");
    let start_deadline = Duration::from_secs(60);
    let options = Options { verbs: 1 << 20, start_deadline, deadline: None, ..Options::default() };
    let node = runtime.open_with(SPEC, image, options).expect("a device");
    let fabric = Fabric::open(&node).expect("an adapter");
    let [sent, received] = [0, 1].map(|_| fabric.completion_queue(31).expect("room"));
    let region = fabric.region(128, Access::LOCAL_WRITE).expect("room");
    let shared = fabric.shared_receive_queue(DEPTH).expect("room");
    let queues = [None, Some(shared)].map(|srq| {
        let plan = QpPlan { receive_cq: received, sends: DEPTH, receives: DEPTH, ..QpPlan::new(sent) };
        let from = fabric.queue_pair(&plan).expect("room");
        let to = fabric.queue_pair(&QpPlan { srq, ..plan }).expect("room");
        fabric.connect(from, to).expect("they are not connected");
        Queues { from, to, srq, sent, received, region: region.id() }
    });
    let mut stepper = stepped.stepper(&file, ["10hamr_verbs5steps5begin", "10hamr_verbs5steps3end"]);
    for (routine, name) in ROUTINES.iter().enumerate() {
        let on = queues[usize::from(routine >= SHARED)];
        let number = Cell::new(1000 * routine as u64);
        let call = || {
            number.set(number.get() + 1);
            node.offload(steps::with(routine as u32, on, number.get())).expect("sent")
        };
        // Ends before the request was published, or its completion taken, and behind.
        let mut ends = [0, 0];
        stepper.end_at_each((name, 1), &BTreeMap::new(), call, |call| call.wait(), &mut |why, is_whole| {
            let settled = node.sync(settle::with(on, number.get())).unwrap_or_else(|e| panic!("{why}: {e}"));
            let Settled { sent, received, .. } = settled;
            // Of a poll the receive is left.
            let (is_done, left) = match routine {
                0 => (sent == 1, [sent, 0, 1, 1 + sent]),
                2 => (received == 1, [0, received, 1 + received, 1]),
                _ => (received == 0, [0, received, 1, 1]),
            };
            let [sent, received, more_sent, more_received] = left;
            let room = Settled { send_room: DEPTH, receive_room: DEPTH, ..settled };
            assert_eq!(settled, Settled { sent, received, more_sent, more_received, ..room }, "{why}");
            // What keeps views out is what was published: a poll that was ended has taken its completion, or not.
            assert!(settled.is_written == (received == 1) || routine % 2 == 1, "{why}: {settled:?}");
            assert!(sent + received < 2 && (is_done || !is_whole), "{why}");
            ends[usize::from(is_done)] += 1;
        });
        assert!(ends.iter().all(|count| *count > 1), "{name}: {ends:?}");
    }
}
