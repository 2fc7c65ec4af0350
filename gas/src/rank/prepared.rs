//! Requests whose payload is negotiated: prepared, filled, committed (`gex_AM_Prepare…`).

use super::am::Request;
use super::{MAX_MEDIUM, Rank};
use crate::GasError;
use hamr_comm::abi::world::Category;
use hamr_comm::world::RankId;

/// A request that was prepared: there is room for it at its rank, and memory for its payload. Dropped, it is cancelled
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
    category: Category,
    dest: u64,
    len: usize,
    payload: [u8; MAX_MEDIUM],
}

impl<'t, S> Rank<'t, S> {
    /// Prepares a medium request with a payload of `least` to `most` bytes (`gex_AM_PrepareRequestMedium`): as many as
    /// a message has. Waits for room, and polls meanwhile.
    ///
    /// # Errors
    /// [`GasError::TooLong`]: a message has less than `least`; `most` is less.
    pub fn prepare_medium(&mut self, to: RankId, least: usize, most: usize) -> Result<Prepared<'_, 't, S>, GasError> {
        self.prepare(to, Category::Medium, 0, (least, most))
    }

    /// The same of a long request, whose payload goes to `dest` in the segment of `to`
    /// (`gex_AM_PrepareRequestLong`): as many bytes as a medium one has at most.
    pub fn prepare_long(
        &mut self,
        to: RankId,
        least: usize,
        most: usize,
        dest: u64,
    ) -> Result<Prepared<'_, 't, S>, GasError> {
        self.check(to, dest, least as u64)?;
        self.prepare(to, Category::Long, dest, (least, most))
    }

    fn prepare(
        &mut self,
        to: RankId,
        category: Category,
        dest: u64,
        (least, most): (usize, usize),
    ) -> Result<Prepared<'_, 't, S>, GasError> {
        self.attached()?;
        self.segment_len(to)?;
        let len = most.min(self.medium);
        if least > len {
            return Err(GasError::TooLong { len: least, max: len });
        }
        while to != self.me() && !self.has_room(to)? {
            if self.poll_once()? == 0 {
                self.rest()?;
            }
        }
        Ok(Prepared { rank: self, to, category, dest, len, payload: [0; MAX_MEDIUM] })
    }

    fn has_room(&mut self, to: RankId) -> Result<bool, GasError> {
        let peer = self.peers.get_mut(to.0 as usize).ok_or(GasError::NoRank(to.0))?;
        Ok(peer.room().is_some())
    }
}

impl<S> Prepared<'_, '_, S> {
    /// Memory for the payload (`gex_AM_SrcDescAddr`, `gex_AM_SrcDescSize`), zeros at first.
    pub fn payload(&mut self) -> &mut [u8] {
        self.payload.split_at_mut(self.len).0
    }

    /// Sends it with the first `len` bytes of the payload to the handler `at` (`gex_AM_CommitRequest…`). It neither waits nor
    /// polls.
    ///
    /// # Errors
    /// [`GasError::TooLong`]: `len` is more than the payload has; as of a request.
    pub fn commit(self, at: u8, args: &[i32], len: usize) -> Result<(), GasError> {
        let Self { rank, to, category, dest, len: max, payload } = self;
        let data = payload.get(..len).filter(|_| len <= max).ok_or(GasError::TooLong { len, max })?;
        rank.request(Request { to, at, category, args, data, dest }, false)
    }
}
