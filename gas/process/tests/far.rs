//! The pinned memory of another process, whose owner answers what the test says.

use hamr_gas::firehose::{Limits, Refused, Slot};
use hamr_gas_process::{Far, FarError, Peer};
use std::process::{Child, Command};

/// A process that ends with the test, and the first byte of it that can be read.
struct Other(Child, u64);

impl Other {
    fn start() -> Self {
        let child = Command::new("sleep").arg("100").spawn().expect("it starts");
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).expect("of a child");
        let begin = maps.split('-').next().and_then(|begin| u64::from_str_radix(begin, 16).ok());
        Self(child, begin.expect("an address"))
    }

    /// `None` where the system does not let a process read another's memory.
    fn peer(&self) -> Option<Peer> {
        Peer::attach(self.0.id(), self.1).ok()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// A put of 5000 bytes at a multiple of that, into a process whose owner refuses to pin anything; `None`: the system refuses.
fn put(limits: Limits) -> Option<Result<(), FarError<()>>> {
    let other = Other::start();
    let (peer, mut slots) = (other.peer()?, [Slot::EMPTY; 8]);
    let mut far = Far::new(limits, &mut slots);
    Some(far.put((1, &peer), other.1.next_multiple_of(5000), &[1; 5000], |_| Ok(false)))
}

#[test]
fn limits_of_less_than_a_page_refuse() {
    for (bytes, region_bytes) in [(0, 0), (4095, 1 << 20), (1 << 20, 4095)] {
        let Some(refused) = put(Limits { bytes, victim_bytes: 0, region_bytes, page: 4096 }) else { return };
        assert!(matches!(refused, Err(FarError::Refused(Refused::Range))), "{bytes} {region_bytes}: {refused:?}");
    }
}

#[test]
fn regions_of_no_whole_pages_are_used_by_pages() {
    for (bytes, region_bytes) in [(96 << 10, 5000), (5000, 96 << 10), (4096, 4096)] {
        let Some(refused) = put(Limits { bytes, victim_bytes: 0, region_bytes, page: 4096 }) else { return };
        assert!(matches!(refused, Err(FarError::Refused(Refused::Pin))), "{bytes} {region_bytes}: {refused:?}");
    }
}

#[test]
fn a_question_that_is_not_answered_leaves_no_region_behind() {
    let other = Other::start();
    let Some(peer) = other.peer() else { return };
    let mut slots = [Slot::EMPTY; 8];
    let mut far = Far::new(Limits { bytes: 4096, victim_bytes: 0, region_bytes: 4096, page: 4096 }, &mut slots);
    let at = other.1.next_multiple_of(4096);
    let mut bytes = [0; 8];
    // The region of one is to be unpinned for that of the other, and each of the questions fails in turn.
    for failing in [1, 2, 1] {
        let pinned = far.get((1, &peer), at, &mut bytes, |_| Ok::<_, ()>(true));
        assert!(pinned.is_ok(), "{failing}: {pinned:?}");
        let failed = far.get((2, &peer), at, &mut bytes, |ask| if ask.peer == failing { Err(()) } else { Ok(true) });
        assert!(matches!(failed, Err(FarError::Ask(()))), "{failing}: {failed:?}");
        let again = far.get((2, &peer), at, &mut bytes, |_| Ok::<_, ()>(true));
        assert!(again.is_ok(), "{failing}: {again:?}");
    }
}

/// What an owner has pinned, as it is asked: each question is answered, is not, or is not though it was done.
#[derive(Default)]
struct Asked {
    pinned: Vec<(u32, std::ops::Range<u64>)>,
    questions: u32,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Failure {
    Lost,
    Done,
    Panic,
}

impl Asked {
    /// Question `at`, counted from 0 on, fails.
    fn ask(&mut self, ask: hamr_gas_process::Ask, at: Option<u32>, how: Failure) -> Result<bool, ()> {
        let fails = at == Some(self.questions);
        self.questions += 1;
        assert!(ask.unpin.len() <= hamr_gas::firehose::MOVES, "{ask:?}");
        if !fails || how == Failure::Done {
            self.pinned.retain(|(peer, range)| *peer != ask.peer || !ask.unpin.contains(range));
            self.pinned.extend(ask.pin.map(|range| (ask.peer, range)));
        }
        match fails {
            true if how == Failure::Panic => panic!("in a question"),
            true => Err(()),
            false => Ok(true),
        }
    }
}

#[test]
fn what_a_failed_question_gave_up_is_unpinned_by_the_next() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let other = Other::start();
    let Some(peer) = other.peer() else { return };
    let at = other.1.next_multiple_of(4096);
    for how in [Failure::Lost, Failure::Done, Failure::Panic] {
        // Regions of one page, two at most: each step takes the place of another.
        for fails in 0..6 {
            let mut slots = [Slot::EMPTY; 8];
            let mut far = Far::new(Limits { bytes: 8192, victim_bytes: 0, region_bytes: 4096, page: 4096 }, &mut slots);
            let mut asked = Asked::default();
            let mut bytes = [0; 8];
            let mut failed = 0;
            for (owner, page) in [(1, 0), (2, 0), (1, 1), (2, 1), (3, 0), (1, 0)] {
                let fails = Some(fails);
                let got = catch_unwind(AssertUnwindSafe(|| {
                    far.get((owner, &peer), at + page * 4096, &mut bytes, |ask| asked.ask(ask, fails, how))
                }));
                failed += u32::from(!matches!(got, Ok(Ok(()))));
            }
            assert_eq!(failed, 1, "{how:?} {fails}");
            for owner in 1..=3 {
                let all = far.invalidate(owner, 0..u64::MAX, |ask| asked.ask(ask, None, how));
                assert!(all.is_ok(), "{how:?} {fails}");
            }
            assert_eq!(asked.pinned, [], "{how:?} {fails}");
        }
    }
}

#[test]
fn a_range_that_was_not_invalidated_is_asked_for_again() {
    let other = Other::start();
    let Some(peer) = other.peer() else { return };
    let mut slots = [Slot::EMPTY; 8];
    let limits = Limits { bytes: 1 << 20, victim_bytes: 1 << 20, region_bytes: 4096, page: 4096 };
    let mut far = Far::new(limits, &mut slots);
    let at = other.1.next_multiple_of(4096);
    let mut asked = Asked::default();
    let mut bytes = vec![0; 6 * 4096];
    far.get((1, &peer), at, &mut bytes, |ask| asked.ask(ask, None, Failure::Lost)).expect("pinned");
    for fails in [0, 1] {
        asked.questions = 0;
        let failed = far.invalidate(1, at..at + 6 * 4096, |ask| asked.ask(ask, Some(fails), Failure::Lost));
        assert!(matches!(failed, Err(FarError::Ask(()))), "{fails}");
        assert_ne!(asked.pinned, []);
    }
    far.invalidate(1, at..at + 4096, |ask| asked.ask(ask, None, Failure::Lost)).expect("answered");
    assert_eq!(asked.pinned, []);
}
