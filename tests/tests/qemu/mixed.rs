//! One host program and four devices at once: shared memory and the three machines.

use hamr::{Image, Node, Options};
use hamr_comm::abi::ids::Isa;
use hamr_kernels::demo::{dot_f64, isa};
use hamr_kernels::faults::{divide, panics};
use hamr_tests::conformance::Random;
use hamr_tests::devices;
use hamr_tests_kernels::echo;

const SPECS: [(&str, Isa); 4] = [
    ("shm", Isa::X86_64),
    ("qemu:x86_64", Isa::X86_64),
    ("qemu:aarch64", Isa::AARCH64),
    ("qemu:riscv64", Isa::RISCV64),
];

fn all() -> Vec<Node> {
    // Two processors: an emulator that spins while another one boots would slow it down.
    SPECS.map(|(spec, _)| devices::open(spec, Options { heap: 8 << 20, ..Options::default() })).into()
}

#[test]
fn each_device_reports_its_own_instruction_set() {
    let nodes = all();
    let asked: Vec<_> = nodes.iter().map(|node| node.offload(isa::with()).expect("sent")).collect();
    for (answer, (spec, isa)) in asked.into_iter().zip(SPECS) {
        assert_eq!(answer.wait().expect("a reply"), isa.0, "{spec}");
    }
    let mut ids: Vec<u16> = nodes.iter().map(|node| node.info().node).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), nodes.len(), "each is a node of its own");
}

#[test]
fn devices_work_beside_each_other_and_fail_alone() {
    let nodes = all();
    let mut random = Random(3);
    let x: Vec<f64> = (0..4096).map(|_| random.number() as i64 as f64).collect();
    let here = x.iter().fold(0.0f64, |sum, a| sum + a * a);
    std::thread::scope(|scope| {
        for node in &nodes {
            let x = &x;
            scope.spawn(move || {
                let buffer = node.buffer(x).expect("room");
                for n in 0..200u64 {
                    assert_eq!(node.sync(echo::with(n)).expect("echoes"), n);
                    if n % 50 == 0 {
                        let there = node.sync(dot_f64::with(buffer.ptr(), buffer.ptr())).expect("computes");
                        assert_eq!(there.to_bits(), here.to_bits());
                        assert!(node.sync(panics::with(1)).is_err());
                        assert_eq!(node.sync(divide::with(84, 2)).expect("the next call works"), 42);
                    }
                }
            });
        }
    });
}

#[test]
fn a_pointer_of_one_device_is_refused_by_another() {
    let nodes = all();
    let [first, second, ..] = &nodes[..] else { panic!("four") };
    let there = first.buffer(&[1.0f64]).expect("room");
    let error = second.sync(dot_f64::with(there.ptr(), there.ptr())).expect_err("not its own").to_string();
    assert!(error.contains("node"), "{error}");
}

#[test]
fn a_lost_device_takes_no_other_with_it() {
    let nodes = all();
    let [_, dead, rest @ ..] = &nodes[..] else { panic!("four") };
    dead.stop();
    assert!(dead.sync(divide::with(84, 2)).is_err());
    for node in rest {
        assert_eq!(node.sync(divide::with(84, 2)).expect("it still works"), 42);
    }
    dead.restart().expect("starts again");
    assert_eq!(dead.sync(divide::with(84, 2)).expect("it works again"), 42);
}

#[test]
fn buffers_are_copied_between_devices() {
    let mut nodes = all();
    let image = Image::find(devices::IMAGE).expect("a name");
    nodes.push(devices::runtime().open_with("loopback", image, Options::default()).expect("a device in this process"));
    let x: Vec<f64> = (0..9000).map(f64::from).collect();
    let buffers: Vec<_> = nodes.iter().map(|node| node.buffer(&vec![0f64; 9000]).expect("room")).collect();
    buffers[0].write(&x).expect("written");
    // From one to the next, and from the last to the first.
    for (at, node) in nodes.iter().enumerate() {
        let next = (at + 1) % nodes.len();
        let shown = format!("{at} to {next}");
        if next == 0 {
            buffers[0].write(&vec![0.0; 9000]).expect("written");
        }
        node.copy_to(buffers[at].ptr(), &nodes[next], buffers[next].ptr()).expect(&shown);
        assert_eq!(buffers[next].read().expect("its own"), x, "{shown}");
    }
    let dot = nodes[2].sync(dot_f64::with(buffers[2].ptr(), buffers[1].ptr()));
    assert!(dot.is_err(), "a pointer of another device");
    let dot = nodes[2].sync(dot_f64::with(buffers[2].ptr(), buffers[2].ptr())).expect("computes");
    assert_eq!(dot, x.iter().map(|x| x * x).sum::<f64>(), "the device sees the copy");

    let refused = |from: &Node, what, to: &Node, target| match from.copy_to(what, to, target) {
        Err(hamr::Error::Buffer { device, why }) => (device, why),
        other => panic!("expected a buffer's error, got {other:?}"),
    };
    let (part, whole) = (buffers[1].slice(0..9).expect("inside"), buffers[0].ptr());
    let overrun = hamr::BufferError::Overrun { wanted: 72_000, has: 72 };
    assert_eq!(refused(&nodes[0], whole, &nodes[1], part), ("qemu:x86_64".into(), overrun));
    let (device, why) = refused(&nodes[2], whole, &nodes[1], buffers[1].ptr());
    assert_eq!(device, "qemu:aarch64", "{why}");
    assert!(matches!(why, hamr::BufferError::Foreign { .. }));
    let (device, why) = refused(&nodes[0], whole, &nodes[1], buffers[2].ptr());
    assert_eq!(device, "qemu:x86_64", "{why}");
    assert!(matches!(why, hamr::BufferError::Foreign { .. }));
    nodes[3].copy_to(buffers[3].ptr(), &nodes[3], buffers[3].ptr()).expect("one device");
}
