//! Cases of the conformance suite over threads of this program that share no memory with their host. Left out are those
//! for which such a device is too simple: it replies to no ping beside a handler, and knows no place of a panic.

use hamr::{Image, Node, Options, Runtime};
use hamr_tests::mirrored::{CarelessLauncher, Far, MirroredLauncher};
use hamr_tests::streamed::StreamedLauncher;
use std::sync::OnceLock;

fn open(kind: &str, options: Options) -> Node {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut runtime = Runtime::new().expect("a runtime");
        runtime.register("polls", MirroredLauncher(Far::Thread));
        runtime.register("sleeps", MirroredLauncher(Far::Sleeper));
        runtime.register("careless", CarelessLauncher(Far::Sleeper));
        runtime.register("streamed", StreamedLauncher(Far::Sleeper));
        runtime
    });
    let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
    runtime.open_with(kind, image, options).expect("a device behind a mirror")
}

fn polls(options: Options) -> Node {
    open("polls", options)
}

fn sleeps(options: Options) -> Node {
    open("sleeps", options)
}

macro_rules! cases {
    ($open:path) => {
        hamr_tests::__conformance! { $open;
            values { inline, every_length, many_buffers, of_any_length }
            outcomes { own_errors, many_panics, ping_and_info }
            order { every_path_in_submission_order, queued_calls_keep_order }
            tasks {
                all_places_wait_at_once, a_deadline_ends_each_wait, a_sleep_lasts_its_time, a_panic_beside_waiting_tasks,
                a_restart_with_waiting_tasks
            }
            host_calls { every_place, many_calls, a_restart_beside_bodies }
            ending { deadline_of_a_sync_call, the_device_knows_the_deadline, cancel_while_it_runs }
            streams { shared_by_threads }
            puts { every_length }
            memory { there_and_back, copies }
            transfers { come_in_submission_order }
            chains { results_travel }
            one_way { sent_calls_run }
            restart { outstanding_calls_end_once, streams_and_buffers_go_on, again_and_again, waited_for }
        }
    };
}

mod polling {
    use super::polls;
    cases!(polls);
}

mod sleeping {
    use super::sleeps;
    cases!(sleeps);
}

/// The same behind frames over pairs of sockets.
mod streamed {
    use hamr::{Node, Options};

    fn streamed(options: Options) -> Node {
        super::open("streamed", options)
    }

    cases!(streamed);
}

/// The same where the host reads and writes the device's memory, and an access promises nothing.
mod careless {
    use hamr::{Node, Options};

    fn careless(options: Options) -> Node {
        super::open("careless", options)
    }

    cases!(careless);
}
