//! Log lines of devices, read from the window and decoded with the texts in the image's file
//! (`docs/logs.md`).
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use hamr::logs::LogEvent;
//! let dev = hamr::Runtime::new()?.open("shm", hamr::Image::find("my-image")?)?;
//! let mut logs = dev.logs()?;                     // or `dev.trace_logs()?`: everything goes to `tracing`
//! for event in logs.poll() {
//!     if let LogEvent::Line(line) = event {
//!         println!("{} {}", line.module, line.message);
//!     }
//! }
//! # Ok(()) }
//! ```

mod decode;
mod lines;
mod locations;
mod log_line;
mod string_table;
mod tail;
mod tracing;
mod values;

pub use hamr_comm::abi::rings::LogLevel;
pub use log_line::LogLine;
pub use string_table::StringTable;
pub use tail::LogTail;

use crate::device::Device;
use crate::log_ring::{Cursor, set_level};
use crate::window::{InspectError, epoch_of, laid_out_epoch};
use crate::{BuildId, Error, ImageFile, Node};
use hamr_comm::abi::preamble::{DeviceRecord, feature};
use hamr_comm::abi::section::SectionKind;
use lines::Decoder;
pub(crate) use lines::last_lines;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two polls of a reader that waits for lines.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Why there are no logs to read.
#[derive(thiserror::Error)]
pub enum LogError {
    /// The image does not log.
    #[error(
        "device {device}: expected an image that logs, got one that does not offer to: build it with `hamr image` (a plain `cargo \
         build` leaves logs out), or choose another device"
    )]
    NoLogs {
        /// Its name.
        device: String,
    },
    /// The file that the device runs is not known.
    #[error(
        "device {device}: expected an image file to read the texts of logs from, got a device that was started by others; name its file"
    )]
    NoImage {
        /// Its name.
        device: String,
    },
    /// Texts of another build would be garbage.
    #[error(
        "device {device}: expected the file of the running image, build id {running}, got {} with build id {file}: logs are refused, \
         since its texts are of another build; start the device again, or keep the file it was started from", path.display()
    )]
    OtherBuild {
        /// Its name.
        device: String,
        /// Build id of what runs.
        running: BuildId,
        /// The file.
        path: PathBuf,
        /// Its build id.
        file: BuildId,
    },
    /// A window in which no device is at work.
    #[error("window {}: expected one whose device has accepted its host, got none within {:?}; `inspect` shows what it holds", path.display(), tail::OPEN_TIMEOUT)]
    NoDevice {
        /// The window.
        path: PathBuf,
    },
    /// The window.
    #[error(transparent)]
    Window(#[from] InspectError),
    /// There is a reader, and lines come once.
    #[error("device {device}: its logs already have a reader; drop that one first")]
    Taken {
        /// Its name.
        device: String,
    },
    /// The file.
    #[error(transparent)]
    Image(#[from] Error),
}

crate::error::debug_as_display! {
    LogError;
}

/// What a reader finds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogEvent {
    /// A line.
    Line(LogLine),
    /// So many lines are missing here or a little earlier: there was no room for them, or they were
    /// written over before they were read.
    Lost(u32),
    /// So many bytes that are no lines: the device garbled its ring.
    Garbled(usize),
    /// A new epoch of the device, by its epoch; its lines follow.
    Epoch(u32),
}

impl Node {
    /// Asks the device for lines of this level and more severe ones, from the next line on.
    pub fn set_log_level(&self, level: LogLevel) {
        let inner = self.device();
        set_level(inner.link.window(), inner.log_section(), level);
    }

    /// The device's lines: those of its start first. One reader at a time, since a line comes once.
    ///
    /// # Errors
    /// When the image does not log, its file is unknown or of another build, or there is a reader
    /// already.
    pub fn logs(&self) -> Result<Logs, LogError> {
        let inner = self.device();
        let device = inner.name.clone();
        match &inner.running().file {
            Some(image) => self.logs_from(&ImageFile::open(&image.path)?),
            None if does_log(&inner.epoch_info().record) => Err(LogError::NoImage { device }),
            None => Err(LogError::NoLogs { device }),
        }
    }

