//! Machines without an operating system that drive their host's memory, and have their heap in their own.

use hamr::link::Protocol;
use hamr::qemu::{Machine, QemuLauncher};
use hamr::{Features, Node, Options, Runtime, WaitMode};
use hamr_tests::devices;
use hamr_tests_kernels::echo;
use hamr_tests_kernels::variants::RESETS;
use std::time::{Duration, Instant};

fn open(machine: &str, options: Options) -> Node {
    let options = Options { protocol: Some(Protocol::DeviceDriven), ..options };
    let node = devices::open(&format!("seen:qemu:{machine}"), options);
    assert!(node.info().protocol == Protocol::DeviceDriven && node.info().features.contains(Features::DRIVEN));
    node
}

mod riscv64 {
    use super::*;

    fn open(options: Options) -> Node {
        super::open("riscv64", options)
    }

    hamr_tests::conformance!(open);

    /// Without a clock that ends a sleep: what is not notified is never found.
    mod asleep {
        use super::*;

        fn open(options: Options) -> Node {
            super::open(Options { wait: WaitMode::Sleep, longest_sleep: None, ..options })
        }

        hamr_tests::__conformance! { open;
            host_calls { every_place, many_calls }
            one_way { sent_calls_run }
            ending { cancel_while_it_runs }
            memory { there_and_back }
        }
    }
}

mod x86_64 {
    use super::*;

    fn open(options: Options) -> Node {
        super::open("x86_64", options)
    }

    hamr_tests::conformance!(smoke: open);
}

mod aarch64 {
    use super::*;

    fn open(options: Options) -> Node {
        super::open("aarch64", options)
    }

    hamr_tests::conformance!(smoke: open);
}

/// Buffers stay with another image: it has its window where the present one has it.
#[test]
fn an_image_with_its_window_elsewhere_is_refused_while_the_present_one_runs() {
    const DEVICE: &str = "qemu:riscv64";
    let node = open("riscv64", hamr_tests::conformance::options());
    let buffer = node.buffer(&[7u64; 1000]).expect("room");
    let epoch = node.info().epoch;
    let error = node.load_image(&hamr_tests::images::next(DEVICE)).expect_err("it has none").to_string();
    assert!(error.contains("expected an image with its window at 0x") && !error.contains('\n'), "{error}");
    assert_eq!((node.sync(echo::with(6u64)).expect("runs"), node.info().epoch), (6, epoch));
    node.load_image(&devices::variant(DEVICE, RESETS)).expect("it starts");
    assert_eq!(node.sync(echo::with(7u64)).expect("runs"), 7);
    assert_ne!(node.info().epoch, epoch);
    assert_eq!(node.read(buffer.ptr()).expect("there"), [7; 1000]);
}

/// QEMU's card `edu` copies, in 200 ms for 2 KiB each way: 100 ms of a clock of whole ones an operation, so 99 and more.
#[test]
fn driven_by_a_dma_engine() {
    let args = [Machine::RISCV64.args, &["-device", "edu,dma_mask=0xffffffffffffffff"]].concat().leak();
    let machine = QemuLauncher::machine(Machine { name: "edu", args, ..Machine::RISCV64 });
    let mut runtime = Runtime::new().expect("a runtime");
    runtime.register("edu", machine);
    let options = Options {
        protocol: Some(Protocol::DeviceDriven),
        streams: Some(1),
        ring: 8,
        tickets: 1,
        chunk: 1024,
        tasks: 0,
        table: 40 << 10,
        log: 0,
        heap: 1 << 20,
        deadline: Some(Duration::from_secs(30)),
        start_deadline: Duration::from_secs(120),
        ..Options::default()
    };
    let node = runtime.open_with("edu", devices::image("qemu:riscv64"), options).expect("a device");
    let values: Vec<u64> = (0..500).map(|n| n * n).collect();
    for round in 0..3 {
        let begin = Instant::now();
        let words: [u64; 128] = std::array::from_fn(|i| values[i] + round);
        assert_eq!(node.sync(echo::with(words)).expect("answered"), words);
        assert!(begin.elapsed() >= 4 * Duration::from_millis(99), "not by the processor");
        let begin = Instant::now();
        assert_eq!(node.sync(echo::with(round)).expect("answered"), round);
        assert!(begin.elapsed() < Duration::from_millis(396), "by words");
    }
    let buffer = node.buffer(&values).expect("room");
    assert_eq!(node.read(buffer.ptr()).expect("there"), values);
    node.put(&[7; 500], buffer.ptr()).expect("taken");
    assert_eq!(node.read(buffer.ptr()).expect("there"), [7; 500]);
}
