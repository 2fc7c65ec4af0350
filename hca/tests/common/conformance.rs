//! What queue pairs do, on any device: the tests of `rdma-core/tests` (pyverbs) by their names, where they apply. Each
//! row posts and polls by handlers on the device, and makes and destroys its objects.
//!
//! Not here: memory windows, extended and raw queue pairs, UC, XRC, on-demand paging, device memory, events of queues,
//! resizing, `test_atomic_invalid_qp_access` (queue pairs have no rights of their own).

use super::{next_of, open, work};
use hamr::{CallError, Node};
use hamr_comm::abi::status::Status;
use hamr_verbs::handlers::{Found, Part, Work, add_both_ways, post, receive, receive_shared, watch_writes};
use hamr_verbs::host::{Fabric, FabricError, Path, QpPlan, Region, Wire};
use hamr_verbs::wire::{Access, Opcode, WcOpcode, WcStatus};
use hamr_verbs::{CqId, QpId, Remote, SrqId};

const RIGHTS: Access = Access(15);

/// Two queue pairs that are connected, each with a region.
struct Players<'n> {
    node: &'n Node,
    fabric: &'n Fabric,
    cq: CqId,
    srq: Option<SrqId>,
    regions: [Region; 2],
    qps: [QpId; 2],
}

impl<'n> Players<'n> {
    fn new(node: &'n Node, fabric: &'n Fabric, rights: Access, has_srq: bool) -> Self {
        let cq = fabric.completion_queue(32).expect("room");
        let srq = has_srq.then(|| fabric.shared_receive_queue(8).expect("room"));
        let regions = [RIGHTS, rights].map(|rights| fabric.region(4096, rights).expect("room"));
        let plan = QpPlan { srq, sends: 8, receives: 8, rnr_retry: Some(6), ..QpPlan::new(cq) };
        let qps = [0, 1].map(|_| fabric.queue_pair(&plan).expect("room"));
        connect(fabric, qps);
        Self { node, fabric, cq, srq, regions, qps }
    }

    fn part(&self, player: usize, at: u64, len: u32) -> Part {
        Part { region: self.regions[player].id(), at, len }
    }

    /// A request of the first player: eight bytes from 0 on, at the second one from 64 on.
    fn work(&self, id: u64, opcode: Opcode) -> Work {
        work(id, opcode, self.part(0, 0, 8), self.regions[1].remote(64))
    }

    fn post(&self, work: Work) {
        self.node.sync(post::with(self.qps[0], work)).expect("room");
    }

    fn receive(&self, player: usize, id: u64, into: Part) {
        match self.srq {
            Some(srq) => self.node.sync(receive_shared::with(srq, id, into)).expect("room"),
            None => self.node.sync(receive::with(self.qps[player], id, into)).expect("room"),
        }
    }

    fn next(&self) -> Found {
        next_of(self.node, self.cq)
    }

    /// The next completion is this one.
    fn expect(&self, id: u64, opcode: WcOpcode, bytes: u32, immediate: Option<u32>) {
        let status = WcStatus::SUCCESS.0;
        assert_eq!(self.next(), Found { id, status, opcode: opcode.0, bytes, immediate });
    }

    fn fails(&self, id: u64, status: WcStatus) {
        let found = self.next();
        assert_eq!((found.id, WcStatus(found.status)), (id, status));
    }

    fn put(&self, player: usize, at: u64, bytes: &[u8]) {
        self.regions[player].put(at, bytes).expect("inside");
    }

    fn sees(&self, player: usize, at: u64, bytes: &[u8]) {
        let mut seen = vec![0; bytes.len()];
        self.regions[player].get(at, &mut seen).expect("inside");
        assert_eq!(seen, bytes);
    }

    fn value(&self, player: usize, at: u64) -> u64 {
        let mut seen = [0; 8];
        self.regions[player].get(at, &mut seen).expect("inside");
        u64::from_le_bytes(seen)
    }

