//! Chains: calls that a device runs one behind the other in one message, each with the result of the one
//! before if it wants it.
//!
//! A chain is the argument of one handler, [`Run`], which images have that link a crate that says
//! `hamr_comm::chains!()`.
//! Its links are inline handlers; what they do is as if each had been called.

use crate::context::Context;
use crate::fault::Fault;
use crate::frame::{Arguments, Frame, Reply};
use crate::handler::{Enter, Entry, Handler, no_body};
use crate::migrate::{Decoder, Encoder, Malformed, Migratable};
use crate::registry::Table;
use crate::task::Task;
use core::marker::PhantomData;
use hamr_comm_macros::Migratable;
use hamr_shared_abi::slot::{INLINE_BYTES, INLINE_WORDS, RepHdr};
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
    type Kind = InMessage;
    type Args = (Links,);
    type Output = Result<LastResult, Stop>;
    fn run(_: &mut Context<'_>, _: (Links,)) -> Result<LastResult, Stop> {
        no_body()
    }
}

/// Links with their arguments: [`Link`]s, each with its bytes behind it.
pub struct Links(());

/// The encoded result of the last call.
pub struct LastResult(());

/// Both may be long: they have no values, which would be copied, but are read and written where they are.
macro_rules! rest_of_message {
    ($($name:ident)*) => {$(
        impl Migratable for $name {
            const SIZE: Option<usize> = None;
            const SHAPE: u64 = hash(stringify!($name).as_bytes());
            const TYPE_NAME: &'static str = stringify!($name);
            fn encode(&self, _: &mut Encoder<'_>) {}
            fn decode(_: &mut Decoder<'_>) -> Result<Self, Malformed> {
                Err(Malformed)
            }
        }
    )*};
}
rest_of_message! { Links LastResult }

/// An inline handler whose arguments stay in the message.
pub struct InMessage;

impl Enter for InMessage {
    type This<'c> = Context<'c>;
    const FLAGS: u32 = 0;
    fn thunk<H: Handler<Kind = Self>>(cx: &mut Context<'_>, frame: &mut Frame<'_>, args: Arguments<'_>) -> Reply {
        run(cx, frame, args)
    }
    fn start<H: Handler<Kind = Self>>(task: &mut Task<'_>) -> Reply {
        task.frame().status(Status::BAD_REQUEST)
    }
}

/// The result of the call before: in a word if it is no longer than that.
struct Last {
    word: u64,
    len: usize,
    bytes: heapless::Vec<u8, MAX_LINK>,
}

impl Last {
    fn bytes(&self) -> &[u8] {
        let short: &[u8; 8] = bytemuck::must_cast_ref(&self.word);
        short.get(..self.len).unwrap_or(&self.bytes)
    }

    fn set(&mut self, reply: &Reply, payload: &[u8]) -> Result<(), Status> {
        (self.word, self.len) = (reply.word(), payload.len());
        if !reply.is_short() {
            // Whatever its length, the bytes are not in the word.
            self.len = usize::MAX;
            self.bytes.clear();
            self.bytes.extend_from_slice(payload).map_err(|_| Status::RESULT_TOO_LONG)?;
        }
        Ok(())
    }
}

#[inline(never)]
fn run(cx: &mut Context<'_>, message: &mut Frame<'_>, args: Arguments<'_>) -> Reply {
    let mut scratch = [0; MAX_LINK];
    let mut frame = Frame::new(&mut scratch);
    let mut last = Last { word: 0, len: 0, bytes: heapless::Vec::new() };
    let ended = match message.argument_bytes(args) {
        Ok(links) if links.len() <= MAX_CHAIN => run_links(cx, &mut frame, links, &mut last),
        _ => return message.status(Status::BAD_ARGUMENTS),
    };
    match ended {
        Ok(()) => message.long_value(Status::OK, |out| out.bytes(last.bytes())),
        Err(stop) => message.value(Status::HANDLER_ERROR, &stop),
    }
}

#[inline(always)]
fn run_links(cx: &mut Context<'_>, frame: &mut Frame<'_>, links: &[u8], last: &mut Last) -> Result<(), Stop> {
    let table = Table::of_this_image();
    let mut from = Decoder::new(links);
    let mut link = 0u8;
    while !from.is_done() {
        let reply = match call(cx, table, frame, &mut from, last) {
            Ok(_) if cx.cancelled() => return Err(stop(link, Status::CANCELLED, "")),
            Ok(reply) => reply,
            Err(status) => return Err(stop(link, status, "")),
        };
        let payload = payload(frame, &reply);
        if reply.hdr().status() != Status::OK {
            return Err(refused(link, &reply, payload.unwrap_or(&[])));
        }
        payload
            .ok_or(Status::RESULT_TOO_LONG)
            .and_then(|payload| last.set(&reply, payload))
            .map_err(|status| stop(link, status, ""))?;
        link = link.saturating_add(1);
    }
    Ok(())
}

/// Runs one link.
#[inline(always)]
fn call(
    cx: &mut Context<'_>,
    table: Table,
    frame: &mut Frame<'_>,
    from: &mut Decoder<'_>,
    last: &Last,
) -> Result<Reply, Status> {
    let malformed = |_: Malformed| Status::BAD_REQUEST;
    let link = Link::decode(from).map_err(malformed)?;
    let rest = from.slice(link.len.into()).map_err(malformed)?;
    let entry: &Entry = table.get(link.key.into()).ok_or(Status::NO_HANDLER)?;
    if entry.id as u32 != link.id || entry.is_task() {
        return Err(Status::NO_HANDLER);
    }
    let before = if link.takes { last.bytes() } else { &[] };
    let len = before.len() + rest.len();
    // The result before, if it is in a word; behind it the rest overwrites what is none.
    let mut words = [0; INLINE_WORDS];
    if let Some(first) = words.first_mut() {
        *first = last.word;
    }
    let short: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    let to = if len <= short.len() { short } else { &mut *frame.scratch };
    let is_there = len <= INLINE_BYTES && before.len() <= size_of::<u64>() && last.len <= size_of::<u64>();
    let to = to.get_mut(..len).ok_or(Status::BAD_ARGUMENTS)?;
    let (front, behind) = to.split_at_mut(before.len());
    if !is_there {
        front.copy_from_slice(before);
    }
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
