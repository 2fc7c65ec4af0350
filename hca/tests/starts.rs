//! Adapters that do not start, and those that wait for one; what they refuse.

mod common;

use common::{SOON, is_gone, open, pair, stop};
use hamr::CallOptions;
use hamr_comm::abi::status::Status;
use hamr_verbs::handlers::{set_up_and_send, wait_for_one};
use hamr_verbs::host::{Fabric, FabricError, QpPlan};
use hamr_verbs::wire::{Access, MAX_COMPLETION_QUEUES, Reply};
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Calls a test again, as a program whose adapter is this script of a shell. `None`: it is that program.
fn with_adapter(test: &str, script: &str) -> Option<()> {
    const ROLE: &str = "HAMR_HCA_TEST_SCRIPT";
    if std::env::var_os(ROLE).is_some() {
        return None;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (program, mark) = (folder.join("hca"), folder.join("mark"));
    let script = script.replace("MARK", &mark.to_string_lossy()).replace("HCA", env!("CARGO_BIN_EXE_hamr-hca"));
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a file");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&program, executable).expect("a file");
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.args(["--exact", test, "--nocapture"]).env(ROLE, "1").env("HAMR_HCA", &program);
    let output = command.output().expect("it starts");
    std::fs::remove_dir_all(&folder).expect("its own folder");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

#[test]
fn an_adapter_that_did_not_start_may_be_tried_again() {
    let script = "test -e MARK && exec HCA\n: > MARK\nexit 3";
    if with_adapter("an_adapter_that_did_not_start_may_be_tried_again", script).is_some() {
        return;
    }
    let node = open("shm", 1 << 20);
    assert!(matches!(Fabric::open(&node), Err(FabricError::Start { .. })));
    let pair = pair(&node);
    pair.sends(&node, 100);
    let why = Fabric::open(&node).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(why.contains("had an adapter in this epoch"), "{why}");
}

/// It has five seconds, which others do not wait for: a restart ends it, and whoever waits for it finds that.
#[test]
fn a_restart_does_not_wait_for_an_adapter_that_starts() {
    let script = "test -e MARK && exec HCA\n: > MARK\nexec sleep 30";
    if with_adapter("a_restart_does_not_wait_for_an_adapter_that_starts", script).is_some() {
        return;
    }
    let node = open("shm", 1 << 20);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let opens = scope.spawn(|| (Fabric::open(&node).err(), begin.elapsed()));
        std::thread::sleep(Duration::from_millis(500));
        // A second one in the epoch does not end the first.
        let why = Fabric::open(&node).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(why.contains("had an adapter in this epoch"), "{why}");
        node.restart().expect("it begins another epoch");
        let (why, after) = opens.join().expect("it returns");
        assert!(why.is_some() && after < Duration::from_secs(4), "{why:?} after {after:?}");
    });
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    pair(&node).sends(&node, 100);
}

#[test]
fn what_does_not_fit_takes_nothing() {
    const BYTES: u64 = 64 << 10;
    let node = open("shm", BYTES);
    let fabric = Fabric::open(&node).expect("an adapter");
    let cq = fabric.completion_queue(1).expect("room");
    let first = fabric.queue_pair(&QpPlan { sends: 1, receives: 1, ..QpPlan::new(cq) }).expect("room");
    // Its sends would fit, and its receives would not.
    let long = QpPlan { sends: 256, receives: 512, ..QpPlan::new(cq) };
    assert!(matches!(fabric.queue_pair(&long), Err(FabricError::Limit { .. })));
    let second = fabric.queue_pair(&QpPlan { sends: 1, receives: 1, ..QpPlan::new(cq) }).expect("room");
    assert_eq!((first.index(), second.index()), (0, 1));
    // Two completions, two queue pairs of three lines.
    let rest = BYTES - (2 + 2 * 3) * 64;
    assert!(matches!(fabric.region(rest + 1, Access::LOCAL_WRITE), Err(FabricError::Limit { .. })));
    let region = fabric.region(rest, Access::LOCAL_WRITE).expect("room");
    region.put(rest - 1, &[1]).expect("inside");
    assert!(fabric.region(1, Access::READ).is_err());
}

/// Of all kinds of queues: a place keeps the memory of the longest that was in it.
#[test]
fn queues_that_are_made_again_take_no_more_memory() {
    let node = open("shm", 1 << 20);
    let fabric = Fabric::open(&node).expect("an adapter");
    for _ in 0..15 {
        fabric.shared_receive_queue(1).expect("room");
    }
    for _ in 0..100 {
        for receives in [512, 256] {
            let last = fabric.shared_receive_queue(receives).expect("room");
            fabric.destroy_shared_receive_queue(last).expect("it is there");
        }
    }
}

