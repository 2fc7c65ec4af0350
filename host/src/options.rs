//! Sizes, limits and wait mode of one device, as the program sets them.

use crate::error::missing;
use crate::link::Protocol;
use crate::relay::handlers_with_relay;
use crate::{Error, MemoryHook};
use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::abi::layout::{Layout, Placement, Plan, PlanError};
use hamr_comm::abi::preamble::FOR_EVER;
use hamr_comm::abi::queue::QueueDescriptor;
use hamr_comm::abi::rings::{LogLevel, RingHeader};
use hamr_comm::abi::staging::Staging;
use hamr_comm::abi::tasks::MAX_TASKS;
use hamr_comm::handshake::IdlePolicy;
use hamr_comm::registry::Table;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

/// Sizes and habits of one device. The defaults suit most programs.
///
/// Written as `Options { heap: 1 << 30, ..Options::default() }`. End it with the defaults: later
/// versions add fields. That form is why the struct is not `#[non_exhaustive]`, which would forbid
/// it outside of this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Streams that can be open at once, at most 79, and fewer beside more than 16 `tasks`: 95 in all. Memory: about 200 KiB of window each.
    /// `None` is one for each processor that the program may use, from 8 on, as far as tasks and the window leave room; where the window is
    /// there before (`at:`, `pci:`), 8.
    pub streams: Option<u32>,
    /// Ring slots of each stream, a power of two: calls in flight before the submitter must move
    /// replies aside.
    pub ring: u32,
    /// Queued calls in flight per stream.
    pub tickets: u32,
    /// Bytes of each staging chunk, a multiple of 64, at most 16 KiB: longer messages take a
    /// buffer.
    pub chunk: u32,
    /// Tasks that the device runs at the same time, at most 64 and as many as its image has places
    /// for. With 0, as many as that, and none can call the host.
    pub tasks: u32,
    /// A thread that waits for a task runs what that task calls on the host. With false, threads of
    /// this library do, one for each body that runs: for programs whose bodies must not run on
    /// threads that wait.
    pub serve_in_wait: bool,
    /// Bytes of each staging chunk of calls to the host, a multiple of 64, at most 16 KiB: the
    /// longest arguments and the longest result of one.
    pub host_chunk: u32,
    /// Tasks of this device may call handlers of the runtime's other devices, through the host
    /// (`task.sync(NodeId(n), …)`).
    pub relay: bool,
    /// Bytes for the device's table of handlers: 16, and for each handler 40 and its name's.
    pub table: u64,
    /// Bytes of the ring of log lines, a power of two from 1024 to 1 GiB; 0: the device's lines are lost.
    pub log: u64,
    /// Bytes of the device's heap.
    pub heap: u64,
    /// Bytes behind the heap, a multiple of 4096, that no buffer is in: the segment of a rank
    /// (`WorldRef::segment` in handlers).
    pub segment: u64,
    /// Bytes of queues and registered memory of an adapter, for devices whose handlers use verbs (docs/verbs.md); 0: none.
    pub verbs: u64,
    /// Buffers allocated at once.
    pub max_buffers: u32,
    /// Calls in flight or unread per stream.
    pub max_outstanding: usize,
    /// How long a wait lasts at most, unless the call has its own limit; `None` waits until the
    /// device is lost.
    pub deadline: Option<Duration>,
    /// How long the device may take to start.
    pub start_deadline: Duration,
    /// A connection to another machine is lost when nothing of it is heard for so long, though the system asks
    /// (docs/network.md). A copy fails where a device that drives this program's memory takes longer than that for a part of it, which
    /// is a page at least.
    pub silence: Duration,
    /// A device that ended its epoch after a fault (a hosted image that trapped, an image with
    /// `on_fault = reset`, a fault of the runtime itself) begins another at the next call. Statics
    /// of its handlers start afresh if it was restarted; buffers stay.
    pub restart: bool,
    /// The least severe lines that the device is asked to log.
    pub log_level: LogLevel,
    /// Pins the device's dispatcher to this processor.
    pub cpu: Option<usize>,
    /// How calls come to the device and back; `None` is the best of what its link can do.
    pub protocol: Option<Protocol>,
    /// How both sides wait for each other.
    pub wait: WaitMode,
    /// With [`WaitMode::Adaptive`]: how long either side polls without result before it sleeps.
    pub spin: Duration,
    /// How long either side sleeps at most without a notification. It guards against a lost
    /// doorbell; where every doorbell arrives, nothing depends on it. `None` sets no limit.
    pub longest_sleep: Option<Duration>,
    /// Told of every buffer that is allocated and dropped.
    pub memory_hook: Option<MemoryHook>,
    /// Prints on standard error, when the device is opened, what its image and this program do not agree on
    /// ([`Node::warnings`](crate::Node::warnings)), in a few lines. Not of ranks of a world.
    pub print_warnings: bool,
}

