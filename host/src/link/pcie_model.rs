//! What the operations of a link would cost over another bus: each is done, and adds to a virtual clock. No measured time enters.

use super::FarHeap;
use hamr_comm::abi::slot::SLOT_BYTES;
use hamr_comm::mirror::{DrivenMemory, Lost, Promises};
use std::sync::{Arc, Mutex, PoisonError};

const GIB: f64 = (1u64 << 30) as f64;
const WORD: u64 = 8;

/// Copies of ranges.
#[derive(Clone, Copy, Debug)]
pub struct Copying {
    /// Microseconds of one of no bytes.
    pub start_us: f64,
    /// GiB per second of a long one.
    pub peak: f64,
}

impl Copying {
    /// Microseconds of one of `bytes`.
    pub fn us(&self, bytes: u64) -> f64 {
        self.start_us + bytes as f64 / (self.peak * GIB) * 1e6
    }
}

/// What each operation on memory behind a bus costs.
#[derive(Clone, Copy, Debug)]
pub struct PcieCosts {
    /// Microseconds of a load of a word: the bus's round trip.
    pub load_us: f64,
    /// Microseconds of stores of words one behind the other: of the first, of each that follows up to `burst` bytes, and beyond.
    pub store_us: [f64; 3],
    /// Bytes.
    pub burst: u64,
    /// Writes and reads by the host.
    pub write: Copying,
    /// As `write`.
    pub read: Copying,
    /// Into the device's memory by its own engine.
    pub pull: Copying,
    /// Out of it.
    pub push: Copying,
}

impl PcieCosts {
    /// NEC's SX-Aurora TSUBASA, from the figures that are published of it (`docs/papers.md` has each input with its source).
    pub const VE: Self = {
        let (write, read) = (56.0, 97.0);
        let (pull, push) = (write / 24.0, read / 35.0);
        let (first, burst) = (0.11 * push, 0.84 * push);
        let sustained = WORD as f64 / (0.06 * GIB) * 1e6;
        Self {
            load_us: 1.2,
            store_us: [first, (burst - first) / 31.0, sustained],
            burst: 256,
            write: Copying { start_us: write, peak: 9.9 },
            read: Copying { start_us: read, peak: 10.4 },
            pull: Copying { start_us: pull, peak: 10.6 },
            push: Copying { start_us: push, peak: 11.1 },
        }
    };

    /// Microseconds of loads of `bytes`, word by word.
    pub fn loads_us(&self, bytes: u64) -> f64 {
        self.load_us * bytes.div_ceil(WORD).max(1) as f64
    }

    /// Microseconds of stores of `bytes`, word by word.
    pub fn stores_us(&self, bytes: u64) -> f64 {
        let [first, following, sustained] = self.store_us;
        let words = bytes.div_ceil(WORD).max(1);
        let in_burst = words.min(self.burst / WORD);
        first + following * (in_burst - 1) as f64 + sustained * (words - in_burst) as f64
    }
}

/// What was done since it was asked last.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Operations {
    /// Writes.
    pub writes: u64,
    /// Reads that found something.
    pub reads: u64,
    /// Looks that found what was known: how many there are depends on when something comes, and they take no time
    /// here.
    pub vain: u64,
    /// Microseconds of the virtual clock.
    pub us: f64,
}

#[derive(Default)]
struct Clock {
    since: Operations,
    /// What the window had when it was written or read last.
    known: Vec<u8>,
}

/// The virtual clock of the parts of one device.
#[derive(Clone)]
pub struct PcieClock {
    costs: PcieCosts,
    clock: Arc<Mutex<Clock>>,
}

impl std::fmt::Debug for PcieClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PcieClock").field("costs", &self.costs).finish_non_exhaustive()
    }
}

impl PcieClock {
    /// It shows zero.
    pub fn new(costs: PcieCosts) -> Self {
        Self { costs, clock: Arc::default() }
    }

