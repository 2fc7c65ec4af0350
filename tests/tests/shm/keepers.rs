//! Keepers of devices that do not behave: silent, stopped, full, hostile. A host waits for them as long as it
//! was told, and no thread of it waits for another that does.

use hamr::serve::{Keeper, stop, stop_within};
use hamr::{Error, Node, Options};
use hamr_tests::conformance::{options, until};
use hamr_tests::{devices, foreign, processes};
use hamr_tests_kernels::echo;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// What the first bytes of a message are (`host/src/at/protocol.rs`).
const GREETING: &[u8; 8] = b"hamrsrv2";
/// The limit of a caller,
const LIMIT: Duration = Duration::from_millis(100);
/// and when it has returned at the latest, on a loaded machine: far below all limits of the library.
const RETURNED: Duration = Duration::from_secs(2);

fn name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("keepers-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Each user has names of its own.
fn prefix() -> String {
    format!("hamr:{}:", rustix::process::geteuid().as_raw())
}

fn address(name: &str) -> SocketAddrUnix {
    SocketAddrUnix::new_abstract_name(format!("{}{name}", prefix()).as_bytes()).expect("a short name")
}

fn socket() -> OwnedFd {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket")
}

/// Has the name, as any user may.
fn listener(name: &str, backlog: i32) -> OwnedFd {
    let listener = socket();
    until("the name is free", || bind(&listener, &address(name)).is_ok());
    listen(&listener, backlog).expect("listens");
    listener
}

fn attach(name: &str, options: Options) -> Result<Node, Error> {
    devices::runtime().open_with(&format!("at:{name}"), devices::image("shm"), options)
}

/// A keeper on a thread of this process, and whether its end was one without an error.
fn keeping(name: &str) -> std::thread::JoinHandle<bool> {
    let mut keeper: Keeper = devices::keeper("shm", &options(), name);
    std::thread::spawn(move || keeper.run(|_| ()).is_ok())
}

fn silent(name: &str) -> Vec<OwnedFd> {
    let connected = || {
        let socket = socket();
        connect(&socket, &address(name)).expect("it listens");
        socket
    };
    (0..16).map(|_| connected()).collect()
}

#[test]
fn connections_that_say_nothing_keep_no_host_away() {
    let name = name();
    let keeping = keeping(&name);
    let silent = silent(&name);
    std::thread::sleep(Duration::from_millis(300));
    attach(&name, options()).expect("a device");
    stop(&name).expect("it is heard");
    assert!(keeping.join().expect("no panic"));
    drop(silent);
}

#[test]
fn a_stop_that_is_not_heard_is_an_error() {
    let name = name();
    let keeping = keeping(&name);
    let silent = silent(&name);
    // In the crowd its connection may be closed before it has asked: then it is an error.
    let stopped = (0..200).any(|_| stop(&name).is_ok());
    drop(silent);
    assert!(stopped);
    assert!(keeping.join().expect("no panic"));
    bind(socket(), &address(&name)).expect("the name is free");
    // Closed, and not answered.
    let listener = listener(&self::name(), 16);
    let name = rustix::net::getsockname(&listener).expect("bound");
    let name = SocketAddrUnix::try_from(name).expect("of this kind");
    let name = String::from_utf8_lossy(name.abstract_name().expect("abstract")).into_owned();
    let closing = std::thread::spawn(move || drop(rustix::net::accept(&listener).expect("a connection")));
    let error = stop(name.strip_prefix(&prefix()).expect("the prefix")).expect_err("no answer").to_string();
    assert!(error.contains("closed the connection"), "{error}");
    closing.join().expect("no panic");
}

/// Nor does a second one: threads wait for it one after the other, each as long as it was told.
#[test]
fn a_keeper_that_does_not_answer_holds_up_no_other_thread() {
    let name = name();
    let keeping = keeping(&name);
    let node = Arc::new(attach(&name, Options { restart: false, ..options() }).expect("it has no host"));
    assert_eq!(node.sync(echo::with(1u64)).expect("runs"), 1);
    stop(&name).expect("it is there");
    assert!(keeping.join().expect("no panic"));
    let _listener = listener(&name, 16);
    until("the loss is seen", || !node.is_alive());
    // One asks for long, while others are asked.
    let asks = node.clone();
    std::thread::spawn(move || asks.wait_until_back(Duration::from_secs(60)));
    std::thread::sleep(LIMIT);
    type Action = fn(&Node);
    let actions: [(&str, Action); 4] = [
        ("wait_until_back", |node| drop(node.wait_until_back(LIMIT).expect_err("it is not back"))),
        ("sync", |node| drop(node.sync(echo::with(2u64)).expect_err("it is lost"))),
        ("link_capabilities", |node| assert!(node.link_capabilities().doorbell)),
        ("is_alive", |node| assert!(!node.is_alive())),
    ];
    let (tell, told) = mpsc::channel();
    for (what, action) in actions {
        let (node, tell) = (node.clone(), tell.clone());
        std::thread::spawn(move || {
            action(&node);
            tell.send(what).expect("the test waits");
        });
    }
    let mut waiting: Vec<_> = actions.map(|(what, _)| what).into();
    let begin = Instant::now();
    while let Ok(what) = told.recv_timeout(RETURNED.saturating_sub(begin.elapsed())) {
        waiting.retain(|waits| *waits != what);
        if waiting.is_empty() {
            return;
        }
    }
    panic!("not back after {RETURNED:?}: {waiting:?}");
}

/// A pipe that blocks when it is full, an eventfd that does: what a keeper may have made.
#[test]
fn doorbells_that_block_are_refused() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
    use rustix::pipe::{PipeFlags, pipe_with};
    let name = name();
    let listener = listener(&name, 16);
    std::thread::spawn(move || {
        let socket = rustix::net::accept(&listener).expect("a host");
        let len = 64 << 20;
        let memory = memfd_create("keeper", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memory");
        rustix::fs::ftruncate(&memory, len).expect("room");
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).expect("sealed");
        let (notified, _keep) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let (_drain, device) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
        // Full, and from now on it blocks.
        while rustix::io::write(&device, &[0; 4096]).is_ok() {}
        while rustix::io::write(&device, &[0; 1]).is_ok() {}
        rustix::fs::fcntl_setfl(&device, rustix::fs::OFlags::empty()).expect("its own file");
        let me = rustix::process::getpid();
        let process = rustix::process::pidfd_open(me, rustix::process::PidfdFlags::empty()).expect("this process");
        let answer = [&GREETING[..], b"G", &len.to_le_bytes(), b"shm\n"].concat();
        let fds = [memory.as_fd(), notified.as_fd(), device.as_fd(), process.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        sendmsg(&socket, &[std::io::IoSlice::new(&answer)], &mut ancillary, SendFlags::empty()).expect("sent");
        std::thread::sleep(Duration::from_secs(30));
    });
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let opened = attach(&name, Options { start_deadline: Duration::from_secs(5), ..options() });
        let _ = tell.send(opened.map(drop).map_err(|e| e.to_string()));
    });
    let opened = told.recv_timeout(Duration::from_secs(20));
    assert!(matches!(&opened, Ok(Err(why)) if why.contains("sockets")), "{opened:?}");
}

