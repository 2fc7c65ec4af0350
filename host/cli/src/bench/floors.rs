//! Raw ping-pongs between the two processes, on the same processors and in the same window as the
//! calls. They are the floor: no call can be faster. A handler of the device is the other end.

use super::{BoxError, PER_SAMPLE};
use hamr::{Node, Stream};
use hamr_comm::BufferPtr;
use hamr_kernels::bench::{acknowledge, pong_one_line, pong_two_lines};
use std::hint::{black_box, spin_loop};
use std::time::Instant;

/// A pause of known length without a clock call in it.
#[derive(Clone, Copy)]
pub(crate) struct Gap {
    /// The wanted length.
    pub(crate) ns: u32,
    turns: u32,
}

#[inline(always)]
fn turn(n: u32) {
    for i in 0..n {
        black_box(i);
    }
}

impl Gap {
    /// Calibrates the loop for `ns` nanoseconds.
    pub(crate) fn new(ns: u32) -> Self {
        const TURNS: u32 = 2_000_000;
        let begin = Instant::now();
        turn(TURNS);
        let per_ns = f64::from(TURNS) / begin.elapsed().as_nanos() as f64;
        Self { ns, turns: (f64::from(ns) * per_ns) as u32 }
    }

    /// Nanoseconds per operation: the time of a batch with gaps, less that of the gaps alone,
    /// measured right before.
    #[inline(always)]
    pub(crate) fn sample(self, mut once: impl FnMut() -> Result<(), BoxError>) -> Result<f64, BoxError> {
        let begin = Instant::now();
        if self.turns > 0 {
            for _ in 0..PER_SAMPLE {
                turn(self.turns);
            }
        }
        let middle = Instant::now();
        for _ in 0..PER_SAMPLE {
            once()?;
            turn(self.turns);
        }
        let with = middle.elapsed().as_nanos() as f64;
        let gaps = if self.turns > 0 { (middle - begin).as_nanos() as f64 } else { 0.0 };
        Ok(((with - gaps) / f64::from(PER_SAMPLE)).max(0.0))
    }
}

/// Request and reply in one cache line.
pub(crate) fn one_line(
    node: &Node,
    stream: &Stream<'_>,
    line: BufferPtr<u32>,
    samples: u32,
    gap: Gap,
) -> Result<Vec<f64>, BoxError> {
    let word = node.words(line)?.get(0).ok_or("an empty line")?;
    word.publish(0);
    let peer = stream.offload(pong_one_line::with(line, samples * PER_SAMPLE))?;
    let mut ping = 1u32;
    let out = (0..samples)
        .map(|_| {
            gap.sample(|| {
                word.publish(ping);
                while word.observe() != ping.wrapping_add(1) {
                    spin_loop();
                }
                ping = ping.wrapping_add(2);
                Ok(())
            })
        })
        .collect();
    peer.wait()?;
    out
}

/// Request in one cache line, reply in another.
pub(crate) fn two_lines(
    node: &Node,
    stream: &Stream<'_>,
    lines: BufferPtr<u32>,
    samples: u32,
    gap: Gap,
) -> Result<Vec<f64>, BoxError> {
    let words = node.words(lines)?;
    let (ping, pong) = (words.get(0).ok_or("an empty line")?, words.get(32).ok_or("one line only")?);
    ping.publish(0);
    pong.publish(0);
    let peer = stream.offload(pong_two_lines::with(lines, samples * PER_SAMPLE))?;
    let mut i = 0u32;
    let out = (0..samples)
        .map(|_| {
            gap.sample(|| {
                i += 1;
                ping.publish(i);
                while pong.observe() != i {
                    spin_loop();
                }
                Ok(())
            })
        })
        .collect();
    peer.wait()?;
    out
}

/// One copy, a flag, a reply: `copy` makes the copy, `data` is what the device reads.
pub(crate) fn hand_over(
    node: &Node,
    stream: &Stream<'_>,
    flags: BufferPtr<u32>,
    data: BufferPtr<u32>,
    rounds: u32,
    mut copy: impl FnMut() -> Result<(), BoxError>,
) -> Result<f64, BoxError> {
    let words = node.words(flags)?;
    let (ping, pong) = (words.get(0).ok_or("an empty line")?, words.get(32).ok_or("one line only")?);
    ping.publish(0);
    pong.publish(0);
    let peer = stream.offload(acknowledge::with(flags, data.wire().words(), rounds))?;
    copy()?;
    let begin = Instant::now();
    for i in 1..=rounds {
        copy()?;
        ping.publish(i);
        while pong.observe() != i {
            spin_loop();
        }
    }
    let ns = begin.elapsed().as_nanos() as f64 / f64::from(rounds);
    peer.wait()?;
    Ok(ns)
}
