//! The first kilobyte of a window: who wrote it, which sections it has, the state of both sides
//! (abi §3).
//!
//! ```text
//! 0x000 Preamble      host, before the magic word is published
//! 0x080 HostWords     host, live
//! 0x0c0 DeviceWords   device, live
//! 0x100 DeviceRecord   device, before ACCEPTED
//! 0x180 DEVICE_WAIT   device, live, alone in its cache line
//! 0x1c0 ASLEEP        device, live, where it drives the host's memory
//! 0x200 sections      host, before the magic word is published
//! 0x400 end
//! ```

use crate::open::open_enum;
use crate::section::Section;
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// "HAMR" in memory; published last, so no value before it is used without it.
pub const MAGIC: u32 = u32::from_le_bytes(*b"HAMR");
/// What [`Preamble::byte_order`] reads as on a side with the writer's byte order.
pub const BYTE_ORDER: u32 = 0x0102_0304;
/// Bytes before the first section.
pub const PREAMBLE_BYTES: u64 = 0x400;
/// Offset of the host's live words.
pub const HOST_WORDS: u64 = 0x80;
/// Offset of the device's live words.
pub const DEVICE_WORDS: u64 = 0xC0;
/// Offset of the device record.
pub const DEVICE_RECORD: u64 = 0x100;
/// Offset of the section table.
pub const SECTIONS: u64 = 0x200;
/// Entries of the section table.
pub const MAX_SECTIONS: usize = 16;

/// What the host writes before the device reads the window (abi §3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Preamble {
    /// [`MAGIC`], published last with Release; read with Acquire.
    pub magic: u32,
    /// [`BYTE_ORDER`].
    pub byte_order: u32,
    /// Newest ABI version the host speaks.
    pub abi_max: u32,
    /// Oldest ABI version the host speaks.
    pub abi_min: u32,
    /// Bytes of the window.
    pub window_len: u64,
    /// Used entries of the section table.
    pub sections: u32,
    /// The id the host gives this device.
    pub node: u32,
    /// Features the host would like.
    pub features_offered: u32,
    /// Features without which the host will not go on; a subset of the offered.
    pub features_required: u32,
    /// Queue pairs, the control stream included.
    pub queues: u32,
    /// Process id of the host, for readers of a dump.
    pub host_pid: u32,
    /// Fingerprint of the host's handler table: names and signatures.
    pub fingerprint: u64,
    /// With [`feature::DOORBELL`]: microseconds that a device which finds nothing polls on before
    /// it sleeps.
    pub spin_us: u32,
    /// With [`feature::DOORBELL`]: microseconds that it sleeps at most without being notified;
    /// [`FOR_EVER`] is no limit.
    pub sleep_us: u32,
    /// With [`feature::SPLIT`]: how far behind its coherent place lies what the host polls; 0 there.
    pub split: u64,
    /// Zero.
    pub reserved: [u64; 7],
}
const _: () = assert!(size_of::<Preamble>() == 128 && offset_of!(Preamble, fingerprint) == 48);
const _: () = assert!(offset_of!(Preamble, spin_us) == 56 && offset_of!(Preamble, split) == 64);

/// Of [`Preamble::sleep_us`]: only a notification ends a sleep.
pub const FOR_EVER: u32 = u32::MAX;

/// Offsets of the words that change after the handshake. Each has one writer, always the same (abi
/// §3.2, §3.3).
pub mod word {
    use super::{DEVICE_RECORD, DEVICE_WORDS, HOST_WORDS};

    /// Host: the device's current epoch; a device that sees another value than its own leaves (abi
    /// §8).
    pub const EPOCH: u64 = HOST_WORDS;
    /// Host: a [`super::HostState`].
    pub const HOST_STATE: u64 = HOST_WORDS + 4;
    /// Host: stepped by its timer.
    pub const HOST_ALIVE: u64 = HOST_WORDS + 8;
    /// Host: queue pairs the device must poll, counted from descriptor 0.
    pub const OPEN_QUEUES: u64 = HOST_WORDS + 12;
    /// Host: wait word, even = polling, odd = notify me (abi §7).
    pub const HOST_WAIT: u64 = HOST_WORDS + 16;
    /// Host: what the device writes to its card's doorbell register to notify the host (abi §7).
    pub const HOST_DOORBELL: u64 = HOST_WORDS + 20;
    /// Host: counts what a device that drives this memory is to look for (abi §15.5).
    pub const BELL: u64 = HOST_WORDS + 24;

