//! Programs as ranks: what `fn main` of one calls, and how a launcher runs what each rank has.
//!
//! A program that [`main`] finds to be a rank serves it on the calling thread, as an image does; the
//! launcher's first call starts the program as a task there. So a program has one engine, and its
//! handlers can be called while it waits.

use super::World;
use super::calls::{Sent, SentCall};
use super::start::wrong_number;
use crate::program::{PROGRAM_CONFIG, Registered, Run, table};
use crate::{CallOptions, Error, Node, Options, RunError, Runtime, WorldError, WorldOptions};
use crate::{SharedStream, SubmitError};
use hamr_comm::abi::table::record_flag;
use hamr_comm::abi::world::MAX_RANKS;
use hamr_comm::{Call, Fault, Handler, Never, Task};
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
    if is_rank() {
        return ExitCode::from(serve(program) as u8);
    }
    match alone(program) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            crate::io::note(format_args!("{error}"));
            ExitCode::from(2)
        }
    }
}

/// Was this process started as a rank of a world? For programs whose start is not [`main`].
pub fn is_rank() -> bool {
    hosted::is_rank()
}

/// Serves the rank that this process was started as ([`is_rank`]), on the calling thread, and runs
/// `program` there as [`main`] does. The result is the process's exit code.
pub fn serve(program: impl Fn(&mut Task<'_>) -> Result<u8, Fault> + Send + Sync + 'static) -> i32 {
    Registered::main(program);
    hosted::program(table(), PROGRAM_CONFIG)
}

fn alone(program: impl Fn(&mut Task<'_>) -> Result<u8, Fault> + Send + Sync + 'static) -> Result<u8, ProgramError> {
    let options = WorldOptions::default();
    // A program may take as long as it likes.
    let options = WorldOptions { rank: Options { deadline: None, ..options.rank }, ..options };
    Runtime::new()?.start_world(&[("thread", None)], options)?.run_program(program)
}

/// Why programs have no exit code.
#[derive(thiserror::Error)]
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

crate::error::debug_as_display! {
    ProgramError;
}

impl Runtime {
    /// Starts ranks that are threads of this process, with the handlers of this program: a world for
    /// tests.
    ///
    /// A thread ends between two handlers, and where a task waits. One that does neither is left
    /// behind two seconds after its world has ended.
    ///
    /// # Errors
    /// More than 4095 ranks, or none; no memory.
    pub fn world_of_threads(&self, ranks: usize) -> Result<World, Error> {
        if ranks > MAX_RANKS {
            return Err(wrong_number(ranks));
        }
        self.start_world(&vec![("thread", None); ranks], WorldOptions::default())
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
        self.run_codes(|_, stream| begin(stream, Call::<Run>::new((program.number(),))))
    }

    /// Runs `main` of every rank, as [`Self::run_program`] does: what a program gives to
    /// [`main`], and the handler `main` of an image (`docs/worlds.md`), which gets
    /// `arguments` as one text.
    ///
    /// # Errors
    /// As for [`Self::run_program`]; of a rank without a `main`, that it is missing.
    pub fn run_main(&self, arguments: &str) -> Result<u8, ProgramError> {
        self.run_codes(|rank, stream| {
            let main = Main::of(self.node(rank));
            if let Main::Program = main {
                return begin(stream, Call::<Run>::new((Registered::MAIN,)));
            }
            let text = heapless::String::try_from(arguments).map_err(|_| SubmitError::TooLong {
                site: self.node(rank).device().site::<InlineMain>("submitting"),
                len: arguments.len(),
                limit: ARGUMENTS,
            })?;
            match main {
                Main::Task => begin(stream, Call::<TaskMain>::new((text,))),
                _ => begin(stream, Call::<InlineMain>::new((text,))),
            }
        })
    }

    /// Makes calls whose results are exit codes, one to each rank. The first that fails ends the world.
    fn run_codes(
        &self,
        begin: impl Fn(u32, &SharedStream) -> Result<Box<dyn Sent<u8, Never>>, SubmitError>,
    ) -> Result<u8, ProgramError> {
        // Ends the others, whose calls are waited for.
        let stop = |rank: usize, is_lost: bool| {
            if !is_lost {
                self.node(rank as u32).stop();
            }
        };
        let failed = match self.run_each(None, begin, stop) {
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

fn begin<H: Handler<Output = Result<u8, Fault>>>(
    stream: &SharedStream,
    call: Call<H>,
) -> Result<Box<dyn Sent<u8, Never>>, SubmitError> {
    Ok(Box::new(SentCall::<H>::new(stream.offload_with(call, CallOptions::default())?)))
}

/// Bytes of the arguments of an image's `main`, which travel as one text.
pub(crate) const ARGUMENTS: usize = 4096;

/// What a rank runs.
pub(crate) enum Main {
    /// What a program gave to [`main`].
    Program,
    /// The handler `main` of an image.
    Inline,
    /// The same as a task.
    Task,
    Missing,
}

impl Main {
    pub(crate) fn of(node: &Node) -> Self {
        let handlers = node.handlers();
        let find = |id, signature| handlers.iter().find(|h| (h.id, h.signature) == (id, signature));
        if find(Run::ID, Run::SIGNATURE).is_some() {
            return Self::Program;
        }
        match find(InlineMain::ID, InlineMain::SIGNATURE) {
            Some(main) if main.flags & record_flag::TASK != 0 => Self::Task,
            Some(_) => Self::Inline,
            None => Self::Missing,
        }
    }
}

/// The `main` of an image.
enum InlineMain {}
/// The same as a task.
enum TaskMain {}

impl Handler for InlineMain {
    const NAME: &'static str = "main";
    const FLAGS: u32 = 0;
    type Kind = hamr_comm::Context<'static>;
    type Args = (heapless::String<ARGUMENTS>,);
    type Output = Result<u8, Fault>;
    fn run(_: &mut hamr_comm::Context<'_>, _: Self::Args) -> Self::Output {
        Err(Fault::msg("main runs on ranks"))
    }
}

impl Handler for TaskMain {
    const NAME: &'static str = InlineMain::NAME;
    const FLAGS: u32 = record_flag::TASK;
    type Kind = Task<'static>;
    type Args = (heapless::String<ARGUMENTS>,);
    type Output = Result<u8, Fault>;
    fn run(_: &mut Task<'_>, _: Self::Args) -> Self::Output {
        Err(Fault::msg("main runs on ranks"))
    }
}