#[test]
fn unknown_rights_are_refused() {
    let node = open("shm", 1 << 20);
    let fabric = Fabric::open(&node).expect("an adapter");
    for access in [1 << 31, 1 << 30 | 1, u32::MAX] {
        let made = fabric.region(64, Access(access)).map(drop);
        assert!(matches!(made, Err(FabricError::Refused(Reply::MALFORMED))), "{access:#x}: {made:?}");
    }
    fabric.region(64, Access::LOCAL_WRITE).expect("room");
}

fn failed(node: &hamr::Node, options: CallOptions) -> (Option<Status>, Duration) {
    let begin = Instant::now();
    let done = node.stream().expect("a stream").sync_with(set_up_and_send::with(1), options);
    let status = match done {
        Ok(sum) => panic!("{sum}"),
        Err(hamr::CallError::Fault(fault)) => Some(fault.status),
        Err(_) => None,
    };
    (status, begin.elapsed())
}

/// H14: a device is served by its own adapter only.
#[test]
fn a_command_reaches_its_own_adapter() {
    let (node, other) = (open("shm", 1 << 20), open("shm", 1 << 20));
    let (fabric, _others) = (Fabric::open(&node).expect("an adapter"), Fabric::open(&other).expect("an adapter"));
    // The host serves none, then another's.
    assert_eq!(failed(&node, CallOptions::default()).0, Some(Status::REMOTE));
    fabric.provide(&other);
    assert_eq!(failed(&other, CallOptions::default()).0, Some(Status::REMOTE));
    fabric.provide(&node);
    assert_eq!(node.sync(set_up_and_send::with(10)).expect("all come"), 45);
    // An epoch later it is no one's.
    node.restart().expect("it begins another epoch");
    assert_eq!(failed(&node, CallOptions::default()).0, Some(Status::REMOTE));
    let fabric = Fabric::open(&node).expect("an adapter");
    fabric.provide(&node);
    assert_eq!(node.sync(set_up_and_send::with(10)).expect("all come"), 45);
}

/// A wait ends by its own limit where nothing else ends it.
#[test]
fn a_wait_for_a_stopped_adapter_keeps_to_its_limit() {
    let node = open("shm", 1 << 20);
    let pair = pair(&node);
    let process = pair.fabric.process().expect("it runs");
    stop(process);
    let deadline = CallOptions { deadline: Some(Duration::from_millis(200)), ..CallOptions::default() };
    let begin = Instant::now();
    let done = node.stream().expect("a stream").sync_with(wait_for_one::with(pair.cq), deadline);
    assert!(done.is_err() && begin.elapsed() < Duration::from_secs(5), "{done:?} after {:?}", begin.elapsed());
    kill_process(Pid::from_raw(process.cast_signed()).expect("not zero"), Signal::CONT).expect("it runs");
    pair.sends(&node, 10);
}

/// H12: the limit of the call, and then a second.
#[test]
fn a_command_to_a_stopped_adapter_keeps_to_its_limit() {
    let node = open("shm", 1 << 20);
    let fabric = Fabric::open(&node).expect("an adapter");
    fabric.provide(&node);
    let process = fabric.process().expect("it runs");
    stop(process);
    let deadline = CallOptions { deadline: Some(Duration::from_millis(200)), ..CallOptions::default() };
    for _ in 0..3 {
        let (_, after) = failed(&node, deadline);
        assert!(after < Duration::from_secs(5), "{after:?}");
    }
    // The impatience of a device ends no adapter, and uses up no places; answers that come late are taken for none of what is asked
    // next.
    kill_process(Pid::from_raw(process.cast_signed()).expect("not zero"), Signal::CONT).expect("it runs");
    assert_eq!(fabric.process().expect("it runs"), process);
    let queues = [(); MAX_COMPLETION_QUEUES as usize].map(|()| fabric.completion_queue(1).expect("it answers"));
    assert!(fabric.queue_pair(&QpPlan::new(queues[0])).is_ok());
    queues[1..].iter().for_each(|queue| fabric.destroy_completion_queue(*queue).expect("it is there"));
    assert_eq!(node.sync(set_up_and_send::with(10)).expect("all come"), 45);
    stop(process);
    let (status, after) = failed(&node, CallOptions::default());
    assert!(status == Some(Status::REMOTE) && after < SOON / 2, "{status:?} after {after:?}");
    assert!(is_gone(process));
}
