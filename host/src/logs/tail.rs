//! The log of another program's device, read beside its owner: from the window, mapped read-only,
//! with a cursor of its own.

use super::lines::Decoder;
use super::{LogError, LogEvent, LogLevel, StringTable, does_log, wait_for};
use crate::log_ring::Cursor;
use crate::window::{self, InspectError, WindowState, laid_out_epoch};
use crate::{BuildId, ImageFile};
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::preamble::{DeviceRecord, Preamble};
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::sync::{Ordering, fence};
use hamr_comm::abi::window::{Shared, Window};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a window may be between two epochs of its device.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two searches for a device.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// An observer at the log of a window: it takes no line from the reader that the device waits for,
/// and the device does not wait for it. Lines that were written over before it came by are counted.
pub struct LogTail {
    path: PathBuf,
    window: Window<Shared>,
    /// Device and inode number: what the path stands for as long as the window is open there.
    file: (u64, u64),
    image: ImageFile,
    level: LogLevel,
    cursor: Cursor,
    decoder: Decoder,
    epoch: u32,
}

impl std::fmt::Debug for LogTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch({})", self.path.display())
    }
}

impl LogTail {
    /// Opens a window by its path (`/proc/PID/fd/N` of a live one, or a copy), with the texts of
    /// `image`, for lines of `level` and more severe ones. Lines that the owner does not ask its
    /// device for are not written, and do not come.
    ///
    /// # Errors
    /// When it is no window, no device has accepted it, the device does not log, or `image` is of
    /// another build than what runs.
    pub fn open(path: &Path, image: &ImageFile, level: LogLevel) -> Result<Self, LogError> {
        let window = window::open(path)?;
        let facts = std::fs::metadata(path);
        let facts =
            facts.map_err(|source| InspectError::Os { path: path.into(), what: "looking for a window", source })?;
        let name = path.display().to_string();
        let device = accepted(&window, path)?;
        if !does_log(&device) {
            return Err(LogError::NoLogs { device: name });
        }
        check_build(&device, image, path)?;
        let string_table = StringTable::of(image)?;
        let section = window.read::<Preamble>(0).ok().and_then(|p| Layout::read(&p, &window).ok());
        let section = section.and_then(|layout| layout.section(SectionKind::LOG).ok());
        let cursor = section.and_then(|section| Cursor::at_oldest(&window, section));
        let cursor = cursor.ok_or(LogError::NoLogs { device: name })?;
        let decoder = Decoder::new(string_table, cursor.is_at_start());
        let epoch = laid_out_epoch(&window).unwrap_or_default();
        let file = (facts.dev(), facts.ino());
        Ok(Self { path: path.into(), window, file, image: image.clone(), level, cursor, decoder, epoch })
    }

    /// The least severe level that the owner has set.
    pub fn owners_level(&self) -> LogLevel {
        self.cursor.level(&self.window)
    }

    /// The node that the device is.
    pub fn node(&self) -> u16 {
        // The handshake allows half a word; a larger value is cut.
        self.window.read::<Preamble>(0).map_or(0, |p| p.node as u16)
    }

    /// What has come since the last read; never waits. A window that its owner has closed can still
    /// be read.
    ///
    /// # Errors
    /// When the device was restarted with another build than the texts are of.
    pub fn poll(&mut self) -> Result<Vec<LogEvent>, LogError> {
        let mut events = Vec::new();
        let Some(epoch) = laid_out_epoch(&self.window) else { return Ok(events) };
        if epoch != self.epoch {
            let state = WindowState::read(&self.window);
            if !serves(&state, epoch) {
                // Its device has not answered yet, so there are no lines either.
                return Ok(events);
            }
            check_build(&state.record, &self.image, &self.path)?;
            self.epoch = epoch;
            self.cursor.rewind();
            self.decoder.restart();
            events.push(LogEvent::Epoch(epoch));
        }
        let (before, taken) = (self.cursor, self.cursor.take(&self.window));
        // What was copied is of this epoch only when it goes on.
        fence(Ordering::Acquire);
        if laid_out_epoch(&self.window) == Some(epoch) {
            self.decoder.decode(taken, self.level, &mut events);
        } else {
            self.cursor = before;
        }
        Ok(events)
    }

    /// [`Self::poll`], waiting until something is there, or for so long.
    ///
    /// # Errors
    /// As for [`Self::poll`].
    pub fn wait_timeout(&mut self, limit: Duration) -> Result<Vec<LogEvent>, LogError> {
        wait_for(limit, || self.poll())
    }

    /// Has the window been closed where the path finds it? True of a copy, too, in which nothing
    /// moves. The last lines may still be unread.
    pub fn is_closed(&self) -> bool {
        // A live window has no name in any file system. What has one is a copy.
        !std::fs::metadata(&self.path).is_ok_and(|facts| facts.nlink() == 0 && (facts.dev(), facts.ino()) == self.file)
    }
}

/// What the device reports of itself, once it has accepted the window's epoch.
fn accepted(window: &Window<Shared>, path: &Path) -> Result<DeviceRecord, LogError> {
    let begin = Instant::now();
    loop {
        let state = WindowState::read(window);
        if serves(&state, state.host.epoch) {
            return Ok(state.record);
        }
        if begin.elapsed() >= OPEN_TIMEOUT {
            return Err(LogError::NoDevice { path: path.into() });
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Does the device serve the epoch `epoch`, with an image that reports its build id?
fn serves(state: &WindowState, epoch: u32) -> bool {
    state.preamble().is_some() && state.device.epoch == epoch && state.record.build_id != [0; 20]
}

fn check_build(record: &DeviceRecord, image: &ImageFile, path: &Path) -> Result<(), LogError> {
    let running = BuildId::of(&record.build_id);
    if running == image.build_id {
        return Ok(());
    }
    Err(LogError::OtherBuild {
        device: path.display().to_string(),
        running,
        path: image.path.clone(),
        file: image.build_id.clone(),
    })
}
