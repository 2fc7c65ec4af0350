//! The one logger of an image, behind defmt's macros, over the [`Platform`] that the image runs on.

#![expect(unsafe_code)]
// UNSAFETY: ids of messages are addresses of symbols (contract "logger").
//
// Contract "logger". `defmt::Logger` demands one frame at a time per context, which defmt's macros
// keep, and functions that are sound whatever interrupts them: on bare metal the lock is tried once,
// in a process it is waited for. `recover` opens an abandoned lock: its holder left bytes half-way,
// and numbers that are checked against lengths. Linker symbols are compared by address, never read.

use super::{FrameBuffer, RingWriter};
use core::marker::PhantomData;
use hamr_comm::abi::rings::LogLevel;
use hamr_comm::abi::sync::Order;
use hamr_comm::abi::window::Window;

/// What a logger needs of the platform it runs on.
pub(crate) trait Platform {
    /// What keeps a window mapped.
    type Keep: Clone + 'static;
    /// The fences that the window's memory needs.
    type Order: Order;

    /// The number of the calling thread or processor, never 0.
    fn writer() -> usize;
    /// Runs `what` alone, or not at all where it would have to wait for what it interrupted.
    fn with(what: impl FnOnce(&mut LoggerState<Self::Keep, Self::Order>));
    /// Device time.
    fn now_us() -> u64;
}

/// The frame buffer, and the writer whose frame is open in it; 0: none.
pub(crate) struct LoggerState<K, F> {
    owner: usize,
    frame_buffer: FrameBuffer<K, F>,
}

impl<K, F: Order> LoggerState<K, F> {
    pub(crate) const fn new() -> Self {
        Self { owner: 0, frame_buffer: FrameBuffer::new() }
    }

    /// The writer was abandoned in the middle of a function ([`FrameBuffer::begin_epoch`]).
    #[cfg(hamr_machine)]
    pub(crate) fn begin_epoch(&mut self) {
        self.owner = 0;
        self.frame_buffer.begin_epoch();
    }
}

/// What defmt's macros call. Every function has the state alone and leaves the frame buffer
/// consistent; a frame of one writer ignores the pieces of another, so interleaved calls lose lines
/// and corrupt none.
pub(crate) struct Logger<P>(PhantomData<P>);

impl<P: Platform> Logger<P> {
    pub(crate) fn begin() {
        P::with(|state| {
            let me = P::writer();
            if state.owner == 0 || state.owner == me {
                state.owner = me;
                state.frame_buffer.begin();
            }
        });
    }

    pub(crate) fn end() {
        P::with(|state| {
            if state.owner == P::writer() {
                state.owner = 0;
                state.frame_buffer.end();
            }
        });
    }

    pub(crate) fn write(bytes: &[u8]) {
        P::with(|state| {
            if state.owner == P::writer() {
                state.frame_buffer.write(bytes, first_id);
            }
        });
    }

    /// Where frames go from now on: the LOG section of a host that was accepted, or this image's
    /// own memory.
    pub(crate) fn attach(section: Option<Window<P::Keep>>) {
        P::with(|state| state.frame_buffer.attach(section.and_then(RingWriter::new)));
    }
}

/// Makes [`Logger`] of a platform the one of the image. defmt wants a type without parameters, and
/// one per program.
macro_rules! image_logger {
    ($platform:ty) => {
        #[defmt::global_logger]
        struct ImageLogger;

        // SAFETY: acquire, write and release exclude each other (`Logger`), and none of them logs.
        unsafe impl defmt::Logger for ImageLogger {
            fn acquire() {
                $crate::log::Logger::<$platform>::begin();
            }
            unsafe fn flush() {
                // This logger never waits for the reader of the ring, which may be slow.
            }
            unsafe fn release() {
                $crate::log::Logger::<$platform>::end();
            }
            unsafe fn write(bytes: &[u8]) {
                $crate::log::Logger::<$platform>::write(bytes);
            }
        }

        defmt::timestamp!("{=u64:us}", <$platform as $crate::log::Platform>::now_us());
    };
}
pub(crate) use image_logger;

// Where each level begins in `.defmt`; the linker script orders it by severity.
unsafe extern "C" {
    static __hamr_log_trace: [u8; 0];
    static __hamr_log_debug: [u8; 0];
    static __hamr_log_info: [u8; 0];
    static __hamr_log_warn: [u8; 0];
    static __hamr_log_error: [u8; 0];
}

/// The smallest id of a message of this level.
fn first_id(level: LogLevel) -> u16 {
    let first = match level {
        LogLevel::ERROR => &raw const __hamr_log_error,
        LogLevel::WARN => &raw const __hamr_log_warn,
        LogLevel::INFO => &raw const __hamr_log_info,
        LogLevel::DEBUG => &raw const __hamr_log_debug,
        _ => &raw const __hamr_log_trace,
    };
    // As defmt makes ids: an address modulo 2^16.
    first.addr() as u16
}
