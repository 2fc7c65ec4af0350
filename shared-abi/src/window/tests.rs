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
    DeviceWindow::private(len).split(off, heap).ok()
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
fn a_home_and_the_front_of_its_world_share_no_byte() {
    let split = |front, home, len| DeviceWindow::private(8192).split_home(front, home, len).ok();
    let (front, home) = split(256, 4096, 2048).expect("aligned");
    assert_eq!((front.len(), home.len()), (256, 2048));
    assert!(front.write_bytes(256, &[1]).is_err() && home.write_bytes(2048, &[1]).is_err());
    assert!(home.write_bytes(0, &[7]).is_ok() && front.write_bytes(0, &[9]).is_ok());
    let mut first = [0];
    home.read_bytes(0, &mut first).expect("inside");
    assert_eq!(first, [7]);
    assert!(home.split(OFF, 1024).is_ok(), "it is a window like any other");
    assert!(split(4097, 4096, 2048).is_none(), "they would overlap");
    assert!(split(256, 4096, 4097).is_none() && split(256, 4097, 64).is_none() && split(0, u64::MAX, 64).is_none());
}

/// One region, one heap at a time: each way to a second one consumes the first.
#[test]
fn a_window_that_was_joined_is_split_elsewhere() {
    let (_, heap) = split(OFF + 256, OFF + 128, 128).expect("aligned");
    let Ok((window, heap)) = heap.join().split(OFF, 256) else { panic!("aligned") };
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
