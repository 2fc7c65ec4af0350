//! The kinds of frames: who may send which when, and how long each is. A head is checked against this before any byte
//! behind it is awaited.

use super::malformed::Malformed;
use super::phase::{End, Phase};
use super::wire::{self, Head};
use super::{CHUNK, MOST_TEXT};
use hamr_shared_abi::queue::QueueDescriptor;
use hamr_shared_abi::slot::TWO_LINE_BYTES;
use zerocopy::{FromBytes, IntoBytes};

pub(super) struct Kind {
    pub(super) number: u8,
    pub(super) name: &'static str,
    by: &'static [End],
    when: &'static [Phase],
    /// Bytes of its fixed part.
    least: usize,
    /// Bytes of all of it.
    most: usize,
}

const HOST: &[End] = &[End::Host];
const SERVER: &[End] = &[End::Server];
const BOTH: &[End] = &[End::Host, End::Server];
const FIRST: &[Phase] = &[Phase::Opening];
const MESSAGES: &[Phase] = &[Phase::Messages];
const TRANSFERS: &[Phase] = &[Phase::Transfers];
const ALWAYS: &[Phase] = &[Phase::Opening, Phase::Messages, Phase::Transfers];

const SLOT_BYTES: usize = size_of::<wire::Slot>() + TWO_LINE_BYTES;

macro_rules! kinds {
    ($($number:literal $name:ident $by:ident $when:ident $fixed:expr, $rest:expr;)*) => {
        $(pub(super) const $name: u8 = $number;)*
        const KINDS: &[Kind] = &[$(Kind {
            number: $number, name: stringify!($name), by: $by, when: $when, least: $fixed, most: $fixed + $rest,
        },)*];
    };
}

kinds! {
    1  HELLO   HOST   FIRST     size_of::<wire::Hello>(), 2 * MOST_TEXT;
    2  GRANT   SERVER FIRST     size_of::<wire::Grant>(), MOST_TEXT;
    3  REFUSE  SERVER ALWAYS    size_of::<wire::Refuse>(), MOST_TEXT;
    4  LOOK    HOST   MESSAGES  size_of::<wire::Look>(), 0;
    5  SEEN    SERVER MESSAGES  size_of::<wire::Seen>(), CHUNK;
    6  OFFER   HOST   MESSAGES  0, CHUNK;
    7  SLOT    BOTH   MESSAGES  size_of::<wire::Slot>(), TWO_LINE_BYTES + CHUNK;
    8  STATE   SERVER MESSAGES  size_of::<wire::State>(), CHUNK;
    9  WORD    HOST   MESSAGES  size_of::<wire::Word>(), 0;
    10 RENEW   HOST   MESSAGES  0, 0;
    11 RENEWED SERVER MESSAGES  0, 0;
    12 ENDED   SERVER MESSAGES  0, MOST_TEXT;
    13 PUT     HOST   TRANSFERS size_of::<wire::Transfer>(), 0;
    14 GET     HOST   TRANSFERS size_of::<wire::Transfer>(), 0;
    15 DONE    SERVER TRANSFERS size_of::<wire::Done>(), 0;
    16 BYE     BOTH   ALWAYS    0, MOST_TEXT;
    17 PART    BOTH   MESSAGES  1, CHUNK - 1;
}

/// Bytes of a head.
pub const HEAD: usize = size_of::<Head>();
/// Bytes of the longest frame, its head included.
pub const LONGEST: usize = HEAD + SLOT_BYTES + CHUNK;
/// The same before a connection is granted.
pub const LONGEST_OPENING: usize = HEAD + size_of::<wire::Hello>() + 2 * MOST_TEXT;

const _: () = assert!(QueueDescriptor::MAX_CHUNK as usize <= CHUNK);

pub(super) fn kind(number: u8) -> Result<&'static Kind, Malformed> {
    // They are numbered from 1.
    let kind = KINDS.get(usize::from(number).wrapping_sub(1));
    kind.filter(|kind| kind.number == number).ok_or(Malformed::Kind(number))
}

/// Is the frame of this kind the next bytes of a long one, and nothing else?
pub(crate) const fn is_part(number: u8) -> bool {
    number == PART
}

impl Kind {
    pub(super) fn admits(&self, len: usize) -> Result<(), Malformed> {
        let Self { name, least, most, .. } = *self;
        if (least..=most).contains(&len) { Ok(()) } else { Err(Malformed::Length { name, least, most, got: len }) }
    }
}

/// The kind and length of the frame behind a head that `from` has sent.
///
/// # Errors
/// No kind, not this end's, not now, or of a length that the kind has not.
pub fn admit(head: [u8; HEAD], from: End, phase: Phase) -> Result<(u8, usize), Malformed> {
    let Ok(Head { len, kind: number, zero }) = Head::read_from_bytes(&head) else { return Err(Malformed::Kind(0)) };
    let kind = kind(number)?;
    if zero != [0; 3] {
        return Err(Malformed::Reserved { name: kind.name, field: "head" });
    }
    if !kind.by.contains(&from) || !kind.when.contains(&phase) {
        return Err(Malformed::Unexpected { name: kind.name, from, phase });
    }
    let len = usize::try_from(len.get()).unwrap_or(usize::MAX);
    kind.admits(len)?;
    Ok((number, len))
}

/// Puts the head before a frame whose bytes are behind `start`.
pub(super) fn finish(number: u8, start: usize, out: &mut [u8]) -> Result<(), Malformed> {
    let Some((head, body)) = out.get_mut(start..).and_then(|out| out.split_at_mut_checked(HEAD)) else { return Ok(()) };
    kind(number)?.admits(body.len())?;
    let len = u32::try_from(body.len()).unwrap_or(u32::MAX).into();
    head.copy_from_slice(Head { len, kind: number, zero: [0; 3] }.as_bytes());
    Ok(())
}
