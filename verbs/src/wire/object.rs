//! Objects: what the host tells the device, and the adapter, of queues and regions (abi §16.2).

use super::{
    ARENA, Access, LINE, MAX_ADDRESS_HANDLES, MAX_COMPLETION_QUEUES, MAX_LOG2, MAX_QUEUE_PAIRS, MAX_REGIONS,
    MAX_SHARED_RECEIVE_QUEUES, OBJECTS,
};
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The kind of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(transparent)]
pub struct Kind(pub u8);

impl Kind {
    /// A memory region.
    pub const REGION: Self = Self(1);
    /// A completion queue.
    pub const COMPLETION_QUEUE: Self = Self(2);
    /// A queue pair.
    pub const QUEUE_PAIR: Self = Self(3);
    /// A shared receive queue.
    pub const SHARED_RECEIVE_QUEUE: Self = Self(4);
    /// An address handle.
    pub const ADDRESS_HANDLE: Self = Self(5);

    /// The first place of the kind, and how many there are.
    const fn places(self) -> (u16, u16) {
        match self {
            Self::REGION => (0, MAX_REGIONS),
            Self::COMPLETION_QUEUE => (MAX_REGIONS, MAX_COMPLETION_QUEUES),
            Self::QUEUE_PAIR => (MAX_REGIONS + MAX_COMPLETION_QUEUES, MAX_QUEUE_PAIRS),
            Self::SHARED_RECEIVE_QUEUE => {
                (MAX_REGIONS + MAX_COMPLETION_QUEUES + MAX_QUEUE_PAIRS, MAX_SHARED_RECEIVE_QUEUES)
            }
            Self::ADDRESS_HANDLE => {
                (MAX_REGIONS + MAX_COMPLETION_QUEUES + MAX_QUEUE_PAIRS + MAX_SHARED_RECEIVE_QUEUES, MAX_ADDRESS_HANDLES)
            }
            _ => (0, 0),
        }
    }

    /// How many objects of the kind a device has.
    pub const fn most(self) -> u16 {
        self.places().1
    }

    /// Where its object `index` is. `None`: there is no such place.
    pub const fn place(self, index: u16) -> Option<u64> {
        let (first, count) = self.places();
        if index >= count { None } else { Some(OBJECTS + LINE * (first + index) as u64) }
    }
}

/// The type of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(transparent)]
pub struct QpType(pub u8);

impl QpType {
    /// Reliable, with one peer (RC).
    pub const RC: Self = Self(0);
    /// Datagrams (UD; `IBV_QPT_UD`).
    pub const UD: Self = Self(4);
}

/// An object. Fields of another kind are zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// The type of a queue pair.
    pub qp_type: QpType,
    /// Its index among those of its kind.
    pub index: u16,
    /// The ring of sends, of completions or of shared receives, as a power of two.
    pub log2: u8,
    /// The ring of receives of a queue pair.
    pub receive_log2: u8,
    /// The completion queue of sends.
    pub send_cq: u8,
    /// That of receives.
    pub receive_cq: u8,
    /// A ring of sends, of completions or of shared receives, or the bytes of a region: where it begins.
    pub off: u64,
    /// The ring of receives.
    pub receive_off: u64,
    /// Bytes of a region.
    pub len: u64,
    /// Its first address; of an address handle the IPv4 address of an adapter.
    pub iova: u64,
    /// Its key, local and remote: the low byte is its index. Of a queue pair of datagrams: the key of those that it takes.
    pub lkey: u32,
    /// What may be done with it.
    pub access: Access,
    /// The number of a queue pair.
    pub qp_number: u32,
    /// 0, or 1 + the index of the shared receive queue that a queue pair takes from. Such a one has no ring of
    /// receives.
    pub srq: u16,
    /// Zero.
    pub reserved2: u16,
    /// Counts the objects in this place in this epoch, from 1 on.
    pub generation: u16,
    /// How often a queue pair asks a peer without a receive request again, [`Object::FOR_EVER`] without an end
    /// (`rnr_retry`).
    pub rnr_retry: u8,
    /// How long its peer waits each time, a code of 0 to 31 (`min_rnr_timer`).
    pub rnr_timer: u8,
    /// [`Object::live`], published last; [`Object::given_up`]; 0 when its adapter has ended it.
    pub word: u32,
}
const _: () = assert!(size_of::<Object>() == 64 && offset_of!(Object, word) == 60);
const _: () = assert!(offset_of!(Object, off) == 8 && offset_of!(Object, generation) == 56);

impl Object {
    /// A value of [`Object::rnr_retry`].
    pub const FOR_EVER: u8 = 7;

    /// The index of the shared receive queue that a queue pair takes from.
    pub const fn shared_receive_queue(&self) -> Option<u16> {
        self.srq.checked_sub(1)
    }

    /// The word of a live object of this generation.
    pub const fn live(generation: u16) -> u32 {
        (generation as u32) << 1 | 1
    }

    /// The word of one of this generation that handlers find no more, but whose adapter may go on with it: it has not said that it
    /// does not.
    pub const fn given_up(generation: u16) -> u32 {
        (generation as u32) << 1
    }

    /// What requests call an address handle: another number in each generation, and never 0.
    pub const fn handle(&self) -> u32 {
        (self.generation as u32) << 16 | self.index as u32
    }

    /// The tag of the entries in its rings: 1 to 255.
    pub const fn tag(&self) -> u8 {
        ((self.generation as u32).wrapping_sub(1) % 255 + 1) as u8
    }

    /// Do its bytes lie in an arena that ends at `end`? What its index names is not looked at.
    pub fn fits(&self, end: u64) -> bool {
        let inside = |off: u64, len: u64| {
            off >= ARENA && off.is_multiple_of(LINE) && off.checked_add(len).is_some_and(|last| last <= end)
        };
        let ring = |off, log2: u8, line| log2 <= MAX_LOG2 && inside(off, line << log2.min(MAX_LOG2));
        match self.kind {
            Kind::REGION => {
                let has_key = self.lkey as u8 as u16 == self.index;
                inside(self.off, self.len)
                    && self.iova.checked_add(self.len).is_some()
                    && self.access.is_valid()
                    && has_key
            }
            Kind::COMPLETION_QUEUE => ring(self.off, self.log2, LINE),
            Kind::QUEUE_PAIR => {
                ring(self.off, self.log2, 2 * LINE)
                    && (self.srq != 0 || ring(self.receive_off, self.receive_log2, LINE))
                    && self.rnr_retry <= Self::FOR_EVER
                    && self.rnr_timer < 32
                    && [QpType::RC, QpType::UD].contains(&self.qp_type)
            }
            Kind::SHARED_RECEIVE_QUEUE => ring(self.off, self.log2, LINE),
            Kind::ADDRESS_HANDLE => u32::try_from(self.iova).is_ok(),
            _ => false,
        }
    }
}
