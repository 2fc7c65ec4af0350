//! Puts and gets of a rank to memory of other ranks that is in no segment.
//!
//! Each rank has a [`Side`] in its handlers' state: the memory that it exposes. A transfer copies straight
//! into it, through the registration cache ([`Far`]), whose questions to the owner are active messages. Where
//! the system does not allow the copies, or the owner cannot lock the memory, the bytes go in medium messages.

use crate::attach::Peer;
use crate::far::{Ask, Far, FarError};
use crate::owner::Owner;
use hamr_comm::Fault;
use hamr_comm::world::RankId;
use hamr_gas::firehose::{Limits, Refused, Slot};
use hamr_gas::{GasError, Handlers, Kinds, Msg, Rank, Token};
use std::fmt;
use std::ops::Range;

/// Ranges of a move: to unpin, then the one to pin.
const RANGES: usize = hamr_gas::firehose::MOVES + 1;
/// Bytes of a range in a message.
const RANGE: usize = 16;

/// Where another rank's memory is, as it says itself.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Used where the launcher says the same alone.
    process: u32,
    at: u64,
    len: u64,
}

/// What a rank exposes, and what others have told it.
#[derive(Debug)]
pub struct Side {
    owner: Owner,
    met: Vec<Option<Place>>,
    /// What the last question was answered, and bytes that came with it.
    answer: Option<bool>,
    bytes: Vec<u8>,
    /// The longest payload of a medium message.
    medium: usize,
}

impl Side {
    /// Exposes so many bytes, rounded up to pages.
    pub fn new(bytes: usize) -> Self {
        Self { owner: Owner::new(bytes), met: Vec::new(), answer: None, bytes: Vec::new(), medium: 0 }
    }

    /// This rank's own memory.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }
}

/// A state of handlers that has a side.
pub trait HasSide {
    /// The side.
    fn side(&mut self) -> &mut Side;
}

/// Why a transfer was not made, or not wholly.
#[derive(Debug)]
pub enum OutsideError {
    /// A message was not sent, or not answered.
    Gas(GasError),
    /// The cache or the system.
    Far(FarError<GasError>),
    /// It leaves the memory that the rank exposes.
    Reach {
        /// The rank.
        rank: u32,
        /// Where it ends.
        end: u64,
        /// Bytes that are exposed.
        len: u64,
    },
}

impl fmt::Display for OutsideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gas(why) => why.fmt(f),
            Self::Far(why) => why.fmt(f),
            Self::Reach { rank, end, len } => {
                write!(f, "it ends at byte {end:#x} of {len:#x} that rank {rank} exposes")
            }
        }
    }
}
impl std::error::Error for OutsideError {}

impl From<GasError> for OutsideError {
    fn from(why: GasError) -> Self {
        Self::Gas(why)
    }
}

impl From<OutsideError> for Fault {
    fn from(why: OutsideError) -> Self {
        match why {
            OutsideError::Gas(why) => why.into(),
            why => Self::msg(&why.to_string()),
        }
    }
}

/// Adds the handlers of [`Outside`]: requests from index `AT` to `AT + 3`, replies `AT + 4` and `AT + 5`.
pub const fn handlers<S: HasSide, const AT: u8>(table: Handlers<S>) -> Handlers<S> {
    table
        .request(AT, Kinds::SHORT, "outside_meet", meet::<S>)
        .request(AT + 1, Kinds::MEDIUM, "outside_move", moves::<S, AT>)
        .request(AT + 2, Kinds::MEDIUM, "outside_put", put::<S, AT>)
        .request(AT + 3, Kinds::SHORT, "outside_get", get::<S, AT>)
        .reply(AT + 4, Kinds::SHORT, "outside_answer", answer::<S>)
        .reply(AT + 5, Kinds::MEDIUM, "outside_bytes", bytes::<S>)
}

/// A 64-bit number in two arguments, from `at` on.
fn number(args: &[i32], at: usize) -> u64 {
    let half = |at| args.get(at).map_or(0, |arg| u64::from(*arg as u32));
    half(at) | half(at + 1) << 32
}

fn halves(number: u64) -> [i32; 2] {
    [number as i32, (number >> 32) as i32]
}

fn meet<S: HasSide>(state: &mut S, msg: Msg<'_>, _: Token<'_>) {
    let (rank, args) = (msg.source().0 as usize, msg.args());
    let side = state.side();
    side.met.resize(side.met.len().max(msg.size() as usize), None);
    if let (Some(to), Some(process)) = (side.met.get_mut(rank), args.first()) {
        let (at, len) = (number(args, 1), number(args, 3));
        // No address is behind the last one.
        *to = Some(Place { process: *process as u32, at, len: len.min(u64::MAX - at) });
    }
}

