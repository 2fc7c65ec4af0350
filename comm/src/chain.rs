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
use hamr_shared_abi::table::hash;
use hamr_shared_abi::window::Payload;

/// Puts the handler that runs chains into the table of every image and program that links this crate.
#[macro_export]
macro_rules! chains {
    () => {
        $crate::__entry!($crate::chain::Run, "hamr_comm::chain::Run");
    };
}

/// Bytes of a chain at most: those of each [`Link`].
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

/// One call of a chain: a word, and behind it its arguments in whole words, the last one filled up with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Of the device's table.
    pub key: u16,
    /// Bytes of arguments that follow, at most [`MAX_LINK`].
    pub len: u16,
    /// The result of the call before stands in front of them.
    pub takes: bool,
    /// The lower half of the handler's id, which must be that of the key's.
    pub id: u32,
}

impl Link {
    /// Set in the word of a link that takes the result before; the length is below it.
    const TAKES: u64 = 1 << 31;

    /// Its word.
    #[inline(always)]
    pub const fn to_word(self) -> u64 {
        let takes = if self.takes { Self::TAKES } else { 0 };
        self.key as u64 | (self.len as u64 & 0x7FFF) << 16 | takes | (self.id as u64) << 32
    }

    /// The link of a word.
    #[inline(always)]
    const fn of_word(word: u64) -> Self {
        let len = (word >> 16) as u16 & 0x7FFF;
        Self { key: word as u16, len, takes: word & Self::TAKES != 0, id: (word >> 32) as u32 }
    }
}

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
    const BODY: u64 = hash(b"hamr_comm::chain::Run 2");
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
            /// Another with each change of what the bytes mean, so that the two sides do not read each other's.
            const SHAPE: u64 = hash(concat!(stringify!($name), " 2").as_bytes());
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

/// The result of the call before.
#[derive(Clone, Copy)]
struct Last {
    /// If it is no longer than that: its bytes, and what means nothing behind them.
    word: u64,
    len: usize,
}

/// A result that is longer than a word.
type Long = heapless::Vec<u8, MAX_LINK>;

impl Last {
    const WORD: usize = size_of::<u64>();

    fn bytes<'l>(&'l self, long: &'l Long) -> &'l [u8] {
        let short: &[u8; Self::WORD] = bytemuck::must_cast_ref(&self.word);
        short.get(..self.len).unwrap_or(long)
    }

    /// That of a reply.
    #[inline(always)]
    fn of(frame: &Frame<'_>, reply: Reply, long: &mut Long) -> Result<Self, Status> {
        let len = reply.hdr().len();
        match reply.is_short() && len <= Self::WORD {
            true => Ok(Self { word: reply.word(), len }),
            false => Self::of_long(frame, reply, long),
        }
    }

    #[inline(never)]
    fn of_long(frame: &Frame<'_>, reply: Reply, long: &mut Long) -> Result<Self, Status> {
        let payload = payload(frame, &reply).ok_or(Status::RESULT_TOO_LONG)?;
        let mut word = [0; Self::WORD];
        match word.get_mut(..payload.len()) {
            Some(word) => word.copy_from_slice(payload),
            None => *long = Long::from_slice(payload).map_err(|_| Status::RESULT_TOO_LONG)?,
        }
        Ok(Self { word: u64::from_ne_bytes(word), len: payload.len() })
    }
}

#[inline(never)]
fn run(cx: &mut Context<'_>, message: &mut Frame<'_>, args: Arguments<'_>) -> Reply {
    let mut long = Long::new();
    let Some((links, room)) = message.argument_words(args) else { return message.status(Status::BAD_ARGUMENTS) };
    let mut frame = Frame::new(room.get_mut(..MAX_LINK).unwrap_or_default());
    match run_links(cx, &mut frame, links, &mut long) {
        Ok(last) if last.len <= Last::WORD => Reply::short(RepHdr::inline(Status::OK, last.len), last.word),
        Ok(_) => message.long_value(Status::OK, |out| out.bytes(&long)),
        Err(stop) => message.value(Status::HANDLER_ERROR, &stop),
    }
}

