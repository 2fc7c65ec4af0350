//! Views of registered memory, on a device beside an adapter.

mod common;

use common::{SOON, is_gone, next_of, open, work};
use hamr::{CallError, Node};
use hamr_comm::abi::status::Status;
use hamr_verbs::handlers::{Found, Part, Work, post, receive, receive_shared};
use hamr_verbs::host::{Fabric, FabricError, QpPlan, Region};
use hamr_verbs::views::{fill_view, finds_it_without_a_call, hello, sum_view};
use hamr_verbs::wire::{Access, Opcode, WcStatus};
use hamr_verbs::{CqId, QpId, SrqId};
use rustix::process::{Pid, Signal, kill_process};
use std::time::Instant;

/// Of `VerbsError`, as a fault has them.
const STALE: u64 = 2;
const LENGTH: u64 = 6;
const BUSY: u64 = 11;
const NO_VIEWS: u64 = 12;

struct Device {
    node: Node,
    fabric: Fabric,
    cq: CqId,
    srq: SrqId,
    /// Connected; a peer without a receive request is waited for.
    qps: [QpId; 2],
    /// Connected; the second takes from the shared queue.
    shared: [QpId; 2],
    viewed: Region,
    /// With all rights but views.
    other: Region,
}

impl Device {
    fn new(device: &str) -> Self {
        let node = open(device, 1 << 20);
        let fabric = Fabric::open(&node).expect("an adapter");
        let (cq, srq) = (fabric.completion_queue(64).expect("room"), fabric.shared_receive_queue(8).expect("room"));
        let pair = |srq| {
            let plan = QpPlan { sends: 8, receives: 8, ..QpPlan::new(cq) };
            let pair = [fabric.queue_pair(&plan), fabric.queue_pair(&QpPlan { srq, ..plan })];
            let pair = pair.map(|qp| qp.expect("room"));
            fabric.connect(pair[0], pair[1]).expect("they are not connected");
            pair
        };
        let (qps, shared) = (pair(None), pair(Some(srq)));
        let rights = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::VIEW;
        let viewed = fabric.region(1 << 16, rights).expect("room");
        let other = fabric.region(4096, Access(15)).expect("room");
        Self { node, fabric, cq, srq, qps, shared, viewed, other }
    }

    fn part(&self, at: u64, len: u32) -> Part {
        Part { region: self.viewed.id(), at, len }
    }

    /// A view of eight bytes, to read and to write: both are refused or none is.
    fn view(&self, part: Part) -> Result<u64, u64> {
        let sum = number_of(self.node.sync(sum_view::with(part)));
        let filled = number_of(self.node.sync(fill_view::with(part, 0x0101_0101_0101_0101)));
        assert_eq!(sum.as_ref().err(), filled.as_ref().err());
        sum
    }

    fn next(&self) -> Found {
        next_of(&self.node, self.cq)
    }

    fn work(&self, opcode: Opcode) -> Work {
        work(1, opcode, self.part(64, 8), self.other.remote(0))
    }

    fn post(&self, work: Work) {
        self.node.sync(post::with(self.qps[0], work)).expect("room");
    }
}

/// The number of a refusal.
fn number_of<T>(done: Result<T, CallError>) -> Result<T, u64> {
    match done {
        Ok(value) => Ok(value),
        Err(CallError::Fault(fault)) if fault.status == Status::VERBS => Err(fault.numbers[0]),
        Err(e) => panic!("{e}"),
    }
}

/// Each way to have the adapter write, and each way in which that ends.
#[test]
fn a_view_is_refused_until_the_completion_of_each_request_is_taken() {
    let device = Device::new("shm");
    let free = |part, is_free: bool| match device.view(part) {
        Ok(_) => assert!(is_free),
        Err(number) => assert!(number == BUSY && !is_free, "{number}"),
    };
    let (here, beside) = (device.part(64, 8), device.part(72, 8));
    free(here, true);
    for opcode in [Opcode::READ, Opcode::FETCH_ADD, Opcode::COMPARE_SWAP] {
        device.post(device.work(opcode));
        free(here, false);
        free(beside, true);
        // It has completed, which nobody has taken.
        std::thread::sleep(std::time::Duration::from_millis(2));
        free(here, false);
        assert_eq!(device.next().status, WcStatus::SUCCESS.0);
        free(here, true);
    }
    device.post(Work { is_quiet: true, ..device.work(Opcode::READ) });
    device.post(Work { id: 2, local: beside, ..device.work(Opcode::WRITE) });
    free(here, false);
    free(beside, true);
    assert_eq!(device.next().id, 2);
    free(here, true);
    // Receives wait for a message, also in the shared queue, and are flushed with their queue pair.
    device.node.sync(receive::with(device.qps[1], 3, here)).expect("room");
    device.node.sync(receive_shared::with(device.srq, 4, beside)).expect("room");
    free(here, false);
    free(beside, false);
    free(device.part(80, 8), true);
    let send = |qp: QpId, id| {
        let send = Work { id, local: device.part(128, 8), ..device.work(Opcode::SEND) };
        device.node.sync(post::with(qp, send)).expect("room");
    };
    device.node.sync(fill_view::with(device.part(128, 8), 0x0202_0202_0202_0202)).expect("free");
    send(device.shared[0], 5);
    assert_eq!([device.next(), device.next()].map(|found| found.id), [4, 5]);
    assert_eq!(device.view(beside), Ok(16));
    free(here, false);
    device.fabric.set_error(device.qps[1]).expect("its own");
    free(here, false);
    assert_eq!((device.next().status, device.view(here).is_ok()), (WcStatus::WR_FLUSH_ERR.0, true));
    // A reset and an end of the queue pair end its requests.
    let again = device.fabric.reset(device.qps[1]).expect("its own");
    let first = device.fabric.reset(device.qps[0]).expect("its own");
    device.fabric.connect(first, again).expect("they are not connected");
    device.node.sync(receive::with(again, 6, here)).expect("room");
    free(here, false);
    let again = device.fabric.reset(again).expect("its own");
    free(here, true);
    let third = device.fabric.queue_pair(&QpPlan::new(device.cq)).expect("room");
    device.fabric.connect(third, again).expect("they are not connected");
    device.node.sync(receive::with(again, 7, here)).expect("room");
    free(here, false);
    device.fabric.destroy_queue_pair(again).expect("its own");
    free(here, true);
    // So does the end of the adapter.
    device.node.sync(receive_shared::with(device.srq, 8, here)).expect("room");
    free(here, false);
    let process = device.fabric.process().expect("it runs");
    kill_process(Pid::from_raw(process.cast_signed()).expect("not zero"), Signal::KILL).expect("it runs");
    assert!(is_gone(process));
    let begin = Instant::now();
    while device.view(here) == Err(BUSY) {
        assert!(begin.elapsed() < SOON, "the adapter is not lost");
    }
    free(here, true);
}

