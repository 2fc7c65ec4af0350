//! A device, its host and the adapter as processes.

mod common;

use common::conformance::conforms;
use common::{SOON, goes_on_without_its_host, is_gone, open, open_with, pair, runtime, stop};
use hamr::{CallError, Image, Options, WaitMode};
use hamr_comm::abi::status::Status;
use hamr_verbs::handlers::{
    Part, Work, next_completion, post, post_one, send_all, take_all, wait_and_copy, wait_for_one,
};
use hamr_verbs::host::{Fabric, FabricError, QpPlan, Wire};
use hamr_verbs::wire::{Access, Opcode, WcStatus};
use std::time::{Duration, Instant};

#[test]
fn a_handler_sends_through_an_adapter() {
    let node = open("shm", 1 << 20);
    let pair = pair(&node);
    pair.region.put(16, b"host").expect("inside");
    pair.sends(&node, 1000);
    let mut seen = [0; 20];
    pair.region.get(0, &mut seen).expect("inside");
    assert_eq!(
        seen,
        [[231, 3, 0, 0, 0, 0, 0, 0], [231, 3, 0, 0, 0, 0, 0, 0]]
            .as_flattened()
            .iter()
            .chain(b"host")
            .copied()
            .collect::<Vec<_>>()[..]
    );
    // Queues outlast calls.
    assert_eq!(node.sync(post_one::with(pair.a, pair.b, pair.region.id(), 7)).expect("room"), 1001);
    let begin = Instant::now();
    let mut taken = 0;
    while taken < 2 {
        taken += node.sync(take_all::with(pair.cq)).expect("valid").expect("there");
        assert!(begin.elapsed() < SOON);
    }
    pair.region.get(8, &mut seen[..8]).expect("inside");
    assert_eq!(seen[..8], 7_u64.to_le_bytes());
    let process = pair.fabric.process().expect("it runs");
    drop(pair.fabric);
    assert!(is_gone(process));
    assert_eq!(node.sync(take_all::with(pair.cq)).expect("valid"), None);
    assert!(matches!(pair.region.put(0, &[1]), Err(FabricError::Lost)));
}

#[test]
fn queue_pairs_conform() {
    conforms("shm", &Wire::Own);
}

/// H11: a restart closes; ids of the old epoch are refused in the next, which starts with zeros.
#[test]
fn a_restart_ends_the_adapter() {
    let node = open("shm", 1 << 20);
    let old = pair(&node);
    old.sends(&node, 10);
    let process = old.fabric.process().expect("it runs");
    node.restart().expect("it begins another epoch");
    assert!(is_gone(process));
    assert!(matches!(old.fabric.region(64, Access::READ), Err(FabricError::Lost)));
    assert!(matches!(old.region.put(0, &[1]), Err(FabricError::Lost)));
    let call = || send_all::with(old.a, old.b, old.cq, old.region.id(), 1);
    assert_eq!(status_of(node.sync(call())), Status::NO_FABRIC);
    let new = pair(&node);
    assert_eq!(status_of(node.sync(call())), Status::VERBS);
    let mut seen = [1; 64];
    new.region.get(0, &mut seen).expect("inside");
    assert_eq!((seen, new.fabric.completed(new.a).expect("its own")), ([0; 64], 0));
    new.sends(&node, 10);
    drop(old);
    new.sends(&node, 10);
    // A stopped adapter does not keep the next epoch.
    let process = new.fabric.process().expect("it runs");
    stop(process);
    let begin = Instant::now();
    node.restart().expect("it begins another epoch");
    assert!(is_gone(process) && begin.elapsed() < SOON / 2, "{:?}", begin.elapsed());
    pair(&node).sends(&node, 10);
}

