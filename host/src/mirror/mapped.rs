//! A mirror over memory that this program maps: both copies of the window, and the heap.

use super::{MirrorLink, Served};
use crate::Error;
use crate::link::{FarHeap, Link};
use hamr_comm::abi::window::{OutOfWindow, Shared, Window};
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
        let served = Mutex::new(Some(Served::new(device, limit).map_err(fail)?));
        let far = move |_: Duration| {
            let served = served.lock().unwrap_or_else(PoisonError::into_inner).take();
            served.ok_or_else(|| String::from("it is gone for good"))
        };
        Self::start((kind, "a thread"), window_len, far, Arc::new(heap), limit)
    }
}
