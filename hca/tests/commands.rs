//! `hamr-hca serve`, `ping` and `perf` as people start them.

use hamr::{Image, Runtime};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A child that does not outlive its user.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Built before: a program that is ended must not leave cargo.
fn image() -> &'static PathBuf {
    static IMAGE: OnceLock<PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let target = Runtime::new().expect("a runtime").target("shm").expect("a device").expect("an image's target");
        Image::find("hamr-verbs-image").expect("an image").resolve(&target).expect("it builds").path
    })
}

fn command(text: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hamr-hca"));
    command.args(text.split_whitespace()).env("HAMR_IMAGE", image());
    command
}

fn run(text: &str) -> Output {
    command(text).output().expect("it starts")
}

/// In one line, with exit code 2.
fn is_refused(text: &str, says: &str) {
    let Output { status, stdout, stderr } = run(text);
    let why = String::from_utf8(stderr).expect("text");
    assert_eq!((status.code(), stdout.is_empty(), why.lines().count()), (Some(2), true, 1), "{text}: {why}");
    assert!(why.starts_with("hamr-hca: ") && why.contains(says), "{text}: {why}");
}

#[test]
fn wrong_input_is_refused() {
    is_refused("pong", "no command is named `pong`");
    is_refused("ping 127.94.0.1 --udp 127.94.0.2 --count x", "--count");
    is_refused("ping 127.94.0.1 --udp 127.94.0.2 --port 1", "expected `hamr-hca serve` there");
    is_refused("serve --udp 192.0.2.1", "--expose");
    is_refused("serve --udp 192.0.2.1 --expose", "cannot listen");
    is_refused("perf --launches 0", "--launches");
}

/// Bytes that are no text, and a standard output that takes nothing.
#[test]
fn a_tool_ends_without_a_panic() {
    let no_text = std::ffi::OsStr::from_bytes(b"\xFF");
    for first in ["--udp", "--ethernet", "ping", ""] {
        let arguments = [first.as_ref(), no_text].into_iter().filter(|argument| !argument.is_empty());
        let Output { status, stderr, .. } = command("").args(arguments).output().expect("it starts");
        let why = String::from_utf8_lossy(&stderr);
        assert_eq!((status.code(), why.lines().count()), (Some(2), 1), "{first}: {why}");
    }
    let (reader, closed) = std::io::pipe().expect("a pipe");
    drop(reader);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a device of Linux");
    for (output, code, lines) in [(Stdio::from(closed), 0, 0), (Stdio::from(full), 2, 1)] {
        let Output { status, stderr, .. } = command("--help").stdout(output).output().expect("it starts");
        let why = String::from_utf8_lossy(&stderr);
        assert_eq!((status.code(), why.lines().count()), (Some(code), lines), "{why}");
    }
    is_refused("ping 127.94.0.1 --udp 0.0.0.0 --expose", "--udp: expected one address");
    let _held = std::net::UdpSocket::bind("127.94.1.5:4791").expect("nobody has it");
    is_refused("serve --udp 127.94.1.5 --port 0", "cannot use 127.94.1.5:4791: Address already in use");
    is_refused("ping 224.0.0.1 --udp 127.94.0.2", "PEER: expected one address");
}

