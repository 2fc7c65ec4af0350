//! Sizes and habits of one device, as the program asks for them.

use crate::Error;
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::FOR_EVER;
use hamr_comm::abi::rings::LogLevel;
use hamr_comm::handshake::IdlePolicy;
use std::time::Duration;

/// Sizes and habits of one device. The defaults suit most programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Streams that can be open at once, at most 79. Memory: about 200 KiB of window each.
    pub streams: u32,
    /// Ring slots of each stream, a power of two: calls in flight before the submitter must move replies aside.
    pub ring: u32,
    /// Queued calls in flight per stream.
    pub tickets: u32,
    /// Bytes of each staging chunk, a multiple of 64, at most 16 KiB: longer messages take a buffer.
    pub chunk: u32,
    /// Bytes of the device's heap.
    pub heap: u64,
    /// Buffers alive at once.
    pub max_buffers: u32,
    /// Calls in flight or unread per stream.
    pub max_outstanding: usize,
    /// How long a wait lasts at most, unless the call says otherwise; `None` waits as long as the device lives.
    pub deadline: Option<Duration>,
    /// How long the device may take to start.
    pub start_deadline: Duration,
    /// A device that ended its epoch after a fault (a hosted image that trapped, an image with `on_fault = reset`, a fault of the
    /// runtime itself) begins another at the next call. Statics of its handlers start afresh if it was restarted; buffers stay.
    pub restart: bool,
    /// The least severe lines that the device is asked to log.
    pub log_level: LogLevel,
    /// Pins the device's dispatcher to this processor.
    pub cpu: Option<usize>,
    /// How both sides wait for each other.
    pub wait: WaitMode,
    /// With [`WaitMode::Adaptive`]: how long either side polls without result before it sleeps.
    pub spin: Duration,
    /// How long either side sleeps at most without being notified. A net under sleeping, which nothing rests on where every
    /// doorbell arrives; `None` does without.
    pub longest_sleep: Option<Duration>,
}

/// How host and device wait for each other. Devices without a doorbell (loopback, and images that know none) poll and nap,
/// whatever is asked for here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WaitMode {
    /// Always poll: the least latency, for a processor each.
    Spin,
    /// Poll for [`Options::spin`], then sleep until the other side notifies.
    #[default]
    Adaptive,
    /// Sleep at once: the least work, for a wake-up each way per call.
    Sleep,
}

impl Default for Options {
    fn default() -> Self {
        let plan = Plan::default();
        Self {
            streams: plan.streams,
            ring: plan.ring,
            tickets: plan.tickets,
            chunk: plan.chunk,
            heap: plan.heap,
            max_buffers: 1 << 16,
            max_outstanding: 1 << 20,
            deadline: Some(Duration::from_secs(60)),
            start_deadline: Duration::from_secs(10),
            restart: true,
            log_level: LogLevel::INFO,
            cpu: None,
            wait: WaitMode::Adaptive,
            spin: Duration::from_micros(300),
            longest_sleep: Some(Duration::from_millis(50)),
        }
    }
}

impl Options {
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

    pub(crate) fn plan(&self) -> Plan {
        Plan {
            streams: self.streams,
            ring: self.ring,
            tickets: self.tickets,
            chunk: self.chunk,
            heap: self.heap,
            ..Plan::default()
        }
    }
}

/// The layout that `options` asks for; the error says what the limits are.
pub(crate) fn plan_of(options: &Options) -> Result<Layout, Error> {
    let limit = hamr_comm::am::MAX_QUEUES as u32 - 1;
    if options.streams == 0 || options.streams > limit {
        return Err(Error::Plan(format!("expected 1 to {limit} streams, got {}", options.streams)));
    }
    Layout::plan(&options.plan()).map_err(|e| {
        Error::Plan(format!(
            "ring must be a power of two from 2 to 65536 (got {}), chunk a multiple of 64 up to 16384 (got {}) ({e:?})",
            options.ring, options.chunk
        ))
    })
}
