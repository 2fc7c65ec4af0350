//! An active message in a line (abi §14.2): what of it lies there, and what in the slot's chunk.

use hamr_comm::abi::ids::HandlerKey;
use hamr_comm::abi::slot::{INLINE_BYTES, INLINE_WORDS, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::Window;
use hamr_comm::abi::world::{ARGS_BYTES, AmWord, Category, GasLayout};
use hamr_comm::world::RankId;

/// Keys of active messages: those of module 1.
pub(crate) const MODULE: u16 = 0x1000;
/// 32-bit words of a line.
const LANES: usize = INLINE_BYTES / 4;

/// The handler that a request is for; `None`: it is no active message.
#[inline(always)]
pub(crate) const fn handler(hdr: ReqHdr) -> Option<u8> {
    // Of a plain header all but the index and the length is the module's: one comparison.
    const ITS_OWN: u32 = ReqHdr::inline(HandlerKey(u8::MAX as u16), 0x3F).0;
    if hdr.0 & !ITS_OWN == MODULE as u32 { Some(hdr.0 as u8) } else { None }
}

/// The handler that a reply is for, likewise.
#[inline(always)]
pub(crate) const fn reply_handler(hdr: RepHdr) -> Option<u8> {
    const ITS_OWN: u32 = RepHdr::inline(Status(u8::MAX as u16), 0x3F).0;
    if hdr.0 & !ITS_OWN == RepHdr::AM_REPLY { Some(hdr.0 as u8) } else { None }
}

/// A message in the words of a line: how much of them it has, and what of it goes elsewhere.
pub(crate) struct Packed {
    /// Bytes in the line.
    pub(crate) len: usize,
    pub(crate) args_out: bool,
    pub(crate) data_out: bool,
}

impl Packed {
    /// Does anything go elsewhere?
    #[inline(always)]
    pub(crate) const fn is_out(&self) -> bool {
        self.args_out || self.data_out
    }
}

/// The words of a message of so many bytes in its line.
#[inline(always)]
pub(crate) fn used(words: &[u64; INLINE_WORDS], len: usize) -> &[u64] {
    words.split_at(len.div_ceil(8).min(INLINE_WORDS)).0
}

/// The first word of the arguments in a line.
const fn first_argument(category: Category) -> usize {
    match category {
        Category::Short | Category::Medium => 1,
        Category::Long => 4,
    }
}

/// Packs a message into `words`; those that it does not use stay as they are. Its arguments and payload are not too many
/// or too long. A long one has `len` bytes at `dest`.
#[inline(always)]
pub(crate) fn pack(
    words: &mut [u64; INLINE_WORDS],
    category: Category,
    args: &[i32],
    data: &[u8],
    (dest, len): (u64, usize),
) -> Packed {
    let first = first_argument(category);
    let args_out = args.len() > LANES - first;
    let behind = 4 * (first + if args_out { 0 } else { args.len() });
    let is_medium = matches!(category, Category::Medium);
    let is_inline = is_medium && behind + data.len() <= INLINE_BYTES;
    let head = AmWord::new(category, args.len(), args_out, is_inline, if is_medium { data.len() } else { 0 }).0;
    // In whole words, as they are read next: the processor forwards a store to no load that is wider.
    let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let here = if args_out { &[] } else { args };
    let (from, rest) = if let Category::Long = category {
        (words[0], words[1]) = (two(head, len as u32), dest);
        (2, here)
    } else {
        let (first, rest) = here.split_first().unwrap_or((&0, &[]));
        words[0] = two(head, *first as u32);
        (1, rest)
    };
    // No more than there are.
    for (word, pair) in words.iter_mut().skip(from).zip(rest.chunks(2)) {
        *word = pair.iter().rev().fold(0, |word, arg| word << 32 | u64::from(*arg as u32));
    }
    let mut len = behind;
    if is_inline {
        // No byte behind the last one is an earlier message's.
        words.iter_mut().take((behind + data.len()).div_ceil(8)).skip(behind.div_ceil(8)).for_each(|word| *word = 0);
        let bytes: &mut [u8; INLINE_BYTES] = bytemuck::must_cast_mut(words);
        if let Some(to) = bytes.get_mut(behind..behind + data.len()) {
            to.copy_from_slice(data);
        }
        len += data.len();
    }
    Packed { len, args_out, data_out: is_medium && !is_inline }
}

/// A message out of a line, checked.
pub(crate) struct Unpacked<'a> {
    pub(crate) category: Category,
    pub(crate) args: &'a [i32],
    /// Of a medium message in the line.
    pub(crate) data: Option<&'a [u8]>,
    /// Bytes of the payload.
    pub(crate) len: usize,
    /// Of a long one.
    pub(crate) dest: u64,
}

