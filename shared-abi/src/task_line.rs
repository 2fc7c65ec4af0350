//! A task line: what one task of a device waits for, and where in its source (abi §12.1). It is for
//! people; no side acts on it.

use crate::window::{Loan, OutOfWindow, Window};
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const WORDS: usize = 16;

/// A task line. The device stores it word by word while others may read it: a reader may see parts
/// of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct TaskLine {
    /// [`TaskLine::FREE`] or [`TaskLine::WAITS`].
    pub state: u8,
    /// What the wait is for: one of [`WaitKind`].
    pub wait: WaitKind,
    /// Key of its handler.
    pub key: u16,
    /// Queue pair of its call.
    pub queue: u16,
    /// Number of the slot that the reply to its call goes to.
    pub slot: u16,
    /// Of a signal or a barrier the rank that is waited for, of a call to the host the handler's key; the
    /// first of [`WaitKind::RANKS`].
    pub of: u16,
    /// Of a signal the number of its word; the last of [`WaitKind::RANKS`].
    pub word: u16,
    /// Line in the source file; 0: unknown.
    pub line: u32,
    /// When the device first saw the wait, in microseconds of its clock.
    pub since: u64,
    /// When it saw it last.
    pub seen: u64,
    /// The last bytes of the source file's path, zeros behind them.
    pub file: [u8; 32],
}
const _: () = assert!(size_of::<TaskLine>() == 4 * WORDS && offset_of!(TaskLine, file) == 32);

/// What a wait is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(transparent)]
pub struct WaitKind(pub u8);

impl WaitKind {
    /// A turn: it has work.
    pub const TURN: Self = Self(0);
    /// A condition that it looks at in every round.
    pub const CONDITION: Self = Self(1);
    /// A time.
    pub const TIME: Self = Self(2);
    /// The reply of the host.
    pub const HOST: Self = Self(3);
    /// A signal of a rank.
    pub const SIGNAL: Self = Self(4);
    /// A rank to come to the barrier.
    pub const BARRIER: Self = Self(5);
    /// The reply of a rank.
    pub const RANK: Self = Self(6);
    /// A condition that a rank makes true, or any of several.
    pub const RANKS: Self = Self(7);
}

impl TaskLine {
    /// No task waits in the place; the other fields are those of the last one.
    pub const FREE: u8 = 0;
    /// One waits.
    pub const WAITS: u8 = 1;
    const SEEN: u64 = offset_of!(TaskLine, seen) as u64;

    /// Copies a line out.
    pub fn read<K>(window: &Window<K>, at: u64) -> Result<Self, OutOfWindow> {
        let mut copy = [0u32; WORDS];
        let words = window.words(at, WORDS as u64)?;
        for (i, to) in copy.iter_mut().enumerate() {
            *to = words.get(i).map_or(0, |word| word.load());
        }
        Ok(zerocopy::transmute!(copy))
    }

    /// Stores the whole line; nothing, where the window has none.
    pub fn write(&self, window: &Window<Loan>, at: u64) {
        let copy: [u32; WORDS] = zerocopy::transmute!(*self);
        store(window, at, &copy);
    }

    /// Stores the time at which the wait was seen last.
    pub fn see(window: &Window<Loan>, at: u64, now: u64) {
        store(window, at + Self::SEEN, &[now as u32, (now >> 32) as u32]);
    }

    /// The place is free.
    pub fn free(window: &Window<Loan>, at: u64) {
        if let Ok(first) = window.word(at) {
            first.store(first.load() & !0xFF | u32::from(Self::FREE));
        }
    }

    /// The end of a path that the line has room for.
    pub fn tail(path: &str) -> [u8; 32] {
        let mut file = [0; 32];
        let path = path.as_bytes();
        let tail = path.get(path.len().saturating_sub(file.len())..).unwrap_or_default();
        if let Some(to) = file.get_mut(..tail.len()) {
            to.copy_from_slice(tail);
        }
        file
    }
}

#[inline(never)]
fn store(window: &Window<Loan>, at: u64, from: &[u32]) {
    for (off, from) in (at..).step_by(4).zip(from) {
        if let Ok(word) = window.word(off) {
            word.store(*from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let window = Window::private(128);
        let line = TaskLine {
            state: TaskLine::WAITS,
            wait: WaitKind::SIGNAL,
            key: 3,
            queue: 1,
            slot: 2,
            of: 5,
            word: 31,
            line: 40,
            since: 1 << 40,
            seen: (1 << 40) + 7,
            file: TaskLine::tail("src/lib.rs"),
        };
        line.write(&window.lend(), 64);
        assert_eq!(TaskLine::read(&window, 64), Ok(line));
        TaskLine::see(&window.lend(), 64, (1 << 41) + 1);
        assert_eq!(TaskLine::read(&window, 64), Ok(TaskLine { seen: (1 << 41) + 1, ..line }));
        TaskLine::free(&window.lend(), 64);
        let freed = TaskLine { state: TaskLine::FREE, seen: (1 << 41) + 1, ..line };
        assert_eq!(TaskLine::read(&window, 64), Ok(freed));
        assert!(TaskLine::read(&window, 66).is_err() && TaskLine::read(&window, 128).is_err());
    }

    #[test]
    fn a_long_path_keeps_its_end() {
        assert_eq!(&TaskLine::tail("a.rs")[..5], b"a.rs\0");
        assert_eq!(
            &TaskLine::tail("/home/user/a/workspace/kernels/src/himeno/mod.rs"),
            b"/workspace/kernels/src/himeno/mod.rs".last_chunk().expect("longer")
        );
        assert_eq!(TaskLine::tail(""), [0; 32]);
    }
}
