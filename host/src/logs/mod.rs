//! What devices say: lines of their logs, read from the window and decoded with the texts in the image's file (`docs/logs.md`).
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
mod ring;
mod string_table;
mod tail;
mod tracing;
mod values;

pub use hamr_comm::abi::rings::LogLevel;
pub use string_table::StringTable;
pub use tail::LogTail;

use crate::inspect::InspectError;
use crate::node::Device;
use crate::text::Clean;
use crate::{BuildId, DeviceInfo, Error, Features, ImageFile, Node};
use hamr_comm::abi::preamble::word;
use hamr_comm::abi::rings::RingHeader;
use hamr_comm::abi::section::{Section, SectionKind};
use hamr_comm::abi::window::{Shared, Window};
use lines::Decoder;
pub(crate) use lines::last_lines;
use ring::{Cursor, Taken};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks of whoever waits for lines.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Ends of earlier epochs kept for a reader that has not come by.
const MAX_BACKLOGS: usize = 16;

/// Why there are no logs to read.
#[derive(Debug, thiserror::Error)]
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
    /// Nobody said which file the device runs.
    #[error(
        "device {device}: expected an image file to read the texts of logs from, got a device that was started by others"
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

/// One line of a device's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// How severe it is; `None` for lines without a level (`println`).
    #[serde(serialize_with = "level_name")]
    pub level: Option<LogLevel>,
    /// Device time in microseconds since its reset or start; 0 until it knows its clock. `None` for images without time.
    pub time_us: Option<u64>,
    /// The module that said it; the crate when the file has no debug information.
    pub module: String,
    /// What it said.
    pub message: String,
    /// Source file; empty when the image's file has no debug information.
    pub file: String,
    /// Line in it.
    pub line: u32,
}

/// A row: time, level, module, message, place, so that rows that come one by one stand below each other. A device's text is kept
/// from moving the reader's cursor.
impl std::fmt::Display for LogLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { level, time_us, module, message, file, line } = self;
        let time = time_us.map_or_else(String::new, |us| format!("{}.{:06}", us / 1_000_000, us % 1_000_000));
        let level = level.map_or("", LogLevel::name).to_uppercase();
        let clean = |text: &str| Clean(text).to_string();
        let (module, message, file) = (clean(module), clean(message), clean(file));
        let location = if file.is_empty() { String::new() } else { format!("  {file}:{line}") };
        write!(f, "{time:>12}  {level:<5}  {module:<30}  {message:<56}{location}")
    }
}

fn level_name<S: serde::Serializer>(level: &Option<LogLevel>, to: S) -> Result<S::Ok, S::Error> {
    level.map(LogLevel::name).serialize(to)
}

/// What a reader finds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogEvent {
    /// A line.
    Line(LogLine),
    /// So many lines are missing here or a little earlier: there was no room for them, or they were written over before they were read.
    Lost(u32),
    /// So many bytes that are no lines: the device garbled its ring.
    Garbled(usize),
    /// A new epoch of the device, by its epoch; its lines follow.
    Epoch(u32),
}

/// What was left unread when epochs ended.
#[derive(Debug, Default)]
pub(crate) struct LogBacklogs(Mutex<UnreadBacklog>);

#[derive(Debug, Default)]
struct UnreadBacklog {
    /// With the level that was asked for.
    unread: Vec<(Taken, LogLevel)>,
    /// The last of them: what the window still shows of it has been taken.
    epoch: u32,
    /// The window may be another host's by now.
    is_released: bool,
}

impl Device {
    fn log_section(&self) -> Option<Section> {
        self.layout.section(SectionKind::LOG).ok().filter(|s| s.len >= RingHeader::BYTES)
    }

    /// Says which lines are wanted; before the first offer, too, so that the device's first lines are chosen by it.
    pub(crate) fn set_wanted_log_level(window: &Window<Shared>, section: Option<Section>, level: LogLevel) {
        if let Some(section) = section
            && let Ok(word) = window.word(section.off + RingHeader::LEVEL)
        {
            word.store(level.0);
        }
    }

    /// Keeps what the reader has not seen of an epoch that is over; the next layout clears the ring.
    pub(crate) fn keep_log_backlog(&self) {
        // Before the place is read, which a look may be about to move.
        let mut ended = self.log_backlogs.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.keep_log_tail_in(&mut ended);
    }

    /// The link is about to be released: keeps what the reader has not seen, and ends the reader's use of the window.
    pub(crate) fn release_logs(&self) {
        let mut ended = self.log_backlogs.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.keep_log_tail_in(&mut ended);
        ended.is_released = true;
    }

    fn keep_log_tail_in(&self, ended: &mut UnreadBacklog) {
        let window = self.link.window();
        let Some(mut cursor) = self.log_section().and_then(|s| Cursor::at_consumed(window, s)) else { return };
        let epoch = epoch_of(window);
        let is_kept = std::mem::replace(&mut ended.epoch, epoch) == epoch;
        if !is_kept && cursor.is_claimed(window) && ended.unread.len() < MAX_BACKLOGS {
            let level = cursor.level(window);
            ended.unread.push((cursor.take(window), level));
        }
    }
}

