//! Cases of fuzzing in ordinary tests: the kept ones, and random ones by fixed seeds.

use crate::conformance::Random;
use hamr_net::frame::{Bounds, End, Frame, HEAD, Phase, admit};
use std::path::Path;

/// Random cases of a target.
const CASES: u64 = 2_000;
/// Bytes of the longest.
const LONGEST: u64 = 600;

/// Runs a target of `fuzz/` with each kept input (`fuzz/corpus/NAME`), some changes of these, and random bytes.
///
/// # Panics
/// As the case does; there is no kept input.
pub fn each_case(target: &str, case: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let kept: Vec<_> = files.map(|file| std::fs::read(file.expect("listed").path()).expect("readable")).collect();
    assert!(!kept.is_empty(), "{target} has no kept input");
    kept.iter().for_each(|bytes| case(bytes));
    let mut random = Random(0x5EED);
    for number in 0..CASES {
        let mut bytes = match kept.get((number % (2 * kept.len() as u64)) as usize) {
            Some(bytes) => bytes.clone(),
            None => (0..random.below(LONGEST)).map(|_| random.number() as u8).collect(),
        };
        for _ in 0..random.below(8) {
            let at = random.below(bytes.len() as u64 + 1) as usize;
            match random.below(3) {
                0 => bytes.insert(at, random.number() as u8),
                1 => bytes.truncate(at),
                _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
            }
        }
        case(&bytes);
    }
}

/// Frames from both ends in every phase: each is refused, or says what it is again.
///
/// # Panics
/// One says something else.
pub fn frames(bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else { return };
    let bounds = Bounds { window: 1 << 20, heap: 1 << 16..1 << 20, longest: 1 << 16 };
    for from in [End::Host, End::Server] {
        for phase in [Phase::Opening, Phase::Messages, Phase::Transfers] {
            let Ok((kind, len)) = admit(*head, from, phase) else { continue };
            let Some(body) = rest.get(..len) else { continue };
            let Ok(frame) = Frame::decode(kind, body) else { continue };
            if frame.check(&bounds).is_err() {
                continue;
            }
            let mut again = Vec::new();
            frame.encode(&mut again).expect("what is read can be sent");
            assert_eq!(Frame::decode(kind, &again[HEAD..]), Ok(frame));
        }
    }
}
