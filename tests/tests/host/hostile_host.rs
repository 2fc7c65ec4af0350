//! A device that breaks every rule in its host queues: each message gets one reply, and the host goes
//! on (abi §5.5, §12).

use hamr::link::{Link, Loopback};
use hamr::{Node, Options, Runtime};
use hamr_comm::abi::ids::{Epoch, HandlerKey};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::table::TableRecord;
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::am::{Requester, Slots};
use hamr_comm::registry::Table;
use hamr_comm::{Handler, relay};
use hamr_tests::conformance::{Random, options, until};
use hamr_tests_kernels::echo;
use hamr_tests_kernels::host_calls::{Counter, ask_echo, count_up};
use std::time::{Duration, Instant};

struct Bench {
    window: Window<Shared>,
    layout: Layout,
    plan: Plan,
    node: Node,
}

fn bench() -> Bench {
    let options = Options { relay: true, ..options() };
    let Options { streams, ring, tickets, chunk, heap, .. } = options;
    let plan = Plan { streams: streams.unwrap_or(8), ring, tickets, chunk, heap, ..Plan::default() };
    // As the host plans it.
    let relay = (2 * size_of::<TableRecord>() + relay::NAME.len() + relay::NEXT_NODE.len()) as u64;
    let plan = Plan { host_table: Table::of_host_handlers().wire_len() + relay, ..plan };
    let layout = Layout::plan(&plan).expect("allowed");
    let link = Loopback::new(layout.heap(), Table::of_this_image());
    let window = link.window().part(0, layout.heap().start).expect("all of it");
    let node = Runtime::new().expect("a runtime").attach("hostile", Box::new(link), options).expect("attaches");
    node.provide(Counter::default());
    Bench { window, layout, plan, node }
}

impl Bench {
    /// The device's end of a host queue.
    fn requester(&self, queue: u32) -> Requester<hamr_comm::abi::window::Queue<Shared>> {
        let descriptor = self.layout.planned_tasks(&self.plan).expect("planned").queue(queue);
        Requester::new(self.window.queue(&descriptor).expect("in the window"), Epoch::FIRST)
    }

    /// The host serves other calls as before.
    fn is_well(&self) {
        assert_eq!(self.node.sync(echo::with(5u64)).expect("served"), 5);
        assert_eq!(self.node.sync(ask_echo::with(6u8)).expect("served"), 6);
    }
}

/// Any header and payload in slots with the right word.
#[test]
fn every_forged_message_gets_one_reply() {
    let bench = bench();
    let mut random = Random(0x5eed);
    // The task of the last place has a queue of its own, which no task of this test uses.
    for queue in [0, bench.plan.tasks] {
        let mut requester = bench.requester(queue);
        for n in 0..3000u32 {
            let mut words = [0u64; INLINE_WORDS].map(|_| random.number());
            let mut hdr = random.number() as u32;
            if n % 2 == 0 {
                // A key that exists and no reserved bit: deeper into the host.
                hdr = hdr & !(ReqHdr::RESERVED | 0xFFFF) | random.below(24) as u32;
                words[1] = random.below(2048);
            }
            // CANCEL is set later, never in what is published; a panic of a body is expected.
            let hdr = ReqHdr(hdr & !ReqHdr::CANCEL);
            let (mut at, hot) = (0, n % 3 == 0 && requester.hot_is_open());
            if hot {
                requester.submit_hot(hdr, &words);
            } else {
                at = requester.submit_ring(hdr, &words);
            }
            let begin = Instant::now();
            let reply = loop {
                let reply = if hot { requester.hot_reply() } else { requester.ring_reply(at) };
                if let Some(reply) = reply {
                    break reply;
                }
                assert!(begin.elapsed() < Duration::from_secs(20), "no reply to {hdr:?} {words:x?}");
            };
            check(reply, hdr);
            if hot { requester.release_hot() } else { requester.release_oldest() }
        }
        bench.is_well();
    }
}

/// Messages to the handler that passes calls on, with any device, handler, types and number of buffers:
/// the host neither reads behind the message nor makes room for what is not in it.
#[test]
fn forged_relays_end_at_once() {
    let bench = bench();
    let mut random = Random(0x7e1a);
    let mut requester = bench.requester(bench.plan.tasks);
    let (here, before, mut ran) = (u64::from(bench.node.info().node), peak(), 0);
    for n in 0..1500u64 {
        let mut any = |known: u64| if random.below(4) == 0 { random.number() } else { known };
        let buffers = any([0, 0, 1, 2, u64::from(u32::MAX)][n as usize % 5]);
        let words = [any(here) | buffers << 32, any(0), any(echo::<u64>::ID), any(echo::<u64>::SIGNATURE), any(n), n];
        // One of them is that handler.
        let key = HandlerKey(random.below(2 + Table::of_host_handlers().len() as u64) as u16);
        let len = [40, 40, 40, 31, 48][random.below(5) as usize];
        let at = requester.submit_ring(ReqHdr::inline(key, len), &words);
        let begin = Instant::now();
        let reply = loop {
            if let Some(reply) = requester.ring_reply(at) {
                break reply;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "no reply to {words:x?}");
        };
        check(reply, ReqHdr::inline(key, len));
        ran += u32::from(reply.status() == Status::OK && reply.len() == 8);
        requester.release_oldest();
    }
    assert!(ran > 0, "none was passed on");
    // Room for as many buffers as a message may name would be 100 GiB.
    assert!(peak() - before < 8 << 30, "{} bytes more", peak() - before);
    bench.is_well();
}

/// The most address space that this process had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).expect("it says so");
    1024 * line.trim_end_matches("kB").trim().parse::<u64>().expect("a number")
}

/// A reply keeps abi §4.3.
fn check(reply: RepHdr, request: ReqHdr) {
    assert!(!reply.has(RepHdr::RESERVED | RepHdr::TAKEN | RepHdr::AM_REPLY) && reply.len() <= 48, "{reply:?}");
    let refused = request.has(ReqHdr::TICKET) || request.has(ReqHdr::REPLY_BUF) || request.has(ReqHdr::RESERVED);
    assert!(!refused || reply.status() == Status::BAD_REQUEST, "{request:?}: {reply:?}");
}

/// Random bytes over all slots of the host queues, whatever the host is doing there.
#[test]
fn random_bytes_hang_nothing() {
    let bench = bench();
    let mut random = Random(0xbad);
    let queues: Vec<_> = (0..=bench.plan.tasks).map(|queue| bench.requester(queue)).collect();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        let requester = &queues[random.below(queues.len() as u64) as usize];
        let slot = requester.slots().ring(random.number() as u32);
        hamr_comm::am::SlotAccess::write_request(slot, &[0; INLINE_WORDS].map(|_| random.number()));
        // The tag of the epoch in one of two, and a small count.
        let seq = if random.below(2) == 0 { random.number() as u32 } else { 1 << 24 | random.below(4) as u32 };
        hamr_comm::am::SlotAccess::publish_request(slot, random.number() as u32, seq);
    }
    // The host may be out of step with a device that broke the rules; another epoch ends that.
    assert_eq!(bench.node.sync(echo::with(5u64)).expect("inline calls are served"), 5);
    bench.node.restart().expect("starts again");
    bench.is_well();
    assert_eq!(bench.node.sync(count_up::with(100)).expect("counts"), 100);
    until("nothing is left", || bench.node.local().expect("open").outstanding() == 0);
}
