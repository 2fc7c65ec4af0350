//! A device, its host and the adapter as processes, for tests.
#![allow(dead_code, reason = "each binary of tests uses a part")]

use hamr::{Image, Node, Options, Runtime};
use hamr_verbs::handlers::send_all;
use hamr_verbs::host::{Fabric, QpPlan, Region};
use hamr_verbs::wire::Access;
use hamr_verbs::{CqId, QpId};
use rustix::process::{Pid, test_kill_process};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

mod conformance;
#[path = "../../examples/stopped_host.rs"]
mod stopped_host;

pub(crate) use conformance::conforms;

/// A wait of a test at most.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"))
}

pub(crate) fn open(device: &str, verbs: u64) -> Node {
    let options = Options { verbs, start_deadline: Duration::from_secs(60), ..Options::default() };
    runtime().open_with(device, Image::find("hamr-verbs-image").expect("an image"), options).expect("a device")
}

/// Runs a test's own program as a host that is stopped (`examples/stopped_host.rs`): `test` is the name of the test, which is
/// called again for that.
pub(crate) fn goes_on_without_its_host(device: &str, test: &str) {
    const ROLE: &str = "HAMR_HCA_TEST_HOST";
    if std::env::var_os(ROLE).is_some() {
        return stopped_host::host(device).expect("all messages are sent");
    }
    let mut command = std::process::Command::new(std::env::current_exe().expect("a program"));
    command.args(["--exact", test, "--nocapture"]).env(ROLE, "1");
    stopped_host::watch(command).expect("it goes on");
}

/// Two queue pairs that are connected, and what they need.
pub(crate) struct Pair {
    pub(crate) fabric: Fabric,
    pub(crate) cq: CqId,
    pub(crate) region: Region,
    pub(crate) a: QpId,
    pub(crate) b: QpId,
}

pub(crate) fn pair(node: &Node) -> Pair {
    let fabric = Fabric::open(node).expect("an adapter");
    let cq = fabric.completion_queue(100).expect("room");
    let region = fabric.region(64, Access::LOCAL_WRITE).expect("room");
    let [a, b] = [0, 1].map(|_| fabric.queue_pair(&QpPlan::new(cq)).expect("room"));
    fabric.connect(a, b).expect("they are not connected");
    Pair { fabric, cq, region, a, b }
}

impl Pair {
    /// As many messages as the adapter says.
    pub(crate) fn sends(&self, node: &Node, count: u64) {
        let before = self.fabric.completed(self.a).expect("its own");
        let call = send_all::with(self.a, self.b, self.cq, self.region.id(), count);
        assert_eq!(node.sync(call).expect("all come"), (0..count).sum::<u64>());
        assert_eq!(u64::from(self.fabric.completed(self.a).expect("its own") - before), count);
    }
}

pub(crate) fn is_gone(process: u32) -> bool {
    let pid = Pid::from_raw(process.cast_signed()).expect("not zero");
    let begin = Instant::now();
    while test_kill_process(pid).is_ok() {
        if begin.elapsed() > SOON {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}
