//! Bounds, claims and alignment.

use super::*;
use zerocopy::FromZeros;

#[test]
fn nothing_outside_the_region_is_reachable() {
    let w = Window::private(128);
    assert_eq!(w.read_bytes(120, &mut [0; 9]), Err(OutOfWindow { off: 120, want: 9, len: 128 }));
    assert!(w.write_bytes(u64::MAX, &[1]).is_err());
    assert!(w.word(126).is_err());
    assert!(w.word(3).is_err());
    assert!(w.word(124).is_ok());
    assert!(w.words(0, u64::MAX / 2).is_err());
    assert!(w.copy_within(0, 120, 9).is_err());
}

/// Where the heaps of these tests begin: behind the preamble.
const OFF: u64 = crate::preamble::PREAMBLE_BYTES;

fn split(len: u64, off: u64, heap: u64) -> Option<(Window<Private>, Heap<Private>)> {
    DeviceWindow::private(len).split(off, heap, &(0..0)).ok()
}

#[test]
fn a_heap_that_was_split_off_is_outside_of_the_window() {
    let (window, heap) = split(OFF + 128, OFF, 128).expect("aligned");
    assert_eq!((window.len(), heap.len()), (OFF, 128));
    assert!(window.write_bytes(OFF, &[1]).is_err());
    assert!(heap.write_bytes(127, &[1]).is_ok());
    assert_eq!(heap.join().len(), OFF + 128);
}

#[test]
fn bytes_behind_the_heap_belong_to_no_part_and_come_back() {
    assert!(split(OFF + 384, OFF, 385).is_none());
    let (window, heap) = split(OFF + 384, OFF, 64).expect("aligned");
    assert_eq!((window.len(), heap.len()), (OFF, 64));
    assert!(heap.write_bytes(64, &[1]).is_err());
    assert!(window.write_bytes(OFF, &[1]).is_err());
    assert_eq!(heap.join().len(), OFF + 384);
}

#[test]
fn a_heap_never_covers_the_preamble() {
    assert!(split(OFF + 64, OFF - 64, 64).is_none());
    let whole = DeviceWindow::private(OFF + 64);
    assert!(whole.keep_word(OFF - 4).is_ok());
    assert!(whole.keep_word(OFF).is_err(), "a heap may begin here");
    assert!(whole.keep_word(2).is_err());
}

#[test]
fn a_home_and_the_rest_of_its_world_share_no_byte() {
    let split = |home, len| DeviceWindow::private(8192).split_home(home, len).ok();
    let SplitWorld { before, home, behind } = split(4096, 2048).expect("aligned");
    assert_eq!((before.len(), home.len(), behind.len()), (4096, 2048, 2048));
    for (i, window) in [&before.lend(), &*home, &behind.lend()].into_iter().enumerate() {
        assert!(window.write_bytes(window.len(), &[1]).is_err());
        window.write_bytes(0, &[i as u8 + 7]).expect("inside");
        window.write_bytes(window.len() - 1, &[i as u8 + 7]).expect("inside");
    }
    for (i, window) in [&before.lend(), &*home, &behind.lend()].into_iter().enumerate() {
        let mut ends = [0; 2];
        window.read_bytes(0, &mut ends[..1]).expect("inside");
        window.read_bytes(window.len() - 1, &mut ends[1..]).expect("inside");
        assert_eq!(ends, [i as u8 + 7; 2]);
    }
    assert!(home.split(OFF, 1024, &(0..0)).is_ok(), "it is a window like any other");
    assert!(split(4096, 4096).is_some_and(|world| world.behind.is_empty()));
    assert!(split(4096, 4160).is_none() && split(4097, 64).is_none() && split(4096, 100).is_none());
    assert!(split(u64::MAX - 63, 64).is_none() && split(64, u64::MAX).is_none());
}

/// Copies into a part of the heap, which ends before the next view begins.
#[test]
fn a_part_of_the_heap_is_lent_between_views() {
    let (_, mut heap) = split(OFF + 256, OFF, 256).expect("aligned");
    let mut heap = heap.lend();
    {
        let part = heap.part(64, 128).expect("inside");
        part.store(120, 7u64).expect("inside");
        assert!(part.store(128, 7u8).is_err() && part.store(4, 7u64).is_err());
        assert_eq!(part.atomic(120, AtomicOp::Add(1u64)), Ok(7));
        assert_eq!(part.load::<i64>(120), Ok(8));
    }
    assert!(heap.part(64, 193).is_err() && heap.part(1, 8).is_err());
    let [view] = heap.claim([Claim { off: 184, bytes: 8, writable: false }]).expect("inside");
    assert_eq!(view.shared::<u64>(), Ok(&[8][..]));
}

