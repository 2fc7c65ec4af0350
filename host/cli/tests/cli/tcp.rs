//! `hamr serve --listen`: a device for commands that reach it across a network, here this machine's own.

use super::{json as parsed, refused};
use crate::common::{Run, Running, hamr, image, signal, spawn, spawn_with, until};
use serde_json::json;
use std::net::{TcpListener, TcpStream};
use tempfile::TempDir;

/// A port that nothing listens at.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is one");
    listener.local_addr().expect("an address").port()
}

/// A server at an address, and what its hosts need.
struct Place {
    folder: TempDir,
    name: String,
    at: String,
}

impl Place {
    fn new() -> Self {
        let at = format!("127.0.0.1:{}", port());
        let name = format!("far-{}", at.replace([':', '.'], "-"));
        let place = Self { folder: tempfile::tempdir().expect("a folder"), name, at };
        assert_eq!(hamr(&["keys", &place.key()]).code, Some(0));
        place
    }

    fn key(&self) -> String {
        self.folder.path().join("key").display().to_string()
    }

    /// Starts the server; it has printed two lines.
    fn serve(&self) -> Running {
        self.serve_hosts(1)
    }

    /// With so many devices; it has printed a line for each, and one.
    fn serve_hosts(&self, hosts: usize) -> Running {
        let (key, number) = (self.key(), hosts.to_string());
        let mut served =
            spawn(&["serve", &self.name, "--hosts", &number, "--listen", &self.at, "--key", &key, "--json"]);
        served.hear(hosts + 1);
        served
    }

    /// A command on its device, and its arguments.
    fn command(&self, arguments: &[&str]) -> Running {
        let (tcp, key, demo) = (format!("tcp:{}", self.at), self.key(), image().display().to_string());
        spawn(&[arguments, &["--device", &tcp, "--key", &key, "--image", &demo]].concat())
    }

    fn run(&self, arguments: &[&str]) -> Run {
        self.command(arguments).wait()
    }

    fn calls(&self) {
        let call = self.run(&["call", "axpy", "2", "[1, 2]", "[10, 20]"]);
        assert!(call.code == Some(0) && call.stdout.ends_with("y = [12.0, 24.0]\n"), "{call:?}");
    }

    fn stop(&self, served: Running) {
        assert_eq!(hamr(&["serve", &self.name, "--stop"]).code, Some(0));
        served.wait().left_nothing();
    }
}

#[test]
fn a_device_serves_hosts_across_a_network() {
    let place = Place::new();
    let mut served = place.serve();
    for epoch in 1..4 {
        let device = parsed(&place.run(&["devices", "--json"]));
        let device = &device["device"];
        assert_eq!(
            (&device["epoch"], &device["link"], &device["protocol"]),
            (&json!(epoch), &json!("tcp-shm"), &json!("message"))
        );
        assert_eq!(device["remote"], place.at);
        assert!(device["round_trip_us"].as_f64().is_some_and(|us| us > 1.0 && us < 1e6), "{device}");
    }
    let people = place.run(&["devices"]).stdout;
    let protocol = people.lines().find(|line| line.trim_start().starts_with("protocol")).expect("a row");
    assert!(protocol.contains(&format!("message, to {}, there and back in ", place.at)), "{protocol}");
    place.calls();
    // A host in this machine has it in turn.
    let near = format!("at:{}", place.name);
    let demo = image().display().to_string();
    let call = hamr(&["call", "axpy", "2", "[1, 2]", "[10, 20]", "--device", &near, "--image", &demo]);
    assert!(call.code == Some(0) && call.stdout.ends_with("y = [12.0, 24.0]\n"), "{call:?}");
    let follower = place.command(&["logs", "--follow"]);
    served.hear(2 + 2 * 6 + 1);
    refused(&place.run(&["devices"]), &[&place.at, "a second one is refused"]);
    refused(&hamr(&["devices", "--device", &near]), &["a second one is refused"]);
    drop(follower.kill());
    place.stop(served);
    refused(&place.run(&["devices"]), &[&place.at, "expected a server, the connection was refused"]);
}

