//! Transfers: `put`, `get` and copies between devices against a plain copy, and a put that the device
//! notices against the raw hand-over.

use super::calls::call_words;
use super::floors::Floors;
use super::stats::median;
use super::table::{Beside, Key, Table, Unit};
use super::{BoxError, REPETITIONS};
use hamr::{Buffer, Node, Stream, chain};
use hamr_comm::BufferPtr;
use hamr_comm::abi::window::{STREAMED, Shared, Window};
use hamr_kernels::bench::{notice, spend, sum_4};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// 64 B to 32 MiB, from which on puts go around the caches.
pub(crate) const SIZES: [usize; 11] =
    [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, LARGEST];
/// The largest size.
pub(crate) const LARGEST: usize = STREAMED;
/// Sizes of copies from device to device.
const COPIED: [usize; 3] = [64 << 10, 1 << 20, 16 << 20];
/// What is submitted, and what transfers beside a handler.
pub(crate) const SUBMITTED: usize = 16 << 20;

/// The memory for transfers, made once per launch.
pub(crate) struct Area<'n> {
    node: &'n Node,
    data: Buffer<u32>,
    value: Buffer<u64>,
    private: Vec<u32>,
    floor: Window<Shared>,
}

/// One size's samples: the transfer's, then the floor's, in nanoseconds per operation.
pub(crate) type Pair = (f64, f64);

impl<'n> Area<'n> {
    pub(crate) fn new(node: &'n Node) -> Result<Self, BoxError> {
        let private = (0..LARGEST as u32 / 4).collect::<Vec<_>>();
        let data = node.buffer(&private)?;
        let floor = Window::private(LARGEST as u64).share();
        // Written once, so that no first-use page fault is measured.
        floor.write_bytes(0, bytemuck::cast_slice(&private))?;
        Ok(Self { node, data, value: node.buffer(&[0])?, private, floor })
    }

    fn part(&self, size: usize) -> Result<BufferPtr<u32>, BoxError> {
        Ok(self.data.ptr().slice(0..size / 4).ok_or("a size beyond the buffer")?)
    }

    /// 8 bytes at a time; the average of many. One value of 8 bytes, because two halves that are
    /// written apart and read together would measure the processor's store buffer.
    pub(crate) fn eight(&mut self) -> Result<(Pair, Pair), BoxError> {
        const TIMES: u32 = 4000;
        let to = self.value.ptr();
        let mut value = [1u64];
        let put = time(TIMES, |i| {
            value[0] = i.into();
            Ok(self.node.put(black_box(&value), to)?)
        })?;
        let store = time(TIMES, |i| {
            value[0] = i.into();
            Ok(self.floor.write_bytes(0, bytemuck::cast_slice(black_box(&value)))?)
        })?;
        let get = time(TIMES, |_| {
            self.node.get(to, &mut value)?;
            black_box(&value);
            Ok(())
        })?;
        let load = time(TIMES, |_| {
            self.floor.read_bytes(0, bytemuck::cast_slice_mut(&mut value))?;
            black_box(&value);
            Ok(())
        })?;
        Ok(((put, store), (get, load)))
    }

    pub(crate) fn put(&mut self, size: usize) -> Result<Pair, BoxError> {
        let to = self.part(size)?;
        let from = self.private.get(..size / 4).ok_or("a size beyond the data")?;
        let times = repeats(size);
        let ours = time(times, |_| Ok(self.node.put(black_box(from), to)?))?;
        let floor = time(times, |_| Ok(self.floor.write_bytes(0, bytemuck::cast_slice(black_box(from)))?))?;
        Ok((ours, floor))
    }

    pub(crate) fn get(&mut self, size: usize) -> Result<Pair, BoxError> {
        let from = self.part(size)?;
        let to = self.private.get_mut(..size / 4).ok_or("a size beyond the data")?;
        let times = repeats(size);
        let ours = time(times, |_| {
            self.node.get(from, to)?;
            black_box(&to);
            Ok(())
        })?;
        let floor = time(times, |_| {
            self.floor.read_bytes(0, bytemuck::cast_slice_mut(to))?;
            black_box(&to);
            Ok(())
        })?;
        Ok((ours, floor))
    }

    /// A put and a call that reads its last word, against one copy, a flag and a reply.
    pub(crate) fn put_notify(
        &mut self,
        stream: &Stream<'_>,
        floors: &Floors<'_>,
        size: usize,
    ) -> Result<Pair, BoxError> {
        let to = self.part(size)?;
        let from = self.private.get(..size / 4).ok_or("a size beyond the data")?;
        let rounds = (repeats(size) / 4).max(2);
        let ours = time(rounds, |_| {
            self.node.put(black_box(from), to)?;
            black_box(stream.sync(notice::with(to))?);
            Ok(())
        })?;
        // The same copy to the same address. The handler reads it without a buffer argument; with
        // one, the copy would be refused while the handler runs.
        let floor = floors.hand_over(to, rounds, || Ok(self.node.put(black_box(from), to)?))?;
        Ok((ours, floor))
    }
}

impl Area<'_> {
    /// A put and a call that reads its last word, given as one, against one copy, a flag and a
    /// reply.
    pub(crate) fn put_sync(&mut self, stream: &Stream<'_>, floors: &Floors<'_>, size: usize) -> Result<Pair, BoxError> {
        let to = self.part(size)?;
        let from = self.private.get(..size / 4).ok_or("a size beyond the data")?;
        let rounds = repeats(size);
        let ours = time(rounds, |_| {
            black_box(stream.put_sync(black_box(from), to, notice::with(to))?);
            Ok(())
        })?;
        let floor = floors.hand_over(to, rounds, || Ok(self.node.put(black_box(from), to)?))?;
        Ok((ours, floor))
    }
}

