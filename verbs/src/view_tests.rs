//! Which memory the requests that are posted may still write: each way to write, each way to end.

use crate::testing::{Ending, REGION, Section};
use crate::tests::{complete, sent, taken};
use crate::wire::{CompletionEntry, FABRIC_STATE, FabricState, Kind, Object, Sge, WORD, WcOpcode};
use crate::{MemoryRegion, QueuePair, Remote, SendWr, SharedReceiveQueue, Verbs, VerbsError, memory::Memory};
use hamr_comm::abi::window::{Private, Window};
use proptest::prelude::*;
use std::vec::Vec;

const NOWHERE: Remote = Remote { addr: 0, rkey: 0 };

fn region<'v, M: Memory>(section: &Section, verbs: &'v Verbs<'_, M>) -> MemoryRegion<'v, M> {
    verbs.region(section.id(0)).expect("there")
}

fn pair<'v, M: Memory>(section: &Section, verbs: &'v Verbs<'_, M>) -> QueuePair<'v, M> {
    verbs.queue_pair(section.id(0)).expect("there")
}

fn shared<'v, M: Memory>(section: &Section, verbs: &'v Verbs<'_, M>) -> SharedReceiveQueue<'v, M> {
    verbs.shared_receive_queue(section.id(0)).expect("there")
}

fn is_written(section: &Section, range: core::ops::Range<u64>) -> bool {
    region(section, &section.verbs()).is_written(range).expect("valid")
}

fn receive_done(retired: u32) -> CompletionEntry {
    CompletionEntry { opcode: WcOpcode::RECV, retired, generation: 1, ..CompletionEntry::default() }
}

type Post = fn(&QueuePair<'_, Window<Private>>, &SharedReceiveQueue<'_, Window<Private>>, Sge, Sge);

/// Each way to have eight bytes written, with others that come first where there can be such, and its completion.
fn ways() -> Vec<(&'static str, Post, CompletionEntry)> {
    let read = |opcode| CompletionEntry { opcode, ..sent(1, 1) };
    let own = receive_done(1);
    [
        ("receive", (|qp, _, sge, _| qp.receive(1, &[sge]).expect("room")) as Post, own),
        ("receive, second part", |qp, _, sge, other| qp.receive(1, &[other, sge]).expect("room"), own),
        ("shared receive", |_, srq, sge, _| srq.receive(1, &[sge]).expect("room"), taken(1, 1, 1)),
        (
            "shared receive, second part",
            |_, srq, sge, other| srq.receive(1, &[other, sge]).expect("room"),
            taken(1, 1, 1),
        ),
        ("read", |qp, _, sge, _| qp.post(&SendWr::read(1, &[sge], NOWHERE)).expect("room"), read(WcOpcode::READ)),
        (
            "read, fifth part",
            |qp, _, sge, other| qp.post(&SendWr::read(1, &[other, other, other, other, sge], NOWHERE)).expect("room"),
            read(WcOpcode::READ),
        ),
        (
            "fetch and add",
            |qp, _, sge, _| qp.post(&SendWr::fetch_add(1, sge, NOWHERE, 1)).expect("room"),
            read(WcOpcode::FETCH_ADD),
        ),
        (
            "compare and swap",
            |qp, _, sge, _| qp.post(&SendWr::compare_swap(1, sge, NOWHERE, 1, 2)).expect("room"),
            read(WcOpcode::COMPARE_SWAP),
        ),
        (
            "quiet read",
            |qp, _, sge, _| {
                qp.post(&SendWr::read(1, &[sge], NOWHERE).quiet()).expect("room");
                qp.post(&SendWr::inline(2, &[])).expect("room");
            },
            sent(2, 2),
        ),
    ]
    .into()
}

