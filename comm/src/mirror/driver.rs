//! The device's end of a window in host memory, which the device drives (docs/model.md, "Device-driven"): it polls words by loads, takes
//! messages by a DMA engine, and replies by stores.
//!
//! ```text
//! host memory                                     the device's own
//! window ══ HostPort ══ PortCopy ── Mirror ── DeviceCopy ── window with the heap ── Responder
//! ```
//! The host counts BELL up behind what it publishes, once for each odd value of DEVICE_WAIT. The device looks at the slot in which the
//! last request came and at BELL, so a round without work is two loads, whatever the number of streams. When BELL has changed it stores
//! a fresh value in DEVICE_WAIT, and then looks everywhere: what it misses counts BELL again. An empty call is one load that finds its
//! pair, and one store.

use super::parts::{load, publish};
use super::port::{HostPort, both, halves};
use super::port_copy::{PIECE, PortCopy};
use super::{DeviceCopy, Lost, Mirror, NotifyOwner};
use alloc::vec::Vec;
use core::ops::Range;
use hamr_shared_abi::layout::Layout;
use hamr_shared_abi::preamble::{MAGIC, Refusal, word};
use hamr_shared_abi::rings::RingHeader;
use hamr_shared_abi::section::{Section, SectionKind};
use hamr_shared_abi::staging::Staging;
use hamr_shared_abi::task_line::TaskLine;
use hamr_shared_abi::tasks::TasksLayout;
use hamr_shared_abi::window::{OutOfWindow, Window};

/// A device's end of a window that it drives: carries between host memory and the window that it serves.
pub struct Driver<P, K> {
    mirror: Mirror<PortCopy<P>, DeviceCopy<K>>,
    window: Window<K>,
    /// The number of the request in STAGING that was done last.
    done: u32,
    /// What the host was shown of LOG, and of ALIVE.
    shown: u32,
    alive: u32,
    bytes: Vec<u8>,
}

impl<P: HostPort, K: Clone> Driver<P, K> {
    /// Between host memory behind `port` and the device's window, which is as long. `notify` notifies the host; `wake` the device, of
    /// what came while it was about to sleep.
    ///
    /// # Errors
    /// None.
    pub fn new(port: P, window: Window<K>, notify: NotifyOwner, wake: NotifyOwner) -> Result<Self, Lost> {
        // What an earlier device has left there is over.
        publish(&window, 0, 0)?;
        let near = DeviceCopy::new(window.part(0, window.len())?).with_doorbell(wake, 0);
        let mirror = Mirror::new(PortCopy::new(port, window.len(), notify)?, near);
        Ok(Self { mirror, window, done: 0, shown: 0, alive: 0, bytes: Vec::new() })
    }

    /// Carries what is published, at most one request, and does what STAGING asks for. True: something was.
    pub fn step(&mut self) -> bool {
        let moved = match self.mirror.step() {
            Ok(moved) => moved,
            Err(_) => {
                let is = |off, value| load(&self.window, off) == Ok(value);
                let host = self.mirror.sides().0;
                match host.open {
                    // The device is in it: no other offer before it has left.
                    Some(epoch) if is(0, MAGIC) && is(word::EPOCH, epoch) => host.give_up().is_ok(),
                    _ => {
                        let epoch = host.open.take().unwrap_or(host.seen);
                        host.refuse(epoch, Refusal::SECTION, 0, 0);
                        true
                    }
                }
            }
        };
        let host = self.mirror.sides().0;
        let (has_looked, has_told) = (core::mem::take(&mut host.has_looked), core::mem::take(&mut host.has_told));
        if has_told {
            self.show_log(true);
        }
        has_looked && self.serve_staging() || moved
    }

    /// The next step looks everywhere: the device may run a handler for long.
    pub fn look_now(&mut self) {
        self.mirror.sides().0.look_now();
    }

    /// The device is about to sleep until it is notified. False: it is not to.
    pub fn prepare_sleep(&mut self) -> bool {
        !self.step() && self.mirror.sides().0.prepare_sleep().unwrap_or(false)
    }

    /// The sleep is over.
    pub fn end_sleep(&mut self) {
        self.mirror.sides().0.end_sleep();
    }

    /// Shows the host that the device is alive, and how far it has come, where ALIVE has changed.
    pub fn beat(&mut self) {
        let alive = load(&self.window, word::DEVICE_ALIVE).unwrap_or(0);
        if core::mem::replace(&mut self.alive, alive) == alive {
            return;
        }
        let progress = load(&self.window, word::DEVICE_PROGRESS).unwrap_or(0);
        self.mirror.sides().0.port().store(word::DEVICE_ALIVE, both(alive, progress));
        self.show_log(false);
    }

