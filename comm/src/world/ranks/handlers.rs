//! Where the handlers of the ranks are. A call carries the handler's position in the callee's table,
//! which lies in its home (abi §3.7). The caller finds it there by id and types, and keeps it.

use crate::task::wait::Callee;
use crate::why::NotSent;
use crate::world::{Rank, RankId};
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_shared_abi::ids::HandlerKey;
use hamr_shared_abi::layout::Layout;
use hamr_shared_abi::section::SectionKind;
use hamr_shared_abi::table::{TableHeader, TableRecord, record_flag};
use hamr_shared_abi::window::Window;

/// Keys that are kept. Of two handlers with one row the last one has it.
const ROWS: usize = 64;
/// In the last word of a row that is used.
const USED: u32 = 1 << 31;

/// The keys that this rank has found: what was wanted ([`Callee::fingerprint`]), then rank and key. Words, and the last
/// one stored last: a handler may be abandoned at any instruction.
pub(in crate::world) struct Keys([[AtomicU32; 3]; ROWS]);

impl Keys {
    pub(in crate::world) const fn new() -> Self {
        Self([const { [const { AtomicU32::new(0) }; 3] }; ROWS])
    }

    fn row(&self, at: RankId, wanted: u64) -> &[AtomicU32; 3] {
        &self.0[(wanted as u32 ^ at.0) as usize % ROWS]
    }

    fn get(&self, at: RankId, wanted: u64) -> Option<HandlerKey> {
        let [low, high, found] = self.row(at, wanted).each_ref().map(|word| word.load(Ordering::Relaxed));
        let is_it = u64::from(low) | u64::from(high) << 32 == wanted && found >> 16 == (USED >> 16) | at.0;
        is_it.then_some(HandlerKey(found as u16))
    }

    fn put(&self, at: RankId, wanted: u64, key: HandlerKey) {
        let [low, high, found] = self.row(at, wanted);
        found.store(0, Ordering::Relaxed);
        low.store(wanted as u32, Ordering::Release);
        high.store((wanted >> 32) as u32, Ordering::Release);
        found.store(USED | at.0 << 16 | u32::from(key.0), Ordering::Release);
    }
}

impl Callee {
    /// Of all that decides whether a handler is the one: hashes of name and types, and the kind.
    fn fingerprint(&self) -> u64 {
        self.id ^ self.signature.rotate_left(32) ^ u64::from(self.is_task)
    }
}

/// The key of a handler at a rank.
pub(crate) fn handler_key(at: RankId, to: &Callee) -> Result<HandlerKey, NotSent> {
    let here = Rank::here().filter(|here| at.0 < here.size).ok_or(NotSent::NotThere)?;
    let wanted = to.fingerprint();
    if let Some(key) = here.calls.keys.get(at, wanted) {
        return Ok(key);
    }
    let key = if at == here.me {
        let mut entries = here.calls.table.iter().enumerate();
        let (key, entry) = entries.find(|(_, entry)| entry.id == to.id).ok_or(NotSent::NotThere)?;
        check(key as u32, entry.signature, entry.flags, to)?
    } else {
        here.peers.home(at).map_or(Err(NotSent::NotThere), |home| find(home, to))?
    };
    here.calls.keys.put(at, wanted, key);
    Ok(key)
}

/// The same in another rank's home, whose bytes may be anything.
#[inline(never)]
fn find(home: &Window<()>, to: &Callee) -> Result<HandlerKey, NotSent> {
    let section = Layout::of_window(home).and_then(|layout| layout.section(SectionKind::TABLE));
    let section = section.map_err(|_| NotSent::NotThere)?;
    let header: TableHeader = home.read(section.off).map_err(|_| NotSent::NotThere)?;
    let room = (section.len.saturating_sub(size_of::<TableHeader>() as u64)) / size_of::<TableRecord>() as u64;
    for key in 0..header.count.min(HandlerKey::PER_MODULE as u32).min(room as u32) {
        let at = section.off + size_of::<TableHeader>() as u64 + u64::from(key) * size_of::<TableRecord>() as u64;
        // The id begins a record.
        if home.read(at) == Ok(to.id) {
            let record: TableRecord = home.read(at).map_err(|_| NotSent::NotThere)?;
            return check(key, record.signature, record.flags, to);
        }
    }
    Err(NotSent::NotThere)
}

/// A handler of this name can be called if it has a body there, and the types and kind of here.
fn check(key: u32, signature: u64, flags: u32, to: &Callee) -> Result<HandlerKey, NotSent> {
    if flags & record_flag::HAS_BODY == 0 || flags & record_flag::HOST != 0 {
        return Err(NotSent::NotThere);
    }
    if signature != to.signature || (flags & record_flag::TASK != 0) != to.is_task {
        return Err(NotSent::OtherTypes);
    }
    Ok(HandlerKey(key as u16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Target;

    /// Handlers that differ in one attribute are different ones.
    #[test]
    fn a_fingerprint_is_of_name_types_and_kind() {
        let wanted = |id, signature, is_task| Callee { target: Target::HOST, id, signature, is_task }.fingerprint();
        let all = [(1, 2, false), (3, 2, false), (1, 3, false), (1, 2, true), (2, 1, false)];
        for (i, a) in all.iter().enumerate() {
            for b in &all[..i] {
                assert_ne!(wanted(a.0, a.1, a.2), wanted(b.0, b.1, b.2), "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn a_key_is_that_of_its_rank_and_handler() {
        let keys = Keys::new();
        let (id, other) = (0x1234_5678_0000_0040, 0x9999_5678_0000_0040);
        assert_eq!(keys.get(RankId(0), 0), None, "no row is used");
        keys.put(RankId(0), id, HandlerKey(7));
        assert_eq!(keys.get(RankId(0), id), Some(HandlerKey(7)));
        assert_eq!((keys.get(RankId(0), other), keys.get(RankId(63), id)), (None, None));
        // They have one row.
        keys.put(RankId(0), other, HandlerKey(9));
        assert_eq!((keys.get(RankId(0), other), keys.get(RankId(0), id)), (Some(HandlerKey(9)), None));
    }
}
