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

    hamr_tests::conformance!(smoke: open);
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

/// Through a debugger's stub, which stops the processor for each access: what takes few calls.
mod gdb {
    use super::*;

    fn open(options: Options) -> Node {
        devices::open("stubbed:qemu:riscv64", Options { start_deadline: devices::START_TIMEOUT, ..options })
    }

    hamr_tests::__conformance! { open;
        values { inline, of_any_length }
        outcomes { own_errors, a_panic, ping_and_info }
        order { queued_calls_keep_order, sync_after_many_offloads }
        tasks { a_deadline_ends_each_wait, a_sleep_lasts_its_time, a_restart_with_waiting_tasks }
        host_calls { every_place }
        ending { deadline_of_a_sync_call, the_device_knows_the_deadline, cancel_while_it_runs }
        memory { there_and_back, copies }
        chains { results_travel }
        one_way { sent_calls_run }
        restart { outstanding_calls_end_once, streams_and_buffers_go_on, waited_for }
    }

    /// A machine without any card.
    #[test]
    fn eight_handlers_and_one_stream_take_16_kib_of_the_image() {
        hamr_tests::few::a_small_window_does_everything("stubbed:qemu:riscv64");
    }
}
