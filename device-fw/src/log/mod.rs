//! The image's log: defmt's frames, from the first instruction on, go into the window's log ring
//! (abi §9, `docs/logs.md`).
//!
//! A frame is collected in memory of the image, then published with one store, or counted as
//! dropped: a logger never waits. Before a host has been accepted, and after it has left, frames
//! stay here; the next host finds them first. Handlers and this runtime log through
//! `hamr_comm::info!` and its like.
//!
//! `logger.rs` is the logger of images, over the platform they run on (`bare/logging.rs`,
//! `hosted/logging.rs`). A program with a main loop of its own makes a logger over a `FrameBuffer`,
//! and implements [`crate::Board::logs`] and `logs_to`.

#[cfg(any(test, hamr_bare, hamr_image))]
mod frame_buffer;
#[cfg(any(hamr_machine, all(not(hamr_bare), hamr_image)))]
mod logger;
mod ring;

#[cfg(any(test, hamr_bare, hamr_image))]
pub use frame_buffer::FrameBuffer;
pub use ring::RingWriter;

#[cfg(any(hamr_machine, all(not(hamr_bare), hamr_image)))]
pub(crate) use logger::{Logger, LoggerState, Platform, image_logger};
