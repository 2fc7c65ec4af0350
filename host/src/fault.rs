//! The report of a call that ended with a fault, and the record of a device that ended so.

use crate::Site;
use crate::symbols::{Backtrace, Symbols};
use crate::text::Clean;
use hamr_comm::abi::rings::CrashRecord;
use hamr_comm::abi::status::Status;
use hamr_comm::fault::{CUT, Trace, explain};
use hamr_comm::migrate::{Decoder, Migratable};
use std::fmt;
use std::sync::Arc;

/// A fault, as the device reported it.
#[derive(Debug, Clone)]
pub struct FaultReport {
    /// Where.
    pub site: Site,
    /// What kind.
    pub status: Status,
    /// Numbers that belong to the kind; of a trap and a runaway: cause, pc, address.
    pub numbers: [u64; 3],
    /// The device's own words: a panic's message with file and line, a trap's name, or the
    /// handler's own text.
    pub text: String,
    /// Registers and return addresses of a handler that was ended in its middle.
    pub trace: Trace,
    symbols: Arc<Symbols>,
}

impl FaultReport {
    /// Reads a reply's payload, whatever is in it.
    pub(crate) fn read(site: Site, status: Status, payload: &[u8], symbols: Arc<Symbols>) -> Self {
        let (trace, numbers, text) = if status.has_trace() {
            let (trace, text) = Trace::decode(payload);
            (trace, [trace.cause, trace.pc, trace.address], text)
        } else {
            let mut from = Decoder::new(payload);
            (Trace::NONE, Migratable::decode(&mut from).unwrap_or_default(), from.rest())
        };
        let mut text = String::from_utf8_lossy(text).into_owned();
        if status.has_trace() && is_short(payload, &text) {
            text.push_str(CUT);
        }
        Self { site, status, numbers, text, trace, symbols }
    }

    /// Where the handler was, innermost first, with names from the image's file. The file is read
    /// when an address is first resolved. Empty for faults that a handler returned.
    pub fn backtrace(&self) -> Backtrace {
        self.symbols.backtrace(&self.trace)
    }
}

/// Is there less text than the payload announces, because the slot's chunk had no room for more?
fn is_short(payload: &[u8], text: &str) -> bool {
    let head = <(u64, u64, u64, u32)>::decode(&mut Decoder::new(payload));
    head.is_ok_and(|(.., announced)| text.len() < announced as usize)
}

impl fmt::Display for FaultReport {
    /// One line with kind and place, and the device's text without control characters. Registers
    /// and backtrace follow when the handler was aborted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` on device {} ended with a fault: ", self.site.handler, self.site.device)?;
        explain(self.status, self.numbers, f)?;
        if !self.text.is_empty() {
            write!(f, ": {}", Clean(&self.text))?;
        }
        say_where(f, &self.trace, &self.symbols)
    }
}

/// Ends a line with file and line; registers and backtrace below it.
fn say_where(f: &mut fmt::Formatter<'_>, trace: &Trace, symbols: &Symbols) -> fmt::Result {
    let Trace { pc, address, stack, .. } = *trace;
    if pc == 0 && trace.frames().next().is_none() {
        return Ok(());
    }
    let backtrace = symbols.backtrace(trace);
    if pc != 0 {
        if let Some((file, line)) = backtrace.place() {
            write!(f, " at {file}:{line}")?;
        }
        write!(f, "\n  pc {pc:#x}, address {address:#x}, sp {stack:#x}")?;
    }
    write!(f, "\n{backtrace}")
}

/// What a device wrote before one of its epochs ended by a fault: its crash record (`docs/abi.md`
/// §9). [`Node::last_crash`](crate::Node::last_crash) returns the last one.
#[derive(Debug, Clone)]
pub struct CrashReport {
    /// The epoch that it ended.
    pub epoch: u32,
    /// The device's own words: a panic's message with file and line, or a trap's name.
    pub text: String,
    /// Registers and return addresses: of a handler, or of the runtime when no call ran.
    pub trace: Trace,
    symbols: Arc<Symbols>,
}

impl CrashReport {
    /// Of a process: the code that a shell has for the signal that ended it, 128 and its number.
    pub fn exit_code(&self) -> Option<u8> {
        u8::try_from(self.trace.cause).ok().filter(|signal| (1..64).contains(signal)).map(|signal| 128 + signal)
    }

    /// Reads a record, whatever is in it.
    pub(crate) fn read(record: &CrashRecord, symbols: Arc<Symbols>) -> Self {
        let &CrashRecord { epoch, cause, pc, address, stack, frames, .. } = record;
        let text = record.text.get(..record.text_len as usize).unwrap_or(&record.text);
        let trace = Trace { cause: cause.into(), pc, address, stack, frames };
        Self { epoch, text: String::from_utf8_lossy(text).into_owned(), trace, symbols }
    }

    /// Where the processor was, innermost first, with names from the image's file, when that is
    /// still the build that crashed. The file is read when an address is first resolved.
    pub fn backtrace(&self) -> Backtrace {
        self.symbols.backtrace(&self.trace)
    }
}

impl fmt::Display for CrashReport {
    /// One line with kind and place, and the device's text without control characters; registers
    /// and backtrace below it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {} ended by a fault: {}", self.epoch, Clean(&self.text))?;
        say_where(f, &self.trace, &self.symbols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    const TEXT: &[u8] = b"line\nand \x1b[2J\ttext";

    fn symbols() -> Arc<Symbols> {
        Arc::new(Symbols::new(None, [0; 20]))
    }

    #[test]
    fn reports_show_no_control_characters_of_a_device() {
        let payload = [&[0; 24][..], TEXT].concat();
        let site = Site { device: "d".into(), handler: "h".into(), stage: "reading the reply", task: None };
        let fault = FaultReport::read(site, Status::FAILED, &payload, symbols());
        assert_eq!(fault.text.as_bytes(), TEXT, "a program gets it as it is");
        let mut record = CrashRecord::new_zeroed();
        record.text_len = TEXT.len() as u32;
        record.text[..TEXT.len()].copy_from_slice(TEXT);
        let crash = CrashReport::read(&record, symbols());
        for said in [fault.to_string(), crash.to_string()] {
            let line = said.lines().next().unwrap_or_default();
            assert!(line.contains("line\u{fffd}and \u{fffd}[2J\u{fffd}text"), "{said:?}");
        }
    }
}
