//! Replies that are in a stream's hot slot before their requests.

use super::BoxError;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::slot::{COUNT_BITS, RepHdr, seq};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{Queue, Shared, Window};
use hamr_comm::am::{SlotAccess, Slots};

/// Sends the replies of the next call in a stream's hot slot before the call is sent.
pub(super) struct Ahead {
    lines: Queue<Shared>,
    count: u32,
}

impl Ahead {
    /// Of the stream with queue pair `number`, which has made no call.
    pub(super) fn new(host: &Window<Shared>, layout: &Layout, number: u32) -> Result<Self, BoxError> {
        let lines = layout.queue(host, number).map_err(|e| format!("{e:?}"))?;
        Ok(Self { lines: host.queue(&lines)?, count: 0 })
    }

    /// The next call gets its reply from the device.
    pub(super) fn skip(&mut self) {
        self.count += 1;
    }

    /// The next call returns `len` bytes.
    pub(super) fn answer(&mut self, len: usize) {
        self.count += 1;
        self.lines.hot().write_reply(&[0]);
        self.lines.hot().publish_reply(RepHdr::inline(Status::OK, len).0, seq(1, self.count, COUNT_BITS));
    }
}