/// The end of one is no other's, and a place that is free again is given away again.
#[test]
fn several_hosts_have_a_device_each() {
    let place = Place::new();
    let mut served = place.serve_hosts(2);
    let first = place.command(&["logs", "--follow"]);
    let said = served.hear(3 + 1);
    assert!(said.ends_with(&format!("\"name\":\"{}\"}}\n", place.name)), "{said}");
    place.calls();
    let second = place.command(&["logs", "--follow"]);
    let said = served.hear(4 + 2 + 1);
    assert!(said.ends_with(&format!("\"name\":\"{}-2\"}}\n", place.name)), "{said}");
    refused(&place.run(&["devices"]), &[&place.at, "a second one is refused"]);
    drop(first.kill());
    // Refused, and left.
    served.hear(7 + 2);
    let near = format!("at:{}", place.name);
    let demo = image().display().to_string();
    let call = hamr(&["call", "axpy", "2", "[1, 2]", "[10, 20]", "--device", &near, "--image", &demo]);
    assert_eq!(call.code, Some(0), "{call:?}");
    refused(&hamr(&["devices", "--device", &format!("{near}-2")]), &["a second one is refused"]);
    place.calls();
    drop(second.kill());
    place.stop(served);
}

/// What shows a device shows one at the other end of a connection, as far as there is something to see.
#[test]
fn logs_and_windows_of_a_far_device() {
    let place = Place::new();
    let served = place.serve();
    let logs = place.run(&["logs"]);
    assert!(logs.code == Some(0) && logs.stdout.contains("image starts as process"), "{logs:?}");
    let follower = place.command(&["logs", "--follow"]);
    let (id, window) = (follower.id(), format!("tcp-shm:{}", place.at));
    let row = until("its window is there", || {
        let rows = parsed(&hamr(&["top", "--json"]));
        rows.as_array().expect("rows").iter().find(|row| row["name"] == window && row["state"] == "serving").cloned()
    });
    assert_eq!((row["host"].as_u64(), row["faults"].as_u64()), (Some(id.into()), Some(0)), "{row}");
    let inspected = hamr(&["inspect", &id.to_string(), "--image", &image().display().to_string()]);
    assert!(inspected.code == Some(0) && !inspected.stdout.contains("problem"), "{inspected:?}");
    let listed = hamr(&["inspect"]).stdout;
    assert!(listed.contains(&window) || inspected.stdout.contains(&window), "{listed}");
    drop(follower.kill());
    refused(
        &place.run(&["debug", "axpy", "2", "[1, 2]", "[10, 20]"]),
        &["expected a device that a debugger can hold", &place.at],
    );
    place.stop(served);
}

#[test]
fn a_wrong_key_and_no_key_are_refused() {
    let place = Place::new();
    let served = place.serve();
    let other = place.folder.path().join("other").display().to_string();
    assert_eq!(hamr(&["keys", &other]).code, Some(0));
    let tcp = format!("tcp:{}", place.at);
    refused(&hamr(&["devices", "--device", &tcp, "--key", &other]), &["expected the server's key", &place.at]);
    let none = place.folder.path().join("none").display().to_string();
    refused(&hamr(&["devices", "--device", &tcp, "--key", &none]), &[&none, "expected a key file"]);
    place.calls();
    place.stop(served);
}

#[test]
fn what_is_no_host_disturbs_none() {
    let place = Place::new();
    let served = place.serve();
    let mut silent: Vec<_> = (0..200).filter_map(|_| TcpStream::connect(&place.at).ok()).collect();
    for (n, stream) in silent.iter_mut().enumerate() {
        // Some say something that is none of TLS.
        let _ = if n % 2 == 0 { std::io::Write::write(stream, b"GET / HTTP/1.1\r\n\r\n") } else { Ok(0) };
    }
    place.calls();
    drop(silent);
    place.calls();
    place.stop(served);
}

/// What a server leaves for hosts of its user goes with it, whatever ends it.
#[test]
fn a_key_goes_with_its_server() {
    let runtime = tempfile::tempdir().expect("a folder");
    let keys = || std::fs::read_dir(runtime.path().join("hamr")).map_or(0, |all| all.flatten().count());
    let environment = [("XDG_RUNTIME_DIR", runtime.path().to_str().expect("text"))];
    for how in ["INT", "TERM", "HUP"] {
        let mut served = spawn_with(&["serve", "--listen", "127.0.0.1:0", "--json"], &environment);
        served.hear(2);
        assert_eq!(keys(), 1);
        signal(served.id(), how);
        let served = served.wait();
        assert_eq!((served.code, served.stderr.as_str(), keys()), (None, "", 0), "SIG{how}: {served:?}");
        served.left_nothing();
    }
}
