//! The registration cache beside a naive one: the same calls of the pinner in the same order, and what a transfer needs
//! is pinned while it has its lease.

use std::collections::HashMap;
use std::ops::Range;

use hamr_gas::firehose::{Acquired, Cache, InUse, Lease, Limits, Move, PinError, Pinner, Refused, Remote, Slot, Unpin};
use proptest::prelude::*;

const PAGE: u64 = 4096;
const LIMITS: Limits = Limits { bytes: 24 * PAGE, victim_bytes: 8 * PAGE, region_bytes: 8 * PAGE, page: PAGE };
const REGIONS: usize = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    Pin(Range<u64>),
    Unpin(Range<u64>),
}

/// Keeps what it was asked, and how often each page is pinned.
#[derive(Default)]
struct Pages {
    calls: Vec<Call>,
    pages: HashMap<u64, u32>,
    refuses: bool,
}

impl Pinner for Pages {
    type Handle = u64;

    fn pin(&mut self, range: Range<u64>) -> Result<u64, PinError> {
        if self.refuses {
            return Err(PinError);
        }
        for page in range.clone().step_by(PAGE as usize) {
            *self.pages.entry(page).or_default() += 1;
        }
        self.calls.push(Call::Pin(range.clone()));
        Ok(range.start)
    }

    fn unpin(&mut self, range: Range<u64>, handle: u64) {
        assert_eq!(handle, range.start, "the handle of another range");
        for page in range.clone().step_by(PAGE as usize) {
            let count = self.pages.get_mut(&page).expect("a page is unpinned as often as it was pinned");
            *count -= 1;
            if *count == 0 {
                self.pages.remove(&page);
            }
        }
        self.calls.push(Call::Unpin(range));
    }
}

#[derive(Clone)]
struct Region {
    /// Two regions may have one range, if a larger one swallowed the first and is gone.
    id: u64,
    start: u64,
    end: u64,
    leases: u32,
    is_live: bool,
    used: u64,
}

/// The same rules, with every question asked of all regions.
#[derive(Default)]
struct Naive {
    regions: Vec<Region>,
    calls: Vec<Call>,
    clock: u64,
}

impl Naive {
    fn pinned(&self) -> u64 {
        self.regions.iter().map(|region| region.end - region.start).sum()
    }

    fn leased(&self) -> u64 {
        self.regions.iter().filter(|region| region.leases > 0).map(|region| region.end - region.start).sum()
    }

    fn unpin(&mut self, which: usize) {
        let Region { start, end, .. } = self.regions.remove(which);
        self.calls.push(Call::Unpin(start..end));
    }

    fn lease(&mut self, which: usize) -> Option<(u64, Range<u64>)> {
        let leased = self.leased();
        let region = &mut self.regions[which];
        if region.leases == 0 && leased + region.end - region.start > LIMITS.bytes {
            return None;
        }
        region.leases += 1;
        Some((region.id, region.start..region.end))
    }

    fn acquire(&mut self, start: u64, end: u64) -> Option<(u64, Range<u64>)> {
        if end - start > LIMITS.region_bytes {
            return None;
        }
        let covers = |region: &Region| region.is_live && region.start <= start && region.end >= end;
        let covering = (0..self.regions.len()).filter(|&which| covers(&self.regions[which]));
        if let Some(which) = covering.max_by_key(|&which| self.regions[which].start) {
            return self.lease(which);
        }
        let (mut wide_start, mut wide_end) = (start, end);
        let leased = self.leased();
        let fits = |start: u64, end: u64| end - start <= LIMITS.region_bytes && leased + end - start <= LIMITS.bytes;
        let live = || self.regions.iter().filter(|region| region.is_live);
        if let Some(behind) = live().filter(|region| region.start <= end && region.end > end).max_by_key(|r| r.start)
            && fits(start, behind.end)
        {
            wide_end = behind.end;
        }
        if let Some(before) =
            live().filter(|region| region.start < start && region.end >= start).max_by_key(|r| r.start)
            && fits(before.start, wide_end)
        {
            wide_start = before.start;
        }
        loop {
            if self.leased() + wide_end - wide_start > LIMITS.bytes {
                return None;
            }
            let in_it = |region: &Region| region.is_live && region.start >= wide_start && region.end <= wide_end;
            let unused = |region: &Region| region.leases == 0;
            let inside = (0..self.regions.len()).filter(|&which| in_it(&self.regions[which]));
            let inside = inside.filter(|&which| unused(&self.regions[which])).min_by_key(|&w| self.regions[w].start);
            if let Some(which) = inside {
                self.unpin(which);
                continue;
            }
            let all = LIMITS.bytes + LIMITS.victim_bytes;
            if self.regions.len() < REGIONS && self.pinned() + wide_end - wide_start <= all {
                break;
            }
            let oldest = (0..self.regions.len()).filter(|&which| unused(&self.regions[which]));
            match oldest.min_by_key(|&which| self.regions[which].used) {
                Some(which) => self.unpin(which),
                None => return None,
            }
        }
        for region in &mut self.regions {
            region.is_live &= region.start < wide_start || region.end > wide_end;
        }
        self.calls.push(Call::Pin(wide_start..wide_end));
        self.clock += 1;
        let id = self.clock;
        self.regions.push(Region { id, start: wide_start, end: wide_end, leases: 1, is_live: true, used: 0 });
        Some((id, wide_start..wide_end))
    }