    fn close(self) {
        let Self { fabric, cq, srq, regions, qps, .. } = self;
        // A row may have reset and destroyed them: then these names are of no object.
        for qp in qps {
            match fabric.destroy_queue_pair(qp) {
                Ok(()) => assert!(matches!(fabric.destroy_queue_pair(qp), Err(FabricError::Foreign))),
                Err(why) => assert!(matches!(why, FabricError::Foreign)),
            }
        }
        srq.into_iter().for_each(|srq| fabric.destroy_shared_receive_queue(srq).expect("not in use"));
        fabric.destroy_completion_queue(cq).expect("not in use");
        regions.into_iter().for_each(|region| region.deregister().expect("there"));
    }
}

/// Connects two queue pairs of one adapter, over its wire to others if it has one.
fn connect(fabric: &Fabric, [a, b]: [QpId; 2]) {
    match fabric.endpoint(a) {
        Err(FabricError::NoWire) => fabric.connect(a, b).expect("they are not connected"),
        endpoint => {
            let endpoints = [endpoint, fabric.endpoint(b)].map(|endpoint| endpoint.expect("there"));
            for (qp, peer) in [(a, &endpoints[1]), (b, &endpoints[0])] {
                fabric.connect_remote(qp, peer, &Path::default()).expect("it is not connected");
            }
        }
    }
}

