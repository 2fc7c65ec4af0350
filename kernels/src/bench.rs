//! The handlers that `hamr bench` calls: empty calls of every size, and the raw ping-pongs that
//! calls are compared with.

use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::{BufferPtr, Context, Fault, info, offload};

/// Does nothing.
#[offload]
pub fn empty(_cx: &mut Context) {}

/// Logs numbered lines of level info, as fast as it can.
#[offload]
pub fn log_lines(_cx: &mut Context, lines: u32) {
    for line in 0..lines {
        info!("line {}", line);
    }
}

/// 32 bytes in, 8 out.
#[offload]
pub fn sum_4(_cx: &mut Context, a: u64, b: u64, c: u64, d: u64) -> u64 {
    a.wrapping_add(b).wrapping_add(c).wrapping_add(d)
}

/// 48 bytes in, 8 out: the most that one slot carries.
#[offload]
pub fn sum_6(_cx: &mut Context, a: [u64; 6]) -> u64 {
    a.iter().fold(0, |sum, v| sum.wrapping_add(*v))
}

/// Counts its calls: for one-way calls, whose effect a test must observe.
#[offload]
pub fn count(cx: &mut Context, counter: BufferPtr<u64>) -> Result<(), Fault> {
    if let Some(n) = cx.view_mut(counter)?.first_mut() {
        *n += 1;
    }
    Ok(())
}

/// Raw ping-pong, `rounds` times: request and reply in the same word. The other side stores odd
/// numbers from 1.
#[offload]
pub fn pong_one_line(cx: &mut Context, line: BufferPtr<u32>, rounds: u32) -> Result<(), Fault> {
    let words = cx.words(line)?;
    let word = words.get(0).ok_or_else(|| Fault::msg("an empty buffer"))?;
    for i in 0..rounds {
        let ping = i.wrapping_mul(2).wrapping_add(1);
        while word.observe() != ping {
            if cx.cancelled() {
                return Ok(());
            }
            core::hint::spin_loop();
        }
        word.publish(ping.wrapping_add(1));
    }
    Ok(())
}

/// Raw ping-pong, `rounds` times: request in word 0, reply in word 32, two cache lines on.
#[offload]
pub fn pong_two_lines(cx: &mut Context, lines: BufferPtr<u32>, rounds: u32) -> Result<(), Fault> {
    let words = cx.words(lines)?;
    let (Some(ping), Some(pong)) = (words.get(0), words.get(32)) else {
        return Err(Fault::msg("a buffer of fewer than 33 words"));
    };
    for i in 1..=rounds {
        while ping.observe() != i {
            if cx.cancelled() {
                return Ok(());
            }
            core::hint::spin_loop();
        }
        pong.publish(i);
    }
    Ok(())
}

/// The raw hand-over, `rounds` times: for each number in word 0 of `flags`, reads the last word of
/// `data` and stores a reply in word 32 of `flags`. `data` comes as the two words of its pointer,
/// so that the call does not use the buffer and the host may write into it meanwhile.
#[offload]
pub fn acknowledge(cx: &mut Context, flags: BufferPtr<u32>, data: [u64; 2], rounds: u32) -> Result<(), Fault> {
    let data = BufferPtr::from_wire(WireBuffer::from_words(data));
    let (flags, data) = (cx.words(flags)?, cx.words(data)?);
    let (Some(ping), Some(pong)) = (flags.get(0), flags.get(32)) else {
        return Err(Fault::msg("a buffer of fewer than 33 words"));
    };
    let last = data.get(data.len().wrapping_sub(1)).ok_or_else(|| Fault::msg("an empty buffer"))?;
    for i in 1..=rounds {
        while ping.observe() != i {
            if cx.cancelled() {
                return Ok(());
            }
            core::hint::spin_loop();
        }
        core::hint::black_box(last.load());
        pong.publish(i);
    }
    Ok(())
}

/// Returns the last word of what was put, which shows that the device reads it.
#[offload]
pub fn notice(cx: &mut Context, data: BufferPtr<u32>) -> Result<u32, Fault> {
    let data = cx.words(data)?;
    let last = data.get(data.len().wrapping_sub(1)).ok_or_else(|| Fault::msg("an empty buffer"))?;
    Ok(last.load())
}
