//! A world: N ranks in one memory (abi §13). Its header and directory, where the homes are, and the
//! words by which launcher and ranks follow each other's state.
//!
//! ```text
//! 0x0000 WorldHeader   launcher, before the magic word
//! 0x0080 job words     launcher, live
//! 0x00C0 text          launcher, of a rank that was lost
//! 0x1000 directory     an entry of 64 bytes per rank
//! then   PEERS         a part per rank ([`PeersLayout`])
//! then   INTEREST      a part per rank of a large world ([`InterestLayout`]), or nothing
//! then   homes         in the order of the ranks; each is a window (abi §3)
//! then   GAS           a part per rank ([`GasLayout`]), or nothing
//! ```

mod gas;
mod interest;
mod peers;

pub use gas::{ARGS_BYTES, AmWord, Category, GasHead, GasLayout, GasName, HANDLERS};
pub use interest::{Announced, InterestLayout, InterestWord, RANK_WORDS};
pub use peers::{LANE_CHUNK, LANE_RING, LANE_TICKETS, MAX_SIGNAL_LINES, PeersLayout, SIGNAL_LINES};

use crate::ids::{NodeId, RankId};
use crate::open::open_enum;
use crate::preamble::{BYTE_ORDER, PREAMBLE_BYTES};
use crate::window::{Loan, OutOfWindow, Window};
use core::mem::offset_of;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// "HAMW" in memory, where a lone device's window has [`crate::preamble::MAGIC`]; published last.
pub const MAGIC: u32 = u32::from_le_bytes(*b"HAMW");
/// The version of a world in which each rank looks at all lanes.
pub const VERSION: u32 = 1;
/// The version of a world with INTEREST.
pub const INTEREST_VERSION: u32 = 2;
/// Ranks of a world at most: as many as there are devices ([`NodeId`]).
pub const MAX_RANKS: usize = 4095;
/// Ranks of a world that a bare-metal image can be one of.
pub const MAX_BARE_RANKS: usize = 64;
/// Launchers lay out INTEREST for more ranks.
pub const FEW_RANKS: usize = 8;
/// Homes start at multiples of this, so that each is aligned to the pages of every processor.
pub const HOME_ALIGN: u64 = 64 << 10;
/// Where [`WorldLayout::write`] puts the directory.
pub const DIRECTORY: u64 = 0x1000;
/// [`RankEntry::maps`]: the rank maps the whole world.
pub const MAPS_WORLD: u32 = 1;

/// What the launcher writes before a rank starts (abi §13.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct WorldHeader {
    /// [`MAGIC`], published last with Release; read with Acquire.
    pub magic: u32,
    /// [`VERSION`].
    pub version: u32,
    /// [`BYTE_ORDER`].
    pub byte_order: u32,
    /// Ranks, 1 to [`MAX_RANKS`].
    pub ranks: u32,
    /// Bytes of the world.
    pub world_len: u64,
    /// Offset of the directory.
    pub directory: u64,
    /// A random number: no two worlds have the same.
    pub job: u64,
    /// Offset of the first rank's part of PEERS, a multiple of 64.
    pub peers: u64,
    /// Lines of signal words per pair of ranks, 1 to [`MAX_SIGNAL_LINES`].
    pub signal_lines: u32,
    /// Ring slots of a lane: [`LANE_RING`].
    pub lane_ring: u32,
    /// Offset of the first rank's part of GAS, a multiple of 64; 0 none.
    pub gas: u64,
    /// Ring slots of its lanes.
    pub gas_ring: u32,
    /// Bytes of each of its chunks.
    pub gas_chunk: u32,
    /// Offset of the first rank's part of INTEREST, a multiple of 64; 0 none.
    pub interest: u64,
    /// Zero.
    pub reserved: [u64; 6],
}
const _: () = assert!(size_of::<WorldHeader>() == 128 && offset_of!(WorldHeader, world_len) == 16);
const _: () = assert!(offset_of!(WorldHeader, job) == 32 && offset_of!(WorldHeader, signal_lines) == 48);
const _: () = assert!(offset_of!(WorldHeader, gas) == 56 && offset_of!(WorldHeader, gas_chunk) == 68);
const _: () = assert!(offset_of!(WorldHeader, interest) == 72);