type Body = fn(&Players<'_>);

const ROWS: &[(&str, Body)] = &[
    ("test_qp_ex_rc_send", |p| {
        p.put(0, 0, b"hellohel");
        p.receive(1, 1, p.part(1, 64, 100));
        p.post(p.work(2, Opcode::SEND));
        p.expect(1, WcOpcode::RECV, 8, None);
        p.expect(2, WcOpcode::SEND, 0, None);
        p.sees(1, 64, b"hellohel\0");
    }),
    ("test_qp_ex_rc_send_imm", |p| {
        p.receive(1, 1, p.part(1, 64, 8));
        p.post(Work { immediate: Some(0x8000_0001), ..p.work(2, Opcode::SEND) });
        p.expect(1, WcOpcode::RECV, 8, Some(0x8000_0001));
        p.expect(2, WcOpcode::SEND, 0, None);
    }),
    ("test_qp_ex_rc_rdma_write", |p| {
        p.put(0, 0, b"writewri");
        p.post(p.work(1, Opcode::WRITE));
        p.expect(1, WcOpcode::WRITE, 0, None);
        p.sees(1, 64, b"writewri\0");
    }),
    ("test_qp_ex_rc_rdma_write_imm", |p| {
        p.put(0, 0, b"writewri");
        p.receive(1, 1, p.part(1, 0, 8));
        p.post(Work { immediate: Some(0), ..p.work(2, Opcode::WRITE) });
        p.expect(1, WcOpcode::RECV_WITH_IMM, 8, Some(0));
        p.expect(2, WcOpcode::WRITE, 0, None);
        p.sees(1, 64, b"writewri");
        p.sees(1, 0, &[0; 8]);
    }),
    ("test_qp_ex_rc_rdma_write_zero_length", |p| {
        p.post(Work { local: p.part(0, 0, 0), remote: Remote { addr: 1, rkey: 2 }, ..p.work(1, Opcode::WRITE) });
        p.expect(1, WcOpcode::WRITE, 0, None);
    }),
    ("test_qp_ex_rc_rdma_read", |p| {
        p.put(1, 64, b"readread");
        p.post(p.work(1, Opcode::READ));
        p.expect(1, WcOpcode::READ, 8, None);
        p.sees(0, 0, b"readread\0");
    }),
    ("test_qp_ex_rc_rdma_read_zero_size", |p| {
        p.post(Work { local: p.part(0, 0, 0), ..p.work(1, Opcode::READ) });
        p.expect(1, WcOpcode::READ, 0, None);
    }),
    ("test_qp_ex_rc_atomic_cmp_swp", |p| {
        p.put(1, 64, &7_u64.to_le_bytes());
        for (operands, before) in [([7, 1 << 40], 7), ([7, 3], 1 << 40), ([1 << 40, 5], 1 << 40)] {
            p.post(Work { operands, ..p.work(1, Opcode::COMPARE_SWAP) });
            p.expect(1, WcOpcode::COMPARE_SWAP, 8, None);
            assert_eq!(p.value(0, 0), before);
        }
        assert_eq!(p.value(1, 64), 5);
    }),
    ("test_qp_ex_rc_atomic_fetch_add", |p| {
        for (before, add) in [(0, u64::MAX), (u64::MAX, 3), (2, 1 << 63)] {
            p.post(Work { operands: [add, 0], ..p.work(1, Opcode::FETCH_ADD) });
            p.expect(1, WcOpcode::FETCH_ADD, 8, None);
            assert_eq!(p.value(0, 0), before);
        }
        assert_eq!(p.value(1, 64), (1 << 63) + 2);
    }),
    ("test_atomic_non_aligned_addr", |p| {
        p.post(Work { remote: p.regions[1].remote(65), ..p.work(1, Opcode::FETCH_ADD) });
        p.fails(1, WcStatus::REM_INV_REQ_ERR);
    }),
    ("test_atomic_invalid_lkey", |p| {
        p.post(Work { wrong_key: 1 << 8, operands: [1, 0], ..p.work(1, Opcode::FETCH_ADD) });
        p.fails(1, WcStatus::LOC_PROT_ERR);
        assert_eq!(p.value(1, 64), 0);
    }),
    ("test_atomic_invalid_rkey", |p| {
        let remote = p.regions[1].remote(64);
        p.post(Work { remote: Remote { rkey: remote.rkey ^ 1 << 8, ..remote }, ..p.work(1, Opcode::FETCH_ADD) });
        p.fails(1, WcStatus::REM_ACCESS_ERR);
    }),
    ("rnr: a send without a receive request", |p| {
        p.post(p.work(1, Opcode::SEND));
        p.fails(1, WcStatus::RNR_RETRY_EXC_ERR);
    }),
    ("length: a message that is longer than its receive request", |p| {
        p.receive(1, 1, p.part(1, 0, 7));
        p.receive(1, 2, p.part(1, 0, 8));
        p.post(p.work(3, Opcode::SEND));
        p.fails(1, WcStatus::LOC_LEN_ERR);
        // The requester learns of it by itself.
        let mut found = [p.next(), p.next()].map(|found| (found.id, WcStatus(found.status)));
        found.sort();
        assert_eq!(found, [(2, WcStatus::WR_FLUSH_ERR), (3, WcStatus::REM_INV_REQ_ERR)]);
        p.post(p.work(4, Opcode::SEND));
        p.fails(4, WcStatus::WR_FLUSH_ERR);
    }),
    ("test_modify_qp: to ERR, then to RESET, and on from there", |p| {
        p.receive(1, 1, p.part(1, 0, 8));
        p.fabric.set_error(p.qps[1]).expect("there");
        p.fails(1, WcStatus::WR_FLUSH_ERR);
        p.post(p.work(2, Opcode::SEND));
        p.fails(2, WcStatus::RETRY_EXC_ERR);
        let [a, b] = [0, 1].map(|qp| p.fabric.reset(p.qps[qp]).expect("there"));
        let stale = p.node.sync(post::with(p.qps[0], p.work(3, Opcode::WRITE)));
        assert!(matches!(stale, Err(CallError::Fault(fault)) if fault.status == Status::VERBS));
        assert!(matches!(p.fabric.reset(p.qps[0]), Err(FabricError::Foreign)));
        connect(p.fabric, [a, b]);
        p.node.sync(post::with(a, p.work(4, Opcode::WRITE))).expect("room");
        p.expect(4, WcOpcode::WRITE, 0, None);
        [a, b].into_iter().for_each(|qp| p.fabric.destroy_queue_pair(qp).expect("there"));
    }),
    ("quiet requests", |p| {
        for id in 0..20 {
            let is_quiet = id % 7 != 6;
            p.put(0, 0, &[id as u8; 8]);
            p.post(Work { is_quiet, ..p.work(id, Opcode::WRITE) });
            if !is_quiet {
                p.expect(id, WcOpcode::WRITE, 0, None);
                p.sees(1, 64, &[id as u8; 8]);
            }
        }
        p.post(p.work(20, Opcode::READ));
        p.expect(20, WcOpcode::READ, 8, None);
    }),
    ("paper: the receiver looks at the last byte", |p| {
        let call = watch_writes::with(p.qps[0], p.cq, p.regions[0].id(), 1001, 1000);
        p.node.sync(call).expect("each comes whole");
    }),
    ("atomics are one with those of the device", |p| {
        let own = p.node.sync(add_both_ways::with(p.qps[0], p.cq, p.regions[0].id(), 64, 1000)).expect("all come");
        assert_eq!(p.value(0, 64), (own << 32) + 1000);
    }),
];

/// Rows of a second player whose region has these rights only.
const RIGHTS_ROWS: &[(&str, Access, Body)] = &[
    ("test_atomic_invalid_mr_access", Access(7), |p| {
        p.post(p.work(1, Opcode::FETCH_ADD));
        p.fails(1, WcStatus::REM_ACCESS_ERR);
    }),
    ("a write without REMOTE_WRITE", Access(13), |p| {
        p.post(p.work(1, Opcode::WRITE));
        p.fails(1, WcStatus::REM_ACCESS_ERR);
        p.sees(1, 64, &[0; 8]);
    }),
    ("a read without REMOTE_READ", Access(11), |p| {
        p.post(p.work(1, Opcode::READ));
        p.fails(1, WcStatus::REM_ACCESS_ERR);
    }),
];

fn run(node: &Node, fabric: &Fabric, name: &str, rights: Access, has_srq: bool, body: Body) {
    println!("{name}");
    let players = Players::new(node, fabric, rights, has_srq);
    body(&players);
    players.close();
}

/// All rows on one device, whose queue pairs are connected over a wire.
pub(crate) fn conforms(device: &str, wire: &Wire) {
    let node = open(device, 1 << 20);
    let fabric = Fabric::open_with(&node, wire).expect("an adapter");
    for (name, body) in ROWS {
        run(&node, &fabric, name, RIGHTS, false, *body);
    }
    for (name, rights, body) in RIGHTS_ROWS {
        run(&node, &fabric, name, *rights, false, *body);
    }
    run(&node, &fabric, "test_rc_srq_traffic", RIGHTS, true, |p| {
        for round in 0..100 {
            p.receive(1, 2 * round, p.part(1, 0, 8));
            p.post(Work { immediate: Some(round as u32), ..p.work(2 * round + 1, Opcode::SEND) });
            p.expect(2 * round, WcOpcode::RECV, 8, Some(round as u32));
            p.expect(2 * round + 1, WcOpcode::SEND, 0, None);
        }
        let call = receive::with(p.qps[1], 1, p.part(1, 0, 8));
        assert!(matches!(p.node.sync(call), Err(CallError::Fault(fault)) if fault.status == Status::VERBS));
    });
    println!("test_reg_mr, test_reg_mr_bad_flags, test_dereg_mr");
    for access in 0..17 {
        let is_valid = access < 16 && (access & 10 == 0 || access & 1 == 1);
        match fabric.region(64, Access(access)) {
            Ok(region) if is_valid => region.deregister().expect("there"),
            Err(FabricError::Refused(_)) if !is_valid => {}
            other => panic!("rights {access}: {:?}", other.err()),
        }
    }
    println!("objects that others name are not destroyed");
    let p = Players::new(&node, &fabric, RIGHTS, true);
    let refused = [fabric.destroy_completion_queue(p.cq), fabric.destroy_shared_receive_queue(p.srq.expect("made"))];
    assert!(refused.iter().all(|refused| matches!(refused, Err(FabricError::Refused(_)))));
    p.close();
    println!("test_create_cq, test_create_cq_bad_flow");
    for entries in [1, 255, 511] {
        fabric.completion_queue(entries).and_then(|cq| fabric.destroy_completion_queue(cq)).expect("room");
    }
    for entries in [0, 512, u32::MAX] {
        assert!(matches!(fabric.completion_queue(entries), Err(FabricError::Limit { .. })));
    }
    // Queues of the same size use the same memory again, as often as they are made.
    let cq = fabric.completion_queue(10).expect("room");
    for _ in 0..300 {
        let qp = fabric.queue_pair(&QpPlan { sends: 512, receives: 512, ..QpPlan::new(cq) }).expect("room");
        fabric.destroy_queue_pair(qp).expect("there");
    }
}
