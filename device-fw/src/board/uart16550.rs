//! The 16550-compatible UART, transmitting only. The board knows where its registers are.

/// Offset of the line status register; the data register is the first.
pub(super) const STATUS: u8 = 5;
/// Polls of a full transmitter after which the byte is dropped: a console may not stop an image.
const MAX_READY_POLLS: u32 = 100_000;
/// Transmit holding register is empty.
const EMPTY: u8 = 1 << 5;

/// Waits until the data register takes a byte; false where the byte is to be dropped.
pub(super) fn is_ready(mut status: impl FnMut() -> u8) -> bool {
    (0..MAX_READY_POLLS).any(|_| status() & EMPTY != 0)
}