/// Offsets of the job's words. The launcher alone writes them (abi §13.1).
pub mod word {
    /// A [`super::JobState`].
    pub const JOB_STATE: u64 = 0x80;
    /// Before ENDING: the code that a rank left with.
    pub const EXIT_CODE: u64 = 0x84;
    /// 1 and the number of the rank that was lost, published behind [`LOST_TEXT`] and before ENDING; 0
    /// none.
    pub const FAILED_RANK: u64 = 0x88;
    /// Stepped when the words of PEERS start over, with zeros.
    pub const RUN: u64 = 0x90;
    /// 1 while runs are under way: those of a launcher that calls all ranks; else 0.
    pub const IN_RUN: u64 = 0x94;
    /// Which rank was lost, and why: UTF-8, at most [`LOST_TEXT_BYTES`], zeros behind a shorter one.
    pub const LOST_TEXT: u64 = 0xC0;
    /// Bytes of the text.
    pub const LOST_TEXT_BYTES: usize = 192;
}

open_enum! {
    /// The state of a job.
    JobState(u32),
    /// A short description.
    text or "unknown value" {
        /// The ranks start.
        FORMING = 0 => "forming",
        /// All ranks serve.
        RUNNING = 1 => "running",
        /// Every rank ends.
        ENDING = 2 => "ending",
    }
}

open_enum! {
    /// What a rank is.
    RankKind(u32),
    /// A short description.
    text or "unknown value" {
        /// A program that joined.
        PROGRAM = 1 => "program",
        /// A hosted image.
        HOSTED = 2 => "hosted image",
        /// An image without an operating system.
        BARE = 3 => "bare-metal image",
    }
}

open_enum! {
    /// The state of a rank, which it writes itself.
    RankState(u32),
    /// A short description.
    text or "unknown value" {
        /// It has not looked at the world yet.
        ABSENT = 0 => "absent",
        /// It has checked header and directory, and waits for the offer in its home.
        JOINED = 1 => "joined",
        /// It has told its tasks of a rank that was lost, and none runs any more.
        INFORMED = 2 => "informed",
        /// It has left with the code in [`RankEntry::exit`].
        LEFT = 3 => "left",
    }
}

/// One entry of the directory (abi §13.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct RankEntry {
    /// Offset of its home, a multiple of [`HOME_ALIGN`].
    pub home: u64,
    /// Bytes of its home.
    pub home_len: u64,
    /// A [`RankKind`].
    pub kind: u32,
    /// [`MAPS_WORLD`].
    pub maps: u32,
    /// The number of its doorbell: 1 and its rank; the launcher's is 0.
    pub doorbell: u32,
    /// Its [`NodeId`].
    pub node: u32,
    /// Rank, live: a [`RankState`].
    pub state: u32,
    /// Rank, live: 1 and the code it leaves with; 0 before.
    pub exit: u32,
    /// Rank, live: barriers and meetings that it has numbered while no run was under way.
    pub outside: u32,
    /// Zero.
    pub reserved: u32,
    /// Where its segment starts in its home.
    pub seg_off: u64,
    /// Bytes of its segment.
    pub seg_len: u64,
}
const _: () = assert!(size_of::<RankEntry>() == 64 && offset_of!(RankEntry, state) == 32);
const _: () = assert!(offset_of!(RankEntry, exit) == 36 && offset_of!(RankEntry, seg_off) == 48);
const _: () = assert!(offset_of!(RankEntry, outside) == 40);

/// A range of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Range {
    /// Its first byte.
    pub off: u64,
    /// Bytes.
    pub len: u64,
}

/// What a launcher knows of a rank before it starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RankPlan {
    /// What it is.
    pub kind: RankKind,
    /// Its number among the launcher's devices.
    pub node: NodeId,
    /// Bytes of its home, a multiple of 4096.
    pub home_len: u64,
    /// Its segment, in its home.
    pub segment: Range,
}

/// Why a world cannot be laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorldPlanError {
    /// No rank, or more than [`MAX_RANKS`].
    Ranks(usize),
    /// Sizes overflow.
    TooLarge,
}

