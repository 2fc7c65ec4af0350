//! Slots as the checker's atomics, with the orderings of the window's `Slot`.

use std::sync::Arc;

use hamr_comm::am::{SlotAccess, Slots};
use hamr_shared_abi::slot::{pair, pair_hdr, pair_seq};
use hamr_shared_abi::sync::{AtomicU32, AtomicU64, Ordering};

/// Lines of the ring: the fewest that the protocol allows.
pub(crate) const RING: usize = 2;

/// How one side publishes. All but the first two are wrong on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// As in coherent memory: header and published word are one atomic.
    Sound,
    /// As in other memory: the header is stored before the published word and loaded after it.
    Apart,
    /// The pair is stored without Release.
    RelaxedPublish,
    /// The pair is loaded without Acquire.
    RelaxedObserve,
    /// CANCEL is stored with the pair, but without Release.
    RelaxedCancel,
    /// As [`Self::Apart`], with the published word stored without Release.
    ApartRelaxedPublish,
    /// As [`Self::Apart`], with the published word loaded without Acquire.
    ApartRelaxedObserve,
    /// The header is stored after the word that publishes it.
    HeaderLast,
    /// The header is loaded before the word that publishes it.
    HeaderFirst,
    /// The second line is stored after the word that publishes it.
    SecondLast,
    /// The tag travels with the header; the published word is the count alone.
    TagInHeader,
    /// One word per side says the epoch of all its lines; the published words are counts alone.
    EpochWord,
}

/// The shapes of the two sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shapes {
    pub(crate) req: Shape,
    pub(crate) rep: Shape,
}

impl Shapes {
    pub(crate) const SOUND: Self = Self::both(Shape::Sound);
    /// Sound, in memory that is not coherent.
    pub(crate) const APART: Self = Self::both(Shape::Apart);

    pub(crate) const fn both(shape: Shape) -> Self {
        Self { req: shape, rep: shape }
    }
}

/// One half of a line: the words that one side writes. A shape uses the pair, or the others.
struct Half {
    pair: AtomicU64,
    hdr: AtomicU32,
    seq: AtomicU32,
    /// Only of [`Shape::TagInHeader`].
    tag: AtomicU32,
}

impl Half {
    fn new() -> Self {
        Self { pair: AtomicU64::new(0), hdr: AtomicU32::new(0), seq: AtomicU32::new(0), tag: AtomicU32::new(0) }
    }
}

struct Cells {
    /// One word stands for all six: they are written before, and read after, the same published word.
    payload: AtomicU64,
    req: Half,
    rep: Half,
}

struct Lines {
    shapes: Shapes,
    /// Hot first, then the ring.
    cells: [Cells; 1 + RING],
    /// One word stands for all eight of the hot slot's second line.
    second: AtomicU64,
    /// Only of [`Shape::SecondLast`]: what is stored there behind the word. It is the requester's own,
    /// so it is no atomic of the checker's.
    late: std::sync::atomic::AtomicU64,
    /// Only of [`Shape::EpochWord`].
    req_epoch: AtomicU32,
    rep_epoch: AtomicU32,
}

/// The lines of a queue pair, as each end holds them. `BITS` is the width of the count.
///
/// Beside them is the cursor of an end. The `Arc` is the standard one: who drops it last is no part of the protocol and would
/// only add executions.
#[derive(Clone)]
pub(crate) struct Pair<const BITS: u32 = 2>(Arc<Lines>, u32);

impl<const BITS: u32> Pair<BITS> {
    pub(crate) fn new(shapes: Shapes) -> Self {
        let cells = || Cells { payload: AtomicU64::new(0), req: Half::new(), rep: Half::new() };
        let lines = Lines {
            shapes,
            cells: core::array::from_fn(|_| cells()),
            second: AtomicU64::new(0),
            late: std::sync::atomic::AtomicU64::new(0),
            req_epoch: AtomicU32::new(0),
            rep_epoch: AtomicU32::new(0),
        };
        Self(Arc::new(lines), 0)
    }

    /// Zeroes the words that the requester owns, as an offer does (rule 27).
    pub(crate) fn zero_requests(&self) {
        for i in 0..=RING {
            self.at(i).publish_request(0, 0);
        }
    }

    /// Says the requester's epoch beside the lines, for the shape that keeps it there.
    pub(crate) fn stamp_requests(&self, tag: u8) {
        if self.0.shapes.req == Shape::EpochWord {
            self.0.req_epoch.store(tag.into(), Ordering::Release);
        }
    }

    /// The same of the responder's.
    pub(crate) fn stamp_replies(&self, tag: u8) {
        if self.0.shapes.rep == Shape::EpochWord {
            self.0.rep_epoch.store(tag.into(), Ordering::Release);
        }
    }

    fn at(&self, i: usize) -> At<'_> {
        let lines = &*self.0;
        At { lines, cells: &lines.cells[i] }
    }
}

impl<const BITS: u32> Slots for Pair<BITS> {
    const COUNT_BITS: u32 = BITS;
    type Slot<'a> = At<'a>;
    fn ring_len(&self) -> u32 {
        RING as u32
    }
    fn hot(&self) -> At<'_> {
        self.at(0)
    }
    fn ring(&self, i: u32) -> At<'_> {
        self.at(1 + i as usize % RING)
    }
    fn at_cursor(&self) -> At<'_> {
        self.ring(self.1)
    }
    fn move_cursor(&mut self, i: u32) {
        self.1 = i;
    }
    fn write_second(&self, bytes: &[u8]) {
        let Some(word) = bytes.first_chunk().copied().map(u64::from_ne_bytes) else { return };
        match self.0.shapes.req {
            Shape::SecondLast => self.0.late.store(word, Ordering::Relaxed),
            _ => self.0.second.store(word, Ordering::Relaxed),
        }
    }
    fn read_second(&self, words: &mut [u64]) {
        words[0] = self.0.second.load(Ordering::Relaxed);
    }
    fn ticket_slot(&self, _: u32) -> Option<At<'_>> {
        None
    }
}

