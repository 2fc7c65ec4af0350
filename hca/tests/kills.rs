//! Adapter, device, host and peer killed at any moment: handlers find the loss, the next epoch goes on, nothing is left over.
//!
//! `HAMR_KILLS` is how many of each; 10 without it.

mod common;

use common::two::{self, Side, attach, connect, play, udp};
use common::{IMAGE, SOON, is_gone, open, pair};
use hamr::{CallError, Image, Node, Target};
use hamr_comm::abi::status::Status;
use hamr_tests::processes::children;
use hamr_verbs::handlers::{send_all, send_waiting, take_all, wait_for_one};
use hamr_verbs::host::FabricError;
use hamr_verbs::tools::stream;
use hamr_verbs::wire::{Access, Opcode};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, getpid, kill_process, pidfd_getfd, pidfd_open};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Adapter,
    Device,
}

/// The number of the victim's phase: idle, asleep in a wait, in traffic of an inline handler, of a task.
const PHASES: u32 = 4;

fn kills() -> u32 {
    std::env::var("HAMR_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(10)
}

fn kill(process: u32) {
    kill_process(Pid::from_raw(process.cast_signed()).expect("not zero"), Signal::KILL).expect("it runs");
}

/// Descriptors, threads and children of this process.
fn held() -> [usize; 3] {
    let count = |folder: &str| std::fs::read_dir(folder).expect("it is this process").count();
    let children = std::fs::read_dir("/proc/self/task").expect("it is this process").flatten().map(|task| {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.split_whitespace().count()
    });
    [count("/proc/self/fd"), count("/proc/self/task"), children.sum()]
}

/// As few as before, soon.
fn comes_to(before: [usize; 3]) {
    let begin = Instant::now();
    while held().iter().zip(before).any(|(now, before)| *now > before) {
        assert!(begin.elapsed() < SOON, "{before:?}, and now {:?}", held());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Kills the adapter of a pair, or this process of its device, in one of the phases. The adapter, and how the call in it has ended.
fn kill_in(node: &Node, phase: u32, pause: Duration, device: Option<u32>) -> (u32, Option<Status>) {
    let pair = pair(node);
    pair.sends(node, 10);
    let process = pair.fabric.process().expect("it runs");
    let stream = node.stream().expect("a stream");
    let (a, b, cq, region) = (pair.a, pair.b, pair.cq, pair.region.id());
    let status = |done: Result<bool, CallError>| match done {
        Ok(is_lost) => is_lost.then_some(Status::VERBS),
        Err(CallError::Fault(fault)) => Some(fault.status),
        Err(_) => None,
    };
    let many = 1 << 40;
    let dies = || {
        std::thread::sleep(pause);
        kill(device.unwrap_or(process));
    };
    let status = match phase % PHASES {
        0 => {
            dies();
            let begin = Instant::now();
            let mut found = None;
            while found.is_none() && begin.elapsed() < SOON {
                found = match stream.sync(take_all::with(cq)) {
                    Ok(Some(_)) => None,
                    other => Some(status(other.map(|taken| taken.is_none()))),
                };
            }
            found.expect("the loss is found")
        }
        1 => {
            let waits = stream.offload(wait_for_one::with(cq)).expect("a place");
            dies();
            status(waits.wait().map(|found| found.is_none()))
        }
        2 => {
            let sends = stream.offload(send_all::with(a, b, cq, region, many)).expect("a place");
            dies();
            status(sends.wait().map(|_| false))
        }
        _ => {
            let sends = stream.offload(send_waiting::with(a, b, cq, region, many)).expect("a place");
            dies();
            status(sends.wait().map(|_| false))
        }
    };
    // The host finds it as well, at the latest when it asks.
    let begin = Instant::now();
    if device.is_none() {
        while pair.fabric.process().is_ok() {
            assert!(begin.elapsed() < SOON);
        }
        assert!(matches!(pair.fabric.completion_queue(1), Err(FabricError::Lost)));
    }
    (process, status)
}

/// A machine takes a second or more to begin again.
const MACHINE: &str = "qemu:riscv64";

fn kills_of_a_machine() -> u32 {
    (kills() / 4).max(PHASES)
}

/// The process of a device, or of its machine.
fn process_of(node: &Node) -> u32 {
    let is_machine = |process: &u32| {
        std::fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.starts_with("qemu"))
    };
    children(std::process::id()).into_iter().find(is_machine).unwrap_or(node.info().pid)
}

#[test]
fn the_loss_of_an_adapter_is_found() {
    are_lost("shm", kills(), Victim::Adapter);
}

#[test]
fn the_loss_of_an_adapter_is_found_by_a_machine() {
    are_lost(MACHINE, kills_of_a_machine(), Victim::Adapter);
}

#[test]
fn an_adapter_ends_with_its_device() {
    are_lost("shm", kills(), Victim::Device);
}

#[test]
fn an_adapter_ends_with_its_machine() {
    are_lost(MACHINE, kills_of_a_machine(), Victim::Device);
}

fn are_lost(device: &str, count: u32, victim: Victim) {
    let node = open(device, 1 << 20);
    pair(&node).sends(&node, 10);
    node.restart().expect("it begins another epoch");
    let before = held();
    for number in 0..count {
        let pause = Duration::from_micros(u64::from(number * 7919 % 5000));
        let device = process_of(&node);
        // The end of a device that does nothing is no call's.
        let (phase, found) = match victim {
            Victim::Adapter => (number, Some(Status::VERBS)),
            Victim::Device => (1 + number % 3, None),
        };
        let (adapter, status) = kill_in(&node, phase, pause, (victim == Victim::Device).then_some(device));
        assert_eq!(status, found, "kill {number}");
        assert!(victim == Victim::Device || is_gone(adapter));
        node.restart().expect("it begins another epoch");
        assert!(is_gone(adapter) && (victim == Victim::Adapter || is_gone(device)));
    }
    comes_to(before);
    pair(&node).sends(&node, 10);
}

/// Requests of `a` on their way at once.
const AT_ONCE: u64 = 16;

/// Kills a peer's adapter, or its device, before requests are sent to it or while they are: one fails, when all retries of it are
/// over, and all behind it are flushed.
fn kill_peer(a: &Side, b: &Side, number: u32, pause: Duration) {
    let adapter = b.fabric.process().expect("it runs");
    let victim = if number.is_multiple_of(2) { adapter } else { b.node.info().pid };
    let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
    let region = b.fabric.region(64, rights).expect("room");
    let to = region.remote(0);
    let kind = [Opcode::SEND, Opcode::WRITE, Opcode::READ][(number / 2 % 3) as usize];
    let receives = b.node.stream().expect("a stream");
    let receiver = (kind == Opcode::SEND)
        .then(|| receives.offload(stream::with(b.load(1 << 40, 8), None, to, 2 * AT_ONCE)).expect("a place"));
    let dies = || {
        std::thread::sleep(pause);
        kill(victim);
        // What its device has registered may be written and read until its host finds the end.
        b.node.restart().expect("it begins another epoch");
        assert!(is_gone(adapter), "kill {number}");
    };
    if number.is_multiple_of(5) {
        dies();
    }
    let sends = a.node.stream().expect("a stream");
    let sent = sends.offload(stream::with(a.load(1 << 40, 8), Some(kind.0), to, AT_ONCE)).expect("a place");
    if !number.is_multiple_of(5) {
        dies();
    }
    match sent.wait() {
        Err(CallError::Fault(fault)) => assert!(fault.to_string().contains("a request has failed"), "{fault}"),
        other => panic!("kill {number}: {other:?}"),
    }
    assert!(receiver.is_none_or(|receiver| receiver.wait().is_err()), "kill {number}");
    let begin = Instant::now();
    let mut flushed = 0;
    while flushed < AT_ONCE as u32 - 1 {
        flushed += a.node.sync(take_all::with(a.cq)).expect("valid").expect("its adapter runs");
        assert!(begin.elapsed() < SOON, "kill {number}: {flushed}");
    }
    assert_eq!(a.node.sync(take_all::with(a.cq)).expect("valid"), Some(0), "kill {number}: one each");
}

/// An adapter and its device outlive their peer's, which begin again.
#[test]
fn the_loss_of_a_peer_is_found() {
    let wires = udp([[127, 92, 0, 41], [127, 92, 0, 42]], None);
    let [mut a, mut b];
    let sides = two::pair(["shm", "shm"], &wires);
    play(&sides, 10);
    [a, b] = sides;
    let before = held();
    for number in 0..kills() {
        kill_peer(&a, &b, number, Duration::from_micros(u64::from(number * 7919 % 5000)));
        b = attach(b.node, &wires[1]);
        a.qp = a.fabric.reset(a.qp).expect("there");
        connect(&a, &b);
    }
    comes_to(before);
    play(&[a, b], 10);
}

/// A host of a test, which is called again for that: says the processes of its adapter and device, and sends until it is killed.
fn host(has_child: bool) {
    let node = open("shm", 1 << 20);
    let pair = pair(&node);
    let mut child = 0;
    if has_child {
        // A child that has all its sockets, as a fork of it has.
        let own = pidfd_open(getpid(), PidfdFlags::empty()).expect("a descriptor");
        let sockets = std::fs::read_dir("/proc/self/fd").expect("this process").flatten().filter_map(|entry| {
            let is_socket =
                std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
            let number = entry.file_name().to_string_lossy().parse().ok().filter(|_| is_socket)?;
            let copy = pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).ok()?;
            fcntl_setfd(&copy, FdFlags::empty()).ok().map(|()| copy)
        });
        let sockets: Vec<_> = sockets.collect();
        assert!(sockets.len() > 3);
        let mut command = Command::new("sleep");
        child = command.arg("30").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts").id();
    }
    println!("processes {} {} {child}", pair.fabric.process().expect("it runs"), node.info().pid);
    let _ = node.sync(send_waiting::with(pair.a, pair.b, pair.cq, pair.region.id(), 1 << 40));
}

fn ends_with_its_host(test: &str, count: u32, has_child: bool) {
    const ROLE: &str = "HAMR_HCA_KILLED_HOST";
    if std::env::var_os(ROLE).is_some() {
        return host(has_child);
    }
    let image = Image::find("hamr-verbs-image").and_then(|image| image.resolve(&Target::hosted())).expect("an image");
    for number in 0..count {
        let mut command = Command::new(std::env::current_exe().expect("a program"));
        command.args(["--exact", test, "--nocapture"]).env(ROLE, "1").env(IMAGE, &image.path).stdout(Stdio::piped());
        let mut host = command.spawn().expect("it starts");
        let output = BufReader::new(host.stdout.take().expect("it is piped"));
        let processes = output.lines().map_while(Result::ok).find_map(|line| {
            let (_, processes) = line.split_once("processes ")?;
            Some(processes.split(' ').map(|process| process.parse().expect("a number")).collect::<Vec<u32>>())
        });
        let processes = processes.expect("it says them");
        std::thread::sleep(Duration::from_micros(u64::from(number * 7919 % 5000)));
        host.kill().expect("it runs");
        host.wait().expect("a status");
        let [adapter, device, child] = processes[..] else { panic!("{processes:?}") };
        assert!(is_gone(adapter), "the adapter, kill {number}");
        assert!(is_gone(device), "the device, kill {number}");
        if has_child {
            kill(child);
        }
    }
}

#[test]
fn an_adapter_ends_with_its_host() {
    ends_with_its_host("an_adapter_ends_with_its_host", kills(), false);
}

/// Its end of the adapter's socket stays open.
#[test]
fn an_adapter_ends_with_a_host_whose_children_go_on() {
    ends_with_its_host("an_adapter_ends_with_a_host_whose_children_go_on", 1, true);
}
