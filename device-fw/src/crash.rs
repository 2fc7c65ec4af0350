//! The crash record (abi §9): why an epoch ended, for a host to read.

use core::mem::offset_of;
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::rings::CrashRecord;
use hamr_comm::abi::section::{Section, SectionKind};
use hamr_comm::abi::window::Window;
use hamr_comm::fault::{Trace, front};

/// The window, from the moment when it was mapped, for faults while no host is served.
#[cfg(hamr_machine)]
pub(crate) static WINDOW: spin::Mutex<Option<Window<()>>> = spin::Mutex::new(None);

/// The window is mapped.
#[cfg(hamr_machine)]
#[inline(never)]
pub(crate) fn found(window: Window<()>) {
    *WINDOW.lock() = Some(window);
}

/// Where a layout has room for the record, if it does.
pub(crate) fn section(layout: &Layout) -> Option<u64> {
    let fits = |section: &Section| section.len >= size_of::<CrashRecord>() as u64;
    layout.section(SectionKind::CRASH).ok().filter(fits).map(|section| section.off)
}

/// Writes it, its mark last. What does not fit is dropped.
#[cold]
#[inline(never)]
pub(crate) fn record<K>(window: &Window<K>, at: u64, epoch: Epoch, text: &str, trace: &Trace) {
    let text = front(text, CrashRecord::TEXT);
    // It is written field by field: as a whole it would have to be built on the stack. The host has
    // zeroed what is behind the text. The section was checked when the layout was, and a window
    // never shrinks: no write is refused.
    let field = |off: usize| at + off as u64;
    let _ = window.write(at, &[0, epoch.0, trace.cause as u32, text.len() as u32]);
    let _ = window.write(field(offset_of!(CrashRecord, pc)), &[trace.pc, trace.address]);
    let _ = window.write(field(offset_of!(CrashRecord, frames)), &trace.frames);
    let _ = window.write(field(offset_of!(CrashRecord, stack)), &trace.stack);
    let _ = window.write_bytes(field(offset_of!(CrashRecord, text)), text.as_bytes());
    if let Ok(valid) = window.word(at) {
        valid.publish(CrashRecord::VALID);
    }
}
