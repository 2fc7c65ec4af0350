//! What a host looks at in the device's copy, at the device's end.

use super::{Body, Lost, Message};
use alloc::collections::VecDeque;

/// Bytes of the longest look.
pub const MOST_LOOK: u32 = 1 << 15;
/// Looks on their way at most: an end that is asked for more has no host at its other one.
pub(super) const MOST_LOOKS: usize = 64;

/// A range of the window.
pub(super) type Range = (u64, u32);

/// Looks that a host asked for, at the other end.
#[derive(Default)]
pub(super) struct Asked(VecDeque<Range>);

impl Asked {
    pub(super) fn put(&mut self, off: u64, len: u32) -> Result<(), Lost> {
        if len > MOST_LOOK || self.0.len() >= MOST_LOOKS {
            return Err(Lost::of(format_args!(
                "expected at most {MOST_LOOKS} looks at {MOST_LOOK} bytes, got one more at {len}"
            )));
        }
        self.0.push_back((off, len));
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The answer to the oldest, by `read`, where there is one. The heap begins at `heap`.
    pub(super) fn answer(
        &mut self,
        heap: u64,
        message: &mut Message,
        read: impl FnOnce(u64, &mut [u8]) -> Result<(), Lost>,
    ) -> Result<bool, Lost> {
        let Some((off, len)) = self.0.pop_front() else { return Ok(false) };
        if off.checked_add(len.into()).is_none_or(|end| end > heap) {
            return Err(Lost::of(format_args!(
                "expected a look before the heap at {heap:#x}, got {len} bytes at {off:#x}"
            )));
        }
        message.body = Body::Seen(off);
        message.bytes.clear();
        message.bytes.resize(len as usize, 0);
        read(off, &mut message.bytes)?;
        Ok(true)
    }
}
