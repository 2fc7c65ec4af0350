//! What a dump contains: plain data that serialises.

use super::Hex;
use crate::{BuildId, HandlerInfo, TaskInfo};
use serde::Serialize;

/// What a window shows at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dump {
    /// Where it was found.
    pub path: String,
    /// Bytes of the window's file.
    pub size: u64,
    /// What is inconsistent; empty for a sound window.
    pub problems: Vec<String>,
    /// What the host wrote; `None` without the magic word.
    pub preamble: Option<Offer>,
    /// The host's live words.
    pub host: Host,
    /// The device's live words and its record.
    pub device: DeviceView,
    /// Used entries of the section table.
    pub sections: Vec<SectionEntry>,
    /// Queue pairs; the first is the control stream.
    pub queues: Vec<Queue>,
    /// Slots that were not read because there are too many.
    pub slots_skipped: u64,
    /// Tasks that wait, and for what.
    pub tasks: Vec<TaskInfo>,
    /// The device's handler table.
    #[serde(serialize_with = "handlers_to_json")]
    pub handlers: Vec<HandlerInfo>,
    /// Ring of logs.
    pub log: Option<Ring>,
    /// Its last lines, the youngest last; empty when the image's file is not known.
    #[cfg(feature = "device-logs")]
    pub lines: Vec<crate::logs::LogLine>,
    /// Ring of traces.
    pub trace: Option<Ring>,
    /// The last crash of the image.
    pub crash: Option<Crash>,
}

/// The preamble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// Is the byte order this program's?
    pub same_byte_order: bool,
    /// Oldest ABI version the host speaks.
    pub abi_min: String,
    /// Newest ABI version the host speaks.
    pub abi_max: String,
    /// Bytes, as the host wrote.
    pub window_len: u64,
    /// The device's id.
    pub node: u32,
    /// Queue pairs, the control stream included.
    pub queues: u32,
    /// Process id of the host.
    pub host_pid: u32,
    /// Fingerprint of the host's handlers.
    pub fingerprint: Hex,
    /// Features the host would like.
    pub features_offered: Vec<String>,
    /// Features without which it does not go on.
    pub features_required: Vec<String>,
}

/// The host's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Host {
    /// Its state.
    pub state: &'static str,
    /// The device's epoch that it has opened.
    pub epoch: u32,
    /// Stepped by its timer.
    pub alive: u32,
    /// Queue pairs that the device is to poll.
    pub open_queues: u32,
    /// Even while the host polls, odd while it waits for a notification.
    pub wait: u32,
    /// What the device writes to its card's doorbell register to notify it; 0 where there is none
    /// (abi §7).
    pub doorbell: u32,
}

/// The device's words and record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceView {
    /// Its state.
    pub state: &'static str,
    /// The epoch that it serves.
    pub epoch: u32,
    /// Stepped by its timer.
    pub alive: u32,
    /// Stepped in every round that found work.
    pub progress: u32,
    /// Even while the device polls, odd while it waits for a notification.
    pub wait: u32,
    /// What the host writes to the card's doorbell register to notify it; 0 where there is none
    /// (abi §7).
    pub doorbell: u32,
    /// Why it refused, when it did.
    pub refusal: Option<String>,
    /// Instruction set.
    pub isa: &'static str,
    /// Board.
    pub board: String,
    /// Process id of a hosted image; 0 otherwise.
    pub pid: u32,
    /// Bytes of memory of the board; 0 when unknown.
    pub memory: u64,
    /// Bytes of the longest message that it takes, as it says; 0 without the feature for long ones.
    pub longest_message: u32,
    /// The ABI version it chose.
    pub abi: String,
    /// Features it accepted.
    pub features: Vec<String>,
    /// Handlers in its record.
    pub handlers: u32,
    /// Fingerprint of its handlers.
    pub fingerprint: Hex,
    /// Build id of the image.
    pub build_id: BuildId,
}

/// An entry of the section table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SectionEntry {
    /// What it contains.
    pub kind: String,
    /// Offset in the window.
    pub off: u64,
    /// Bytes.
    pub len: u64,
}

/// A queue pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// Its number; 0 is the control stream.
    pub index: u32,
    /// Does the host have the device poll it?
    pub open: bool,
    /// Ring slots.
    pub ring: u32,
    /// Side slots.
    pub tickets: u32,
    /// Bytes of a request chunk and of a reply chunk.
    pub chunks: [u32; 2],
    /// Nesting depth.
    pub depth: u16,
    /// Slots ever used.
    pub slots: Vec<Slot>,
    /// Slots never used.
    pub empty: u32,
}

/// A slot that was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// `hot`, `ring` or `tickets`.
    pub kind: &'static str,
    /// Number among its kind.
    pub index: u32,
    /// `requested` (the device has not answered), `answered`, `taken` (its result will be published
    /// in a ticket slot), `stale epoch` (of an earlier epoch of the device), `inconsistent` (no
    /// protocol state), or `changing`.
    pub state: &'static str,
    /// The request; `None` when none was ever published here.
    pub request: Option<Request>,
    /// The reply; `None` when none was ever published here.
    pub reply: Option<Reply>,
    /// The payload bytes in the slot, by the header of the newer of the two, hexadecimal.
    pub payload: String,
}

/// A request's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Request {
    /// Epoch tag of the published word.
    pub tag: u8,
    /// Count of the published word.
    pub count: u32,
    /// Handler key.
    pub key: u16,
    /// Its name, when the table has it.
    pub handler: Option<String>,
    /// Payload bytes in the slot.
    pub len: usize,
    /// Where the arguments are.
    pub place: &'static str,
    /// Names of the flags that are set.
    pub flags: Vec<&'static str>,
}

/// A reply's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reply {
    /// Epoch tag of the published word.
    pub tag: u8,
    /// Count of the published word.
    pub count: u32,
    /// The outcome of the request.
    pub status: &'static str,
    /// The same as a number.
    pub code: u16,
    /// Payload bytes in the slot.
    pub len: usize,
    /// Where the result is.
    pub place: &'static str,
    /// Names of the flags that are set.
    pub flags: Vec<&'static str>,
    /// The text of a fault, as far as it is in the slot or its chunk.
    pub fault: Option<String>,
}

/// A log or trace ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ring {
    /// Bytes written, mod 2^32.
    pub written: u32,
    /// Bytes read by the host, mod 2^32.
    pub consumed: u32,
    /// Frames lost.
    pub dropped: u32,
    /// Least severe level wanted.
    pub level: u32,
    /// Does a reader follow it, so that no unread byte is overwritten?
    pub read: bool,
}

/// A crash record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Crash {
    /// Epoch it happened in.
    pub epoch: u32,
    /// Trap number; 0 for a panic.
    pub cause: u32,
    /// Program counter.
    pub pc: Hex,
    /// Faulting address.
    pub address: Hex,
    /// Stack pointer; 0 for a panic.
    pub stack: Hex,
    /// Return addresses, innermost first.
    pub frames: Vec<Hex>,
    /// Message.
    pub text: String,
}

fn handlers_to_json<S: serde::Serializer>(handlers: &[HandlerInfo], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(handlers.iter().map(|h| {
        serde_json::json!({
            "key": h.key,
            "name": h.name,
            "id": Hex(h.id),
            "signature": Hex(h.signature),
            "body": Hex(h.body),
            "flags": h.flag_names(),
        })
    }))
}