    /// What was done since the last time.
    pub fn take(&self) -> Operations {
        std::mem::take(&mut self.with().since)
    }

    fn with(&self) -> std::sync::MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn written(&self, bytes: usize) {
        let since = &mut self.with().since;
        since.writes += 1;
        since.us += self.costs.write.us(bytes as u64);
    }

    fn read(&self, bytes: usize) {
        let since = &mut self.with().since;
        since.reads += 1;
        since.us += self.costs.read.us(bytes as u64);
    }

    /// The window has these bytes now. Is that what was known?
    fn knew(&self, off: u64, bytes: &[u8]) -> bool {
        let mut clock = self.with();
        let end = off as usize + bytes.len();
        if clock.known.len() < end {
            clock.known.resize(end, 0);
        }
        clock.known.get_mut(off as usize..end).is_some_and(|known| {
            let is_known = known == bytes;
            known.copy_from_slice(bytes);
            is_known
        })
    }

    /// A read of the window; of a line at most it is a look, which may find what was known.
    fn looked(&self, off: u64, bytes: &[u8]) {
        let is_known = self.knew(off, bytes);
        match is_known && bytes.len() <= SLOT_BYTES {
            true => self.with().since.vain += 1,
            false => self.read(bytes.len()),
        }
    }
}

/// A device's memory, or its heap, behind a bus with such costs.
#[derive(Debug)]
pub struct PcieModel<M> {
    of: M,
    clock: PcieClock,
}

impl<M> PcieModel<M> {
    /// Operations on `of` count on `clock`.
    pub fn new(of: M, clock: &PcieClock) -> Self {
        Self { of, clock: clock.clone() }
    }
}

impl<M: DrivenMemory> DrivenMemory for PcieModel<M> {
    const BLOCKS: bool = M::BLOCKS;

    fn promises(&self) -> Promises {
        self.of.promises()
    }
    fn read(&mut self, off: u64, to: &mut [u8]) -> Result<(), Lost> {
        self.of.read(off, to)?;
        self.clock.looked(off, to);
        Ok(())
    }
    fn write(&mut self, off: u64, from: &[u8]) -> Result<(), Lost> {
        self.clock.written(from.len());
        self.clock.knew(off, from);
        self.of.write(off, from)
    }
}

impl FarHeap for PcieModel<Arc<dyn FarHeap>> {
    fn read(&self, off: u64, to: &mut [u8]) -> Result<(), String> {
        self.clock.read(to.len());
        self.of.read(off, to)
    }
    fn write(&self, off: u64, from: &[u8]) -> Result<(), String> {
        self.clock.written(from.len());
        self.of.write(off, from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_the_figures_that_they_come_from() {
        let ve = PcieCosts::VE;
        let saved = |bytes| 1.0 - ve.stores_us(bytes) / ve.push.start_us;
        assert!((saved(8) - 0.89).abs() < 1e-9 && (saved(256) - 0.16).abs() < 1e-9, "{} {}", saved(8), saved(256));
        let many = 1u64 << 24;
        let rate = many as f64 / GIB / (ve.stores_us(many) / 1e6);
        assert!((rate - 0.06).abs() < 1e-4, "{rate}");
        assert!((ve.write.us(0) / ve.pull.us(0) - 24.0).abs() < 1e-9 && ve.loads_us(16) == 2.4);
    }

    #[test]
    fn a_look_that_finds_nothing_new_takes_no_time() {
        let clock = PcieClock::new(PcieCosts::VE);
        clock.looked(0, &[0]);
        for found in [1, 1, 2] {
            clock.looked(0, &[found]);
        }
        clock.knew(0, &[3]);
        clock.looked(0, &[3]);
        clock.looked(64, &[0; 65]);
        let done = clock.take();
        assert_eq!((done.reads, done.vain, done.writes), (3, 3, 0));
        assert_eq!(clock.take(), Operations::default());
    }
}
