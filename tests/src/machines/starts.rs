//! Images that fail while starting, and the host's errors for them.

use super::rig::Rig;
use super::spec;
use crate::devices;
use hamr::link::Peer;
use hamr::qemu::Machine;
use hamr::{ImageFile, Options};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::preamble::{DeviceState, word};
use hamr_comm::handshake::HostHandshake;
use hamr_tests_kernels::variants::{FAILS_EARLY, FAILS_LATE};
use std::time::{Duration, Instant};

/// The error of opening a machine with an image that fails, and the time until it.
fn refusal_of(machine: &Machine, variant: u8) -> (String, ImageFile, Duration) {
    let target = devices::runtime().target(&spec(machine)).expect("known").expect("takes an image");
    let image = devices::variant(&spec(machine), variant);
    let file = image.resolve(&target).expect("an image");
    let options = Options { start_deadline: devices::START_TIMEOUT, ..Options::default() };
    let begin = Instant::now();
    let message = devices::runtime().open_with(&spec(machine), image, options).expect_err("no device").to_string();
    let took = begin.elapsed();
    println!("{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    (message, file, took)
}

/// There is no window to write to, so the host's error has the console's line.
pub fn a_fault_before_the_window_is_found(machine: &Machine) {
    let (message, _, took) = refusal_of(machine, FAILS_EARLY);
    for part in ["starting", "code 101", "no bus to be found at tests/image/src/board.rs:"] {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
    assert!(took < devices::START_TIMEOUT / 2, "it is not waited for without result: {took:?}");
}

/// The host reads the end of the image's start in the crash record, and so does `hamr inspect` in a
/// copy of the window.
pub fn a_fault_before_serving(machine: &Machine) {
    let (message, file, _) = refusal_of(machine, FAILS_LATE);
    for part in ["epoch 1 ended by a fault: load", "crashes.rs:"] {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
    let rig = Rig::start_with(machine, &file);
    let window = rig.window();
    let state = || DeviceState(window.word(word::DEVICE_STATE).expect("in the preamble").observe());
    // The image waits for an offer before it writes to the window.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!((state(), rig.link.peer()), (DeviceState::ABSENT, Peer::Alive));
    HostHandshake::offer(window, &rig.offer, Epoch(9)).expect("long enough");
    let begin = Instant::now();
    while state() != DeviceState::CRASHED {
        assert!(begin.elapsed() < devices::START_TIMEOUT, "{:?}", state());
        std::thread::yield_now();
    }
    let mut bytes = vec![0; window.len() as usize];
    window.read_bytes(0, &mut bytes).expect("all of it");
    let copy = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(copy.path(), bytes).expect("written");
    let dump = hamr::inspect::dump(copy.path()).expect("a window");
    println!("{dump}");
    let crash = dump.crash.as_ref().expect("a crash record");
    assert_eq!((crash.epoch, dump.device.state), (9, "crashed"));
    assert_eq!(dump.device.build_id, file.build_id);
    assert!(crash.pc.0 != 0 && crash.stack.0 != 0 && !crash.frames.is_empty(), "{crash:?}");
    assert!(dump.to_string().contains(&crash.text), "{dump}");
}
