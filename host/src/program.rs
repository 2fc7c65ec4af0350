//! Programs that ranks of this process run: what `hamr::world::main` was given, and what
//! [`World::run`](crate::World::run) starts on threads. A launcher names them by number.

use hamr_comm::registry::Table;
use hamr_comm::{Entry, Fault, Handler, Task};
use hamr_device_fw::Config;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What runs on a rank: a task, whose result is the rank's exit code.
type Program = dyn Fn(&mut Task<'_>) -> Result<u8, Fault> + Send + Sync;

/// The stack of a program's tasks is as long as that of a process. The system gives memory for what
/// is used of it.
pub(crate) const PROGRAM_CONFIG: Config = Config { task_stack: 8 << 20, ..Config::DEFAULT };

/// The programs of this process, by number.
static PROGRAMS: Mutex<BTreeMap<u32, Arc<Program>>> = Mutex::new(BTreeMap::new());
/// The handler that runs a program. No crate registers it: only ranks that this crate serves have it.
pub(crate) enum Run {}

impl Handler for Run {
    const NAME: &'static str = "hamr::world::program";
    type Kind = Task<'static>;
    type Args = (u32,);
    type Output = Result<u8, Fault>;
    fn run(task: &mut Task<'_>, (number,): (u32,)) -> Result<u8, Fault> {
        let program = programs().get(&number).cloned();
        let program = program.ok_or_else(|| Fault::msg("this rank has no such program"))?;
        let code = program(task);
        // The end of the world ends this process without it.
        let _ = std::io::Write::flush(&mut std::io::stdout());
        code
    }
}

static RUN: Entry = Entry::of::<Run>().ordered(Run::NAME);

/// The handlers of this program, and the one that starts it.
pub(crate) fn table() -> Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    *TABLE.get_or_init(|| Table::of(Table::of_this_image().iter().chain([&RUN]).collect()))
}

fn programs() -> MutexGuard<'static, BTreeMap<u32, Arc<Program>>> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that ranks of this process can run.
pub(crate) struct Registered(u32);

impl Registered {
    /// The number of the program that this process is, as long as it runs.
    pub(crate) const MAIN: u32 = 0;

    /// Sets the program that this process is.
    pub(crate) fn main(program: impl Fn(&mut Task<'_>) -> Result<u8, Fault> + Send + Sync + 'static) {
        let program = Arc::new(program);
        let before = programs().insert(Self::MAIN, program);
        drop(before);
    }

    /// A program that can be run as long as the result lives.
    pub(crate) fn new(program: impl Fn(&mut Task<'_>) -> Result<u8, Fault> + Send + Sync + 'static) -> Self {
        let program = Arc::new(program);
        let mut programs = programs();
        let number = programs.last_key_value().map_or(Self::MAIN, |(last, _)| *last) + 1;
        programs.insert(number, program);
        Self(number)
    }

    pub(crate) fn number(&self) -> u32 {
        self.0
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // What it owns is the program's: dropped without the lock.
        let program = programs().remove(&self.0);
        drop(program);
    }
}