#[test]
fn memory_is_written_until_the_completion_is_taken() {
    for (way, post, done) in ways() {
        let section = Section::new(2, 3);
        section.connect();
        let verbs = section.verbs();
        let (qp, srq, memory) = (pair(&section, &verbs), shared(&section, &verbs), region(&section, &verbs));
        let part = |from, to| memory.part(from..to).expect("inside");
        assert!(!is_written(&section, 0..REGION));
        post(&qp, &srq, part(100, 108), part(200, 201));
        let is_open = |is_open| {
            for range in [100..108, 107..108, 0..101, 0..REGION, 96..104] {
                assert_eq!(memory.is_written(range.clone()), Ok(is_open), "{way}: {range:?}");
            }
            for range in [0..100, 108..200, 201..REGION, 104..104, 0..0] {
                assert_eq!(memory.is_written(range.clone()), Ok(false), "{way}: {range:?}");
            }
        };
        is_open(true);
        complete(&section, 0, &done);
        is_open(true);
        let taken = verbs.completion_queue(section.id(0)).and_then(|cq| cq.poll()).expect("valid");
        assert!(taken.is_some(), "{way}");
        is_open(false);
        // A hundred more of each, over all places of the rings.
        for x in 1..100 {
            post(&qp, &srq, part(100, 108), part(200, 201));
            is_open(true);
            let retired = done.retired * (x + 1);
            complete(&section, x, &CompletionEntry { retired, ..done });
            verbs.completion_queue(section.id(0)).and_then(|cq| cq.poll()).expect("valid");
            is_open(false);
        }
    }
}

#[test]
fn what_only_reads_or_has_no_bytes_there_writes_nothing() {
    let section = Section::new(3, 3);
    section.connect();
    let verbs = section.verbs();
    let (qp, memory) = (pair(&section, &verbs), region(&section, &verbs));
    let part = |from, to| memory.part(from..to).expect("inside");
    qp.post(&SendWr::send(1, &[part(100, 108)])).expect("room");
    qp.post(&SendWr::write(2, &[part(100, 108)], NOWHERE).imm(1)).expect("room");
    qp.post(&SendWr::inline(3, &[1; 92])).expect("room");
    qp.receive(4, &[part(100, 100)]).expect("room");
    qp.receive(5, &[Sge { lkey: 1, ..part(100, 108) }]).expect("room");
    assert_eq!(memory.is_written(0..REGION), Ok(false));
    assert_eq!(memory.is_written(0..REGION + 1), Err(VerbsError::Length));
}

/// The adapter's words decide: what it has ended, or it itself, writes no more; what it was asked for in vain may.
#[test]
fn an_object_that_has_ended_writes_nothing() {
    let kinds = [(Kind::QUEUE_PAIR, 0), (Kind::QUEUE_PAIR, 4), (Kind::SHARED_RECEIVE_QUEUE, 2)];
    for (kind, way) in kinds {
        let section = Section::new(2, 3);
        section.connect();
        let verbs = section.verbs();
        let (qp, srq, memory) = (pair(&section, &verbs), shared(&section, &verbs), region(&section, &verbs));
        let part = |from, to| memory.part(from..to).expect("inside");
        (ways()[way].1)(&qp, &srq, part(0, 8), part(9, 9));
        let object = *section.objects.iter().find(|object| object.kind == kind).expect("one");
        let word = section.window.word(kind.place(0).expect("there") + WORD).expect("inside");
        let state = section.window.word(FABRIC_STATE).expect("inside");
        for (value, is_open) in
            [(Object::given_up(1), true), (0, false), (Object::live(2), false), (Object::live(1), true)]
        {
            word.publish(value);
            assert_eq!(memory.is_written(0..8), Ok(is_open), "{kind:?}: {value}");
        }
        state.publish(FabricState::LOST.0);
        assert_eq!(memory.is_written(0..8), Ok(false));
        state.publish(FabricState::ATTACHED.0);
        section.replace(&Object { generation: 2, ..object });
        assert_eq!(memory.is_written(0..8), Ok(false), "{kind:?}");
        assert_eq!(srq.receive(1, &[]).is_ok(), kind == Kind::QUEUE_PAIR);
    }
}