    /// Device: the epoch it serves.
    pub const EPOCH_ACK: u64 = DEVICE_WORDS;
    /// Device: a [`super::DeviceState`].
    pub const DEVICE_STATE: u64 = DEVICE_WORDS + 4;
    /// Device: stepped by its timer.
    pub const DEVICE_ALIVE: u64 = DEVICE_WORDS + 8;
    /// Device: stepped by the dispatcher in every round that found work.
    pub const DEVICE_PROGRESS: u64 = DEVICE_WORDS + 12;
    /// Device: what the host writes to its card's doorbell register to notify the device (abi §7).
    pub const DEVICE_DOORBELL: u64 = DEVICE_WORDS + 16;
    /// Device: wait word. It is apart from the device's other words, which change in every round
    /// that finds work: the host loads this word after each message, and its cached copy stays
    /// valid for as long as the device is awake.
    pub const DEVICE_WAIT: u64 = DEVICE_RECORD + 0x80;
    /// Device: of one that drives this memory, odd while BELL is to come with a doorbell (abi §15.5).
    pub const ASLEEP: u64 = DEVICE_RECORD + 0xC0;
    /// Device: why it refused, a [`super::Refusal`].
    pub const REFUSAL: u64 = DEVICE_WORDS + 20;
    /// Device: two words of detail of the refusal.
    pub const REFUSAL_DETAIL: u64 = DEVICE_WORDS + 24;
}

open_enum! {
    /// The host's side of the life cycle (abi §3.4).
    HostState(u32),
    /// A short description.
    text or "unknown value" {
        /// Laying out; nothing is valid.
        RESET = 0 => "laying out",
        /// Magic is published; waits for the device's word.
        OFFERED = 1 => "offered",
        /// Accepted the device record; calls may come.
        READY = 2 => "ready",
        /// Leaving: the device stops serving this epoch.
        CLOSING = 3 => "closing",
    }
}

open_enum! {
    /// The device's side of the life cycle (abi §3.4).
    DeviceState(u32),
    /// A short description.
    text or "unknown value" {
        /// Not started, or started and waiting for the magic word.
        ABSENT = 0 => "absent",
        /// Checks the window.
        CHECKING = 1 => "checking",
        /// Wrote its record and its table; waits for READY.
        ACCEPTED = 2 => "accepted",
        /// Runs calls.
        SERVING = 3 => "serving",
        /// Will not serve; REFUSAL has the reason.
        REFUSED = 4 => "refused",
        /// Stopped serving this epoch in good order.
        STOPPED = 5 => "stopped",
        /// Must be reset; the crash record has the reason.
        CRASHED = 6 => "crashed",
    }
}

open_enum! {
    /// Why a device refused a window (abi §3.4); the detail words are what it expected, then what
    /// came.
    Refusal(u32),
    /// A short description.
    text or "unknown value" {
        /// It did not.
        NONE = 0 => "not refused",
        /// Reserved: a device waits for the magic word.
        MAGIC = 1 => "magic word",
        /// The host has the other byte order.
        BYTE_ORDER = 2 => "byte order",
        /// No common ABI version.
        ABI = 3 => "ABI version",
        /// The window is shorter than the length in its preamble.
        WINDOW_LEN = 4 => "window length",
        /// A section is missing, out of the window, misaligned or overlapping; detail: kind, 0.
        SECTION = 5 => "section table",
        /// A queue pair descriptor is out of its section or malformed; detail: index, 0.
        QUEUE = 6 => "queue pair descriptor",
        /// The host requires features that this device lacks; detail: required, available.
        FEATURES = 7 => "features",
        /// The handler table does not fit its section; detail: bytes needed, bytes there.
        TABLE = 8 => "handler table size",
        /// More queue pairs than the image was built for; detail: limit, wanted.
        QUEUE_COUNT = 9 => "number of queue pairs",
        /// The epoch word is zero.
        EPOCH = 10 => "epoch",
        /// Two handlers of the image have one name or id; detail: index of the first, 0.
        DUPLICATE = 11 => "two handlers of one name",
        /// A staging chunk is longer than the image's scratch; detail: limit, wanted.
        CHUNK = 12 => "staging chunk size",
    }
}