/// How host and device wait for each other. Devices without a doorbell (loopback, and images that
/// support none) poll with timed sleeps, whatever mode is set here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum WaitMode {
    /// Always poll: the least latency, for a processor each.
    Spin,
    /// Poll for the time of `spin`, then sleep until the other side notifies.
    #[default]
    Adaptive,
    /// Sleep at once: the least work, for a wake-up each way per call.
    Sleep,
}

impl Default for Options {
    fn default() -> Self {
        let plan = Plan::default();
        Self {
            streams: None,
            ring: plan.ring,
            tickets: plan.tickets,
            chunk: plan.chunk,
            tasks: plan.tasks,
            serve_in_wait: true,
            host_chunk: plan.host_chunk,
            relay: false,
            table: plan.table,
            log: plan.log - RingHeader::BYTES,
            heap: plan.heap,
            segment: 0,
            verbs: 0,
            max_buffers: 1 << 16,
            max_outstanding: 1 << 20,
            deadline: Some(Duration::from_secs(60)),
            start_deadline: Duration::from_secs(10),
            silence: Duration::from_secs(5),
            restart: true,
            log_level: LogLevel::INFO,
            cpu: None,
            protocol: None,
            wait: WaitMode::Adaptive,
            spin: Duration::from_micros(300),
            longest_sleep: Some(Duration::from_millis(50)),
            memory_hook: None,
            print_warnings: true,
        }
    }
}

impl Options {
    /// Options for a device whose window has `bytes`, such as that of a microcontroller: other sections take at most half of it, as far
    /// as they can, and the heap the rest. Where they have not their default sizes, tasks cannot call the host; in a window below some 64 KiB
    /// the device's log lines are lost.
    ///
    /// Bytes of each section, in order, each rounded up to 64. *n* is `streams` + `tasks` + 2: the control stream is one, and calls to the
    /// host, or threads beyond the streams, have another; *s* is `ring` + `tickets`:
    ///
    /// | section | bytes | by default, 8 streams | in 16 KiB | options |
    /// |---|---|---|---|---|
    /// | preamble | 1024 | 1024 | 1024 | |
    /// | QUEUES | 64 *n* | 1664 | 192 | `streams` |
    /// | LINES | 128 *n* + 256 + 64 (*n* - 1) × (*s*, or the odd number above it) | 222,784 | 1792 | `streams`, `ring`, `tickets` |
    /// | CHUNKS | 2 × `chunk` × (5 + (*n* - 1) × (*s* + 1)) | 7,024,640 | 3200 | `streams`, `ring`, `tickets`, `chunk` |
    /// | TABLE | 16, and 40 and the name's for each handler | 65,536 | 1536 | `table` |
    /// | LOG | 64 and the ring; none: 0 | 65,600 | 0 | `log` |
    /// | TRACE | 0 | 0 | 0 | |
    /// | CRASH | 512 | 512 | 512 | |
    /// | TASKS | calls of tasks to the host; without such tasks 0 | 168,640, and the program's table | 0 | `tasks`, `host_chunk` |
    /// | HEAP | `heap`, `segment` | 67,108,864 | 8128 | `heap`, `segment` |
    ///
    /// From 64 KiB of sections on, LINES and HEAP begin on a page. The window ends on one. An image has two handlers beside its own.
    ///
    /// # Errors
    /// The window is shorter than the least.
    pub fn for_window(bytes: u64) -> Result<Self, Error> {
        Self::sized(bytes, None)
    }

