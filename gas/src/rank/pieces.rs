//! Pieces of transfers over messages (abi §14.4), at both ends.

use super::{Peer, Rank};
use crate::GasError;
use hamr_comm::abi::ids::HandlerKey;
use hamr_comm::abi::slot::{INLINE_BYTES, INLINE_WORDS, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::Window;
use hamr_comm::abi::world::ARGS_BYTES;
use hamr_comm::world::{GasWorld, RankId, WorldRef};

/// Keys of these requests: those of module 2.
pub(crate) const PUT: u16 = 0x2001;
pub(crate) const GET: u16 = 0x2002;
pub(crate) const FILL: u16 = 0x2003;
/// Bytes of a piece that are in the line, behind offset and length.
const INLINE: usize = INLINE_BYTES - 16;

/// What a request is, by its slot.
#[derive(Clone, Copy)]
pub(crate) enum Op {
    /// An active message.
    Am,
    /// A piece of a put, which this counter counts.
    Put(u8),
    /// One of a get into this rank's segment.
    Get { counter: u8, len: u16, to: u64 },
    /// One whose bytes a call waits for, which takes them out of the slot itself.
    Held,
}

/// A request for a part of a transfer.
pub(crate) struct Piece<'a> {
    pub(crate) key: u16,
    pub(crate) off: u64,
    pub(crate) len: u64,
    pub(crate) data: Data<'a>,
}

/// The bytes of a piece.
#[derive(Clone, Copy)]
pub(crate) enum Data<'a> {
    None,
    Bytes(&'a [u8]),
    /// In this rank's segment.
    Own(u64),
}

impl<S> Rank<'_, S> {
    /// Sends a piece, and polls while there is no room.
    pub(crate) fn ask(&mut self, to: RankId, piece: Piece<'_>, op: Op) -> Result<(), GasError> {
        while !self.send_piece(to, &piece, op)? {
            if self.poll_once()? == 0 {
                self.rest()?;
            }
        }
        if let Op::Put(counter) | Op::Get { counter, .. } = op {
            self.events.begin(counter);
        }
        Ok(())
    }

    fn send_piece(&mut self, to: RankId, piece: &Piece<'_>, op: Op) -> Result<bool, GasError> {
        let (window, me) = (self.gas.window(), self.gas.me());
        let Some(peer) = self.peers.get_mut(to.0 as usize) else { return Err(GasError::NoRank(to.0)) };
        let Some(slot) = peer.room() else { return Ok(false) };
        let data = match piece.data {
            Data::None => &[],
            Data::Bytes(bytes) => bytes,
            Data::Own(own) => {
                let (bytes, _) = self.scratch.split_at_mut(piece.len as usize);
                self.world.get(me, own, bytes).map_err(|why| GasError::Reach { rank: me.0, why })?;
                bytes
            }
        };
        let mut words = [0; INLINE_WORDS];
        (words[0], words[1]) = (piece.off, piece.len);
        let mut len = 16;
        if data.len() <= INLINE {
            let bytes: &mut [u8; INLINE_BYTES] = bytemuck::must_cast_mut(&mut words);
            bytes.iter_mut().skip(len).zip(data).for_each(|(to, byte)| *to = *byte);
            len += data.len();
        } else {
            // In the window: a piece is as long as a chunk at most.
            let _ = window.write_bytes(peer.to.request(slot) + u64::from(ARGS_BYTES), data);
        }
        peer.submit(slot, op, ReqHdr::inline(HandlerKey(piece.key), len), &words);
        self.published(to);
        Ok(true)
    }

    /// A piece of this rank's own transfer was answered, by a reply with this header in `slot`.
    pub(crate) fn piece_is_done(&mut self, from: RankId, slot: u32, op: Op, hdr: RepHdr) -> Result<(), GasError> {
        let refused = GasError::Refused { rank: from.0, at: 0, status: hdr.status() };
        match op {
            Op::Put(counter) if hdr.status() == Status::EXECUTED => self.events.end(counter),
            Op::Get { counter, len, to } if hdr.status() == Status::OK => {
                let (bytes, _) = self.scratch.split_at_mut(usize::from(len));
                read_piece(self.gas, &self.peers, from, slot, bytes);
                let me = self.gas.me();
                self.world.put(me, to, bytes).map_err(|why| GasError::Reach { rank: me.0, why })?;
                self.events.end(counter);
            }
            _ => return Err(refused),
        }
        Ok(())
    }

    /// Copies what the reply has for which a call waits, and frees its slot.
    pub(crate) fn take_held(&mut self, from: RankId, to: &mut [u8]) {
        let Some(slot) = self.held.take() else { return };
        read_piece(self.gas, &self.peers, from, slot, to);
        if let Some(peer) = self.peers.get_mut(from.0 as usize) {
            peer.release(slot);
        }
    }
}

