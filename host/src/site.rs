//! Where a call was going, for messages.

use std::fmt;

/// Where a call was going.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Device name.
    pub device: String,
    /// Handler path.
    pub handler: &'static str,
    /// How far it got: `submitting`, `waiting for the answer`, `reading the answer`.
    pub stage: &'static str,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call of `{}` on device {}, {}", self.handler, self.device, self.stage)
    }
}
