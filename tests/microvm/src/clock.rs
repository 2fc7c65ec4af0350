//! The clock that measures the processor's timers: channel 0 of the interval timer (Intel 8254).
//! This machine has no event timer (HPET).

#![expect(unsafe_code)]
// UNSAFETY: this file guarantees the ports of `address` (contract "boards").

use crate::address;
use hamr_device_fw::arch::Timer;
use hamr_device_fw::board::pc::Port;

// SAFETY: channel 0; a counter reaches no memory, and its interrupt is not in use.
const CHANNEL: Port = unsafe { Port::new(address::CHANNEL) };
// SAFETY: the same timer's commands.
const COMMAND: Port = unsafe { Port::new(address::COMMAND) };

/// Steps per second.
const HZ: u64 = 1_193_182;
/// COMMAND: channel 0 counts down once, its count is written and read low byte first.
const COUNT_ONCE: u8 = 0b0011_0000;
/// COMMAND: latch status and count of channel 0 until they are read, in this order.
const HOLD: u8 = 0b1100_0010;
/// Status: the count reached zero.
const IS_OVER: u8 = 1 << 7;
/// Measurements before the clock is reported as unusable: one fails when an emulator is stopped for
/// 50 ms during it.
const ATTEMPTS: u32 = 8;

/// The processor's timers, measured.
pub(crate) fn timer() -> Option<Timer> {
    for _ in 0..ATTEMPTS {
        start();
        let timer = Timer::new(|| read().0, HZ)?;
        // A count of 16 bits lasts 55 ms, and is invalid after that.
        let (_, is_over) = read();
        if !is_over {
            return Some(timer);
        }
    }
    None
}

fn start() {
    COMMAND.write(COUNT_ONCE);
    CHANNEL.write(0xFF);
    CHANNEL.write(0xFF);
}

/// Steps since the start, and whether there were too many to count.
fn read() -> (u64, bool) {
    COMMAND.write(HOLD);
    let status = CHANNEL.read();
    let (low, high) = (CHANNEL.read(), CHANNEL.read());
    let left = u16::from_le_bytes([low, high]);
    (u64::from(u16::MAX - left), status & IS_OVER != 0)
}