    fn release(&mut self, id: u64) {
        self.clock += 1;
        let which = self.regions.iter().position(|region| region.id == id).expect("a region of this lease");
        let region = &mut self.regions[which];
        region.leases -= 1;
        region.used = self.clock;
        if region.leases == 0 && !region.is_live {
            self.unpin(which);
        }
    }

    fn invalidate(&mut self, start: u64, end: u64) -> bool {
        let is_over = |region: &Region| region.start < end && start < region.end;
        if self.regions.iter().any(|region| is_over(region) && region.leases > 0) {
            return false;
        }
        while let Some(which) = (0..self.regions.len())
            .filter(|&which| is_over(&self.regions[which]))
            .min_by_key(|&which| self.regions[which].start)
        {
            self.unpin(which);
        }
        true
    }
}

#[derive(Clone, Debug)]
enum Op {
    Acquire(u64, u64),
    Try(u64, u64),
    Partial(u64, u64),
    Release(usize),
    Invalidate(u64, u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    // Bytes, not pages: ranges begin and end anywhere.
    let range = || (0..40 * PAGE, 1..9 * PAGE);
    let op = prop_oneof![
        4 => range().prop_map(|(start, len)| Op::Acquire(start, start + len)),
        1 => range().prop_map(|(start, len)| Op::Try(start, start + len)),
        1 => range().prop_map(|(start, len)| Op::Partial(start, start + len)),
        4 => any::<usize>().prop_map(Op::Release),
        1 => range().prop_map(|(start, len)| Op::Invalidate(start, start + len)),
    ];
    prop::collection::vec(op, 1..200)
}

fn pages(start: u64, end: u64) -> (u64, u64) {
    (start / PAGE * PAGE, end.next_multiple_of(PAGE))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_cache_pins_as_the_naive_one(ops in ops()) {
        let mut slots = [Slot::EMPTY; REGIONS];
        let mut cache = Cache::new(Pages::default(), LIMITS, &mut slots);
        let mut naive = Naive::default();
        let mut leases: Vec<(Lease, u64, Range<u64>)> = Vec::new();
        for op in ops {
            match op {
                Op::Acquire(start, end) => {
                    let (first, last) = pages(start, end);
                    let wanted = naive.acquire(first, last);
                    match cache.acquire(start..end) {
                        Ok(lease) => {
                            let (id, range) = wanted.expect("the naive one refuses");
                            prop_assert_eq!(lease.range(), range);
                            prop_assert!(lease.range().start <= start && end <= lease.range().end);
                            leases.push((lease, id, start..end));
                        }
                        Err(_) => prop_assert_eq!(None, wanted),
                    }
                }
                Op::Try(start, end) => {
                    let before = cache.pinner().calls.len();
                    if let Some(lease) = cache.try_acquire(start..end) {
                        prop_assert!(lease.range().start <= start && end <= lease.range().end);
                        let (first, last) = pages(start, end);
                        let (id, range) = naive.acquire(first, last).expect("the naive one refuses");
                        prop_assert_eq!(lease.range(), range);
                        leases.push((lease, id, start..end));
                    }
                    prop_assert_eq!(cache.pinner().calls.len(), before, "it pinned");
                }
                Op::Partial(start, end) => {
                    let lowest = (start..end).find(|&byte| {
                        naive.regions.iter().any(|region| region.is_live && region.start <= byte && byte < region.end)
                    });
                    if let Some((part, lease)) = cache.acquire_partial(start..end) {
                        prop_assert_eq!(Some(part.start), lowest);
                        prop_assert!(part.end <= end && part.end <= lease.range().end);
                        let range = lease.range();
                        let which = naive.regions.iter().position(|region| {
                            region.is_live && (region.start, region.end) == (range.start, range.end)
                        });
                        let (id, _) = naive.lease(which.expect("the region")).expect("the naive one refuses");
                        leases.push((lease, id, part));
                    }
                }
                Op::Release(which) if !leases.is_empty() => {
                    let (lease, id, _) = leases.remove(which % leases.len());
                    naive.release(id);
                    cache.release(lease);
                }
                Op::Release(_) => {}
                Op::Invalidate(start, end) => {
                    let is_done = cache.invalidate(start..end);
                    prop_assert_eq!(is_done == Ok(()), naive.invalidate(start, end));
                    if is_done.is_ok() {
                        let (first, last) = (start, end);
                        let is_over = |page: &u64| *page < last && first < page + PAGE;
                        prop_assert!(!cache.pinner().pages.keys().any(is_over), "a page is left");
                    }
                }
            }
            prop_assert_eq!(&cache.pinner().calls, &naive.calls);
            prop_assert_eq!(cache.pinned(), naive.pinned());
            prop_assert!(cache.pinned() <= LIMITS.bytes + LIMITS.victim_bytes);
            for (_, _, range) in &leases {
                let (first, last) = pages(range.start, range.end);
                let is_pinned = (first..last).step_by(PAGE as usize).all(|page| cache.pinner().pages.contains_key(&page));
                prop_assert!(is_pinned, "a lease on memory that is not pinned");
            }
        }
        prop_assert!(cache.unpin_all().pages.is_empty());
    }
}

#[test]
fn a_range_is_pinned_once_for_many_transfers() {
    let mut slots = [Slot::EMPTY; REGIONS];
    let mut cache = Cache::new(Pages::default(), LIMITS, &mut slots);
    for _ in 0..100 {
        let lease = cache.acquire(100..5000).expect("there is room");
        assert_eq!((lease.range(), cache.handle(&lease)), (0..2 * PAGE, Some(0)));
        cache.release(lease);
    }
    assert_eq!(cache.pinner().calls, [Call::Pin(0..2 * PAGE)]);
}

#[test]
fn neighbours_become_one_region() {
    let mut slots = [Slot::EMPTY; REGIONS];
    let mut cache = Cache::new(Pages::default(), LIMITS, &mut slots);
    let low = cache.acquire(0..PAGE).expect("there is room");
    for range in [2 * PAGE..3 * PAGE, PAGE..2 * PAGE] {
        let lease = cache.acquire(range).expect("there is room");
        cache.release(lease);
    }
    // The lower one has a lease and leaves with it.
    let calls = [
        Call::Pin(0..PAGE),
        Call::Pin(2 * PAGE..3 * PAGE),
        Call::Unpin(2 * PAGE..3 * PAGE),
        Call::Pin(0..3 * PAGE),
        Call::Unpin(0..PAGE),
    ];
    assert_eq!(cache.pinner().calls, calls[..4]);
    cache.release(low);
    assert_eq!(cache.pinner().calls, calls);
    assert_eq!(cache.pinned(), 3 * PAGE);
}

#[test]
fn what_cannot_be_pinned_is_refused_by_its_reason() {
    let mut slots = [Slot::EMPTY; REGIONS];
    let mut cache = Cache::new(Pages::default(), LIMITS, &mut slots);
    for range in [5..5, 0..9 * PAGE, u64::MAX - 5..u64::MAX] {
        assert_eq!(cache.acquire(range), Err(Refused::Range));
    }
    let leases = [0, 10, 20].map(|page| cache.acquire(page * PAGE..(page + 8) * PAGE).expect("there is room"));
    assert_eq!(cache.acquire(30 * PAGE..31 * PAGE), Err(Refused::Full));
    assert_eq!(cache.invalidate(0..1), Err(InUse));
    leases.into_iter().for_each(|lease| cache.release(lease));
    assert_eq!(cache.invalidate(0..1), Ok(()));

    let mut slots = [Slot::EMPTY; REGIONS];
    let mut cache = Cache::new(Pages { refuses: true, ..Pages::default() }, LIMITS, &mut slots);
    assert_eq!(cache.acquire(0..1), Err(Refused::Pin));
    assert_eq!(cache.pinned(), 0);
}

/// Acquires at a peer that pins everything, and does what it is asked in the order of messages.
fn at_owner(remote: &mut Remote<'_>, owners: &mut HashMap<u32, Pages>, peer: u32, range: Range<u64>) -> Option<Lease> {
    loop {
        let Move { unpin, pin } = match remote.acquire(peer, range.clone()) {
            Ok(Acquired::Lease(lease)) => return Some(lease),
            Ok(Acquired::Move(to_send)) => to_send,
            Err(refused) => {
                assert_eq!(refused, Refused::Full);
                return None;
            }
        };
        assert!(unpin[0].is_some() || pin.is_some(), "a move without effect");
        for unpin in unpin.into_iter().flatten() {
            owners.get_mut(&unpin.peer).expect("an owner that pinned").unpin(unpin.range, unpin.handle);
        }
        let Some(moving) = pin else { continue };
        assert_eq!(remote.try_acquire(peer, range.clone()), None, "it is not pinned yet");
        assert_eq!(remote.acquire(peer, range), Err(Refused::Full));
        let handle = owners.entry(peer).or_default().pin(moving.range()).ok();
        return Some(remote.moved(moving, handle).expect("it was pinned"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_leased_at_peers_is_pinned_there(ops in prop::collection::vec((0..3u32, 0..30u64, 1..6u64), 1..100)) {
        let mut slots = [Slot::EMPTY; REGIONS];
        let mut remote = Remote::new(LIMITS, &mut slots);
        let mut owners: HashMap<u32, Pages> = HashMap::new();
        let mut leases: Vec<(u32, Lease)> = Vec::new();
        for (peer, start, len) in ops {
            let range = start * PAGE..(start + len) * PAGE;
            loop {
                if let Some(lease) = at_owner(&mut remote, &mut owners, peer, range.clone()) {
                    leases.push((peer, lease));
                    break;
                }
                prop_assert!(!leases.is_empty(), "full without a lease");
                let (owner, lease) = leases.remove(0);
                if let Some(Unpin { peer, range, handle }) = remote.release(lease) {
                    prop_assert_eq!(owner, peer);
                    owners.get_mut(&peer).expect("it pinned").unpin(range, handle);
                }
            }
            for (peer, lease) in &leases {
                let pinned = &owners[peer].pages;
                prop_assert!(lease.range().step_by(PAGE as usize).all(|page| pinned.contains_key(&page)));
            }
            prop_assert!(remote.pinned() <= LIMITS.bytes + LIMITS.victim_bytes);
            // Every fourth range goes back to its owner, unless it is in use.
            if start % 4 == 0 {
                let is_over = |lease: &Lease| lease.range().start < range.end && range.start < lease.range().end;
                let in_use = leases.iter().any(|(owner, lease)| *owner == peer && is_over(lease));
                let before = remote.pinned();
                loop {
                    match remote.invalidate(peer, range.clone()) {
                        Err(InUse) => break prop_assert!(in_use && remote.pinned() == before),
                        Ok(None) => break prop_assert!(!in_use),
                        Ok(Some(Unpin { peer: owner, range, handle })) => {
                            prop_assert!(!in_use && owner == peer);
                            owners.get_mut(&peer).expect("it pinned").unpin(range, handle);
                        }
                    }
                }
                let pinned = owners.get(&peer).map(|owner| &owner.pages);
                let is_pinned = |page| pinned.is_some_and(|pages| pages.contains_key(&page));
                prop_assert!(in_use || !range.step_by(PAGE as usize).any(is_pinned));
            }
            let counted: u64 = owners.values().flat_map(|pages| pages.pages.values()).map(|count| u64::from(*count)).sum();
            prop_assert_eq!(counted * PAGE, remote.pinned());
        }
    }
}

#[test]
fn an_owner_that_does_not_pin_leaves_no_region() {
    let mut slots = [Slot::EMPTY; REGIONS];
    let mut remote = Remote::new(LIMITS, &mut slots);
    let Ok(Acquired::Move(Move { pin: Some(moving), .. })) = remote.acquire(7, 0..1) else {
        panic!("nothing was pinned before")
    };
    assert_eq!(remote.moved(moving, None), Err(Refused::Pin));
    assert_eq!(remote.pinned(), 0);
    assert!(matches!(remote.acquire(7, 0..1), Ok(Acquired::Move(_))));
}
