//! Messages whose payload is negotiated: prepared, filled, committed (`gex_AM_Prepare…`).

use super::am::Request;
use super::{MAX_MEDIUM, Rank};
use crate::GasError;
use crate::message::Token;
use hamr_comm::abi::world::Category;
use hamr_comm::world::{RankId, WorldRef};

/// A payload that is written piece by piece: of a medium message here, of a long one where it goes.
struct Payload {
    size: usize,
    place: Place,
}

#[expect(clippy::large_enum_variant, reason = "a bare-metal image has no heap for it")]
enum Place {
    Medium([u8; MAX_MEDIUM]),
    /// In the other rank's segment.
    Long(u64),
}

/// What of a payload is sent: bytes of a medium one, place and length of a long one.
struct Sent<'a> {
    category: Category,
    data: &'a [u8],
    place: (u64, usize),
}

impl Payload {
    fn write(&mut self, world: &WorldRef<'_>, to: RankId, at: usize, bytes: &[u8]) -> Result<(), GasError> {
        let end = at.saturating_add(bytes.len());
        let part = match &mut self.place {
            _ if end > self.size => None,
            Place::Medium(payload) => payload.get_mut(at..end),
            Place::Long(dest) => {
                // It was checked that all of the payload is in the segment.
                let put = world.put(to, *dest + at as u64, bytes);
                return put.map_err(|why| GasError::Reach { rank: to.0, why });
            }
        };
        part.ok_or(GasError::TooLong { len: end, max: self.size })?.copy_from_slice(bytes);
        Ok(())
    }

    /// Its first `len` bytes.
    fn sent(&self, len: usize) -> Result<Sent<'_>, GasError> {
        match &self.place {
            _ if len > self.size => Err(GasError::TooLong { len, max: self.size }),
            Place::Medium(payload) => {
                Ok(Sent { category: Category::Medium, data: payload.get(..len).unwrap_or_default(), place: (0, 0) })
            }
            Place::Long(dest) => Ok(Sent { category: Category::Long, data: &[], place: (*dest, len) }),
        }
    }
}

/// As many of `least` to `most` bytes as a message with `max` has.
fn negotiate(least: usize, most: usize, max: usize) -> Result<usize, GasError> {
    let size = most.min(max);
    if least <= size { Ok(size) } else { Err(GasError::TooLong { len: least, max: size }) }
}

/// A request that was prepared: there is room for it at its rank. Dropped, it is cancelled
/// (`gex_AM_CancelRequest…`). Meanwhile it has the rank, so nothing else is sent or served:
///
/// ```compile_fail,E0499
/// # use hamr_gas::{Rank, GasError};
/// # use hamr_comm::world::RankId;
/// fn twice(rank: &mut Rank<'_, u32>) -> Result<(), GasError> {
///     let message = rank.prepare_medium(RankId(0), 1, 100)?;
///     rank.poll()?;
///     message.commit(128, &[], 1)
/// }
/// ```
#[must_use = "it is sent when it is committed"]
pub struct Prepared<'r, 't, S: 'static> {
    rank: &'r mut Rank<'t, S>,
    to: RankId,
    payload: Payload,
}

impl<'t, S> Rank<'t, S> {
    /// Prepares a medium request with a payload of `least` to `most` bytes (`gex_AM_PrepareRequestMedium`): as many as
    /// a message has. Waits for room, and polls meanwhile.
    ///
    /// # Errors
    /// [`GasError::TooLong`]: a message has less than `least`; `most` is less.
    pub fn prepare_medium(&mut self, to: RankId, least: usize, most: usize) -> Result<Prepared<'_, 't, S>, GasError> {
        self.attached()?;
        self.segment_len(to)?;
        let size = negotiate(least, most, self.replies.medium)?;
        self.wait_for_room(to)?;
        Ok(Prepared { rank: self, to, payload: Payload { size, place: Place::Medium([0; MAX_MEDIUM]) } })
    }

    /// The same of a long request (`gex_AM_PrepareRequestLong`), whose payload is written to `dest` in the segment of
    /// `to` at once: as many bytes as are there.
    ///
    /// # Errors
    /// As of [`Self::prepare_medium`]; [`GasError::Reach`]: fewer than `least` bytes are there.
    pub fn prepare_long(
        &mut self,
        to: RankId,
        least: usize,
        most: usize,
        dest: u64,
    ) -> Result<Prepared<'_, 't, S>, GasError> {
        self.attached()?;
        self.check(to, dest, least as u64)?;
        let size = negotiate(least, most, room_at(dest, self.segment_len(to)?))?;
        self.wait_for_room(to)?;
        Ok(Prepared { rank: self, to, payload: Payload { size, place: Place::Long(dest) } })
    }

