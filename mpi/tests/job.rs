//! The conformance suite over MPI: each case is a job of two ranks, of which rank 0 runs the case and rank 1 serves devices.
//!
//! `cargo nextest run` starts a case in a process of its own, which starts itself again under `mpirun`.

mod common;

use common::{RANK, mpirun};
use hamr::link::Link;
use hamr::serve::Keeper;
use hamr::{Error, LaunchRequest, Launcher, Node, Options, Target};
use hamr_mpi::{Job, Membership, MpiLauncher, serve};
use hamr_tests::devices;
use hamr_tests::mirrored::keep_named;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Once, OnceLock};

hamr_tests::conformance!(open);

static JOB: OnceLock<Arc<Job>> = OnceLock::new();

thread_local! {
    /// Dropped by the end of the thread that has joined the job.
    static MEMBERSHIP: RefCell<Option<Membership>> = const { RefCell::new(None) };
}

/// A device of its own at rank 1. In that rank it serves, and does not return.
fn open(options: Options) -> Node {
    static JOINED: Once = Once::new();
    if std::env::var_os(RANK).is_none() {
        again_as_ranks();
    }
    JOINED.call_once(|| {
        let membership = Job::join().expect("a job");
        if membership.job().rank() != 0 {
            keep(membership);
        }
        JOB.get_or_init(|| membership.job().clone());
        MEMBERSHIP.set(Some(membership));
        devices::register(|runtime| runtime.register("mpi", Fresh(MpiLauncher::new(JOB.get().expect("joined")))));
    });
    let options = Options { start_deadline: devices::START_TIMEOUT, ..options };
    devices::runtime().open_with("mpi:1", devices::image("shm"), options).expect("a device at rank 1")
}

/// Runs this test in a job, and ends as that does.
fn again_as_ranks() -> ! {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    assert!(arguments.iter().any(|argument| argument == "--exact"), "expected a test by its name: cargo nextest run");
    let ((name, images), (mut command, folder)) = (devices::built("shm"), mpirun(2));
    command.arg(std::env::current_exe().expect("this program")).args(arguments).env(name, images);
    let status = command.status().expect("mpirun, of a package such as openmpi-bin");
    drop(folder);
    std::process::exit(status.code().unwrap_or(1));
}

/// What rank 1 does.
fn keep(membership: Membership) -> ! {
    let start = |name: &str, window| {
        let options = Options { heap: window, start_deadline: devices::START_TIMEOUT, ..Options::default() };
        Keeper::start(devices::runtime(), "shm", devices::image("shm"), &options, name).map_err(|e| e.to_string())
    };
    serve(membership.job(), start, |what| println!("rank 1: {what}"));
    drop(membership);
    std::process::exit(0);
}

/// A device of its own for each launch.
struct Fresh(MpiLauncher);

impl Launcher for Fresh {
    fn describe(&self) -> String {
        self.0.describe()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        self.0.target(argument)
    }
    fn has_window(&self) -> bool {
        self.0.has_window()
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("mpi-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let link = self.0.link(&name, request)?;
        // For cases that signal a handler while it runs.
        keep_named(request, &format!("at:{name}"));
        Ok(link)
    }
}
