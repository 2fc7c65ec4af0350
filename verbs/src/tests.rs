//! The device's side alone, over bytes that no adapter or a hostile one has written.

use crate::testing::{Ending, LKEY, REGION, Section};
use crate::wire::{
    ARENA, CQ_CI, CQ_STATE, CompletionEntry, FABRIC_STATE, FabricState, Kind, LINE, Object, Opcode, QP_STATE, QpState,
    REGION_HANDLES, SendEntry, Sge, WORD, WcOpcode, WcStatus, word_of,
};
use crate::{CqId, MrId, QpId, Remote, SendWr, SrqId, VerbsError, ring::Ring};
use hamr_comm::abi::window::{AtomicOp, Private, Window};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;
use zerocopy::IntoBytes;

fn ring_of_completions(section: &Section) -> Ring {
    let object = &section.objects[1];
    Ring::new(object.off, object.log2, 1, object.tag())
}

/// Publishes a completion, as an adapter does.
pub(crate) fn complete(section: &Section, x: u32, entry: &CompletionEntry) {
    let ring = ring_of_completions(section);
    section.window.write_bytes(ring.entry(x), &entry.as_bytes()[..WORD as usize]).expect("inside");
    section.window.word(ring.word(x)).expect("inside").publish(ring.expected(x));
}

pub(crate) fn sent(id: u64, retired: u32) -> CompletionEntry {
    CompletionEntry { id, opcode: WcOpcode::SEND, retired, generation: 1, ..CompletionEntry::default() }
}

/// Replaces an object by its next generation; a queue pair is connected again.
fn reset(section: &Section, object: &Object) {
    let generation = object.generation + 1;
    if object.kind == Kind::QUEUE_PAIR {
        let word = section.window.word(word_of(QP_STATE, object.index)).expect("inside");
        word.publish(QpState::RTS.word(generation));
    }
    section.replace(&Object { generation, ..*object });
}

#[test]
fn a_request_is_written_as_the_adapter_reads_it() {
    let section = Section::new(1, 2);
    section.connect();
    let verbs = section.verbs();
    let (qp, region) = (verbs.queue_pair(section.id(0)).expect("there"), verbs.region(section.id(0)).expect("there"));
    let parts = [region.part(0..3).expect("inside"), region.part(8..8).expect("inside")];
    qp.post(&SendWr::send(7, &parts)).expect("room");
    qp.post(&SendWr::inline(8, &[9; 92])).expect("room");
    assert_eq!(qp.post(&SendWr::inline(9, &[])), Err(VerbsError::Full));
    let object = section.objects[2];
    let ring = Ring::new(object.off, 1, 2, object.tag());
    let entry: SendEntry = section.window.read(ring.entry(0)).expect("inside");
    let flags = SendEntry::SIGNALED | SendEntry::TWO_LINES;
    assert_eq!((entry.parts(), entry.id, entry.length), (Some((Opcode::SEND, flags, 2)), 7, 3));
    assert_eq!(entry.sges()[..3], [parts[0], parts[1], Sge::default()]);
    assert_eq!((entry.word, parts[0].addr, parts[0].lkey), (ring.expected(0), section.objects[0].iova, LKEY));
    let entry: SendEntry = section.window.read(ring.entry(1)).expect("inside");
    assert_eq!((entry.inline(), entry.length, entry.word), ([9; 92], 92, ring.expected(1)));
}

