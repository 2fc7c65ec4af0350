//! The end of a command that did not succeed.

use super::format::one_line;
use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// One exit code for bad usage, bad input and a failed device: a script needs no difference.
const EXIT: u8 = 2;

/// Why a command ended. Every error converts into it, so commands just use `?`.
#[derive(Debug)]
pub struct Failure {
    what: What,
}

#[derive(Debug)]
enum What {
    Message(String),
    /// The exit code of what was run, which has said why. Nothing is printed.
    Code(u8),
    /// The reader of standard output has closed it (`… | head -1`). That is no failure of the tool,
    /// so nothing is printed.
    Closed,
}

impl Failure {
    /// A message with what was expected, what was found, and what to do.
    pub fn new(message: impl Into<String>) -> Self {
        Self { what: What::Message(one_line(&message.into())) }
    }

    /// What is printed reaches nothing any more.
    pub(super) fn closed() -> Self {
        Self { what: What::Closed }
    }

    /// The exit code of what was run.
    pub(super) fn code(code: u8) -> Self {
        Self { what: What::Code(code) }
    }

    /// The parser's message of many lines as one.
    pub(super) fn usage(text: &str, tool: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
        let said = lines.take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more information"));
        let said = said.collect::<Vec<_>>().join(" ").replace(" tip: ", "; ");
        Self::new(format!("{} (see `{tool} --help`)", said.strip_prefix("error: ").unwrap_or(&said)))
    }

    /// Prints it as one line that begins with the name of the tool, and returns the exit code.
    pub fn report(&self, tool: &str) -> ExitCode {
        match &self.what {
            What::Closed => ExitCode::SUCCESS,
            What::Code(code) => ExitCode::from(*code),
            What::Message(message) => {
                // Where standard error takes nothing, the exit code alone shows the failure.
                crate::io::note(format_args!("{tool}: {message}"));
                ExitCode::from(EXIT)
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Message(message) => f.write_str(message),
            What::Code(code) => write!(f, "exit code {code}"),
            What::Closed => f.write_str("standard output is closed"),
        }
    }
}

// `Failure` is no `Error`, because only then every error can convert into it.
impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let any: &(dyn Error + 'static) = &error;
        let is_closed =
            any.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe);
        if is_closed { Self::closed() } else { Self::new(error.to_string()) }
    }
}