impl Area<'_> {
    /// Submissions of a put, against the put. Waits between two of them, unmeasured, are for the copy.
    pub(crate) fn put_async_submit(&self, from: &Arc<[u32]>) -> Result<Pair, BoxError> {
        let to = self.part(size_of_val(&**from))?;
        let begin = Instant::now();
        let pending = self.node.put_async(black_box(from.clone()), to)?;
        let ours = begin.elapsed();
        pending.wait()?;
        let begin = Instant::now();
        self.node.put(black_box(from), to)?;
        Ok((ours.as_nanos() as f64, begin.elapsed().as_nanos() as f64))
    }

    /// A submitted put beside a handler that runs about as long, against the longer of the two alone.
    pub(crate) fn overlap(&self, stream: &Stream<'_>, from: &Arc<[u32]>) -> Result<Pair, BoxError> {
        const TURNS: u32 = 100_000;
        let to = self.part(size_of_val(&**from))?;
        let timed = |work: &dyn Fn() -> Result<(), BoxError>| -> Result<f64, BoxError> {
            let begin = Instant::now();
            work()?;
            Ok(begin.elapsed().as_nanos() as f64)
        };
        let put = || -> Result<(), BoxError> {
            self.node.put_async(from.clone(), to)?.wait()?;
            Ok(())
        };
        let transfer = timed(&put)?;
        let some = timed(&|| Ok(stream.sync(spend::with(TURNS))?))?;
        let turns = (transfer / some * f64::from(TURNS)) as u32;
        let compute = timed(&|| Ok(stream.offload(spend::with(turns))?.wait()?))?;
        let both = timed(&|| {
            let call = stream.offload(spend::with(turns))?;
            put()?;
            Ok(call.wait()?)
        })?;
        Ok((both, transfer.max(compute)))
    }

    /// A call with a slice that is staged in and out, against the same with a buffer by hand.
    pub(crate) fn in_out(&mut self, size: usize) -> Result<Pair, BoxError> {
        let node = self.node;
        let both = self.private.get_mut(..size / 4).ok_or("a size beyond the data")?;
        let times = repeats(size);
        let ours = time(times, |_| {
            black_box(node.sync_staged(|s| notice::with(s.in_out(black_box(&mut *both))))?);
            Ok(())
        })?;
        let by_hand = time(times, |_| {
            let buffer = node.buffer(black_box(&*both))?;
            black_box(node.sync(notice::with(buffer.ptr()))?);
            Ok(node.get(buffer.ptr(), both)?)
        })?;
        Ok((ours, by_hand))
    }

    /// Sixteen calls in a chain, each with the result of the one before, against one call with about as many bytes: 512
    /// in a vector, for 520 of links.
    pub(crate) fn chain_16(&self, stream: &Stream<'_>) -> Result<Pair, BoxError> {
        // Few, so that another program takes the processor in few samples: those of chains last longer.
        const TIMES: u32 = 400;
        let chained = time(TIMES, |i| {
            let first = chain(sum_4::with(u64::from(i), 1, 2, 3));
            let all = (1..16).fold(first, |so_far, _| so_far.then(sum_4::after(1, 2, 3)));
            black_box(self.node.sync_chain(all)?);
            Ok(())
        })?;
        Ok((chained, median(&call_words::<64>(stream)?)))
    }

    /// What is submitted.
    pub(crate) fn submitted(&self) -> Result<Arc<[u32]>, BoxError> {
        Ok(self.private.get(..SUBMITTED / 4).ok_or("a size beyond the data")?.into())
    }
}

/// Adds the rows `copy_dd`, from one device's buffer to another's, and `copy_within`, in one device, beside a
/// copy in this program's memory.
pub(super) fn copies(node: &Node, other: &Node, table: &mut Table) -> Result<(), BoxError> {
    const LONGEST: usize = COPIED[COPIED.len() - 1];
    let private = vec![1u32; LONGEST / 4];
    let mut copied = private.clone();
    let from = node.buffer(&private)?;
    let within = node.buffer(&private)?;
    let across = other.buffer(&private)?;
    for size in COPIED {
        let part = |buffer: &Buffer<u32>| buffer.ptr().slice(0..size / 4).ok_or("a size beyond the buffer");
        let (from, within, across) = (part(&from)?, part(&within)?, part(&across)?);
        let times = repeats(size);
        for _ in 0..REPETITIONS / 2 {
            for (name, other, to) in [("copy_dd", other, across), ("copy_within", node, within)] {
                let ours = time(times, |_| Ok(node.copy_to(from, other, to)?))?;
                let floor = time(times, |_| {
                    copied[..size / 4].copy_from_slice(black_box(&private[..size / 4]));
                    black_box(&copied);
                    Ok(())
                })?;
                let key = Key::new(name).size(size).unit(Unit::GbS);
                table.add(key, &[ours], Some(Beside { what: "memcpy", ns: &[floor] }));
            }
        }
    }
    Ok(())
}

fn repeats(size: usize) -> u32 {
    ((1 << 20) / size).clamp(2, 4000) as u32
}

fn time(times: u32, mut once: impl FnMut(u32) -> Result<(), BoxError>) -> Result<f64, BoxError> {
    let mut begin = Instant::now();
    // One more than is counted, because the first one finds the caches as the last measurement left
    // them. All in one loop, so that `once` has one caller and is inlined.
    for i in 0..=times {
        if i == 1 {
            begin = Instant::now();
        }
        once(i)?;
    }
    Ok(begin.elapsed().as_nanos() as f64 / f64::from(times))
}
