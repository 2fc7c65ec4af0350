//! Verbs: requests that a device posts to an adapter, which is on the host's processor, beside what two processors, a
//! copy, and a socket allow.
//!
//! The device is the only other one that polls: the host sleeps while a handler runs. Both ends of each connection are
//! in one adapter, also over UDP, since two devices with adapters would need four processors.

use super::floors::{Floors, Gap};
use super::stats::median;
use super::table::{Beside, Key, Table, Unit};
use super::{BoxError, Machine};
use hamr::{Image, Node, Options, Runtime};
use hamr_comm::side::WORDS;
use hamr_verbs::handlers::{Rounds, rounds, run_rounds};
use hamr_verbs::host::{Fabric, Path, QpPlan, Region, Wire};
use hamr_verbs::wire::{Access, Opcode};
use hamr_verbs::{CqId, QpId, Verbs};
use rustix::process::{Pid, Signal, kill_process};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// The image.
const IMAGE: &str = "hamr-verbs-image";
/// Beyond two lines: what a request and a completion may take.
const BEYOND_NS: f64 = 90.0;
/// Requests of a sample.
const TIMES: u32 = 2000;
/// Samples of a row in one repetition.
const SAMPLES: usize = 8;
const REPETITIONS: usize = 8;
/// Bytes of a sample of copies.
const COPIED: usize = 256 << 20;
const SIZES: [usize; 5] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];
/// A rate of 8 million a second.
const RATE_NS: f64 = 125.0;
/// All that peers do.
const ACCESS: Access =
    Access(Access::LOCAL_WRITE.0 | Access::REMOTE_WRITE.0 | Access::REMOTE_READ.0 | Access::REMOTE_ATOMIC.0);
/// How long a device and its adapter say that they are awake, where this program takes the device's place.
const AWAKE: Duration = Duration::from_millis(20);
/// How long an adapter without work is watched.
const IDLE: Duration = Duration::from_secs(2);
/// Figure 5 of paper 002: requests of a device beside the same of its host, which is on one processor or another.
pub(crate) const FIGURE: [&str; 2] = ["verbs_figure_5_send", "verbs_figure_5_write"];
const FIGURE_SIZES: [u32; 8] = [4, 64, 128, 1 << 10, 4 << 10, 16 << 10, 128 << 10, 1 << 20];
/// Requests of a sample of it, of which that of bytes is this many.
const FIGURE_TIMES: u32 = 400;
const FIGURE_BYTES: u32 = 16 << 20;
/// Rows beside two lines.
const LATENCIES: [(&str, Opcode); 4] = [
    ("verbs_write_8", Opcode::WRITE),
    ("verbs_send_8", Opcode::SEND),
    ("verbs_read_8", Opcode::READ),
    ("verbs_fadd", Opcode::FETCH_ADD),
];
const OTHERS: [&str; 5] = ["verbs_rate_8", "verbs_bw", "verbs_udp_8", "verbs_host_driven", "verbs_idle"];

/// Adds the rows that are wanted, in devices of their own.
pub(crate) fn measure(
    runtime: &Runtime,
    image: &Image,
    options: &Options,
    machine: &mut Machine,
    table: &mut Table,
) -> Result<(), BoxError> {
    let latencies: Vec<_> = LATENCIES.into_iter().filter(|(name, _)| table.wants(name)).collect();
    if latencies.is_empty() && !table.wants_any(&OTHERS) {
        return Ok(());
    }
    let options = of_verbs(options);
    let open = |wire: &Wire| Device::open(runtime, super::SHM, &options, wire);
    let own = match open(&Wire::Own) {
        Ok(own) => own,
        // Asked for by name, not with all rows.
        Err(why) if !table.wants("start") => return Err(why),
        Err(why) => {
            hamr::cli::note(format_args!("hamr-bench: rows of verbs skipped: {why}"));
            return Ok(());
        }
    };
    let beside = runtime.open_with(super::SHM, image.clone(), options.clone())?;
    let floors = Floors::new(&beside)?;
    for repetition in 0..REPETITIONS {
        let floor = floors.two_lines(repetition, Gap::NONE)?;
        let (spell, lines) = (floor.spell(), floor.best());
        machine.note(median(lines));
        let ns: Vec<f64> = lines.iter().map(|ns| ns + BEYOND_NS).collect();
        for &(name, opcode) in &latencies {
            let beside = Beside { what: "two lines + 90 ns", ns: &ns };
            table.add(Key::new(name).size(8).spell(spell), &own.samples(&own.rounds(opcode, 8, TIMES))?, Some(beside));
        }
        if table.wants("verbs_rate_8") {
            let how = Rounds { window: 64, every: 16, ..own.rounds(Opcode::WRITE, 8, 8 * TIMES) };
            let key = Key::new("verbs_rate_8").vary("in flight", 64).unit(Unit::Rate).spell(spell);
            table.add(key, &own.samples(&how)?, Some(Beside { what: "the goal", ns: &[RATE_NS] }));
        }
    }
    drop(floors);
    drop(beside);
    if table.wants("verbs_host_driven") {
        let driven = Device::open(runtime, super::SHM, &Options { spin: AWAKE, ..options.clone() }, &Wire::Own)?;
        let how = own.rounds(Opcode::WRITE, 8, TIMES);
        let stopped = driven.stop()?;
        for _ in 0..REPETITIONS {
            let ns = driven.host_driven(machine, &how)?;
            // Its adapter polls as long.
            std::thread::sleep(2 * AWAKE);
            let key = Key::new("verbs_host_driven").size(8);
            table.add(key, &own.samples(&how)?, Some(Beside { what: "host-driven", ns: &ns }));
        }
        drop(stopped);
    }
    if table.wants("verbs_bw") {
        own.copies(table)?;
    }
    if table.wants("verbs_idle") {
        let used = own.idle()?;
        let all = IDLE.as_nanos() as f64;
        table.add(Key::new("verbs_idle"), &[used], Some(Beside { what: "that time", ns: &[all] }));
    }
    drop(own);
    if table.wants("verbs_udp_8") {
        // Another one than those of other runs.
        let [.., high, low] = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, 93, high, low | 1);
        let over = open(&Wire::udp(address))?;
        for _ in 0..REPETITIONS {
            let ns = raw_udp(address)?;
            let ours = over.samples(&over.rounds(Opcode::WRITE, 8, TIMES / 10))?;
            table.add(Key::new("verbs_udp_8").size(8), &ours, Some(Beside { what: "raw UDP", ns: &ns }));
        }
    }
    Ok(())
}

