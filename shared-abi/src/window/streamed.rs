//! Copies into a window around the caches of this processor, by stores of x86-64 that fetch no line
//! before they write it.

#![expect(unsafe_code)]
// UNSAFETY: as in `window`, whose contracts these are. In assembly, because the compiler knows no
// such stores, and since a build without optimization would copy a tenth as fast as `memcpy`.

use core::arch::asm;

use super::{OutOfWindow, Window};

/// Bytes of a cache line. A line that is written by parts goes to memory more than once.
const LINE: usize = 64;

impl<K> Window<K> {
    /// [`Self::write_bytes`] around the caches, of any length and alignment. What this thread
    /// publishes afterwards is seen after these bytes.
    pub(super) fn write_streamed(&self, off: u64, from: &[u8]) -> Result<(), OutOfWindow> {
        let at = self.at(off, from.len() as u64)?;
        let (head, rest) = from.split_at(at.align_offset(LINE).min(from.len()));
        let (lines, tail) = rest.as_chunks::<LINE>();
        self.write_bytes(off, head)?;
        self.write_bytes(off + (from.len() - tail.len()) as u64, tail)?;
        if lines.is_empty() {
            return Ok(());
        }
        // SAFETY: head.len() <= from.len() bytes from `at` lie in the region (checked above).
        let to = unsafe { at.add(head.len()) };
        // SAFETY: each of the lines, at least one, is read once and written once. They are readable in
        // `from`, and as many from `to` lie in the region (checked above), which is writable and
        // covered by no reference (contract of `Window::new`). `to` is a multiple of LINE, or there
        // were no lines; the loads ask for no alignment. Every processor of x86-64 has SSE2. The fence
        // orders the stores before all that this thread stores later, as after a plain copy.
        unsafe {
            asm!(
                "2:",
                "movdqu {a}, [{from}]",
                "movdqu {b}, [{from} + 16]",
                "movdqu {c}, [{from} + 32]",
                "movdqu {d}, [{from} + 48]",
                "movntdq [{to}], {a}",
                "movntdq [{to} + 16], {b}",
                "movntdq [{to} + 32], {c}",
                "movntdq [{to} + 48], {d}",
                "add {from}, 64",
                "add {to}, 64",
                "sub {lines}, 1",
                "jnz 2b",
                "sfence",
                from = inout(reg) lines.as_ptr() => _,
                to = inout(reg) to.as_ptr() => _,
                lines = inout(reg) lines.len() => _,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::window::Window;

    const ROOM: usize = 1024;

    /// Every alignment of both ends within a line and more, every length around whole lines, and no
    /// byte beside the range.
    #[test]
    fn streamed_bytes_are_those_of_a_plain_copy() {
        let from: [u8; ROOM] = core::array::from_fn(|i| (i * 7 + i / 256) as u8);
        let plain = Window::private(ROOM as u64);
        let streamed = Window::private(ROOM as u64);
        let (mut expected, mut found) = ([0; ROOM], [0; ROOM]);
        let lengths = || (0..=20).chain([31, 32, 33]).chain(60..=68).chain(125..=131).chain(250..=260);
        for skip in 0..17 {
            for off in 0..=66 {
                for len in lengths() {
                    let part = &from[skip..skip + len];
                    for window in [&plain, &streamed] {
                        window.zero(0, ROOM as u64).expect("inside");
                    }
                    plain.write_bytes(off, part).expect("inside");
                    streamed.write_streamed(off, part).expect("inside");
                    plain.read_bytes(0, &mut expected).expect("inside");
                    streamed.read_bytes(0, &mut found).expect("inside");
                    assert_eq!(expected, found, "{len} bytes from {skip} to {off}");
                }
            }
        }
    }

    #[test]
    fn a_streamed_copy_that_leaves_the_region_writes_nothing() {
        let window = Window::private(256);
        for (off, len) in [(0, 257), (193, 64), (256, 1), (u64::MAX, 64)] {
            let refused = window.write_streamed(off, &[1; 300][..len]).expect_err("outside");
            assert_eq!(Err(refused), window.write_bytes(off, &[1; 300][..len]));
        }
        let mut found = [1; 256];
        window.read_bytes(0, &mut found).expect("inside");
        assert_eq!(found, [0; 256]);
    }
}
