//! The bits of the section VERBS and of the socket to the adapter (abi §16). Offsets count from the start of the section.

mod codes;
mod completion;
mod control;
mod object;
mod work;

pub use codes::{Access, Opcode, QpState, WcOpcode, WcStatus};
pub use completion::CompletionEntry;
pub use control::{Answer, Command, GREETING, Greeting, NO_GREETING, Question, RemoteEnd, Reply, Verb};
pub use object::{Kind, Object, QpType};
pub use work::{ATOMIC, MAX_INLINE, MAX_RECEIVE_SGE, MAX_SEND_SGE, ReceiveEntry, SendEntry, Sge};

use hamr_comm::abi::section::{VERBS_FRONT, VERBS_WAIT};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Memory regions of a device.
pub const MAX_REGIONS: u16 = 256;
/// Completion queues of a device.
pub const MAX_COMPLETION_QUEUES: u16 = 64;
/// Queue pairs of a device.
pub const MAX_QUEUE_PAIRS: u16 = 64;
/// Shared receive queues of a device.
pub const MAX_SHARED_RECEIVE_QUEUES: u16 = 16;
/// Address handles of a device.
pub const MAX_ADDRESS_HANDLES: u16 = 48;
/// The longest ring, as a power of two.
pub const MAX_LOG2: u8 = 9;
/// The longest message.
pub const MAX_MESSAGE: u64 = 1 << 31;

/// Bytes of an entry, or of one of its two lines.
pub const LINE: u64 = 64;
/// The published word of an entry.
pub const WORD: u64 = 60;

/// The head of the section, by the host, before the adapter starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct SectionHead {
    /// [`MAGIC`].
    pub magic: [u8; 4],
    /// 1.
    pub version: u32,
}

/// The first bytes of the section.
pub const MAGIC: [u8; 4] = *b"VRBS";

/// Host: a [`FabricState`].
pub const FABRIC_STATE: u64 = 0x40;
/// Host: the epoch that an adapter was opened in.
pub const FABRIC_EPOCH: u64 = 0x44;
/// Device: entries taken from each completion queue.
pub const CQ_CI: u64 = 0x1000;
/// Device: handles of each region that its handlers have open. The memory of one that was deregistered is used again when
/// there is none.
pub const REGION_HANDLES: u64 = 0x1400;
/// Adapter: 1 as long as it serves.
pub const HCA_STATE: u64 = 0x2000;
/// Adapter: the epoch that it serves.
pub const HCA_EPOCH: u64 = 0x2004;
/// Adapter: its wait word.
pub const HCA_WAIT: u64 = VERBS_WAIT;
/// Adapter: a [`QpState::word`] for each queue pair.
pub const QP_STATE: u64 = 0x2400;
/// Adapter: 1 for each completion queue that has overrun.
pub const CQ_STATE: u64 = 0x2800;
/// Adapter: send requests completed of each queue pair, for people.
pub const SQ_CI: u64 = 0x2C00;
/// Objects: regions, completion queues, queue pairs, shared receive queues, address handles.
pub const OBJECTS: u64 = 0x3000;
/// Rings and registered memory.
pub const ARENA: u64 = VERBS_FRONT;
const _: () = assert!(
    OBJECTS
        + LINE
            * (MAX_REGIONS + MAX_COMPLETION_QUEUES + MAX_QUEUE_PAIRS + MAX_SHARED_RECEIVE_QUEUES + MAX_ADDRESS_HANDLES)
                as u64
        <= ARENA
);

/// The words of an entry's first line before the published one.
#[inline]
pub fn line(entry: &(impl IntoBytes + Immutable)) -> &[u32] {
    let bytes = entry.as_bytes().get(..WORD as usize).unwrap_or_default();
    <[u32]>::ref_from_bytes(bytes).unwrap_or_default()
}

/// A word for each of several objects.
pub const fn word_of(page: u64, index: u16) -> u64 {
    page + 4 * index as u64
}

/// The values of FABRIC_STATE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FabricState(pub u32);

impl FabricState {
    /// No adapter was opened in this epoch.
    pub const NONE: Self = Self(0);
    /// It serves.
    pub const ATTACHED: Self = Self(1);
    /// It is gone, and writes nothing any more.
    pub const LOST: Self = Self(2);
}

/// A hash of the source of this module and of rings: host and adapter that were built of different ones refuse each other.
pub const FINGERPRINT: u64 = {
    let parts: [&[u8]; 7] = [
        include_bytes!("../ring.rs"),
        include_bytes!("mod.rs"),
        include_bytes!("codes.rs"),
        include_bytes!("completion.rs"),
        include_bytes!("control.rs"),
        include_bytes!("object.rs"),
        include_bytes!("work.rs"),
    ];
    let (mut hash, mut i) = (0xCBF2_9CE4_8422_2325_u64, 0);
    while i < parts.len() {
        let mut j = 0;
        while j < parts[i].len() {
            hash = (hash ^ parts[i][j] as u64).wrapping_mul(0x0000_0100_0000_01B3);
            j += 1;
        }
        i += 1;
    }
    hash
};