/// Reads the message in a private copy of a line, with the chunk at `chunk` in `window`, and a medium
/// payload of at most `max` bytes. `None`: it breaks the rules.
#[inline(always)]
pub(crate) fn unpack<'a>(
    words: &'a [u64; INLINE_WORDS],
    out: &'a mut Option<[i32; AmWord::MAX_ARGS]>,
    window: &Window<()>,
    chunk: u64,
    max: usize,
) -> Option<Unpacked<'a>> {
    unpack_with(words, out, max, || {
        let mut args = [0; AmWord::MAX_ARGS];
        window.read_bytes(chunk, bytemuck::bytes_of_mut(&mut args)).ok()?;
        Some(args)
    })
}

/// The same with arguments that are in private memory.
pub(crate) fn unpack_own<'a>(
    words: &'a [u64; INLINE_WORDS],
    out: &'a mut Option<[i32; AmWord::MAX_ARGS]>,
    front: &[u8],
) -> Option<Unpacked<'a>> {
    unpack_with(words, out, usize::MAX, || {
        front.get(..size_of::<[i32; AmWord::MAX_ARGS]>()).map(bytemuck::pod_read_unaligned)
    })
}

/// The arguments of a short message that are all in the line, which most are: one comparison, because
/// its first word is their number.
#[inline(always)]
pub(crate) fn short_args(words: &[u64; INLINE_WORDS]) -> Option<&[i32]> {
    let lanes: &[i32; LANES] = bytemuck::must_cast_ref(words);
    let nargs = lanes[0] as u32 as usize;
    (nargs < LANES).then(|| lanes[1..].split_at(nargs).0)
}

#[inline(always)]
fn unpack_with<'a>(
    words: &'a [u64; INLINE_WORDS],
    out: &'a mut Option<[i32; AmWord::MAX_ARGS]>,
    max: usize,
    read_out: impl FnOnce() -> Option<[i32; AmWord::MAX_ARGS]>,
) -> Option<Unpacked<'a>> {
    let lanes: &[i32; LANES] = bytemuck::must_cast_ref(words);
    let word = AmWord(lanes[0] as u32);
    let (category, nargs) = (word.category()?, word.nargs());
    let first = first_argument(category);
    let (args, behind) = if word.args_are_out() {
        (out.insert(read_out()?).get(..nargs)?, 4 * first)
    } else {
        (lanes.get(first..first + nargs)?, 4 * (first + nargs))
    };
    let mut message = Unpacked { category, args, data: None, len: word.len(), dest: 0 };
    match category {
        Category::Short => message.len = 0,
        Category::Medium if word.is_inline() => {
            let bytes: &[u8; INLINE_BYTES] = bytemuck::must_cast_ref(words);
            message.data = Some(bytes.get(behind..behind + word.len())?);
        }
        Category::Medium if word.len() > max => return None,
        Category::Medium => {}
        Category::Long => {
            message.len = lanes[1] as u32 as usize;
            message.dest = u64::from(lanes[2] as u32) | u64::from(lanes[3] as u32) << 32;
        }
    }
    Some(message)
}

/// The chunks of a lane.
#[derive(Clone, Copy)]
pub(crate) struct Chunks {
    at: u64,
    /// Bytes of one.
    len: u32,
}

impl Chunks {
    /// Those of the lane in which `from` asks `of`.
    pub(crate) fn new(layout: &GasLayout, of: RankId, from: RankId) -> Option<Self> {
        Some(Self { at: layout.chunk(of, from, 0)?, len: layout.chunk_len() })
    }

