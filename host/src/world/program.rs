//! Programs as ranks: what `fn main` of one calls, and how a launcher starts what it has.
//!
//! A program that [`main`] finds to be a rank serves it on the calling thread, as an image does; the
//! launcher's first call starts the program as a task there. So a program has one engine, and its
//! handlers can be called while it waits.

use super::World;
use super::start::wrong_number;
use crate::program::{PROGRAM_CONFIG, Registered, Run, table};
use crate::{CallOptions, Error, Node, Options, RunError, Runtime, WorldError, WorldOptions};
use hamr_comm::abi::world::MAX_RANKS;
use hamr_comm::{Call, Fault, Handler, Task};
use hamr_device_fw::hosted;
use std::process::ExitCode;

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
///     let world = task.world().ok_or_else(|| Fault::msg("main is what runs it"))?;
///     println!("rank {} of {}", world.me().0, world.size());
///     task.barrier()?;
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

fn alone(program: impl Fn(&mut Task<'_>) -> Result<u8, Fault> + Send + Sync + 'static) -> Result<u8, ProgramError> {
    let options = WorldOptions::default();
    // A program may take as long as it likes.
    let options = WorldOptions { rank: Options { deadline: None, ..options.rank }, ..options };
    Runtime::new()?.start_world(&["thread"], None, options)?.run_program(program)
}

/// Why programs have no exit code.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// A rank was lost.
    #[error(transparent)]
    Lost(#[from] WorldError),
    /// The program of a rank failed.
    #[error("{}", .0.error)]
    Failed(RunError),
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

    /// Runs `program` as a task on every rank, all of which are threads of this process
    /// ([`Runtime::world_of_threads`]). The result is the first code, in the order of the ranks, that is
    /// not zero, or the code that a rank ended the world with.
    ///
    /// # Errors
    /// The first program that failed, or the rank that was lost. Either ends the world.
    pub fn run_program(
        &self,
        program: impl Fn(&mut Task<'_>) -> Result<u8, Fault> + Send + Sync + 'static,
    ) -> Result<u8, ProgramError> {
        let program = Registered::new(program);
        self.run_to_end(Call::<Run>::new((program.number(),)))
    }

    /// Runs `main` of every rank, all of which are programs of their own
    /// ([`Image::program`](crate::Image::program)), as [`Self::run_program`] does.
    ///
    /// # Errors
    /// As for [`Self::run_program`].
    pub fn run_main(&self) -> Result<u8, ProgramError> {
        self.run_to_end(Call::<Run>::new((Registered::MAIN,)))
    }

    /// Calls a handler whose result is an exit code on every rank. The first call that fails ends the
    /// world.
    pub(crate) fn run_to_end<H>(&self, call: Call<H>) -> Result<u8, ProgramError>
    where
        H: Handler<Output = Result<u8, Fault>>,
        H::Args: Clone,
    {
        // Ends the others, whose calls are waited for.
        let stop = |failed: &RunError| {
            if !failed.is_lost() {
                self.node(failed.rank.0).stop();
            }
        };
        let failed = match self.run_with(call, CallOptions::default(), stop) {
            Ok(codes) => return Ok(codes.into_iter().find(|code| *code != 0).unwrap_or(0)),
            Err(failed) => failed,
        };
        match self.wait() {
            Ok(code) => Ok(code),
            Err(lost) if failed.is_lost() => Err(lost.into()),
            Err(_) => Err(ProgramError::Failed(failed)),
        }
    }
}
