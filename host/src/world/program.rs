//! Programs as ranks: what `fn main` of one calls, and how a launcher starts what it has.
//!
//! A program that [`main`] finds to be a rank serves it on the calling thread, as an image does; the
//! launcher's first call starts the program as a task there. So a program has one engine, and its
//! handlers can be called while it waits.

use super::World;
use super::start::wrong_number;
use crate::program::{PROGRAM_CONFIG, Registered, Run, table};
use crate::{CallError, Error, Node, Options, Runtime, WorldError, WorldOptions};
use hamr_comm::abi::world::MAX_RANKS;
use hamr_comm::{Call, Fault, Task};
use hamr_device_fw::hosted;
use std::process::ExitCode;
use std::sync::mpsc;

/// The `main` of a program for `hamr run -n N PROGRAM`: joins the world as the rank that this process
/// was started as, and runs `program` there as a task. Started in any other way, the process is a
/// world of one rank.
///
/// The rank's handlers are those that the program links. They can be called as long as the world
/// lasts, also behind the end of `program`, whose result is the rank's exit code.
///
/// ```no_run
/// use hamr_comm::{Fault, Task};
///
/// fn program(task: &mut Task) -> Result<u8, Fault> {
///     let (me, size) = task.inline(|cx| cx.world().map_or((0, 1), |world| (world.me().0, world.size())));
///     println!("rank {me} of {size}");
///     Ok(0)
/// }
///
/// fn main() -> std::process::ExitCode {
///     hamr::world::main(program)
/// }
/// ```
pub fn main(program: impl Fn(&mut Task<'_>) -> Result<u8, Fault> + Send + Sync + 'static) -> ExitCode {
    if hosted::is_rank() {
        Registered::main(program);
        return ExitCode::from(hosted::program(table(), PROGRAM_CONFIG) as u8);
    }
    match alone(program) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn alone(program: impl Fn(&mut Task<'_>) -> Result<u8, Fault> + Send + Sync + 'static) -> Result<u8, RunError> {
    let options = WorldOptions::default();
    // A program may take as long as it likes.
    let options = WorldOptions { rank: Options { deadline: None, ..options.rank }, ..options };
    Runtime::new()?.start_world(&["thread"], None, options)?.run(program)
}

/// Why a program has no exit code.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A rank was lost.
    #[error(transparent)]
    Lost(#[from] WorldError),
    /// A program failed; the error names the rank.
    #[error("{0}")]
    Failed(CallError),
    /// The world could not be started.
    #[error(transparent)]
    Start(#[from] Error),
}

impl Runtime {
    /// Starts ranks that are threads of this process, with the handlers of this program: a world for
    /// tests.
    ///
    /// A thread ends between two handlers, and where a task waits. One that does neither is left
    /// behind two seconds after its world has ended.
    ///
    /// # Errors
    /// More than 64 ranks, or none; no memory.
    pub fn world_of_threads(&self, ranks: usize) -> Result<World, Error> {
        if ranks > MAX_RANKS {
            return Err(wrong_number(ranks));
        }
        self.start_world(&vec!["thread"; ranks], None, WorldOptions::default())
    }
}

impl World {
    /// The rank that this process itself is, by its thread (`thread` in the specs of
    /// [`Runtime::world_of`]), or the first of several. Its handlers are those of this program, and
    /// use its statics.
    pub fn rank_here(&self) -> Option<&Node> {
        self.nodes().iter().find(|node| node.is_thread())
    }

    /// Runs `program` as a task on every rank that is a thread of this process, within the deadline
    /// of the ranks' [`Options`].
    /// The result is the first code, in the order of the ranks, that is not zero, or the code that a
    /// rank ended the world with.
    ///
    /// # Errors
    /// The first program that failed, or the rank that was lost; it ends the world.
    pub fn run(
        &self,
        program: impl Fn(&mut Task<'_>) -> Result<u8, Fault> + Send + Sync + 'static,
    ) -> Result<u8, RunError> {
        let program = Registered::new(program);
        self.run_on(Node::is_thread, |node| run(node, program.number()))
    }

    /// Runs `main` of every rank that is a program of its own ([`Image::program`](crate::Image)), as
    /// [`Self::run`] does.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub fn run_main(&self) -> Result<u8, RunError> {
        self.run_on(|_| true, |node| run(node, Registered::MAIN))
    }

    /// Calls on all ranks chosen at the same time. The first call that fails ends the world.
    pub(crate) fn run_on(
        &self,
        is_chosen: impl Fn(&Node) -> bool,
        call: impl Fn(&Node) -> Result<u8, CallError> + Sync,
    ) -> Result<u8, RunError> {
        let mut codes = vec![0; self.nodes().len()];
        std::thread::scope(|scope| {
            let (ended, outcomes) = mpsc::channel();
            for (rank, node) in self.nodes().iter().enumerate().filter(|(_, node)| is_chosen(node)) {
                let (ended, call) = (ended.clone(), &call);
                // The receiver may have seen a failure already.
                scope.spawn(move || ended.send((rank, call(node))));
            }
            drop(ended);
            for (rank, outcome) in outcomes {
                match outcome {
                    Ok(code) => codes[rank] = code,
                    Err(error) => return self.why(rank, error),
                }
            }
            Ok(codes.into_iter().find(|code| *code != 0).unwrap_or(0))
        })
    }

    /// The end of a world in which a call had no result.
    fn why(&self, rank: usize, error: CallError) -> Result<u8, RunError> {
        let is_lost = matches!(error, CallError::DeviceLost(..));
        if !is_lost {
            // Ends the others, whose calls this function's caller waits for.
            self.nodes()[rank].stop();
        }
        match self.wait() {
            Ok(code) => Ok(code),
            Err(lost) if is_lost => Err(lost.into()),
            Err(_) => Err(RunError::Failed(error)),
        }
    }
}

fn run(node: &Node, number: u32) -> Result<u8, CallError> {
    node.sync(Call::<Run>::new((number,)))
}
