//! Two devices with an adapter each, over real sockets of this machine: of UDP, and with frames.

mod common;

use common::conformance::conforms;
use common::two::{Side, connect, pair, play, side, udp};
use common::{SOON, is_gone, open, open_with};
use hamr::{CallError, Options, WaitMode};
use hamr_verbs::Remote;
use hamr_verbs::handlers::{Part, Work, post, take_all, wait_for_one};
use hamr_verbs::host::{Fabric, FabricError, Path, QpPlan, Wire};
use hamr_verbs::tools::{Load, SHARING, ping_pong, shared_ping_pong, stream, write_ping_pong};
use hamr_verbs::wire::{Access, Opcode};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

#[test]
fn queue_pairs_conform() {
    conforms("shm", &Wire::udp([127, 92, 0, 4].into()));
}

#[test]
fn two_devices_play_ping_pong_over_packets() {
    play(&pair(["shm", "shm"], &udp([[127, 0, 0, 1], [127, 0, 0, 2]], None)), 200);
}

#[test]
fn two_devices_play_ping_pong_over_a_wire_that_loses_packets() {
    play(&pair(["shm", "shm"], &udp([[127, 92, 0, 1], [127, 92, 0, 2]], Some("1,50,50,20,4"))), 60);
}

/// Each socket is the other one's cable, as a guest's is (`cargo xtask guest --rdma`).
#[test]
fn two_devices_play_ping_pong_in_frames() {
    let folder = std::env::temp_dir().join(format!("hamr-frames-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let wires = [("a", "b", 1), ("b", "a", 2)].map(|(socket, other, last)| Wire::Ethernet {
        socket: folder.join(socket),
        other: folder.join(other),
        mac: [0x52, 0x54, 0, 0, 0, last],
        address: [10, 0, 0, last].into(),
        mtu: 2048,
        faults: Some("1,20,20,20,4".into()),
    });
    play(&pair(["shm", "shm"], &wires), 100);
    let _ = std::fs::remove_dir_all(&folder);
}

