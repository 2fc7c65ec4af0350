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
