//! Pages of the program that segments have: by their address, with how many segments each has. A page of a program is at
//! one place of the world, so that all segments in it are there.

use crate::board::PAGE;
use crate::die::die;
use crate::job::common;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

struct Page {
    /// Its place in the rank's segment of the world.
    off: u64,
    segments: u32,
}

#[derive(Default)]
struct Shared {
    /// By its address, in pages.
    pages: BTreeMap<usize, Page>,
    /// The bytes of each segment.
    segments: Vec<Range<usize>>,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared { pages: BTreeMap::new(), segments: Vec::new() });

const BYTES: usize = PAGE as usize;

/// Where pages of the program are in the world: `None`: none of them is. `bytes` are those of the new segment.
pub(crate) fn find(function: &str, first: usize, len: u64, bytes: Range<usize>) -> Option<u64> {
    let shared = common(&SHARED);
    if let Some(other) = shared.segments.iter().find(|other| bytes.start < other.end && other.start < bytes.end) {
        die(&format!(
            "{function}: expected memory that no segment has, got {bytes:#x?}, of which another has {other:#x?}"
        ));
    }
    let first = first / BYTES;
    let count = len as usize / BYTES;
    let mut there = shared.pages.range(first..first + count).map(|(at, page)| (*at, page.off));
    let (at, off) = there.next()?;
    let is_next_to_each_other = at == first
        && there.enumerate().all(|(i, (at, next))| at == first + i + 1 && next == off + (i as u64 + 1) * PAGE);
    if !is_next_to_each_other || shared.pages.range(first..first + count).count() != count {
        die(&format!(
            "{function}: expected pages that no segment has, or all pages of one, got {bytes:#x?}, with some pages of another; \
             segments at multiples of {PAGE} have none in common"
        ));
    }
    Some(off)
}

/// A segment has these pages of the program, which are at `pages` in the world.
pub(crate) fn add(first: usize, pages: &Range<u64>, bytes: Range<usize>) {
    let mut shared = common(&SHARED);
    for (at, off) in (first / BYTES..).zip(pages.clone().step_by(BYTES)) {
        shared.pages.entry(at).or_insert(Page { off, segments: 0 }).segments += 1;
    }
    shared.segments.push(bytes);
}

/// A segment has ended: the runs of its pages that no other has, as places in the world.
pub(crate) fn remove(first: usize, pages: &Range<u64>, bytes: Range<usize>) -> Vec<Range<u64>> {
    let mut shared = common(&SHARED);
    if let Some(at) = shared.segments.iter().position(|other| *other == bytes) {
        shared.segments.swap_remove(at);
    }
    let mut free: Vec<Range<u64>> = Vec::new();
    for (at, off) in (first / BYTES..).zip(pages.clone().step_by(BYTES)) {
        let Some(page) = shared.pages.get_mut(&at) else { continue };
        page.segments -= 1;
        if page.segments != 0 {
            continue;
        }
        shared.pages.remove(&at);
        match free.last_mut() {
            Some(run) if run.end == off => run.end = off + PAGE,
            _ => free.push(off..off + PAGE),
        }
    }
    free
}
