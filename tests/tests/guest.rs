//! Tests of a host on a real bus, run inside of a Linux guest by `cargo xtask guest`
//! (docs/testing.md): the conformance suite over `pci:ADDRESS`, and cases that need a device that
//! outlives its hosts.
//!
//! `HAMR_GUEST_DEVICE` names the device. There is only one, so the tests run one at a time.

#[path = "guest/asleep.rs"]
mod asleep;

use hamr::{CallError, Error, Image, Node, Options, WaitMode};
use hamr_kernels::bench::empty;
use hamr_tests::{conformance, devices};
use hamr_tests_kernels::{echo, wait_at};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

fn spec() -> String {
    std::env::var("HAMR_GUEST_DEVICE").expect("the name of the device in HAMR_GUEST_DEVICE")
}

fn try_open(options: Options) -> Result<Node, Error> {
    let image = Image::find(devices::IMAGE).expect("a name");
    devices::runtime().open_with(&spec(), image, options)
}

/// Three cases of the suite need two devices, of which one may be of any kind.
fn open(options: Options) -> Node {
    static SECOND: AtomicU32 = AtomicU32::new(0);
    match try_open(options.clone()) {
        Ok(node) => node,
        Err(e) if is_taken(&e) => {
            assert!(SECOND.fetch_add(1, Ordering::Relaxed) < 3, "three cases at most have two devices: {e}");
            let image = Image::find(devices::IMAGE).expect("a name");
            devices::runtime().open_with("loopback", image, options).expect("a device in this process")
        }
        Err(e) => panic!("the device does not open: {e}"),
    }
}

hamr_tests::conformance!(open);

/// Refused by the lock of sysfs, or by the group, which vfio gives to one program at a time.
fn is_taken(error: &Error) -> bool {
    matches!(error, Error::Owned { .. }) || error.to_string().contains("expected no other host")
}

/// A second host is refused while there is a first one, and accepted afterwards, even if the first
/// one's streams are not dropped yet.
#[test]
fn a_second_host_is_refused() {
    let first = try_open(conformance::options()).expect("a device");
    first.sync(echo::with(1u64)).expect("it runs");
    let refused = try_open(conformance::options()).expect_err("it has a host");
    assert!(is_taken(&refused), "{refused}");
    first.sync(echo::with(2u64)).expect("it was not disturbed");
    drop(first);
    let second = try_open(conformance::options()).expect("the first one has left");
    assert_eq!(second.sync(echo::with(3u64)).expect("it runs"), 3);
}

/// After its release, the rest of a host writes to memory of its own: it closes no stream of the
/// next host, and cancels no call.
#[test]
fn a_released_host_does_not_reach_the_next() {
    let first = try_open(conformance::options()).expect("a device");
    let (left, other) = (first.shared_stream().expect("free"), first.shared_stream().expect("free"));
    let old = {
        let gate = conformance::Gate::new(&first);
        let old = left.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        // The gate stays closed, so that only the host's end can end the call.
        std::mem::forget(gate);
        old
    };
    drop(first);
    let second = try_open(conformance::options()).expect("the first one has left");
    let stream = second.stream().expect("free");
    let gate = conformance::Gate::new(&second);
    let new = stream.offload(wait_at::with(gate.ptr(), 2)).expect("sent");
    gate.wait_for(1);
    old.cancel();
    assert!(matches!(old.wait(), Err(CallError::DeviceLost(..))));
    drop((left, other));
    std::thread::sleep(Duration::from_millis(200));
    gate.open();
    assert_eq!(new.wait().expect("nothing cancelled it"), 2);
    // Through the ring, because the device also polls the hot slot of the last served stream while
    // no queue pair is open.
    let limit = hamr::CallOptions::deadline(Duration::from_secs(5));
    let outcome = stream.offload_with(echo::with(3u64), limit).expect("sent").wait();
    assert_eq!(outcome.expect("its queue pair is open"), 3);
}

/// The window of a running device is inspected without an effect on either side. A function that a
/// host has through vfio cannot be inspected until the host leaves; the system refuses it.
#[test]
fn a_window_in_use_is_inspected() {
    let node = try_open(conformance::options()).expect("a device");
    let spec = spec();
    let path = hamr::pci::window_file(spec.strip_prefix("pci:").expect("on the bus")).expect("a window");
    let epoch = node.info().epoch;
    let rounds = if node.info().link == "pci" { 20u64 } else { 0 };
    if rounds == 0 {
        let error = hamr::inspect::dump(&path).expect_err("it is in use").to_string();
        assert!(error.contains("a program has through vfio"), "{error}");
    }
    for n in 0..rounds {
        assert_eq!(node.sync(echo::with(n)).expect("it runs"), n);
        let dump = hamr::inspect::dump(&path).expect("a window");
        assert_eq!((dump.host.state, dump.device.state), ("ready", "serving"));
        assert_eq!((dump.host.epoch, dump.device.epoch), (epoch, epoch));
        assert_eq!(dump.problems, Vec::<String>::new());
        assert_eq!(dump.handlers.len(), node.handlers().len());
    }
    assert!(node.is_alive());
    drop(node);
    let dump = hamr::inspect::dump(&path).expect("a window");
    assert_eq!((dump.host.state, dump.device.state, dump.device.epoch), ("closing", "stopped", epoch));
}

