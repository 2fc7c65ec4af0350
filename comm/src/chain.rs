//! Chains: calls that a device runs one behind the other in one message, each with the result of the one
//! before if it wants it.
//!
//! A chain is the argument of one handler, [`Run`], which images have that link a crate that says
//! `hamr_comm::chains!()`.
//! Its links are inline handlers; what they do is as if each had been called.

use crate::context::Context;
use crate::fault::Fault;
use crate::frame::{Arguments, Frame, Reply};
use crate::handler::{Enter, Entry, Handler};
use crate::migrate::{Decoder, Encoder, Malformed, Migratable};
use crate::registry::Table;
use core::marker::PhantomData;
use hamr_comm_macros::Migratable;
use hamr_shared_abi::slot::{INLINE_WORDS, RepHdr};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::table::{hash, record_flag};
use hamr_shared_abi::window::Payload;

/// Puts the handler that runs chains into the table of every image and program that links this crate.
#[macro_export]
macro_rules! chains {
    () => {
        $crate::__entry!($crate::chain::Run, "hamr_comm::chain::Run");
    };
}

/// Bytes of a chain at most: [`Link::HEADER`] and the arguments of each link.
pub const MAX_CHAIN: usize = 1024;
/// Bytes of arguments and of a result of each link at most.
pub const MAX_LINK: usize = 512;

/// A handler bound to its arguments but the first, which is the result of the call before:
/// `scale::after(2.0)`.
#[must_use = "a bound call does nothing until it is a link of a chain"]
pub struct After<H: Handler, First, Rest> {
    /// The arguments behind the first.
    pub rest: Rest,
    _types: PhantomData<fn(H, First)>,
}

impl<H: Handler, First, Rest> After<H, First, Rest> {
    /// Binds. Used by the generated `after`.
    pub const fn new(rest: Rest) -> Self {
        Self { rest, _types: PhantomData }
    }
}

/// One call of a chain, before its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Migratable)]
pub struct Link {
    /// Of the device's table.
    pub key: u16,
    /// Bytes of arguments that follow.
    pub len: u16,
    /// The result of the call before stands in front of them.
    pub takes: bool,
    /// The lower half of the handler's id, which must be that of the key's.
    pub id: u32,
}

impl Link {
    /// Bytes of it.
    pub const HEADER: usize = 9;
}

const _: () = assert!(matches!(<Link as Migratable>::SIZE, Some(Link::HEADER)));

/// Why a chain ended before its last call.
#[derive(Clone, PartialEq, Eq, Debug, Migratable)]
pub struct Stop {
    /// The call that ended it, counted from 0. Those behind it did not run.
    pub link: u8,
    /// How it ended: a [`Status`].
    pub status: u16,
    /// The text of its fault, or empty.
    pub text: heapless::String<80>,
}

impl core::fmt::Display for Stop {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "call {} of the chain ended with {}", self.link, Status(self.status))?;
        if self.text.is_empty() { Ok(()) } else { write!(f, ": {}", self.text) }
    }
}

/// The handler that runs chains.
pub struct Run;

impl Handler for Run {
    const NAME: &'static str = "hamr_comm::chain::Run";
    const PARAMETERS: &'static str = "links";
    const BODY: u64 = hash(b"hamr_comm::chain::Run 1");
    const FLAGS: u32 = record_flag::HAS_BODY;
    type Kind = Context<'static>;
    type Args = (Links,);
    type Output = Result<LastResult, Stop>;
    fn run(cx: &mut <Self::Kind as Enter>::This<'_>, (links,): (Links,)) -> Result<LastResult, Stop> {
        run(cx, &links)
    }
}

/// Links with their arguments: [`Link`]s, each with its bytes behind it.
pub struct Links(heapless::Vec<u8, MAX_CHAIN>);

/// The encoded result of the last call.
pub struct LastResult(heapless::Vec<u8, MAX_LINK>);

