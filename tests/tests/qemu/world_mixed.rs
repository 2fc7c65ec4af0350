//! Worlds whose ranks run different images and programs, and call each other by name.

use hamr::{CallError, Image, Options, World, WorldOptions};
use hamr_comm::abi::ids::RankId;
use hamr_kernels::faults::divide;
use hamr_tests::spy::{Memory, Spy};
use hamr_tests::{devices, lanes, peers, processes};
use hamr_tests_kernels::lanes::{FAILURES, call_all, fail_at};
use hamr_tests_kernels::worlds::place;
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_hamr-joins");

fn options() -> WorldOptions {
    let WorldOptions { rank, .. } = WorldOptions::default();
    let rank = Options { segment: 1 << 20, start_deadline: devices::START_TIMEOUT, ..rank };
    WorldOptions { rank, ..WorldOptions::default() }
}

fn program(arguments: &[&str]) -> Image {
    Image::program(PROGRAM, arguments).expect("a program")
}

fn world(ranks: &[(&str, Image)]) -> World {
    devices::runtime().world_of_images(ranks, options()).expect("a world")
}

#[test]
fn images_and_programs_call_each_other() {
    let image = Image::find(devices::IMAGE).expect("a name");
    let ranks = [("shm", program(&["none"])), ("shm", image.clone()), ("shm", program(&["none"])), ("thread", image)];
    let world = world(&ranks);
    for (rank, node) in world.nodes().iter().enumerate() {
        assert_eq!(node.sync(place::with()).expect("a rank"), (rank as u32, 4));
    }
    assert_ne!(world.node(0).handlers().len(), world.node(1).handlers().len(), "their tables differ");
    lanes::check_calls(&world, 100);
    lanes::check_overlap(&world);
    lanes::check_ring(&world);
    lanes::check_sends(&world);
    lanes::check_failures(&world);
    peers::check_barriers(&world, 50);
}

#[test]
fn a_program_and_a_machine_call_each_other() {
    let image = Image::find(devices::IMAGE).expect("a name");
    let world = world(&[("shm", program(&["none"])), ("qemu:riscv64", image)]);
    lanes::check_calls(&world, 30);
    lanes::check_overlap(&world);
    lanes::check_failures(&world);
}

/// The text of a fault of a call between ranks.
#[track_caller]
fn fault(outcome: Result<u32, CallError>) -> String {
    match outcome {
        Err(CallError::Fault(report)) => report.to_string(),
        other => panic!("expected a fault, got {other:?}"),
    }
}

#[test]
fn handlers_that_differ_are_refused_by_name() {
    let other = Image::find("hamr-checks-other").expect("a name");
    let world = world(&[("shm", program(&["none"])), ("shm", other)]);
    assert_eq!(world.node(1).sync(divide::with(84, 2)).expect("both have it"), 42);
    for (way, what) in [(1, "lanes::step_bytes"), (4, "lanes::waits_for_cancel")] {
        let text = fault(world.node(0).sync(fail_at::with(1, way)));
        let expected =
            format!("a call to rank 1 failed: the handler has other types there: hamr_tests_kernels::{what}");
        assert!(text.contains(&expected), "{text}");
        // At itself it has it.
        let text = fault(world.node(0).sync(fail_at::with(0, way)));
        assert!(text.contains(FAILURES[way as usize]) || way == 4 && text.contains("deadline"), "{text}");
    }
    for _ in 0..2 {
        let text = fault(world.node(0).sync(fail_at::with(1, 0)));
        let expected = "a call to rank 1 failed: no such handler there: hamr_tests_kernels::lanes::panics_here";
        assert!(text.contains(expected), "{text}");
    }
}

/// A hostile rank: whatever stands in its table, calls find a handler, or do not.
#[test]
fn random_bytes_in_a_table_end_calls_at_worst() {
    let memory = Memory::default();
    let mut runtime = hamr::Runtime::new().expect("a runtime");
    Spy::register(&mut runtime, "spy", hamr::ShmLauncher, &memory);
    let mut random = hamr_tests::conformance::Random(17);
    let mut outcomes = [0; 2];
    for round in 0..40 {
        let ranks = [("spy", program(&["none"])), ("spy", devices::image("shm"))];
        let world = runtime.world_of_images(&ranks, options()).expect("a world");
        memory.garble_table(RankId(1), || random.number());
        let outcome = world.node(0).sync(call_all::with(1));
        outcomes[usize::from(outcome.is_ok())] += 1;
        // It goes on.
        assert_eq!(world.node(0).sync(place::with()).expect("a rank"), (0, 2), "round {round}");
    }
    assert!(outcomes[0] > 5, "no byte was in the way: {outcomes:?}");
}

/// As a user runs them.
#[test]
fn run_mixes_images_and_programs() {
    let run = |options: &[&str], arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.arg("run").args(options).arg(PROGRAM).args(arguments).stdin(Stdio::null());
        let output = command.output().expect("it runs");
        // A line for each image that is not up to date.
        let text = processes::said(&output.stderr);
        let said: String = text.lines().filter(|line| !line.starts_with("hamr: building image")).collect();
        (output.status.code(), said)
    };
    let mixed = ["--rank", "shm*2", "--rank", "shm=hamr-checks", "--rank", "qemu:riscv64=hamr-checks"];
    assert_eq!(run(&mixed, &["calls"]), (Some(0), String::new()));
    // The image's main gets the arguments, too.
    assert_eq!(run(&["--rank", "shm", "--rank", "shm*2=hamr-checks"], &["code", "2"]), (Some(7), String::new()));
    let (code, text) = run(&["--rank", "shm", "--rank", "shm=hamr-checks"], &["fail", "1!"]);
    assert!(code == Some(2) && text.contains("rank 1 (shm)") && text.contains("as asked"), "{text}");
    for (options, words) in [
        (["--rank", "shm=hamr-checks"], "expected one without `=`"),
        (["--rank", "shm*x=hamr-checks"], "behind the `*`"),
        (["--rank", "shm*4096"], "expected 1 to 4095"),
    ] {
        let (code, text) = run(&options, &["none"]);
        assert!(code == Some(2) && text.contains(words), "{text}");
    }
    let (code, text) = run(&["--rank", "shm", "--rank", "shm=hamr-demo"], &["none"]);
    assert!(
        code == Some(2) && text.contains("image hamr-demo: expected a handler #[offload(name = \"main\")]"),
        "{text}"
    );
}