/// A device that waits is not to have the processor of the adapter for long.
fn of_verbs(options: &Options) -> Options {
    Options { spin: Duration::from_micros(50), verbs: 48 << 20, ..options.clone() }
}

/// Adds the rows of [`FIGURE`].
pub(crate) fn figure(
    runtime: &Runtime,
    device: &str,
    options: &Options,
    machine: &Machine,
    table: &mut Table,
) -> Result<(), BoxError> {
    let options = of_verbs(options);
    let own = Device::open(runtime, device, &options, &Wire::Own)?;
    // Whose device it is does not matter: this program is in its place.
    let driven = Device::open(runtime, super::SHM, &Options { spin: AWAKE, ..options }, &Wire::Own)?;
    let stopped = driven.stop()?;
    for _ in 0..REPETITIONS {
        for (name, opcode) in FIGURE.into_iter().zip([Opcode::SEND, Opcode::WRITE]) {
            for bytes in FIGURE_SIZES {
                let how = own.rounds(opcode, bytes, FIGURE_TIMES.min(FIGURE_BYTES / bytes));
                let ns = driven.host_driven(machine, &how)?;
                // Its adapter polls as long.
                std::thread::sleep(2 * AWAKE);
                let key = Key::new(name).size(bytes as usize);
                table.add(key, &own.samples(&how)?, Some(Beside { what: "host-driven", ns: &ns }));
            }
        }
    }
    drop(stopped);
    Ok(())
}

/// A device that does nothing until this is dropped.
struct Stopped(Pid);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// A device with an adapter, and two queue pairs that are connected.
struct Device {
    fabric: Fabric,
    node: Node,
    ends: [QpId; 2],
    cq: CqId,
    region: Region,
    /// What a device keeps of its own, for this program in its place: with other queues than the device's.
    words: Vec<AtomicU32>,
    hosts: ([QpId; 2], CqId),
}

impl Device {
    fn open(runtime: &Runtime, device: &str, options: &Options, wire: &Wire) -> Result<Self, BoxError> {
        let target = runtime.target(device)?.ok_or("expected a device that takes images")?;
        // By `module` also the image: `find` would take what HAMR_IMAGE names.
        let image = Image::file(Image::module(IMAGE)?.resolve(&target)?.path)?;
        let node = runtime.open_with(device, image, options.clone())?;
        let fabric = Fabric::open_with(&node, wire)?;
        let region = fabric.region(32 << 20, ACCESS)?;
        let connected = || -> Result<_, BoxError> {
            let cq = fabric.completion_queue(500)?;
            let plan = QpPlan { sends: 128, receives: 128, ..QpPlan::new(cq) };
            let ends = [fabric.queue_pair(&plan)?, fabric.queue_pair(&plan)?];
            match wire {
                Wire::Own => fabric.connect(ends[0], ends[1])?,
                _ => {
                    let [a, b] = [fabric.endpoint(ends[0])?, fabric.endpoint(ends[1])?];
                    fabric.connect_remote(ends[0], &b, &Path::default())?;
                    fabric.connect_remote(ends[1], &a, &Path::default())?;
                }
            }
            Ok((ends, cq))
        };
        let ((ends, cq), hosts) = (connected()?, connected()?);
        let words = (0..WORDS).map(|_| AtomicU32::new(0)).collect();
        Ok(Self { fabric, node, ends, cq, region, words, hosts })
    }

