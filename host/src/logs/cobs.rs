//! Frames as they lie in the ring: bytes without a zero, then a zero (reverse zero-compressing COBS, defmt's default encoding).

/// Bytes of a decoded frame: the longest encoded one can stand for seven times as many zeros.
const MAX_DECODED: usize = 8 * hamr_comm::abi::rings::RingHeader::MAX_FRAME as usize;

/// A frame's bytes; `None` when these are none. The code is read from its end: each control byte follows what it speaks of.
pub(super) fn decode(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut rest = encoded.iter().rev();
    let mut decoded = Vec::new();
    while let Some(&control) = rest.next() {
        let (literals, ends_in_zero) = match control {
            0 => return None,
            // Seven bytes, of which those with a bit set are zeros and not in the code.
            0x01..=0x7F => {
                for bit in (0..7).rev() {
                    decoded.push(if control >> bit & 1 == 0 { *rest.next()? } else { 0 });
                }
                continue;
            }
            0x80..=0xFE => (usize::from(control & 0x7F) + 7, true),
            0xFF => (134, false),
        };
        if ends_in_zero {
            decoded.push(0);
        }
        for _ in 0..literals {
            decoded.push(*rest.next()?);
        }
        if decoded.len() > MAX_DECODED {
            return None;
        }
    }
    decoded.reverse();
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The writer's half: the encoder of the image.
    fn encode(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = defmt::Encoder::new();
        let mut encoded = Vec::new();
        encoder.start_frame(|b| encoded.extend_from_slice(b));
        encoder.write(bytes, |b| encoded.extend_from_slice(b));
        encoder.end_frame(|b| encoded.extend_from_slice(b));
        assert_eq!((encoded.first(), encoded.last()), (Some(&0), Some(&0)));
        encoded[1..encoded.len() - 1].to_vec()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_the_image_encodes_comes_out(bytes in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..400)) {
            let encoded = encode(&bytes);
            prop_assert!(!encoded.contains(&0));
            let decoded = decode(&encoded).expect("a frame");
            // Groups of seven are filled up with zeros.
            prop_assert_eq!(&decoded[..bytes.len()], &bytes[..]);
            prop_assert!(decoded.len() < bytes.len() + 7 && decoded[bytes.len()..].iter().all(|b| *b == 0));
        }

        #[test]
        fn anything_is_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            if let Some(decoded) = decode(&bytes) {
                prop_assert!(decoded.len() <= 7 * bytes.len() && decoded.len() <= MAX_DECODED + 200);
            }
        }
    }
}
