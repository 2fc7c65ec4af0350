//! Plans a window (host) and checks one (device): the same checks from both ends (abi §3.5).

use crate::preamble::{MAX_SECTIONS, PREAMBLE_BYTES, Preamble, SECTIONS, feature};
use crate::queue::QueueDescriptor;
use crate::section::{Section, SectionKind, VERBS_FRONT};
use crate::slot::SLOT_BYTES;
use crate::split::{PAGE, Split};
#[cfg(doc)]
use crate::staging::Staging;
use crate::window::{Loan, OutOfWindow, Window};
use core::ops::Range;
use zerocopy::FromZeros;

pub mod tasks;

/// What a host needs of a window. Sizes are rounded up to 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Queue pairs for streams; the control stream comes on top, and with `tasks` the
    /// [`Self::body_streams`].
    pub streams: u32,
    /// Ring slots per stream, a power of two.
    pub ring: u32,
    /// Side slots per stream.
    pub tickets: u32,
    /// Bytes of each staging chunk, request and reply alike.
    pub chunk: u32,
    /// Bytes for the device's handler table.
    pub table: u64,
    /// Bytes of the log ring, its header included.
    pub log: u64,
    /// Bytes of the trace ring.
    pub trace: u64,
    /// Bytes of the heap.
    pub heap: u64,
    /// Places for tasks that can call the host, at most [`tasks::MAX_TASKS`]; 0: no section TASKS.
    pub tasks: u32,
    /// Bytes of each staging chunk of calls to the host, request and reply alike.
    pub host_chunk: u32,
    /// Bytes for the table of host handlers.
    pub host_table: u64,
    /// Bytes of queues and registered memory for verbs, behind the front of their section; 0: no section VERBS.
    pub verbs: u64,
    /// Where the halves of slots lie.
    pub placement: Placement,
    /// Bytes for copies into and out of the heap of a device that drives its host's memory, at least
    /// [`Staging::DATA`]; 0: it does not.
    pub staging: u64,
    /// Slots and heap begin on no page: for windows of which a page would be a large part.
    pub packed: bool,
}

/// Where the halves of slots lie (abi §4.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// A slot has both halves.
    #[default]
    Coherent,
    /// Apart, what the host polls before the heap.
    OneMemory,
    /// Apart, what the host polls in memory of its own behind the window.
    TwoMemories,
}

impl Plan {
    /// The default sizes without places for tasks that can call the host.
    pub const NO_TASKS: Self = Self {
        streams: 8,
        ring: 128,
        tickets: 8,
        chunk: 1024,
        table: 64 << 10,
        // A ring of 64 KiB behind its header.
        log: (64 << 10) + crate::rings::RingHeader::BYTES,
        // No device of this library writes one.
        trace: 0,
        heap: 64 << 20,
        tasks: 0,
        host_chunk: 0,
        host_table: 0,
        verbs: 0,
        placement: Placement::Coherent,
        staging: 0,
        packed: false,
    };

    /// Queue pairs for the calls of bodies on the host: one for each that can run at the same time.
    pub const fn body_streams(&self) -> u32 {
        if self.tasks == 0 { 0 } else { self.tasks.saturating_add(1) }
    }

    /// Have its sections less than 64 KiB together?
    pub fn is_small(&self) -> bool {
        let sizes = sizes(self, self.pairs().saturating_add(1));
        sizes.iter().try_fold(0_u64, |sum, (_, len)| sum.checked_add(*len)).is_some_and(|sum| sum < SMALL)
    }

    /// Queue pairs but the control stream.
    const fn pairs(&self) -> u32 {
        self.streams.saturating_add(self.body_streams())
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self { tasks: 16, host_chunk: 512, host_table: 4096, ..Self::NO_TASKS }
    }
}

/// Ring slots and tickets of the control stream: it carries ping, cancel and attach only.
const CONTROL_RING: u32 = 4;
/// Hot slots are this far apart: two cache lines. The second is the slot's own (abi §4.7), and the
/// adjacent-line prefetcher does not couple two streams.
const HOT_STRIDE: u64 = 128;
/// Bytes of sections below which a host packs them (abi §3.5).
const SMALL: u64 = 64 << 10;
/// Largest offset that a descriptor's 32-bit line offsets can name.
const MAX_LINES_BYTES: u64 = u32::MAX as u64;