/// Why a rank refuses a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorldFault {
    /// Another magic word.
    Magic(u32),
    /// Another byte order.
    ByteOrder(u32),
    /// Another version.
    Version(u32),
    /// No ranks, or more than [`MAX_RANKS`].
    Ranks(u32),
    /// The world, its header or its directory is longer than the memory.
    Length(u64),
    /// A home that leaves the world, is misaligned, too short, or not behind the one before.
    Home(u32),
    /// PEERS leaves its place, or has sizes that this source does not know.
    Peers(u64),
    /// The same of GAS.
    Gas(u64),
    /// INTEREST leaves its place, or is in a world of another version.
    Interest(u64),
    /// The image has room for fewer ranks.
    Room {
        /// Ranks of the world.
        ranks: u32,
        /// Ranks that there is room for.
        most: u32,
    },
    /// The rank is to map something else than the whole world.
    Maps(u32),
    /// A segment that leaves its home.
    Segment(u32),
    /// A rank that this world does not have.
    Rank(u32),
}

impl core::fmt::Display for WorldFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Magic(got) => write!(f, "expected the magic word {MAGIC:#x}, got {got:#x}"),
            Self::ByteOrder(got) => write!(f, "expected the byte order {BYTE_ORDER:#x}, got {got:#x}"),
            Self::Version(got) => write!(f, "expected version {VERSION} or {INTEREST_VERSION}, got {got}"),
            Self::Ranks(got) => write!(f, "expected 1 to {} ranks, got {got}", MAX_RANKS as u32),
            Self::Length(got) => write!(f, "expected what the memory has room for, got {got:#x} bytes"),
            Self::Home(rank) => write!(f, "the home of rank {rank} is misplaced"),
            Self::Peers(at) => write!(f, "PEERS at {at:#x} is malformed"),
            Self::Gas(at) => write!(f, "GAS at {at:#x} is malformed"),
            Self::Interest(at) => write!(f, "INTEREST at {at:#x} is malformed"),
            Self::Room { ranks, most } => write!(f, "expected at most {most} ranks in this image, got {ranks}"),
            Self::Maps(got) => write!(f, "expected maps {MAPS_WORLD}, got {got}"),
            Self::Segment(rank) => write!(f, "the segment of rank {rank} leaves its home"),
            Self::Rank(rank) => write!(f, "there is no rank {rank}"),
        }
    }
}
impl core::error::Error for WorldFault {}

impl From<OutOfWindow> for WorldFault {
    fn from(e: OutOfWindow) -> Self {
        Self::Length(e.off.saturating_add(e.want))
    }
}

/// Where the parts of a world are, planned or checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorldLayout {
    ranks: u32,
    directory: u64,
    len: u64,
    /// Where the first home is.
    front: u64,
    peers: PeersLayout,
    interest: Option<InterestLayout>,
    gas: Option<GasLayout>,
}

impl WorldLayout {
    /// Places the homes behind the directory, in the order of the ranks.
    pub fn plan(ranks: &[RankPlan]) -> Result<Self, WorldPlanError> {
        if ranks.is_empty() || ranks.len() > MAX_RANKS {
            return Err(WorldPlanError::Ranks(ranks.len()));
        }
        let count = ranks.len() as u32;
        let at = DIRECTORY + entries(count);
        let peers = PeersLayout { at, ranks: count, signal_lines: SIGNAL_LINES };
        let at = at + peers.bytes();
        let interest = (ranks.len() > FEW_RANKS).then_some(InterestLayout { at, ranks: count });
        let mut layout = Self { ranks: count, directory: DIRECTORY, len: 0, front: 0, peers, interest, gas: None };
        let mut homes = layout.place(ranks);
        // There is a first one.
        layout.front = homes.next().flatten().ok_or(WorldPlanError::TooLarge)?.off;
        let last = layout.place(ranks).try_fold(Range::default(), |_, home| home).ok_or(WorldPlanError::TooLarge)?;
        layout.len = last.off + last.len;
        Ok(layout)
    }