    fn sized(bytes: u64, protocol: Option<Protocol>) -> Result<Self, Error> {
        const LEAST: (u32, u32, u32, u32, u64, u64) = (1, 8, 1, 64, 1536, 0);
        let pages = bytes & !4095;
        let of = |(streams, ring, tickets, chunk, table, log)| Self {
            streams: Some(streams),
            ring,
            tickets,
            chunk,
            table,
            log,
            tasks: 0,
            heap: 0,
            protocol,
            ..Self::default()
        };
        let with = |options: &Self, heap| Self { heap, ..options.clone() };
        let begins = |options: &Self| plan_of(options, false).map(|plan| plan.heap().start);
        let halves =
            [(8, 128, 8, 1024, 64 << 10, 64 << 10), (4, 32, 4, 256, 16 << 10, 8 << 10), (2, 16, 2, 128, 4096, 1024)];
        let fits = |options: &Self| begins(options).is_ok_and(|at| at <= pages / 2);
        let whole = [Self { heap: 0, protocol, ..Self::default() }].into_iter();
        let options = whole.chain(halves.into_iter().map(of)).find(fits).unwrap_or_else(|| of(LEAST));
        // How long it is decides where sections begin, the heap too.
        let rest = |heap| {
            let rest = with(&options, pages.checked_sub(begins(&with(&options, heap)).ok()?)?);
            plan_of(&rest, false).is_ok_and(|plan| plan.window_len() <= pages).then_some(rest)
        };
        match [0, pages].into_iter().find_map(rest) {
            Some(options) => Ok(options),
            None => {
                let least = plan_of(&options, false)?;
                Err(Error::InvalidConfig {
                    option: "Options::for_window",
                    expected: format!("at least {} bytes, which one stream takes", least.window_len()),
                    got: format!("{bytes}, without room for {}", missing(&least, pages)),
                })
            }
        }
    }

    /// These, in a window of `bytes`: its own sizes where these have all the defaults'.
    pub(crate) fn in_window(self, bytes: u64) -> Result<Self, Error> {
        let default = Self::default();
        let Self { streams, ring, tickets, chunk, tasks, host_chunk, table, log, heap, segment, .. } = default;
        let same = Self { streams, ring, tickets, chunk, tasks, host_chunk, table, log, heap, segment, ..self.clone() }
            == self;
        if !same || bytes == 0 {
            return Ok(self);
        }
        let Self { streams, ring, tickets, chunk, tasks, host_chunk, table, log, heap, segment, .. } =
            Self::sized(bytes, self.protocol)?;
        Ok(Self { streams, ring, tickets, chunk, tasks, host_chunk, table, log, heap, segment, ..self })
    }

    /// How long a side polls without result before it sleeps; `None`: for ever.
    pub(crate) fn spin_time(&self) -> Option<Duration> {
        match self.wait {
            WaitMode::Spin => None,
            WaitMode::Adaptive => Some(self.spin),
            WaitMode::Sleep => Some(Duration::ZERO),
        }
    }

    /// The same for the device.
    pub(crate) fn idle_policy(&self) -> IdlePolicy {
        // One below FOR_EVER, which is not for times that happen to be long.
        let micros = |d: Duration| u32::try_from(d.as_micros()).unwrap_or(u32::MAX).min(FOR_EVER - 1);
        IdlePolicy {
            spin_us: self.spin_time().map_or(FOR_EVER, micros),
            sleep_us: self.longest_sleep.map_or(FOR_EVER, micros),
        }
    }

    /// What the device can call in this program.
    pub(crate) fn host_handlers(&self) -> Table {
        if self.relay { handlers_with_relay() } else { Table::of_host_handlers() }
    }

