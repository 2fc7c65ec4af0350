//! Processes at the other end of TCP and TLS.

use hamr::{Node, Options};
use hamr_kernels::bench::count;
use hamr_tests::devices;
use hamr_tests::far::{Cable, calls_happen_once, open as open_at, serve};
use hamr_tests_kernels::echo;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);

fn small() -> Options {
    Options { heap: 16 << 20, deadline: Some(LONG), ..Options::default() }
}

fn open(options: Options) -> Node {
    devices::open("far:shm", options)
}

hamr_tests::conformance!(open);
hamr_tests::__logs! { "far:shm";
    lines_from_the_first_instruction_arrive, arguments_arrive, the_host_sets_the_level, a_flood_counts_lost_lines,
    a_flood_without_a_reader_is_counted, there_is_one_reader, a_panic_is_logged, a_restart_keeps_unread_lines;
}

#[test]
fn each_fault_names_its_location_and_the_next_call_works() {
    hamr_tests::crashes::each_fault_names_its_location("far:shm");
}

#[test]
fn a_runaway_is_ended_and_the_next_call_works() {
    hamr_tests::crashes::runaway("far:shm");
}

/// What is published once, without a limit of a sleep that would hide that it was not carried.
mod sleeping {
    use hamr_tests::far::FarLauncher;
    use hamr_tests::sleeping::Kind;

    const KIND: Kind = Kind { spec: "far:shm", launcher: || Box::new(FarLauncher), rounds: 100_000 };
    hamr_tests::__sleeping! { KIND;
        threads_sleep_together, tasks_are_woken_once, tasks_and_threads
    }
}

mod relays {
    hamr_tests::relays!("shm", "far:shm"; every_value, buffers, outcomes, a_device_that_ends, a_caller_that_ends);
}

#[test]
fn calls_over_a_cable_that_is_cut_happen_once() {
    let rounds = if std::env::var_os("HAMR_SOAK").is_some() { 100 } else { 10 };
    let cable = Cable::to(serve("shm", &small()));
    let node = open_at(cable.at, devices::image("shm"), Options { restart: false, ..small() });
    let cut = |_| {
        cable.cut();
        true
    };
    calls_happen_once(&node, rounds, cut, || cable.heal());
}

/// A host that waits in a put, a call or a task's call when the cable is cut is told so.
#[test]
fn what_waits_behind_a_cut_ends() {
    let cable = Cable::to(serve("shm", &Options { heap: 64 << 20, ..small() }));
    let node = open_at(cable.at, devices::image("shm"), Options { heap: 64 << 20, restart: false, ..small() });
    let buffer = node.buffer(&vec![0u8; 48 << 20]).expect("room");
    let bytes = vec![7u8; 48 << 20];
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            cable.cut();
        });
        // It may be through before.
        while buffer.write(&bytes).is_ok() {
            assert!(begin.elapsed() < LONG, "the loss is seen");
        }
    });
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let lost = node.sync(echo::with(1u64)).expect_err("it is lost").to_string();
    assert!(lost.contains("the connection to") && lost.contains("was lost"), "{lost}");
    cable.heal();
    node.wait_until_back(LONG).expect("it comes back");
    buffer.write(&bytes).expect("it is there");
    assert!(buffer.read().expect("there") == bytes);
}

/// What a put has told to be there is not lost without a word: neither where the server is another one, nor where another host
/// has had the device.
#[test]
fn buffers_of_other_memory_are_lost() {
    for is_other_server in [true, false] {
        let server = serve("shm", &small());
        let cable = Cable::to(server);
        let node = open_at(cable.at, devices::image("shm"), Options { restart: false, ..small() });
        let log = node.buffer(&[0u64; 64]).expect("room");
        node.sync(count::with(log.ptr())).expect("runs");
        // Back at the same memory.
        cable.cut();
        cable.heal();
        back(&node);
        assert_eq!(log.read().expect("there")[0], 1);
        cable.cut();
        if is_other_server {
            cable.plug_into(serve("shm", &small()));
        } else {
            let begin = Instant::now();
            // When the server has seen that the first one has gone.
            while let Err(e) = devices::runtime().open_with(&format!("tcp:{server}"), devices::image("shm"), small()) {
                assert!(begin.elapsed() < LONG, "{e}");
            }
        }
        cable.heal();
        back(&node);
        let lost = "the device has other memory than before";
        let said = |why: String| assert!(why.contains(lost), "{why}");
        said(node.sync(count::with(log.ptr())).expect_err("it names the buffer").to_string());
        said(log.read().expect_err("it is not there").to_string());
        said(node.put(&[1u64], log.ptr()).expect_err("not all of it").to_string());
        assert_eq!(node.sync(echo::with(3u64)).expect("it names none"), 3);
        let other = node.buffer(&[9u64; 64]).expect("room");
        assert_eq!(other.read().expect("it is new"), [9; 64]);
        log.write(&[0; 64]).expect("all of it");
        node.sync(count::with(log.ptr())).expect("it is there again");
        assert_eq!(log.read().expect("there")[0], 1);
    }
}

fn back(node: &Node) {
    let begin = Instant::now();
    // The loss may be seen by a call only.
    while node.sync(echo::with(1u64)).is_err() {
        assert!(begin.elapsed() < LONG);
        let _ = node.wait_until_back(LONG);
    }
}
