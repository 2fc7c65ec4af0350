//! `hamr-hca serve`, `ping` and `perf` as people start them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

/// A child that does not outlive its user.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(text: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hamr-hca"));
    command.args(text.split_whitespace());
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

/// It ends in the middle of the exchange; the next one is served.
#[test]
fn a_server_outlives_a_client_that_ends() {
    let (_server, mut output, port) = serves("serve --udp 127.94.0.5 --port 0");
    let ping = |address: u8, count| format!("ping 127.94.0.5 --udp 127.94.0.{address} --port {port} --count {count}");
    let mut first = Started(command(&ping(6, 10_000_000)).spawn().expect("it starts"));
    std::thread::sleep(std::time::Duration::from_secs(2));
    first.0.kill().expect("it runs");
    let second = run(&ping(7, 20));
    assert!(second.status.success(), "{second:?}");
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "127.94.0.7: 20 messages there and back\n");
}
