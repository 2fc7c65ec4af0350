//! The conformance suite over shared memory where each side polls slots of its own: in two memories, of which the
//! host has one and the device one, and in one.

use hamr::{Node, Options, WaitMode};
use hamr_tests::devices::{ONE_MEMORY, open_split};

fn open(options: Options) -> Node {
    open_split("shm", options)
}

hamr_tests::conformance!(open);

mod one_memory {
    use super::*;

    fn open(options: Options) -> Node {
        open_split(ONE_MEMORY, options)
    }

    hamr_tests::conformance!(smoke: open);
}

/// Sides that sleep at once and without a limit, and so find nothing without a notification.
mod asleep {
    use super::*;

    fn open(options: Options) -> Node {
        open_split("shm", Options { wait: WaitMode::Sleep, longest_sleep: None, ..options })
    }

    hamr_tests::__conformance! { open;
        values { inline, every_length }
        order { every_path_in_submission_order, queued_calls_keep_order }
        tasks { all_places_wait_at_once, a_sleep_lasts_its_time, a_restart_with_waiting_tasks }
        host_calls { every_place, many_calls, a_restart_beside_bodies }
        streams { shared_by_threads }
        one_way { sent_calls_run }
        restart { outstanding_calls_end_once, again_and_again }
    }
}
