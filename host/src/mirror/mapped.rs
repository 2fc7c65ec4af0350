//! A mirror over memory that this program maps: both copies of the window, and the heap.

use super::{MirrorLink, Served};
use crate::Error;
use crate::link::{FarHeap, Heap, Link, Protocol};
use hamr_comm::abi::window::{OutOfWindow, Shared, Window, Words};
use hamr_comm::mirror::{DeviceSide, DrivenCopy, DrivenMemory, Lost, Promises};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The heap of a window of this program.
struct Mapped(Window<Shared>);

impl FarHeap for Mapped {
    fn read(&self, off: u64, to: &mut [u8]) -> Result<(), String> {
        self.0.read_bytes(off, to).map_err(|e| e.to_string())
    }
    fn write(&self, off: u64, from: &[u8]) -> Result<(), String> {
        self.0.write_bytes(off, from).map_err(|e| e.to_string())
    }
}

/// The heap of a device of this machine, whose link has it.
struct LinkHeap(Arc<dyn Link>);

impl LinkHeap {
    fn range(&self, off: u64, len: usize) -> Result<Heap, String> {
        self.0.heap(off, len as u64).map_err(|e| e.to_string())
    }
}

impl FarHeap for LinkHeap {
    fn read(&self, off: u64, to: &mut [u8]) -> Result<(), String> {
        self.range(off, to.len())?.read_bytes(0, to).map_err(|e| e.to_string())
    }
    fn write(&self, off: u64, from: &[u8]) -> Result<(), String> {
        self.range(off, from.len())?.write_bytes(0, from).map_err(|e| e.to_string())
    }
}

/// The window of a device of this machine, by reads and writes alone.
pub struct DrivenWindow(Window<Shared>);

impl DrivenWindow {
    fn words(&self, off: u64, len: usize) -> Option<Words<'_>> {
        (len <= MOST_WORDS && len.is_multiple_of(4)).then(|| self.0.words(off, len as u64 / 4).ok())?
    }
}

/// Bytes of the longest access by words.
const MOST_WORDS: usize = 1 << 14;

impl DrivenMemory for DrivenWindow {
    const BLOCKS: bool = false;

    fn promises(&self) -> Promises {
        Promises { write_ascends: true, line_is_whole: true }
    }

    /// The last word first: what is published is read behind its word.
    fn read(&mut self, off: u64, to: &mut [u8]) -> Result<(), Lost> {
        let Some(words) = self.words(off, to.len()) else { return Ok(self.0.read_bytes(off, to)?) };
        for (index, bytes) in to.chunks_exact_mut(4).enumerate().rev() {
            bytes.copy_from_slice(&words.get(index).map_or(0, |word| word.observe()).to_le_bytes());
        }
        Ok(())
    }

    fn write(&mut self, off: u64, from: &[u8]) -> Result<(), Lost> {
        let Some(words) = self.words(off, from.len()) else { return Ok(self.0.write_bytes(off, from)?) };
        for (index, bytes) in from.as_chunks::<4>().0.iter().enumerate() {
            if let Some(word) = words.get(index) {
                word.publish(u32::from_le_bytes(*bytes));
            }
        }
        Ok(())
    }
}

impl MirrorLink<Served> {
    /// To a device whose link this program has, and nobody else. Whoever carries starts it again, and runs it where it lives in its
    /// host's waits. Once it is lost, it is not found again.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn over_memory(kind: &str, device: Arc<dyn Link>, window_len: u64, limit: Duration) -> Result<Self, Error> {
        let fail = |e: OutOfWindow| Error::Launch { device: kind.into(), why: e.to_string() };
        let window = device.window();
        let heap = Mapped(window.part(0, window.len()).map_err(fail)?);
        let served = Served::new(device, limit).map_err(fail)?;
        Self::here((kind, Protocol::Message), served, window_len, Arc::new(heap), limit)
    }
}

impl<M: DrivenMemory + 'static> MirrorLink<Served<DrivenCopy<M>>> {
    /// To a device of this machine by reads and writes of its window and its heap, as `by` makes of them. As [`Self::over_memory`]
    /// otherwise.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn driven(
        device: Arc<dyn Link>,
        by: impl FnOnce(DrivenWindow, Arc<dyn FarHeap>) -> (M, Arc<dyn FarHeap>),
        window_len: u64,
        limit: Duration,
    ) -> Result<Self, Error> {
        let kind = device.kind().to_owned();
        let fail = |why| Error::Launch { device: kind.clone(), why };
        let window = device.window();
        let window = window.part(0, window.len()).map_err(|e| fail(e.to_string()))?;
        let (memory, heap) = by(DrivenWindow(window), Arc::new(LinkHeap(device.clone())));
        let served = Served::driven(device, memory, window_len, limit);
        let served = served.map_err(|Lost(why)| fail(why))?;
        Self::here((&kind, Protocol::HostDriven), served, window_len, heap, limit)
    }
}

impl<C: DeviceSide + Send + 'static> MirrorLink<Served<C>> {
    /// To a device that is found once.
    fn here(
        (kind, protocol): (&str, Protocol),
        served: Served<C>,
        window_len: u64,
        heap: Arc<dyn FarHeap>,
        limit: Duration,
    ) -> Result<Self, Error> {
        let served = Mutex::new(Some(served));
        let far = move |_: Duration| {
            let served = served.lock().unwrap_or_else(PoisonError::into_inner).take();
            served.ok_or_else(|| String::from("it is gone for good"))
        };
        Self::start((kind, "a thread", protocol), window_len, far, heap, limit)
    }
}