    fn wait_for_room(&mut self, to: RankId) -> Result<(), GasError> {
        while !self.has_room(to)? {
            if self.poll_once()? == 0 {
                self.rest()?;
            }
        }
        Ok(())
    }

    /// Would a request to a rank go at once? For those that prepare one and may not wait (`GEX_FLAG_IMMEDIATE`).
    ///
    /// # Errors
    /// [`GasError::NoRank`].
    pub fn has_room(&mut self, to: RankId) -> Result<bool, GasError> {
        if to == self.me() {
            return Ok(true);
        }
        let peer = self.peers.get_mut(to.0 as usize).ok_or(GasError::NoRank(to.0))?;
        Ok(peer.room().is_some())
    }
}

/// Bytes of a long message from there on.
fn room_at(dest: u64, segment: u64) -> usize {
    segment.saturating_sub(dest).min(i32::MAX as u64) as usize
}

impl<S> Prepared<'_, '_, S> {
    /// Bytes that its payload may have (`gex_AM_SrcDescSize`).
    pub fn size(&self) -> usize {
        self.payload.size
    }

    /// Writes a part of the payload. What is not written is zero in a medium message, and in a long one as it was.
    ///
    /// # Errors
    /// [`GasError::TooLong`]: it ends behind [`Self::size`].
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), GasError> {
        self.payload.write(&self.rank.world, self.to, at, bytes)
    }

    /// Sends it with the first `len` bytes of the payload to the handler `at` (`gex_AM_CommitRequest…`). It neither waits nor
    /// polls.
    ///
    /// # Errors
    /// [`GasError::TooLong`]: `len` is more than the payload has; as of a request.
    pub fn commit(self, at: u8, args: &[i32], len: usize) -> Result<(), GasError> {
        let Self { rank, to, payload } = self;
        let Sent { category, data, place: (dest, len) } = payload.sent(len)?;
        rank.request(Request { to, at, category, args, data, dest, len }, false)
    }
}

/// A reply that was prepared. Dropped, it is cancelled (`gex_AM_CancelReply…`), and there is none.
#[must_use = "it is sent when it is committed"]
pub struct PreparedReply<'m> {
    token: Token<'m>,
    payload: Payload,
}

impl<'m> Token<'m> {
    /// Prepares a medium reply (`gex_AM_PrepareReplyMedium`), as [`Rank::prepare_medium`] a request.
    ///
    /// # Errors
    /// [`GasError::TooLong`]: a message has less than `least`. There is no reply then.
    pub fn prepare_medium(self, least: usize, most: usize) -> Result<PreparedReply<'m>, GasError> {
        let size = negotiate(least, most, self.0.replies.medium)?;
        Ok(PreparedReply { token: self, payload: Payload { size, place: Place::Medium([0; MAX_MEDIUM]) } })
    }

    /// Prepares a long reply to `dest` in the asking rank's segment (`gex_AM_PrepareReplyLong`), as [`Rank::prepare_long`]
    /// a request.
    ///
    /// # Errors
    /// [`GasError::TooLong`]: fewer than `least` bytes are there. There is no reply then.
    pub fn prepare_long(self, least: usize, most: usize, dest: u64) -> Result<PreparedReply<'m>, GasError> {
        let segment = self.0.world.segment_len(self.0.to).unwrap_or(0);
        let size = negotiate(least, most, room_at(dest, segment))?;
        Ok(PreparedReply { token: self, payload: Payload { size, place: Place::Long(dest) } })
    }
}

impl PreparedReply<'_> {
    /// As [`Prepared::size`].
    pub fn size(&self) -> usize {
        self.payload.size
    }

    /// As [`Prepared::write`].
    ///
    /// # Errors
    /// [`GasError::TooLong`]: it ends behind [`Self::size`].
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), GasError> {
        self.payload.write(self.token.0.world, self.token.0.to, at, bytes)
    }

    /// Replies with the first `len` bytes of the payload to the handler `at` (`gex_AM_CommitReply…`). A handler that is
    /// wrong is an error as of [`Token::reply_medium`].
    ///
    /// # Errors
    /// [`GasError::TooLong`]: `len` is more than the payload has. There is no reply then.
    pub fn commit(self, at: u8, args: &[i32], len: usize) -> Result<(), GasError> {
        let Sent { category, data, place } = self.payload.sent(len)?;
        self.token.send(category, at, args, data, place);
        Ok(())
    }
}