/// Every operation on every type, against plain arithmetic.
#[test]
fn atomics_do_what_they_say() {
    macro_rules! check {
        ($t:ty, $before:expr, $value:expr) => {{
            let (before, value): ($t, $t) = ($before, $value);
            let cases = [
                (AtomicOp::Load, before),
                (AtomicOp::Store(value), value),
                (AtomicOp::Add(value), before.wrapping_add(value)),
                (AtomicOp::And(value), before & value),
                (AtomicOp::Or(value), before | value),
                (AtomicOp::Xor(value), before ^ value),
                (AtomicOp::Min(value), before.min(value)),
                (AtomicOp::Max(value), before.max(value)),
                (AtomicOp::Swap(value), value),
                (AtomicOp::CompareSwap { expected: before, new: value }, value),
                (AtomicOp::CompareSwap { expected: value, new: 1 }, if before == value { 1 } else { before }),
            ];
            for (op, after) in cases {
                let window = Window::private(64);
                window.store(8, before).expect("inside");
                let got = window.atomic(8, op).expect("inside");
                assert_eq!(got, if matches!(op, AtomicOp::Store(_)) { value } else { before }, "{op:?}");
                assert_eq!(window.load::<$t>(8), Ok(after), "{op:?}");
                assert!(window.atomic(size_of::<$t>() as u64 / 2, op).is_err(), "misaligned");
            }
        }};
    }
    for (a, b) in [(0, 1), (7, 7), (0xF0F0_F0F0, 0x8000_0001)] {
        check!(u32, a, b);
        check!(i32, a as i32, b as i32);
        check!(u64, u64::from(a) << 32, u64::from(b));
        check!(i64, (u64::from(a) << 32) as i64, -i64::from(b));
    }
}

/// One region, one heap at a time: each way to a second one consumes the first.
#[test]
fn a_window_that_was_joined_is_split_elsewhere() {
    let (_, heap) = split(OFF + 256, OFF + 128, 128).expect("aligned");
    let Ok((window, heap)) = heap.join().split(OFF, 256, &(0..0)) else { panic!("aligned") };
    assert_eq!((window.len(), heap.len()), (OFF, 256));
}

#[test]
fn claims_are_checked_together() {
    let (_, mut heap) = split(OFF + 256, OFF, 256).expect("aligned");
    let mut heap = heap.lend();
    let c = |off, bytes, writable| Claim { off, bytes, writable };
    assert!(matches!(heap.claim([c(0, 300, false)]), Err(ClaimError::Outside { end: 300, heap: 256 })));
    assert!(matches!(heap.claim([c(u64::MAX, 2, false)]), Err(ClaimError::Outside { end: u64::MAX, .. })));
    assert!(matches!(heap.claim([c(0, 64, false), c(32, 64, true)]), Err(ClaimError::Overlap { first: 0, second: 1 })));
    assert!(heap.claim([c(0, 64, false), c(32, 64, false)]).is_ok());
    let [a, b] = heap.claim([c(0, 64, false), c(64, 64, true)]).expect("disjoint");
    b.exclusive::<u64>().expect("aligned").fill(7);
    assert_eq!(a.shared::<u64>().expect("aligned").len(), 8);
    let [odd] = heap.claim([c(4, 8, false)]).expect("inside");
    assert!(matches!(odd.shared::<u64>(), Err(ClaimError::Misaligned { off: 4, align: 8 })));
    let [read] = heap.claim([c(64, 8, false)]).expect("inside");
    assert!(matches!(read.exclusive::<u64>(), Err(ClaimError::ReadOnly { off: 64 })));
}

#[test]
fn a_plan_reads_back_as_it_was_written() {
    use crate::layout::{Layout, Plan};
    use crate::preamble::{BYTE_ORDER, MAGIC, Preamble};
    let plan = Plan { heap: 4096, ..Plan::default() };
    let layout = Layout::plan(&plan).expect("default plan");
    let w = Window::private(layout.window_len());
    layout.write(&plan, &w).expect("fits");
    let preamble = Preamble {
        magic: MAGIC,
        byte_order: BYTE_ORDER,
        window_len: w.len(),
        sections: layout.sections().len() as u32,
        queues: layout.queues(),
        ..Preamble::new_zeroed()
    };
    let read = Layout::read(&preamble, &w).expect("own layout");
    assert_eq!(read, layout);
    for q in 0..layout.queues() {
        let d = read.queue(&w, q).expect("own descriptor");
        assert!(w.queue(&d).is_ok());
    }
    assert!(read.queue(&w, layout.queues()).is_err());
}
