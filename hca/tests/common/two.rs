//! Two devices with an adapter each, which talk over packets.

use super::{SOON, open};
use hamr::Node;
use hamr_verbs::host::{Fabric, Path, QpPlan, Region, Wire};
use hamr_verbs::tools::{Load, ping_pong};
use hamr_verbs::wire::Access;
use hamr_verbs::{CqId, QpId};
use std::time::{Duration, Instant};

/// A device with its adapter.
pub(crate) struct Side {
    pub(crate) node: Node,
    pub(crate) fabric: Fabric,
    pub(crate) qp: QpId,
    pub(crate) cq: CqId,
    pub(crate) region: Region,
}

pub(crate) fn side(device: &str, wire: &Wire) -> Side {
    attach(open(device, 1 << 20), wire)
}

pub(crate) fn attach(node: Node, wire: &Wire) -> Side {
    let fabric = Fabric::open_with(&node, wire).expect("an adapter");
    let cq = fabric.completion_queue(100).expect("room");
    let region = fabric.region(64, Access::LOCAL_WRITE).expect("room");
    let qp = fabric.queue_pair(&QpPlan::new(cq)).expect("room");
    Side { node, fabric, qp, cq, region }
}

impl Side {
    /// Messages of a handler's, over connected queue pairs.
    pub(crate) fn load(&self, count: u64, bytes: u32) -> Load {
        Load { qp: self.qp, cq: self.cq, region: self.region.id(), count, bytes }
    }

    fn plays(&self, count: u64, serves: bool) -> u64 {
        self.node.sync(ping_pong::with(self.load(count, 8), serves, None)).expect("all come").0
    }
}

/// Wires at two addresses.
pub(crate) fn udp(addresses: [[u8; 4]; 2], faults: Option<&str>) -> [Wire; 2] {
    addresses.map(|address| Wire::Udp { address: address.into(), is_exposed: false, faults: faults.map(Into::into) })
}

/// Devices with adapters, connected.
pub(crate) fn pair(devices: [&str; 2], wires: &[Wire; 2]) -> [Side; 2] {
    let [a, b] = [0, 1].map(|at| side(devices[at], &wires[at]));
    connect(&a, &b);
    [a, b]
}

pub(crate) fn connect(a: &Side, b: &Side) {
    // Four programs that poll may have two processors: a shorter time would be over before one of them runs.
    let path = Path::default();
    for (own, other) in [(a, b), (b, a)] {
        let text = other.fabric.endpoint(other.qp).expect("it has a wire").to_string();
        own.fabric.connect_remote(own.qp, &text.parse().expect("an endpoint"), &path).expect("it is open");
    }
}

pub(crate) fn play([a, b]: &[Side; 2], count: u64) {
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
