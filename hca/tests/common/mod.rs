//! A device, its host and the adapter as processes, for tests.
#![allow(dead_code, reason = "each binary of tests uses a part")]

use hamr::{Image, Node, Options, Runtime};
use hamr_verbs::handlers::{
    Found, Part, Work, next_completion, post_one, send_all, send_waiting, set_up_and_send, take_all, wait_for_one,
};
use hamr_verbs::host::{Fabric, QpPlan, Region};
use hamr_verbs::steps::Queues;
use hamr_verbs::views::{MESSAGE, SLOTS, sum_in_place};
use hamr_verbs::wire::{Access, Opcode};
use hamr_verbs::{CqId, QpId, Remote};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(crate) mod conformance;
#[path = "../../examples/stopped_host.rs"]
mod stopped_host;
pub(crate) mod two;

/// A wait of a test at most.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"))
}

pub(crate) fn open(device: &str, verbs: u64) -> Node {
    open_with(device, Options { verbs, ..Options::default() })
}

pub(crate) fn open_with(device: &str, options: Options) -> Node {
    let options = Options { start_deadline: Duration::from_secs(60), ..options };
    // A program that a test starts again and again is told where it is.
    let image = std::env::var_os(IMAGE).map_or_else(|| Image::find("hamr-verbs-image"), Image::file);
    runtime().open_with(device, image.expect("an image"), options).expect("a device")
}

/// The variable with the image's file.
pub(crate) const IMAGE: &str = "HAMR_HCA_TEST_IMAGE";

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

/// A request of a handler's.
pub(crate) fn work(id: u64, opcode: Opcode, local: Part, remote: Remote) -> Work {
    let (operands, immediate) = ([0; 2], None);
    Work { id, opcode: opcode.0, local, wrong_key: 0, remote, operands, immediate, is_quiet: false }
}

/// The next completion that a handler finds.
pub(crate) fn next_of(node: &Node, cq: CqId) -> Found {
    let begin = Instant::now();
    loop {
        match node.sync(next_completion::with(cq)).expect("no overrun") {
            Some(found) => return found,
            None => assert!(begin.elapsed() < SOON, "no completion came"),
        }
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

/// Stops a process, which does nothing more when this returns.
pub(crate) fn stop(process: u32) {
    kill_process(Pid::from_raw(process.cast_signed()).expect("not zero"), Signal::STOP).expect("it runs");
    let is_stopped = || {
        let text = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it is there");
        text.rsplit(") ").next().is_some_and(|state| state.starts_with('T'))
    };
    let begin = Instant::now();
    while !is_stopped() {
        assert!(begin.elapsed() < SOON, "{process} does not stop");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Times that the system has counted for a process, 10 ms each.
fn ticks(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let fields: Vec<_> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

/// Less than 1 % of a processor over the time of the look, without work and behind it.
pub(crate) fn sleeps_without_work(device: &str) {
    const LOOK: Duration = Duration::from_secs(4);
    let node = open(device, 1 << 20);
    let pair = pair(&node);
    pair.sends(&node, 100);
    let process = pair.fabric.process().expect("it runs");
    // It is asleep some 100 microseconds behind the last message; what it counted until here does not matter.
    std::thread::sleep(Duration::from_millis(500));
    let before = ticks(process);
    std::thread::sleep(LOOK);
    let used = ticks(process) - before;
    assert!(u128::from(used) * 10 * 100 < LOOK.as_millis(), "{used} ticks of 10 ms in {LOOK:?}");
    pair.sends(&node, 100);
}

/// H5, H6: a handler that posts and returns wakes an adapter that sleeps, and one that is about to. Its longest sleep is 100 ms, so
/// a lost notification is seen as time.
pub(crate) fn is_woken_by_a_post(device: &str, posts: u64) {
    let node = open(device, 1 << 20);
    let pair = pair(&node);
    let mut late = 0;
    for number in 0..posts {
        // From none to some milliseconds: in each phase of its rest.
        std::thread::sleep(Duration::from_micros(number % 16 * 40 + number % 7 * 1000));
        let before = pair.fabric.completed(pair.a).expect("its own");
        let begin = Instant::now();
        node.sync(post_one::with(pair.a, pair.b, pair.region.id(), number)).expect("room");
        while pair.fabric.completed(pair.a).expect("its own") == before {
            assert!(begin.elapsed() < SOON, "message {number}");
            std::thread::sleep(Duration::from_micros(100));
        }
        late += u64::from(begin.elapsed() > Duration::from_millis(80));
        assert_eq!(node.sync(take_all::with(pair.cq)).expect("valid"), Some(2));
    }
    // A machine that is busy with something else for so long is rare.
    assert!(late * 10 <= posts, "{late} of {posts} came by the longest sleep");
}

/// A task waits for each completion, while device and adapter sleep in turns; one that waits is found by another's message.
pub(crate) fn waits_for_completions(device: &str, count: u64) {
    let node = open(device, 1 << 20);
    let pair = pair(&node);
    let call = send_waiting::with(pair.a, pair.b, pair.cq, pair.region.id(), count);
    assert_eq!(node.sync(call).expect("all come"), (0..count).sum::<u64>());
    let stream = node.stream().expect("a stream");
    let other = node.stream().expect("a stream");
    for number in 0..20 {
        let waits = stream.offload(wait_for_one::with(pair.cq)).expect("a place");
        std::thread::sleep(Duration::from_millis(number % 3 * 5));
        other.sync(post_one::with(pair.a, pair.b, pair.region.id(), number)).expect("room");
        assert_eq!(waits.wait().expect("it comes"), Some(2 * number));
        while other.sync(take_all::with(pair.cq)).expect("valid") != Some(1) {}
    }
}

/// Figure 4 (b) of paper 002: the device asks its host for what it needs.
pub(crate) fn sets_up_by_itself(device: &str) {
    let node = open(device, 1 << 20);
    let fabric = Fabric::open(&node).expect("an adapter");
    fabric.provide(&node);
    for _ in 0..3 {
        assert_eq!(node.sync(set_up_and_send::with(100)).expect("all come"), 4950);
    }
}

/// Tasks send, receive and compute in parts of one region, beside the adapter that writes other parts of it.
pub(crate) fn computes_in_place(device: &str, count: u64) {
    const TASKS: u64 = 2;
    let node = open(device, 1 << 20);
    let fabric = Fabric::open(&node).expect("an adapter");
    let each = 2 * SLOTS * MESSAGE;
    let region = fabric.region(TASKS * each, Access::LOCAL_WRITE | Access::VIEW).expect("room");
    let calls: Vec<_> = (0..TASKS)
        .map(|task| {
            let [sent, received] = [0, 1].map(|_| fabric.completion_queue(64).expect("room"));
            let plan = QpPlan { receive_cq: received, ..QpPlan::new(sent) };
            let [from, to] = [0, 1].map(|_| fabric.queue_pair(&plan).expect("room"));
            fabric.connect(from, to).expect("they are not connected");
            let on = Queues { from, to, srq: None, sent, received, region: region.id() };
            node.offload(sum_in_place::with(on, task * each, count)).expect("a place")
        })
        .collect();
    let values = MESSAGE / 8;
    let expected = (0..count).map(|number| values * number * 0x1_0001 + values * (values - 1) / 2).sum::<u64>();
    for call in calls {
        assert_eq!(call.wait().expect("all come"), expected);
    }
}
