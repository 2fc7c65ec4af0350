//! What goes over a connection (abi §15.2): frames, from bytes and to bytes. No input or output is here.
//!
//! A frame is read in three steps, each of which ends the connection where it fails: [`admit`] looks at the eight bytes
//! of its head, [`Frame::decode`] at its own bytes, and [`Frame::check`] compares ranges with the window that this end
//! has mapped. Only then is anything touched. [`Frame::encode`] refuses what `decode` would.

mod kind;
mod malformed;
mod phase;
#[cfg(test)]
mod tests;
mod wire;

use hamr_shared_abi::slot::{INLINE_WORDS, SECOND_WORDS};
use hamr_shared_abi::version::AbiVersion;
pub(crate) use kind::is_part;
pub use kind::{HEAD, LONGEST, LONGEST_OPENING, admit};
pub use malformed::Malformed;
pub use phase::{End, Phase};
use std::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first bytes of HELLO and GRANT. Its digit is the version of the frames.
pub const MAGIC: [u8; 8] = *b"HAMRNET1";
/// Bytes of data in one frame.
pub const CHUNK: usize = 1 << 16;
/// Bytes that one LOOK asks for.
pub const MOST_LOOK: u32 = 1 << 15;
/// Bytes of the longest text.
pub const MOST_TEXT: usize = 256;

/// What a peer's ranges are compared with. By default nothing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bounds {
    /// Bytes of the window.
    pub window: u64,
    /// Its heap.
    pub heap: Range<u64>,
    /// Bytes of the longest OFFER or STATE.
    pub longest: usize,
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Slots, words, states: the first connection of a host.
    Messages,
    /// Long puts and gets: its second.
    Transfers,
}

impl From<Purpose> for Phase {
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Messages => Self::Messages,
            Purpose::Transfers => Self::Transfers,
        }
    }
}

/// The first frame of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello<'a> {
    /// The oldest and the newest ABI that it speaks.
    pub abi: (AbiVersion, AbiVersion),
    /// Random bytes of this link of the host. Who knows them may open its second connection: they go into no log.
    pub link: [u8; 16],
    /// Counts its connections, from 1.
    pub attempt: u64,
    /// What this connection is for.
    pub purpose: Purpose,
    /// Bytes of window that it wants.
    pub window: u64,
    /// The server's device; empty: whichever it has.
    pub name: &'a str,
    /// The host's name, for people.
    pub host: &'a str,
}

/// The server's answer: the device is the host's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant<'a> {
    /// The ABI that both speak.
    pub abi: AbiVersion,
    /// The device can sleep, and is notified by the server.
    pub doorbell: bool,
    /// Bytes of its window.
    pub window: u64,
    /// The kind of its link.
    pub kind: &'a str,
}

/// Why a server refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Reason {
    /// As the text says.
    Other = 0,
    /// It speaks no ABI of the host.
    Version = 1,
    /// The device has a host, whose name is the text, for `number` seconds.
    Busy = 2,
    /// It has another device, whose name is the text.
    Name = 3,
    /// Its window has `number` bytes, fewer than the host wants.
    Window = 4,
    /// There was a later attempt, or there is no connection for messages that this one belongs to.
    Stale = 5,
}

/// The server's other answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refuse<'a> {
    /// Why.
    pub reason: Reason,
    /// The oldest and the newest ABI that it speaks.
    pub abi: (AbiVersion, AbiVersion),
    /// By the reason.
    pub number: u64,
    /// By the reason.
    pub text: &'a str,
}

/// One half of a slot, a request or a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot<'a> {
    /// Number of the queue pair.
    pub queue: u16,
    /// It is a host queue (abi §12).
    pub of_host: bool,
    /// A request again, for the CANCEL in its header: nothing else of it is new.
    pub header_alone: bool,
    /// Number of the slot (abi §4.5).
    pub slot: u32,
    /// Header.
    pub hdr: u32,
    /// Published word.
    pub word: u32,
    /// Payload in the slot. Zeroes at its end do not travel.
    pub payload: [u64; INLINE_WORDS],
    /// The second line, likewise.
    pub second: [u64; SECOND_WORDS],
    /// The chunk's bytes, or those of a reply's buffer.
    pub bytes: &'a [u8],
}