fn status_of<T: std::fmt::Debug>(done: Result<T, CallError>) -> Status {
    match done {
        Err(CallError::Fault(fault)) => fault.status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stopped_adapter_is_given_up() {
    let node = open("shm", 1 << 20);
    let pair = pair(&node);
    let process = pair.fabric.process().expect("it runs");
    stop(process);
    let begin = Instant::now();
    assert!(matches!(pair.fabric.completion_queue(1), Err(FabricError::Late)));
    assert!(is_gone(process) && begin.elapsed() < SOON / 2);
    assert!(matches!(pair.fabric.completion_queue(1), Err(FabricError::Lost)));
    assert_eq!(node.sync(take_all::with(pair.cq)).expect("valid"), None);
}

#[test]
fn what_has_no_room_or_is_another_s_is_refused() {
    let node = open("shm", 64 << 10);
    let first = pair(&node);
    let fabric = &first.fabric;
    let limit = |done: Result<_, FabricError>| match done {
        Err(FabricError::Limit { most, wanted, .. }) => (most, wanted),
        other => panic!("{:?}", other.err()),
    };
    assert_eq!(limit(fabric.completion_queue(512).map(drop)), (512, 513));
    assert_eq!(limit(fabric.completion_queue(u32::MAX).map(drop)), (512, u64::from(u32::MAX)));
    assert_eq!(limit(fabric.queue_pair(&QpPlan { sends: 0, ..QpPlan::new(first.cq) }).map(drop)), (512, 0));
    assert_eq!(limit(fabric.region(u64::MAX, Access::READ).map(drop)).0, 64 << 10);
    assert!(fabric.region(64 << 10, Access::READ).is_err());
    assert_eq!(limit(first.region.put(65, &[])), (64, 65));
    assert_eq!(limit(first.region.put(u64::MAX, &[1])), (64, u64::MAX));
    assert!(matches!(fabric.connect(first.a, first.b), Err(FabricError::Refused(_))));
    let text = |done: Result<Fabric, FabricError>| done.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(text(Fabric::open(&node)).contains("had an adapter in this epoch"));
    let other = open("shm", 64 << 10);
    let second = pair(&other);
    assert!(matches!(fabric.connect(second.a, second.b), Err(FabricError::Foreign)));
    assert!(matches!(fabric.queue_pair(&QpPlan::new(second.cq)), Err(FabricError::Foreign)));
    let call = send_all::with(second.a, second.b, second.cq, second.region.id(), 1);
    assert_eq!(status_of(node.sync(call)), Status::VERBS);
    assert!(text(Fabric::open(&open("shm", 0))).starts_with("Options::verbs: expected"));
    first.sends(&node, 10);
    second.sends(&other, 10);
}

/// H9, H10: refused by name.
#[test]
fn other_devices_have_no_adapter() {
    let options = Options { verbs: 1 << 16, ..Options::default() };
    let image = || Image::find("hamr-verbs-image").expect("an image");
    let node = runtime().open_with("loopback", image(), options.clone()).expect("a device");
    let error = Fabric::open(&node).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(error.contains("this one is `loopback`"), "{error}");
    let options = hamr::WorldOptions { rank: options, ..hamr::WorldOptions::default() };
    let world = runtime().world_with(&["shm", "shm"], image(), options).expect("a world");
    let error = Fabric::open(world.node(0)).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(error.contains("a rank"), "{error}");
}

#[test]
fn traffic_goes_on_while_the_host_is_stopped() {
    goes_on_without_its_host("shm", "traffic_goes_on_while_the_host_is_stopped");
}

#[test]
fn the_program_refuses_to_run_alone() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hamr-hca"));
    let done = command.stdin(std::process::Stdio::null()).output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.starts_with("hamr-hca: "), "{said}");
}

#[test]
fn an_adapter_without_work_sleeps() {
    common::sleeps_without_work("shm");
}

#[test]
fn an_adapter_is_woken_by_a_post() {
    common::is_woken_by_a_post("shm", 300);
}

#[test]
fn a_task_waits_for_completions() {
    common::waits_for_completions("shm", 2000);
}

