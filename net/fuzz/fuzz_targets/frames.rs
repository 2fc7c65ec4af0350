//! Frames from both ends in every phase: each is refused, or says what it is again.

#![no_main]

use hamr_net::frame::{Bounds, End, Frame, HEAD, Phase, admit};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
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
});
