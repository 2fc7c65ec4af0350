//! Tasks that are ended in front of every instruction of what changes state that outlasts them: what they leave is
//! whole, or their end repairs it. The counts are those of instructions at which a task was ended.
//!
//! A routine of `tests/xacc/src/steps.rs` runs between two marks. QEMU's server for gdb stops the machine (riscv64) after so
//! many single steps, and lets it go on at address 0, so that the task ends by a trap; of a loop in the first four rounds.
//! `--nocapture` prints the instructions of each routine.

use hamr::{Buffer, CallError, CallOptions, Image, ImageFile, Node, Options, Runtime, WaitMode, WorldOptions};
use hamr_comm::abi::status::Status;
use hamr_tests::conformance::{Gate, options};
use hamr_tests::devices;
use hamr_tests::stepper::{SPEC, Stepped, Stepper};
use hamr_tests_kernels::spin_at;
use hamr_tests_xacc::claims::{claims_until_ended, keeps, own_segment, takes};
use hamr_tests_xacc::steps::{
    OF_WORLDS, ROUTINES, announces, calls_partner, claims_both, finds, poisons, repairs, steps, views,
};
use std::collections::BTreeMap;
use std::time::Duration;

const BETWEEN: [&str; 2] = ["15hamr_tests_xacc5steps5begin", "15hamr_tests_xacc5steps3end"];

/// Rounds of a loop.
const ROUNDS: u32 = 4;

/// A notification that has not come by then is lost.
const LOST: Duration = Duration::from_secs(5);

/// Ends a task in front of each instruction of a routine. Words of the image are as `before` says
/// when it begins, and `check` looks after each end what it has left.
fn each(
    stepper: &mut Stepper,
    node: &Node,
    (routine, before): (usize, &BTreeMap<u64, u64>),
    x: &Buffer<u32>,
    check: &mut dyn FnMut(&str),
) {
    let name = ROUTINES[routine];
    check(name);
    let call = || node.offload(steps::with(routine as u32, x.ptr())).expect("sent");
    stepper.end_at_each((name, ROUNDS), before, call, |call| call.wait(), &mut |why, _| check(why));
}

fn image(runtime: &Runtime) -> (Image, ImageFile) {
    let image = devices::image("qemu:riscv64");
    let target = runtime.target(SPEC).expect("known").expect("takes an image");
    let file = image.resolve(&target).expect("it was built");
    (image, file)
}

/// After the end of a task that claimed: what it claimed is free, also where another task claims something.
fn is_free(node: &Node, x: &Buffer<u32>, other: &Buffer<u64>, why: &str) {
    let gate = Gate::new(node);
    let beside = node.offload(keeps::with(other.ptr(), gate.ptr(), 0)).expect("sent");
    gate.wait_for(1);
    let viewed = node.sync(views::with(x.ptr())).map_err(|e| e.to_string());
    assert_eq!(viewed, Ok(16), "{why}");
    let used = node.sync(repairs::with()).map_err(|e| e.to_string());
    assert!(used.is_ok(), "{why}: {used:?}");
    gate.open();
    beside.wait().expect("goes on");
    let claimed = node.sync(claims_both::with(x.ptr())).map_err(|e| e.to_string());
    assert_eq!(claimed, Ok(()), "{why}");
}

#[test]
fn what_an_ended_task_has_claimed_is_free() {
    let mut runtime = Runtime::new().expect("a runtime");
    let stepped = Stepped::register(&mut runtime);
    let (image, file) = image(&runtime);
    let options = Options { start_deadline: devices::START_TIMEOUT, deadline: None, ..options() };
    let node = runtime.open_with(SPEC, image, options).expect("a device");
    let mut stepper = stepped.stepper(&file, BETWEEN);
    let (x, other) = (node.buffer(&[0u32; 16]).expect("room"), node.buffer(&[0u64; 8]).expect("room"));
    for routine in 0..OF_WORLDS {
        each(&mut stepper, &node, (routine, &BTreeMap::new()), &x, &mut |why| {
            is_free(&node, &x, &other, why);
            if routine == 6 {
                node.sync(poisons::with()).expect_err("it panics");
            }
        });
    }
}

/// Of ranks of which nothing but a notification ends a sleep.
fn asleep() -> WorldOptions {
    let WorldOptions { rank, .. } = WorldOptions::default();
    let rank = Options {
        segment: 1 << 20,
        start_deadline: devices::START_TIMEOUT,
        deadline: None,
        wait: WaitMode::Sleep,
        longest_sleep: None,
        ..rank
    };
    WorldOptions { rank, ..WorldOptions::default() }
}