fn moves<S: HasSide, const AT: u8>(state: &mut S, mut msg: Msg<'_>, token: Token<'_>) {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let range = |bytes: &[u8]| word(bytes.get(..8).unwrap_or_default())..word(bytes.get(8..).unwrap_or_default());
    let mut ranges: Vec<Range<u64>> = msg.payload().chunks_exact(RANGE).map(range).collect();
    let pin = ranges.pop().filter(|range| !range.is_empty());
    ranges.retain(|range| !range.is_empty());
    let is_done = state.side().owner.moved(msg.source().0, &ranges, pin);
    token.reply_short(AT + 4, &[i32::from(is_done)]);
}

fn put<S: HasSide, const AT: u8>(state: &mut S, mut msg: Msg<'_>, token: Token<'_>) {
    let is_done = state.side().owner.exposed().write(number(msg.args(), 0), msg.payload());
    token.reply_short(AT + 4, &[i32::from(is_done)]);
}

fn get<S: HasSide, const AT: u8>(state: &mut S, msg: Msg<'_>, token: Token<'_>) {
    let len = msg.args().get(2).map_or(0, |len| *len as usize);
    // A reply that is too long would end this rank.
    let has_room = len <= state.side().medium;
    let mut bytes = vec![0; if has_room { len } else { 0 }];
    match has_room && state.side().owner.exposed().read(number(msg.args(), 0), &mut bytes) {
        true => token.reply_medium(AT + 5, &[], &bytes),
        false => token.reply_short(AT + 4, &[0]),
    }
}

fn answer<S: HasSide>(state: &mut S, msg: Msg<'_>) {
    state.side().answer = Some(msg.args() == [1]);
}

fn bytes<S: HasSide>(state: &mut S, mut msg: Msg<'_>) {
    let side = state.side();
    side.bytes.clear();
    side.bytes.extend_from_slice(msg.payload());
    side.answer = Some(true);
}

/// A rank's way to what the others expose. The table of its handlers was made by [`handlers`] with the same `AT`.
pub struct Outside<'m, const AT: u8> {
    far: Far<'m>,
    /// By rank: its memory, and its process if the system lets this one copy there.
    peers: Vec<(Place, Option<Peer>)>,
}

impl<'m, const AT: u8> Outside<'m, AT> {
    /// All ranks call it, behind [`Rank::attach`], and say where their memory is. The cache has `limits`, shared by all
    /// peers, and `slots` for regions.
    ///
    /// # Errors
    /// A message was not sent.
    pub fn attach<S: HasSide>(
        rank: &mut Rank<'_, S>,
        limits: Limits,
        slots: &'m mut [Slot<u64>],
    ) -> Result<Self, GasError> {
        let medium = rank.max_medium();
        let side = rank.state_mut().side();
        side.medium = medium;
        let memory = side.owner.exposed().range();
        let ([at, at_high], [len, len_high]) = (halves(memory.start), halves(memory.end - memory.start));
        let size = rank.size() as usize;
        for to in (0..rank.size()).map(RankId) {
            rank.request_short(to, AT, &[std::process::id() as i32, at, at_high, len, len_high])?;
        }
        let all = |met: &[Option<Place>]| met.len() == size && met.iter().all(Option::is_some);
        rank.block_until(|state| all(&state.side().met))?;
        let places: Vec<Place> = rank.state_mut().side().met.iter().flatten().copied().collect();
        let world = rank.task().world();
        // A rank speaks for itself: which process it is, its launcher knows. Of machines and threads nobody does.
        let process = |rank| world.as_ref().and_then(|world| world.process(rank));
        let peer = |(rank, place): (u32, Place)| {
            let process = process(RankId(rank)).filter(|process| *process == place.process);
            (place, process.and_then(|process| Peer::attach(process, place.at).ok()))
        };
        let peers = (0..).zip(places).map(peer).collect();
        Ok(Self { far: Far::new(limits, slots), peers })
    }

    /// Do bytes go to this rank in messages?
    pub fn uses_messages(&self, to: RankId) -> bool {
        self.peers.get(to.0 as usize).is_none_or(|(_, process)| process.is_none())
    }

    /// Has bytes to this rank go in messages from now on.
    pub fn use_messages(&mut self, to: RankId) {
        if let Some((_, process)) = self.peers.get_mut(to.0 as usize) {
            *process = None;
        }
    }

