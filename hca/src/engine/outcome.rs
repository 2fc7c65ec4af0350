//! The outcome of a request.

use hamr_verbs::wire::{WcOpcode, WcStatus};

/// What a completion says of a request.
pub(super) struct Outcome {
    pub(super) status: WcStatus,
    pub(super) opcode: WcOpcode,
    pub(super) length: u32,
    pub(super) immediate: Option<u32>,
}

impl Outcome {
    /// Success of no bytes.
    pub(super) fn of(opcode: WcOpcode) -> Self {
        Self { status: WcStatus::SUCCESS, opcode, length: 0, immediate: None }
    }
}
