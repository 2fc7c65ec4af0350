//! What a handler has: the message, and of a request the right to one reply.

use crate::kinds::{Info, Kinds};
use crate::wire::{self, Chunks, Packed};
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::Window;
use hamr_comm::abi::world::{ARGS_BYTES, AmWord, Category};
use hamr_comm::world::{OutOfReach, RankId, WorldRef};

/// A range of this rank's segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegRange {
    /// Bytes from the segment's start.
    pub off: u64,
    /// Bytes.
    pub len: u64,
}

/// Where the payload of a message is.
pub(crate) enum Payload<'m> {
    /// It is a short one.
    None,
    /// Of a medium one.
    Private(&'m [u8]),
    /// In a chunk, until the handler asks for it.
    Chunk { window: &'m Window<()>, at: u64, len: usize, scratch: &'m mut [u8] },
    /// Of a long one.
    Landed(SegRange),
}

/// A message, for the time of its handler.
pub struct Msg<'m> {
    pub(crate) source: RankId,
    pub(crate) world: &'m WorldRef<'m>,
    pub(crate) args: &'m [i32],
    pub(crate) payload: Payload<'m>,
}

impl<'m> Msg<'m> {
    /// The rank that sent it.
    pub fn source(&self) -> RankId {
        self.source
    }

    /// This rank.
    pub fn me(&self) -> RankId {
        self.world.me()
    }

    /// Ranks of the job.
    pub fn size(&self) -> u32 {
        self.world.size()
    }

    /// The arguments.
    pub fn args(&self) -> &'m [i32] {
        self.args
    }

    /// What it is: [`Kinds::SHORT`], [`Kinds::MEDIUM`] or [`Kinds::LONG`], also without bytes of payload.
    pub fn kind(&self) -> Kinds {
        match self.payload {
            Payload::None => Kinds::SHORT,
            Payload::Private(_) | Payload::Chunk { .. } => Kinds::MEDIUM,
            Payload::Landed(_) => Kinds::LONG,
        }
    }

    /// Bytes of the payload.
    pub fn payload_len(&self) -> usize {
        match &self.payload {
            Payload::None => 0,
            Payload::Private(bytes) => bytes.len(),
            Payload::Chunk { len, .. } => *len,
            Payload::Landed(range) => range.len as usize,
        }
    }

    /// The payload of a medium message: a private copy, made when it is asked for. Of others it is
    /// empty.
    pub fn payload(&mut self) -> &'m [u8] {
        match core::mem::replace(&mut self.payload, Payload::Private(&[])) {
            Payload::Private(bytes) => {
                self.payload = Payload::Private(bytes);
                bytes
            }
            Payload::Chunk { window, at, len, scratch } => {
                let (bytes, _) = scratch.split_at_mut(len.min(scratch.len()));
                // It is in the window: the length was checked.
                let _ = window.read_bytes(at, bytes);
                self.payload = Payload::Private(bytes);
                bytes
            }
            other => {
                self.payload = other;
                &[]
            }
        }
    }

    /// Copies the payload of a medium message, as much as there is room for; how many bytes.
    pub fn copy_payload(&self, to: &mut [u8]) -> usize {
        match &self.payload {
            Payload::Private(bytes) => {
                let len = bytes.len().min(to.len());
                to.iter_mut().zip(*bytes).for_each(|(to, byte)| *to = *byte);
                len
            }
            Payload::Chunk { window, at, len, .. } => {
                let (to, _) = to.split_at_mut((*len).min(to.len()));
                let _ = window.read_bytes(*at, to);
                to.len()
            }
            Payload::None | Payload::Landed(_) => 0,
        }
    }

    /// Where a medium message has its payload until its handler ends, at a multiple of 64, if it is in no private memory: for
    /// interfaces in other languages, which read it there in the place of a copy.
    #[doc(hidden)]
    pub fn payload_in_place(&self) -> Option<(core::ptr::NonNull<u8>, usize)> {
        match self.payload {
            Payload::Chunk { window, at, len, .. } => Some((window.part(at, len as u64).ok()?.address(), len)),
            _ => None,
        }
    }

    /// Where the payload of a long message is. Without bytes it is where the sender has said, inside of the segment or not.
    pub fn landed(&self) -> Option<SegRange> {
        match self.payload {
            Payload::Landed(range) => Some(range),
            _ => None,
        }
    }

    /// Copies bytes out of this rank's segment.
    pub fn get(&self, off: u64, to: &mut [u8]) -> Result<(), OutOfReach> {
        self.world.get(self.me(), off, to)
    }

    /// Copies bytes into this rank's segment.
    pub fn put(&self, off: u64, from: &[u8]) -> Result<(), OutOfReach> {
        self.world.put(self.me(), off, from)
    }

    /// Ends the job with an exit code: [`Rank::exit`](crate::Rank::exit).
    pub fn exit(&self, code: u8) -> ! {
        self.world.exit(code)
    }
}

/// What replies of a rank need, and the one that a handler has made, to be published when it has returned. No word of it
/// is in the slot before: the asking rank polls that line, and would fetch it from between two stores.
pub(crate) struct Replies {
    pub(crate) words: [u64; INLINE_WORDS],
    pub(crate) hdr: RepHdr,
    /// Its handler, and why it could not be made.
    pub(crate) error: Option<(u8, Unsent)>,
    /// Of the rank's table; empty before there is one.
    pub(crate) info: &'static [Info],
    /// The longest medium payload that every rank takes.
    pub(crate) medium: usize,
    /// The chunks are in it.
    pub(crate) window: &'static Window<()>,
}