#[test]
fn what_does_not_fit_is_refused() {
    let section = Section::new(1, 1);
    let verbs = section.verbs();
    let (qp, region) = (verbs.queue_pair(section.id(0)).expect("there"), verbs.region(section.id(0)).expect("there"));
    assert_eq!(qp.post(&SendWr::inline(1, &[])), Err(VerbsError::State(QpState::RESET.0)));
    section.connect();
    assert_eq!(qp.post(&SendWr::inline(1, &[0; 93])), Err(VerbsError::InlineTooLong(92)));
    assert_eq!(qp.post(&SendWr::send(1, &[Sge::default(); 6])), Err(VerbsError::TooManySges(5)));
    assert_eq!(qp.receive(1, &[Sge::default(); 3]), Err(VerbsError::TooManySges(2)));
    let long = Sge { len: u32::MAX, ..Sge::default() };
    assert_eq!(qp.post(&SendWr::send(1, &[long])), Err(VerbsError::Length));
    for (from, to) in [(0, REGION + 1), (REGION + 1, REGION + 1), (1, 0), (u64::MAX, u64::MAX), (0, u64::MAX)] {
        assert_eq!(region.part(from..to), Err(VerbsError::Length), "{from}..{to}");
    }
    assert!(region.part(REGION..REGION).is_ok());
    assert_eq!(region.copy_in(REGION, &[1]), Err(VerbsError::Length));
    assert_eq!(region.copy_out(u64::MAX, &mut [1]), Err(VerbsError::Length));
    // Ids of other kinds, places, generations, devices and epochs.
    let other = |index, generation, node, epoch| crate::Name { index, generation, node, epoch };
    for name in [other(4, 1, 1, 1), other(0, 2, 1, 1), other(0, 0, 1, 1), other(0, 1, 2, 1), other(0, 1, 1, 2)] {
        assert_eq!(verbs.queue_pair(QpId::from(name)).err(), Some(VerbsError::Stale), "{name:?}");
    }
    assert_eq!(verbs.queue_pair(QpId::from(other(u16::MAX, 1, 1, 1))).err(), Some(VerbsError::Stale));
}

#[test]
fn completions_of_a_lost_adapter_are_found() {
    let section = Section::new(1, 2);
    section.connect();
    let verbs = section.verbs();
    let (qp, cq) =
        (verbs.queue_pair(section.id(0)).expect("there"), verbs.completion_queue(section.id(0)).expect("there"));
    qp.post(&SendWr::inline(5, &[])).expect("room");
    assert_eq!(cq.poll(), Ok(None));
    complete(&section, 0, &sent(5, 1));
    section.window.word(FABRIC_STATE).expect("inside").publish(FabricState::LOST.0);
    assert_eq!(cq.poll().map(|found| found.map(|found| (found.id, found.status))), Ok(Some((5, WcStatus::SUCCESS))));
    assert_eq!(cq.poll(), Err(VerbsError::HcaLost));
    assert_eq!(qp.post(&SendWr::inline(5, &[])), Err(VerbsError::HcaLost));
}

/// A completion of more than was posted frees nothing.
#[test]
fn a_completion_that_lies_is_corrupt() {
    let section = Section::new(1, 3);
    section.connect();
    let verbs = section.verbs();
    let (qp, cq) =
        (verbs.queue_pair(section.id(0)).expect("there"), verbs.completion_queue(section.id(0)).expect("there"));
    qp.post(&SendWr::inline(1, &[])).expect("room");
    qp.post(&SendWr::inline(2, &[])).expect("room");
    let lies = [
        sent(1, 4),
        sent(1, u32::MAX),
        CompletionEntry { qp: 1, ..sent(1, 1) },
        CompletionEntry { qp: u16::MAX, ..sent(1, 1) },
        CompletionEntry { opcode: WcOpcode(7), ..sent(1, 1) },
        CompletionEntry { opcode: WcOpcode::RECV, ..sent(1, 2) },
    ];
    for (x, lie) in lies.iter().enumerate() {
        complete(&section, x as u32, lie);
        assert_eq!(cq.poll(), Err(VerbsError::Corrupt), "{lie:?}");
        assert_eq!(qp.post(&SendWr::inline(3, &[])), Err(VerbsError::Full));
    }
    complete(&section, lies.len() as u32, &sent(1, 1));
    assert!(cq.poll().is_ok_and(|found| found.is_some()));
    assert_eq!(qp.post(&SendWr::inline(3, &[])), Ok(()));
}

pub(crate) fn taken(srq: u16, generation: u16, retired: u32) -> CompletionEntry {
    CompletionEntry { opcode: WcOpcode::RECV, srq, generation, retired, ..CompletionEntry::default() }
}

