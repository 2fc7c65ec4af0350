//! Section TASKS: the queue pairs in which a device calls its host, and the table of what it can call
//! there (abi §12). The roles of abi §4 and §5 are swapped in them: the device requests, the host
//! responds.
//!
//! Queue 0 is for messages without a result, of all handlers; queue `i + 1` is that of the task in
//! place `i`. All have the same form, and their slots and chunks are in the section.

use super::{Layout, LayoutError, Plan};
use crate::queue::QueueDescriptor;
use crate::section::{Section, SectionKind};
use crate::slot::SLOT_BYTES;
use crate::split::Split;
use crate::window::{Loan, Window};
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Places for tasks at most.
pub const MAX_TASKS: u32 = 64;
/// Ring slots of a host queue at most: a device has a bit for each.
pub const MAX_HOST_RING: u32 = 64;
/// Those that a host plans.
pub const HOST_RING: u32 = 8;
const LINE: u64 = SLOT_BYTES as u64;

/// Start of the section. Offsets are multiples of 64, from the start of the section.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct TasksHeader {
    /// Places for tasks. There is one host queue more.
    pub tasks: u32,
    /// Ring slots of a host queue; it has a hot slot before them, and nothing else.
    pub ring: u32,
    /// Bytes of a chunk; each slot has one for its request and one for its reply.
    pub chunk: u32,
    /// Offset of the task lines, 64 bytes each.
    pub lines: u32,
    /// Offset of the wait words of the queues, 64 bytes each.
    pub waits: u32,
    /// Offset of the slots, queue by queue.
    pub slots: u32,
    /// Offset of the chunks, in the same order.
    pub chunks: u32,
    /// Offset of the host's handler table, in the form of [`crate::table`].
    pub table: u32,
    /// Bytes of the table.
    pub table_len: u32,
    /// Zero.
    pub reserved: [u32; 7],
}
const _: () = assert!(size_of::<TasksHeader>() == 64 && offset_of!(TasksHeader, table_len) == 32);

/// The section, planned by a host or checked by a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TasksLayout {
    /// Where it starts in the window.
    off: u64,
    header: TasksHeader,
    split: Split,
}

impl TasksLayout {
    /// Copies the header out of a window and checks that what it names lies in the section.
    pub fn read<K>(layout: &Layout, window: &Window<K>) -> Result<Self, LayoutError> {
        Self::read_lent(layout, &window.lend())
    }

    // One copy for all kinds of windows.
    #[inline(never)]
    fn read_lent(layout: &Layout, window: &Window<Loan>) -> Result<Self, LayoutError> {
        let section = layout.section(SectionKind::TASKS)?;
        let header: TasksHeader = window.read(section.off)?;
        let TasksHeader { tasks, ring, chunk, .. } = header;
        let queues = u64::from(tasks) + 1;
        // Counts are compared below: until then they are what a peer says.
        let slots = queues.wrapping_mul(u64::from(ring) + 1);
        let parts = [
            (header.lines, u64::from(tasks) * LINE),
            (header.waits, queues * LINE),
            (header.slots, slots.wrapping_mul(LINE)),
            (header.chunks, slots.wrapping_mul(u64::from(chunk) * 2)),
            (header.table, header.table_len.into()),
        ];
        let is_sound = tasks <= MAX_TASKS
            && ring <= MAX_HOST_RING
            && ring.is_power_of_two()
            && chunk <= QueueDescriptor::MAX_CHUNK
            && chunk.is_multiple_of(SLOT_BYTES as u32)
            && parts
                .iter()
                .all(|(off, len)| u64::from(*off) + len <= section.len && off.is_multiple_of(SLOT_BYTES as u32));
        is_sound
            .then_some(Self { off: section.off, header, split: layout.split() })
            .ok_or(LayoutError::Section(SectionKind::TASKS))
    }

