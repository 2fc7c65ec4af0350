//! What both copies of a window are made of: words, sections of a layout as bytes of a message, and queue pairs.

use super::{Half, Lost};
use crate::am::MAX_QUEUES;
use alloc::vec::Vec;
use hamr_shared_abi::layout::{Layout, LayoutError};
use hamr_shared_abi::preamble::{DEVICE_WORDS, DeviceState, word};
use hamr_shared_abi::queue::QueueDescriptor;
use hamr_shared_abi::rings::RingHeader;
use hamr_shared_abi::section::{Section, SectionKind};
use hamr_shared_abi::split::Split;
use hamr_shared_abi::tasks::TasksLayout;
use hamr_shared_abi::window::{OutOfWindow, Queue, Window};

impl From<OutOfWindow> for Lost {
    fn from(e: OutOfWindow) -> Self {
        Self::of(format_args!("{e}"))
    }
}

impl From<LayoutError> for Lost {
    fn from(e: LayoutError) -> Self {
        Self::of(format_args!("expected a window with a layout, found {e:?}"))
    }
}

pub(super) fn load<K>(window: &Window<K>, off: u64) -> Result<u32, Lost> {
    Ok(window.word(off)?.observe())
}

pub(super) fn publish<K>(window: &Window<K>, off: u64, value: u32) -> Result<(), Lost> {
    window.word(off)?.publish(value);
    Ok(())
}

/// The sections of `kinds` that a layout has, of a ring its header alone.
pub(super) fn parts(layout: &Layout, kinds: &'static [SectionKind]) -> impl Iterator<Item = Section> {
    let sections = kinds.iter().filter_map(|kind| layout.section(*kind).ok());
    let cut =
        |s: Section| Section { len: if RINGS.contains(&s.kind) { s.len.min(RingHeader::BYTES) } else { s.len }, ..s };
    sections.map(cut).collect::<Vec<_>>().into_iter()
}

const RINGS: &[SectionKind] = &[SectionKind::LOG, SectionKind::TRACE];
/// The host's words of a ring.
const RING_WORDS: [u64; 3] = [RingHeader::LEVEL, RingHeader::READER, RingHeader::CONSUMED];
/// What an offer has beside the front, and before the host's part of TASKS.
pub(super) const OF_HOST: &[SectionKind] = &[SectionKind::QUEUES, SectionKind::LOG, SectionKind::TRACE];
/// What a host zeroes (abi §3.4).
pub(super) const ZEROED: &[SectionKind] =
    &[SectionKind::LINES, SectionKind::TABLE, SectionKind::CRASH, SectionKind::TASKS];

/// What a host has laid out beside the front.
pub(super) fn parts_of_offer(layout: &Layout) -> impl Iterator<Item = Section> {
    parts(layout, ZEROED).chain(parts(layout, OF_HOST))
}

/// What the device has written behind a state.
pub(super) fn of_device(state: u32) -> &'static [SectionKind] {
    match DeviceState(state) {
        DeviceState::ACCEPTED => &[SectionKind::TABLE],
        DeviceState::CRASHED | DeviceState::STOPPED => &[SectionKind::CRASH],
        _ => &[],
    }
}

/// The words of the host that are carried whenever they change, behind HOST_STATE and OPEN_QUEUES.
pub(super) fn words_of_rings(layout: &Layout) -> impl Iterator<Item = u64> {
    let rings = RINGS.iter().filter_map(|kind| layout.section(*kind).ok());
    let rings = rings.filter(|s| s.len >= RingHeader::BYTES).collect::<Vec<_>>().into_iter();
    rings.flat_map(|s| RING_WORDS.map(|off| s.off + off))
}

/// Has room for so many bytes more, as far as there is memory.
pub(super) fn reserve(bytes: &mut Vec<u8>, more: usize) -> Result<(), Lost> {
    bytes.try_reserve(more).map_err(|_| Lost::of(format_args!("expected memory for {more} bytes, there is less")))
}

/// Appends a range of the window.
pub(super) fn append<K>(window: &Window<K>, off: u64, len: u64, bytes: &mut Vec<u8>) -> Result<(), Lost> {
    // Before memory is asked for: a layout says what it likes.
    if off.checked_add(len).is_none_or(|end| end > window.len()) {
        return Err(OutOfWindow { off, want: len, len: window.len() }.into());
    }
    let start = bytes.len();
    reserve(bytes, len as usize)?;
    bytes.resize(start + len as usize, 0);
    Ok(window.read_bytes(off, bytes.get_mut(start..).unwrap_or_default())?)
}