/// The epoch rises from host to host, and each host has another layout.
#[test]
fn the_epoch_rises_from_host_to_host() {
    let mut last = 0;
    for streams in [3, 17, 1, 40] {
        let options = Options { streams: Some(streams), ..conformance::options() };
        let node = try_open(options).expect("a device");
        assert_eq!(node.sync(echo::with(u64::from(streams))).expect("it runs"), u64::from(streams));
        let epoch = node.info().epoch;
        assert!(last == 0 || epoch == last + 1, "{epoch} after {last}");
        last = epoch;
    }
}

/// A host that is killed does not end its epoch; the next one does.
#[test]
fn a_host_attaches_after_a_killed_one() {
    for _ in 0..5 {
        let before = try_open(conformance::options()).expect("a device").info().epoch;
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "a_host_that_calls_until_it_is_killed"])
            .stdout(Stdio::null())
            .spawn()
            .expect("this program starts");
        // While the lock is taken, the other host is somewhere between attaching and calling.
        conformance::until("the other host has the device", || {
            // The other host needs a moment in which this one does not have the lock.
            std::thread::sleep(Duration::from_millis(50));
            try_open(conformance::options()).is_err_and(|e| is_taken(&e))
        });
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        let node = try_open(conformance::options()).expect("the device outlives its hosts");
        assert!(node.info().epoch > before);
        assert_eq!(node.sync(echo::with(7u64)).expect("it runs"), 7);
    }
}

/// The host that the test above kills.
#[test]
#[ignore = "ends when it is killed"]
fn a_host_that_calls_until_it_is_killed() {
    let begin = Instant::now();
    let node = loop {
        match try_open(conformance::options()) {
            Ok(node) => break node,
            Err(e) => assert!(is_taken(&e) && begin.elapsed() < Duration::from_secs(20), "{e}"),
        }
    };
    while begin.elapsed() < Duration::from_secs(20) {
        node.sync(empty::with()).expect("it runs");
    }
}

/// A handler that runs for longer than a device may be silent does not make its device lost,
/// because the tick still steps `alive`. Run by name.
#[test]
#[ignore = "takes its time"]
fn a_long_handler_is_not_a_lost_device() {
    // That is five seconds.
    const LONG: Duration = Duration::from_secs(6);
    let node = try_open(Options { deadline: None, ..conformance::options() }).expect("a device");
    let gate = node.buffer(&[0u32; 17]).expect("room");
    let shared = node.shared_stream().expect("free");
    let begin = Instant::now();
    let runs = shared.offload(wait_at::with(gate.ptr(), 7)).expect("sent");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while begin.elapsed() < LONG {
                assert!(node.is_alive(), "taken for lost after {:?}", begin.elapsed());
                std::thread::sleep(Duration::from_millis(50));
            }
            node.words(gate.ptr()).expect("words").get(0).expect("a gate").publish(1);
        });
        assert_eq!(runs.wait().expect("it ends when the gate opens"), 7);
    });
    assert!(begin.elapsed() >= LONG);
    eprintln!("\n{}: a handler of {:.1?} ended well", node.info().isa, begin.elapsed());
}

/// The other machine is killed while a handler runs: every call ends, and the error contains the
/// reason. Run by name.
#[test]
#[ignore = "takes the device away"]
fn a_device_that_vanishes_ends_its_calls() {
    let node = try_open(Options { deadline: None, ..conformance::options() }).expect("a device");
    let stream = node.stream().expect("free");
    let gate = node.buffer(&[0u32; 17]).expect("room");
    let runs = stream.offload(wait_at::with(gate.ptr(), 7)).expect("sent");
    let waiting = || node.words(gate.ptr()).expect("words").get(16).expect("a gate").load();
    conformance::until("the handler runs", || waiting() == 1);
    // The program that runs the machines reads the console.
    eprintln!("\n## kill device");
    let begin = Instant::now();
    let error = runs.wait().expect_err("the device is killed");
    assert!(begin.elapsed() < Duration::from_secs(60), "noticed after {:?}", begin.elapsed());
    match &error {
        CallError::DeviceLost(_, why) => assert!(why.contains("neither `alive` nor `progress` moved"), "{why}"),
        other => panic!("expected a lost device, got {other}"),
    }
    assert!(!node.is_alive());
    assert!(node.stream().is_err());
    eprintln!("ended after {:?}: {error}", begin.elapsed());
    let error = node.restart().expect_err("no device is there to leave the epoch");
    assert!(error.to_string().contains("reset the device"), "{error}");
}

