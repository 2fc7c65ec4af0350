//! Two devices with an adapter each, over real sockets of this machine.

mod common;

use common::conformance::conforms;
use common::{SOON, is_gone, open};

use hamr::{CallError, Node};
use hamr_verbs::handlers::{ping_pong, take_all};
use hamr_verbs::host::{Fabric, FabricError, Path, QpPlan, Region, Wire};
use hamr_verbs::wire::Access;
use hamr_verbs::{CqId, QpId};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// A device with its adapter.
struct Side {
    node: Node,
    fabric: Fabric,
    qp: QpId,
    cq: CqId,
    region: Region,
}

fn side(device: &str, wire: &Wire) -> Side {
    let node = open(device, 1 << 20);
    let fabric = Fabric::open_with(&node, wire).expect("an adapter");
    let cq = fabric.completion_queue(100).expect("room");
    let region = fabric.region(64, Access::LOCAL_WRITE).expect("room");
    let qp = fabric.queue_pair(&QpPlan::new(cq)).expect("room");
    Side { node, fabric, qp, cq, region }
}

impl Side {
    fn plays(&self, count: u64, serves: bool) -> u64 {
        self.node.sync(ping_pong::with(self.qp, self.cq, self.region.id(), count, serves)).expect("all come")
    }
}

/// Devices with adapters at two addresses, connected.
fn pair(devices: [&str; 2], addresses: [[u8; 4]; 2], faults: Option<&str>) -> [Side; 2] {
    let [a, b] = [0, 1].map(|at| {
        let (address, faults) = (addresses[at].into(), faults.map(Into::into));
        side(devices[at], &Wire::Udp { address, is_exposed: false, faults })
    });
    connect(&a, &b);
    [a, b]
}

fn connect(a: &Side, b: &Side) {
    // Four programs that poll may have two processors: a shorter time would be over before one of them runs.
    let path = Path::default();
    for (own, other) in [(a, b), (b, a)] {
        let text = other.fabric.endpoint(other.qp).expect("it has a wire").to_string();
        own.fabric.connect_remote(own.qp, &text.parse().expect("an endpoint"), &path).expect("it is open");
    }
}

fn play([a, b]: &[Side; 2], count: u64) {
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| b.plays(count, true));
        assert_eq!(a.plays(count, false), count);
        assert_eq!(serving.join().expect("it ends"), count);
    });
    // The acknowledgement of the last message may be on its way.
    let begin = Instant::now();
    let completed = || [a, b].map(|side| u64::from(side.fabric.completed(side.qp).expect("its own")));
    while completed() != [count; 2] {
        assert!(begin.elapsed() < SOON, "{:?}", completed());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn queue_pairs_conform() {
    conforms("shm", &Wire::udp([127, 92, 0, 4].into()));
}

#[test]
fn two_devices_play_ping_pong_over_packets() {
    play(&pair(["shm", "shm"], [[127, 0, 0, 1], [127, 0, 0, 2]], None), 200);
}

#[test]
fn two_devices_play_ping_pong_over_a_wire_that_loses_packets() {
    play(&pair(["shm", "shm"], [[127, 92, 0, 1], [127, 92, 0, 2]], Some("1,50,50,20,4")), 60);
}

/// H13 of a peer: what waits for it fails, and the connection begins again with the next adapter at its address.
#[test]
fn an_adapter_outlives_its_peer_s() {
    let addresses = [[127, 92, 0, 5], [127, 92, 0, 6]];
    let [mut a, b] = pair(["shm", "shm"], addresses, None);
    let process = b.fabric.process().expect("it runs");
    kill_process(Pid::from_raw(process.cast_signed()).expect("not zero"), Signal::KILL).expect("it runs");
    let begin = Instant::now();
    let call = ping_pong::with(a.qp, a.cq, a.region.id(), 1, false);
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