    /// Copies bytes to byte `off` of what a rank exposes. They are there when this returns. It polls if the owner is
    /// asked, or takes messages.
    ///
    /// # Errors
    /// See [`OutsideError`]; a part may have been copied.
    pub fn put<S: HasSide>(
        &mut self,
        rank: &mut Rank<'_, S>,
        to: RankId,
        off: u64,
        bytes: &[u8],
    ) -> Result<(), OutsideError> {
        let place = self.place(to, off, bytes.len())?;
        if let Some((_, Some(process))) = self.peers.get(to.0 as usize) {
            let asks = |ask| asked::<S, AT>(rank, ask);
            match self.far.put((to.0, process), place.at + off, bytes, asks) {
                Err(FarError::Refused(Refused::Pin)) => self.use_messages(to),
                done => return done.map_err(OutsideError::Far),
            }
        }
        let mut off = off;
        for piece in bytes.chunks(rank.max_medium()) {
            ask(rank, to, |rank| rank.request_medium(to, AT + 2, &halves(off), piece))?;
            off += piece.len() as u64;
        }
        Ok(())
    }

    /// Copies bytes out of what a rank exposes; else as [`Self::put`].
    ///
    /// # Errors
    /// See [`OutsideError`].
    pub fn get<S: HasSide>(
        &mut self,
        rank: &mut Rank<'_, S>,
        from: RankId,
        off: u64,
        to: &mut [u8],
    ) -> Result<(), OutsideError> {
        let place = self.place(from, off, to.len())?;
        if let Some((_, Some(process))) = self.peers.get(from.0 as usize) {
            let asks = |ask| asked::<S, AT>(rank, ask);
            match self.far.get((from.0, process), place.at + off, to, asks) {
                Err(FarError::Refused(Refused::Pin)) => self.use_messages(from),
                done => return done.map_err(OutsideError::Far),
            }
        }
        let mut off = off;
        for piece in to.chunks_mut(rank.max_medium()) {
            let [low, high] = halves(off);
            ask(rank, from, |rank| rank.request_short(from, AT + 3, &[low, high, piece.len() as i32]))?;
            match rank.state_mut().side().bytes.get(..piece.len()) {
                Some(bytes) => piece.copy_from_slice(bytes),
                None => return Err(GasError::Corrupt(from.0).into()),
            }
            off += piece.len() as u64;
        }
        Ok(())
    }

    /// Has a rank unlock what it locked of a range for this one, and forgets it, so that the rank can give the memory
    /// back to the system. The next transfer has it locked again.
    ///
    /// # Errors
    /// See [`OutsideError`]; a part may be locked as before.
    pub fn invalidate<S: HasSide>(
        &mut self,
        rank: &mut Rank<'_, S>,
        of: RankId,
        off: u64,
        len: usize,
    ) -> Result<(), OutsideError> {
        let begin = self.place(of, off, len)?.at + off;
        let asks = |ask| asked::<S, AT>(rank, ask);
        self.far.invalidate(of.0, begin..begin + len as u64, asks).map_err(OutsideError::Far)
    }

    fn place(&self, of: RankId, off: u64, len: usize) -> Result<Place, OutsideError> {
        let (place, _) = self.peers.get(of.0 as usize).ok_or(GasError::NoRank(of.0))?;
        let end = off.saturating_add(len as u64);
        match end <= place.len {
            true => Ok(*place),
            false => Err(OutsideError::Reach { rank: of.0, end, len: place.len }),
        }
    }
}

/// Sends a question and waits for its answer, which says that it was done.
fn ask<S: HasSide>(
    rank: &mut Rank<'_, S>,
    to: RankId,
    send: impl FnOnce(&mut Rank<'_, S>) -> Result<(), GasError>,
) -> Result<(), GasError> {
    match question(rank, send)? {
        true => Ok(()),
        // What it exposes was checked here.
        false => Err(GasError::Corrupt(to.0)),
    }
}

fn question<S: HasSide>(
    rank: &mut Rank<'_, S>,
    send: impl FnOnce(&mut Rank<'_, S>) -> Result<(), GasError>,
) -> Result<bool, GasError> {
    rank.state_mut().side().answer = None;
    send(rank)?;
    rank.block_until(|state| state.side().answer.is_some())?;
    Ok(rank.state_mut().side().answer == Some(true))
}

/// Brings what the cache asks to its owner.
fn asked<S: HasSide, const AT: u8>(rank: &mut Rank<'_, S>, ask: Ask) -> Result<bool, GasError> {
    let Ask { peer, unpin, pin } = ask;
    let mut message = [0; RANGES * RANGE];
    // The range to pin is the last.
    let ranges = unpin.iter().map(Some).chain(std::iter::repeat(None)).take(RANGES - 1).chain([pin.as_ref()]);
    for (to, range) in message.chunks_exact_mut(RANGE).zip(ranges) {
        if let (Some(range), (start, end)) = (range, to.split_at_mut(8)) {
            start.copy_from_slice(&range.start.to_le_bytes());
            end.copy_from_slice(&range.end.to_le_bytes());
        }
    }
    question(rank, |rank| rank.request_medium(RankId(peer), AT + 1, &[], &message))
}
