//! Messages that come in packets: as a responder over a wire applies them.

use super::Engine;
use super::apply::{Nak, Sink, Source};
use super::message::Ranges;
use hamr_comm::abi::window::{AtomicOp, Private};
use hamr_verbs::Completion;
use hamr_verbs::testing::{LKEY, REGION, Section};
use hamr_verbs::wire::{Access, Command, Object, QpState, Reply, Sge, Verb, WcOpcode, WcStatus};
use proptest::prelude::*;

/// A section with its adapter, whose queue pair 1 is connected: the responder.
fn responder() -> (Section, Engine<Private>) {
    let section = Section::new(2, 4);
    let mut engine = Engine::new(section.window.part(0, section.window.len()).expect("all of it"));
    for object in &section.objects {
        assert_eq!(engine.command(&Command { verb: Verb::CREATE, peer: 0, object: *object }), Reply::DONE);
    }
    let object = Object { index: 0, ..Object::default() };
    assert_eq!(engine.command(&Command { verb: Verb::CONNECT, peer: 1, object }), Reply::DONE);
    (section, engine)
}

fn receive(section: &Section, id: u64, parts: &[(u64, u32)]) {
    let sges: Vec<Sge> =
        parts.iter().map(|(at, len)| Sge { addr: section.objects[0].iova + at, len: *len, lkey: LKEY }).collect();
    section.verbs().queue_pair(section.id(1)).and_then(|qp| qp.receive(id, &sges)).expect("room");
}

fn bytes_of(section: &Section, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    section.window.read_bytes(section.objects[0].off + at, &mut bytes).expect("inside");
    bytes
}

fn poll(section: &Section) -> Option<Completion> {
    section.verbs().completion_queue(section.id(0)).and_then(|cq| cq.poll()).expect("valid")
}

fn remote(section: &Section, at: u64, len: u32, right: Access) -> Ranges {
    Ranges::remote(section.objects[0].iova + at, LKEY, len, right)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the path MTU, memory and completions are those of one message.
    #[test]
    fn packets_come_to_what_the_message_is(
        message in proptest::collection::vec(any::<u8>(), 1..500), mtu in 1..200_usize, cut in 0..500_u32,
    ) {
        let (section, mut engine) = responder();
        receive(&section, 7, &[(0, cut), (1000, 500)]);
        prop_assert_eq!(engine.begin_receive(1, 0), Ok(()));
        for packet in message.chunks(mtu) {
            prop_assert_eq!(engine.receive_segment(1, &Source::Bytes(packet), packet.len() as u64), Ok(()));
        }
        prop_assert_eq!(poll(&section), None);
        engine.end_receive(1, Some(5));
        let done = poll(&section).expect("complete");
        prop_assert_eq!((done.id, done.opcode, done.immediate), (7, WcOpcode::RECV, Some(5)));
        prop_assert_eq!(done.bytes as usize, message.len());
        let first = message.len().min(cut as usize);
        let came = [bytes_of(&section, 0, first), bytes_of(&section, 1000, message.len() - first)].concat();
        prop_assert_eq!(&came, &message);
        // Written, and read back.
        let len = message.len() as u32;
        let to = remote(&section, 2000, len, Access::REMOTE_WRITE);
        let from = remote(&section, 2000, len, Access::REMOTE_READ);
        for (i, packet) in message.chunks(mtu).enumerate() {
            let (at, len) = ((i * mtu) as u64, packet.len() as u64);
            prop_assert_eq!(engine.write_segment(1, &Source::Bytes(packet), &to, at, len), Ok(()));
            let mut answer = vec![0; packet.len()];
            prop_assert_eq!(engine.read_segment(1, &from, Sink::Bytes(&mut answer), at, len), Ok(()));
            prop_assert_eq!(&answer[..], packet);
        }
        prop_assert_eq!(bytes_of(&section, 2000, message.len()), message);
    }
}

#[test]
fn packets_that_are_wrong_are_refused() {
    let wrong = |run: &dyn Fn(&Section, &mut Engine<Private>) -> Nak, nak, status: Option<WcStatus>| {
        let (section, mut engine) = responder();
        receive(&section, 7, &[(0, 10)]);
        assert_eq!(run(&section, &mut engine), nak);
        assert_eq!(poll(&section).map(|done| done.status), status);
        assert_eq!(engine.qp(1).map(|qp| qp.state), Some(QpState::ERR));
        assert_eq!(bytes_of(&section, 10, 100), [0; 100]);
    };
    // More than the receive request has room for: known of the first packet, or of a later one.
    let too_long = Some(WcStatus::LOC_LEN_ERR);
    wrong(&|_, engine| engine.begin_receive(1, 11).expect_err("too long"), Nak::Invalid, too_long);
    let later = |_: &Section, engine: &mut Engine<Private>| {
        engine.begin_receive(1, 8).expect("room");
        engine.receive_segment(1, &Source::Bytes(&[1; 8]), 8).expect("room");
        engine.receive_segment(1, &Source::Bytes(&[1; 8]), 8).expect_err("too long")
    };
    wrong(&later, Nak::Invalid, too_long);
    // A packet in the middle of no message, and a first one in the middle of another.
    let middle = |_: &Section, engine: &mut Engine<Private>| {
        engine.receive_segment(1, &Source::Bytes(&[1]), 1).expect_err("no message")
    };
    wrong(&middle, Nak::Invalid, None);
    let first = |_: &Section, engine: &mut Engine<Private>| {
        engine.begin_receive(1, 1).expect("room");
        engine.begin_receive(1, 1).expect_err("another message")
    };
    wrong(&first, Nak::Invalid, None);
    // Packets behind what was announced, and none of a region.
    let more = |section: &Section, engine: &mut Engine<Private>| {
        let to = remote(section, 20, 8, Access::REMOTE_WRITE);
        engine.write_segment(1, &Source::Bytes(&[1; 8]), &to, 4, 8).expect_err("more than announced")
    };
    wrong(&more, Nak::Access, None);
    let outside = |section: &Section, engine: &mut Engine<Private>| {
        let from = remote(section, REGION - 4, 8, Access::REMOTE_READ);
        engine.read_segment(1, &from, Sink::Bytes(&mut [0; 4]), 0, 4).expect_err("outside")
    };
    wrong(&outside, Nak::Access, None);
    let short = |section: &Section, engine: &mut Engine<Private>| {
        let at = remote(section, 16, 4, Access::REMOTE_ATOMIC);
        engine.atomic(1, &at, AtomicOp::Add(1)).expect_err("four bytes")
    };
    wrong(&short, Nak::Access, None);
    let (_, mut engine) = responder();
    assert_eq!([engine.begin_receive(1, 0), engine.end_write(1, 0, 0)], [Err(Nak::NotReady); 2]);
    assert_eq!(engine.qp(1).map(|qp| qp.state), Some(QpState::RTS));
}