/// Names of sockets have no owner: any user may have it, and accept nobody.
#[test]
fn a_listener_that_accepts_nobody_blocks_no_host() {
    let name = name();
    let _listener = listener(&name, 0);
    let _waiting: Vec<_> = std::iter::repeat_with(|| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket");
        connect(&socket, &address(&name)).map(|()| socket)
    })
    .map_while(Result::ok)
    .collect();
    let begin = Instant::now();
    let error = attach(&name, Options { start_deadline: LIMIT, ..options() }).expect_err("no device").to_string();
    assert!(error.contains("to take a connection within 100ms") && begin.elapsed() < RETURNED, "{error}");
    let error = stop_within(&name, LIMIT).expect_err("it is not heard").to_string();
    assert!(error.contains("to take a connection within 100ms") && begin.elapsed() < 2 * RETURNED, "{error}");
}

// --- a keeper that is stopped ---

const KEEPER: &str = "HAMR_TEST_KEEPER";

/// A keeper in a process of its own, which is killed when this is dropped.
struct Process(Child);

impl Process {
    fn start(name: &str) -> Self {
        let mut child = processes::again("a_keeper")
            .env(KEEPER, name)
            .envs([devices::built("shm")])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts this test again");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "keeps"), "it starts");
        Self(child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
    }

    /// Behind this it does nothing.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("it runs");
        until("it is stopped", || stat().contains(") T "));
    }