/// Copies the data of a reply out of its line or its chunk.
fn read_piece(gas: GasWorld, peers: &[Peer], from: RankId, slot: u32, to: &mut [u8]) {
    let Some(peer) = peers.get(from.0 as usize) else { return };
    if to.len() > INLINE_BYTES {
        // As above.
        let _ = gas.window().read_bytes(peer.to.reply(slot) + u64::from(ARGS_BYTES), to);
        return;
    }
    let words = peer.reply_words(slot);
    let bytes: &[u8; INLINE_BYTES] = bytemuck::must_cast_ref(&words);
    to.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
}

/// Serves a piece of another rank's transfer: the header of the reply, whose words are in `words`.
pub(crate) fn serve(
    hdr: ReqHdr,
    words: &mut [u64; INLINE_WORDS],
    world: &WorldRef<'_>,
    window: &Window<()>,
    (request, reply): (u64, u64),
    scratch: &mut [u8],
) -> RepHdr {
    let bad = RepHdr::inline(Status::BAD_REQUEST, 0);
    let (me, off, len) = (world.me(), words[0], words[1]);
    let done = |ok: bool| if ok { RepHdr::inline(Status::EXECUTED, 0) } else { bad };
    let short = usize::try_from(len).ok().filter(|len| *len <= scratch.len() - ARGS_BYTES as usize);
    match (hdr.key().0, short) {
        (PUT, Some(len)) if len <= INLINE => {
            let bytes: &[u8; INLINE_BYTES] = bytemuck::must_cast_ref(words);
            done(bytes.get(16..16 + len).is_some_and(|bytes| world.put(me, off, bytes).is_ok()))
        }
        (PUT, Some(len)) => {
            let (bytes, _) = scratch.split_at_mut(len);
            let read = window.read_bytes(request + u64::from(ARGS_BYTES), bytes);
            done(read.is_ok() && world.put(me, off, bytes).is_ok())
        }
        (GET, Some(len)) => {
            let (bytes, _) = scratch.split_at_mut(len);
            if world.get(me, off, bytes).is_err() {
                return bad;
            }
            if len > INLINE_BYTES {
                let written = window.write_bytes(reply + u64::from(ARGS_BYTES), bytes);
                return if written.is_ok() { RepHdr::inline(Status::OK, 0) } else { bad };
            }
            let line: &mut [u8; INLINE_BYTES] = bytemuck::must_cast_mut(words);
            line.iter_mut().zip(&*bytes).for_each(|(to, byte)| *to = *byte);
            RepHdr::inline(Status::OK, len)
        }
        (FILL, _) => done(fill(world, off, words[2] as u8, len)),
        _ => bad,
    }
}

/// Fills a part of this rank's segment.
fn fill(world: &WorldRef<'_>, off: u64, byte: u8, len: u64) -> bool {
    let bytes = [byte; 512];
    let mut done = 0;
    // The end first: nothing is written if it is outside.
    if off.checked_add(len).is_none_or(|end| world.get(world.me(), end, &mut []).is_err()) {
        return false;
    }
    while done < len {
        let (piece, _) = bytes.split_at((len - done).min(512) as usize);
        if world.put(world.me(), off + done, piece).is_err() {
            return false;
        }
        done += piece.len() as u64;
    }
    true
}