/// A shared receive queue is free up to its first request that is not done, over many laps of its bits.
#[test]
fn shared_receives_are_free_in_order() {
    let section = Section::new(3, 9);
    section.connect();
    let verbs = section.verbs();
    let srq = verbs.shared_receive_queue(section.id(0)).expect("there");
    let cq = verbs.completion_queue(section.id(0)).expect("there");
    let mut x = 0_u32;
    let mut done = |retired: u32| {
        complete(&section, x, &taken(1, 1, retired));
        x += 1;
        cq.poll()
    };
    let (mut free, mut posted) = (0, 0);
    for round in 0..1500_u32 {
        while srq.receive(posted.into(), &[]).is_ok() {
            posted += 1;
        }
        assert_eq!(posted, free + 8, "in round {round}");
        // In another order each time: the first one last, or in the middle.
        let order = if round % 2 == 0 { [3, 1, 2, 0] } else { [1, 0, 3, 2] };
        for (i, at) in order.into_iter().enumerate() {
            assert!(done(free + at + 1).is_ok_and(|found| found.is_some()));
            let is_free = srq.receive(posted.into(), &[]).is_ok();
            let first = order.iter().position(|at| *at == 0).expect("it is there");
            assert_eq!(is_free, i >= first && posted < free + 12, "in round {round}");
            posted += u32::from(is_free);
        }
        free += 4;
        // Twice, of another generation, or of what was not posted: it frees nothing.
        assert!(done(free).is_ok());
    }
    let lies = [taken(1, 1, posted + 2), taken(1, 1, posted + 600), taken(2, 1, 1), taken(u16::MAX, 1, 1)];
    for lie in lies.into_iter().chain([CompletionEntry { opcode: WcOpcode::SEND, ..taken(1, 1, posted) }]) {
        complete(&section, x, &lie);
        x += 1;
        assert_eq!(cq.poll(), Err(VerbsError::Corrupt), "{lie:?}");
    }
    complete(&section, x, &taken(1, 2, posted));
    assert!(cq.poll().is_ok_and(|found| found.is_some()));
    while srq.receive(0, &[]).is_ok() {
        posted += 1;
    }
    assert_eq!(posted, free + 8);
}

/// H1: after an end at any store of a post, the ring holds what was published, once, and goes on.
#[test]
fn a_post_that_is_ended_is_posted_once_or_not_at_all() {
    for stores in 0.. {
        let section = Section::new(3, 4);
        section.connect();
        let run = Ending::run(&section.window, stores, |ending| {
            let verbs = section.over(ending);
            let qp = verbs.queue_pair(section.id(0)).expect("there");
            for id in 1..=3 {
                qp.post(&SendWr::inline(id, &[id as u8; 92])).expect("room");
            }
        });
        let ring = Ring::new(section.objects[2].off, 3, 2, 1);
        let published = || {
            let entries = (0..8).map_while(|x| {
                let entry: SendEntry = section.window.read(ring.entry(x)).expect("inside");
                (entry.word == ring.expected(x)).then_some(entry)
            });
            entries.collect::<Vec<_>>()
        };
        // The adapter may have completed these.
        let before = published();
        let verbs = section.verbs();
        let qp = verbs.queue_pair(section.id(0)).expect("there");
        qp.post(&SendWr::inline(100, &[])).expect("room");
        let entries = published();
        let (last, others) = entries.split_last().expect("the last post");
        assert_eq!((last.id, qp.sent()), (100, entries.len() as u32), "after {stores} stores");
        assert_eq!(others, before, "after {stores} stores");
        for (entry, id) in others.iter().zip(1..) {
            assert_eq!((entry.id, entry.inline()), (id, [id as u8; 92]), "after {stores} stores");
        }
        if let Some(()) = run {
            assert_eq!(others.len(), 3);
            break;
        }
        assert!(stores < 100);
    }
}

/// H1: after an end at any store of a poll, no completion is lost for the queue pair, and the adapter is told.
#[test]
fn a_poll_that_is_ended_frees_what_it_found() {
    for stores in 0.. {
        let section = Section::new(2, 3);
        section.connect();
        let post = |id| section.verbs().queue_pair(section.id(0)).expect("there").post(&SendWr::inline(id, &[]));
        (0..4).for_each(|id| post(id).expect("room"));
        assert_eq!(post(4), Err(VerbsError::Full));
        (0..4).for_each(|x| complete(&section, x, &sent(u64::from(x), x + 1)));
        let run = Ending::run(&section.window, stores, |ending| {
            let verbs = section.over(ending);
            let cq = verbs.completion_queue(section.id(0)).expect("there");
            (0..4).filter(|_| cq.poll().expect("valid").is_some()).count()
        });
        let verbs = section.verbs();
        let cq = verbs.completion_queue(section.id(0)).expect("there");
        let rest = core::iter::from_fn(|| cq.poll().expect("valid")).map(|found| found.id).collect::<Vec<_>>();
        assert!([0, 1, 2, 3].ends_with(&rest), "{rest:?} after {stores} stores");
        assert_eq!(section.window.word(CQ_CI).expect("inside").load(), ring_of_completions(&section).taken(4));
        (0..4).for_each(|id| post(id).expect("all are free"));
        if run.is_some() {
            assert!(rest.is_empty());
            break;
        }
        assert!(stores < 100);
    }
}

