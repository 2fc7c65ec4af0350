//! Faults of tasks on a device without an operating system: each ends its own call, whichever stack
//! it ran on, and the other tasks go on.

use super::spec;
use crate::conformance::Gate;
use crate::crashes::{fault, still_works};
use crate::devices;
use hamr::qemu::{Machine, QemuLauncher};
use hamr::{CallError, CallOptions, Node, Options, Pending, Runtime, Stream};
use hamr_comm::abi::status::Status;
use hamr_tests_kernels::task_crashes::{IS_ILLEGAL, LEAPS, LOOPS, OVERFLOWS, PANICS, READS_NULL, fails};
use hamr_tests_kernels::variants::RESETS;
use hamr_tests_kernels::waits::gather_at;
use std::time::Duration;

/// What a task did, how its call ended, and a function of the trace.
const FAULTS: [(u32, Status, &str); 6] = [
    (PANICS, Status::PANIC, "fails"),
    (READS_NULL, Status::TRAP, "fails"),
    (IS_ILLEGAL, Status::TRAP, "illegal"),
    (OVERFLOWS, Status::TRAP, "deeper"),
    (LEAPS, Status::TRAP, "leap"),
    (LOOPS, Status::RUNAWAY, "loops"),
];

/// [`crashes_beside_suspended_tasks`] with the image of this machine.
pub fn crashes_of_tasks(machine: &Machine) {
    // A ticket for each of its tasks.
    let options = Options { tickets: 64, ..crate::conformance::options() };
    crashes_beside_suspended_tasks(&devices::open(&spec(machine), options));
}

/// Every fault of a task, on each of the stacks, while all others are suspended.
pub fn crashes_beside_suspended_tasks(node: &Node) {
    let limit = CallOptions { limit: Some(Duration::from_millis(100)), ..CallOptions::default() };
    let stream = node.stream().expect("a stream is free");
    let tasks = node.info().tasks;
    for free in 0..tasks as usize {
        let gates: Vec<_> = (0..tasks).map(|_| Gate::new(node)).collect();
        let mut waiting = suspend(&stream, &gates);
        gates[free].open();
        let (value, first) = waiting.remove(free);
        assert_eq!(first.wait().expect("its gate is open"), value);
        for (how, status, function) in FAULTS {
            let report = fault(node.sync_with(fails::with(how, 5), limit));
            println!("{report}\n");
            assert_eq!(report.status, status, "{report}");
            assert!(report.backtrace().names(function), "no {function} in\n{report}");
            let is_named = report.to_string().contains(&format!("stack overflow of task {free}: "));
            assert_eq!(is_named, matches!(how, OVERFLOWS | LEAPS), "{report}");
            // Behind the task's stack comes the one that resumed it.
            assert!(is_named || report.backtrace().names("run_slice"), "{report}");
            still_works(node);
        }
        for rounds in 0..1000 / tasks {
            let report = fault(node.sync(fails::with(rounds % 2, rounds % 4)));
            assert!(report.trace.frames().count() >= 2, "{report}");
        }
        assert_eq!(node.sync(fails::with(u32::MAX, 5)).expect("the stack is used again"), 5);
        drop(gates);
        for (value, task) in waiting {
            assert_eq!(task.wait().expect("its gate is open"), value);
        }
    }
    assert_eq!(node.info().epoch, 1);
}

/// A suspended task at each gate, in the places in order.
fn suspend<'s, 'n>(stream: &'s Stream<'n>, gates: &[Gate<'_>]) -> Vec<(u64, Pending<gather_at, &'s Stream<'n>>)> {
    let task = |(value, gate): (u64, &Gate<'_>)| {
        let task = stream.offload(gather_at::with(gate.ptr(), value)).expect("sent");
        gate.wait_for(1);
        (value, task)
    };
    (1..).zip(gates).map(task).collect()
}

/// As many tasks as riscv64 guards, in the variant that begins a new epoch after a fault: the other
/// tasks end with theirs, once, and the next epoch has all places.
pub fn ten_tasks_and_their_epoch(machine: &Machine) {
    let options = Options { start_deadline: devices::START_TIMEOUT, tickets: 64, ..crate::conformance::options() };
    let node = devices::runtime()
        .open_with(&spec(machine), devices::variant(&spec(machine), RESETS), options)
        .expect("a device");
    let stream = node.stream().expect("a stream is free");
    for taken in 0..=10 {
        assert_eq!(node.info().epoch as usize, taken + 1);
        let gates: Vec<_> = (0..taken).map(|_| Gate::new(&node)).collect();
        let waiting = suspend(&stream, &gates);
        if taken == 10 {
            drop(gates);
            for (value, task) in waiting {
                assert_eq!(task.wait().expect("its gate is open"), value);
            }
            break;
        }
        let report = fault(node.sync(fails::with(OVERFLOWS, 3)));
        assert!(report.to_string().contains(&format!("stack overflow of task {taken}: ")), "{report}");
        for (_, task) in waiting {
            match task.wait() {
                Err(CallError::PeerReset(_) | CallError::DeviceLost(..)) => {}
                other => panic!("expected the end of an epoch, got {other:?}"),
            }
        }
        still_works(&node);
    }
}

/// Without physical memory protection a hart has no guards, and no task runs.
pub fn stacks_without_guards_are_not_used(riscv64: &Machine) {
    let machine = Machine { name: "unprotected", cpu: "rv64,pmp=false", ..*riscv64 };
    let mut runtime = Runtime::new().expect("a runtime");
    runtime.register(machine.name, QemuLauncher::machine(machine));
    let options = Options { start_deadline: devices::START_TIMEOUT, ..Options::default() };
    let node = runtime.open_with(machine.name, devices::image(&spec(riscv64)), options).expect("a device");
    let error = node.sync(fails::with(u32::MAX, 1)).expect_err("no task runs").to_string();
    assert!(error.contains("runs no tasks"), "{error}");
    still_works(&node);
}