/// Why a plan cannot be laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanError {
    /// Ring length, ticket count, number of tasks or chunk size is not one the protocol allows.
    Malformed,
    /// Sizes overflow.
    TooLarge,
}

/// Why a window is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayoutError {
    /// The section of this kind is absent, outside the window, misaligned, or overlaps another.
    Section(SectionKind),
    /// Descriptor `index` is malformed or leaves its sections.
    Queue(u32),
    /// The window is shorter than its preamble or than the length in it; bytes there.
    Window(u64),
}

impl From<OutOfWindow> for LayoutError {
    fn from(e: OutOfWindow) -> Self {
        Self::Window(e.len)
    }
}

/// The sections of a window, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    sections: [Section; MAX_SECTIONS],
    used: usize,
    queues: u32,
    split: Split,
}

fn round(n: u64) -> Option<u64> {
    n.checked_next_multiple_of(SLOT_BYTES as u64)
}

/// Bytes of the section VERBS, in whole pages: another program maps it alone.
fn verbs_bytes(plan: &Plan) -> u64 {
    match plan.verbs {
        0 => 0,
        // What overflows is refused as the window that it would make.
        arena => arena.checked_next_multiple_of(PAGE).map_or(u64::MAX, |arena| arena.saturating_add(VERBS_FRONT)),
    }
}

/// The sections and their bytes, in their order.
fn sizes(plan: &Plan, queues: u32) -> [(SectionKind, u64); 11] {
    [
        (SectionKind::QUEUES, u64::from(queues) * size_of::<QueueDescriptor>() as u64),
        (SectionKind::LINES, lines_bytes(plan)),
        (SectionKind::CHUNKS, chunks_before(plan, queues)),
        (SectionKind::TABLE, plan.table),
        (SectionKind::LOG, plan.log),
        (SectionKind::TRACE, plan.trace),
        (SectionKind::CRASH, size_of::<crate::rings::CrashRecord>() as u64),
        (SectionKind::TASKS, tasks::section_bytes(plan)),
        (SectionKind::STAGING, plan.staging),
        (SectionKind::VERBS, verbs_bytes(plan)),
        (SectionKind::HEAP, plan.heap),
    ]
}

impl Layout {
    /// Places every section that `plan` asks for, in the order of the kinds, the heap last.
    pub fn plan(plan: &Plan) -> Result<Self, PlanError> {
        let queues = plan.pairs().checked_add(1).ok_or(PlanError::TooLarge)?;
        let sections = [Section::EMPTY; MAX_SECTIONS];
        let mut layout = Self { sections, used: 0, queues, split: Split::NONE };
        let sample = describe(plan, 1, 0, 0, Split::NONE);
        if plan.streams == 0 || !sample.is_well_formed() || !tasks::is_well_formed(plan) {
            return Err(PlanError::Malformed);
        }
        if lines_bytes(plan) > MAX_LINES_BYTES {
            return Err(PlanError::TooLarge);
        }
        let mut at = PREAMBLE_BYTES;
        let is_optional = |kind| [SectionKind::TASKS, SectionKind::VERBS, SectionKind::STAGING].contains(&kind);
        let wanted = sizes(plan, queues).into_iter().filter(|(kind, len)| *len != 0 || !is_optional(*kind));
        let page = if plan.packed { SLOT_BYTES as u64 } else { PAGE };
        for (entry, (kind, len)) in layout.sections.iter_mut().zip(wanted) {
            // The slots start on a page, so that their sets in the caches do not depend on what
            // precedes them.
            let align = match kind {
                SectionKind::LINES | SectionKind::HEAP => page,
                SectionKind::VERBS => PAGE,
                _ => SLOT_BYTES as u64,
            };
            at = at.checked_next_multiple_of(align).ok_or(PlanError::TooLarge)?;
            if kind == SectionKind::HEAP && plan.placement == Placement::OneMemory {
                layout.split = Split::of(at);
                at = at.checked_mul(2).ok_or(PlanError::TooLarge)?;
            }
            let len = round(len).ok_or(PlanError::TooLarge)?;
            *entry = Section { kind, off: at, len, ..Section::EMPTY };
            at = at.checked_add(len).ok_or(PlanError::TooLarge)?;
            layout.used += 1;
        }
        if plan.placement == Placement::TwoMemories {
            // The size of a card, so that a second one can follow it.
            layout.split = Split::of(layout.window_len().checked_next_power_of_two().ok_or(PlanError::TooLarge)?);
        }
        Ok(layout)
    }