/// A handle that is kept over a reset, as a task keeps it over a wait.
#[test]
fn a_handle_of_what_was_reset_is_stale() {
    let section = Section::new(2, 3);
    section.connect();
    let verbs = section.verbs();
    let [_, cq, a, _, srq, ..] = section.objects[..] else { panic!("objects") };
    assert_eq!(srq.kind, Kind::SHARED_RECEIVE_QUEUE);
    let qp = verbs.queue_pair(section.id(0)).expect("there");
    let shared = verbs.shared_receive_queue(section.id(0)).expect("there");
    let queue = verbs.completion_queue(section.id(0)).expect("there");
    qp.post(&SendWr::inline(9, &[])).expect("room");
    complete(&section, 0, &sent(9, 1));
    assert!(queue.poll().is_ok_and(|found| found.is_some()));
    [a, srq, cq].iter().for_each(|object| reset(&section, object));
    let taken = section.window.word(word_of(CQ_CI, 0)).expect("inside");
    taken.publish(0);
    assert_eq!(qp.state(), Err(VerbsError::Stale));
    assert_eq!(qp.post(&SendWr::inline(1, &[])), Err(VerbsError::Stale));
    assert_eq!(qp.receive(1, &[]), Err(VerbsError::Stale));
    assert_eq!(shared.receive(1, &[]), Err(VerbsError::Stale));
    assert_eq!((queue.poll(), taken.load()), (Err(VerbsError::Stale), 0), "of the next one nothing was taken");
    // Nor may it garble what the next one has posted.
    let next = verbs.queue_pair(section.id_of(0, 2)).expect("there");
    assert_eq!(next.post(&SendWr::inline(2, &[])), Ok(()));
    assert_eq!(qp.post(&SendWr::inline(1, &[])), Err(VerbsError::Stale));
}

/// A reset's new state is there before its object: it is none of the former.
#[test]
fn a_state_is_of_one_generation() {
    let section = Section::new(2, 3);
    section.connect();
    let verbs = section.verbs();
    let qp = verbs.queue_pair(section.id(0)).expect("there");
    assert_eq!(qp.state(), Ok(QpState::RTS));
    assert_eq!([QpState::INIT.word(2), QpState::ERR.word(u16::MAX)], [0x2_0001, 0xFFFF_0006]);
    section.window.word(QP_STATE).expect("inside").publish(QpState::INIT.word(2));
    assert_eq!(qp.state(), Err(VerbsError::Stale));
    assert_eq!(qp.post(&SendWr::inline(1, &[])), Err(VerbsError::Stale));
    assert_eq!(qp.receive(1, &[]), Err(VerbsError::Stale));
}

/// The host destroys a queue while a handler takes what is in it, and makes another one there: once, and as often as tags begin
/// again.
#[test]
fn a_completion_of_a_queue_that_was_replaced_is_not_taken() {
    let section = Section::new(2, 3);
    let cq = section.objects[1];
    let taken = || section.window.word(CQ_CI).expect("inside").load();
    let ending = Ending::whole(&section.window);
    let verbs = section.over(&ending);
    let queue = verbs.completion_queue(section.id(0)).expect("there");
    complete(&section, 0, &sent(9, 1));
    ending.change_before(None, || reset(&section, &cq));
    assert_eq!((queue.poll(), taken()), (Err(VerbsError::Stale), 0));
    section.replace(&Object { generation: 256, ..cq });
    complete(&section, 0, &sent(9, 1));
    assert_eq!((queue.poll(), taken()), (Err(VerbsError::Stale), 0));
}