#[test]
fn regions_that_others_write_have_no_views() {
    let mut device = Device::new("shm");
    let fabric = &device.fabric;
    let own = Part { region: device.other.id(), at: 0, len: 8 };
    assert_eq!(device.view(own), Err(NO_VIEWS));
    for by_peers in [Access::REMOTE_WRITE, Access::REMOTE_ATOMIC] {
        let refused = fabric.region(64, Access::VIEW | Access::LOCAL_WRITE | by_peers);
        assert!(matches!(refused, Err(FabricError::Refused(_))));
    }
    assert!(matches!(device.viewed.put(0, &[1]), Err(FabricError::Viewed)));
    assert!(matches!(device.viewed.put(0, &[]), Err(FabricError::Viewed)));
    assert!(device.viewed.get(0, &mut [0]).is_ok());
    // Neither do own requests write this one.
    let read_only = fabric.region(64, Access::VIEW).expect("room");
    let part = Part { region: read_only.id(), at: 0, len: 8 };
    device.post(Work { local: part, ..device.work(Opcode::READ) });
    assert_eq!((device.next().status, device.view(part)), (WcStatus::LOC_PROT_ERR.0, Ok(0)));
    let [a, b] = device.qps.map(|qp| fabric.reset(qp).expect("its own"));
    fabric.connect(a, b).expect("they are not connected");
    device.qps = [a, b];
    // A peer's key does not help.
    device.post(Work { remote: device.viewed.remote(0), local: own, ..device.work(Opcode::WRITE) });
    assert_eq!(device.next().status, WcStatus::REM_ACCESS_ERR.0);
    let ends = [(65536, 8), (65532, 8), (u64::MAX, 8), (4, 8), (1, 8)].map(|(at, len)| device.part(at, len));
    for part in ends {
        assert_eq!(number_of(device.node.sync(fill_view::with(part, 1))), Err(LENGTH), "{part:?}");
    }
    assert_eq!(number_of(device.node.sync(fill_view::with(device.part(0, 12), 1))), Err(LENGTH));
    assert_eq!(device.view(device.part(65528, 8)), Ok(0));
    assert_eq!(device.node.sync(sum_view::with(device.part(65536, 0))).expect("no bytes"), 0);
    // Another context on the thread of a handler is no way around the borrow of its own.
    assert!(!device.node.sync(finds_it_without_a_call::with()).expect("it has an adapter"));
}

#[test]
fn the_page_s_example_runs() {
    let Device { node, cq, qps: [a, b], viewed, fabric: _fabric, .. } = Device::new("shm");
    let sum = b"hello".map(u32::from).iter().sum::<u32>();
    assert_eq!(node.sync(hello::with(a, b, cq, viewed.id())).expect("it comes"), sum);
}

/// A handler may have a view of what the host deregisters meanwhile: R4.
#[test]
fn memory_of_a_deregistered_region_with_views_is_not_used_again() {
    let device = Device::new("shm");
    let Device { node, fabric, viewed, .. } = device;
    let (at, stale) = (viewed.remote(0).addr, Part { region: viewed.id(), at: 0, len: 8 });
    viewed.deregister().expect("its own");
    assert_eq!(number_of(node.sync(sum_view::with(stale))), Err(STALE));
    let mut regions = 0;
    for bytes in [1 << 16, 1 << 12, 64] {
        while let Ok(region) = fabric.region(bytes, Access::LOCAL_WRITE) {
            let addr = region.remote(0).addr;
            assert!(addr + bytes <= at || at + (1 << 16) <= addr, "{bytes} bytes at {addr:#x}");
            regions += 1;
        }
    }
    assert!(regions > 10);
}

/// The place is, however: only the memory is not.
#[test]
fn places_of_deregistered_regions_with_views_are_used_again() {
    let device = Device::new("shm");
    for _ in 0..300 {
        device.fabric.region(64, Access::LOCAL_WRITE | Access::VIEW).expect("a place").deregister().expect("its own");
    }
}

#[test]
fn what_comes_is_computed_on_in_place() {
    common::computes_in_place("shm", 20_000);
}