fn write(path: &str, text: &str) -> Duration {
    let begin = Instant::now();
    std::fs::write(path, text).expect("this is root");
    begin.elapsed()
}

/// The kernel waits for the program that has a function through vfio. A host releases it when the
/// kernel asks, busy or idle. Run by name, with the function bound to vfio-pci; afterwards it has
/// no driver.
#[test]
#[ignore = "takes the function from vfio"]
fn a_function_that_vfio_takes_back_is_released() {
    // A few dozen milliseconds on a quiet machine; without an end if the host keeps the function.
    const SOON: Duration = Duration::from_secs(10);
    let spec = spec();
    let address = spec.strip_prefix("pci:").expect("a device on the bus");
    let folder = format!("/sys/bus/pci/devices/{address}");
    let node = try_open(conformance::options()).expect("a device");
    assert_eq!(node.info().link, "pci-vfio");
    let epoch = node.info().epoch;
    write(&format!("{folder}/driver_override"), "\n");
    let took = write(&format!("{folder}/driver/unbind"), address);
    eprintln!("\nunbound under an idle host within {took:.1?}");
    assert!(took < SOON && !node.is_alive());
    let error = node.restart().expect_err("its function is gone");
    assert!(error.to_string().contains("open the device again"), "{error}");
    drop(node);
    // The image keeps running, and is found through sysfs.
    let node = try_open(conformance::options()).expect("a device");
    assert_eq!((node.info().link.as_str(), node.info().epoch), ("pci", epoch + 1));
    assert_eq!(node.sync(echo::with(7u64)).expect("it runs"), 7);
    drop(node);
    write(&format!("{folder}/driver_override"), "vfio-pci");
    write("/sys/bus/pci/drivers_probe", address);
    let options = Options { wait: WaitMode::Sleep, longest_sleep: None, deadline: None, ..conformance::options() };
    let node = try_open(options).expect("a device");
    assert_eq!(node.info().link, "pci-vfio");
    let stream = node.stream().expect("free");
    stream.sync(empty::with()).expect("it runs");
    let took = std::thread::scope(|scope| {
        let remove = scope.spawn(|| write(&format!("{folder}/remove"), "1"));
        let begin = Instant::now();
        let error = loop {
            match stream.sync(empty::with()) {
                Ok(()) => assert!(begin.elapsed() < Duration::from_secs(20), "the function was not taken"),
                Err(e) => break e,
            }
        };
        assert!(error.to_string().contains("the system took its function back"), "{error}");
        remove.join().expect("removed")
    });
    eprintln!("removed under a host at work within {took:.1?}");
    assert!(took < SOON && !node.is_alive());
    drop(stream);
    drop(node);
    write("/sys/bus/pci/rescan", "1");
    let node = try_open(conformance::options()).expect("it is back");
    assert_eq!((node.info().link.as_str(), node.info().epoch), ("pci", epoch + 3));
    assert_eq!(node.sync(echo::with(8u64)).expect("it runs"), 8);
}

/// The function itself is removed, as when a card is pulled or its slot is switched off. Run by
/// name, last.
#[test]
#[ignore = "takes the function away"]
fn a_function_that_is_removed_ends_its_calls() {
    let node = try_open(conformance::options()).expect("a device");
    let stream = node.stream().expect("free");
    stream.sync(empty::with()).expect("it runs");
    let spec = spec();
    let address = spec.strip_prefix("pci:").expect("a device on the bus");
    std::fs::write(format!("/sys/bus/pci/devices/{address}/remove"), "1").expect("this is root");
    // Until the bus gives its addresses to another function, the memory behaves as before, so only
    // the bus shows the removal.
    let begin = Instant::now();
    conformance::until("the end is noticed", || !node.is_alive());
    let error = stream.sync(empty::with()).expect_err("no device");
    assert!(error.to_string().contains("gone from the bus"), "{error}");
    eprintln!("noticed after {:?}: {error}", begin.elapsed());
    let epoch = node.info().epoch;
    assert!(node.wait_until_back(Duration::from_millis(100)).is_err(), "nothing is there");
    // Plugged in again, under the same host.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| node.wait_until_back(Duration::from_secs(20)));
        std::fs::write("/sys/bus/pci/rescan", "1").expect("this is root");
        waiting.join().expect("returns").expect("it is back");
    });
    assert!(node.is_alive() && node.info().epoch != epoch);
    stream.sync(empty::with()).expect("the stream goes on");
    assert_eq!(node.sync(echo::with(9u64)).expect("it runs"), 9);
    std::fs::write(format!("/sys/bus/pci/devices/{address}/remove"), "1").expect("this is root");
    drop(stream);
    drop(node);
    let error = try_open(conformance::options()).expect_err("nothing is there");
    assert!(error.to_string().contains("found none"), "{error}");
}
