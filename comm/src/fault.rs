//! Faults: what a handler, or the runtime around it, reports when a call cannot produce its value.
//!
//! A fault travels as a status code, three numbers and a short text. The numbers carry expected and got; the host turns
//! them into a sentence, so that an image needs no formatting code.

use crate::migrate::{Encoder, Migratable};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::window::ClaimError;

/// Bytes of text in a handler's own fault; longer text is cut at a character boundary. Small, because every
/// `Result<_, Fault>` is at least this large. A panic's message does not pass through here and may be longer.
pub const FAULT_TEXT: usize = 80;

/// A call ended without a value. Handlers return it as their error, or make one with [`Fault::msg`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What kind.
    pub status: Status,
    /// Numbers that belong to the kind; [`explain`] says them.
    pub numbers: [u64; 3],
    /// A few words, or empty.
    pub text: heapless::String<FAULT_TEXT>,
}

impl Fault {
    /// A fault of some kind without text.
    pub const fn new(status: Status, numbers: [u64; 3]) -> Self {
        Self { status, numbers, text: heapless::String::new() }
    }

    /// A handler's own fault: "failed", with a reason. Text beyond 80 bytes is cut.
    pub fn msg(text: &str) -> Self {
        Self::with_text(Status::FAILED, text)
    }

    /// A fault of some kind with text, cut at a character boundary.
    pub fn with_text(status: Status, text: &str) -> Self {
        let mut fault = Self::new(status, [0; 3]);
        for c in text.chars() {
            if fault.text.push(c).is_err() {
                break;
            }
        }
        fault
    }

    /// Appends the wire form: three numbers, then the text.
    pub fn encode(&self, out: &mut Encoder<'_>) {
        self.numbers.encode(out);
        out.bytes(self.text.as_bytes());
    }
}

/// What `numbers[0]` of a BAD_BUFFER fault says.
mod bad_buffer {
    pub(super) const OUTSIDE: u64 = 1;
    pub(super) const OVERLAP: u64 = 2;
    pub(super) const MISALIGNED: u64 = 3;
    pub(super) const FOREIGN: u64 = 4;
}

impl From<ClaimError> for Fault {
    fn from(e: ClaimError) -> Self {
        let numbers = match e {
            ClaimError::Outside { claim, heap, .. } => {
                [bad_buffer::OUTSIDE, claim.off.saturating_add(claim.bytes), heap]
            }
            ClaimError::Overlap { first, second } => [bad_buffer::OVERLAP, first as u64, second as u64],
            ClaimError::Misaligned { off, align } => [bad_buffer::MISALIGNED, off, align],
        };
        Self::new(Status::BAD_BUFFER, numbers)
    }
}

impl Fault {
    /// A buffer argument that names another node's memory.
    pub(crate) fn foreign_buffer(named: u16, here: u16) -> Self {
        Self::new(Status::BAD_BUFFER, [bad_buffer::FOREIGN, named.into(), here.into()])
    }

    /// A buffer argument that reaches past the heap.
    pub(crate) fn outside_heap(end: u64, heap: u64) -> Self {
        Self::new(Status::BAD_BUFFER, [bad_buffer::OUTSIDE, end, heap])
    }
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        explain(self.status, self.numbers, f)?;
        if !self.text.is_empty() {
            write!(f, ": {}", self.text)?;
        }
        Ok(())
    }
}

/// Says what a fault's status and numbers mean, with expected and got.
pub fn explain(status: Status, numbers: [u64; 3], f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
    let [kind, a, b] = numbers;
    match (status, kind) {
        (Status::BAD_BUFFER, bad_buffer::OUTSIDE) => {
            write!(f, "buffer ends at byte {a:#x}, the memory it may use at {b:#x}")
        }
        (Status::BAD_BUFFER, bad_buffer::OVERLAP) => {
            write!(f, "buffers {a} and {b} of one view overlap and one is written")
        }
        (Status::BAD_BUFFER, bad_buffer::MISALIGNED) => {
            write!(f, "buffer at byte {a:#x} of the heap is not a whole number of elements aligned to {b}")
        }
        (Status::BAD_BUFFER, bad_buffer::FOREIGN) => write!(f, "buffer of node {a} used on node {b}"),
        (status, _) => f.write_str(status.text()),
    }
}

impl core::error::Error for Fault {}
