//! Reductions. Operands are joined from the first rank to the last, so the result has the same bits in
//! every run and on every rank.

#![expect(unsafe_code)]
// UNSAFETY: the program's own operation is a C function.

use crate::die::die;
use crate::job::{self, restriction};
use crate::memory::Bytes;
use crate::team::{STEP_BYTES, Team};
use std::ffi::c_void;

/// `gex_Coll_ReduceFn_t`.
pub(crate) type Function = unsafe extern "C" fn(*const c_void, *mut c_void, usize, *const c_void);

/// How two operands are joined.
pub(crate) enum Join {
    BuiltIn { data_type: u32, op: u32 },
    User { function: Function, cdata: *const c_void },
}

/// A reduction. Its elements go in blocks of as many as a step has room for; a longer element is a block of
/// several steps.
pub(crate) struct Reduce {
    pub(crate) join: Join,
    /// As the program has stated them, which all members compare.
    pub(crate) data_type: u32,
    pub(crate) op: u32,
    pub(crate) element: usize,
    /// The member that gets the result; `None`: all.
    pub(crate) root: Option<u32>,
    pub(crate) source: Bytes,
    /// Of members that get the result.
    pub(crate) target: Option<Bytes>,
    /// What the members said of the block so far, by rank.
    pub(crate) parts: Vec<Vec<u8>>,
}

/// Part of the data.
struct Piece {
    off: usize,
    len: usize,
    /// It is the end of a block, which begins there.
    ends: Option<usize>,
}

impl Reduce {
    fn piece(&self, step: usize) -> Piece {
        let (element, len) = (self.element, self.source.len);
        if element <= STEP_BYTES {
            let block = STEP_BYTES / element * element;
            let off = step * block;
            return Piece { off, len: (len - off).min(block), ends: Some(off) };
        }
        let steps = element.div_ceil(STEP_BYTES);
        let (begin, part) = (step / steps * element, step % steps);
        let off = part * STEP_BYTES;
        Piece { off: begin + off, len: (element - off).min(STEP_BYTES), ends: (part + 1 == steps).then_some(begin) }
    }

    pub(crate) fn part(&mut self, step: usize, to: &mut [u8; STEP_BYTES]) -> usize {
        let Piece { off, len, .. } = self.piece(step);
        self.source.read(off, &mut to[..len]);
        len
    }

    pub(crate) fn take(&mut self, team: &Team, step: usize, mut hear: impl FnMut(u32, &mut [u8])) -> bool {
        let Piece { off, len, ends } = self.piece(step);
        if let Some(target) = self.target {
            self.parts.resize(team.size() as usize, Vec::new());
            for (rank, part) in (0..).zip(&mut self.parts) {
                let before = part.len();
                part.resize(before + len, 0);
                hear(rank, &mut part[before..]);
            }
            if let Some(begin) = ends {
                let joined = std::mem::take(&mut self.parts).into_iter().reduce(|left, right| self.join(left, right));
                target.write(begin, &joined.unwrap_or_default());
            }
        }
        off + len >= self.source.len
    }

    /// Left and right operands, element by element.
    fn join(&self, left: Vec<u8>, right: Vec<u8>) -> Vec<u8> {
        match self.join {
            Join::BuiltIn { data_type, op } => built_in(data_type, op, &left, right),
            Join::User { function, cdata } => {
                // Aligned for any type.
                let words = |bytes: &[u8]| {
                    let mut words = vec![0u128; bytes.len().div_ceil(16)];
                    words.iter_mut().zip(bytes.chunks(16)).for_each(|(word, bytes)| {
                        let mut all = [0; 16];
                        all[..bytes.len()].copy_from_slice(bytes);
                        *word = u128::from_ne_bytes(all);
                    });
                    words
                };
                let (left_words, mut right_words) = (words(&left), words(&right));
                let count = left.len() / self.element;
                job::restrict(restriction::OPERATION);
                // SAFETY: both have so many elements; the function is the program's, for such elements.
                unsafe { function(left_words.as_ptr().cast(), right_words.as_mut_ptr().cast(), count, cdata) };
                job::lift(restriction::OPERATION);
                right_words.iter().flat_map(|word| word.to_ne_bytes()).take(right.len()).collect()
            }
        }
    }
}

const AND: u32 = 1 << 0;
const OR: u32 = 1 << 1;
const XOR: u32 = 1 << 2;
const ADD: u32 = 1 << 3;
const MULT: u32 = 1 << 5;
const MIN: u32 = 1 << 6;
const MAX: u32 = 1 << 7;
pub(crate) const USER: u32 = 1 << 30;
pub(crate) const USER_NC: u32 = 1 << 31;

/// Is the operation one of numbers of this type?
pub(crate) fn is_defined(data_type: u32, op: u32) -> bool {
    match data_type {
        0x01 | 0x02 | 0x04 | 0x08 => matches!(op, ADD | MULT | MIN | MAX | AND | OR | XOR),
        0x10 | 0x20 => matches!(op, ADD | MULT | MIN | MAX),
        _ => false,
    }
}

fn built_in(data_type: u32, op: u32, left: &[u8], mut right: Vec<u8>) -> Vec<u8> {
    macro_rules! each {
        ($t:ty, $op:expr) => {{
            let op: fn($t, $t) -> $t = $op;
            const BYTES: usize = size_of::<$t>();
            for (x, y) in left.chunks_exact(BYTES).zip(right.chunks_exact_mut(BYTES)) {
                let number = |bytes: &[u8]| bytes.try_into().map_or(<$t>::default(), <$t>::from_ne_bytes);
                let joined = op(number(x), number(y));
                y.copy_from_slice(&joined.to_ne_bytes());
            }
            right
        }};
    }
    macro_rules! integers {
        ($t:ty) => {
            match op {
                ADD => each!($t, |x, y| x.wrapping_add(y)),
                MULT => each!($t, |x, y| x.wrapping_mul(y)),
                MIN => each!($t, |x, y| x.min(y)),
                MAX => each!($t, |x, y| x.max(y)),
                AND => each!($t, |x, y| x & y),
                OR => each!($t, |x, y| x | y),
                XOR => each!($t, |x, y| x ^ y),
                other => wrong(data_type, other),
            }
        };
    }
    macro_rules! floats {
        ($t:ty) => {
            match op {
                ADD => each!($t, |x, y| x + y),
                MULT => each!($t, |x, y| x * y),
                MIN => each!($t, |x, y| if x < y { x } else { y }),
                MAX => each!($t, |x, y| if x > y { x } else { y }),
                other => wrong(data_type, other),
            }
        };
    }
    match data_type {
        0x01 => integers!(i32),
        0x02 => integers!(u32),
        0x04 => integers!(i64),
        0x08 => integers!(u64),
        0x10 => floats!(f32),
        0x20 => floats!(f64),
        _ => wrong(data_type, op),
    }
}

fn wrong(data_type: u32, op: u32) -> ! {
    die(&format!("a reduction: operation {op:#x} of data type {data_type:#x} is not defined"))
}