#[test]
fn what_an_ended_task_has_told_a_rank_reaches_it_next_time() {
    let mut runtime = Runtime::new().expect("a runtime");
    let stepped = Stepped::register(&mut runtime);
    let (image, file) = image(&runtime);
    // So many announce what they publish.
    let ranks: Vec<_> = (0..9).map(|rank| (if rank == 0 { SPEC } else { "thread" }, image.clone())).collect();
    let world = runtime.world_of_images(&ranks, asleep()).expect("a world");
    let mut stepper = stepped.stepper(&file, BETWEEN);
    let node = world.node(0);
    let x = node.buffer(&[0u32; 16]).expect("room");
    // What the rank has learnt by its first call of a handler.
    let mut unknown = stepper.statics(&file, "5world4RANK");
    node.sync(calls_partner::with()).expect("it answers");
    let known = stepper.statics(&file, "5world4RANK");
    unknown.retain(|at, word| known[at] != *word);
    assert!((1..8).contains(&unknown.len()), "the row of a key and a notification: {unknown:x?}");
    let segment = node.sync(own_segment::with()).expect("a rank");
    for (routine, name) in ROUTINES.iter().enumerate().skip(OF_WORLDS) {
        let before = if *name == "key of a handler" { unknown.clone() } else { BTreeMap::new() };
        each(&mut stepper, node, (routine, &before), &x, &mut |why| {
            let reached = node.sync_with(calls_partner::with(), CallOptions::deadline(LOST));
            assert_eq!(reached.map_err(|e| e.to_string()), Ok(7), "{why}");
            node.sync(announces::with()).expect("runs");
            assert!(world.node(1).sync(finds::with()).expect("runs"), "{why}: what was announced is not found");
            assert_eq!(node.sync(own_segment::with()).expect("a rank"), segment, "{why}: the segment has moved");
            if name.contains("segment") {
                let claims = steps::with(ROUTINES.len() as u32 - 1, x.ptr());
                node.sync(claims).unwrap_or_else(|e| panic!("{why}: the segment is not free: {e}"));
            }
            // It sleeps again.
            std::thread::sleep(Duration::from_millis(1));
        });
    }
}

/// A notification is shorter where its rank does not sleep: a stop that was on the longer way does not come.
#[test]
fn a_task_may_go_another_way_than_it_was_seen_to() {
    let mut runtime = Runtime::new().expect("a runtime");
    let stepped = Stepped::register(&mut runtime);
    let (image, file) = image(&runtime);
    let ranks = [(SPEC, image.clone()), ("thread", image)];
    let world = runtime.world_of_images(&ranks, asleep()).expect("a world");
    let mut stepper = stepped.stepper(&file, BETWEEN);
    let node = world.node(0);
    let x = node.buffer(&[0u32; 16]).expect("room");
    node.sync(calls_partner::with()).expect("it answers");
    std::thread::sleep(Duration::from_millis(100));
    let notify = ROUTINES.iter().position(|name| *name == "notification").expect("one of them");
    let call = || node.offload(steps::with(notify as u32, x.ptr())).expect("sent");
    let (whole, way) = stepper.trace(call);
    whole.wait().expect("it is not ended");
    let gate = Gate::new(world.node(1));
    let busy = world.node(1).offload(spin_at::with(gate.ptr(), 7)).expect("sent");
    gate.wait_for(1);
    let mut others = 0;
    for nth in 0..way.instructions.len() {
        let (call, place) = stepper.end_at(&way, nth, call);
        match (call.wait(), place) {
            (Ok(()), None) => others += 1,
            (Err(CallError::Fault(report)), Some(_)) if report.status == Status::TRAP => {}
            outcome => panic!("{outcome:?}"),
        }
    }
    assert!((1..way.instructions.len()).contains(&others), "{others} of {}", way.instructions.len());
    gate.open();
    assert_eq!(busy.wait().expect("a reply"), 7);
}

/// A runaway that claims: after its end nothing of it is claimed.
fn claims_nothing(spec: &str) {
    let node = devices::open(spec, options());
    let (x, y) = (node.buffer(&[0u64; 8]).expect("room"), node.buffer(&[0u64; 8]).expect("room"));
    let mut left = 0;
    const ROUNDS: u32 = 100;
    for _ in 0..ROUNDS {
        let limit = CallOptions { limit: Some(Duration::from_millis(1)), ..CallOptions::default() };
        match node.sync_with(claims_until_ended::with(x.ptr()), limit) {
            Err(CallError::Fault(report)) if report.status == Status::RUNAWAY => {}
            other => panic!("expected a runaway, got {other:?}"),
        }
        let gate = Gate::new(&node);
        let other = node.offload(keeps::with(y.ptr(), gate.ptr(), 0)).expect("sent");
        gate.wait_for(1);
        if let Err(why) = node.sync(takes::with(x.ptr())) {
            if left == 0 {
                println!("{why}");
            }
            left += 1;
        }
        gate.open();
        other.wait().expect("goes on");
    }
    println!("{spec}: {left} of {ROUNDS} left their claim");
    assert_eq!(left, 0, "of {ROUNDS} tasks that were ended left their claim");
}

#[test]
fn a_runaway_claims_nothing_on_riscv64() {
    claims_nothing("qemu:riscv64");
}

#[test]
fn a_runaway_claims_nothing_on_x86_64() {
    claims_nothing("qemu:x86_64");
}