/// Feature bits (abi §3.6). A device accepts a subset of what the host offers.
pub mod feature {
    /// TICKET requests: long handlers answered in ticket slots.
    pub const TICKETS: u32 = 1 << 0;
    /// EXT deadlines reach the handler, which may read them (abi §5.4).
    pub const DEADLINES: u32 = 1 << 1;
    /// Doorbells and sleeping (abi §7).
    pub const DOORBELL: u32 = 1 << 2;
    /// Logs are written to the LOG section.
    pub const LOGS: u32 = 1 << 3;
    /// Faults of a handler end its call only.
    pub const CONTAIN: u32 = 1 << 4;
    /// TICKET requests of tasks run on stacks of their own.
    pub const TASKS: u32 = 1 << 5;
    /// The device calls host handlers in the queues of TASKS (abi §12).
    pub const HOST_CALLS: u32 = 1 << 6;
    /// The device is a rank and follows the words of its world (abi §13).
    pub const WORLD: u32 = 1 << 7;
    /// Handlers post to a host channel adapter in VERBS (abi §16).
    pub const VERBS: u32 = 1 << 8;
    /// The hot slots of the host's streams have a second line (abi §4.7).
    pub const TWO_LINES: u32 = 1 << 9;
    /// Arguments and results in the heap may be as long as [`super::DeviceRecord::longest_message`] (abi §4.4).
    pub const LONG_VALUES: u32 = 1 << 10;
    /// What the host polls lies apart from what the device polls (abi §4.6).
    pub const SPLIT: u32 = 1 << 11;
    /// The window is memory of the host's, which the device loads and stores, and a DMA engine copies (abi §15.5).
    pub const DRIVEN: u32 = 1 << 12;

    /// Names for dumps.
    pub const NAMES: [(u32, &str); 13] = [
        (TICKETS, "tickets"),
        (DEADLINES, "deadlines"),
        (DOORBELL, "doorbell"),
        (LOGS, "logs"),
        (CONTAIN, "contain"),
        (TASKS, "tasks"),
        (HOST_CALLS, "host-calls"),
        (WORLD, "world"),
        (VERBS, "verbs"),
        (TWO_LINES, "two-lines"),
        (LONG_VALUES, "long-values"),
        (SPLIT, "split"),
        (DRIVEN, "driven"),
    ];
}

/// What the device reports of itself before ACCEPTED (abi §3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct DeviceRecord {
    /// [`BYTE_ORDER`] as the device writes it.
    pub byte_order: u32,
    /// The ABI version the device chose inside both ranges.
    pub abi: u32,
    /// Features it accepted.
    pub features: u32,
    /// An [`crate::ids::Isa`].
    pub isa: u32,
    /// Fingerprint of its handler table: names and signatures.
    pub fingerprint: u64,
    /// Handlers in its table.
    pub handlers: u32,
    /// Process id of a hosted image; 0 on bare metal.
    pub pid: u32,
    /// First 20 bytes of the image's build id; zero when it has none.
    pub build_id: [u8; 20],
    /// Tasks that it runs at the same time.
    pub tasks: u32,
    /// Board name, UTF-8, padded with zeros.
    pub board: [u8; 24],
    /// Memory of the board in bytes; 0 when unknown.
    pub memory: u64,
    /// Bytes of a task's stack.
    pub task_stack: u32,
    /// Stacks of tasks that have a guard.
    pub guards: u32,
    /// With [`feature::LONG_VALUES`]: bytes of the longest arguments and result in the heap (abi §4.4).
    pub longest_message: u32,
    /// Zero.
    pub reserved: [u32; 7],
}
const _: () = assert!(size_of::<DeviceRecord>() == 128 && offset_of!(DeviceRecord, board) == 56);
const _: () = assert!(offset_of!(DeviceRecord, tasks) == 52 && offset_of!(DeviceRecord, guards) == 92);
const _: () = assert!(offset_of!(DeviceRecord, longest_message) == 96);
const _: () = assert!(SECTIONS + (MAX_SECTIONS * size_of::<Section>()) as u64 == PREAMBLE_BYTES);
const _: () = assert!(DEVICE_RECORD + size_of::<DeviceRecord>() as u64 <= SECTIONS);

impl DeviceRecord {
    /// The board's name without padding; what is not UTF-8 is dropped.
    pub fn board_name(&self) -> &str {
        let end = self.board.iter().position(|b| *b == 0).unwrap_or(self.board.len());
        let bytes = self.board.get(..end).unwrap_or(&[]);
        core::str::from_utf8(bytes).unwrap_or("?")
    }

    /// `name` cut to the field.
    pub fn board_field(name: &str) -> [u8; 24] {
        let mut field = [0; 24];
        for (to, from) in field.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        field
    }
}
