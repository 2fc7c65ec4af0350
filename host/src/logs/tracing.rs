//! Device logs as `tracing` events.

use super::{LogError, LogEvent, LogLevel, LogLine, Logs};
use crate::Node;
use std::time::Duration;
use tracing::{debug, error, info, trace, warn};

/// Between two reads; a device's ring keeps what comes in between.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The target of the events, for filters: `hamr::device=debug`.
const TARGET: &str = "hamr::device";

macro_rules! event {
    ($level:ident, $device:expr, $node:expr, $line:expr) => {{
        let LogLine { time_us, module, message, file, line, .. } = $line;
        $level!(target: TARGET, device = $device, node = $node, time_us, module, file, line, "{message}")
    }};
}

impl LogEvent {
    /// Emits it as an event of target `hamr::device`, with device, node, device time, module, file
    /// and line as fields.
    pub fn trace(&self, device: &str, node: u16) {
        match self {
            Self::Line(l) => match l.level {
                Some(LogLevel::ERROR) => event!(error, device, node, l),
                Some(LogLevel::WARN) => event!(warn, device, node, l),
                Some(LogLevel::DEBUG) => event!(debug, device, node, l),
                Some(LogLevel::TRACE) => event!(trace, device, node, l),
                _ => event!(info, device, node, l),
            },
            Self::Lost(lines) => {
                warn!(target: TARGET, device, node, lines, "lines lost: the device had no room for them")
            }
            Self::Garbled(bytes) => warn!(target: TARGET, device, node, bytes, "the device garbled its log"),
            Self::Epoch(epoch) => info!(target: TARGET, device, node, epoch, "a new epoch of the device"),
        }
    }
}

impl Node {
    /// Sends the device's log to `tracing` from now on, from a thread of its own, until the device
    /// is gone or this node is dropped.
    ///
    /// # Errors
    /// As for [`Self::logs`], and when no thread can be started.
    pub fn trace_logs(&self) -> Result<(), LogError> {
        let logs = self.logs()?;
        let node = self.info().node;
        let thread = std::thread::Builder::new().name("hamr-logs".into());
        let spawned = thread.spawn(move || forward(logs, node));
        spawned.map(drop).map_err(|e| LogError::Image(crate::Error::io("starting a thread for logs")(e)))
    }
}

fn forward(mut logs: Logs, node: u16) {
    loop {
        // Asked first: what comes after the device's end is read once more.
        let is_last = logs.is_closed();
        for event in logs.poll() {
            event.trace(&logs.inner.name, node);
        }
        if is_last {
            return;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
