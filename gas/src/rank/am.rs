//! Requests.

use super::Rank;
use super::pieces::Op;
use super::serve;
use crate::handlers::{Handlers, Run};
use crate::kinds::Kinds;
use crate::message::{Asked, Msg, Payload, ReplyChunk, SegRange, Token};
use crate::{GasError, wire};
use hamr_comm::abi::ids::HandlerKey;
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr, ReqHdr};
use hamr_comm::abi::world::{AmWord, Category};
use hamr_comm::world::RankId;

/// A request that was checked.
pub(crate) struct Request<'a> {
    pub(super) to: RankId,
    pub(super) at: u8,
    pub(super) category: Category,
    pub(super) args: &'a [i32],
    pub(super) data: &'a [u8],
    pub(super) dest: u64,
    /// Bytes of a long payload: those of `data`, or what was written there before.
    pub(super) len: usize,
}

impl<S> Rank<'_, S> {
    /// Sends a request (`gex_AM_RequestShort`): handler `at` of rank `to` runs there when that polls. At most
    /// 16 arguments. While there is no room it polls, so handlers of this rank may run.
    #[inline]
    pub fn request_short(&mut self, to: RankId, at: u8, args: &[i32]) -> Result<(), GasError> {
        self.request(Request { to, at, category: Category::Short, args, data: &[], dest: 0, len: 0 }, true)
    }

    /// The same with a payload of at most [`Self::max_medium`] bytes, which the handler reads
    /// (`gex_AM_RequestMedium`). The payload is free when this returns.
    #[inline]
    pub fn request_medium(&mut self, to: RankId, at: u8, args: &[i32], data: &[u8]) -> Result<(), GasError> {
        self.request(Request { to, at, category: Category::Medium, args, data, dest: 0, len: 0 }, true)
    }

    /// The same with a payload that is at `dest` in the segment of `to` before the handler runs
    /// (`gex_AM_RequestLong`). The payload is free when this returns. Without bytes `dest` may be any number.
    #[inline]
    pub fn request_long(&mut self, to: RankId, at: u8, args: &[i32], data: &[u8], dest: u64) -> Result<(), GasError> {
        self.request(Request { to, at, category: Category::Long, args, data, dest, len: data.len() }, true)
    }

    /// [`Self::request_short`] that neither waits nor polls (`GEX_FLAG_IMMEDIATE`).
    ///
    /// # Errors
    /// [`GasError::Busy`]: there is no room, and nothing was sent.
    #[inline]
    pub fn try_request_short(&mut self, to: RankId, at: u8, args: &[i32]) -> Result<(), GasError> {
        self.request(Request { to, at, category: Category::Short, args, data: &[], dest: 0, len: 0 }, false)
    }

    /// [`Self::request_medium`], likewise.
    #[inline]
    pub fn try_request_medium(&mut self, to: RankId, at: u8, args: &[i32], data: &[u8]) -> Result<(), GasError> {
        self.request(Request { to, at, category: Category::Medium, args, data, dest: 0, len: 0 }, false)
    }

    /// [`Self::request_long`], likewise.
    #[inline]
    pub fn try_request_long(
        &mut self,
        to: RankId,
        at: u8,
        args: &[i32],
        data: &[u8],
        dest: u64,
    ) -> Result<(), GasError> {
        self.request(Request { to, at, category: Category::Long, args, data, dest, len: data.len() }, false)
    }

    #[inline(always)]
    pub(super) fn request(&mut self, request: Request<'_>, waits: bool) -> Result<(), GasError> {
        let table = self.attached()?;
        let info = table.info.get(usize::from(request.at)).filter(|info| !info.is_reply());
        if !info.is_some_and(|info| Kinds(info.kinds).has(request.category))
            || request.args.len() > AmWord::MAX_ARGS
            || matches!(request.category, Category::Medium) && request.data.len() > self.replies.medium
            || request.len > i32::MAX as usize
        {
            return Err(self.refusal(table, &request));
        }
        if request.to == self.me() {
            return self.request_to_itself(table, &request);
        }
        while !self.send(&request)? {
            if !waits {
                return Err(GasError::Busy);
            }
            if self.poll_once()? == 0 {
                self.rest()?;
            }
        }
        Ok(())
    }

    /// Publishes a request. False: there is no room.
    #[inline(always)]
    pub(crate) fn send(&mut self, request: &Request<'_>) -> Result<bool, GasError> {
        let &Request { to, at, category, args, data, dest, len } = request;
        let Some(peer) = self.peers.get_mut(to.0 as usize) else { return Err(GasError::NoRank(to.0)) };
        let Some(slot) = peer.room() else { return Ok(false) };
        if let (Category::Long, [_, ..]) = (category, data) {
            self.world.put(to, dest, data).map_err(|why| GasError::Reach { rank: to.0, why })?;
        }
        let mut words = [0; INLINE_WORDS];
        let packed = wire::pack(&mut words, category, args, data, (dest, len));
        if packed.is_out() {
            wire::write_out(&packed, args, data, self.gas.window(), peer.to.request(slot));
        }
        let hdr = ReqHdr::inline(HandlerKey(wire::MODULE | u16::from(at)), packed.len);
        peer.submit(slot, Op::Am, hdr, wire::used(&words, packed.len));
        self.published(to);
        Ok(true)
    }

    /// Something was published in a lane for a rank.
    #[inline(always)]
    pub(crate) fn published(&mut self, to: RankId) {
        self.gas.announce(to);
        self.touched(to);
    }

    /// Something was published elsewhere for a rank, which looks there by itself.
    #[inline(always)]
    pub(crate) fn touched(&mut self, to: RankId) {
        self.gas.notify_relaxed(to);
        if self.last_owed != to {
            self.last_owed = to;
            self.owed.insert(to);
        }
    }

    /// A rank's request to itself runs at once.
    fn request_to_itself(&mut self, table: &'static Handlers<S>, request: &Request<'_>) -> Result<(), GasError> {
        let &Request { at, category, args, data, dest, len, .. } = request;
        let me = self.me();
        if let (Category::Long, [_, ..]) = (category, data) {
            self.world.put(me, dest, data).map_err(|why| GasError::Reach { rank: me.0, why })?;
        }
        self.replies.begin();
        let world = &self.world;
        let payload = match category {
            Category::Long => Payload::Landed(SegRange { off: dest, len: len as u64 }),
            Category::Medium => Payload::Private(data),
            Category::Short => Payload::None,
        };
        let chunk = ReplyChunk::Own(&mut self.scratch);
        let mut asked = Asked { to: me, world, chunk, replies: &mut self.replies };
        if let Some(Run::Request(_, run)) = table.run.get(usize::from(at)) {
            run(&mut self.state, Msg { source: me, world, args, payload }, Token(&mut asked));
        }
        if let Some((at, why)) = self.replies.error {
            return Err(self.breaks(GasError::Reply { to: me.0, at, why: why.text() }));
        }
        if self.replies.hdr.has(RepHdr::AM_REPLY) {
            let (state, scratch) = (&mut self.state, &self.scratch);
            serve::own_reply(table, &self.replies, state, world, me, scratch).ok_or(GasError::Corrupt(me.0))?;
        }
        Ok(())
    }

    /// Why a request is not sent.
    #[cold]
    #[inline(never)]
    fn refusal(&self, table: &Handlers<S>, request: &Request<'_>) -> GasError {
        let &Request { to: RankId(rank), at, category: sent, args, data, .. } = request;
        if rank >= self.size() {
            return GasError::NoRank(rank);
        }
        match table.info.get(usize::from(at)) {
            None => GasError::NoHandler { rank, at },
            Some(info) if info.kinds == 0 => GasError::NoHandler { rank, at },
            Some(info) if info.is_reply() => GasError::WrongSide { rank, at, name: info.name },
            Some(info) if !Kinds(info.kinds).has(sent) => {
                GasError::WrongKind { rank, at, name: info.name, sent, takes: Kinds(info.kinds) }
            }
            Some(_) if args.len() > AmWord::MAX_ARGS => GasError::Arguments(args.len()),
            Some(_) => {
                let max = if let Category::Medium = sent { self.replies.medium } else { i32::MAX as usize };
                GasError::TooLong { len: data.len().max(request.len), max }
            }
        }
    }
}
