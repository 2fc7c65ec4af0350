//! Machines with two cards: requests are in the memory of one, replies in that of the other, which is the host's.

use hamr::{Node, Options, WaitMode};
use hamr_tests::devices::open_split;

macro_rules! machine {
    ($name:ident, $spec:literal) => {
        mod $name {
            use super::*;

            fn open(options: Options) -> Node {
                open_split($spec, options)
            }

            hamr_tests::__conformance! { open;
                values { inline, every_length, of_any_length }
                tasks { all_places_wait_at_once, a_panic_beside_waiting_tasks }
                order { every_path_in_submission_order }
                puts { every_length }
                restart { again_and_again }
            }

            mod asleep {
                use super::*;

                fn open(options: Options) -> Node {
                    super::open(Options { wait: WaitMode::Sleep, longest_sleep: None, ..options })
                }

                hamr_tests::__conformance! { open;
                    host_calls { every_place, many_calls }
                    one_way { sent_calls_run }
                    ending { cancel_while_it_runs }
                }
            }
        }
    };
}

machine!(x86_64, "qemu:x86_64");
machine!(aarch64, "qemu:aarch64");
machine!(riscv64, "qemu:riscv64");
