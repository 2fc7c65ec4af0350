//! Devices that another process keeps, and the hosts that come and go: the conformance suite, and what
//! only such devices have.

use hamr::serve::stop;
use hamr::{Error, Image, Node, Options};
use hamr_tests::conformance::{Gate, Log, options, until};
use hamr_tests::devices::{keep, keeper, runtime};
use hamr_tests::processes::{has_ended, host_in_a_call};
use hamr_tests_kernels::{append, echo, wait_at};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
};
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
/// Tells [`a_host_in_a_call`] which device it opens.
const HOST: &str = "HAMR_TEST_HOST_AT";

fn attach(spec: &str, options: Options) -> Result<Node, Error> {
    runtime().open_with(spec, Image::find("hamr-checks").expect("a name"), options)
}

fn open(options: Options) -> Node {
    attach(&keep("shm", &options), options).expect("a device")
}

hamr_tests::conformance!(open);

#[test]
fn hosts_come_and_go_in_epochs_of_their_own() {
    let spec = keep("shm", &options());
    let mut device = None;
    for epoch in 1..20 {
        // Later layouts may be smaller.
        let heap = options().heap >> (epoch % 3);
        let node = attach(&spec, Options { heap, ..options() }).expect("it has no host");
        let info = node.info();
        assert_eq!((info.epoch, info.link.as_str(), info.heap), (epoch, "at-shm", heap));
        assert_eq!(*device.get_or_insert(info.pid), info.pid, "one process for all of them");
        assert!(info.image.is_some(), "names for its addresses");
        for n in 0..100u64 {
            assert_eq!(node.sync(echo::with(n)).expect("runs"), n);
        }
        // In flight when the host leaves.
        let log = Log::new(&node, 50);
        for n in 0..50 {
            drop(node.offload(append::with(log.words(), n)).expect("sent"));
        }
    }
    let too_long = attach(&spec, Options { heap: 1 << 30, ..options() }).expect_err("it has less").to_string();
    assert!(too_long.contains("expected a window of at least") && too_long.contains("--option heap"), "{too_long}");
    attach(&spec, options()).expect("a host that was refused leaves nothing");
}

#[test]
fn a_second_host_is_refused_by_name() {
    let spec = keep("shm", &options());
    let node = attach(&spec, options()).expect("it has no host");
    let error = attach(&spec, options()).expect_err("it has one").to_string();
    for part in [&spec, &format!("process {}", std::process::id()), "a second one is refused"] {
        assert!(error.contains(part), "`{part}` in: {error}");
    }
    assert_eq!(node.sync(echo::with(1u64)).expect("the first one is not disturbed"), 1);
    drop(node);
    assert_eq!(attach(&spec, options()).expect("it has no host").info().epoch, 2);
}

#[test]
fn names_are_refused_before_anything_starts() {
    let spec = keep("shm", &options());
    let name = spec.strip_prefix("at:").expect("the kind");
    for (name, words) in [(name, "runs already"), ("a/b", "`a/b`"), ("", "1 to 64")] {
        let image = Image::find("hamr-checks").expect("a name");
        let again = hamr::serve::Keeper::start(runtime(), "shm", image, &options(), name);
        let error = again.err().expect("no such name").to_string();
        assert!(error.contains(words), "{error}");
    }
    let image = Image::find("hamr-checks").expect("a name");
    let error = hamr::serve::Keeper::start(runtime(), "loopback", image, &options(), "loop").err().expect("not kept");
    assert!(error.to_string().contains("expected shm or qemu"), "{error}");
    let error = attach("at:nothing-of-this-name", options()).expect_err("no such device").to_string();
    assert!(error.contains("hamr serve nothing-of-this-name"), "{error}");
    let error = stop("nothing-of-this-name").expect_err("no such device").to_string();
    assert!(error.contains("hamr serve nothing-of-this-name"), "{error}");
}