/// Writes sections from the front of `bytes`, and returns what is behind them.
pub(super) fn write<'b, K>(
    window: &Window<K>,
    sections: impl Iterator<Item = Section>,
    mut bytes: &'b [u8],
) -> Result<&'b [u8], Lost> {
    for section in sections {
        let len = usize::try_from(section.len).unwrap_or(usize::MAX);
        let (these, rest) = bytes.split_at_checked(len).ok_or_else(|| misfits(len - bytes.len()))?;
        window.write_bytes(section.off, these)?;
        bytes = rest;
    }
    Ok(bytes)
}

pub(super) fn misfits(got: usize) -> Lost {
    Lost::of(format_args!("expected the bytes of a window's sections, got {got} more or fewer"))
}

/// Without what is behind them.
pub(super) fn all(rest: &[u8]) -> Result<(), Lost> {
    if rest.is_empty() { Ok(()) } else { Err(misfits(rest.len())) }
}

/// Words and record of the device.
pub(super) const DEVICE_BYTES: usize = (word::DEVICE_WAIT - DEVICE_WORDS) as usize;

/// The queue pairs of a layout: those of streams, and host queues.
pub(super) struct Pairs<'l> {
    pub(super) streams: Vec<QueueDescriptor>,
    pub(super) of_host: Vec<QueueDescriptor>,
    /// Wait words of the host queues.
    pub(super) waits: Vec<u64>,
    layout: &'l Layout,
}

impl<'l> Pairs<'l> {
    /// Of a window that has at least what is before the heap.
    pub(super) fn of<K>(window: &Window<K>, layout: &'l Layout) -> Result<Self, Lost> {
        if layout.split() != Split::NONE {
            return Err(Lost::of(format_args!(
                "expected coherent placement behind a mirror, got split by {}",
                layout.split().distance()
            )));
        }
        if layout.queues() > MAX_QUEUES as u32 {
            return Err(Lost::of(format_args!("expected at most {MAX_QUEUES} queue pairs, got {}", layout.queues())));
        }
        let streams = (0..layout.queues()).map(|i| layout.queue(window, i)).collect::<Result<_, _>>()?;
        let tasks = TasksLayout::read(layout, window);
        let queues = || tasks.as_ref().ok().into_iter().flat_map(|tasks| (0..tasks.queues()).map(move |i| (tasks, i)));
        let of_host = queues().map(|(tasks, i)| tasks.queue(i)).collect();
        let waits = queues().map(|(tasks, i)| tasks.wait_word(i)).collect();
        Ok(Self { streams, of_host, waits, layout })
    }

    pub(super) fn streams<K: Clone, E>(
        &self,
        window: &Window<K>,
        end: impl Fn(&Queue<K>) -> E,
    ) -> Result<Vec<E>, Lost> {
        ends(window, &self.streams, |index, d, queue| {
            queue.use_two_lines(index != 0 && self.layout.second_line_fits(d));
            end(queue)
        })
    }

    pub(super) fn of_host<K: Clone, E>(
        &self,
        window: &Window<K>,
        end: impl Fn(&Queue<K>) -> E,
    ) -> Result<Vec<E>, Lost> {
        ends(window, &self.of_host, |_, _, queue| end(queue))
    }
}

/// Ends of queue pairs, in their order.
fn ends<K: Clone, E>(
    window: &Window<K>,
    all: &[QueueDescriptor],
    end: impl Fn(usize, &QueueDescriptor, &mut Queue<K>) -> E,
) -> Result<Vec<E>, Lost> {
    let mut ends = Vec::with_capacity(all.len());
    for (index, d) in all.iter().enumerate() {
        // By reference: see `Body`.
        match &mut window.queue(d) {
            Ok(queue) => ends.push(end(index, d, queue)),
            Err(why) => return Err((*why).into()),
        }
    }
    Ok(ends)
}

/// A message of a queue pair that there is not, or that does not fit.
pub(super) fn misfit(half: &Half) -> Lost {
    Lost::of(format_args!("expected a slot of this window, got slot {} of queue pair {}", half.slot, half.queue))
}