/// Runs the links at the front of `words`, behind which are as many words as a line has.
#[inline(always)]
fn run_links(
    cx: &mut Context<'_>,
    frame: &mut Frame<'_>,
    mut words: &mut [u64],
    long: &mut Long,
) -> Result<Last, Stop> {
    let table = Table::of_this_image();
    let (mut link, mut last) = (0, Last { word: 0, len: 0 });
    while words.len() > INLINE_WORDS {
        let (reply, behind) = match call(cx, table, frame, words, last, long) {
            Ok(_) if cx.cancelled() => return Err(stop(link, Status::CANCELLED, "")),
            Ok(called) => called,
            Err(status) => return Err(stop(link, status, "")),
        };
        if reply.hdr().status() != Status::OK {
            return Err(refused(link, frame, reply));
        }
        last = Last::of(frame, reply, long).map_err(|status| stop(link, status, ""))?;
        words = behind;
        link += 1;
    }
    Ok(last)
}

/// Runs the link at the front. Its reply, and the words behind it.
#[inline(always)]
fn call<'w>(
    cx: &mut Context<'_>,
    table: Table,
    frame: &mut Frame<'_>,
    words: &'w mut [u64],
    last: Last,
    long: &Long,
) -> Result<(Reply, &'w mut [u64]), Status> {
    let has = words.len();
    let line: &mut [u64; 1 + INLINE_WORDS] = words.first_chunk_mut().ok_or(Status::BAD_REQUEST)?;
    let link = Link::of_word(line[0]);
    let len = usize::from(link.len);
    let next = 1 + len.div_ceil(size_of::<u64>());
    if next + INLINE_WORDS > has {
        return Err(Status::BAD_REQUEST);
    }
    let entry: &Entry = table.get(link.key.into()).ok_or(Status::NO_HANDLER)?;
    if entry.id as u32 != link.id {
        return Err(Status::NO_HANDLER);
    }
    let (args, len) = match (link.takes, last.len) {
        (false, _) if len <= INLINE_BYTES => (line.last_chunk_mut(), len),
        // In the place of the link's word: the arguments are behind it.
        (true, Last::WORD) if len <= INLINE_BYTES - Last::WORD => {
            line[0] = last.word;
            (line.first_chunk_mut(), Last::WORD + len)
        }
        (takes, _) => {
            let before = if takes { last.bytes(long) } else { &[] };
            join(before, len, words, frame.scratch)?;
            (words.first_chunk_mut(), before.len() + len)
        }
    };
    let Some(args) = args else { return Err(Status::BAD_REQUEST) };
    let reply = (entry.run)(cx, frame, Arguments::new(Payload::private(args, len)));
    words.get_mut(next..).map(|behind| (reply, behind)).ok_or(Status::BAD_REQUEST)
}

/// Puts the result before and `len` bytes of arguments, which are behind the first word, one behind the
/// other: to the front of the words if a line has room for them, or else to that of scratch memory.
#[cold]
#[inline(never)]
fn join(before: &[u8], len: usize, words: &mut [u64], scratch: &mut [u8]) -> Result<(), Status> {
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
    let args = bytes.get(size_of::<u64>()..).and_then(|behind| behind.get(..len)).ok_or(Status::BAD_REQUEST)?;
    let both = scratch.get_mut(..before.len() + len).ok_or(Status::BAD_ARGUMENTS)?;
    let (front, behind) = both.split_at_mut(before.len());
    front.copy_from_slice(before);
    behind.copy_from_slice(args);
    if both.len() <= INLINE_BYTES
        && let Some(line) = bytes.get_mut(..both.len())
    {
        line.copy_from_slice(both);
    }
    Ok(())
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
fn refused(link: u32, frame: &Frame<'_>, reply: Reply) -> Stop {
    let text = match reply.hdr().has(RepHdr::FAULT) {
        true => payload(frame, &reply).and_then(|payload| payload.get(size_of::<[u64; 3]>()..)),
        false => None,
    };
    stop(link, reply.hdr().status(), text.and_then(|text| core::str::from_utf8(text).ok()).unwrap_or(""))
}

#[cold]
fn stop(link: u32, status: Status, text: &str) -> Stop {
    Stop { link: u8::try_from(link).unwrap_or(u8::MAX), status: status.0, text: Fault::msg(text).text }
}