/// A frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// A host is here.
    Hello(Hello<'a>),
    /// It has the device.
    Grant(Grant<'a>),
    /// It has not; or there was no new process for RENEW.
    Refuse(Refuse<'a>),
    /// Asks for bytes outside of the heap.
    Look {
        /// Their place in the window.
        off: u64,
        /// How many.
        len: u32,
    },
    /// The answer.
    Seen {
        /// Their place in the window.
        off: u64,
        /// They themselves.
        bytes: &'a [u8],
    },
    /// A new epoch: the window's front and the host's sections.
    Offer(&'a [u8]),
    /// A request or a reply.
    Slot(Slot<'a>),
    /// A state of the device.
    State {
        /// EPOCH_ACK.
        acknowledged: u32,
        /// DEVICE_STATE.
        state: u32,
        /// Device words, record, and what is behind the state.
        bytes: &'a [u8],
    },
    /// A word of the host.
    Word {
        /// Its place in the window.
        off: u32,
        /// Its value.
        value: u32,
    },
    /// The device is to have another process.
    Renew,
    /// It has.
    Renewed,
    /// Its process has ended; what it had published is here already.
    Ended(&'a str),
    /// `total` bytes for the heap are behind this frame.
    Put(Transfer),
    /// Asks for bytes of the heap.
    Get(Transfer),
    /// The bytes of a PUT are in the heap, or those of a GET are behind this frame: where `status` is 0.
    Done {
        /// 0, or a number for people.
        status: u32,
    },
    /// The sender ends the connection.
    Bye(&'a str),
    /// Bytes that go before those of the next OFFER or STATE.
    Part(&'a [u8]),
}

/// A range of the heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Its place in the window.
    pub off: u64,
    /// Its length.
    pub total: u64,
}

/// Splits the fixed part off. Lengths are checked by now; short bytes are an error all the same.
fn split<P: FromBytes + KnownLayout + Immutable + Unaligned>(
    number: u8,
    bytes: &[u8],
) -> Result<(P, &[u8]), Malformed> {
    P::read_from_prefix(bytes).map_err(|_| {
        let (name, most) = (kind::kind(number).map_or("frame", |kind| kind.name), LONGEST);
        Malformed::Length { name, least: size_of::<P>(), most, got: bytes.len() }
    })
}

fn text<'a>(name: &'static str, bytes: &'a [u8]) -> Result<&'a str, Malformed> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| is_text(text));
    text.ok_or(Malformed::Text { name })
}

fn is_text(text: &str) -> bool {
    text.len() <= MOST_TEXT && !text.chars().any(char::is_control)
}

fn at_most(name: &'static str, field: &'static str, most: u64, got: u64) -> Result<(), Malformed> {
    if got <= most { Ok(()) } else { Err(Malformed::Value { name, field, most, got }) }
}

fn words<const N: usize>(count: u8, bytes: &[u8]) -> Option<([u64; N], &[u8])> {
    let (words, rest) = bytes.split_at_checked(8 * usize::from(count))?;
    let mut all = [0; N];
    for (to, from) in all.iter_mut().zip(words.chunks_exact(8)) {
        *to = u64::from_le_bytes(from.try_into().ok()?);
    }
    Some((all, rest))
}

/// Words up to the last that is not zero.
fn used(words: &[u64]) -> &[u64] {
    let len = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
    words.get(..len).unwrap_or_default()
}

impl<'a> Frame<'a> {
    /// The frame in the bytes behind a head that was [admitted](admit).
    ///
    /// # Errors
    /// A value that the kind's fields do not have.
    pub fn decode(number: u8, bytes: &'a [u8]) -> Result<Self, Malformed> {
        let kind = kind::kind(number)?;
        kind.admits(bytes.len())?;
        let name = kind.name;
        let zero = |field, is_zero: bool| if is_zero { Ok(()) } else { Err(Malformed::Reserved { name, field }) };
        Ok(match number {
            kind::HELLO => {
                let (part, rest) = split::<wire::Hello>(number, bytes)?;
                magic(name, part.magic)?;
                at_most(name, "purpose", 2, part.purpose.get().into())?;
                at_most(name, "name_len", rest.len() as u64, part.name_len.get().into())?;
                let (device, host) = rest.split_at_checked(part.name_len.get() as usize).unwrap_or_default();
                let purpose = match part.purpose.get() {
                    1 => Purpose::Messages,
                    2 => Purpose::Transfers,
                    _ => return Err(Malformed::Reserved { name, field: "purpose" }),
                };
                Self::Hello(Hello {
                    abi: range(part.abi_min.get(), part.abi_max.get()),
                    link: part.link,
                    attempt: part.attempt.get(),
                    purpose,
                    window: part.window.get(),
                    name: text(name, device)?,
                    host: text(name, host)?,
                })
            }
            kind::GRANT => {
                let (part, rest) = split::<wire::Grant>(number, bytes)?;
                magic(name, part.magic)?;
                at_most(name, "flags", wire::DOORBELL.into(), part.flags.get().into())?;
                Self::Grant(Grant {
                    abi: AbiVersion::from_wire(part.abi.get()),
                    doorbell: part.flags.get() == wire::DOORBELL,
                    window: part.window.get(),
                    kind: text(name, rest)?,
                })
            }
            kind::REFUSE => {
                let (part, rest) = split::<wire::Refuse>(number, bytes)?;
                zero("4", part.zero.get() == 0)?;
                let reason = match part.reason.get() {
                    1 => Reason::Version,
                    2 => Reason::Busy,
                    3 => Reason::Name,
                    4 => Reason::Window,
                    5 => Reason::Stale,
                    // A later server's has a text, too.
                    _ => Reason::Other,
                };
                Self::Refuse(Refuse {
                    reason,
                    abi: range(part.abi_min.get(), part.abi_max.get()),
                    number: part.number.get(),
                    text: text(name, rest)?,
                })
            }
            kind::SEEN => {
                let (part, bytes) = split::<wire::Seen>(number, bytes)?;
                Self::Seen { off: part.off.get(), bytes }
            }
            kind::LOOK => {
                let (part, _) = split::<wire::Look>(number, bytes)?;
                zero("12", part.zero.get() == 0)?;
                at_most(name, "len", MOST_LOOK.into(), part.len.get().into())?;
                Self::Look { off: part.off.get(), len: part.len.get() }
            }
            kind::OFFER => Self::Offer(bytes),
            kind::SLOT => Self::Slot(slot(name, bytes)?),
            kind::STATE => {
                let (part, bytes) = split::<wire::State>(number, bytes)?;
                Self::State { acknowledged: part.acknowledged.get(), state: part.state.get(), bytes }
            }
            kind::WORD => {
                let (part, _) = split::<wire::Word>(number, bytes)?;
                Self::Word { off: part.off.get(), value: part.value.get() }
            }
            kind::RENEW => Self::Renew,
            kind::RENEWED => Self::Renewed,
            kind::ENDED => Self::Ended(text(name, bytes)?),
            kind::PUT | kind::GET => {
                let (part, _) = split::<wire::Transfer>(number, bytes)?;
                let range = Transfer { off: part.off.get(), total: part.total.get() };
                if number == kind::PUT { Self::Put(range) } else { Self::Get(range) }
            }
            kind::DONE => {
                let (part, _) = split::<wire::Done>(number, bytes)?;
                zero("4", part.zero.get() == 0)?;
                Self::Done { status: part.status.get() }
            }
            kind::BYE => Self::Bye(text(name, bytes)?),
            kind::PART => Self::Part(bytes),
            other => return Err(Malformed::Kind(other)),
        })
    }

    /// Compares the frame's ranges with what this end has mapped.
    ///
    /// # Errors
    /// A range that is not the peer's to name.
    pub fn check(&self, bounds: &Bounds) -> Result<(), Malformed> {
        let heap = |name, off, len| in_range(name, "the heap", &bounds.heap, off, len);
        // Queues, states and words are before the heap or behind it.
        let beside = |name, off: u64, len: u64| {
            in_range(name, "the window", &(0..bounds.window), off, len)?;
            let Range { start, end } = bounds.heap;
            if start < end && off < end && start < off.saturating_add(len) {
                return Err(Malformed::Range { name, what: "the window before its heap", within: 0..start, off, len });
            }
            Ok(())
        };
        match *self {
            Self::Put(Transfer { off, total }) => heap("PUT", off, total),
            Self::Get(Transfer { off, total }) => heap("GET", off, total),
            Self::Look { off, len } => beside("LOOK", off, len.into()),
            Self::Seen { off, bytes } => beside("SEEN", off, bytes.len() as u64),
            Self::Word { off, .. } if !off.is_multiple_of(4) => {
                Err(Malformed::Reserved { name: "WORD", field: "the lowest bits of its offset" })
            }
            Self::Word { off, .. } => beside("WORD", off.into(), 4),
            _ => Ok(()),
        }
    }

    /// Appends the frame; OFFER and STATE with as many PARTs before it as they need.
    ///
    /// # Errors
    /// What [`Self::decode`] would refuse. Then nothing is appended.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let start = out.len();
        self.append(out).inspect_err(|_| out.truncate(start))
    }

    fn append(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let whole = |number, parts: &[&[u8]], out: &mut Vec<u8>| {
            let start = out.len();
            out.extend([0; HEAD]);
            parts.iter().for_each(|part| out.extend_from_slice(part));
            kind::finish(number, start, out)
        };
        let said = |number, fixed: &[u8], texts: &[&str], out: &mut Vec<u8>| {
            let name = kind::kind(number)?.name;
            if !texts.iter().all(|text| is_text(text)) {
                return Err(Malformed::Text { name });
            }
            let [first, second] = [0, 1].map(|i| texts.get(i).map_or(&[][..], |text| text.as_bytes()));
            whole(number, &[fixed, first, second], out)
        };
        // Bytes that do not fit are in PARTs before.
        let long = |number, fixed: &[u8], bytes: &[u8], out: &mut Vec<u8>| {
            let before = bytes.len().saturating_sub(1) / CHUNK * CHUNK;
            let (before, bytes) = bytes.split_at_checked(before).unwrap_or_default();
            before.chunks(CHUNK).try_for_each(|part| whole(kind::PART, &[part], out))?;
            whole(number, &[fixed, bytes], out)
        };
        match *self {
            Self::Hello(Hello { abi, link, attempt, purpose, window, name, host }) => {
                let (abi_min, abi_max) = (abi.0.to_wire().into(), abi.1.to_wire().into());
                let purpose = if purpose == Purpose::Messages { 1 } else { 2 };
                let (purpose, name_len) = (u32::into(purpose), (name.len() as u32).into());
                let (attempt, window) = (attempt.into(), window.into());
                let fixed = wire::Hello { magic: MAGIC, abi_max, abi_min, link, attempt, purpose, name_len, window };
                said(kind::HELLO, fixed.as_bytes(), &[name, host], out)
            }
            Self::Grant(Grant { abi, doorbell, window, kind: text }) => {
                let flags = if doorbell { wire::DOORBELL } else { 0 };
                let (abi, flags, window) = (abi.to_wire().into(), flags.into(), window.into());
                let fixed = wire::Grant { magic: MAGIC, abi, flags, window };
                said(kind::GRANT, fixed.as_bytes(), &[text], out)
            }
            Self::Refuse(Refuse { reason, abi, number, text }) => {
                let (abi_min, abi_max) = (abi.0.to_wire().into(), abi.1.to_wire().into());
                let (reason, zero, number) = ((reason as u32).into(), 0.into(), number.into());
                let fixed = wire::Refuse { reason, zero, abi_max, abi_min, number };
                said(kind::REFUSE, fixed.as_bytes(), &[text], out)
            }
            Self::Seen { off, bytes } => whole(kind::SEEN, &[&off.to_le_bytes(), bytes], out),
            Self::Look { off, len } => {
                at_most("LOOK", "len", MOST_LOOK.into(), len.into())?;
                let fixed = wire::Look { off: off.into(), len: len.into(), zero: 0.into() };
                whole(kind::LOOK, &[fixed.as_bytes()], out)
            }
            Self::Offer(bytes) => long(kind::OFFER, &[], bytes, out),
            Self::Slot(ref slot) => {
                let (head, payload, second) = slot.head()?;
                let start = out.len();
                out.extend([0; HEAD]);
                out.extend_from_slice(head.as_bytes());
                payload.iter().chain(second).for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
                out.extend_from_slice(slot.bytes);
                kind::finish(kind::SLOT, start, out)
            }
            Self::State { acknowledged, state, bytes } => {
                let fixed = wire::State { acknowledged: acknowledged.into(), state: state.into() };
                long(kind::STATE, fixed.as_bytes(), bytes, out)
            }
            Self::Word { off, value } => {
                let fixed = wire::Word { off: off.into(), value: value.into() };
                whole(kind::WORD, &[fixed.as_bytes()], out)
            }
            Self::Renew => whole(kind::RENEW, &[], out),
            Self::Renewed => whole(kind::RENEWED, &[], out),
            Self::Ended(text) => said(kind::ENDED, &[], &[text], out),
            Self::Put(range) => whole(kind::PUT, &[range.fixed().as_bytes()], out),
            Self::Get(range) => whole(kind::GET, &[range.fixed().as_bytes()], out),
            Self::Done { status } => {
                let fixed = wire::Done { status: status.into(), zero: 0.into() };
                whole(kind::DONE, &[fixed.as_bytes()], out)
            }
            Self::Bye(text) => said(kind::BYE, &[], &[text], out),
            Self::Part(bytes) => whole(kind::PART, &[bytes], out),
        }
    }
}

impl Transfer {
    fn fixed(self) -> wire::Transfer {
        let Self { off, total } = self;
        wire::Transfer { off: off.into(), total: total.into() }
    }
}

impl Slot<'_> {
    /// The fixed part, and the words that travel.
    fn head(&self) -> Result<(wire::Slot, &[u64], &[u64]), Malformed> {
        let Self { queue, slot, hdr, word, .. } = *self;
        at_most("SLOT", "queue", u64::from(wire::HEADER_ALONE) - 1, queue.into())?;
        at_most("SLOT", "bytes", CHUNK as u64, self.bytes.len() as u64)?;
        let (payload, second) = (used(&self.payload), used(&self.second));
        if self.header_alone && !(payload.is_empty() && second.is_empty() && self.bytes.is_empty()) {
            return Err(Malformed::Reserved { name: "SLOT", field: "what is behind a header alone" });
        }
        let of_host = if self.of_host { wire::OF_HOST } else { 0 };
        let alone = if self.header_alone { wire::HEADER_ALONE } else { 0 };
        let head = wire::Slot {
            queue: (queue | of_host | alone).into(),
            payload: payload.len() as u8,
            second: second.len() as u8,
            slot: slot.into(),
            hdr: hdr.into(),
            word: word.into(),
        };
        Ok((head, payload, second))
    }
}

fn slot<'a>(name: &'static str, bytes: &'a [u8]) -> Result<Slot<'a>, Malformed> {
    let (part, rest) = split::<wire::Slot>(kind::SLOT, bytes)?;
    at_most(name, "payload", INLINE_WORDS as u64, part.payload.into())?;
    at_most(name, "second", SECOND_WORDS as u64, part.second.into())?;
    let counted = 8 * (usize::from(part.payload) + usize::from(part.second));
    let short =
        || Malformed::Length { name, least: size_of::<wire::Slot>() + counted, most: LONGEST, got: bytes.len() };
    let (payload, rest) = words::<INLINE_WORDS>(part.payload, rest).ok_or_else(short)?;
    let (second, rest) = words::<SECOND_WORDS>(part.second, rest).ok_or_else(short)?;
    at_most(name, "bytes", CHUNK as u64, rest.len() as u64)?;
    let queue = part.queue.get();
    let header_alone = queue & wire::HEADER_ALONE != 0;
    if header_alone && (counted != 0 || !rest.is_empty()) {
        return Err(Malformed::Reserved { name, field: "what is behind a header alone" });
    }
    Ok(Slot {
        queue: queue & (wire::HEADER_ALONE - 1),
        of_host: queue & wire::OF_HOST != 0,
        header_alone,
        slot: part.slot.get(),
        hdr: part.hdr.get(),
        word: part.word.get(),
        payload,
        second,
        bytes: rest,
    })
}

fn magic(name: &'static str, first: [u8; 8]) -> Result<(), Malformed> {
    if first == MAGIC { Ok(()) } else { Err(Malformed::Magic { name }) }
}

fn range(min: u32, max: u32) -> (AbiVersion, AbiVersion) {
    (AbiVersion::from_wire(min), AbiVersion::from_wire(max))
}

fn in_range(name: &'static str, what: &'static str, within: &Range<u64>, off: u64, len: u64) -> Result<(), Malformed> {
    let is_inside = off >= within.start && off.checked_add(len).is_some_and(|end| end <= within.end);
    if is_inside { Ok(()) } else { Err(Malformed::Range { name, what, within: within.clone(), off, len }) }
}
