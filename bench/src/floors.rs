//! Raw ping-pongs between the two processes, on the same processors and in the same window as the
//! calls. They are the floor: no call can be faster. A handler of the device is the other end.
//!
//! A processor that polls without a pause runs loads ahead, and asks for a line again before the
//! other side has written it; one that pauses may find the line a pause too late. Which is faster
//! depends on the machine and its spell, so each repetition measures both, and the floor is the
//! faster one.

use super::stats::{Spell, median};
use super::{BoxError, PER_SAMPLE, REPETITIONS, SAMPLES};
use hamr::{Buffer, Node, Pending, Stream};
use hamr_comm::BufferPtr;
use hamr_comm::abi::window::Word;
use hamr_kernels::bench::{Pongs, pong};
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
    /// No pause.
    pub(crate) const NONE: Self = Self { ns: 0, turns: 0 };

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

/// The same ping-pong, waited for in two ways.
pub(crate) struct Floor {
    /// Loads without a pause.
    pub(crate) tight: Vec<f64>,
    /// A pause behind each load.
    pub(crate) paused: Vec<f64>,
}

impl Floor {
    fn measure(mut once: impl FnMut(bool) -> Result<Vec<f64>, BoxError>) -> Result<Self, BoxError> {
        Ok(Self { tight: once(false)?, paused: once(true)? })
    }

    /// The faster one.
    pub(crate) fn best(&self) -> &[f64] {
        if median(&self.tight) < median(&self.paused) { &self.tight } else { &self.paused }
    }

    /// The spell in which it was measured.
    pub(crate) fn spell(&self) -> Spell {
        Spell::of(median(self.best()))
    }
}

/// Words from one measured cache line to the next: each is in another page. A handler can reach the
/// heap only, so these are not the slots themselves, in which a round trip takes as long
/// (`docs/performance.md`, "Method").
const STRIDE: usize = (4096 + 256) / 4;
/// Words of a cache line.
const LINE: usize = 16;
/// Lines of the raw ring, as a stream has ring slots by default.
const RING: usize = 128;
/// Messages in each line of the raw ring in one sample.
const ROUNDS: u32 = 80;

/// The lines, and the stream in which the handlers of the device's side run.
pub(crate) struct Floors<'n> {
    node: &'n Node,
    peer: Stream<'n>,
    lines: Buffer<u32>,
    ring: Buffer<u32>,
}

impl<'n> Floors<'n> {
    pub(crate) fn new(node: &'n Node) -> Result<Self, BoxError> {
        let ring = node.allocate(RING * LINE)?;
        Ok(Self { node, peer: node.stream()?, lines: node.allocate(REPETITIONS * STRIDE)?, ring })
    }

    fn line(&self, which: usize) -> Result<BufferPtr<u32>, BoxError> {
        let at = which % REPETITIONS * STRIDE;
        Ok(self.lines.ptr().slice(at..at + 4 * LINE).ok_or("no line")?)
    }

    /// Request and reply in one cache line, the line of repetition `which`.
    pub(crate) fn one_line(&self, which: usize, gap: Gap) -> Result<Floor, BoxError> {
        self.ping_pong(which, gap, 0, 0)
    }

    /// [`Self::one_line`], in which the device works for so many turns of `spend` before it replies; their
    /// time is included.
    pub(crate) fn around(&self, which: usize, turns: u32) -> Result<Floor, BoxError> {
        self.ping_pong(which, Gap::NONE, 0, turns)
    }

    /// Request in one cache line, reply in another.
    pub(crate) fn two_lines(&self, which: usize, gap: Gap) -> Result<Floor, BoxError> {
        self.ping_pong(which, gap, 2 * LINE, 0)
    }

    /// The reply is `reply_at` words behind the request, and comes behind `turns` of work.
    fn ping_pong(&self, which: usize, gap: Gap, reply_at: usize, turns: u32) -> Result<Floor, BoxError> {
        let lines = self.line(which)?;
        let (request, reply) = self.words(lines, 0, reply_at)?;
        Floor::measure(|paused| {
            reply.publish(0);
            request.publish(0);
            let reply_at = reply_at as u32;
            let how = Pongs { rounds: SAMPLES * PER_SAMPLE, stride: 0, reply_at, turns, paused };
            let peer = self.pong(lines, None, how)?;
            let mut ping = 1u32;
            let out = samples(gap, || {
                request.publish(ping);
                await_word(reply, ping.wrapping_add(1), paused);
                ping = ping.wrapping_add(2);
            });
            peer.wait()?;
            out
        })
    }

