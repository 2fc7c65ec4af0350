//! Lines of a device's log that nothing had read when an epoch ended: the next epoch clears the
//! ring.

use super::Device;
use crate::ImageFile;
use crate::log_ring::{Cursor, Taken};
use crate::window::epoch_of;
use hamr_comm::abi::rings::{LogLevel, RingHeader};
use hamr_comm::abi::section::{Section, SectionKind};
use std::sync::{Arc, MutexGuard, PoisonError};

/// Epochs of which lines are kept for a reader that does not poll.
const MAX_BACKLOGS: usize = 16;

/// What was left unread when epochs ended.
#[derive(Debug, Default)]
pub(crate) struct LogBacklogs {
    /// With the level that was asked for, and `image` of then.
    pub(crate) unread: Vec<(Taken, LogLevel, Option<Arc<ImageFile>>)>,
    /// The image of the epoch that began last; `None`: the one that the device was opened with.
    pub(crate) image: Option<Arc<ImageFile>>,
    /// The last of them: what the window still shows of it has been taken.
    pub(crate) epoch: u32,
    /// The window may be another host's by now.
    pub(crate) is_released: bool,
}

impl Device {
    pub(crate) fn log_section(&self) -> Option<Section> {
        self.layout.section(SectionKind::LOG).ok().filter(|s| s.len >= RingHeader::BYTES)
    }

    pub(crate) fn log_backlogs(&self) -> MutexGuard<'_, LogBacklogs> {
        self.log_backlogs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what the reader has not seen of an epoch that is over; the next layout clears the
    /// ring. The next epoch is of `image`.
    pub(super) fn keep_log_backlog(&self, image: Option<Arc<ImageFile>>, last: u32) {
        // Locked before the reader's position is read, which a poll may be about to move.
        let mut ended = self.log_backlogs();
        // Of a device that is back, another host's epoch may be in the window.
        if epoch_of(self.link.window()) == last {
            self.keep_log_backlog_in(&mut ended);
        }
        ended.image = image;
    }

    /// The link is about to be released: keeps what the reader has not seen, and ends the reader's
    /// use of the window.
    pub(super) fn release_logs(&self) {
        let mut ended = self.log_backlogs();
        self.keep_log_backlog_in(&mut ended);
        ended.is_released = true;
    }

    fn keep_log_backlog_in(&self, ended: &mut LogBacklogs) {
        let window = self.link.window();
        let Some(mut cursor) = self.log_section().and_then(|s| Cursor::at_consumed(window, s)) else { return };
        let epoch = epoch_of(window);
        let is_kept = std::mem::replace(&mut ended.epoch, epoch) == epoch;
        if !is_kept && cursor.is_claimed(window) && ended.unread.len() < MAX_BACKLOGS {
            let level = cursor.level(window);
            let image = ended.image.clone();
            self.link.refresh(SectionKind::LOG);
            ended.unread.push((cursor.take(window), level, image));
        }
    }
}