    /// Bytes of window that the sections need, a multiple of 4096.
    pub fn window_len(&self) -> u64 {
        let end = self.sections.iter().filter_map(Section::end).max().unwrap_or(PREAMBLE_BYTES);
        end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
    }

    /// How far behind its coherent place lies what the host polls.
    #[inline(always)]
    pub fn split(&self) -> Split {
        self.split
    }

    /// Bytes before the heap that have a section.
    fn front(&self) -> u64 {
        let front = self.sections().iter().filter(|section| section.kind != SectionKind::HEAP);
        front.filter_map(Section::end).fold(PREAMBLE_BYTES, u64::max)
    }

    /// Where what the host polls lies, in the window or behind it; empty with coherent placement.
    pub fn at_host(&self) -> Range<u64> {
        match self.split.distance() {
            0 => 0..0,
            from => from..from.saturating_add(self.front()),
        }
    }

    /// The layout of a copy of the window without its heap, in one memory.
    pub fn without_heap(&self) -> Self {
        let front = self.front().checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let split = if self.split == Split::NONE { Split::NONE } else { Split::of(front) };
        Self { split, ..*self }
    }

    /// The part of it behind the window, in whole pages: memory of the host's.
    pub fn host_memory(&self) -> Option<Range<u64>> {
        let Range { start, end } = self.at_host();
        let end = end.checked_next_multiple_of(PAGE)?;
        (start >= self.window_len()).then_some(start..end)
    }

    /// Where the heap is, which is last, up to the window's end.
    pub fn heap(&self) -> Range<u64> {
        let len = self.window_len();
        self.section(SectionKind::HEAP).map_or(len, |heap| heap.off)..len
    }

    /// Queue pairs, the control stream included.
    pub fn queues(&self) -> u32 {
        self.queues
    }

    /// The used entries of the section table.
    pub fn sections(&self) -> &[Section] {
        self.sections.get(..self.used).unwrap_or(&[])
    }

    /// The section of `kind`.
    // One copy of the search: an image would have a dozen, unrolled.
    #[inline(never)]
    pub fn section(&self, kind: SectionKind) -> Result<Section, LayoutError> {
        self.sections().iter().find(|s| s.kind == kind).copied().ok_or(LayoutError::Section(kind))
    }

    /// Writes section table and queue descriptors: the host's part before it publishes the magic
    /// word.
    pub fn write<K>(&self, plan: &Plan, window: &Window<K>) -> Result<(), LayoutError> {
        for (i, section) in self.sections.iter().enumerate() {
            window.write(SECTIONS + (i * size_of::<Section>()) as u64, section)?;
        }
        let queues = self.section(SectionKind::QUEUES)?;
        for q in 0..self.queues {
            let descriptor = self.planned_queue(plan, q)?;
            window.write(queues.off + u64::from(q) * size_of::<QueueDescriptor>() as u64, &descriptor)?;
        }
        if plan.tasks != 0 {
            self.write_tasks(plan, &window.lend())?;
        }
        Ok(())
    }

    /// Descriptor `index` as [`Self::write`] writes it: what the host goes by, since a peer may
    /// write to the window.
    pub fn planned_queue(&self, plan: &Plan, index: u32) -> Result<QueueDescriptor, LayoutError> {
        if index >= self.queues {
            return Err(LayoutError::Queue(index));
        }
        let lines = self.section(SectionKind::LINES)?;
        let chunks = self.section(SectionKind::CHUNKS)?;
        Ok(describe(plan, index, lines.off, chunks.off, self.split))
    }

    /// [`Self::read`] by the preamble that the window has.
    pub fn of_window<K>(window: &Window<K>) -> Result<Self, LayoutError> {
        Self::of_front(window, window.len())
    }