    /// The homes, in the order of the ranks; none where it would overflow.
    fn place<'r>(&self, ranks: &'r [RankPlan]) -> impl Iterator<Item = Option<Range>> + use<'r> {
        let words = self.peers.at + self.peers.bytes();
        let mut at = Some(self.interest.map_or(words, |interest| interest.at + interest.bytes()));
        ranks.iter().map(move |rank| {
            let off = at?.checked_next_multiple_of(HOME_ALIGN)?;
            at = off.checked_add(rank.home_len);
            at.map(|_| Range { off, len: rank.home_len })
        })
    }

    /// The same with GAS behind the homes.
    pub fn with_gas(mut self) -> Result<Self, WorldPlanError> {
        let at = self.len.checked_next_multiple_of(HOME_ALIGN).ok_or(WorldPlanError::TooLarge)?;
        let gas = GasLayout::plan(at, self.ranks);
        self.len = at.checked_add(gas.bytes()).ok_or(WorldPlanError::TooLarge)?;
        self.gas = Some(gas);
        Ok(self)
    }

    /// Writes header and directory, and publishes the magic word: before any rank starts.
    pub fn write<K>(&self, ranks: &[RankPlan], job: u64, window: &Window<K>) -> Result<(), OutOfWindow> {
        let header = WorldHeader {
            version: if self.interest.is_some() { INTEREST_VERSION } else { VERSION },
            byte_order: BYTE_ORDER,
            ranks: self.ranks,
            world_len: self.len,
            directory: self.directory,
            job,
            peers: self.peers.at,
            signal_lines: self.peers.signal_lines,
            lane_ring: LANE_RING,
            gas: self.gas.map_or(0, |gas| gas.at),
            gas_ring: self.gas.map_or(0, |gas| gas.ring),
            gas_chunk: self.gas.map_or(0, |gas| gas.chunk),
            interest: self.interest.map_or(0, |interest| interest.at),
            ..WorldHeader::new_zeroed()
        };
        window.write(0, &header)?;
        for ((i, rank), home) in (0..self.ranks).zip(ranks).zip(self.place(ranks).flatten()) {
            let entry = RankEntry {
                home: home.off,
                home_len: home.len,
                kind: rank.kind.0,
                maps: MAPS_WORLD,
                doorbell: 1 + i,
                node: rank.node.0.into(),
                seg_off: rank.segment.off,
                seg_len: rank.segment.len,
                ..RankEntry::new_zeroed()
            };
            window.write(self.entry(i), &entry)?;
        }
        window.word(0)?.publish(MAGIC);
        Ok(())
    }

    /// Does a world begin here, and not a lone device's window?
    pub fn is_there<K>(window: &Window<K>) -> bool {
        window.word(0).is_ok_and(|magic| magic.observe() == MAGIC)
    }

    /// Copies the header out, and checks it and the directory. No value of them is used before.
    pub fn read<K>(window: &Window<K>) -> Result<Self, WorldFault> {
        Self::read_lent(&window.lend())
    }

    fn read_lent(window: &Window<Loan>) -> Result<Self, WorldFault> {
        let magic = window.word(0)?.observe();
        let header: WorldHeader = window.read(0)?;
        if magic != MAGIC {
            return Err(WorldFault::Magic(magic));
        }
        if header.byte_order != BYTE_ORDER {
            return Err(WorldFault::ByteOrder(header.byte_order));
        }
        if header.version != VERSION && header.version != INTEREST_VERSION {
            return Err(WorldFault::Version(header.version));
        }
        let WorldHeader { ranks, directory, world_len: len, .. } = header;
        if ranks == 0 || ranks as usize > MAX_RANKS {
            return Err(WorldFault::Ranks(ranks));
        }
        if len > window.len() {
            return Err(WorldFault::Length(len));
        }
        let behind = directory.checked_add(entries(ranks)).ok_or(WorldFault::Length(directory))?;
        if directory < DIRECTORY || !directory.is_multiple_of(64) || behind > len {
            return Err(WorldFault::Length(directory));
        }
        let WorldHeader { peers: at, signal_lines, lane_ring, .. } = header;
        let peers = PeersLayout { at, ranks, signal_lines };
        if at < behind
            || !at.is_multiple_of(64)
            || signal_lines == 0
            || signal_lines > MAX_SIGNAL_LINES
            || lane_ring != LANE_RING
        {
            return Err(WorldFault::Peers(at));
        }
        // In front of the first home.
        let mut free = at.checked_add(peers.bytes()).filter(|end| *end <= len).ok_or(WorldFault::Peers(at))?;
        let at = header.interest;
        if (at != 0) != (header.version == INTEREST_VERSION) {
            return Err(WorldFault::Interest(at));
        }
        let interest = (at != 0).then_some(InterestLayout { at, ranks });
        if let Some(interest) = &interest {
            let end = at.checked_add(interest.bytes()).filter(|end| *end <= len);
            free = end.filter(|_| at >= free && at.is_multiple_of(64)).ok_or(WorldFault::Interest(at))?;
        }
        let mut layout = Self { ranks, directory, len, front: free, peers, interest, gas: None };
        for rank in 0..ranks {
            let Range { off, len } = layout.home(window, RankId(rank))?;
            if off < free {
                return Err(WorldFault::Home(rank));
            }
            if rank == 0 {
                layout.front = off;
            }
            free = off + len;
        }
        let WorldHeader { gas: at, gas_ring: ring, gas_chunk: chunk, .. } = header;
        if at != 0 {
            let gas = GasLayout { at, ranks, ring, chunk };
            let fits = at >= free && gas.is_well_formed() && at.checked_add(gas.bytes()).is_some_and(|end| end <= len);
            layout.gas = Some(gas).filter(|_| fits);
            layout.gas.ok_or(WorldFault::Gas(at))?;
        }
        Ok(layout)
    }

    /// Bytes of the world.
    #[expect(clippy::len_without_is_empty, reason = "a world has a header")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The home of a rank, as the directory has it now: a rank may garble that, so no two answers need be
    /// equal. Each is in the world, behind [`Self::front`].
    pub fn home<K>(&self, window: &Window<K>, rank: RankId) -> Result<Range, WorldFault> {
        if rank.0 >= self.ranks {
            return Err(WorldFault::Rank(rank.0));
        }
        let entry: RankEntry = window.read(self.entry(rank.0))?;
        let end = entry.home.checked_add(entry.home_len).filter(|end| *end <= self.len);
        let fits =
            entry.home >= self.front && entry.home.is_multiple_of(HOME_ALIGN) && entry.home_len >= PREAMBLE_BYTES;
        end.filter(|_| fits).ok_or(WorldFault::Home(rank.0))?;
        if entry.maps != MAPS_WORLD {
            return Err(WorldFault::Maps(entry.maps));
        }
        Ok(Range { off: entry.home, len: entry.home_len })
    }

    /// Where ranks write for each other.
    pub fn peers(&self) -> &PeersLayout {
        &self.peers
    }

    /// Where ranks announce to each other that they have written there; `None`: each looks at all.
    pub fn interest(&self) -> Option<&InterestLayout> {
        self.interest.as_ref()
    }

    /// Where ranks that use GASNet's interface write for each other.
    pub fn gas(&self) -> Option<&GasLayout> {
        self.gas.as_ref()
    }

    /// Bytes before the first home: header, job words, directory, PEERS and INTEREST.
    pub fn front(&self) -> u64 {
        self.front
    }

    /// The segment that the directory has for a rank, in its home.
    pub fn segment<K>(&self, window: &Window<K>, rank: RankId) -> Result<Range, WorldFault> {
        let home = self.home(window, rank)?;
        let entry: RankEntry = window.read(self.entry(rank.0))?;
        let fits = entry.seg_off.checked_add(entry.seg_len).is_some_and(|end| end <= home.len);
        if fits { Ok(Range { off: entry.seg_off, len: entry.seg_len }) } else { Err(WorldFault::Segment(rank.0)) }
    }

    /// Where the word with the [`RankState`] of a rank is.
    pub fn state_word(&self, rank: RankId) -> u64 {
        self.entry(rank.0) + offset_of!(RankEntry, state) as u64
    }

    /// Where the word [`RankEntry::exit`] of a rank is.
    pub fn exit_word(&self, rank: RankId) -> u64 {
        self.entry(rank.0) + offset_of!(RankEntry, exit) as u64
    }

    /// Where the word [`RankEntry::outside`] of a rank is.
    pub fn outside_word(&self, rank: RankId) -> u64 {
        self.entry(rank.0) + offset_of!(RankEntry, outside) as u64
    }

    fn entry(&self, rank: u32) -> u64 {
        self.directory + entries(rank)
    }
}

/// Bytes of a directory.
fn entries(ranks: u32) -> u64 {
    u64::from(ranks) * size_of::<RankEntry>() as u64
}
