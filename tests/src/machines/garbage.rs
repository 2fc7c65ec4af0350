//! An image that survives garbage: in its preamble, in its slots, and from a host with a wrong size
//! of its memory.

use super::rig::Rig;
use crate::conformance::Random;
use crate::devices;
use hamr::link::Peer;
use hamr::qemu::Machine;
use hamr::{HandlerInfo, Options};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::preamble::{DeviceState, HostState, MAGIC, PREAMBLE_BYTES, Preamble, Refusal, word};
use hamr_comm::abi::slot::ReqHdr;
use hamr_comm::am::{SlotAccess, Slots};
use hamr_comm::handshake::HostHandshake;
use std::mem::offset_of;
use std::time::{Duration, Instant};

/// Bits of the key in a request's header.
const KEY: u32 = 0xFFFF;
/// After this time, a test stops with fewer rounds.
const A_MINUTE: Duration = Duration::from_secs(60);

/// An image that waits for a host reads preambles with every kind of garbage, and then serves a
/// good one.
pub fn garbage_in_the_preamble(machine: &Machine) {
    let rig = Rig::start(machine);
    let mut random = Random(11);
    let (mut refused, mut round, begin) = (0, 0, Instant::now());
    // More of them if the image seldom had a processor in time to refuse.
    while round < 2000 || refused <= 10 && begin.elapsed() < A_MINUTE {
        // A good preamble first, so that one wrong word is not hidden by others.
        let epoch = Epoch(0x0100_0000 + round);
        HostHandshake::offer(rig.window(), &rig.offer, epoch).expect("long enough");
        for _ in 0..=random.below(3) {
            let at = random.below(PREAMBLE_BYTES / 4) * 4;
            let value = match random.below(3) {
                0 => random.number() as u32,
                1 => 1 << random.below(32),
                _ => 0,
            };
            rig.say(at, value);
        }
        rig.say(word::HOST_STATE, HostState::OFFERED.0);
        rig.say(0, if random.below(8) == 0 { random.number() as u32 } else { MAGIC });
        // From time to time the image gets time to reply.
        std::thread::sleep(Duration::from_micros(if round % 50 == 0 { 3000 } else { random.below(200) }));
        let state = rig.window().word(word::DEVICE_STATE).expect("in the preamble").observe();
        refused += u32::from(state == DeviceState::REFUSED.0);
        assert_eq!(rig.link.peer(), Peer::Alive, "round {round}");
        round += 1;
    }
    assert!(refused > 10, "it refused {refused} preambles");
    let (_, stream) = rig.serve(Epoch(0x0200_0000));
    rig.expect_ping(stream);
}

/// Requests with random headers and arguments in hot, ring and ticket slots, published as good ones
/// are: each gets a reply, and the image continues.
pub fn garbage_in_every_slot(machine: &Machine) {
    let rig = Rig::start(machine);
    let (_, mut stream) = rig.serve(Epoch(3));
    let mut random = Random(13);
    let begin = Instant::now();
    // Each round waits for the image, so fewer are enough where other programs use the processors.
    for round in (0..20_000).take_while(|n| *n < 2000 || begin.elapsed() < A_MINUTE) {
        let hdr = ReqHdr(random.number() as u32 & !ReqHdr::CANCEL & !KEY | any_key(&rig, &mut random));
        let words: [u64; 6] = core::array::from_fn(|_| random.number() >> random.below(64));
        if let Some(side) = stream.slots().ticket_slot(random.below(9) as u32) {
            side.set_req_hdr(random.number() as u32 & !ReqHdr::CANCEL);
        }
        let no_answer = || -> ! { panic!("round {round}: no reply to {hdr:?}, {words:x?}") };
        let answer = if random.below(2) == 0 {
            stream.submit_hot(hdr, &words);
            let answer = rig.wait(|| stream.hot_reply()).unwrap_or_else(|| no_answer());
            stream.release_hot();
            answer
        } else {
            let at = stream.submit_ring(hdr, &words);
            let answer = rig.wait(|| stream.ring_reply(at)).unwrap_or_else(|| no_answer());
            stream.release_oldest();
            answer
        };
        assert_ne!(answer.status().name(), "UNKNOWN", "{answer:?} to {hdr:?}");
    }
    rig.expect_ping(stream);
}

/// A layout that is larger than the card's memory. The host refuses it before it writes a word, and
/// a device refuses a host that claims too much.
pub fn a_window_too_small_is_refused(machine: &Machine) {
    let rig = Rig::start(machine);
    let mut offer = rig.offer;
    offer.plan.heap = 1 << 20;
    let (_, layout) = HostHandshake::offer(rig.window(), &offer, Epoch(5)).expect("long enough");
    rig.say(0, 0);
    // The preamble's window_len, larger by a whole card.
    let claimed = layout.window_len().next_power_of_two() * 2;
    rig.window().write(offset_of!(Preamble, window_len) as u64, &claimed).expect("in the preamble");
    rig.say(word::EPOCH, 6);
    rig.say(0, MAGIC);
    let refused = rig.wait(|| {
        let state = rig.window().word(word::DEVICE_STATE).expect("in the preamble").observe();
        (state == DeviceState::REFUSED.0).then(|| rig.window().word(word::REFUSAL).expect("in the preamble").load())
    });
    assert_eq!(refused, Some(Refusal::WINDOW_LEN.0));
    let options = Options { heap: 64 << 20, ..Options::default() };
    let error = devices::runtime().attach("small", rig.link, options).expect_err("too small").to_string();
    assert!(error.contains("small") && error.contains("window") && error.contains("bytes"), "{error}");
}

/// A key of no handler, or of one that ends with any arguments. Other handlers may run for ever
/// with random ones.
fn any_key(rig: &Rig, random: &mut Random) -> u32 {
    const ENDING: [&str; 8] =
        ["::ping", "::axpy", "::dot_f64", "::divide", "::panics", "::echo_many", "::node_of_device", "::bump"];
    let ends = |h: &&HandlerInfo| ENDING.iter().any(|end| h.name.ends_with(end));
    let keys: Vec<u32> = rig.handlers.iter().filter(ends).map(|h| h.key.into()).collect();
    assert!(keys.len() >= ENDING.len());
    match random.below(2) {
        0 => keys[random.below(keys.len() as u64) as usize],
        _ => 0x200 + random.below(0xFD00) as u32,
    }
}
