//! Machines with two cards: requests are in the memory of one, replies in that of the other, which is the host's.

use hamr::{Node, Options, WaitMode};
use hamr_tests::devices::open_split;

/// Sides that sleep at once and without a limit, and so find nothing without a notification.
fn asleep(options: Options) -> Options {
    Options { wait: WaitMode::Sleep, longest_sleep: None, ..options }
}

mod riscv64 {
    use super::*;

    fn open(options: Options) -> Node {
        open_split("qemu:riscv64", options)
    }

    hamr_tests::__conformance! { open;
        values { inline, every_length, of_any_length }
        order { every_path_in_submission_order }
        tasks { all_places_wait_at_once, a_panic_beside_waiting_tasks }
        puts { every_length }
        restart { again_and_again }
    }

    mod asleep {
        use super::*;

        fn open(options: Options) -> Node {
            super::open(super::super::asleep(options))
        }

        hamr_tests::__conformance! { open;
            host_calls { every_place, many_calls }
            one_way { sent_calls_run }
            ending { cancel_while_it_runs }
        }
    }
}

macro_rules! machine {
    ($name:ident, $spec:literal) => {
        mod $name {
            use super::*;

            fn open(options: Options) -> Node {
                open_split($spec, asleep(options))
            }

            hamr_tests::__conformance! { open;
                values { every_length, of_any_length }
                host_calls { every_place }
                restart { again_and_again }
            }
        }
    };
}

machine!(x86_64, "qemu:x86_64");
machine!(aarch64, "qemu:aarch64");