    /// How many streams can be open.
    pub(crate) fn streams(&self) -> u32 {
        self.streams.unwrap_or_else(|| processors().max(Plan::default().streams).min(self.most_streams()))
    }

    /// The others are the control stream's and those of bodies.
    fn most_streams(&self) -> u32 {
        (hamr_comm::am::MAX_QUEUES as u32 - 1).saturating_sub(self.tasks.min(MAX_TASKS) + 1).min(MAX_STREAMS)
    }

    /// These with so many streams as leave a heap where the link has one, where the program has not said how many.
    pub(crate) fn within(self, host_memory: bool, has_heap: impl Fn(Range<u64>) -> bool) -> Self {
        let has_room = |streams: &u32| {
            let options = Self { streams: Some(*streams), ..self.clone() };
            plan_of(&options, host_memory).is_ok_and(|plan| has_heap(plan.heap()))
        };
        let streams = self.streams();
        let streams = self.streams.or_else(|| (1..=streams).rev().find(has_room)).unwrap_or(streams);
        Self { streams: Some(streams), ..self }
    }

    /// Sizes; without a word on where the halves of slots lie.
    pub(crate) fn plan(&self) -> Plan {
        let plan = Plan {
            // Threads beyond that number share one of those for bodies.
            streams: self.streams().saturating_add((self.tasks == 0).into()),
            ring: self.ring,
            tickets: self.tickets,
            chunk: self.chunk,
            tasks: self.tasks,
            host_chunk: self.host_chunk,
            host_table: self.host_handlers().wire_len(),
            table: self.table,
            verbs: self.verbs,
            log: if self.log == 0 { 0 } else { self.log.saturating_add(RingHeader::BYTES) },
            heap: self.heap.checked_next_multiple_of(64).map_or(u64::MAX, |heap| heap.saturating_add(self.segment)),
            ..Plan::NO_TASKS
        };
        Plan { packed: plan.is_small(), ..plan }
    }

    /// [`Self::plan`] for a link, which may have memory for what the host polls.
    pub(crate) fn plan_for(&self, host_memory: bool) -> Plan {
        let placement = match (self.protocol, host_memory) {
            (Some(Protocol::Split), true) => Placement::TwoMemories,
            (Some(Protocol::Split), false) => Placement::OneMemory,
            _ => Placement::Coherent,
        };
        let staging = if self.protocol == Some(Protocol::DeviceDriven) { Staging::BYTES } else { 0 };
        Plan { placement, staging, ..self.plan() }
    }
}

/// Processors that this process may use: one number for as long as it runs, as layouts follow from it.
fn processors() -> u32 {
    static PROCESSORS: OnceLock<u32> = OnceLock::new();
    *PROCESSORS
        .get_or_init(|| std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)))
}

/// Streams of a program, however few tasks there are.
const MAX_STREAMS: u32 = 79;

/// The layout that `options` asks for, for a link that may have memory for what the host polls; the error states the
/// limits.
pub(crate) fn plan_of(options: &Options, host_memory: bool) -> Result<Layout, Error> {
    let (limit, streams) = (options.most_streams(), options.streams());
    if streams == 0 || streams > limit {
        let (expected, got) = (format!("1 to {limit}"), streams.to_string());
        return Err(Error::InvalidConfig { option: "Options::streams", expected, got });
    }
    if (1..u64::from(RingHeader::MAX_FRAME)).contains(&options.log) || options.log > 1 << 30 {
        let expected = format!("0, or {} to {}", RingHeader::MAX_FRAME, 1 << 30);
        return Err(Error::InvalidConfig { option: "Options::log", expected, got: options.log.to_string() });
    }
    if !options.segment.is_multiple_of(4096) || options.segment >= WireBuffer::MAX_LEN {
        let expected = format!("a multiple of 4096 below {}", WireBuffer::MAX_LEN);
        return Err(Error::InvalidConfig { option: "Options::segment", expected, got: options.segment.to_string() });
    }
    Layout::plan(&options.plan_for(host_memory)).map_err(|why| refused_plan(options, why))
}

