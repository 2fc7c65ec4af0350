//! The section VERBS.

use super::*;
use hamr_verbs::ring::Ring;
use hamr_verbs::wire::{
    ARENA, Access, CQ_CI, CQ_STATE, CompletionEntry, FABRIC_EPOCH, FABRIC_STATE, HCA_EPOCH, HCA_STATE, Kind,
    MAGIC as HEAD, OBJECTS, Object, Opcode, QP_STATE, QpType, ReceiveEntry, SQ_CI, SectionHead, SendEntry, Sge,
    WcOpcode, WcStatus,
};
use zerocopy::FromZeros;

#[test]
fn verbs() {
    let id = 0x1122_3344_5566_7788;
    let live = |object: Object| Object { word: Object::live(object.generation), ..object };
    let region = Object {
        kind: Kind::REGION,
        index: 2,
        off: 0x9040,
        len: id,
        iova: 0x99AA_BBCC_DDEE_FF00,
        lkey: 0x0100_0002,
        access: Access::LOCAL_WRITE | Access::REMOTE_ATOMIC,
        generation: 3,
        ..Object::default()
    };
    let queue =
        Object { kind: Kind::COMPLETION_QUEUE, index: 1, log2: 9, off: 0xA000, generation: 1, ..Object::default() };
    let pair = Object {
        kind: Kind::QUEUE_PAIR,
        index: 4,
        log2: 5,
        receive_log2: 6,
        send_cq: 1,
        receive_cq: 2,
        off: 0xB000,
        receive_off: 0xC000,
        qp_number: 0x0102_0304,
        rnr_retry: 7,
        rnr_timer: 12,
        generation: 0x0102,
        ..Object::default()
    };
    let shared = Object { index: 5, receive_log2: 0, receive_off: 0, srq: 3, ..pair };
    let shared_queue =
        Object { kind: Kind::SHARED_RECEIVE_QUEUE, index: 2, log2: 4, off: 0xD000, generation: 1, ..Object::default() };
    let datagrams = Object { index: 6, qp_type: QpType::UD, lkey: 0x4142_4344, ..pair };
    let handle = Object { kind: Kind::ADDRESS_HANDLE, index: 7, iova: 0x0A00_0002, generation: 1, ..Object::default() };
    let parts = [(0x9040, 0x10), (0x9080, 0x20)].map(|(addr, len)| Sge { addr, len, lkey: 0x0100_0002 });
    let first = Ring::new(0, 3, 1, 1).expected(0);
    let mut send = SendEntry {
        head: SendEntry::head(Opcode::SEND, SendEntry::SIGNALED | SendEntry::TWO_LINES, 2),
        id,
        length: 0x30,
        word: first,
        ..SendEntry::new_zeroed()
    };
    send.first[..16].copy_from_slice(&wire!(parts[0]));
    send.second[..16].copy_from_slice(&wire!(parts[1]));
    let mut inline = SendEntry {
        head: SendEntry::head(Opcode::WRITE_IMM, SendEntry::INLINE, 0),
        immediate: 0x5152_5354,
        remote: 0x6162_6364_6566_6768,
        rkey: 0x7172_7374,
        id,
        length: 3,
        word: Ring::new(0, 3, 1, 255).expected(8),
        ..SendEntry::new_zeroed()
    };
    inline.first[..3].copy_from_slice(b"abc");
    let mut swap = SendEntry {
        head: SendEntry::head(Opcode::COMPARE_SWAP, SendEntry::SIGNALED | SendEntry::TWO_LINES, 1),
        length: 8,
        word: first,
        immediate: 0,
        first: [0; 28],
        ..inline
    };
    swap.first[..16].copy_from_slice(&wire!(Sge { len: 8, ..parts[0] }));
    swap.set_operands([0x8182_8384_8586_8788, 0x9192_9394_9596_9798]);
    let datagram = SendEntry {
        head: SendEntry::head(Opcode::SEND, SendEntry::SIGNALED | SendEntry::INLINE, 0),
        // Number of the queue pair, key; address handle.
        remote: 0x4142_4344_0001_0203,
        rkey: handle.handle(),
        ..inline
    };
    let receive = ReceiveEntry { sges: 2, id, sge: parts, word: first, ..ReceiveEntry::new_zeroed() };
    let completion = CompletionEntry {
        id,
        status: WcStatus(13),
        opcode: WcOpcode::RECV_WITH_IMM,
        length: 0x2122_2324,
        immediate: 0x5152_5354,
        flags: CompletionEntry::WITH_IMM,
        srq: 3,
        generation: 0x0102,
        qp_number: 0x0102_0304,
        source: 0x0506_0708,
        qp: 4,
        retired: 0x3132_3334,
        word: first,
        ..CompletionEntry::default()
    };
    let places = [FABRIC_STATE, FABRIC_EPOCH, CQ_CI, HCA_STATE, HCA_EPOCH, QP_STATE, CQ_STATE, SQ_CI, OBJECTS, ARENA];
    let words = "words: FABRIC_STATE FABRIC_EPOCH CQ_CI HCA_STATE HCA_EPOCH QP_STATE CQ_STATE SQ_CI OBJECTS ARENA";
    let parts = [
        ("head", wire!(SectionHead { magic: HEAD, version: 1 })),
        ("region", wire!(live(region))),
        ("completion queue", wire!(live(queue))),
        ("queue pair", wire!(live(pair))),
        ("queue pair with a shared receive queue", wire!(live(shared))),
        ("shared receive queue", wire!(live(shared_queue))),
        ("queue pair of datagrams", wire!(live(datagrams))),
        ("address handle", wire!(live(handle))),
        ("send of two parts", wire!(send)),
        ("quiet write of inline bytes with an immediate value", wire!(inline)),
        ("compare and swap", wire!(swap)),
        ("datagram", wire!(datagram)),
        ("receive", wire!(receive)),
        ("completion", wire!(completion)),
        (words, places.map(u64::to_le_bytes).concat()),
    ];
    let parts: Vec<_> = parts.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
    golden("verbs", "Structs and places of the section VERBS (abi §16)", &parts);
}
