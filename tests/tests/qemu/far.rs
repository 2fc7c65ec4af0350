//! Machines without an operating system at the other end of TCP, and one program with such a machine and a process here.

use hamr::{Node, Options};
use hamr_tests::devices;

mod riscv64 {
    use super::*;

    fn open(options: Options) -> Node {
        devices::open("far:qemu:riscv64", options)
    }

    hamr_tests::conformance!(open);
    hamr_tests::__logs! { "far:qemu:riscv64";
        lines_from_the_first_instruction_arrive, arguments_arrive, the_host_sets_the_level, a_flood_counts_lost_lines,
        a_flood_without_a_reader_is_counted, there_is_one_reader, a_panic_is_logged, a_restart_keeps_unread_lines;
    }

    #[test]
    fn each_fault_names_its_location_and_the_next_call_works() {
        hamr_tests::crashes::each_fault_names_its_location("far:qemu:riscv64");
    }
}

mod x86_64 {
    use super::*;

    fn open(options: Options) -> Node {
        devices::open("far:qemu:x86_64", options)
    }

    hamr_tests::conformance!(smoke: open);
}

mod aarch64 {
    use super::*;

    fn open(options: Options) -> Node {
        devices::open("far:qemu:aarch64", options)
    }

    hamr_tests::conformance!(smoke: open);
}

mod relays {
    hamr_tests::relays!("shm", "far:qemu:riscv64"; every_value, buffers, outcomes, a_device_that_ends);
}
