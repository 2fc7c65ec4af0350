//! A window that a device drives.

use super::golden;
use hamr_comm::abi::preamble::{HOST_WORDS, SECTIONS, word};
use hamr_comm::abi::section::{Section, SectionKind};
use hamr_comm::abi::staging::Staging;
use hamr_tests::driving::Rig;

#[test]
fn an_offer_and_a_put() {
    let mut rig = Rig::new();
    let staging = rig.layout.section(SectionKind::STAGING).expect("planned").off;
    rig.near.write_bytes(staging + Staging::DATA, &[9; 16]).expect("inside");
    let heap = rig.layout.heap().start;
    assert_eq!(rig.ask(Staging::PUT, heap + 64, 16), Staging::OK);
    let bytes = |off, len| {
        let mut bytes = vec![0; len];
        rig.near.read_bytes(off, &mut bytes).expect("inside");
        bytes
    };
    let place = rig.layout.sections().iter().position(|section| section.kind == SectionKind::STAGING).expect("planned");
    let entry = size_of::<Section>();
    let parts: [(&str, &[u8]); 6] = [
        ("preamble", &bytes(0, HOST_WORDS as usize)),
        ("host words: BELL was counted", &bytes(HOST_WORDS, 0x40)),
        ("ASLEEP", &bytes(word::ASLEEP, 4)),
        ("entry of STAGING", &bytes(SECTIONS + (place * entry) as u64, entry)),
        ("STAGING", &bytes(staging, Staging::DATA as usize)),
        ("its bytes", &bytes(staging + Staging::DATA, 16)),
    ];
    let title = "A window that its device drives (abi §15.5): 3 streams, 1 task, STAGING of 1152 bytes; 16 bytes are put 64 behind the heap's begin";
    golden("driven", title, &parts);
}