/// A queue overruns behind a look that has found nothing: what came before is there.
#[test]
fn completions_before_an_overrun_are_found() {
    let section = Section::new(2, 3);
    section.connect();
    let ending = Ending::whole(&section.window);
    let verbs = section.over(&ending);
    let (qp, cq) = (verbs.queue_pair(section.id(0)), verbs.completion_queue(section.id(0)).expect("there"));
    qp.and_then(|qp| qp.post(&SendWr::inline(5, &[]))).expect("room");
    ending.change_before(Some(CQ_STATE), || {
        complete(&section, 0, &sent(5, 1));
        section.window.word(CQ_STATE).expect("inside").publish(1);
    });
    assert_eq!(cq.poll().map(|found| found.map(|found| found.id)), Ok(Some(5)));
    assert_eq!(cq.poll(), Err(VerbsError::Overrun));
}

/// The count of handles does not come round to none.
#[test]
fn handles_without_end_are_refused() {
    let section = Section::new(2, 3);
    let count = section.window.word(word_of(REGION_HANDLES, 0)).expect("inside");
    count.publish(u32::MAX);
    let verbs = section.verbs();
    assert_eq!(verbs.region(section.id(0)).err(), Some(VerbsError::Full));
    assert_eq!(count.load(), u32::MAX);
}

/// The host resets a queue pair while a handler opens it.
#[test]
fn an_object_that_changes_while_it_is_opened_is_stale() {
    let section = Section::new(2, 3);
    let pair = section.objects[2];
    let changing = Ending::whole(&section.window);
    changing.change_before(None, || reset(&section, &pair));
    assert_eq!(section.over(&changing).queue_pair(section.id(0)).err(), Some(VerbsError::Stale));
    assert!(section.verbs().queue_pair(section.id_of(0, 2)).is_ok());
}

/// H1, of the first use behind a reset: completions of the former generation free nothing, and are none of a liar.
#[test]
fn an_opening_that_is_ended_leaves_old_completions_whole() {
    for stores in 0.. {
        let section = Section::new(2, 3);
        section.connect();
        let srq = *section.objects.iter().find(|object| object.kind == Kind::SHARED_RECEIVE_QUEUE).expect("one");
        {
            let verbs = section.verbs();
            let qp = verbs.queue_pair(section.id(0)).expect("there");
            (0..3).for_each(|id| qp.post(&SendWr::inline(id, &[])).expect("room"));
            let shared = verbs.shared_receive_queue(section.id(0)).expect("there");
            (0..3).for_each(|id| shared.receive(id, &[]).expect("room"));
        }
        let received = CompletionEntry { opcode: WcOpcode::RECV, srq: 1, qp: 2, ..sent(9, 3) };
        complete(&section, 0, &sent(2, 3));
        complete(&section, 1, &received);
        [section.objects[2], srq].iter().for_each(|object| reset(&section, object));
        let run = Ending::run(&section.window, stores, |ending| {
            let verbs = section.over(ending);
            (verbs.queue_pair(section.id_of(0, 2)).is_ok(), verbs.shared_receive_queue(section.id_of(0, 2)).is_ok())
        });
        let verbs = section.verbs();
        let cq = verbs.completion_queue(section.id(0)).expect("there");
        let found = core::iter::from_fn(|| cq.poll().expect("valid")).map(|found| found.id).collect::<Vec<_>>();
        // The queue pair's, until the next one is opened.
        assert!(found == [9] || found == [2, 9] && run.is_none(), "{found:?} after {stores} stores");
        let qp = verbs.queue_pair(section.id_of(0, 2)).expect("there");
        let room = (0..).take_while(|id| qp.post(&SendWr::inline(*id, &[])).is_ok()).count();
        let shared = verbs.shared_receive_queue(section.id_of(0, 2)).expect("there");
        let shared_room = (0..).take_while(|id| shared.receive(*id, &[]).is_ok()).count();
        assert_eq!((room, shared_room), (4, 4), "after {stores} stores");
        if let Some(opened) = run {
            assert_eq!(opened, (true, true));
            break;
        }
        assert!(stores < 200);
    }
}

/// H20.
#[test]
fn positions_wrap() {
    let section = Section::new(1, 1);
    section.connect();
    section.start_at(u32::MAX - 2, u32::MAX - 1);
    let verbs = section.verbs();
    let (qp, cq) =
        (verbs.queue_pair(section.id(0)).expect("there"), verbs.completion_queue(section.id(0)).expect("there"));
    for i in 0..6_u32 {
        qp.post(&SendWr::inline(i.into(), &[])).expect("room");
        complete(&section, (u32::MAX - 1).wrapping_add(i), &sent(i.into(), (u32::MAX - 1).wrapping_add(i)));
        assert_eq!(cq.poll().map(|found| found.map(|found| found.id)), Ok(Some(i.into())));
    }
}