    /// That of the request in a slot.
    #[inline(always)]
    pub(crate) fn request(self, slot: u32) -> u64 {
        self.at + u64::from(slot) * 2 * u64::from(self.len)
    }

    /// That of its reply.
    #[inline(always)]
    pub(crate) fn reply(self, slot: u32) -> u64 {
        self.request(slot) + u64::from(self.len)
    }
}

/// Writes what of a message is not in its line to its chunk.
#[inline(always)]
pub(crate) fn write_out(packed: &Packed, args: &[i32], data: &[u8], window: &Window<()>, chunk: u64) {
    // A chunk is as long as the limits say, and in the window.
    if packed.args_out {
        let _ = window.write_words(chunk, bytemuck::cast_slice(args));
    }
    if packed.data_out {
        let _ = window.write_bytes(chunk + u64::from(ARGS_BYTES), data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::abi::window::Window;
    use proptest::prelude::*;
    extern crate std;
    use std::vec::Vec;

    fn category() -> impl Strategy<Value = Category> {
        prop_oneof![Just(Category::Short), Just(Category::Medium), Just(Category::Long)]
    }

    proptest! {
        #[test]
        fn a_message_comes_out_as_it_went_in(
            category in category(),
            args in proptest::collection::vec(any::<i32>(), 0..=16),
            data in proptest::collection::vec(any::<u8>(), 0..200),
            dest in any::<u64>(),
        ) {
            let window = Window::private(4096).share().leak();
            let mut words = [0; INLINE_WORDS];
            let packed = pack(&mut words, category, &args, &data, (dest, data.len()));
            prop_assert!(packed.len <= INLINE_BYTES);
            let mut over = [u64::MAX; INLINE_WORDS];
            pack(&mut over, category, &args, &data, (dest, data.len()));
            prop_assert_eq!(used(&over, packed.len), used(&words, packed.len), "nothing of an earlier message is left");
            write_out(&packed, &args, &data, &window, 1024);
            let mut out = None;
            let read = unpack(&words, &mut out, &window, 1024, 16320).expect("as packed");
            prop_assert_eq!((read.category, read.args), (category, &*args));
            let is_short_in_line = matches!(category, Category::Short) && !packed.args_out;
            prop_assert_eq!(short_args(&words), is_short_in_line.then_some(&*args));
            match category {
                Category::Short => prop_assert_eq!(read.len, 0),
                Category::Long => prop_assert_eq!((read.len, read.dest), (data.len(), dest)),
                Category::Medium => {
                    prop_assert_eq!(read.len, data.len());
                    let mut bytes = Vec::from(read.data.unwrap_or_default());
                    if read.data.is_none() {
                        bytes.resize(data.len(), 0);
                        window.read_bytes(1024 + 64, &mut bytes).expect("inside");
                    }
                    prop_assert_eq!(bytes, data);
                }
            }
        }

        #[test]
        fn any_bytes_are_a_message_or_refused(words in any::<[u64; 6]>()) {
            let window = Window::private(4096).share().leak();
            let mut out = None;
            if let Some(read) = unpack(&words, &mut out, &window, 64, 16320) {
                prop_assert!(read.args.len() <= 16);
                prop_assert!(!matches!(read.category, Category::Medium) || read.len <= 16320);
            }
        }
    }

    #[test]
    fn eleven_arguments_and_forty_bytes_are_in_one_line() {
        let pack = |category, args, data, place| pack(&mut [0; INLINE_WORDS], category, args, data, place);
        let packed = pack(Category::Short, &[1; 11], &[], (0, 0));
        assert!(!packed.args_out && packed.len == 48);
        assert!(pack(Category::Short, &[1; 12], &[], (0, 0)).args_out);
        let packed = pack(Category::Medium, &[1], &[7; 40], (0, 0));
        assert!(!packed.data_out && packed.len == 48);
        assert!(pack(Category::Medium, &[1], &[7; 41], (0, 0)).data_out);
        assert!(
            !pack(Category::Long, &[1; 8], &[], (0, 0)).args_out && pack(Category::Long, &[1; 9], &[], (0, 0)).args_out
        );
    }
}