macro_rules! rest_of_message {
    ($($name:ident)*) => {$(
        impl Migratable for $name {
            const SIZE: Option<usize> = None;
            const SHAPE: u64 = hash(stringify!($name).as_bytes());
            const TYPE_NAME: &'static str = stringify!($name);
            fn encode(&self, out: &mut Encoder<'_>) {
                out.bytes(&self.0);
            }
            fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
                heapless::Vec::from_slice(from.rest()).map(Self).map_err(|_| Malformed)
            }
        }
    )*};
}
rest_of_message! { Links LastResult }

#[inline(never)]
fn run(cx: &mut Context<'_>, links: &Links) -> Result<LastResult, Stop> {
    let mut scratch = [0; MAX_LINK];
    let mut frame = Frame::new(&mut scratch);
    let mut last = LastResult(heapless::Vec::new());
    let mut from = Decoder::new(&links.0);
    let mut link = 0u8;
    while !from.is_done() {
        let reply = match call(cx, &mut frame, &mut from, &last) {
            Ok(_) if cx.cancelled() => return Err(stop(link, Status::CANCELLED, "")),
            Ok(reply) => reply,
            Err(status) => return Err(stop(link, status, "")),
        };
        let payload = payload(&frame, &reply);
        if reply.hdr().status() != Status::OK {
            return Err(refused(link, &reply, payload.unwrap_or(&[])));
        }
        last.0.clear();
        let taken = payload.and_then(|bytes| last.0.extend_from_slice(bytes).ok());
        taken.ok_or_else(|| stop(link, Status::RESULT_TOO_LONG, ""))?;
        link = link.saturating_add(1);
    }
    Ok(last)
}

/// Runs one link.
fn call(
    cx: &mut Context<'_>,
    frame: &mut Frame<'_>,
    from: &mut Decoder<'_>,
    last: &LastResult,
) -> Result<Reply, Status> {
    let malformed = |_: Malformed| Status::BAD_REQUEST;
    let link = Link::decode(from).map_err(malformed)?;
    let rest = from.slice(link.len.into()).map_err(malformed)?;
    let entry: &Entry = Table::of_this_image().get(link.key.into()).ok_or(Status::NO_HANDLER)?;
    if entry.id as u32 != link.id || entry.is_task() {
        return Err(Status::NO_HANDLER);
    }
    let before: &[u8] = if link.takes { &last.0 } else { &[] };
    let len = before.len() + rest.len();
    let mut words = [0; INLINE_WORDS];
    let short: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    let to = if len <= short.len() { short } else { &mut *frame.scratch };
    let to = to.get_mut(..len).ok_or(Status::BAD_ARGUMENTS)?;
    let (front, behind) = to.split_at_mut(before.len());
    front.copy_from_slice(before);
    behind.copy_from_slice(rest);
    Ok((entry.run)(cx, frame, Arguments::new(Payload::private(&mut words, len))))
}

/// The bytes of a reply. `None`: it says more than there are.
fn payload<'f>(frame: &'f Frame<'_>, reply: &'f Reply) -> Option<&'f [u8]> {
    if reply.long() != 0 {
        return frame.scratch.get(..reply.long());
    }
    let len = reply.hdr().len();
    if reply.is_short() { reply.bytes().get(..len) } else { bytemuck::cast_slice(&frame.words).get(..len) }
}

#[cold]
fn refused(link: u8, reply: &Reply, payload: &[u8]) -> Stop {
    let text = match reply.hdr().has(RepHdr::FAULT) {
        true => payload.get(size_of::<[u64; 3]>()..).and_then(|text| core::str::from_utf8(text).ok()),
        false => None,
    };
    stop(link, reply.hdr().status(), text.unwrap_or(""))
}

#[cold]
fn stop(link: u8, status: Status, text: &str) -> Stop {
    Stop { link, status: status.0, text: Fault::msg(text).text }
}