#[test]
fn objects_that_leave_the_section_do_not_fit() {
    let section = Section::new(1, 1);
    let end = section.window.len();
    for object in &section.objects {
        assert!(object.fits(end) && !object.fits(object.off));
        for off in [0, ARENA - LINE, ARENA + 1, end, u64::MAX, u64::MAX - 63, 1 << 63] {
            assert!(!Object { off, ..*object }.fits(end), "{off:#x} of {object:?}");
        }
        for log2 in [10, 63, 64, 255] {
            assert!(object.len != 0 || !Object { log2, ..*object }.fits(end));
        }
    }
    for (len, iova) in [(end, 0), (u64::MAX, 0), (REGION, u64::MAX)] {
        assert!(!Object { len, iova, ..section.objects[0] }.fits(end));
    }
    assert!(
        [1, 255, 256, u16::MAX].map(|generation| Object { generation, ..Object::default() }.tag()) == [1, 255, 1, 255]
    );
}

/// All before the arena.
fn front_of(window: &Window<Private>) -> Vec<u8> {
    let mut bytes = vec![0; ARENA as usize];
    window.read_bytes(0, &mut bytes).expect("inside");
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// H15: whatever host and adapter write, a device does not panic, and writes its words and its arena only.
    #[test]
    fn a_device_survives_any_bytes(
        lies in proptest::collection::vec((0..(ARENA + 0x400) / 4, any::<u32>(), 0..8_u8), 1..60),
    ) {
        let section = Section::new(2, 3);
        section.connect();
        let objects: Vec<u64> = section.objects.iter().filter_map(|object| object.kind.place(object.index)).collect();
        for (n, (at, value, what)) in lies.into_iter().enumerate() {
            // Mostly in objects and near to what is right there, else all ends at once.
            let at = match what {
                0..4 => objects[n % objects.len()] + at % 15 * 4,
                4 => word_of(QP_STATE, (at % 2) as u16),
                5 => section.objects[1].off + at % 128 * 4,
                _ => at * 4,
            };
            let value = if what % 2 == 0 { value } else { value % 0x600 };
            section.window.word(at).expect("inside").store(value);
            if section.window.word(FABRIC_STATE).expect("inside").load() == 0 {
                section.window.word(FABRIC_STATE).expect("inside").store(FabricState::ATTACHED.0);
            }
            let before = front_of(&section.window);
            let verbs = section.verbs();
            let mut out = [0; 16];
            let part = verbs.region(section.id::<MrId>(0)).and_then(|region| {
                let _ = (region.copy_in(value.into(), &out), region.copy_out(region.len().wrapping_sub(3), &mut out));
                region.part(0..u64::from(value))
            });
            let part = part.ok();
            for index in 0..4 {
                if let Ok(qp) = verbs.queue_pair(section.id::<QpId>(index)) {
                    let _ = (qp.receive(1, part.as_slice()), qp.post(&SendWr::send(2, part.as_slice())));
                    let remote = Remote { addr: at, rkey: value };
                    let _ = (qp.post(&SendWr::inline(3, &out).to(remote).imm(value).quiet()), qp.state());
                    let _ = part.map(|part| qp.post(&SendWr::compare_swap(4, part, remote, at, at)));
                }
            }
            if let Ok(srq) = verbs.shared_receive_queue(section.id::<SrqId>(0)) {
                let _ = (srq.receive(5, part.as_slice()), srq.receive(6, &[]));
            }
            if let Ok(region) = verbs.region(section.id::<MrId>(0)) {
                let _ = (region.is_written(0..u64::from(value)), region.is_written(at..region.len()));
                let _ = (region.watch(value.into()), region.atomic(value.into(), AtomicOp::Add(1)), region.remote(at));
            }
            if let Ok(cq) = verbs.completion_queue(section.id::<CqId>(0)) {
                let _ = (cq.poll(), cq.poll());
            }
            let after = front_of(&section.window);
            let own = CQ_CI as usize..CQ_CI as usize + 0x1000;
            prop_assert!(before[..own.start] == after[..own.start] && before[own.end..] == after[own.end..]);
        }
    }
}