    /// What [`Layout::write`] writes.
    fn planned(section: &Section, plan: &Plan, split: Split) -> Self {
        let queues = plan.tasks + 1;
        let slots = queues * (1 + HOST_RING);
        let line = SLOT_BYTES as u32;
        let mut end = size_of::<TasksHeader>() as u32;
        let mut place = |bytes: u32| {
            end += bytes;
            end - bytes
        };
        let header = TasksHeader {
            tasks: plan.tasks,
            ring: HOST_RING,
            chunk: plan.host_chunk,
            lines: place(plan.tasks * line),
            waits: place(queues * line),
            slots: place(slots * line),
            chunks: place(slots * plan.host_chunk * 2),
            table: place(0),
            table_len: 0,
            reserved: [0; 7],
        };
        let table_len = (section.len - u64::from(header.table)) as u32;
        Self { off: section.off, header: TasksHeader { table_len, ..header }, split }
    }

    /// Places for tasks.
    pub fn tasks(&self) -> u32 {
        self.header.tasks
    }

    /// Host queues.
    pub fn queues(&self) -> u32 {
        self.header.tasks + 1
    }

    /// Bytes of a chunk.
    pub fn chunk(&self) -> u32 {
        self.header.chunk
    }

    /// Where the line of the task in a place below [`Self::tasks`] is in the window.
    pub fn line(&self, place: u32) -> u64 {
        self.off + u64::from(self.header.lines) + u64::from(place) * LINE
    }

    /// Where the wait word of a queue is in the window: odd while the host wants to be notified of a
    /// message in it.
    pub fn wait_word(&self, queue: u32) -> u64 {
        self.off + u64::from(self.header.waits) + u64::from(queue) * LINE
    }

    /// The host's handler table: its first byte in the window, its bytes.
    pub fn table(&self) -> (u64, u64) {
        (self.off + u64::from(self.header.table), self.header.table_len.into())
    }

    /// A queue below [`Self::queues`], in the form of the other queue pairs. The host polls its requests.
    pub fn queue(&self, queue: u32) -> QueueDescriptor {
        let TasksHeader { ring, chunk, slots, chunks, .. } = self.header;
        let before = u64::from(queue) * (u64::from(ring) + 1);
        let base = self.off + u64::from(slots) + before * LINE;
        QueueDescriptor {
            req_base: self.split.at_host(base),
            rep_base: base,
            chunks: self.split.at_host(self.off + u64::from(chunks) + before * u64::from(chunk) * 2),
            hot: 0,
            ring: SLOT_BYTES as u32,
            ring_len: ring,
            tickets: SLOT_BYTES as u32 * (ring + 1),
            ticket_slots: 0,
            req_chunk: chunk,
            rep_chunk: chunk,
            depth: 0,
            poller: 0,
            reserved: 0,
        }
    }
}

impl Layout {
    /// The section TASKS as [`Self::write`] writes it: what the host goes by, since a peer may write
    /// to the window.
    pub fn planned_tasks(&self, plan: &Plan) -> Result<TasksLayout, LayoutError> {
        Ok(TasksLayout::planned(&self.section(SectionKind::TASKS)?, plan, self.split()))
    }

    /// Writes the header and the wait words of a plan with tasks.
    pub(crate) fn write_tasks(&self, plan: &Plan, window: &Window<Loan>) -> Result<(), LayoutError> {
        let tasks = self.planned_tasks(plan)?;
        window.write(tasks.off, &tasks.header)?;
        for queue in 0..tasks.queues() {
            // Odd: no thread polls the queue yet.
            window.word(tasks.wait_word(queue))?.store(1);
        }
        Ok(())
    }
}

/// Bytes of the section.
pub(crate) fn section_bytes(plan: &Plan) -> u64 {
    if plan.tasks == 0 {
        return 0;
    }
    let queues = u64::from(plan.tasks) + 1;
    let slots = queues * (1 + u64::from(HOST_RING));
    (1 + u64::from(plan.tasks) + queues + slots) * LINE + slots * u64::from(plan.host_chunk) * 2 + plan.host_table
}