    fn rounds(&self, opcode: Opcode, bytes: u32, count: u32) -> Rounds {
        let Self { ends, cq, .. } = *self;
        Rounds { ends, cq, region: self.region.id(), opcode: opcode.0, bytes, count, window: 1, every: 1 }
    }

    /// Nanoseconds of a request, behind a first run that wakes all, without those of the call.
    fn samples(&self, how: &Rounds) -> Result<Vec<f64>, BoxError> {
        let call = |count| timed(1, || Ok(self.node.sync(run_rounds::with(Rounds { count, ..*how }))?));
        call(how.count.div_ceil(10))?;
        let own = (0..SAMPLES).map(|_| call(0)).collect::<Result<Vec<_>, _>>()?;
        let once = |_| Ok((call(how.count)? - median(&own)).max(0.0) / f64::from(how.count));
        (0..SAMPLES).map(once).collect()
    }

    /// Stops the device before it says that it sleeps: else the adapter notifies it at each completion, and it takes the
    /// processor from this program.
    fn stop(&self) -> Result<Stopped, BoxError> {
        let device = Pid::from_raw(i32::try_from(self.node.info().pid)?).ok_or("expected the device's process")?;
        self.node.sync(run_rounds::with(self.rounds(Opcode::WRITE, 8, 1)))?;
        kill_process(device, Signal::STOP)?;
        Ok(Stopped(device))
    }

    /// The same of this program, in the device's place, which is stopped.
    fn host_driven(&self, machine: &Machine, how: &Rounds) -> Result<Vec<f64>, BoxError> {
        let (ends, cq) = self.hosts;
        let how = Rounds { ends, cq, region: self.region.id(), ..*how };
        machine.take_device()?;
        let samples = self.fabric.drive(|section, node, epoch| -> Result<Vec<f64>, BoxError> {
            let verbs = Verbs::over(section, &self.words, node, epoch).map_err(|why| format!("{why:?}"))?;
            let run = |how: &Rounds| rounds(&verbs, how).map_err(|fault| format!("{fault:?}").into());
            // It wakes by itself, a tenth of a second later at most.
            run(&how)?;
            (0..SAMPLES).map(|_| timed(how.count, || run(&how))).collect()
        });
        machine.gather()?;
        samples?
    }

    /// Long writes, and copies of this program between memory of its own, in turn.
    fn copies(&self, table: &mut Table) -> Result<(), BoxError> {
        for size in SIZES {
            let (from, mut to) = (vec![1_u8; size], vec![2_u8; size]);
            let times = u32::try_from(COPIED / size)?;
            let how = self.rounds(Opcode::WRITE, u32::try_from(size)?, times);
            for _ in 0..SAMPLES {
                let copy = timed(times, || {
                    for _ in 0..times {
                        std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
                    }
                    Ok(())
                })?;
                let key = Key::new("verbs_bw").size(size).unit(Unit::GbS);
                table.add(key, &self.samples(&how)?, Some(Beside { what: "memcpy", ns: &[copy] }));
            }
        }
        Ok(())
    }

    /// Processor time, in nanoseconds, that the adapter takes of [`IDLE`].
    fn idle(&self) -> Result<f64, BoxError> {
        let path = format!("/proc/{}/schedstat", self.fabric.process()?);
        let used = || -> Result<f64, BoxError> {
            let text = std::fs::read_to_string(&path)?;
            Ok(text.split_whitespace().next().ok_or("expected a time")?.parse()?)
        };
        // It polls for a while before it sleeps.
        std::thread::sleep(Duration::from_millis(200));
        let before = used()?;
        std::thread::sleep(IDLE);
        Ok(used()? - before)
    }
}

fn timed(count: u32, run: impl FnOnce() -> Result<(), BoxError>) -> Result<f64, BoxError> {
    let begin = Instant::now();
    run()?;
    Ok(begin.elapsed().as_nanos() as f64 / f64::from(count))
}

/// Bytes of the packets of a write of 8 and of its acknowledgement, there and back, by one thread as one adapter does it.
fn raw_udp(address: Ipv4Addr) -> Result<Vec<f64>, BoxError> {
    const PACKETS: [usize; 2] = [12 + 16 + 8 + 4, 12 + 4 + 4];
    const ROUNDS: u32 = TIMES / 10;
    let socket = UdpSocket::bind((address, 0))?;
    let to = socket.local_addr()?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut buffer = [0; 64];
    let mut exchange = || -> Result<(), BoxError> {
        for _ in 0..ROUNDS {
            for bytes in PACKETS {
                socket.send_to(buffer.get(..bytes).unwrap_or_default(), to)?;
                socket.recv_from(&mut buffer)?;
            }
        }
        Ok(())
    };
    exchange()?;
    (0..SAMPLES).map(|_| timed(ROUNDS, &mut exchange)).collect()
}
