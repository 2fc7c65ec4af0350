//! Calls of a task to another device: the host passes them on (abi §12.2).
//!
//! The task calls a handler that the host library has, whose arguments are those of the handler that
//! is called there, behind what the host needs to call it. The reply is that of the other device.

use crate::handler::{Call, Enter, Handler};
use crate::migrate::{Encoder, Migratable, NamedBuffer};
use crate::task::wait::{Callee, Target};
#[cfg(not(hamr_bare))]
use crate::{
    fault::Fault,
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

/// The handler that is called, and where the message goes.
#[inline(always)]
pub(crate) fn callee<H: Handler, T: CallTarget>(to: T) -> Callee {
    if const { T::IS_NODE } {
        return Callee { target: Target::HOST, id: hash(NAME.as_bytes()), signature: SIGNATURE, is_task: false };
    }
    let is_task = <H::Kind as Enter>::FLAGS & record_flag::TASK != 0;
    Callee { target: to.target(), id: H::ID, signature: H::SIGNATURE, is_task }
}

/// The arguments of the message.
#[inline(always)]
pub(crate) fn encode<H: Handler, T: CallTarget>(to: T, call: &Call<H>, out: &mut Encoder<'_>) {
    if const { T::IS_NODE } {
        let mut buffers = 0u32;
        if H::Args::HAS_BUFFERS {
            call.args.visit_buffers(&mut |_: NamedBuffer| buffers += 1);
        }
        // A task here is one there: the flags of a handler's kind are part of its types.
        let kind = <H::Kind as Enter>::FLAGS;
        (to.target().number() & 0xFFFF, buffers, kind, 0u32, H::ID, H::SIGNATURE).encode(out);
        if H::Args::HAS_BUFFERS {
            call.args.visit_buffers(&mut |buffer: NamedBuffer| {
                let [low, high] = buffer.wire.words();
                (low, high, buffer.bytes).encode(out);
            });
        }
    }
    call.args.encode(out);
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
    Fault { numbers: [0, 0, detail], ..Fault::with_text(Status::NO_HANDLER, text) }
}
