//! Machines without an operating system that drive their host's memory, and have their heap in their own.

use hamr::link::Protocol;
use hamr::{Features, Node, Options, WaitMode};
use hamr_tests::devices;

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
