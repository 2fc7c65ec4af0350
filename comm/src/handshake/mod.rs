//! The handshake as two explicit state machines over one window (abi §3.4).
//!
//! ```text
//! host    RESET -> OFFERED -------------------> READY -> CLOSING
//!                     |                           ^         |
//! device  ABSENT -> CHECKING -> ACCEPTED ---------+-> SERVING -> STOPPED -> ...
//!                        \---> REFUSED (reason, expected, got)
//! ```
//! Each step reads what the peer published, copies it out, checks the copy, and publishes one word.
//! Calling a step again when nothing changed changes nothing, so both sides may poll.
//!
//! `offer` is the host's half, `accept` the device's. Images do not have the former.

mod accept;
#[cfg(any(not(hamr_bare), feature = "driven"))]
mod offer;

pub use accept::{Accepted, DeviceHandshake, DeviceProfile};
#[cfg(any(not(hamr_bare), feature = "driven"))]
pub use offer::{HostHandshake, Offer, OfferError, OfferState, Takeover};

use crate::registry::Table;
use hamr_shared_abi::layout::LayoutError;
use hamr_shared_abi::preamble::{Refusal, feature};
use hamr_shared_abi::table::{TableHeader, TableRecord};
use hamr_shared_abi::version::AbiVersion;
use hamr_shared_abi::window::{Loan, OutOfWindow, Window};

/// How a device polls and sleeps, as the host asks (abi §7.3); used only with the feature DOORBELL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IdlePolicy {
    /// Microseconds of polling without result before it sleeps.
    pub spin_us: u32,
    /// Microseconds that it sleeps at most; [`hamr_shared_abi::preamble::FOR_EVER`] is no limit.
    pub sleep_us: u32,
}

/// Why a device refused: the reason and its two detail words (expected, got).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The reason.
    pub reason: Refusal,
    /// What was expected.
    pub expected: u32,
    /// What came.
    pub got: u32,
}

impl Refused {
    const fn new(reason: Refusal, expected: u32, got: u32) -> Self {
        Self { reason, expected, got }
    }
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: ", self.reason.text())?;
        match self.reason {
            Refusal::ABI => write!(
                f,
                "the image speaks {}, the host offers up to {}",
                AbiVersion::from_wire(self.expected),
                AbiVersion::from_wire(self.got)
            ),
            Refusal::SECTION => write!(f, "section kind {} is absent, misplaced or too small", self.expected),
            Refusal::QUEUE => write!(f, "queue pair {} is malformed", self.expected),
            Refusal::FEATURES => {
                let lacks = |(bit, _): &(u32, &str)| self.expected & !self.got & bit != 0;
                let mut lacking = feature::NAMES.into_iter().filter(lacks).map(|(_, name)| name);
                let first = lacking.next().unwrap_or("such feature");
                write!(f, "required {:#x}, available {:#x}; the image has no {first}", self.expected, self.got)?;
                lacking.try_for_each(|name| write!(f, ", no {name}"))
            }
            Refusal::TABLE => write!(
                f,
                "the image's handlers need {} bytes of table, the window has {} (Options::table)",
                self.expected, self.got
            ),
            Refusal::DUPLICATE => write!(f, "entries {} and up of the image share a name", self.expected),
            _ => write!(f, "expected {:#x}, got {:#x}", self.expected, self.got),
        }
    }
}

// Not inlined: every check of the device's half may end in one of these.
impl From<LayoutError> for Refused {
    #[cold]
    #[inline(never)]
    fn from(e: LayoutError) -> Self {
        match e {
            LayoutError::Section(kind) => Self::new(Refusal::SECTION, kind.0, 0),
            LayoutError::Queue(index) => Self::new(Refusal::QUEUE, index, 0),
            LayoutError::Window(len) => Self::new(Refusal::WINDOW_LEN, 0, len as u32),
        }
    }
}

impl From<OutOfWindow> for Refused {
    #[cold]
    #[inline(never)]
    fn from(e: OutOfWindow) -> Self {
        Self::new(Refusal::WINDOW_LEN, e.off.saturating_add(e.want) as u32, e.len as u32)
    }
}

fn publish_word<K>(window: &Window<K>, off: u64, value: u32) {
    publish_lent(&window.lend(), off, value);
}

// One copy each of publishing and reading a word: the handshake does little else.
#[inline(never)]
fn publish_lent(window: &Window<Loan>, off: u64, value: u32) {
    if let Ok(word) = window.word(off) {
        word.publish(value);
    }
}

#[inline(never)]
fn observe_lent(window: &Window<Loan>, off: u64) -> u32 {
    window.word(off).map_or(0, |word| word.observe())
}

/// Writes a handler table to `at` in the window, where it has `room` bytes (abi §3.7). The error is
/// the bytes that it needs.
fn write_table(window: &Window<Loan>, at: u64, room: u64, table: Table) -> Result<(), u64> {
    let need = table.wire_len();
    let written = || -> Result<(), OutOfWindow> {
        let header = TableHeader { count: table.len() as u32, bytes: need as u32, fingerprint: table.fingerprint() };
        window.write(at, &header)?;
        let mut record_at = at + size_of::<TableHeader>() as u64;
        let mut name_off = size_of::<TableHeader>() + table.len() * size_of::<TableRecord>();
        for e in table.iter() {
            let record = TableRecord {
                id: e.id,
                signature: e.signature,
                body: e.body,
                flags: e.flags,
                name_off: name_off as u32,
                name_len: e.name.len() as u32,
                reserved: 0,
            };
            window.write(record_at, &record)?;
            window.write(at + name_off as u64, e.name.as_bytes())?;
            record_at += size_of::<TableRecord>() as u64;
            name_off += e.name.len();
        }
        Ok(())
    };
    if need > room || written().is_err() { Err(need) } else { Ok(()) }
}
