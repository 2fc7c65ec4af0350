//! Frames of connections between machines, one of each kind.

use super::*;
use hamr_comm::abi::slot::{INLINE_WORDS, SECOND_WORDS};
use hamr_net::frame::{Frame, Grant, Hello, Purpose, Reason, Refuse, Slot, Transfer};

#[test]
fn network() {
    let version = |minor| AbiVersion { major: 0, minor };
    let abi = (version(1), version(5));
    let link = [0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf];
    let hello =
        Hello { abi, link, attempt: 2, purpose: Purpose::Messages, window: 0x0010_0000, name: "board", host: "desk" };
    let (mut payload, mut second) = ([0; INLINE_WORDS], [0; SECOND_WORDS]);
    let slot = Slot {
        queue: 3,
        of_host: false,
        header_alone: false,
        slot: 7,
        hdr: 0x0208_0123,
        word: 0x0300_0001,
        payload,
        second,
        bytes: &[],
    };
    payload[0] = 0x1122_3344_5566_7788;
    payload[2] = 9;
    second[0] = 10;
    let range = Transfer { off: 0x1_0000, total: 0x0123_4567 };
    let frames = [
        ("HELLO", Frame::Hello(hello)),
        ("HELLO, transfers", Frame::Hello(Hello { purpose: Purpose::Transfers, name: "", ..hello })),
        ("GRANT", Frame::Grant(Grant { abi: version(5), doorbell: true, window: 0x0010_0000, kind: "shm" })),
        ("REFUSE", Frame::Refuse(Refuse { reason: Reason::Busy, abi, number: 840, text: "desk" })),
        ("LOOK", Frame::Look { off: 0x400, len: 64 }),
        ("SEEN", Frame::Seen { off: 0x400, bytes: &[4, 5] }),
        ("OFFER", Frame::Offer(b"HAMR")),
        ("SLOT, an empty call", Frame::Slot(slot)),
        ("SLOT, two lines", Frame::Slot(Slot { payload, second, ..slot })),
        ("SLOT, a host queue's reply with a chunk", Frame::Slot(Slot { of_host: true, payload, bytes: &[6], ..slot })),
        ("SLOT, a header alone", Frame::Slot(Slot { header_alone: true, ..slot })),
        ("STATE", Frame::State { acknowledged: 3, state: 2, bytes: &[7, 8] }),
        ("WORD", Frame::Word { off: 0x8c, value: 4 }),
        ("RENEW", Frame::Renew),
        ("RENEWED", Frame::Renewed),
        ("ENDED", Frame::Ended("its process ended")),
        ("PUT", Frame::Put(range)),
        ("GET", Frame::Get(range)),
        ("DONE", Frame::Done { status: 0 }),
        ("BYE", Frame::Bye("bye")),
        ("PART", Frame::Part(&[9, 9])),
    ];
    let parts: Vec<(&str, Vec<u8>)> = frames
        .iter()
        .map(|(label, frame)| {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes).expect("it fits");
            (*label, bytes)
        })
        .collect();
    let parts: Vec<(&str, &[u8])> = parts.iter().map(|(label, bytes)| (*label, bytes.as_slice())).collect();
    golden("network", "Frames between machines (abi §15.2), each with its head", &parts);
}
