//! Brings a ring of the near window up to date (abi §9), by the rules of a reader: of a ring without one the device
//! writes over the oldest bytes at any time.

use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::preamble::word;
use hamr_comm::abi::rings::RingHeader;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::mirror::MOST_LOOK;

/// Bytes that a writer may have begun to write beyond what it has published.
const BEGUN: u32 = 2 * RingHeader::MAX_FRAME;

/// How far a ring was brought, in which epoch.
#[derive(Clone, Copy, Default)]
pub(super) struct Brought {
    epoch: u32,
    position: u32,
}

impl Brought {
    /// By `look`, which returns so many bytes of the device's window. `None`: it was cut off.
    pub(super) fn bring(
        &mut self,
        near: &Window<Shared>,
        kind: SectionKind,
        look: impl Fn(u64, u32) -> Option<Vec<u8>>,
    ) -> Option<()> {
        let section = Layout::of_window(near).ok()?.section(kind).ok()?;
        let len = RingHeader::ring_len(section.len);
        let observe = |off| near.word(off).map_or(0, |word| word.observe());
        let epoch = observe(word::EPOCH);
        if self.epoch != epoch {
            *self = Self { epoch, position: 0 };
        }
        let header = || {
            let bytes = look(section.off, RingHeader::BYTES as u32)?;
            Some(move |off: u64| {
                let word = bytes.get(off as usize..).and_then(|bytes| bytes.first_chunk());
                word.map_or(0, |word| u32::from_le_bytes(*word))
            })
        };
        // More than a ring full has to wait for the next call.
        for _ in 0..=len.div_ceil(MOST_LOOK) {
            let head = header()?;
            let written = head(RingHeader::WRITTEN);
            if written.wrapping_sub(self.position) > len {
                // Half of a ring that is written over is out of the writer's reach for a while.
                self.position = written.wrapping_sub(len / 2);
            }
            let at = self.position & len.wrapping_sub(1);
            let count = written.wrapping_sub(self.position).min(MOST_LOOK).min(len - at);
            let off = section.off + RingHeader::BYTES + u64::from(at);
            let mut bytes = if count == 0 { Vec::new() } else { look(off, count)? };
            if count != 0 && head(RingHeader::READER) == 0 {
                // Bytes that the writer has reached meanwhile become zeros, which end frames.
                let reach = header()?(RingHeader::WRITTEN).wrapping_sub(self.position).saturating_add(BEGUN);
                let gone = reach.saturating_sub(len).min(count) as usize;
                bytes.get_mut(..gone).unwrap_or_default().fill(0);
            }
            if observe(word::EPOCH) != epoch {
                return None;
            }
            near.write_bytes(off, &bytes).ok()?;
            self.position = self.position.wrapping_add(count);
            let publish = |off, value| near.word(section.off + off).map(|word| word.publish(value)).ok();
            let is_all = self.position == written;
            if is_all {
                publish(RingHeader::DROPPED, head(RingHeader::DROPPED))?;
            }
            publish(RingHeader::WRITTEN, self.position)?;
            if is_all {
                return publish(RingHeader::FRAMES, head(RingHeader::FRAMES));
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::abi::layout::Plan;
    use std::cell::Cell;

    const KIND: SectionKind = SectionKind::LOG;
    const LEN: u32 = 1 << 16;

    /// A laid out window, and the device's.
    fn windows() -> (Window<Shared>, Window<Shared>, u64) {
        let plan = Plan { log: u64::from(LEN) + RingHeader::BYTES, heap: 4096, ..Plan::NO_TASKS };
        let layout = Layout::plan(&plan).expect("allowed");
        let [near, far] = [(); 2].map(|()| Window::private(layout.window_len()).share());
        layout.write(&plan, &near).expect("it fits");
        let preamble = hamr_comm::abi::preamble::Preamble {
            window_len: layout.window_len(),
            sections: layout.sections().len() as u32,
            queues: layout.queues(),
            ..zerocopy::FromZeros::new_zeroed()
        };
        near.write(0, &preamble).expect("inside");
        (near, far, layout.section(KIND).expect("planned").off)
    }

    fn set(window: &Window<Shared>, off: u64, value: u32) {
        window.word(off).expect("inside").publish(value);
    }

    fn get(window: &Window<Shared>, off: u64) -> u32 {
        window.word(off).expect("inside").observe()
    }

    /// Bytes of a ring, of which each says where it is in the device's output.
    fn write(window: &Window<Shared>, ring: u64, from: u32, to: u32) {
        let byte = |at: u32| (at % 251) as u8 + 1;
        for at in from..to {
            window.write_bytes(ring + RingHeader::BYTES + u64::from(at % LEN), &[byte(at)]).expect("inside");
        }
        set(window, ring + RingHeader::WRITTEN, to);
        set(window, ring + RingHeader::FRAMES, to);
    }

    fn look_at(far: &Window<Shared>) -> impl Fn(u64, u32) -> Option<Vec<u8>> {
        |off, len| {
            let mut bytes = vec![0; len as usize];
            far.read_bytes(off, &mut bytes).ok().map(|()| bytes)
        }
    }

    #[test]
    fn what_was_written_since_comes_also_round_the_end() {
        let (near, far, ring) = windows();
        let mut brought = Brought::default();
        for (from, to) in [(0, 100), (100, 60_000), (60_000, 70_000)] {
            write(&far, ring, from, to);
            brought.bring(&near, KIND, look_at(&far)).expect("not cut off");
            assert_eq!([RingHeader::WRITTEN, RingHeader::FRAMES].map(|off| get(&near, ring + off)), [to; 2]);
        }
        let [here, there] = [&near, &far].map(|of| look_at(of)(ring + RingHeader::BYTES, LEN).expect("inside"));
        assert_eq!(here, there);
    }

    #[test]
    fn bytes_that_the_writer_reached_meanwhile_are_zeros() {
        let (near, far, ring) = windows();
        write(&far, ring, 0, 1000);
        // Behind the first look at the header.
        let looks = Cell::new(0);
        let look = |off, len| {
            looks.set(looks.get() + 1);
            if looks.get() == 2 {
                set(&far, ring + RingHeader::WRITTEN, LEN + 100 - BEGUN);
            }
            look_at(&far)(off, len)
        };
        let mut once = Brought::default();
        // The device's words go on while it is brought; what was reached is in the first piece.
        let _ = once.bring(&near, KIND, look);
        let first = look_at(&near)(ring + RingHeader::BYTES, 200).expect("inside");
        assert!(first[..100].iter().all(|byte| *byte == 0) && first[100..].iter().all(|byte| *byte != 0), "{first:?}");
    }

    #[test]
    fn a_new_epoch_begins_a_ring_anew() {
        let (near, far, ring) = windows();
        let mut brought = Brought::default();
        for epoch in [1, 2] {
            set(&near, word::EPOCH, epoch);
            write(&far, ring, 0, 100);
            set(&near, ring + RingHeader::WRITTEN, 0);
            brought.bring(&near, KIND, look_at(&far)).expect("not cut off");
            assert_eq!(get(&near, ring + RingHeader::WRITTEN), 100);
        }
    }

    /// Also where the device's words have impossible values, and where it is cut off.
    #[test]
    fn a_ring_is_brought_in_so_many_looks() {
        let (near, far, ring) = windows();
        for written in [0, 1, LEN - 1, LEN, LEN + 1, u32::MAX / 2, u32::MAX] {
            for cut in 0..12 {
                set(&far, ring + RingHeader::WRITTEN, written);
                let looks = Cell::new(0);
                let mut brought = Brought::default();
                let whole = brought.bring(&near, KIND, |off, len| {
                    looks.set(looks.get() + 1);
                    look_at(&far)(off, len).filter(|_| cut == 0 || looks.get() < cut)
                });
                assert!(looks.get() <= 3 * (2 + LEN / MOST_LOOK) && (whole.is_some() || cut != 0), "{written}");
            }
        }
    }
}
