//! A device's half of every stream: finds messages, runs handlers, answers (abi §4, §5).
//!
//! The common message (short, two-way, no flags) is served here; everything else goes through `long`. One
//! call costs no lock, no allocation and no clock.

use super::{Found, Responder, SlotLine, long};
use crate::context::Context;
use crate::frame::Frame;
use crate::handler::Entry;
use crate::migrate::MAX_MESSAGE;
use crate::registry::Table;
use hamr_shared_abi::ids::{Epoch, NodeId};
use hamr_shared_abi::layout::{Layout, LayoutError};
use hamr_shared_abi::preamble::{HostState, word};
use hamr_shared_abi::section::SectionKind;
use hamr_shared_abi::slot::{INLINE_BYTES, INLINE_WORDS, RepHdr, ReqHdr};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::window::{Heap, Queue, Window};

/// Queue pairs one image serves at most, the control stream included.
pub const MAX_QUEUES: usize = 80;
/// Queued calls waiting in one image.
const MAX_JOBS: usize = 16;
/// Messages per stream and round (rule 9): one busy stream does not starve the others.
const BATCH: u32 = 16;
/// Rounds between two looks at the life-cycle words.
const LIFE_MASK: u32 = 63;

/// What one round came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Round {
    /// Nothing was there.
    Idle,
    /// So many messages were served.
    Worked(u32),
    /// The host closed this epoch or began another: stop, and go through the handshake again.
    Left,
}

/// Why a poller cannot be set up over a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetupError {
    /// A descriptor or section is not believable.
    Layout(LayoutError),
    /// More queue pairs than [`MAX_QUEUES`].
    TooManyQueues(u32),
}

impl From<LayoutError> for SetupError {
    fn from(e: LayoutError) -> Self {
        Self::Layout(e)
    }
}

/// The call that is running, for whoever has to end it after a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Current {
    pub(super) queue: usize,
    pub(super) found: Found,
    /// Answered in side line `slot - 1 - ring_len`.
    pub(super) side: bool,
    /// Index in the handler table.
    pub handler: u16,
}

pub(super) struct Port<K> {
    pub(super) responder: Responder<Queue<K>>,
    /// An ordered queued call of this stream has not run yet: the stream waits (rule 6).
    pub(super) held: bool,
}

type Ports<K> = heapless::Vec<Port<K>, MAX_QUEUES>;

/// See the module's head.
pub struct Poller<'s, K> {
    pub(super) window: Window<K>,
    pub(super) heap: Heap<K>,
    pub(super) table: Table,
    pub(super) node: NodeId,
    pub(super) frame: Frame<'s>,
    pub(super) jobs: heapless::Deque<long::Job, MAX_JOBS>,
    pub(super) current: Option<Current>,
    pub(super) serial: u32,
    pub(super) ports: Ports<K>,
    epoch: Epoch,
    rounds: u32,
    progress: u32,
}

impl<'s, K: Clone> Poller<'s, K> {
    /// Over a window whose layout was checked. `scratch` holds one long message and has [`MAX_MESSAGE`] bytes.
    pub fn new(
        mut window: Window<K>,
        layout: &Layout,
        table: Table,
        node: NodeId,
        epoch: Epoch,
        scratch: &'s mut [u8],
    ) -> Result<Self, (SetupError, Window<K>, &'s mut [u8])> {
        debug_assert!(scratch.len() >= MAX_MESSAGE);
        // The heap first: what is left of the window ends where views begin, so no line or chunk can lie under one.
        let heap = match layout.section(SectionKind::HEAP).and_then(|s| Ok(window.take_tail(s.off)?)) {
            Ok(heap) => heap,
            Err(e) => return Err((e.into(), window, scratch)),
        };
        let ports = match open_ports(&window, layout, epoch) {
            Ok(ports) => ports,
            Err(e) => {
                window.rejoin(heap);
                return Err((e, window, scratch));
            }
        };
        Ok(Self {
            window,
            heap,
            table,
            node,
            frame: Frame::new(scratch),
            jobs: heapless::Deque::new(),
            current: None,
            serial: 0,
            ports,
            epoch,
            rounds: 0,
            progress: 0,
        })
    }

    /// Gives the window back, whole, and the scratch memory.
    pub fn into_parts(self) -> (Window<K>, &'s mut [u8]) {
        let mut window = self.window;
        window.rejoin(self.heap);
        (window, self.frame.scratch)
    }

    /// The window without its heap.
    pub fn window(&self) -> &Window<K> {
        &self.window
    }

    /// The heap, for the loopback link's transfers.
    pub fn heap(&self) -> &Heap<K> {
        &self.heap
    }

    /// The epoch it serves.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Looks at every open stream once, serves at most 16 messages of each, then at most one queued call.
    #[inline]
    pub fn poll(&mut self) -> Round {
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds & LIFE_MASK == 0 && self.has_left() {
            return Round::Left;
        }
        let open = self.window.word(word::OPEN_QUEUES).map_or(0, |w| w.load()) as usize;
        let open = open.min(self.ports.len());
        let mut served = 0;
        for queue in 0..open {
            served += self.poll_queue(queue);
        }
        if !self.jobs.is_empty() {
            served += self.run_job();
        }
        if served == 0 {
            return Round::Idle;
        }
        self.step_progress();
        Round::Worked(served)
    }

