//! What grows with a program: the heap with the number of its buffers, and memory that is used for the first time.

use super::floors::Gap;
use super::stats::median;
use super::table::{Beside, Key, Table, Unit};
use super::{BoxError, SAMPLES};
use hamr::{Image, Node, Options, Runtime};
use std::hint::black_box;
use std::time::Instant;

/// Buffers of `heap_churn`, of which every other one is freed before.
const BUFFERS: [u32; 5] = [10, 100, 1000, 10_000, 100_000];
/// Lengths of buffers in cache lines, in turn; one is longer than the holes that the others leave.
const LINES: [usize; 8] = [1, 2, 3, 4, 5, 6, 7, 64];
/// Sizes of `first_put`, and how many buffers of each.
const SIZES: [(usize, usize); 2] = [(1 << 20, 16), (64 << 20, 3)];

/// Adds the rows of this module, of devices of their own.
pub(super) fn measure(
    runtime: &Runtime,
    device: &str,
    image: &Image,
    options: &Options,
    table: &mut Table,
) -> Result<(), BoxError> {
    let open = |heap: u64| -> Result<Node, BoxError> {
        let options = Options { heap, max_buffers: 1 << 17, ..options.clone() };
        Ok(runtime.open_with(device, image.clone(), options)?)
    };
    if table.wants("heap_churn") {
        heap_churn(&open(128 << 20)?, table)?;
    }
    if table.wants("first_put") {
        let all = SIZES.iter().map(|(size, count)| size * count).sum::<usize>();
        first_put(&open(all as u64)?, table)?;
    }
    Ok(())
}

/// A buffer allocated and dropped among so many, half of which are holes.
fn heap_churn(node: &Node, table: &mut Table) -> Result<(), BoxError> {
    let mut fewest = Vec::new();
    for count in BUFFERS {
        let mut turn = LINES.iter().cycle();
        let mut next = || node.allocate::<u8>(64 * turn.next().copied().unwrap_or(1));
        let mut buffers = (0..count).map(|_| next()).collect::<Result<Vec<_>, _>>()?;
        let mut is_kept = false;
        buffers.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
        let once = |_| {
            Gap::NONE.sample(|| {
                black_box(next()?);
                Ok(())
            })
        };
        let ns = (0..SAMPLES * 4).map(once).collect::<Result<Vec<_>, _>>()?;
        if fewest.is_empty() {
            fewest.clone_from(&ns);
        }
        let beside = Beside { what: "10 buffers", ns: &[median(&fewest)] };
        table.add(Key::new("heap_churn").vary("buffers", count), &ns, Some(beside));
    }
    Ok(())
}

/// The first put into a buffer whose memory was never used, against a copy into new memory of this program.
fn first_put(node: &Node, table: &mut Table) -> Result<(), BoxError> {
    for (size, count) in SIZES {
        let from = vec![1u8; size];
        // Neither is given back before all are measured.
        let (mut buffers, mut copies) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let begin = Instant::now();
            let mut copy = Vec::with_capacity(size);
            copy.extend_from_slice(black_box(&from));
            let floor = begin.elapsed().as_nanos() as f64;
            copies.push(black_box(copy));
            let begin = Instant::now();
            let buffer = node.allocate::<u8>(size)?;
            node.put(black_box(&from), buffer.ptr())?;
            let ours = begin.elapsed().as_nanos() as f64;
            buffers.push(buffer);
            let key = Key::new("first_put").size(size).unit(Unit::GbS);
            table.add(key, &[ours], Some(Beside { what: "copy into new memory", ns: &[floor] }));
        }
    }
    Ok(())
}
