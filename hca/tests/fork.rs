//! Hosts that fork (`hamr_tests::foreign`), each in a process of its own.

mod common;

use common::{Pair, SOON, is_gone, open, pair};
use hamr::Node;
use hamr_comm::side::WORDS;
use hamr_tests::{foreign, processes};
use hamr_verbs::host::{Fabric, FabricError, QpPlan};
use hamr_verbs::wire::Access;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// In a process of its own: the test's other threads hold locks.
#[test]
fn a_fork_leaves_its_parents_adapter_alone() {
    let output = processes::again("forks").output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && text.contains("running 1 test"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn is_of_another_process<T>(done: Result<T, FabricError>) -> bool {
    matches!(done, Err(FabricError::AnotherProcess))
}

#[test]
#[ignore = "run by a_fork_leaves_its_parents_adapter_alone"]
fn forks() {
    // Each with what is in the child, and whether that is right.
    type Use = fn(Node, Pair) -> bool;
    let uses: [(&str, Use); 9] = [
        ("drop", |node, pair| {
            drop((pair, node));
            true
        }),
        ("drop of the device first", |node, pair| {
            drop(node);
            drop(pair);
            true
        }),
        ("objects", |_node, Pair { fabric, cq, a, b, .. }| {
            let made = [fabric.completion_queue(1).map(drop), fabric.shared_receive_queue(1).map(drop)];
            let changed = [fabric.reset(a).map(drop), fabric.set_error(a), fabric.connect(a, b)];
            let gone = [fabric.destroy_queue_pair(a), fabric.destroy_completion_queue(cq)];
            let more = [fabric.region(64, Access::READ).map(drop), fabric.queue_pair(&QpPlan::new(cq)).map(drop)];
            made.into_iter().chain(changed).chain(gone).chain(more).all(is_of_another_process)
        }),
        ("looks", |_node, Pair { fabric, a, .. }| {
            let seen = [fabric.completed(a).map(drop), fabric.process().map(drop), fabric.endpoint(a).map(drop)];
            seen.into_iter().all(is_of_another_process)
                && fabric.section().is_none()
                && is_of_another_process(fabric.drive(|_, _, _| WORDS))
        }),
        ("copies", |_node, Pair { region, .. }| {
            is_of_another_process(region.put(0, &[9])) && is_of_another_process(region.get(0, &mut [0]))
        }),
        ("deregister", |_node, Pair { region, .. }| is_of_another_process(region.deregister())),
        ("restart", |node, _pair| node.restart().is_err()),
        ("another adapter of the device", |node, pair| {
            drop(pair);
            Fabric::open(&node).err().is_some_and(|why| why.to_string().contains("another process opened it"))
        }),
        ("another device", |_node, _pair| {
            let node = open("shm", 1 << 20);
            common::pair(&node).sends(&node, 10);
            true
        }),
    ];
    for (what, act) in uses {
        let node = open("shm", 1 << 20);
        let pair = pair(&node);
        pair.sends(&node, 10);
        pair.region.put(32, b"parent").expect("inside");
        let adapter = pair.fabric.process().expect("it runs");
        let mut both = Some((node, pair));
        let child = foreign::forked(|| {
            let (node, pair) = both.take().expect("once");
            i32::from(!act(node, pair))
        });
        assert_eq!(foreign::code_of(child), Some(0), "{what}");
        let (node, pair) = both.expect("the parent has taken nothing");
        assert_eq!(pair.fabric.process().map_err(|e| e.to_string()), Ok(adapter), "{what}");
        let mut seen = [0; 6];
        pair.region.get(32, &mut seen).expect("inside");
        assert_eq!(&seen, b"parent", "{what}");
        pair.sends(&node, 100);
        // A child that has the sockets does not keep an adapter.
        let child = foreign::forked(|| {
            std::thread::sleep(SOON);
            0
        });
        drop(pair);
        assert!(is_gone(adapter), "{what}");
        kill_process(Pid::from_raw(child).expect("a child"), Signal::KILL).expect("it sleeps");
        assert_eq!(foreign::code_of(child), None);
    }
}

/// A host is gone when its process is, also while a child lives that it has forked.
#[test]
fn an_adapter_ends_with_its_host_and_not_with_a_child_of_that() {
    let mut host = processes::again("host_with_a_child").stdout(Stdio::piped()).spawn().expect("it starts");
    let said = BufReader::new(host.stdout.take().expect("its output")).lines().map_while(Result::ok);
    let numbers = said.filter_map(|line| line.split_once("processes: ").map(|(_, numbers)| numbers.to_owned())).next();
    let numbers = numbers.expect("it says who runs");
    let [adapter, child] = numbers.split(' ').map(|number| number.parse().expect("a number")).collect::<Vec<u32>>()[..]
    else {
        panic!("{numbers}");
    };
    host.kill().expect("it runs");
    host.wait().expect("it has ended");
    let begin = Instant::now();
    assert!(is_gone(adapter) && begin.elapsed() < SOON / 2);
    let child = Pid::from_raw(child.cast_signed()).expect("a child");
    test_kill_process(child).expect("the child lives");
    kill_process(child, Signal::KILL).expect("the child lives");
}

#[test]
#[ignore = "run by an_adapter_ends_with_its_host_and_not_with_a_child_of_that"]
fn host_with_a_child() {
    let node = open("shm", 1 << 20);
    let pair = pair(&node);
    pair.sends(&node, 10);
    let child = foreign::forked(|| {
        std::thread::sleep(2 * SOON);
        0
    });
    println!("processes: {} {child}", pair.fabric.process().expect("it runs"));
    std::thread::sleep(Duration::from_secs(60));
}