/// Does the protocol allow these sizes?
pub(crate) fn is_well_formed(plan: &Plan) -> bool {
    plan.tasks <= MAX_TASKS
        && plan.host_chunk.is_multiple_of(SLOT_BYTES as u32)
        && plan.host_chunk <= QueueDescriptor::MAX_CHUNK
        && plan.host_table <= 1 << 30
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use zerocopy::FromZeros;

    const PLAN: Plan = Plan { streams: 2, ring: 4, tickets: 2, chunk: 64, tasks: 3, host_chunk: 128, ..Plan::NO_TASKS };

    fn laid_out(plan: &Plan) -> (Window<crate::window::Private>, Layout) {
        let layout = Layout::plan(plan).expect("allowed");
        let window = Window::private(layout.window_len());
        layout.write(plan, &window).expect("it fits");
        (window, layout)
    }

    #[test]
    fn a_device_reads_what_the_host_planned() {
        for (tasks, host_chunk) in [(1, 0), (3, 128), (MAX_TASKS, 16384)] {
            let plan = Plan { tasks, host_chunk, ..PLAN };
            let (window, layout) = laid_out(&plan);
            let read = TasksLayout::read(&layout, &window).expect("sound");
            assert_eq!((Ok(read), read.tasks(), read.queues()), (layout.planned_tasks(&plan), tasks, tasks + 1));
            let section = layout.section(SectionKind::TASKS).expect("planned");
            let mut ranges = alloc::vec![(section.off, section.off + 64 + u64::from(tasks) * 64)];
            for queue in 0..read.queues() {
                let d = read.queue(queue);
                assert!(d.is_well_formed(), "{d:?}");
                assert_eq!((d.ring_len, d.req_chunk), (HOST_RING, host_chunk));
                let word = read.wait_word(queue);
                assert_eq!(window.word(word).expect("in the window").load(), 1, "no thread polls the queue");
                let at = d.req_base + u64::from(d.hot);
                ranges.push((word, word + 64));
                ranges.push((at, at + u64::from(d.slots()) * LINE));
                ranges.push((d.chunks, d.chunks + u64::from(d.slots()) * d.chunk_pair()));
            }
            let (table, len) = read.table();
            ranges.push((table, table + len));
            assert!(len >= plan.host_table && table + len == section.off + section.len);
            ranges.sort_unstable();
            assert!(ranges.windows(2).all(|two| two[0].1 <= two[1].0), "{ranges:?}");
            assert!(ranges.iter().all(|(from, to)| section.off <= *from && *to <= section.off + section.len));
        }
    }

    #[test]
    fn a_header_that_leaves_its_section_is_refused() {
        let (window, layout) = laid_out(&PLAN);
        let section = layout.section(SectionKind::TASKS).expect("planned");
        let refused = Err(LayoutError::Section(SectionKind::TASKS));
        let good: TasksHeader = window.read(section.off).expect("there");
        let end = section.len as u32;
        let bad: [fn(&mut TasksHeader, u32); 20] = [
            |h, _| h.tasks = MAX_TASKS + 1,
            |h, _| h.tasks = u32::MAX,
            |h, _| h.tasks = 40,
            |h, _| h.ring = 0,
            |h, _| h.ring = 3,
            |h, _| h.ring = 64,
            |h, _| h.ring = 128,
            |h, _| h.chunk = 1,
            |h, _| h.chunk = QueueDescriptor::MAX_CHUNK,
            |h, _| h.chunk = u32::MAX - 63,
            |h, _| (h.tasks, h.ring, h.chunk) = (u32::MAX, u32::MAX, u32::MAX),
            |h, _| h.lines += 1,
            |h, end| h.lines = end,
            |h, end| h.slots = end - 64,
            |h, _| h.slots = u32::MAX - 63,
            |h, end| h.chunks = end - 128,
            |h, end| h.waits = end - 3 * 64,
            |h, _| h.waits += 4,
            |h, end| h.table = end + 64,
            |h, _| h.table_len = u32::MAX,
        ];
        for (i, change) in bad.into_iter().enumerate() {
            let mut header = good;
            change(&mut header, end);
            window.write(section.off, &header).expect("there");
            assert_eq!(TasksLayout::read(&layout, &window), refused, "{i}: {header:?}");
        }
        window.write(section.off, &TasksHeader { table_len: 0, ..good }).expect("there");
        assert!(TasksLayout::read(&layout, &window).is_ok());
        let other = Layout::plan(&Plan { tasks: 0, ..PLAN }).expect("allowed");
        assert_eq!(TasksLayout::read(&other, &window), refused);
        window.write(section.off, &TasksHeader::new_zeroed()).expect("there");
        assert_eq!(TasksLayout::read(&layout, &window), refused);
    }
}