    /// Brings new lines to the host; those of another epoch `in_any_case`.
    fn show_log(&mut self, in_any_case: bool) {
        let Some(layout) = self.mirror.sides().0.layout else { return };
        let Ok(log) = layout.section(SectionKind::LOG) else { return };
        let written = load(&self.window, log.off + RingHeader::WRITTEN).unwrap_or(0);
        if core::mem::replace(&mut self.shown, written) != written || in_any_case {
            self.show(&layout, SectionKind::LOG);
        }
    }

    /// A request in STAGING, where there is a new one.
    fn serve_staging(&mut self) -> bool {
        let host = self.mirror.sides().0;
        let Some(layout) = host.layout else { return false };
        let Ok(staging) = layout.section(SectionKind::STAGING) else { return false };
        if staging.len < Staging::DATA {
            return false;
        }
        let [kind, number] = halves(host.port().load(staging.off + Staging::KIND));
        if number == self.done {
            return false;
        }
        let [_, done] = halves(host.port().load(staging.off + Staging::STATUS));
        if number == done {
            // By an image before this one.
            self.done = done;
            return false;
        }
        let [off, len] = [Staging::OFF, Staging::LEN].map(|at| host.port().load(staging.off + at));
        let status = self.copy(&layout, &staging, kind, off, len).map_or(Staging::NO_RANGE, |()| Staging::OK);
        self.done = number;
        self.mirror.sides().0.port().store(staging.off + Staging::STATUS, both(status, number));
        true
    }

    fn copy(&mut self, layout: &Layout, staging: &Section, kind: u32, off: u64, len: u64) -> Option<()> {
        let (Range { start, end }, data) = (layout.heap(), staging.off + Staging::DATA);
        if kind == Staging::SHOW {
            return self.show(layout, SectionKind(u32::try_from(off).ok()?));
        }
        if off < start || off.checked_add(len)? > end || len > staging.len - Staging::DATA {
            return None;
        }
        match kind {
            Staging::PUT => self.pieces(len, |port, window, at, bytes| {
                port.pull(data + at, bytes);
                window.write_bytes(off + at, bytes)
            }),
            Staging::GET => self.pieces(len, |port, window, at, bytes| {
                window.read_bytes(off + at, bytes)?;
                port.push(data + at, bytes);
                Ok(())
            }),
            _ => None,
        }
    }

    /// Copies `len` bytes, some at a time. A layout says what it likes, and has no memory for it made here.
    fn pieces(
        &mut self,
        len: u64,
        mut copy: impl FnMut(&mut P, &Window<K>, u64, &mut [u8]) -> Result<(), OutOfWindow>,
    ) -> Option<()> {
        let port = &mut self.mirror.sides().0.far.memory.0;
        for at in (0..len).step_by(PIECE) {
            self.bytes.resize((len - at).min(PIECE as u64) as usize, 0);
            copy(port, &self.window, at, &mut self.bytes).ok()?;
        }
        Some(())
    }

    /// Brings what the device has written into a section to the host.
    fn show(&mut self, layout: &Layout, kind: SectionKind) -> Option<()> {
        let section = layout.section(kind).ok()?;
        match kind {
            SectionKind::LOG | SectionKind::TRACE if section.len >= RingHeader::BYTES => {
                let words = [RingHeader::WRITTEN, RingHeader::DROPPED, RingHeader::FRAMES];
                // Bytes behind the words that they are there for.
                let frames = load(&self.window, section.off + words[2]).ok()?;
                let [written, dropped] = [words[0], words[1]].map(|at| load(&self.window, section.off + at));
                self.push(section.off + RingHeader::BYTES, section.len - RingHeader::BYTES)?;
                let port = self.mirror.sides().0.port();
                port.store(section.off + RingHeader::WRITTEN, both(written.ok()?, dropped.ok()?));
                // Behind that, and without the host's word beside it.
                port.load(section.off + RingHeader::WRITTEN);
                port.push(section.off + RingHeader::FRAMES, &frames.to_le_bytes());
                Some(())
            }
            SectionKind::TASKS => {
                let tasks = TasksLayout::read(layout, &self.mirror.sides().0.far.window).ok()?;
                self.push(tasks.line(0), u64::from(tasks.tasks()) * size_of::<TaskLine>() as u64)
            }
            _ => None,
        }
    }

    fn push(&mut self, off: u64, len: u64) -> Option<()> {
        self.pieces(len, |port, window, at, bytes| {
            window.read_bytes(off + at, bytes)?;
            port.push(off + at, bytes);
            Ok(())
        })
    }
}

// As there.
const _: () =
    assert!(word::DEVICE_PROGRESS == word::DEVICE_ALIVE + 4 && RingHeader::DROPPED == RingHeader::WRITTEN + 4);
