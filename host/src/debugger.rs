//! Devices that wait for gdb at their first instruction, and the command that attaches it: for
//! `hamr debug`, and for any program in whose environment `HAMR_DEBUG` is.

use crate::{Error, ImageFile, Options};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

/// `1`, or the function to stop in.
pub(crate) const VARIABLE: &str = "HAMR_DEBUG";
/// How long a person may take.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// What a debugger is to do with the devices of a program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Debugger {
    /// The handler to stop in: its path, or the end of it.
    breakpoint: Option<String>,
}

impl Debugger {
    /// What the environment asks for.
    pub(crate) fn from_environment() -> Result<Option<Self>, Error> {
        let value = crate::settings::variable(VARIABLE)?;
        Ok(value.map(|value| Self { breakpoint: (value != "1").then_some(value) }))
    }

    /// Stops in this handler.
    #[cfg(feature = "cli")]
    pub(crate) fn stop_in(handler: &str) -> Self {
        Self { breakpoint: Some(handler.into()) }
    }

    /// A stopped device is slow, and a person slower.
    pub(crate) fn options(options: Options) -> Options {
        Options { deadline: None, start_deadline: A_DAY, ..options }
    }

    /// The command that connects gdb to a device that waits at `port`.
    pub(crate) fn command(&self, image: &ImageFile, port: u16) -> String {
        let gdb = if is_installed("gdb-multiarch") { "gdb-multiarch" } else { "gdb" };
        let path = in_shell(&image.path);
        let attach = format!("{gdb} {path} -ex 'set sysroot /' -ex 'target remote 127.0.0.1:{port}'");
        let Some(breakpoint) = &self.breakpoint else { return attach };
        let function = function(breakpoint, image).replace('\'', "");
        format!("{attach} -ex 'break {function}' -ex continue")
    }
}

/// A path as a shell reads it. Bytes that are no text, or that move a terminal's cursor, are in the form of `$'…'`.
fn in_shell(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.contains(char::is_control) => format!("'{}'", text.replace('\'', "'\\''")),
        _ => format!("$'{}'", path.as_os_str().as_encoded_bytes().escape_ascii()),
    }
}

/// The path of the function of a handler, of which `name` may be the end; without its types, which
/// gdb needs none of.
fn function(name: &str, image: &ImageFile) -> String {
    let handlers = image.handlers().unwrap_or_default();
    complete(name, handlers.iter().map(|handler| handler.name.as_str()))
}

fn complete<'a>(name: &'a str, handlers: impl Iterator<Item = &'a str>) -> String {
    let plain = |name: &'a str| name.split('<').next().unwrap_or(name);
    let name = plain(name);
    let is_end =
        |path: &&str| path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with("::"));
    let mut found: Vec<&str> = handlers.map(plain).filter(is_end).collect();
    found.dedup();
    match found[..] {
        [one] => one.into(),
        // gdb says what there is.
        _ => name.into(),
    }
}

/// A port that no program listens on now.
pub(crate) fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    Ok(listener.map_err(Error::io("looking for a free port for gdb"))?.port())
}

/// Is there such a program?
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The form of a path that is no text is that of bash, which is asked where it is there.
    #[test]
    fn a_shell_reads_the_path_that_was_meant() {
        use std::os::unix::ffi::OsStrExt;
        for (path, shown) in [
            (&b"/an/image"[..], r"'/an/image'"),
            (b"/it's $HOME", r"'/it'\''s $HOME'"),
            ("/caf\u{e9}".as_bytes(), "'/caf\u{e9}'"),
            (b"/caf\xe9f 'q' \"d\" \\", r#"$'/caf\xe9f \'q\' \"d\" \\'"#),
            (b"/a\nb\x1b", r"$'/a\nb\x1b'"),
        ] {
            let said = in_shell(Path::new(std::ffi::OsStr::from_bytes(path)));
            assert_eq!(said, shown);
            if is_installed("bash") {
                let echo = std::process::Command::new("bash").args(["-c", &format!("printf %s {said}")]).output();
                assert_eq!(echo.expect("it runs").stdout, path, "{said}");
            }
        }
    }

    #[test]
    fn a_handler_is_found_by_the_end_of_its_path() {
        let all = ["kernels::demo::axpy", "kernels::demo::fill<f32>", "kernels::demo::fill<f64>", "other::axpy"];
        for (name, function) in [
            ("demo::axpy", "kernels::demo::axpy"),
            ("kernels::demo::axpy", "kernels::demo::axpy"),
            ("fill", "kernels::demo::fill"),
            ("fill<f64>", "kernels::demo::fill"),
            ("axpy", "axpy"),
            ("main", "main"),
        ] {
            assert_eq!(complete(name, all.into_iter()), function);
        }
    }
}
