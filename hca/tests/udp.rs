//! Two devices with an adapter each, over real sockets of this machine: of UDP, and with frames.

mod common;

use common::conformance::conforms;
use common::two::{connect, pair, play, side, udp};
use common::{SOON, is_gone, open};
use hamr::CallError;
use hamr_verbs::handlers::take_all;
use hamr_verbs::host::{Fabric, FabricError, Path, Wire};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

#[test]
fn queue_pairs_conform() {
    conforms("shm", &Wire::udp([127, 92, 0, 4].into()));
}

#[test]
fn two_devices_play_ping_pong_over_packets() {
    play(&pair(["shm", "shm"], &udp([[127, 0, 0, 1], [127, 0, 0, 2]], None)), 200);
}

#[test]
fn two_devices_play_ping_pong_over_a_wire_that_loses_packets() {
    play(&pair(["shm", "shm"], &udp([[127, 92, 0, 1], [127, 92, 0, 2]], Some("1,50,50,20,4"))), 60);
}

/// Each socket is the other one's cable, as a guest's is (`cargo xtask guest --rdma`).
#[test]
fn two_devices_play_ping_pong_in_frames() {
    let folder = std::env::temp_dir().join(format!("hamr-frames-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let wires = [("a", "b", 1), ("b", "a", 2)].map(|(socket, other, last)| Wire::Ethernet {
        socket: folder.join(socket),
        other: folder.join(other),
        mac: [0x52, 0x54, 0, 0, 0, last],
        address: [10, 0, 0, last].into(),
        faults: Some("1,20,20,20,4".into()),
    });
    play(&pair(["shm", "shm"], &wires), 100);
    let _ = std::fs::remove_dir_all(&folder);
}

/// H13 of a peer: what waits for it fails, and the connection begins again with the next adapter at its address.
#[test]
fn an_adapter_outlives_its_peer_s() {
    let addresses = [[127, 92, 0, 5], [127, 92, 0, 6]];
    let [mut a, b] = pair(["shm", "shm"], &udp(addresses, None));
    let process = b.fabric.process().expect("it runs");
    kill_process(Pid::from_raw(process.cast_signed()).expect("not zero"), Signal::KILL).expect("it runs");
    let begin = Instant::now();
    let call = ping_pong::with(a.load(1, 8), false, None);
    match a.node.sync(call) {
        Err(CallError::Fault(fault)) => assert!(fault.to_string().contains("a request has failed"), "{fault}"),
        other => panic!("{other:?}"),
    }
    // Eight times 67 ms.
    assert!(begin.elapsed() > Duration::from_millis(500), "{:?}", begin.elapsed());
    assert!(is_gone(process));
    drop(b);
    // The other requests are flushed: one to receive.
    let begin = Instant::now();
    while a.node.sync(take_all::with(a.cq)).expect("valid") == Some(0) {
        assert!(begin.elapsed() < SOON);
    }
    let b = side("shm", &Wire::udp(addresses[1].into()));
    a.qp = a.fabric.reset(a.qp).expect("there");
    connect(&a, &b);
    play(&[a, b], 20);
}

#[test]
fn what_no_wire_allows_is_refused() {
    let own = side("shm", &Wire::Own);
    assert!(matches!(own.fabric.endpoint(own.qp), Err(FabricError::NoWire)));
    let wire = Wire::udp([127, 92, 0, 3].into());
    let other = side("shm", &wire);
    let endpoint = other.fabric.endpoint(other.qp).expect("it has a wire");
    let path = Path::default();
    assert!(matches!(own.fabric.connect_remote(own.qp, &endpoint, &path), Err(FabricError::NoWire)));
    assert!(matches!(other.fabric.connect_remote(own.qp, &endpoint, &path), Err(FabricError::Foreign)));
    for path in [
        Path { mtu: 1000, ..path },
        Path { mtu: 8192, ..path },
        Path { timeout: 32, ..path },
        Path { retry: 8, ..path },
    ] {
        let refused = other.fabric.connect_remote(other.qp, &endpoint, &path);
        assert!(matches!(refused, Err(FabricError::Refused(_))), "{path:?}: {refused:?}");
    }
    // It may be connected with itself, over the wire; once.
    other.fabric.connect_remote(other.qp, &endpoint, &path).expect("it is open");
    let again = other.fabric.connect_remote(other.qp, &endpoint, &path);
    assert!(matches!(again, Err(FabricError::Refused(_))), "{again:?}");
    let again = other.fabric.connect(other.qp, other.qp);
    assert!(matches!(again, Err(FabricError::Refused(_))), "{again:?}");
    // Its address is taken, and one of other machines is not given by mistake.
    for wire in [wire, Wire::udp([192, 0, 2, 1].into())] {
        assert!(Fabric::open_with(&open("shm", 1 << 20), &wire).is_err());
    }
}
