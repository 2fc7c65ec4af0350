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

#[test]
fn a_taken_tail_leaves_the_window() {
    let mut w = Window::private(256);
    let heap = w.take_tail(128, 128).expect("aligned");
    assert_eq!((w.len(), heap.len()), (128, 128));
    assert!(w.write_bytes(128, &[1]).is_err());
    assert!(heap.write_bytes(127, &[1]).is_ok());
    let foreign = Window::private(256).take_tail(0, 256).expect("aligned");
    w.rejoin(foreign);
    assert_eq!(w.len(), 128);
    w.rejoin(heap);
    assert_eq!(w.len(), 256);
}

#[test]
fn what_lies_behind_the_heap_is_nobodys_and_comes_back() {
    let mut w = Window::private(512);
    assert!(w.take_tail(128, 385).is_err());
    let heap = w.take_tail(128, 64).expect("aligned");
    assert_eq!((w.len(), heap.len()), (128, 64));
    assert!(heap.write_bytes(64, &[1]).is_err());
    assert!(w.write_bytes(128, &[1]).is_err());
    w.rejoin(heap);
    assert_eq!(w.len(), 512);
}

#[test]
fn claims_are_checked_together() {
    let mut w = Window::private(4096 + 256);
    let mut tail = w.take_tail(4096, 256).expect("aligned");
    let mut heap = tail.lend();
    let c = |off, bytes, writable| Claim { off, bytes, writable };
    assert!(matches!(heap.claim([c(0, 300, false)]), Err(ClaimError::Outside { which: 0, .. })));
    assert!(matches!(heap.claim([c(u64::MAX, 2, false)]), Err(ClaimError::Outside { .. })));
    assert!(matches!(heap.claim([c(0, 64, false), c(32, 64, true)]), Err(ClaimError::Overlap { first: 0, second: 1 })));
    assert!(heap.claim([c(0, 64, false), c(32, 64, false)]).is_ok());
    let [a, b] = heap.claim([c(0, 64, false), c(64, 64, true)]).expect("disjoint");
    b.exclusive::<u64>().expect("aligned").fill(7);
    assert_eq!(a.shared::<u64>().expect("aligned").len(), 8);
    let [odd] = heap.claim([c(4, 8, false)]).expect("inside");
    assert!(matches!(odd.shared::<u64>(), Err(ClaimError::Misaligned { off: 4, align: 8 })));
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
