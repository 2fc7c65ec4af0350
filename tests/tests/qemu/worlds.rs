//! Worlds with machines: the memory is behind one PCI function of each, and their images end with
//! the world.

use hamr::link::Link;
use hamr::qemu::{Machine, QemuLauncher};
use hamr::{Error, Home, Image, Isa, LaunchRequest, Launcher, Options, Target, WaitMode, World, WorldOptions};
use hamr_comm::abi::world::WorldHeader;
use hamr_kernels::demo::{dot_f64, isa};
use hamr_kernels::faults::{divide, panics};
use hamr_tests::{devices, lanes, peers, processes};
use hamr_tests_kernels::peers::waits_for_ever;
use hamr_tests_kernels::wait_at;
use hamr_tests_kernels::worlds::{fill, leave, others, place};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

const MIXED: [(&str, Isa); 4] = [
    ("qemu:riscv64", Isa::RISCV64),
    ("shm", Isa::X86_64),
    ("qemu:aarch64", Isa::AARCH64),
    ("qemu:x86_64", Isa::X86_64),
];

/// A machine has no time for its end while another one has all of it.
const GONE: Duration = Duration::from_millis(2500);

fn options() -> WorldOptions {
    let rank = WorldOptions::default().rank;
    let rank = Options { segment: 1 << 20, start_deadline: devices::START_TIMEOUT, ..rank };
    WorldOptions { rank, ..WorldOptions::default() }
}

/// A named image is built for each kind of rank.
fn world(specs: &[&str]) -> World {
    let image = Image::find(devices::IMAGE).expect("a name");
    devices::runtime().world_with(specs, image, options()).expect("a world")
}

/// A machine that sleeps for longer is not one that hangs.
#[test]
fn a_machine_that_hangs_is_named() {
    const STALL: Duration = Duration::from_secs(2);
    let specs = ["qemu:x86_64", "shm", "qemu:riscv64", "qemu:aarch64"];
    let asleep = options();
    let rank = Options { longest_sleep: None, ..asleep.rank };
    let options = WorldOptions { rank, stall: Some(STALL), ..asleep };
    let image = Image::find(devices::IMAGE).expect("a name");
    let world = devices::runtime().world_with(&specs, image, options).expect("a world");
    std::thread::sleep(STALL * 3 / 2);
    assert_eq!(world.outcome(), None);
    for (rank, node) in world.nodes().iter().enumerate() {
        assert_eq!(node.sync(place::with()).expect("a rank"), (rank as u32, 4));
    }
    let emulator = processes::children(std::process::id()).into_iter().find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("qemu-system-riscv64")
    });
    let emulator = Pid::from_raw(emulator.expect("it runs") as i32).expect("a process");
    kill_process(emulator, Signal::STOP).expect("this test's own");
    let lost = world.wait().expect_err("it hangs");
    assert!(lost.rank.0 == 2 && lost.why.contains("it hangs"), "{lost}");
}

#[test]
fn machines_of_all_kinds_and_a_process_are_one_world() {
    let world = world(&MIXED.map(|(spec, _)| spec));
    let asked: Vec<_> = world.nodes().iter().map(|node| node.offload(place::with()).expect("sent")).collect();
    for (rank, answer) in asked.into_iter().enumerate() {
        assert_eq!(answer.wait().expect("a rank"), (rank as u32, 4));
    }
    let x: Vec<f64> = (0..4096).map(f64::from).collect();
    let first = world.node(0).buffer(&x).expect("room");
    let mut last = first.ptr();
    let mut buffers = Vec::new();
    for (rank, (node, (spec, kind))) in world.nodes().iter().zip(MIXED).enumerate() {
        assert_eq!(node.sync(isa::with()).expect("a reply"), kind.0, "{spec}");
        assert_eq!(node.sync(fill::with(rank as u8 + 1)).expect("its own"), 1 << 20);
        // A fault ends its call alone, in a rank too.
        assert!(node.sync(panics::with(1)).is_err());
        assert_eq!(node.sync(divide::with(84, 2)).expect("the next call works"), 42);
        // From rank to rank.
        let buffer = node.allocate::<f64>(x.len()).expect("room");
        world.copy(last, buffer.ptr()).expect("copied");
        let sum = node.sync(dot_f64::with(buffer.ptr(), buffer.ptr())).expect("computes");
        assert_eq!(sum, x.iter().fold(0.0, |sum, a| sum + a * a), "{spec}");
        last = buffer.ptr();
        buffers.push(buffer);
    }
    for (rank, node) in world.nodes().iter().enumerate() {
        assert_eq!(node.sync(others::with(rank as u8 + 1)).expect("its own"), 0, "no rank wrote another's segment");
    }
    assert_eq!(world.outcome(), None);
}

/// Each kind of machine beside one of its own and a process: copies, strides, atomics of processors
/// that run guest code, signals, barriers.
#[test]
fn machines_reach_each_other() {
    for machine in ["qemu:riscv64", "qemu:aarch64", "qemu:x86_64"] {
        let world = world(&[machine, machine, "shm"]);
        peers::check_copies(&world);
        peers::check_copies_of_others(&world);
        peers::check_strides(&world, 20);
        peers::check_atomics(&world, 3001);
        peers::check_signals(&world, 100, 0);
        peers::check_signals(&world, 10, 3000);
        peers::check_barriers(&world, 100);
        drop(world);
        // Nothing but a notification ends the sleep of a rank.
        let WorldOptions { rank, .. } = options();
        let rank = Options { wait: WaitMode::Sleep, longest_sleep: None, ..rank };
        let image = Image::find(devices::IMAGE).expect("a name");
        let options = WorldOptions { rank, ..options() };
        let world = devices::runtime().world_with(&[machine, "shm", machine], image, options).expect("a world");
        peers::check_signals(&world, 100, 0);
        peers::check_signals(&world, 10, 3000);
        peers::check_barriers(&world, 30);
    }
}