/// One line.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    lines: &'a Lines,
    cells: &'a Cells,
}

const COUNT: u32 = 0x00FF_FFFF;

impl Shape {
    /// Are header and published word one atomic?
    fn is_paired(self) -> bool {
        matches!(
            self,
            Self::Sound | Self::RelaxedPublish | Self::RelaxedObserve | Self::RelaxedCancel | Self::SecondLast
        )
    }

    fn publish_order(self) -> Ordering {
        match self {
            Self::RelaxedPublish | Self::ApartRelaxedPublish => Ordering::Relaxed,
            _ => Ordering::Release,
        }
    }

    fn observe_order(self) -> Ordering {
        match self {
            Self::RelaxedObserve | Self::ApartRelaxedObserve => Ordering::Relaxed,
            _ => Ordering::Acquire,
        }
    }
}

fn publish(shape: Shape, half: &Half, hdr: u32, seq: u32) {
    if shape.is_paired() {
        return half.pair.store(pair(hdr, seq), shape.publish_order());
    }
    if shape != Shape::HeaderLast {
        half.hdr.store(hdr, Ordering::Relaxed);
    }
    match shape {
        Shape::EpochWord => half.seq.store(seq & COUNT, Ordering::Release),
        Shape::TagInHeader => {
            half.tag.store(seq >> 24, Ordering::Relaxed);
            half.seq.store(seq & COUNT, Ordering::Release);
        }
        Shape::HeaderLast => {
            half.seq.store(seq, Ordering::Release);
            half.hdr.store(hdr, Ordering::Relaxed);
        }
        _ => half.seq.store(seq, shape.publish_order()),
    }
}

fn observe_seq(shape: Shape, half: &Half, epoch: &AtomicU32) -> u32 {
    if shape.is_paired() {
        return pair_seq(half.pair.load(shape.observe_order()));
    }
    match shape {
        Shape::TagInHeader => {
            let count = half.seq.load(Ordering::Acquire);
            half.tag.load(Ordering::Relaxed) << 24 | count
        }
        Shape::EpochWord => {
            let count = half.seq.load(Ordering::Acquire);
            epoch.load(Ordering::Acquire) << 24 | count
        }
        _ => half.seq.load(shape.observe_order()),
    }
}

fn load_hdr(shape: Shape, half: &Half) -> u32 {
    if shape.is_paired() {
        return pair_hdr(half.pair.load(Ordering::Relaxed));
    }
    half.hdr.load(Ordering::Relaxed)
}

fn hdr_of(shape: Shape, half: &Half, epoch: &AtomicU32, expected: u32) -> Option<u32> {
    if shape.is_paired() {
        let pair = half.pair.load(shape.observe_order());
        return (pair_seq(pair) == expected).then_some(pair_hdr(pair));
    }
    if shape == Shape::HeaderFirst {
        let hdr = load_hdr(shape, half);
        return (observe_seq(shape, half, epoch) == expected).then_some(hdr);
    }
    (observe_seq(shape, half, epoch) == expected).then(|| load_hdr(shape, half))
}

impl SlotAccess for At<'_> {
    fn req_seq(self) -> u32 {
        observe_seq(self.lines.shapes.req, &self.cells.req, &self.lines.req_epoch)
    }
    fn req_hdr(self) -> u32 {
        load_hdr(self.lines.shapes.req, &self.cells.req)
    }
    fn req_hdr_of(self, seq: u32) -> Option<u32> {
        hdr_of(self.lines.shapes.req, &self.cells.req, &self.lines.req_epoch, seq)
    }
    fn publish_request(self, hdr: u32, seq: u32) {
        publish(self.lines.shapes.req, &self.cells.req, hdr, seq);
        if self.lines.shapes.req == Shape::SecondLast && core::ptr::eq(self.cells, &self.lines.cells[0]) {
            self.lines.second.store(self.lines.late.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
    fn rep_seq(self) -> u32 {
        observe_seq(self.lines.shapes.rep, &self.cells.rep, &self.lines.rep_epoch)
    }
    fn rep_hdr(self) -> u32 {
        load_hdr(self.lines.shapes.rep, &self.cells.rep)
    }
    fn rep_hdr_of(self, seq: u32) -> Option<u32> {
        hdr_of(self.lines.shapes.rep, &self.cells.rep, &self.lines.rep_epoch, seq)
    }
    fn publish_reply(self, hdr: u32, seq: u32) {
        publish(self.lines.shapes.rep, &self.cells.rep, hdr, seq);
    }
    fn write_request(self, words: &[u64]) {
        self.cells.payload.store(words[0], Ordering::Relaxed);
    }
    fn read_request(self, words: &mut [u64]) {
        words[0] = self.cells.payload.load(Ordering::Relaxed);
    }
    fn write_reply(self, words: &[u64]) {
        self.cells.payload.store(words[0], Ordering::Relaxed);
    }
    fn read_reply(self, words: &mut [u64]) {
        words[0] = self.cells.payload.load(Ordering::Relaxed);
    }
    fn set_req_hdr(self, hdr: u32) {
        let (shape, half) = (self.lines.shapes.req, &self.cells.req);
        if !shape.is_paired() {
            return half.hdr.store(hdr, Ordering::Relaxed);
        }
        let seq = pair_seq(half.pair.load(Ordering::Relaxed));
        let order = if shape == Shape::RelaxedCancel { Ordering::Relaxed } else { Ordering::Release };
        half.pair.store(pair(hdr, seq), order);
    }
}