    /// [`Self::logs`] with texts from a file: for devices that another program started.
    ///
    /// # Errors
    /// As for [`Self::logs`].
    pub fn logs_from(&self, image: &ImageFile) -> Result<Logs, LogError> {
        let inner = self.device();
        let (device, record) = (inner.name.clone(), inner.epoch_info().record);
        if !does_log(&record) {
            return Err(LogError::NoLogs { device });
        }
        let running = BuildId::of(&record.build_id);
        if running != image.build_id || running.is_none() {
            let (path, file) = (image.path.clone(), image.build_id.clone());
            return Err(LogError::OtherBuild { device, running, path, file });
        }
        let string_table = StringTable::of(image)?;
        let window = inner.link.window();
        // Of two threads that ask at once, one becomes the reader.
        let claiming = inner.log_backlogs();
        inner.link.refresh(SectionKind::LOG);
        let cursor = inner.log_section().and_then(|s| Cursor::at_oldest(window, s));
        let mut cursor = cursor.ok_or(LogError::NoLogs { device: device.clone() })?;
        if cursor.is_claimed(window) {
            return Err(LogError::Taken { device });
        }
        cursor.claim(window, true);
        let image = claiming.image.clone().or_else(|| inner.running().file);
        drop(claiming);
        let epoch = epoch_of(window);
        let decoder = Decoder::new(string_table, cursor.is_at_start());
        Ok(Logs { inner: inner.clone(), decoder, image, cursor, epoch })
    }
}

/// Does the image log?
fn does_log(record: &DeviceRecord) -> bool {
    record.features & feature::LOGS != 0
}

/// The reader of a device's log.
pub struct Logs {
    inner: Arc<Device>,
    decoder: Decoder,
    /// Whose texts the decoder has.
    image: Option<Arc<ImageFile>>,
    cursor: Cursor,
    epoch: u32,
}

impl std::fmt::Debug for Logs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Logs({})", self.inner.name)
    }
}

impl Logs {
    /// What has come since the last read; never waits. A device that is gone can still be read.
    pub fn poll(&mut self) -> Vec<LogEvent> {
        let inner = self.inner.clone();
        let window = inner.link.window();
        let mut events = Vec::new();
        let mut ended = inner.log_backlogs();
        for (tail, level, image) in ended.unread.drain(..) {
            self.follow_image(image);
            self.decoder.decode(tail, level, &mut events);
            self.decoder.restart();
        }
        if ended.is_released {
            return events;
        }
        let level = self.cursor.level(window);
        // From the end of an epoch until the next is laid out, the ring belongs to neither.
        let Some(epoch) = laid_out_epoch(window).filter(|epoch| *epoch != ended.epoch) else { return events };
        if epoch != self.epoch {
            self.epoch = epoch;
            self.cursor.rewind();
            self.decoder.restart();
            self.follow_image(ended.image.clone());
            events.push(LogEvent::Epoch(epoch));
        }
        inner.link.refresh(SectionKind::LOG);
        let taken = self.cursor.take(window);
        self.cursor.give_back(window);
        drop(ended);
        self.decoder.decode(taken, level, &mut events);
        events
    }

    /// The lines behind are another image's ([`Node::load_image`]): they have the texts of its file. Where
    /// that cannot be read, their ids mean nothing.
    fn follow_image(&mut self, image: Option<Arc<ImageFile>>) {
        let is_same = |new: &Arc<ImageFile>| self.image.as_ref().is_some_and(|old| Arc::ptr_eq(old, new));
        if let Some(new) = image.filter(|new| !is_same(new)) {
            self.decoder = Decoder::new(StringTable::of(&new).unwrap_or_default(), true);
            self.image = Some(new);
        }
    }

    /// [`Self::poll`], waiting until something is there, or for so long.
    pub fn wait_timeout(&mut self, limit: Duration) -> Vec<LogEvent> {
        let Ok(events) = wait_for(limit, || Ok::<_, std::convert::Infallible>(self.poll()));
        events
    }

    /// How the device ended, if it has. Its last lines may still be unread.
    pub fn ended(&self) -> Option<String> {
        self.inner.check_peer();
        self.inner.is_lost().then(|| self.inner.loss_reason())
    }

    /// Was the device's [`Node`] dropped? The device's last lines may still be unread.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        let ended = self.inner.log_backlogs();
        if !ended.is_released && self.inner.is_here() {
            self.cursor.claim(self.inner.link.window(), false);
        }
    }
}

/// Reads until an event is there, or for so long.
fn wait_for<E>(limit: Duration, mut look: impl FnMut() -> Result<Vec<LogEvent>, E>) -> Result<Vec<LogEvent>, E> {
    let begin = Instant::now();
    loop {
        let events = look()?;
        if !events.is_empty() || begin.elapsed() >= limit {
            return Ok(events);
        }
        std::thread::sleep(POLL_INTERVAL.min(limit));
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod cases;
#[cfg(test)]
mod tests;
