//! The figures of the papers on HAM, modelled: operations of the protocols, those of ours counted as they run, times what each costs
//! over that paper's bus. `cargo xtask paper-figures` prints them beside the papers' own.

use crate::driving::{KEY, Operation, Rig};
use hamr::link::{Loopback, Operations, PcieClock, PcieCosts, PcieModel};
use hamr::mirror::MirrorLink;
use hamr::{Error, Node, Options, Runtime};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::slot::{RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::registry::Table;
use hamr_kernels::bench::empty;
use std::sync::Arc;
use std::time::Duration;

const GIB: f64 = (1u64 << 30) as f64;
/// Bytes of the transfers of figure 10 of paper 000, and of the longest that runs here: more than the costs of a start are seen by.
const SIZES: std::ops::RangeInclusive<u32> = 3..=28;
const LONGEST: u64 = 64 << 20;
/// Calls, each of which takes the same operations.
const CALLS: usize = 20;
/// Instructions of an empty call on both sides, as `cargo xtask instructions` counts them, and the nanoseconds of each at most: a core
/// of that Xeon Phi begins one of a thread in every other cycle, of 0.8 ns, and the host is faster.
const INSTRUCTIONS: f64 = 33.0 + 58.0;
const EACH_NS: f64 = 2.0;

/// A figure's number.
#[derive(Debug)]
pub struct Number {
    /// Of which figure, and of what in it.
    pub name: String,
    /// Bytes, where the figure has an axis of them.
    pub bytes: u64,
    /// In the figure's unit.
    pub value: f64,
    /// What was done for it, where it was done here.
    pub done: String,
}

fn number(name: &str, bytes: u64, value: f64) -> Number {
    Number { name: name.into(), bytes, value, done: String::new() }
}

/// All numbers.
///
/// # Errors
/// No device.
///
/// # Panics
/// An empty call fails.
pub fn numbers() -> Result<Vec<Number>, Error> {
    let mut all = aurora();
    all.extend(aurora_here()?);
    all.push(driven_here());
    all.extend(phi());
    all.extend(knf());
    Ok(all)
}

/// Paper 000: what its own protocols take, by the costs.
fn aurora() -> Vec<Number> {
    let ve = PcieCosts::VE;
    // Message and flag; flag, 2.3 times on the average, and result.
    let by_veo = 2.0 * ve.write.us(0) + 2.3 * ve.read.us(0) + ve.read.us(0);
    let by_dma = ve.load_us + ve.pull.us(0) + ve.push.us(0) + ve.stores_us(8);
    let mut all = vec![number("offload HAM, VEO", 0, by_veo), number("offload HAM, DMA", 0, by_dma)];
    for bytes in SIZES.map(|bits| 1u64 << bits) {
        let rate = |us: f64| bytes as f64 / GIB / (us / 1e6);
        all.extend([
            number("to VEO", bytes, rate(ve.write.us(bytes))),
            number("to DMA", bytes, rate(ve.pull.us(bytes))),
            number("from VEO", bytes, rate(ve.read.us(bytes))),
            number("from DMA", bytes, rate(ve.push.us(bytes))),
        ]);
        // The paper has them up to 4 MiB.
        if bytes <= 4 << 20 {
            all.push(number("to LHM", bytes, rate(ve.loads_us(bytes))));
            all.push(number("from SHM", bytes, rate(ve.stores_us(bytes))));
        }
    }
    all
}

/// A device of this program whose memory is read and written over a modelled bus.
fn open(clock: &PcieClock) -> Result<Node, Error> {
    let options = Options { heap: 2 * LONGEST, print_warnings: false, ..Options::default() };
    let Options { ring, tickets, chunk, heap, .. } = options;
    let plan = Plan { streams: 8, ring, tickets, chunk, heap, ..Plan::default() };
    let layout = Layout::plan(&plan).expect("a plan that can be laid out");
    let link = Arc::new(Loopback::new(layout.heap(), Table::of_this_image()));
    let modelled = |window, heap| {
        (PcieModel::new(window, clock), Arc::new(PcieModel::new(heap, clock)) as Arc<dyn hamr::link::FarHeap>)
    };
    let link = MirrorLink::driven(link, modelled, layout.window_len(), Duration::from_secs(60))?;
    Runtime::new()?.attach("modelled", Box::new(link), options)
}

/// What runs here: host-driven.
fn aurora_here() -> Result<Vec<Number>, Error> {
    let clock = PcieClock::new(PcieCosts::VE);
    let node = open(&clock)?;
    let call = || -> Result<Operations, Error> {
        clock.take();
        node.sync(empty::with()).expect("an empty call");
        Ok(clock.take())
    };
    call()?;
    let calls = (0..CALLS).map(|_| call()).collect::<Result<Vec<_>, _>>()?;
    // A look at the device's words may come in any of them.
    let least = calls.iter().min_by(|a, b| a.us.total_cmp(&b.us)).copied().unwrap_or_default();
    let done = |of: &Operations| {
        let many = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        match (of.writes, of.reads) {
            (writes, 0) => many(writes, "write"),
            (0, reads) => many(reads, "read"),
            (writes, reads) => format!("{}, {}", many(writes, "write"), many(reads, "read")),
        }
    };
    let mut all = vec![Number { done: done(&least), ..number("offload hamr, host-driven", 0, least.us) }];
    for bytes in SIZES.map(|bits| 1u64 << bits).filter(|bytes| *bytes <= LONGEST) {
        let rate = |of: &Operations| bytes as f64 / GIB / (of.us / 1e6);
        let data = vec![1u8; bytes as usize];
        let buffer = node.buffer(&data)?;
        clock.take();
        buffer.write(&data)?;
        let put = clock.take();
        let back = buffer.read()?;
        let got = clock.take();
        assert_eq!(back, data, "what was put");
        all.push(Number { done: done(&put), ..number("to hamr, host-driven", bytes, rate(&put)) });
        all.push(Number { done: done(&got), ..number("from hamr, host-driven", bytes, rate(&got)) });
    }
    Ok(all)
}

/// What runs here: device-driven, whose engine is not asked for an empty call.
fn driven_here() -> Number {
    let ve = PcieCosts::VE;
    let mut rig = Rig::new();
    let mut call = || {
        rig.host[0].submit_hot(ReqHdr::inline(KEY, 0), &[]);
        rig.ring();
        let mut found = rig.step();
        while !rig.device[0].hot_is_next() {
            found = rig.step();
        }
        let _ = rig.reply(0, RepHdr::inline(Status::OK, 0), &[]);
        let told = rig.step();
        rig.host[0].release_hot();
        // Behind it, whether the host sleeps.
        rig.step();
        (found, told)
    };
    call();
    let (found, told) = call();
    // The step that tells looks for the next request first: a look that finds nothing.
    let done: Vec<_> = found.iter().chain(told.iter().skip(1)).collect();
    let us = done.iter().map(|operation| match operation {
        Operation::Load(_) => ve.load_us,
        Operation::Store(_) => ve.stores_us(8),
        Operation::Pull(_, bytes) => ve.pull.us(*bytes as u64),
        Operation::Push(_, bytes) => ve.push.us(*bytes as u64),
    });
    let count = |is: fn(&Operation) -> bool| done.iter().filter(|operation| is(operation)).count();
    let (loads, stores) = (
        count(|operation| matches!(operation, Operation::Load(_))),
        count(|operation| matches!(operation, Operation::Store(_))),
    );
    Number { done: format!("{loads} load, {stores} store"), ..number("offload hamr, device-driven", 0, us.sum()) }
}

/// Paper 001: what follows from four of its numbers; ours by the round trip that follows.
fn phi() -> Vec<Number> {
    // 300 ns are 14.8 % of the round trip.
    let trip = 0.3 / 0.148;
    let leo = trip * (1.0 + 19.22);
    let by_mpi = leo / 1.8;
    let mpi = by_mpi / 1.109;
    let here = trip + INSTRUCTIONS * EACH_NS / 1000.0;
    vec![
        number("call SCIF", 0, trip),
        number("call HAM, SCIF", 0, trip + 0.3),
        number("call LEO", 0, leo),
        number("call MPI", 0, mpi),
        number("call HAM, MPI", 0, by_mpi),
        Number { done: format!("{INSTRUCTIONS} instructions"), ..number("call hamr, split", 0, here) },
    ]
}

/// Paper 002, a Xeon Phi before the first product: one way of a message, which a cost per message of its own is added to, fitted to
/// where the paper's curve is highest; and beside it the same message where the device asks its host to send it.
fn knf() -> Vec<Number> {
    // Microseconds of a short message between two hosts, and bytes of QDR in one: neither is in the paper.
    const SHORT: f64 = 1.5;
    const RATE: f64 = 4000.0;
    // A message to the host and its answer, as of paper 001.
    let asks = 0.3 / 0.148 + INSTRUCTIONS * EACH_NS / 1000.0;
    let host = |bytes: u64| SHORT + bytes as f64 / RATE;
    let mut all = Vec::new();
    for (name, highest, at) in [("send", 1.50, 128), ("write", 2.22, 64)] {
        let cost = (highest - 1.0) * host(at);
        let done = format!("{cost:.2} µs more a message");
        for bytes in (2..=20).map(|bits| 1u64 << bits) {
            let (by_host, by_device) = (host(bytes), host(bytes) + cost);
            all.extend([
                Number { done: done.clone(), ..number(&format!("dcfa {name}"), bytes, by_device / by_host) },
                number(&format!("asked {name}"), bytes, (by_host + asks) / by_device),
            ]);
        }
    }
    all
}
