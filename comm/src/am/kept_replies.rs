//! Replies that no task has read, moved out of lanes whose rings were full: a ring frees its slots in
//! their order, and a task may read a reply whenever it likes.

use crate::task::Answer;
use hamr_shared_abi::ids::RankId;
use hamr_shared_abi::slot::RepHdr;
use hamr_shared_abi::world::LANE_CHUNK;

/// As many as the four tasks that an image runs by default can leave unread.
#[cfg(hamr_bare)]
type List = heapless::Vec<Kept, 32>;
/// No more than tasks have calls.
#[cfg(not(hamr_bare))]
type List = alloc::vec::Vec<Kept>;

struct Kept {
    /// Whose it is, and the position of its call in the ring.
    of: (RankId, u64),
    answer: Answer,
    bytes: [u8; LANE_CHUNK as usize],
}

pub(super) struct KeptReplies(List);

impl KeptReplies {
    pub(super) const fn new() -> Self {
        Self(List::new())
    }

    /// Keeps a reply, which `read` copies. False: there is no room.
    pub(super) fn keep(&mut self, of: (RankId, u64), read: impl FnOnce(&mut [u8]) -> Answer) -> bool {
        #[cfg(hamr_bare)]
        if self.0.is_full() {
            return false;
        }
        let mut kept = Kept { of, answer: Answer::None, bytes: [0; LANE_CHUNK as usize] };
        kept.answer = read(&mut kept.bytes);
        #[cfg(hamr_bare)]
        return self.0.push(kept).is_ok();
        #[cfg(not(hamr_bare))]
        {
            self.0.push(kept);
            true
        }
    }

    /// The header of a reply that was kept and is not malformed.
    pub(super) fn header(&self, of: (RankId, u64)) -> Option<RepHdr> {
        match self.0.iter().find(|kept| kept.of == of)?.answer {
            Answer::Reply(hdr, _) => Some(hdr),
            _ => None,
        }
    }

    /// Removes a reply and copies it to the front of `to`.
    pub(super) fn take(&mut self, of: (RankId, u64), to: &mut [u8]) -> Option<Answer> {
        let kept = self.0.swap_remove(self.0.iter().position(|kept| kept.of == of)?);
        if let Answer::Reply(_, len) = kept.answer {
            match to.get_mut(..len).zip(kept.bytes.get(..len)) {
                Some((to, from)) => to.copy_from_slice(from),
                None => return Some(Answer::Corrupt),
            }
        }
        Some(kept.answer)
    }

    /// Removes a reply that no task reads.
    pub(super) fn drop(&mut self, of: (RankId, u64)) {
        self.0.retain(|kept| kept.of != of);
    }
}