    #[inline(always)]
    fn poll_queue(&mut self, queue: usize) -> u32 {
        let mut served = 0;
        let mut hot_first = true;
        while served < BATCH {
            let Some(port) = self.ports.get_mut(queue) else { break };
            if port.held {
                break;
            }
            let Some(found) = port.responder.next(hot_first) else { break };
            hot_first = found.slot != 0;
            self.serve(queue, found);
            served += 1;
        }
        served
    }

    #[inline(always)]
    fn serve(&mut self, queue: usize, found: Found) {
        let Some(port) = self.ports.get(queue) else { return };
        let line = port.responder.line(found.slot);
        let hdr = ReqHdr(line.req_hdr());
        let one_way = hdr.has(ReqHdr::ONE_WAY);
        if !ReqHdr(hdr.0 & !ReqHdr::ONE_WAY).is_plain() || hdr.len() > INLINE_BYTES {
            return self.serve_long(queue, found, hdr);
        }
        let frame = &mut self.frame;
        (frame.start, frame.end, frame.is_long) = (0, hdr.len() as u32, false);
        if !hdr.is_empty() {
            line.read_request(&mut frame.words);
        }
        let entry = match self.table.get(hdr.key().0 as usize) {
            Some(entry) if entry.has_body() => entry,
            other => return line.publish_reply(RepHdr::inline(missing(other), 0).0, found.seq),
        };
        self.serial = self.serial.wrapping_add(1);
        self.current = Some(Current { queue, found, side: false, handler: hdr.key().0 });
        let mut cx = Context::new(self.heap.lend(), self.node);
        cx.cancel = Some(line.req_hdr_word());
        cx.serial = self.serial;
        let reply = (entry.run)(&mut cx, frame);
        if reply.long != 0 || cx.saw_cancel.get() {
            let cancelled = cx.saw_cancel.get();
            let wishes = long::Wishes { one_way, ..long::Wishes::TWO_WAY };
            return self.finish(queue, found, wishes, reply, cancelled);
        }
        if one_way && reply.hdr.status() == Status::OK {
            line.publish_reply(RepHdr::inline(Status::EXECUTED, 0).0, found.seq);
        } else {
            answer_inline(line, &frame.words, reply.hdr, found.seq);
        }
        self.current = None;
    }

    /// The host began another epoch or closed this one.
    fn has_left(&self) -> bool {
        let load = |off| self.window.word(off).map_or(0, |w| w.load());
        load(word::EPOCH) != self.epoch.0 || load(word::HOST_STATE) == HostState::CLOSING.0
    }

    fn step_progress(&mut self) {
        self.progress = self.progress.wrapping_add(1);
        if let Ok(word) = self.window.word(word::DEVICE_PROGRESS) {
            word.store(self.progress);
        }
    }

    /// The call that is running, or that was running when its handler was abandoned.
    pub fn current(&self) -> Option<Current> {
        self.current
    }

    /// The running call's entry.
    pub fn current_entry(&self) -> Option<&'static Entry> {
        self.current.and_then(|c| self.table.get(c.handler.into()))
    }

    /// Ends the running call with a fault, after its handler was abandoned; later calls are served as before.
    pub fn fail_current(&mut self, status: Status, text: &str) {
        let Some(current) = self.current.take() else { return };
        let reply = self.frame.fault_text(status, text);
        if current.side {
            self.finish_job(current, long::Wishes::TWO_WAY, reply, false);
        } else {
            self.finish(current.queue, current.found, long::Wishes::TWO_WAY, reply, false);
        }
    }
}

/// The responding end of every queue pair, its answer words cleared.
fn open_ports<K: Clone>(window: &Window<K>, layout: &Layout, epoch: Epoch) -> Result<Ports<K>, SetupError> {
    let mut ports = Ports::new();
    for index in 0..layout.queues() {
        // Read again from the window, so checked again.
        let descriptor = layout.queue(window, index)?;
        let responder = Responder::new(window.queue(&descriptor).map_err(LayoutError::from)?, epoch);
        responder.clear();
        ports.push(Port { responder, held: false }).map_err(|_| SetupError::TooManyQueues(layout.queues()))?;
    }
    Ok(ports)
}

/// Why an entry cannot be run.
pub(super) fn missing(entry: Option<&'static Entry>) -> Status {
    if entry.is_some() { Status::NO_BODY } else { Status::NO_HANDLER }
}

/// Writes an inline answer and publishes it: no word, the first, or all six, since a branch per word costs more than the
/// store. What stands behind the result is left over from the request or an earlier one and means nothing.
#[inline(always)]
pub(super) fn answer_inline<L: SlotLine>(line: L, words: &[u64; INLINE_WORDS], hdr: RepHdr, seq: u32) {
    match hdr.len() {
        0 => {}
        1..=8 => line.write_reply(&words[..1]),
        _ => line.write_reply(words),
    }
    line.publish_reply(hdr.0, seq);
}