fn serves(arguments: &str) -> (Started, BufReader<std::process::ChildStdout>, String) {
    let mut child = Started(command(arguments).stdout(Stdio::piped()).spawn().expect("it starts"));
    let mut output = BufReader::new(child.0.stdout.take().expect("its output"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    let port = line.trim().strip_prefix("serves at ").and_then(|at| at.rsplit_once(':')).expect("where it serves").1;
    let port = port.to_owned();
    (child, output, port)
}

#[test]
fn a_ping_goes_there_and_back() {
    let (mut server, mut output, port) = serves("serve --udp 127.94.0.3 --port 0 --once");
    let ping = run(&format!("ping 127.94.0.3 --udp 127.94.0.4 --port {port} --count 100"));
    let said = String::from_utf8_lossy(&ping.stdout).into_owned();
    assert!(ping.status.success(), "{ping:?}");
    assert!(said.starts_with("100 messages of 8 bytes to 127.94.0.3 and back: "), "{said}");
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "127.94.0.4: 100 messages there and back\n");
    assert!(server.0.wait().expect("it ends").success());
}

/// A connection to a server from an address, that says something.
fn said(from: [u8; 4], at: [u8; 4], port: &str, text: &str) -> TcpStream {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
    bind(&socket, &SocketAddrV4::new(from.into(), 0)).expect("an address of this machine");
    let to = SocketAddrV4::new(at.into(), port.parse().expect("a port"));
    connect(&socket, &to).expect("it serves");
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    stream.write_all(text.as_bytes()).expect("it is open");
    stream
}

/// What a client says of a queue pair.
fn step(endpoint: &str, count: &str) -> String {
    format!("{endpoint}\0{count:0>8}\0")
}

/// What a client says that no device is behind: it is answered, or not, and goes.
fn says(from: [u8; 4], port: &str, step: &str) -> String {
    let mut stream = said(from, [127, 94, 0, 5], port, step);
    let mut answer = vec![0; step.len()];
    let read = stream.read(&mut answer).expect("an answer, or the end");
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

/// Wrong ones are not answered; one goes in the middle of an exchange. The next one is served.
#[test]
fn a_server_outlives_its_clients() {
    let (_server, mut output, port) = serves("serve --udp 127.94.0.5 --port 0");
    let (from, own) = ([127, 94, 0, 6], "0000:001234:5e5383:00000000000000000000ffff7f5e0006");
    let other = own.replace("0006", "0007");
    let wrongs =
        [step(&own.replace(':', ";"), "1"), step(own, "0"), step(own, "10000001"), step(own, "x"), step(&other, "1")];
    for wrong in &wrongs {
        assert_eq!(says(from, &port, wrong), "", "{wrong}");
    }
    assert!(says(from, &port, &step(own, "1000")).starts_with("0000:"));
    let second = run(&format!("ping 127.94.0.5 --udp 127.94.0.7 --port {port} --count 20"));
    assert!(second.status.success(), "{second:?}");
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "127.94.0.7: 20 messages there and back\n");
}

/// One that says a byte now and then, one that promises much and does nothing, behind one that has done much; and nobody reads what
/// the server says.
#[test]
fn a_server_is_not_kept() {
    let (_server, output, port) = serves("serve --udp 127.94.1.1 --port 0");
    drop(output);
    let at = [127, 94, 1, 1];
    let much = run(&format!("ping 127.94.1.1 --udp 127.94.1.8 --port {port} --count 2000"));
    assert!(much.status.success(), "{much:?}");
    let mut slow = said([127, 94, 1, 2], at, &port, "0");
    let own = "0000:001234:5e5383:00000000000000000000ffff7f5e0103";
    let _promises = said([127, 94, 1, 3], at, &port, &step(own, "10000000"));
    let begin = Instant::now();
    while slow.write_all(b"0").is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(60), "a line that never ends is waited for");
        std::thread::sleep(Duration::from_millis(700));
    }
    for _ in 0..2 {
        let mut ping = command(&format!("ping 127.94.1.1 --udp 127.94.1.4 --port {port} --count 5"));
        let ping = ping.output().expect("it starts");
        // It may be late itself, behind the other.
        let why = String::from_utf8_lossy(&ping.stderr);
        assert!(ping.status.success() || why.contains("serves another is late"), "{ping:?}");
        if ping.status.success() {
            return;
        }
    }
    panic!("no peer is served behind {:?}", begin.elapsed());
}

/// It can serve nobody any more.
#[test]
fn a_server_ends_with_its_adapter() {
    let (mut server, _output, port) = serves("serve --udp 127.94.1.6 --port 0");
    let is_adapter = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        stat.contains("(hamr-hca)") && parent == Some(server.0.id())
    };
    let names = std::fs::read_dir("/proc").expect("of Linux").flatten().map(|entry| entry.file_name());
    let mut processes = names.filter_map(|name| name.to_str()?.parse().ok());
    let adapter = processes.find(is_adapter).expect("it has one");
    kill_process(Pid::from_raw(adapter.cast_signed()).expect("not zero"), Signal::KILL).expect("it runs");
    let begin = Instant::now();
    // As soon as somebody wants to be served.
    while server.0.try_wait().expect("its own").is_none() {
        let ping = run(&format!("ping 127.94.1.6 --udp 127.94.1.7 --port {port} --count 1"));
        assert_eq!(ping.status.code(), Some(2), "{ping:?}");
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
    assert_eq!(server.0.wait().expect("its own").code(), Some(2));
}
