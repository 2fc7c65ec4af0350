//! The crash record (abi §9): why an epoch ended, for a host to read.

use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::rings::CrashRecord;
use hamr_comm::abi::section::{Section, SectionKind};
use hamr_comm::abi::window::Window;
use hamr_comm::fault::Trace;

/// Where a layout has room for the record, if it does.
pub(crate) fn section(layout: &Layout) -> Option<u64> {
    let fits = |section: &Section| section.len >= size_of::<CrashRecord>() as u64;
    layout.section(SectionKind::CRASH).ok().filter(fits).map(|section| section.off)
}

/// Writes it, its mark last. What does not fit is dropped.
#[cold]
#[inline(never)]
pub(crate) fn record<K>(window: &Window<K>, at: u64, epoch: Epoch, text: &str, trace: &Trace) {
    let mut record = CrashRecord {
        valid: 0,
        epoch: epoch.0,
        cause: trace.cause as u32,
        text_len: 0,
        pc: trace.pc,
        address: trace.address,
        frames: trace.frames,
        stack: trace.stack,
        text: [0; 376],
    };
    let text = text.get(..text.floor_char_boundary(record.text.len())).unwrap_or_default();
    if let Some(to) = record.text.get_mut(..text.len()) {
        to.copy_from_slice(text.as_bytes());
        record.text_len = text.len() as u32;
    }
    // The section was checked when the layout was; a window never shrinks.
    let _ = window.write(at, &record);
    if let Ok(valid) = window.word(at) {
        valid.publish(CrashRecord::VALID);
    }
}