impl Node {
    /// Asks the device for lines of this level and more severe ones, from the next line on.
    pub fn set_log_level(&self, level: LogLevel) {
        let inner = self.device();
        Device::set_wanted_log_level(inner.link.window(), inner.log_section(), level);
    }

    /// The device's lines: those of its start first. One reader at a time, since a line comes once.
    ///
    /// # Errors
    /// When the image does not log, its file is unknown or of another build, or there is a reader already.
    pub fn logs(&self) -> Result<Logs, LogError> {
        let (info, device) = (self.info(), self.device().name.clone());
        match info.image {
            Some(path) => self.logs_from(&ImageFile::open(&path)?),
            None if does_log(&info) => Err(LogError::NoImage { device }),
            None => Err(LogError::NoLogs { device }),
        }
    }

    /// [`Self::logs`] with texts from a file: for devices that somebody else started.
    ///
    /// # Errors
    /// As for [`Self::logs`].
    pub fn logs_from(&self, image: &ImageFile) -> Result<Logs, LogError> {
        let (info, inner) = (self.info(), self.device());
        let device = inner.name.clone();
        if !does_log(&info) {
            return Err(LogError::NoLogs { device });
        }
        if info.build_id != image.build_id || info.build_id.is_none() {
            let (path, file) = (image.path.clone(), image.build_id.clone());
            return Err(LogError::OtherBuild { device, running: info.build_id, path, file });
        }
        let string_table = StringTable::of(image)?;
        let window = inner.link.window();
        // Of two threads that ask at once, one becomes the reader.
        let claiming = inner.log_backlogs.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cursor = inner.log_section().and_then(|s| Cursor::at_oldest(window, s));
        let mut cursor = cursor.ok_or(LogError::NoLogs { device: device.clone() })?;
        if cursor.is_claimed(window) {
            return Err(LogError::Taken { device });
        }
        cursor.claim(window, true);
        drop(claiming);
        let epoch = epoch_of(window);
        let decoder = Decoder::new(string_table, cursor.is_at_start());
        Ok(Logs { inner: inner.clone(), decoder, cursor, epoch })
    }
}

fn does_log(info: &DeviceInfo) -> bool {
    info.features.contains(Features::LOGS)
}

/// The host's own word; a device that overwrites it garbles its own logs.
fn epoch_of(window: &Window<Shared>) -> u32 {
    window.word(word::EPOCH).map_or(0, |word| word.observe())
}

/// The reader of a device's log.
pub struct Logs {
    inner: Arc<Device>,
    decoder: Decoder,
    cursor: Cursor,
    epoch: u32,
}

impl std::fmt::Debug for Logs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Logs({})", self.inner.name)
    }
}

impl Logs {
    /// What has come since the last look; never waits. A device that is gone can still be read.
    pub fn poll(&mut self) -> Vec<LogEvent> {
        let inner = self.inner.clone();
        let window = inner.link.window();
        let mut events = Vec::new();
        let mut ended = inner.log_backlogs.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (tail, level) in ended.unread.drain(..) {
            self.decoder.decode(tail, level, &mut events);
            self.decoder.restart();
        }
        if ended.is_released {
            return events;
        }
        let level = self.cursor.level(window);
        // From the end of an epoch until the next is laid out, which nobody else waits for, the ring is neither's.
        let Some(epoch) = tail::laid_out(window).filter(|epoch| *epoch != ended.epoch) else { return events };
        if epoch != self.epoch {
            self.epoch = epoch;
            self.cursor.rewind();
            self.decoder.restart();
            events.push(LogEvent::Epoch(epoch));
        }
        let taken = self.cursor.take(window);
        self.cursor.give_back(window);
        drop(ended);
        self.decoder.decode(taken, level, &mut events);
        events
    }

    /// [`Self::poll`], waiting until something is there, or for so long.
    pub fn wait(&mut self, at_most: Duration) -> Vec<LogEvent> {
        let Ok(events) = wait_for(at_most, || Ok::<_, std::convert::Infallible>(self.poll()));
        events
    }

    /// How the device ended, if it has. What it said last may still be unread.
    pub fn ended(&self) -> Option<String> {
        self.inner.check_peer();
        self.inner.is_lost().then(|| self.inner.loss_reason())
    }

    /// Was the device's [`Node`] dropped? What it said last may still be unread.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        let ended = self.inner.log_backlogs.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !ended.is_released {
            self.cursor.claim(self.inner.link.window(), false);
        }
    }
}

/// Looks until something is there, or for so long.
fn wait_for<E>(at_most: Duration, mut look: impl FnMut() -> Result<Vec<LogEvent>, E>) -> Result<Vec<LogEvent>, E> {
    let begin = Instant::now();
    loop {
        let events = look()?;
        if !events.is_empty() || begin.elapsed() >= at_most {
            return Ok(events);
        }
        std::thread::sleep(POLL_INTERVAL.min(at_most));
    }
}

#[cfg(test)]
mod tests;
