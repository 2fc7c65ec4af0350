//! One host program and four devices at once: shared memory and the three machines.

use hamr::{Node, Options};
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