/// Who begins again finds no socket of one that was killed.
#[test]
fn a_killed_adapter_leaves_no_socket() {
    let folder = std::env::temp_dir().join(format!("hamr-killed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let socket = folder.join("a");
    let (mac, address, other) = ([0x52, 0x54, 0, 0, 0, 1], [10, 0, 0, 1].into(), folder.join("b"));
    let wire = Wire::Ethernet { socket: socket.clone(), other, mac, address, mtu: 1024, faults: None };
    // Its host ends it by force, and another one does.
    for signal in [Signal::STOP, Signal::KILL] {
        let node = open("shm", 1 << 20);
        let fabric = Fabric::open_with(&node, &wire).expect("an adapter");
        assert!(socket.exists());
        // One that did not start removes nothing of another's.
        assert!(Fabric::open_with(&open("shm", 1 << 20), &wire).is_err());
        assert!(socket.exists());
        let process = Pid::from_raw(fabric.process().expect("it runs").cast_signed()).expect("not zero");
        kill_process(process, signal).expect("it runs");
        if signal == Signal::STOP {
            drop(fabric);
        }
        let begin = Instant::now();
        while socket.exists() {
            assert!(begin.elapsed() < SOON, "{signal:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// What stock tools find at the other end (`examples/stock_peer`), with our device at both.
#[test]
fn two_devices_do_what_stock_tools_do() {
    let [a, b] = pair(["shm", "shm"], &udp([[127, 92, 0, 21], [127, 92, 0, 22]], Some("7,20,0,0,0")));
    let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    let regions = [&a, &b].map(|side| side.fabric.region(1 << 16, rights).expect("room"));
    let loads = |count, bytes| {
        [(&a, &regions[0]), (&b, &regions[1])]
            .map(|(side, region)| Load { region: region.id(), ..side.load(count, bytes) })
    };
    let both = |first: &(dyn Fn() -> u64 + Sync), second: &(dyn Fn() -> u64 + Sync)| {
        std::thread::scope(|scope| {
            let serves = scope.spawn(second);
            (first(), serves.join().expect("it ends"))
        })
    };
    // Messages of several packets, and of a last one that is not whole.
    for bytes in [4096, 4097, 1] {
        let [load_a, load_b] = loads(50, bytes);
        let plays = both(&|| a.node.sync(ping_pong::with(load_a, false, None)).expect("all come").0, &|| {
            b.node.sync(ping_pong::with(load_b, true, None)).expect("all come").0
        });
        assert_eq!(plays, (50, 50), "{bytes}");
    }
    for bytes in [1, 3000] {
        let ([load_a, load_b], zeros) = (loads(300, bytes), vec![0; 1 << 16]);
        regions.iter().for_each(|region| region.put(0, &zeros).expect("it fits"));
        let [to_a, to_b] = regions.each_ref().map(|region| region.remote(load_a.incoming()));
        both(&|| a.node.sync(write_ping_pong::with(load_a, to_b, false)).map(|()| 0).expect("all come"), &|| {
            b.node.sync(write_ping_pong::with(load_b, to_a, true)).map(|()| 0).expect("all come")
        });
    }
    let [load_a, load_b] = loads(100, 8192);
    let to = regions[1].remote(load_b.incoming());
    let streams =
        both(&|| a.node.sync(stream::with(load_a, Some(Opcode::SEND.0), to, 16)).expect("all are sent"), &|| {
            b.node.sync(stream::with(load_b, None, to, 16)).expect("all come")
        });
    assert_eq!(streams, (100, 100));
    for kind in [Opcode::WRITE, Opcode::READ] {
        assert_eq!(a.node.sync(stream::with(load_a, Some(kind.0), to, 16)).expect("all are done"), 100);
    }
    let [load_a, _] = loads(100, 8);
    regions[1].put(load_a.incoming(), &[0; 8]).expect("it fits");
    let to = regions[1].remote(load_a.incoming());
    assert_eq!(a.node.sync(stream::with(load_a, Some(Opcode::FETCH_ADD.0), to, 1)).expect("all are done"), 100);
    let mut sum = [0; 8];
    regions[1].get(load_a.incoming(), &mut sum).expect("it fits");
    assert_eq!(u64::from_le_bytes(sum), 100);
}

/// As `ibv_srq_pingpong`: both end when each has sent and got so many, the one perhaps a few more.
#[test]
fn queue_pairs_of_two_devices_share_their_receives() {
    let sides = pair(["shm", "shm"], &udp([[127, 92, 0, 23], [127, 92, 0, 24]], None));
    let queues = sides.each_ref().map(|side| {
        let srq = side.fabric.shared_receive_queue(64).expect("room");
        let plan = QpPlan { srq: Some(srq), ..QpPlan::new(side.cq) };
        (srq, [(); SHARING].map(|()| side.fabric.queue_pair(&plan).expect("room")))
    });
    let region = sides.each_ref().map(|side| side.fabric.region(1 << 14, Access::LOCAL_WRITE).expect("room"));
    for at in 0..SHARING {
        for (own, other) in [(0, 1), (1, 0)] {
            let end = sides[other].fabric.endpoint(queues[other].1[at]).expect("it has a wire");
            sides[own].fabric.connect_remote(queues[own].1[at], &end, &Path::default()).expect("it is open");
        }
    }
    std::thread::scope(|scope| {
        let [plays, served] = [0, 1].map(|at| {
            let (side, (srq, qps), region) = (&sides[at], queues[at], region[at].id());
            let load = Load { region, ..side.load(200, 4096) };
            scope.spawn(move || side.node.sync(shared_ping_pong::with(qps, srq, load, at == 1)).expect("all come"))
        });
        for side in [plays, served] {
            let whole = side.join().expect("it ends");
            assert!((200..300).contains(&whole), "{whole}");
        }
    });
}

/// H13 of a peer: what waits for it fails, and the connection begins again with the next adapter at its address.
#[test]
fn an_adapter_outlives_its_peer_s() {
    let addresses = [[127, 92, 0, 5], [127, 92, 0, 6]];
    let [mut a, b] = pair(["shm", "shm"], &udp(addresses, None));
    let process = b.fabric.process().expect("it runs");
    kill_process(Pid::from_raw(process.cast_signed()).expect("not zero"), Signal::KILL).expect("it runs");
    let begin = Instant::now();
    let call = ping_pong::with(a.load(1, 8), false, None);
    match a.node.sync(call) {
        Err(CallError::Fault(fault)) => assert!(fault.to_string().contains("a request has failed"), "{fault}"),
        other => panic!("{other:?}"),
    }
    // Eight times 67 ms.
    assert!(begin.elapsed() > Duration::from_millis(500), "{:?}", begin.elapsed());
    assert!(is_gone(process));
    drop(b);
    // The other requests are flushed: one to receive.
    let begin = Instant::now();
    while a.node.sync(take_all::with(a.cq)).expect("valid") == Some(0) {
        assert!(begin.elapsed() < SOON);
    }
    let b = side("shm", &Wire::udp(addresses[1].into()));
    a.qp = a.fabric.reset(a.qp).expect("there");
    connect(&a, &b);
    play(&[a, b], 20);
}

/// Nothing but a notification wakes the device: also of a request that fails before it is a packet.
#[test]
fn a_task_that_waits_finds_a_request_that_fails() {
    let options = Options { wait: WaitMode::Sleep, longest_sleep: None, verbs: 1 << 20, ..Options::default() };
    let node = open_with("shm", options);
    let fabric = Fabric::open_with(&node, &Wire::udp([127, 92, 0, 31].into())).expect("an adapter");
    let (cq, region) =
        (fabric.completion_queue(8).expect("room"), fabric.region(64, Access::LOCAL_WRITE).expect("room"));
    let mut qp = fabric.queue_pair(&QpPlan::new(cq)).expect("room");
    let (stream, other) = (node.stream().expect("a stream"), node.stream().expect("a stream"));
    for id in 0..20 {
        let own = fabric.endpoint(qp).expect("it has a wire");
        fabric.connect_remote(qp, &own, &Path::default()).expect("it is open");
        let waits = stream.offload(wait_for_one::with(cq)).expect("a place");
        let (local, remote) = (Part { region: region.id(), at: 0, len: 8 }, Remote { addr: 0, rkey: 0 });
        let (operands, immediate, is_quiet) = ([0; 2], None, false);
        let work = Work { id, opcode: Opcode::SEND.0, local, wrong_key: 1, remote, operands, immediate, is_quiet };
        other.sync(post::with(qp, work)).expect("room");
        assert_eq!(waits.wait_timeout(SOON).expect("it fails, and is found"), Some(id));
        qp = fabric.reset(qp).expect("there");
    }
}

#[test]
fn what_no_wire_allows_is_refused() {
    let own = side("shm", &Wire::Own);
    assert!(matches!(own.fabric.endpoint(own.qp), Err(FabricError::NoWire)));
    let datagrams = QpPlan { qkey: Some(1), ..QpPlan::new(own.cq) };
    assert!(matches!(own.fabric.queue_pair(&datagrams), Err(FabricError::NoWire)));
    let wire = Wire::udp([127, 92, 0, 3].into());
    let other = side("shm", &wire);
    let endpoint = other.fabric.endpoint(other.qp).expect("it has a wire");
    let path = Path::default();
    assert!(matches!(own.fabric.connect_remote(own.qp, &endpoint, &path), Err(FabricError::NoWire)));
    assert!(matches!(other.fabric.connect_remote(own.qp, &endpoint, &path), Err(FabricError::Foreign)));
    // Longer packets than the wire's are never sent.
    let limit = |side: &Side, mtu| {
        let refused = side.fabric.connect_remote(side.qp, &endpoint, &Path { mtu, ..path });
        refused.err().map(|why| why.to_string()).unwrap_or_default()
    };
    assert_eq!(limit(&other, 8192), "bytes of a packet (Wire::mtu): expected at most 4096, got 8192");
    let folder = std::env::temp_dir().join(format!("hamr-refused-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let [socket, far] = ["a", "b"].map(|name| folder.join(name));
    let (mac, address) = ([0x52, 0x54, 0, 0, 0, 1], [10, 0, 0, 1].into());
    let frames = Wire::Ethernet { socket, other: far, mac, address, mtu: 1024, faults: None };
    let framed = side("shm", &frames);
    assert_eq!(limit(&framed, 4096), "bytes of a packet (Wire::mtu): expected at most 1024, got 4096");
    drop(framed);
    let _ = std::fs::remove_dir_all(&folder);
    for path in [Path { mtu: 1000, ..path }, Path { timeout: 32, ..path }, Path { retry: 8, ..path }] {
        let refused = other.fabric.connect_remote(other.qp, &endpoint, &path);
        assert!(matches!(refused, Err(FabricError::Refused(_))), "{path:?}: {refused:?}");
    }
    // It may be connected with itself, over the wire; once.
    other.fabric.connect_remote(other.qp, &endpoint, &path).expect("it is open");
    let again = other.fabric.connect_remote(other.qp, &endpoint, &path);
    assert!(matches!(again, Err(FabricError::Refused(_))), "{again:?}");
    let again = other.fabric.connect(other.qp, other.qp);
    assert!(matches!(again, Err(FabricError::Refused(_))), "{again:?}");
    // Its address is taken, and one of other machines is not given by mistake.
    for wire in [wire, Wire::udp([192, 0, 2, 1].into())] {
        assert!(Fabric::open_with(&open("shm", 1 << 20), &wire).is_err());
    }
    // A name that is longer than a reason: not in the middle of a character.
    for name in ["é".repeat(200), format!("x{}", "é".repeat(200))] {
        let (mac, address) = ([0x52, 0x54, 0, 0, 0, 1], [10, 0, 0, 1].into());
        let (socket, other) = (name.clone().into(), "other".into());
        let wire = Wire::Ethernet { socket, other, mac, address, mtu: 1024, faults: None };
        let why = Fabric::open_with(&open("shm", 1 << 20), &wire).err().map(|why| why.to_string()).unwrap_or_default();
        assert!(why.contains(&name[..name.floor_char_boundary(200)]), "{why}");
    }
}