/// Which option a plan was refused for.
pub(crate) fn refused_plan(options: &Options, why: PlanError) -> Error {
    let streams = options.streams();
    let &Options { ring, tickets, chunk, tasks, host_chunk, table, heap, .. } = options;
    let longest = QueueDescriptor::MAX_RING;
    let (option, expected, got) = match why {
        PlanError::TooLarge => (
            "Options::{heap, table, streams, ring, tickets, chunk}",
            "at most 2^64 bytes of window, 4 GiB of them slots".into(),
            format!("{heap}, {table}, {streams}, {ring}, {tickets}, {chunk}"),
        ),
        PlanError::Malformed if !ring.is_power_of_two() || !(2..=longest).contains(&ring) => {
            ("Options::ring", format!("a power of two from 2 to {longest}"), ring.to_string())
        }
        PlanError::Malformed if tickets > longest => {
            ("Options::tickets", format!("at most {longest}"), tickets.to_string())
        }
        PlanError::Malformed if tasks > MAX_TASKS => {
            ("Options::tasks", format!("at most {MAX_TASKS}"), tasks.to_string())
        }
        PlanError::Malformed => {
            let is_allowed = |chunk: u32| chunk.is_multiple_of(64) && chunk <= QueueDescriptor::MAX_CHUNK;
            let (option, got) =
                if is_allowed(chunk) { ("Options::host_chunk", host_chunk) } else { ("Options::chunk", chunk) };
            (option, format!("a multiple of 64 up to {}", QueueDescriptor::MAX_CHUNK), got.to_string())
        }
    };
    Error::InvalidConfig { option, expected, got }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the machine, and the other options.
    #[test]
    fn streams_follow_the_machine_as_far_as_there_is_room() {
        for tasks in [0, 1, 16, 17, 64] {
            let options = Options { tasks, ..Options::default() };
            let most = options.most_streams();
            assert_eq!(options.streams(), processors().clamp(8, most), "{tasks} tasks");
            assert!(plan_of(&options, false).is_ok(), "{tasks} tasks");
            let len = |streams| plan_of(&Options { streams, ..options.clone() }, false).expect("allowed").window_len();
            for (window, streams) in [(len(Some(3)), 3), (len(Some(3)) - 1, 2), (len(None), options.streams())] {
                assert_eq!(
                    options.clone().within(false, |heap| heap.end <= window).streams,
                    Some(streams),
                    "{tasks} tasks, {window} bytes"
                );
            }
            // What was asked for is not changed, and what nothing fits is refused as it was.
            assert_eq!(Options { streams: Some(7), ..options.clone() }.within(false, |_| false).streams, Some(7));
            assert_eq!(options.clone().within(false, |_| false).streams, Some(options.streams()));
        }
    }

    #[test]
    fn an_option_out_of_range_is_named() {
        let refused = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            plan_of(&options, false).expect_err("out of range").to_string()
        };
        assert_eq!(refused(|o| o.streams = Some(0)), "Options::streams: expected 1 to 79, got 0");
        assert_eq!(refused(|o| o.streams = Some(80)), "Options::streams: expected 1 to 79, got 80");
        assert_eq!(refused(|o| o.ring = 3), "Options::ring: expected a power of two from 2 to 65536, got 3");
        assert_eq!(refused(|o| o.ring = 1 << 17), "Options::ring: expected a power of two from 2 to 65536, got 131072");
        assert_eq!(refused(|o| o.tickets = 65537), "Options::tickets: expected at most 65536, got 65537");
        assert_eq!(refused(|o| o.chunk = 100), "Options::chunk: expected a multiple of 64 up to 16384, got 100");
        assert_eq!(refused(|o| o.tasks = 65), "Options::tasks: expected at most 64, got 65");
        let host_chunk = refused(|o| o.host_chunk = 1);
        assert_eq!(host_chunk, "Options::host_chunk: expected a multiple of 64 up to 16384, got 1");
        assert!(refused(|o| o.heap = u64::MAX).contains("2^64 bytes of window"));
        assert!(plan_of(&Options::default(), false).is_ok());
    }
}
