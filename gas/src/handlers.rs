//! The table of handlers: what runs for an index, and which messages it takes.

use crate::kinds::{Info, Kinds};
use crate::message::{Msg, Token};
use hamr_comm::abi::table::hash_join;

/// Runs for a request.
pub(crate) type RequestFn<S> = fn(&mut S, Msg<'_>, Token<'_>);
/// Runs for a reply.
pub(crate) type ReplyFn<S> = fn(&mut S, Msg<'_>);

#[derive(Clone, Copy)]
pub(crate) enum Run<S: 'static> {
    None,
    /// And the kinds of messages that it takes.
    Request(u8, RequestFn<S>),
    Reply(u8, ReplyFn<S>),
}

/// The handlers of a program, by an index of 0 to 255. All ranks of a job have the same indices, kinds
/// and names. `S` is what handlers have in common: [`Rank::state`](crate::Rank::state).
///
/// A handler has the state, the message and, of a request, a [`Token`]; it cannot wait and sends
/// nothing but its reply, because it has nothing to do so with:
///
/// ```compile_fail,E0425
/// # use hamr_gas::{Handlers, Kinds, Msg, Rank, Token};
/// static TABLE: Handlers<u32> = Handlers::new().request(128, Kinds::SHORT, "ask", |state, msg, token| {
///     rank.request_short(msg.source(), 128, &[]); // there is no rank here
/// });
/// ```
///
/// ```compile_fail
/// # use hamr_gas::{Handlers, Kinds, Msg, Rank, Token};
/// fn keeps(rank: &mut Rank<u32>) {
///     // A handler is a function: it takes nothing with it.
///     let table = Handlers::<u32>::new().request(128, Kinds::SHORT, "ask", |_, _, _| { let _ = rank.poll(); });
/// }
/// ```
///
/// A request has one reply at most:
///
/// ```compile_fail,E0382
/// # use hamr_gas::{Handlers, Kinds, Msg, Token};
/// fn twice(_: &mut u32, _: Msg<'_>, token: Token<'_>) {
///     token.reply_short(129, &[]);
///     token.reply_short(129, &[]);
/// }
/// ```
///
/// A reply has none:
///
/// ```compile_fail
/// # use hamr_gas::{Handlers, Kinds, Msg, Token};
/// fn answers(_: &mut u32, _: Msg<'_>, token: Token<'_>) {
///     token.reply_short(129, &[]);
/// }
/// static TABLE: Handlers<u32> = Handlers::new().reply(129, Kinds::SHORT, "answers", answers);
/// ```
pub struct Handlers<S: 'static> {
    pub(crate) info: [Info; 256],
    pub(crate) run: [Run<S>; 256],
}

impl<S> Handlers<S> {
    /// No handlers.
    pub const fn new() -> Self {
        Self { info: [Info::NONE; 256], run: [const { Run::None }; 256] }
    }

    /// A handler of requests.
    ///
    /// # Panics
    /// The index has a handler already: in a constant, an error of the compiler.
    #[must_use]
    pub const fn request(self, at: u8, kinds: Kinds, name: &'static str, run: fn(&mut S, Msg<'_>, Token<'_>)) -> Self {
        self.with(at, Info { kinds: kinds.0, name }, Run::Request(kinds.0, run))
    }

    /// A handler of replies.
    ///
    /// # Panics
    /// As [`Self::request`].
    #[must_use]
    pub const fn reply(self, at: u8, kinds: Kinds, name: &'static str, run: fn(&mut S, Msg<'_>)) -> Self {
        self.with(at, Info { kinds: kinds.0 | Kinds::REPLY, name }, Run::Reply(kinds.0, run))
    }

    const fn with(mut self, at: u8, info: Info, run: Run<S>) -> Self {
        assert!(self.info[at as usize].kinds == 0, "hamr: a handler index is used twice");
        assert!(info.kinds & 7 != 0, "hamr: a handler takes no message");
        self.info[at as usize] = info;
        self.run[at as usize] = run;
        self
    }

    /// The hash of indices, kinds and names.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.info.iter().fold(0, |state, info| hash_join(state, info.wire().hash ^ u64::from(info.kinds) << 56))
    }
}

impl<S> Default for Handlers<S> {
    fn default() -> Self {
        Self::new()
    }
}