    /// A ring of lines, each with a request and its reply, as many in flight as there are lines.
    pub(crate) fn ring(&self) -> Result<Floor, BoxError> {
        let lines = self.ring.ptr();
        let words = (0..RING).map(|line| self.words(lines, line * LINE, 1)).collect::<Result<Vec<_>, _>>()?;
        Floor::measure(|paused| {
            for (request, reply) in &words {
                request.publish(0);
                reply.publish(0);
            }
            let how = Pongs { rounds: ROUNDS * RING as u32, stride: LINE as u32, reply_at: 1, turns: 0, paused };
            let peer = self.pong(lines, None, how)?;
            let begin = Instant::now();
            let mut ping = 1u32;
            for _ in 0..ROUNDS {
                for (request, reply) in &words {
                    // The reply to the last message in this line.
                    await_word(*reply, (ping + 1).saturating_sub(2 * RING as u32), paused);
                    request.publish(ping);
                    ping += 2;
                }
            }
            for (i, (_, reply)) in words.iter().enumerate() {
                await_word(*reply, ping + 1 - 2 * (RING - i) as u32, paused);
            }
            let ns = begin.elapsed().as_nanos() as f64 / f64::from(ROUNDS * RING as u32);
            peer.wait()?;
            Ok(vec![ns])
        })
    }

    /// One copy, a flag, a reply: `copy` makes the copy, `data` is what the device reads.
    pub(crate) fn hand_over(
        &self,
        data: BufferPtr<u32>,
        rounds: u32,
        mut copy: impl FnMut() -> Result<(), BoxError>,
    ) -> Result<f64, BoxError> {
        let flags = self.line(0)?;
        let (request, reply) = self.words(flags, 0, 2 * LINE)?;
        request.publish(0);
        reply.publish(0);
        let how = Pongs { rounds, stride: 0, reply_at: 2 * LINE as u32, turns: 0, paused: true };
        let peer = self.pong(flags, Some(data), how)?;
        copy()?;
        let begin = Instant::now();
        for i in 0..rounds {
            copy()?;
            request.publish(2 * i + 1);
            await_word(reply, 2 * i + 2, true);
        }
        let ns = begin.elapsed().as_nanos() as f64 / f64::from(rounds);
        peer.wait()?;
        Ok(ns)
    }

    /// Starts the device's side; of no `data`, none is read.
    fn pong(
        &self,
        lines: BufferPtr<u32>,
        data: Option<BufferPtr<u32>>,
        how: Pongs,
    ) -> Result<Pending<pong, &Stream<'n>>, BoxError> {
        let data = data.or(lines.slice(0..0)).ok_or("no line")?.wire().words();
        Ok(self.peer.offload(pong::with(lines, data, how))?)
    }

    /// The words of a request and its reply.
    fn words(&self, lines: BufferPtr<u32>, at: usize, reply_at: usize) -> Result<(Word<'_>, Word<'_>), BoxError> {
        let words = self.node.words(lines)?;
        Ok((words.get(at).ok_or("no line")?, words.get(at + reply_at).ok_or("no line")?))
    }
}

#[inline(always)]
fn samples(gap: Gap, mut once: impl FnMut()) -> Result<Vec<f64>, BoxError> {
    let mut sample = |_| {
        gap.sample(|| {
            once();
            Ok(())
        })
    };
    (0..SAMPLES).map(&mut sample).collect()
}

#[inline(always)]
fn await_word(word: Word<'_>, value: u32, paused: bool) {
    while word.observe() != value {
        if paused {
            spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_the_faster_way_to_wait() {
        let floor = |tight: f64, paused: f64| Floor { tight: vec![tight; 3], paused: vec![paused; 3] };
        assert_eq!(floor(90.0, 50.0).best(), [50.0; 3]);
        assert_eq!(floor(370.0, 380.0).best(), [370.0; 3]);
        assert_eq!((floor(90.0, 300.0).spell(), floor(370.0, 380.0).spell()), (Spell::Near, Spell::Far));
    }
}
