//! Calls of a task to another device: the host passes them on (abi §12.2).
//!
//! The task calls a handler that the host library has, whose arguments are those of the handler that
//! is called there, behind what the host needs to call it. The reply is that of the other device.

use crate::handler::{Enter, Handler};
use crate::migrate::{Encoder, Migratable, NamedBuffer};
use crate::task::wait::{Callee, Target};
#[cfg(not(hamr_bare))]
use crate::{
    fault::{Fault, Trace},
    frame::{Frame, Reply},
    handler::{HandlerResult, SealedOutcome},
    migrate::{Decoder, Malformed},
    why::{Why, detail},
};
use hamr_shared_abi::ids::{NodeId, RankId};
#[cfg(not(hamr_bare))]
use hamr_shared_abi::status::Status;
use hamr_shared_abi::table::{hash, record_flag};

/// The name of that handler.
pub const NAME: &str = "hamr::relay";
/// The hash of its types, which are no Rust types: of its arguments' form.
pub const SIGNATURE: u64 = hash(b"hamr::relay 1");
/// The name of the handler that names devices ([`crate::Task::next_node`]).
pub const NEXT_NODE: &str = "hamr::next_node";

/// The name of a device, as far as it fits.
pub type NodeName = heapless::String<64>;

/// The other device's reply, its value or error as the bytes `B`, or why there is none.
#[cfg(not(hamr_bare))]
pub enum Relayed<B> {
    /// Its value.
    Value(B),
    /// Its handler's own error.
    Error(B),
    /// A result of so many bytes, which no message takes.
    TooLong(u64),
    /// The device has no place for the call.
    Full,
    /// The time that the caller gave the call is over.
    Deadline,
    /// A fault.
    Fault(Fault),
    /// The handler was abandoned.
    Ended {
        /// How.
        status: Status,
        /// What it said.
        text: std::string::String,
        /// Where it was.
        trace: Trace,
    },
}

#[cfg(not(hamr_bare))]
impl<B: Migratable> SealedOutcome for Relayed<B> {}

#[cfg(not(hamr_bare))]
impl<B: Migratable> HandlerResult for Relayed<B> {
    type Value = B;
    type Error = B;
    const SHAPE: u64 = SIGNATURE;
    const DESCRIPTION: &'static str = "?hamr::relay";
    fn reply(self, frame: &mut Frame<'_>) -> Reply {
        match self {
            Self::Value(bytes) => frame.value(Status::OK, &bytes),
            Self::Error(bytes) => frame.value(Status::HANDLER_ERROR, &bytes),
            Self::TooLong(needed) => frame.value(Status::RESULT_TOO_LONG, &needed),
            Self::Full => frame.status(Status::QUEUE_FULL),
            Self::Deadline => frame.status(Status::DEADLINE),
            Self::Fault(fault) => frame.fault(&fault),
            Self::Ended { status, text, trace } => frame.traced_fault(status, &text, &trace),
        }
    }
    fn decode_error(_: &mut Decoder<'_>) -> Result<B, Malformed> {
        Err(Malformed)
    }
}

/// Where a task calls: [`HOST`](crate::HOST), the [`RankId`] of a rank of its world, or the [`NodeId`]
/// of another device that the host program has open with `Options::relay` of this one.
pub trait CallTarget: Copy {
    /// Another device?
    #[doc(hidden)]
    const IS_NODE: bool = false;
    /// How messages and faults name it.
    #[doc(hidden)]
    fn target(self) -> Target;
}

impl CallTarget for Target {
    #[inline(always)]
    fn target(self) -> Target {
        self
    }
}

impl CallTarget for RankId {
    #[inline(always)]
    fn target(self) -> Target {
        self.into()
    }
}

impl CallTarget for NodeId {
    const IS_NODE: bool = true;
    #[inline(always)]
    fn target(self) -> Target {
        Target::of_node(self)
    }
}

/// Runs `f` with the handler that the message goes to, and what encodes its arguments.
#[inline(always)]
pub(crate) fn addressed<H: Handler, T: CallTarget, R>(
    to: T,
    args: &H::Args,
    f: impl FnOnce(&Callee, &dyn Fn(&mut Encoder<'_>)) -> R,
) -> R {
    let kind = <H::Kind as Enter>::FLAGS;
    if const { T::IS_NODE } {
        let relay = Callee { target: Target::HOST, id: hash(NAME.as_bytes()), signature: SIGNATURE, is_task: false };
        return f(&relay, &|out| encode::<H>(to.target(), args, out));
    }
    let is_task = kind & record_flag::TASK != 0;
    f(&Callee { target: to.target(), id: H::ID, signature: H::SIGNATURE, is_task }, &|out| args.encode(out))
}

/// The arguments of a message to the host, which relays it.
fn encode<H: Handler>(to: Target, args: &H::Args, out: &mut Encoder<'_>) {
    let mut buffers = 0u32;
    args.visit_buffers(&mut |_: NamedBuffer| buffers += 1);
    // A task here is one there: the flags of a handler's kind are part of its types.
    let kind = <H::Kind as Enter>::FLAGS;
    (to.number() & 0xFFFF, buffers, kind, 0u32, H::ID, H::SIGNATURE).encode(out);
    args.visit_buffers(&mut |buffer: NamedBuffer| {
        let [low, high] = buffer.wire.words();
        (low, high, buffer.bytes).encode(out);
    });
    args.encode(out);
}

/// The reply to a relayed call that the other device did not get, or has no reply to: `why` is one of
/// those that have no status of their own.
#[cfg(not(hamr_bare))]
pub fn not_relayed(why: Why, text: &str) -> Fault {
    let detail = match why {
        Why::OtherTypes => detail::OTHER_TYPES,
        Why::NoNode => detail::NO_NODE,
        Why::LostNode => detail::LOST,
        _ => 0,
    };
    Fault { numbers: [detail, 0, 0], ..Fault::with_text(Status::NO_HANDLER, text) }
}