    /// The same of a window of `len` bytes, of which `front` has the first ones.
    pub fn of_front<K>(front: &Window<K>, len: u64) -> Result<Self, LayoutError> {
        let mut preamble = Preamble::new_zeroed();
        front.read_into(0, &mut preamble)?;
        Self::read_lent(&preamble, &front.lend(), len)
    }

    /// Copies the section table out of a window and checks it. No value of it is used before.
    pub fn read<K>(preamble: &Preamble, window: &Window<K>) -> Result<Self, LayoutError> {
        Self::read_lent(preamble, &window.lend(), window.len())
    }

    /// [`Self::read`], one copy for all kinds of windows.
    #[inline(never)]
    fn read_lent(preamble: &Preamble, window: &Window<Loan>, len: u64) -> Result<Self, LayoutError> {
        if preamble.window_len > len || preamble.window_len < PREAMBLE_BYTES {
            return Err(LayoutError::Window(len));
        }
        let used = preamble.sections as usize;
        if used > MAX_SECTIONS {
            return Err(LayoutError::Section(SectionKind::NONE));
        }
        let sections = [Section::EMPTY; MAX_SECTIONS];
        let mut layout = Self { sections, used, queues: preamble.queues, split: Split::in_preamble(preamble) };
        for (i, entry) in layout.sections.iter_mut().take(used).enumerate() {
            *entry = window.read(SECTIONS + (i * size_of::<Section>()) as u64)?;
        }
        layout.check(preamble.window_len)?;
        let is_split = preamble.features_required & feature::SPLIT != 0;
        if is_split != (preamble.split != 0) {
            return Err(LayoutError::Window(len));
        }
        layout.check_split(len)?;
        Ok(layout)
    }

    /// What the host polls must be mapped, in front of the heap or behind it, and behind all that it is apart from.
    fn check_split(&self, mapped: u64) -> Result<(), LayoutError> {
        let Range { start, end } = self.at_host();
        if start == 0 {
            return Ok(());
        }
        let heap = self.section(SectionKind::HEAP)?;
        let is_beside = end <= heap.off || heap.end().is_some_and(|heap_end| start >= heap_end);
        if start.is_multiple_of(PAGE) && start >= end - start && is_beside && end <= mapped {
            return Ok(());
        }
        Err(LayoutError::Window(mapped))
    }

    fn check(&self, window_len: u64) -> Result<(), LayoutError> {
        for (i, a) in self.sections().iter().enumerate() {
            let end = a.end().ok_or(LayoutError::Section(a.kind))?;
            let fits = a.off >= PREAMBLE_BYTES && end <= window_len && a.off.is_multiple_of(SLOT_BYTES as u64);
            let clash = self.sections().iter().take(i).any(|b| {
                a.kind == b.kind || (a.len > 0 && b.len > 0 && a.off < b.off.saturating_add(b.len) && b.off < end)
            });
            if !fits || clash {
                return Err(LayoutError::Section(a.kind));
            }
        }
        let queues = self.section(SectionKind::QUEUES)?;
        let need = u64::from(self.queues) * size_of::<QueueDescriptor>() as u64;
        if self.queues == 0 || need > queues.len {
            return Err(LayoutError::Section(SectionKind::QUEUES));
        }
        for kind in [SectionKind::LINES, SectionKind::CHUNKS, SectionKind::TABLE] {
            self.section(kind)?;
        }
        // The heap is last: a device splits the window there, so that views of the heap cannot
        // alias anything else. The check compares ends, because an empty heap overlaps nothing and
        // could be put in the middle of the slots.
        let heap = self.section(SectionKind::HEAP)?;
        if self.sections().iter().any(|s| s.kind != heap.kind && s.off.saturating_add(s.len) > heap.off) {
            return Err(LayoutError::Section(SectionKind::HEAP));
        }
        Ok(())
    }

    /// Copies descriptor `index` out and checks that every slot and chunk of it is inside its
    /// section.
    pub fn queue<K>(&self, window: &Window<K>, index: u32) -> Result<QueueDescriptor, LayoutError> {
        self.queue_lent(&window.lend(), index)
    }

