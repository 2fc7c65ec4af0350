//! Machines without an operating system whose memory the host reads and writes, and does not map.

use hamr::link::Protocol;
use hamr::{Node, Options};
use hamr_tests::devices;

fn open(spec: &str, options: Options) -> Node {
    devices::open(spec, Options { protocol: Some(Protocol::HostDriven), ..options })
}

mod riscv64 {
    use super::*;

    fn open(options: Options) -> Node {
        super::open("seen:qemu:riscv64", options)
    }

    hamr_tests::conformance!(open);
}

mod x86_64 {
    use super::*;

    fn open(options: Options) -> Node {
        super::open("seen:qemu:x86_64", options)
    }

    hamr_tests::conformance!(smoke: open);
}

mod aarch64 {
    use super::*;

    fn open(options: Options) -> Node {
        super::open("seen:qemu:aarch64", options)
    }

    hamr_tests::conformance!(smoke: open);
}