/// H1: after an end at any store, memory is written if a request for it was published.
#[test]
fn a_request_whose_post_was_ended_is_found() {
    for way in [0, 2, 4, 7] {
        let mut ends = [0, 0];
        for stores in 0.. {
            let section = Section::new(1, 3);
            section.connect();
            let run = Ending::run(&section.window, stores, |ending| {
                let verbs = section.over(ending);
                let part = |at| region(&section, &verbs).part(at..at + 8).expect("inside");
                let (qp, srq) = (pair(&section, &verbs), shared(&section, &verbs));
                for at in [0, 8] {
                    match way {
                        0 => qp.receive(1, &[part(at)]),
                        2 => srq.receive(1, &[part(at)]),
                        4 => qp.post(&SendWr::read(1, &[part(at)], NOWHERE)),
                        _ => qp.post(&SendWr::compare_swap(1, part(at), NOWHERE, 1, 2)),
                    }
                    .expect("room");
                }
            });
            let index = if way == 2 { 4 } else { 2 };
            let Object { off, receive_off, .. } = section.objects[index];
            let (off, lines) = match way {
                0 => (receive_off, 1),
                2 => (off, 1),
                _ => (off, 2),
            };
            let ring = crate::ring::Ring::new(off, 1, lines, 1);
            for (x, at) in [(0, 0), (1, 8)] {
                let is_there = section.window.word(ring.word(x)).expect("inside").load() == ring.expected(x);
                assert_eq!(is_written(&section, at..at + 8), is_there, "way {way}, {stores} stores");
                ends[usize::from(is_there)] += 1;
            }
            if run.is_some() {
                break;
            }
            assert!(stores < 100);
        }
        assert!(ends.iter().all(|count| *count > 2), "{ends:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    /// Of receives that complete in any order, and near to the end of the numbers of others, exactly those that are posted are
    /// found.
    #[test]
    fn what_is_posted_is_found(steps in proptest::collection::vec((0..4_u8, any::<u8>()), 1..200)) {
        let section = Section::new(4, 9);
        section.connect();
        section.start_at(u32::MAX - 20, u32::MAX - 30);
        let verbs = section.verbs();
        let (qp, srq, memory) = (pair(&section, &verbs), shared(&section, &verbs), region(&section, &verbs));
        let cq = verbs.completion_queue(section.id(0)).expect("there");
        // Of a queue pair and of the shared queue: positions that are posted, with their bytes.
        let (mut own, mut all) = (Vec::new(), Vec::new());
        let (mut own_x, mut all_x, mut x) = (u32::MAX - 20, 0_u32, u32::MAX - 30);
        for (what, n) in steps {
            let at = u64::from(n) % 32 * 4;
            let part = [memory.part(at..at + 4).expect("inside")];
            let done = match what {
                0 => {
                    if qp.receive(1, &part).is_ok() {
                        own.push((own_x, at));
                        own_x = own_x.wrapping_add(1);
                    }
                    None
                }
                1 => {
                    if srq.receive(1, &part).is_ok() {
                        all.push((all_x, at));
                        all_x += 1;
                    }
                    None
                }
                2 if !own.is_empty() => Some(receive_done(own.remove(0).0.wrapping_add(1))),
                _ if !all.is_empty() => Some(taken(1, 1, all.remove(usize::from(n) % all.len()).0 + 1)),
                _ => None,
            };
            if let Some(done) = done {
                complete(&section, x, &done);
                x = x.wrapping_add(1);
                prop_assert!(cq.poll().is_ok_and(|found| found.is_some()));
            }
            for at in (0..128).step_by(4) {
                let is_posted = own.iter().chain(&all).any(|(_, posted)| *posted == at);
                prop_assert_eq!(memory.is_written(at..at + 4), Ok(is_posted));
            }
        }
    }
}