    /// Does the second line of a descriptor's hot slot lie where slots do (abi §4.7)?
    pub fn second_line_fits(&self, d: &QueueDescriptor) -> bool {
        let end = d.req_base.checked_add(u64::from(d.hot) + 2 * SLOT_BYTES as u64);
        let lines_end = self.section(SectionKind::LINES).ok().and_then(|lines| lines.end());
        end.zip(lines_end).is_some_and(|(end, lines_end)| end <= lines_end)
    }

    /// [`Self::queue`], one copy for all kinds of windows.
    #[inline(never)]
    fn queue_lent(&self, window: &Window<Loan>, index: u32) -> Result<QueueDescriptor, LayoutError> {
        let bad = LayoutError::Queue(index);
        if index >= self.queues {
            return Err(bad);
        }
        let at = self.section(SectionKind::QUEUES)?.off + u64::from(index) * size_of::<QueueDescriptor>() as u64;
        let d: QueueDescriptor = window.read(at)?;
        if !d.is_well_formed() {
            return Err(bad);
        }
        let lines = self.section(SectionKind::LINES)?;
        let chunks = self.section(SectionKind::CHUNKS)?;
        let end_of = |first: u32, count: u32| u64::from(first) + u64::from(count) * SLOT_BYTES as u64;
        let end = end_of(d.hot, 1).max(end_of(d.ring, d.ring_len)).max(end_of(d.tickets, d.ticket_slots));
        // What the host polls is checked as a whole with the layout.
        let base = d.req_base;
        if d.rep_base != self.split.at_host(base)
            || base < lines.off
            || base.checked_add(end).is_none_or(|end| end > lines.off + lines.len)
        {
            return Err(bad);
        }
        let need = u64::from(d.slots()) * d.chunk_pair();
        if d.chunks < chunks.off || d.chunks.checked_add(need).is_none_or(|end| end > chunks.off + chunks.len) {
            return Err(bad);
        }
        Ok(d)
    }
}

/// Cache lines of queue `q` behind the hot slots. It has one line more than it needs, and so an odd
/// number, which spreads the rings over the cache: no two streams' rings start at the same cache
/// set. With an even stride a cold stream's first call took twice as long.
fn ring_stride(plan: &Plan) -> u64 {
    let lines = u64::from(plan.ring) + u64::from(plan.tickets);
    (lines | 1) * SLOT_BYTES as u64
}

fn lines_bytes(plan: &Plan) -> u64 {
    let hot = (u64::from(plan.pairs()) + 1) * HOT_STRIDE;
    let control = u64::from(CONTROL_RING) * SLOT_BYTES as u64;
    (hot + control).saturating_add(u64::from(plan.pairs()).saturating_mul(ring_stride(plan)))
}

fn chunks_before(plan: &Plan, q: u32) -> u64 {
    let pair = u64::from(plan.chunk) * 2;
    let control = u64::from(CONTROL_RING + 1) * pair;
    match q {
        0 => 0,
        q => {
            let slots = 1 + u64::from(plan.ring) + u64::from(plan.tickets);
            control.saturating_add(u64::from(q - 1).saturating_mul(slots * pair))
        }
    }
}

/// Descriptor `q` of `plan`, slots at `lines`, chunks at `chunks`.
fn describe(plan: &Plan, q: u32, lines: u64, chunks: u64, split: Split) -> QueueDescriptor {
    let hot_area = (u64::from(plan.pairs()) + 1) * HOT_STRIDE;
    let control = u64::from(CONTROL_RING) * SLOT_BYTES as u64;
    let (ring, ring_len, ticket_slots) = match q {
        0 => (hot_area, CONTROL_RING, 0),
        q => (hot_area + control + u64::from(q - 1) * ring_stride(plan), plan.ring, plan.tickets),
    };
    QueueDescriptor {
        req_base: lines,
        rep_base: split.at_host(lines),
        chunks: chunks + chunks_before(plan, q),
        hot: (u64::from(q) * HOT_STRIDE) as u32,
        ring: ring as u32,
        ring_len,
        tickets: (ring + u64::from(ring_len) * SLOT_BYTES as u64) as u32,
        ticket_slots,
        req_chunk: plan.chunk,
        rep_chunk: plan.chunk,
        depth: 0,
        poller: 0,
        reserved: 0,
    }
}