    /// Its device's process.
    fn device(&self) -> Pid {
        let children = processes::children(self.0.id());
        children.first().and_then(|pid| Pid::from_raw(*pid as i32)).expect("it has a device")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "only the other tests start it"]
fn a_keeper() {
    let name = std::env::var(KEEPER).expect("another test starts this one");
    let mut keeper = devices::keeper("shm", &options(), &name);
    println!("keeps");
    keeper.run(|_| ()).expect("the device stays");
}

/// The keeper is stopped before each step of a host that waits for it; the host has a limit of 100 ms.
#[test]
fn a_host_of_a_stopped_keeper_returns_within_its_limit() {
    type Step = fn(&Process, &str, Option<Node>);
    let steps: [(&str, Step); 5] = [
        ("open", |_, name, node| {
            assert!(node.is_none());
            let error =
                attach(name, Options { start_deadline: LIMIT, ..options() }).expect_err("no answer").to_string();
            assert!(error.contains("to answer within 100ms"), "{error}");
        }),
        ("restart", |_, _, node| {
            let node = node.expect("a device");
            let error = node.restart().expect_err("no answer").to_string();
            assert!(error.contains("to answer within 100ms"), "{error}");
        }),
        ("wait for another process of the device", |keeper, _, node| {
            let node = node.expect("a device");
            kill_process(keeper.device(), Signal::KILL).expect("it runs");
            until("the loss is seen", || !node.is_alive());
            let begin = Instant::now();
            drop(node.wait_until_back(LIMIT).expect_err("no answer"));
            assert!(begin.elapsed() < RETURNED, "wait_until_back: {:?}", begin.elapsed());
        }),
        ("stop", |_, _, node| node.expect("a device").stop()),
        ("leave", |_, _, node| drop(node)),
    ];
    for (step, act) in steps {
        let name = name();
        let keeper = Process::start(&name);
        let options = Options { start_deadline: Duration::from_secs(20), ..options() };
        let mut node = None;
        if step != "open" {
            // On a loaded machine a handshake takes longer than 100 ms.
            until("it opens", || {
                node = attach(&name, Options { start_deadline: LIMIT, ..options.clone() }).ok();
                node.is_some()
            });
        }
        keeper.stop();
        let begin = Instant::now();
        act(&keeper, &name, node);
        assert!(begin.elapsed() < RETURNED + Duration::from_secs(3), "{step} took {:?}", begin.elapsed());
        keeper.signal(Signal::CONT);
        // Whatever was begun has ended: the keeper serves the next host.
        until("the next host has it", || attach(&name, options.clone()).is_ok());
    }
}

#[test]
fn a_stopped_keeper_is_named_to_who_ends_it() {
    let name = name();
    let keeper = Process::start(&name);
    keeper.stop();
    let begin = Instant::now();
    let error = stop_within(&name, LIMIT).expect_err("no answer").to_string();
    assert!(begin.elapsed() < RETURNED, "{:?}", begin.elapsed());
    assert!(error.contains(&format!("process {}", keeper.0.id())) && error.contains("stopped or busy"), "{error}");
}

// --- other languages ---

/// A program in another language has SIGPIPE as the system gives it.
#[test]
fn the_end_of_a_kept_device_kills_no_program() {
    foreign::succeeds("a_program_with_sigpipe", (KEEPER, ""));
}

#[test]
#[ignore = "run by the_end_of_a_kept_device_kills_no_program"]
fn a_program_with_sigpipe() {
    let name = name();
    let keeping = keeping(&name);
    let node = attach(&name, Options { restart: false, ..options() }).expect("it has no host");
    assert_eq!(node.sync(echo::with(1u64)).expect("runs"), 1);
    foreign::reset(foreign::SIGPIPE);
    stop(&name).expect("it is there");
    assert!(keeping.join().expect("no panic"));
    assert!(node.sync(echo::with(2u64)).is_err());
}

/// A host is gone when its process is, also while a child lives that it has forked.
#[test]
fn a_killed_host_leaves_a_kept_device_while_its_child_lives() {
    let name = name();
    let keeper = Process::start(&name);
    foreign::succeeds("a_killed_host_with_a_child", (KEEPER, &name));
    drop(keeper);
}

/// Nor has a child the device when its host has given it back, and goes on.
#[test]
fn a_host_gives_a_kept_device_back_while_its_child_lives() {
    let name = name();
    let keeper = Process::start(&name);
    foreign::succeeds("a_host_with_a_child", (KEEPER, &name));
    drop(keeper);
}

#[test]
#[ignore = "run by a_host_gives_a_kept_device_back_while_its_child_lives"]
fn a_host_with_a_child() {
    let name = std::env::var(KEEPER).expect("another test starts this one");
    let node = attach(&name, options()).expect("it has no host");
    let child = foreign::forked(|| {
        std::thread::sleep(Duration::from_secs(15));
        0
    });
    drop(node);
    let begin = Instant::now();
    until("it is given back", || attach(&name, options()).is_ok());
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let child = Pid::from_raw(child).expect("a process");
    kill_process(child, Signal::KILL).expect("it lives still");
}

#[test]
#[ignore = "run by a_killed_host_leaves_a_kept_device_while_its_child_lives"]
fn a_killed_host_with_a_child() {
    let name = std::env::var(KEEPER).expect("another test starts this one");
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let host = foreign::forked(|| {
        let node = attach(&name, options()).expect("it has no host");
        assert_eq!(node.sync(echo::with(1u64)).expect("runs"), 1);
        let child = foreign::forked(|| {
            std::thread::sleep(Duration::from_secs(15));
            0
        });
        std::io::Write::write_all(&mut &writer, &child.to_le_bytes()).expect("room");
        kill_process(rustix::process::getpid(), Signal::KILL).expect("it runs");
        0
    });
    assert_eq!(foreign::code_of(host), None, "killed");
    let begin = Instant::now();
    until("the next host has it", || attach(&name, options()).is_ok());
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let mut child = [0; 4];
    std::io::Read::read_exact(&mut reader, &mut child).expect("its child");
    let child = Pid::from_raw(i32::from_le_bytes(child)).expect("a process");
    kill_process(child, Signal::KILL).expect("it lives still");
}
