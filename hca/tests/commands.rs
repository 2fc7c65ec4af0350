//! `hamr-hca serve`, `ping` and `perf` as people start them.

use hamr::{Image, Runtime};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

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

/// What a client says that no device is behind: it is answered, or not, and goes.
fn says(from: [u8; 4], port: &str, step: &str) -> String {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
    bind(&socket, &SocketAddrV4::new(from.into(), 0)).expect("an address of this machine");
    let to = SocketAddrV4::new([127, 94, 0, 5].into(), port.parse().expect("a port"));
    connect(&socket, &to).expect("it serves");
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    stream.write_all(step.as_bytes()).expect("it is open");
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
    let step = |endpoint: &str, count: &str| format!("{endpoint}\0{count:0>8}\0");
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