/// The ranks of one program call each other, on a process and machines of three instruction sets.
#[test]
fn machines_of_all_kinds_call_each_other() {
    let world = world(&MIXED.map(|(spec, _)| spec));
    lanes::check_calls(&world, 30);
    lanes::check_overlap(&world);
    lanes::check_unread(&world);
    lanes::check_ring(&world);
    lanes::check_sends(&world);
    lanes::check_failures(&world);
    drop(world);
    // Nothing but a notification ends the sleep of a rank.
    let WorldOptions { rank, .. } = options();
    let rank = Options { wait: WaitMode::Sleep, longest_sleep: None, ..rank };
    let image = Image::find(devices::IMAGE).expect("a name");
    let options = WorldOptions { rank, ..options() };
    let world = devices::runtime().world_with(&MIXED.map(|(spec, _)| spec), image, options).expect("a world");
    lanes::check_calls(&world, 10);
}

#[test]
fn machines_of_all_kinds_reach_each_other() {
    let world = world(&MIXED.map(|(spec, _)| spec));
    peers::check_copies_of_others(&world);
    peers::check_atomics(&world, 1001);
    peers::check_signals(&world, 50, 0);
    peers::check_barriers(&world, 50);
    let failed = world.run(waits_for_ever::with(1, 2)).expect_err("it panics");
    assert_eq!(failed.name, "rank 2 (qemu:aarch64)");
    peers::check_barriers(&world, 10);
}

/// Also while handlers run, and while machines sleep.
#[test]
fn an_exit_on_a_machine_ends_every_rank() {
    for (rank, code) in [(0, 0), (2, 1), (3, 200)] {
        let before = processes::children(std::process::id());
        let world = world(&MIXED.map(|(spec, _)| spec));
        let gate = world.node(1).buffer(&[0u32; 32]).expect("room");
        let busy = world.node(1).offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        let machine = (rank + 1) % 4;
        let gates = (machine != 1).then(|| world.node(machine).buffer(&[0u32; 32]).expect("room"));
        let beside =
            gates.as_ref().map(|gate| world.node(machine).offload(wait_at::with(gate.ptr(), 1)).expect("sent"));
        assert!(world.node(rank).sync(leave::with(code)).is_err());
        let begin = Instant::now();
        assert_eq!(world.wait(), Ok(code));
        assert!(begin.elapsed() < GONE, "{:?}", begin.elapsed());
        let error = busy.wait().expect_err("it ended with the world").to_string();
        assert!(error.contains(&format!("rank {rank}")) && error.contains(&format!("code {code}")), "{error}");
        assert!(beside.is_none_or(|call| call.wait().is_err()));
        let left = processes::children(std::process::id());
        assert!(left.iter().all(|pid| before.contains(pid)), "{left:?}");
    }
}

#[test]
fn a_killed_machine_is_named_and_ends_the_world() {
    let before = processes::children(std::process::id());
    let world = world(&["qemu:aarch64", "qemu:riscv64", "shm"]);
    let machine = processes::children(std::process::id())
        .into_iter()
        .filter(|pid| !before.contains(pid))
        .find(|pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("riscv64")))
        .expect("the machine of rank 1");
    kill_process(Pid::from_raw(machine as i32).expect("a process"), Signal::KILL).expect("this test's own");
    let begin = Instant::now();
    let lost = world.wait().expect_err("a rank was killed");
    assert!(begin.elapsed() < GONE, "{:?}", begin.elapsed());
    assert!(lost.rank.0 == 1 && lost.to_string().contains("rank 1 (qemu:riscv64) was lost"), "{lost}");
    let left = processes::children(std::process::id());
    assert!(left.iter().all(|pid| before.contains(pid)), "{left:?}");
}

/// An image without the feature takes the world's memory for a window without an offer.
#[test]
fn an_image_that_cannot_join_is_named() {
    let rank = Options { start_deadline: Duration::from_secs(3), ..options().rank };
    let image = Image::find("hamr-demo").expect("a name");
    let options = WorldOptions { rank, ..options() };
    let error = devices::runtime().world_with(&["qemu:riscv64"], image, options).expect_err("no rank").to_string();
    for part in ["rank 0 (qemu:riscv64)", "join its world within 3s", "feature `world`"] {
        assert!(error.contains(part), "no `{part}` in: {error}");
    }
}

/// Starts machines whose world has another version than any image reads.
struct Newer;

impl Launcher for Newer {
    fn describe(&self) -> String {
        "worlds of a later version".into()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        QemuLauncher::machine(Machine::RISCV64).target(argument)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        QemuLauncher::machine(Machine::RISCV64).launch(request)
    }
    fn launch_rank(&self, request: &LaunchRequest<'_>, home: Home) -> Result<Box<dyn Link>, Error> {
        let version = std::mem::offset_of!(WorldHeader, version) as u64;
        rustix::io::pwrite(&*home.world, &9u32.to_le_bytes(), version).expect("a memfd");
        QemuLauncher::machine(Machine::RISCV64).launch_rank(request, home)
    }
}

#[test]
fn a_world_that_an_image_refuses_is_named() {
    let mut runtime = hamr::Runtime::new().expect("a runtime");
    runtime.register("newer", Newer);
    let error = runtime.world_with(&["newer"], devices::image("qemu:riscv64"), options()).expect_err("refused");
    for part in ["rank 0 (newer)", "code 2", "cannot join its world: expected version 1 or 2, got 9"] {
        assert!(error.to_string().contains(part), "no `{part}` in: {error}");
    }
}
