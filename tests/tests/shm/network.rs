//! A device in one network namespace, and its host in another. The cable between the two is cut and healed, as a switch that
//! starts again or a plug do it: nothing tells either side.

use hamr::tcp::TcpLauncher;
use hamr::{Options, Runtime, serve::Keeper, serve::Listener};
use hamr_tests::devices;
use hamr_tests::far::calls_happen_once;
use hamr_tests::processes::again;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The server's address at its end of the cable.
const SERVER: &str = "10.99.0.2:7777";
/// The file of the key, and how often the cable is cut.
const KEY: &str = "HAMR_TEST_KEY";
const ROUNDS: &str = "HAMR_SOAK_CUTS";
/// Longer than a short cut, and than the pauses after which the system sends again.
const SILENCE: Duration = Duration::from_secs(3);

fn ip(line: &str) {
    let ran = Command::new("ip").args(line.split(' ')).output().expect("iproute2");
    assert!(ran.status.success(), "ip {line}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// This test program again, in a network that has nothing in it.
fn alone(test: &str) -> Command {
    let again = again(test);
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--"]).arg(again.get_program()).args(again.get_args());
    command
}

fn options() -> Options {
    Options {
        heap: 16 << 20,
        silence: SILENCE,
        restart: false,
        deadline: Some(Duration::from_secs(30)),
        ..Options::default()
    }
}

/// A hundred times with `cargo xtask soak cuts`.
#[test]
fn calls_between_two_networks_happen_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    hamr_net::key::make(&key).expect("a key");
    let (name, built) = devices::built("shm");
    let ran = alone("as_a_host").env(KEY, &key).env(name, built).output().expect("util-linux");
    let [out, err] = [&ran.stdout, &ran.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    println!("{out}");
    assert!(ran.status.success(), "{out}\n{err}");
    assert!(out.contains("1 passed"), "{out}");
}

#[test]
#[ignore = "the host of calls_between_two_networks_happen_once"]
fn as_a_host() {
    let mut server = alone("as_a_server").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("util-linux");
    let mut said = BufReader::new(server.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let mut until = |line: &str| assert!(said.any(|said| said == line), "{line}");
    until("in its network");
    ip(&format!("link add cable type veth peer name cable netns {}", server.id()));
    ip("addr add 10.99.0.1/24 dev cable");
    ip("link set cable up");
    let mut to = server.stdin.take().expect("piped");
    writeln!(to, "plugged in").expect("it listens");
    until("serves");
    let key = std::env::var_os(KEY).expect("it is told");
    let mut runtime = Runtime::new().expect("a runtime");
    runtime.register("tcp", TcpLauncher::with_key(key.into()));
    let node = runtime.open_with(&format!("tcp:{SERVER}"), devices::image("shm"), options()).expect("a device");
    let rounds = std::env::var(ROUNDS).map_or(8, |count| count.parse().expect("a number"));
    // Of each four, one is longer than the silence.
    let cut = |round| {
        ip("link set cable down");
        let may_lose = round % 4 == 3;
        if !may_lose {
            std::thread::sleep(Duration::from_millis(50));
            ip("link set cable up");
        }
        may_lose
    };
    calls_happen_once(&node, rounds, cut, || ip("link set cable up"));
    drop((node, to));
    assert!(server.wait().expect("it is a child").success());
}

#[test]
#[ignore = "the server of calls_between_two_networks_happen_once"]
fn as_a_server() {
    // On lines of their own: the runner's name of this test has none.
    println!("\nin its network");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("a host");
    ip("addr add 10.99.0.2/24 dev cable");
    ip("link set cable up");
    let key = std::env::var_os(KEY).expect("it is told");
    let options = options();
    let image = devices::image("shm");
    let mut keeper = Keeper::start(devices::runtime(), "shm", image, &options, "network").expect("a device");
    let at = SERVER.parse().expect("an address");
    let listener = Listener::open(at, Some(Path::new(&key)), options.silence, |line| eprintln!("{line}"));
    keeper.listen(&listener.expect("an address of its own")).expect("a descriptor");
    std::thread::spawn(move || keeper.run(|event| eprintln!("{event}")));
    println!("\nserves");
    // Until the host has gone.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