/// Acts as a host for [`calls_of_a_killed_host_never_run`].
#[test]
#[ignore = "only the other test starts it"]
fn a_host_in_a_call() {
    let Ok(spec) = std::env::var(HOST) else { return };
    let node = attach(&spec, options()).expect("it has no host");
    let (gate, log) = (Gate::new(&node), Log::new(&node, 100));
    let stream = node.stream().expect("free");
    drop(stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent"));
    gate.wait_for(1);
    for n in 0..100 {
        drop(stream.offload(append::with(log.words(), n)).expect("sent"));
    }
    println!("device {}", node.info().pid);
    std::thread::sleep(LONG);
}

#[test]
fn calls_of_a_killed_host_never_run() {
    let spec = keep("shm", &options());
    let (mut host, device) = host_in_a_call("a_host_in_a_call", HOST, &spec);
    let error = attach(&spec, options()).expect_err("it has a host").to_string();
    assert!(error.contains(&format!("process {}", host.id())), "{error}");
    host.kill().expect("our own child");
    host.wait().expect("our own child");
    let node = attach(&spec, Options { start_deadline: LONG, ..options() }).expect("its host is gone");
    assert!(node.info().epoch > 1 && node.info().pid != device, "its handler did not end");
    until("the process that did not leave has ended", || has_ended(device));
    // Where the former host had the same.
    let (gate, log) = (node.allocate::<u32>(32).expect("room"), node.allocate::<u64>(101).expect("room"));
    assert_eq!(gate.read().expect("readable")[16], 1, "this is what its handler wrote");
    for n in 0..1000u64 {
        assert_eq!(node.sync(echo::with(n)).expect("runs"), n);
    }
    assert_eq!(log.read().expect("readable")[0], 0, "none of its calls ran");
}

/// The keeper waits for a device that does not leave, longer than a connection may say nothing: what one says meanwhile
/// is heard.
#[test]
fn a_connection_that_asks_while_the_keeper_is_busy_is_answered() {
    let spec = keep("shm", &options());
    let name = spec.strip_prefix("at:").expect("the kind");
    let (mut host, _) = host_in_a_call("a_host_in_a_call", HOST, &spec);
    let user = rustix::process::geteuid().as_raw();
    let address = SocketAddrUnix::new_abstract_name(format!("hamr:{user}:{name}").as_bytes()).expect("a short name");
    let next = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket");
    connect(&next, &address).expect("it listens");
    // A connection behind it that is answered shows that it was taken in.
    attach(&spec, options()).expect_err("it has a host");
    host.kill().expect("our own child");
    host.wait().expect("our own child");
    send(&next, b"hamrsrv2A", SendFlags::NOSIGNAL).expect("sent");
    let mut answer = [0; 256];
    let mut fds = [PollFd::new(&next, PollFlags::IN)];
    let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(poll(&mut fds, Some(&limit)), Ok(1), "an answer within a minute");
    let (len, _) = recv(&next, &mut answer, RecvFlags::empty()).unwrap_or((0, 0));
    assert_ne!(len, 0, "it was closed without an answer");
}

#[test]
fn a_killed_device_comes_back_to_its_host() {
    let node = open(options());
    let stream = node.stream().expect("free");
    for epoch in 2..6 {
        let (gate, log) = (Gate::new(&node), Log::new(&node, 20));
        let waiting = stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        let behind: Vec<_> = (0..20).map(|n| stream.offload(append::with(log.words(), n)).expect("sent")).collect();
        let pid = node.info().pid;
        kill_process(Pid::from_raw(pid as i32).expect("a process"), Signal::KILL).expect("a process of ours");
        waiting.wait().expect_err("it ended");
        assert!(!node.is_alive());
        node.wait_until_back(LONG).expect("its keeper starts it");
        behind.into_iter().for_each(|call| drop(call.wait().expect_err("it ended with its epoch")));
        assert!(node.info().pid != pid && node.info().epoch == epoch, "{:?}", node.info());
        assert_eq!(stream.sync(echo::with(7u64)).expect("the stream goes on"), 7);
        assert_eq!(log.entries(&node), [0u64; 0], "nothing of the old epoch runs");
    }
}

#[test]
fn a_device_that_another_keeper_starts_is_waited_for() {
    let name = format!("again-{}", std::process::id());
    let keep = |mut keeper: hamr::serve::Keeper| std::thread::spawn(move || keeper.run(|_| ()));
    let first = keep(keeper("shm", &options(), &name));
    let node = attach(&format!("at:{name}"), options()).expect("it has no host");
    let data = node.buffer(&[1u64; 1000]).expect("room");
    let pid = node.info().pid;
    stop(&name).expect("it is kept");
    first.join().expect("no panic").expect("asked to end");
    until("the loss is noticed", || !node.is_alive());
    let error = node.wait_until_back(Duration::from_millis(50)).expect_err("it is not started").to_string();
    assert!(error.contains("which kept it, has ended") && error.contains("50ms"), "{error}");
    let second = keep(keeper("shm", &options(), &name));
    node.wait_until_back(LONG).expect("it is there again");
    assert!(node.info().pid != pid && node.info().epoch > 1, "{:?}", node.info());
    let lost = data.read().expect_err("it is in memory that is gone").to_string();
    assert!(lost.contains("the device has other memory than before"), "{lost}");
    data.write(&[2; 1000]).expect("the buffer stays");
    assert_eq!(data.read().expect("readable")[999], 2);
    assert_eq!(node.sync(echo::with(7u64)).expect("runs"), 7);
    drop(node);
    stop(&name).expect("it is kept");
    second.join().expect("no panic").expect("asked to end");
}

#[test]
fn a_device_that_dies_between_two_hosts_is_started_again() {
    let spec = keep("shm", &options());
    let node = attach(&spec, options()).expect("it has no host");
    let pid = node.info().pid;
    drop(node);
    kill_process(Pid::from_raw(pid as i32).expect("a process"), Signal::KILL).expect("a process of ours");
    let mut node = None;
    // Its end may be noticed behind the next host's arrival.
    until("a host has a device", || {
        node = attach(&spec, options()).ok();
        node.is_some()
    });
    let node = node.expect("a device");
    assert_ne!(node.info().pid, pid);
    assert_eq!(node.sync(echo::with(7u64)).expect("runs"), 7);
}

/// A call whose reply is there, which no stream has taken in.
fn answered(node: &Node) -> hamr::Pending<echo<u64>, hamr::SharedStream> {
    let pending = node.shared_stream().expect("free").offload(echo::with(1u64)).expect("sent");
    until("its reply is there", || pending.is_done());
    pending
}

#[test]
fn a_reply_counts_behind_the_end_of_its_device_and_host() {
    for dies in [false, true] {
        let node = attach(&keep("shm", &options()), Options { restart: false, ..options() }).expect("it has no host");
        let pending = answered(&node);
        if dies {
            let pid = Pid::from_raw(node.info().pid as i32).expect("a process");
            kill_process(pid, Signal::KILL).expect("a process of ours");
            until("the loss is noticed", || !node.is_alive());
        }
        drop(node);
        assert_eq!(pending.wait().map_err(|e| e.to_string()), Ok(1), "dies: {dies}");
    }
}

#[test]
fn a_reply_counts_behind_the_keeper_that_followed() {
    let name = format!("follows-{}", std::process::id());
    let keep = |mut keeper: hamr::serve::Keeper| std::thread::spawn(move || keeper.run(|_| ()));
    let first = keep(keeper("shm", &options(), &name));
    let node = attach(&format!("at:{name}"), options()).expect("it has no host");
    let pending = answered(&node);
    stop(&name).expect("it is kept");
    first.join().expect("no panic").expect("asked to end");
    until("the loss is noticed", || !node.is_alive());
    let second = keep(keeper("shm", &options(), &name));
    node.wait_until_back(LONG).expect("it is there again");
    assert_eq!(pending.wait().map_err(|e| e.to_string()), Ok(1));
    drop(node);
    stop(&name).expect("it is kept");
    second.join().expect("no panic").expect("asked to end");
}