/// Nothing but a notification wakes the device.
#[test]
fn a_task_that_waits_finds_its_queue_destroyed() {
    let options = Options { wait: WaitMode::Sleep, longest_sleep: None, verbs: 1 << 20, ..Options::default() };
    let node = open_with("shm", options);
    let fabric = Fabric::open(&node).expect("an adapter");
    let (stream, begin) = (node.stream().expect("a stream"), Instant::now());
    for number in 0..10 {
        let cq = fabric.completion_queue(8).expect("room");
        let waits = stream.offload(wait_for_one::with(cq)).expect("a place");
        // It sleeps by then, as a rule.
        std::thread::sleep(Duration::from_millis(number % 4 * 3));
        fabric.destroy_completion_queue(cq).expect("nothing has it");
        match waits.wait_timeout(SOON) {
            Err(CallError::Fault(fault)) if fault.status == Status::VERBS => {}
            other => panic!("{number}: {other:?}"),
        }
    }
    // Each of them is found by something else in a second or two.
    assert!(begin.elapsed() < SOON / 3, "{:?}", begin.elapsed());
}

#[test]
fn a_device_sets_up_by_itself() {
    common::sets_up_by_itself("shm");
}

/// H2: memory of a deregistered region is another's only when no handler has it open, and what names the former one is
/// refused.
#[test]
fn memory_of_a_deregistered_region_is_used_again_when_no_handler_has_it_open() {
    const ROOM: u64 = 256 << 10;
    let node = open("shm", ROOM);
    let pair = pair(&node);
    let (stream, other) = (node.stream().expect("a stream"), node.stream().expect("a stream"));
    // More than half of what there is.
    let long = || pair.fabric.region(ROOM / 2 + 4096, Access(15));
    let first = long().expect("room");
    let (id, remote) = (first.id(), first.remote(0));
    let waits = stream.offload(wait_and_copy::with(pair.cq, id)).expect("a place");
    let tasks = || node.tasks().len();
    let begin = Instant::now();
    while tasks() == 0 {
        assert!(begin.elapsed() < SOON, "it does not begin");
    }
    first.deregister().expect("there");
    assert!(matches!(long(), Err(FabricError::Limit { .. })), "a handler has it open");
    assert_eq!(status_of(other.sync(wait_and_copy::with(pair.cq, id))), Status::VERBS);
    assert!(matches!(long(), Err(FabricError::Limit { .. })), "a handler has it open");
    other.sync(post_one::with(pair.a, pair.b, pair.region.id(), 0)).expect("room");
    assert!(!waits.wait().expect("it ends"), "it has copied");
    while other.sync(take_all::with(pair.cq)).expect("valid") != Some(1) {}
    let second = long().expect("room");
    let mut seen = [1; 64];
    second.get(0, &mut seen).expect("inside");
    assert_eq!((seen, second.remote(0).addr), ([0; 64], remote.addr));
    // By the key of the former one.
    let local = Part { region: pair.region.id(), at: 0, len: 8 };
    let work = Work {
        id: 9,
        opcode: Opcode::WRITE.0,
        local,
        wrong_key: 0,
        remote,
        operands: [0; 2],
        immediate: None,
        is_quiet: false,
    };
    node.sync(post::with(pair.a, work)).expect("room");
    let found = loop {
        if let Some(found) = node.sync(next_completion::with(pair.cq)).expect("no overrun") {
            break found;
        }
    };
    assert_eq!((found.id, WcStatus(found.status)), (9, WcStatus::REM_ACCESS_ERR));
    second.get(0, &mut seen).expect("inside");
    assert_eq!(seen, [0; 64]);
    second.deregister().expect("there");
    // More of them than there are places, of other lengths than before.
    let mut keys = std::collections::BTreeSet::from([remote.rkey]);
    for round in 0..2000_u64 {
        let region = pair.fabric.region(round * 61 % (ROOM / 2), Access::LOCAL_WRITE).expect("room");
        keys.insert(region.remote(0).rkey);
        region.deregister().expect("there");
    }
    assert_eq!(keys.len(), 2001);
}
