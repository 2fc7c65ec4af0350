//! The stacks of tasks: what runs on them, and faults there.

use super::{spec, symbol};
use crate::crashes::{fault, still_works};
use crate::devices;
use hamr::qemu::{Machine, QemuLauncher};
use hamr::{CallOptions, Image, Options, Runtime};
use hamr_comm::abi::status::Status;
use handlers::{IS_ILLEGAL, LEAPS, LOOPS, OVERFLOWS, PANICS, READS_NULL, runs};
use std::time::Duration;

#[path = "../../image/src/stacks.rs"]
mod handlers;

/// Stacks of the image: the default.
const TASKS: u32 = 4;

/// A stack keeps numbers and floating point of a coroutine that is suspended many times.
pub fn a_stack_keeps_its_state(machine: &Machine) {
    const ROUNDS: u32 = 200_000;
    let node = devices::open(&spec(machine), Options::default());
    for task in 0..TASKS {
        let (resumed, ns, sum) = node.sync(runs::with(task, ROUNDS, 0)).expect("runs");
        assert_eq!(resumed, ROUNDS + 1);
        let rounds = f64::from(ROUNDS);
        assert_eq!(sum, rounds * (rounds - 1.0) / 2.0 * 120.0, "sums of whole numbers are exact");
        println!("{} ns for each time", ns / u64::from(ROUNDS));
    }
    let report = fault(node.sync(runs::with(TASKS, 1, 0)));
    assert!(report.to_string().contains("no such stack"), "{report}");
}

/// Each fault on a task's stack ends its call, with a trace through that stack and the one below.
pub fn faults_on_a_stack_of_a_task(machine: &Machine) {
    let node = devices::open(&spec(machine), Options::default());
    let target = devices::runtime().target(&spec(machine)).expect("known").expect("takes an image");
    let path = devices::image(&spec(machine)).resolve(&target).expect("an image").path;
    let stacks = symbol(&path, "__hamr_task_stacks")..symbol(&path, "__hamr_image_end");
    let limit = CallOptions { limit: Some(Duration::from_millis(100)), ..CallOptions::default() };
    for task in (0..TASKS).chain([0, 3]) {
        for (what, status, function) in [
            (PANICS, Status::PANIC, "panics"),
            (READS_NULL, Status::TRAP, "runs"),
            (IS_ILLEGAL, Status::TRAP, "illegal"),
            (OVERFLOWS, Status::TRAP, "deeper"),
            (LEAPS, Status::TRAP, "leap"),
            (LOOPS, Status::RUNAWAY, "loops"),
        ] {
            let report = fault(node.sync_with(runs::with(task, 10, what), limit));
            println!("{report}\n");
            assert_eq!(report.status, status, "{report}");
            assert!(report.backtrace().names(function), "no {function} in\n{report}");
            let text = report.to_string();
            let named = text.contains(&format!("stack overflow of task {task}: "));
            assert_eq!(named, matches!(what, OVERFLOWS | LEAPS), "{report}");
            if status == Status::TRAP || status == Status::RUNAWAY {
                assert!(stacks.contains(&report.trace.stack), "{stacks:x?}: {report}");
            }
            if !named {
                // What resumed the task, on the serve stack.
                assert!(report.backtrace().names("serve"), "{report}");
            }
            still_works(&node);
        }
        assert_eq!(node.sync(runs::with(task, 100, 0)).expect("runs").0, 101, "the stack is used again");
    }
    assert_eq!(node.info().epoch, 1);
}

/// As many stacks as riscv64 guards, in the image that begins a new epoch after each fault.
pub fn ten_stacks_are_guarded(machine: &Machine) {
    let target = devices::runtime().target(&spec(machine)).expect("known").expect("takes an image");
    let file = Image::find("hamr-checks-reset").expect("a name").resolve(&target).expect("the image builds");
    let file = Image::file(file.path).expect("an image");
    let options = Options { start_deadline: devices::START_TIMEOUT, ..Options::default() };
    let node = devices::runtime().open_with(&spec(machine), file, options).expect("a device");
    for task in 0..10 {
        for what in [OVERFLOWS, LEAPS] {
            let report = fault(node.sync(runs::with(task, 3, what)));
            assert!(report.to_string().contains(&format!("stack overflow of task {task}: ")), "{report}");
        }
        assert_eq!(node.sync(runs::with(task, 100, 0)).expect("runs").0, 101);
    }
    fault(node.sync(runs::with(10, 1, 0)));
}

/// Without physical memory protection a hart has no guards, and no stack is used.
pub fn stacks_without_guards_are_not_used(riscv64: &Machine) {
    let machine = Machine { name: "unprotected", cpu: "rv64,pmp=false", ..*riscv64 };
    let mut runtime = Runtime::new().expect("a runtime");
    runtime.register(machine.name, QemuLauncher::machine(machine));
    let options = Options { start_deadline: devices::START_TIMEOUT, ..Options::default() };
    let node = runtime.open_with(machine.name, devices::image(&spec(riscv64)), options).expect("a device");
    let report = fault(node.sync(runs::with(0, 1, 0)));
    assert!(report.to_string().contains("no such stack"), "{report}");
    still_works(&node);
}