/// Why a reply could not be made.
#[derive(Clone, Copy)]
pub(crate) enum Unsent {
    NoHandler,
    Request,
    Kind,
    Arguments,
    Long,
    Segment,
}

impl Unsent {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::NoHandler => "there is no such handler",
            Self::Request => "it is for requests",
            Self::Kind => "it takes no such message",
            Self::Arguments => "it has more than 16 arguments",
            Self::Long => "it is too long",
            Self::Segment => "it leaves the segment",
        }
    }
}

impl Replies {
    pub(crate) const fn new(window: &'static Window<()>) -> Self {
        Self { words: [0; INLINE_WORDS], hdr: Self::NONE, error: None, info: &[], medium: 0, window }
    }

    /// No reply: the request was executed.
    const NONE: RepHdr = RepHdr::inline(Status::EXECUTED, 0);

    /// A handler runs next.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        (self.hdr, self.error) = (Self::NONE, None);
    }
}

/// Where what does not fit into the line of a reply goes.
pub(crate) enum ReplyChunk<'m> {
    /// That of the reply in this slot.
    Lane(&'m Chunks, u32),
    /// Of a request to oneself.
    Own(&'m mut [u8]),
}

/// The right to reply to a request, once, to the rank that sent it. A handler without a reply drops
/// it.
// One word: moved, its parts would be read wider than they were written.
pub struct Token<'m>(pub(crate) &'m mut Asked<'m>);

/// What a reply to a request needs.
pub(crate) struct Asked<'m> {
    pub(crate) to: RankId,
    pub(crate) world: &'m WorldRef<'m>,
    pub(crate) chunk: ReplyChunk<'m>,
    pub(crate) replies: &'m mut Replies,
}

impl Token<'_> {
    /// Replies with arguments alone. A reply that cannot be sent is an error of this rank's next
    /// [`Rank::poll`](crate::Rank::poll), and of the asking rank's.
    pub fn reply_short(self, at: u8, args: &[i32]) {
        self.send(Category::Short, at, args, &[], (0, 0));
    }

    /// Replies with a payload, of [`Rank::max_medium`](crate::Rank::max_medium) bytes at most.
    pub fn reply_medium(self, at: u8, args: &[i32], data: &[u8]) {
        self.send(Category::Medium, at, args, data, (0, 0));
    }

    /// Replies with a payload that is at `dest` in the asking rank's segment before its handler runs. Without bytes `dest`
    /// may be any number.
    pub fn reply_long(self, at: u8, args: &[i32], data: &[u8], dest: u64) {
        self.send(Category::Long, at, args, data, (dest, data.len()));
    }

    /// [`Msg::exit`].
    pub fn exit(self, code: u8) -> ! {
        self.0.world.exit(code)
    }

    /// A long reply has `len` bytes at `dest`: those of `data`, or what was written there before.
    #[inline(always)]
    pub(crate) fn send(self, category: Category, at: u8, args: &[i32], data: &[u8], (dest, len): (u64, usize)) {
        let Asked { to, world, chunk, replies } = self.0;
        let to = *to;
        let why = match replies.info.get(usize::from(at)) {
            Some(info) if info.is_reply() && Kinds(info.kinds).has(category) => None,
            Some(info) if info.kinds == 0 => Some(Unsent::NoHandler),
            Some(info) if !info.is_reply() => Some(Unsent::Request),
            _ => Some(Unsent::Kind),
        };
        let why = match (why, category) {
            (None, _) if args.len() > AmWord::MAX_ARGS => Some(Unsent::Arguments),
            (None, Category::Medium) if data.len() > replies.medium => Some(Unsent::Long),
            (None, Category::Long) if !data.is_empty() && world.put(to, dest, data).is_err() => Some(Unsent::Segment),
            (why, _) => why,
        };
        if let Some(why) = why {
            replies.hdr = RepHdr::inline(Status::FAILED, 0);
            replies.error = Some((at, why));
            return;
        }
        let packed = wire::pack(&mut replies.words, category, args, data, (dest, len));
        if packed.is_out() {
            match chunk {
                ReplyChunk::Lane(chunks, slot) => {
                    wire::write_out(&packed, args, data, replies.window, chunks.reply(*slot));
                }
                ReplyChunk::Own(scratch) => keep(&packed, args, data, scratch),
            }
        }
        replies.hdr = RepHdr::inline(Status(u16::from(at)), packed.len).with(RepHdr::AM_REPLY);
    }
}

/// The same as in a chunk, in private memory.
fn keep(packed: &Packed, args: &[i32], data: &[u8], scratch: &mut [u8]) {
    let (front, behind) = scratch.split_at_mut(ARGS_BYTES as usize);
    if packed.args_out {
        front.iter_mut().zip(bytemuck::cast_slice::<_, u8>(args)).for_each(|(to, byte)| *to = *byte);
    }
    if packed.data_out {
        behind.iter_mut().zip(data).for_each(|(to, byte)| *to = *byte);
    }
}
