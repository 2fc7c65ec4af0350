//! The implicit start of `#[hamr::main]`: a device chosen by command line and environment.

use crate::io::note;
use crate::settings::{text, variable};
use crate::{Error, Image, Node, Options, Runtime, Setting};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::{ExitCode, Termination};

/// The arguments of a program with `#[hamr::main]`, without the program's name and without those that
/// choose the device.
pub fn arguments() -> Vec<OsString> {
    // Such a program does not begin where they cannot be read.
    Arguments::read(std::env::args_os().skip(1)).map(|read| read.rest).unwrap_or_default()
}

/// Starts the device, runs `main`, and ends the device. `image` is what the attribute names.
#[doc(hidden)]
pub fn run<R: Termination>(image: Option<&str>, main: fn(&Node) -> R) -> ExitCode {
    let opened = open(image);
    match &opened {
        Ok((_, node)) => {
            for warning in node.warnings() {
                note(format_args!("{}: warning: {warning}", program()));
            }
            main(node).report()
        }
        Err(why) => {
            note(format_args!("{}: {}", program(), why.to_string().replace('\n', " ")));
            ExitCode::from(2)
        }
    }
}

fn open(image: Option<&str>) -> Result<(Runtime, Node), Error> {
    let Arguments { device, image: typed, settings, .. } = Arguments::read(std::env::args_os().skip(1))?;
    // `run` prints them with the program's name.
    let mut options = Options { print_warnings: false, ..Options::default() };
    for setting in Setting::from_environment()?.iter().chain(&settings) {
        setting.apply(&mut options);
    }
    let device = match device {
        Some(device) => device,
        None => device_in_environment()?.unwrap_or_else(|| "shm".into()),
    };
    let runtime = Runtime::new()?;
    // Before the search for an image, which may build one.
    let takes_image = runtime.target(&device)?.is_some();
    let image = match typed {
        Some(text) => Image::of_argument(&text)?,
        None => Image::find(image.unwrap_or_default())?,
    };
    if takes_image && image.is_unnamed() {
        let why = "expected its name in `#[hamr::main(image = …)]`, `--image`, or a file in HAMR_IMAGE".into();
        return Err(Error::NoImage { what: "image", name: String::new(), why });
    }
    let node = runtime.open_with(&device, image, options)?;
    Ok((runtime, node))
}

/// What `HAMR_DEVICE` names.
pub(crate) fn device_in_environment() -> Result<Option<String>, Error> {
    variable("HAMR_DEVICE")
}

fn program() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    std::path::Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Arguments of a program of which the library takes some.
struct Arguments {
    device: Option<String>,
    image: Option<OsString>,
    settings: Vec<Setting>,
    /// The program's own.
    rest: Vec<OsString>,
}

impl Arguments {
    /// Takes `--device`, `--image` and `--option`, each with a value behind it or behind `=`, up to
    /// an argument `--`.
    fn read(all: impl IntoIterator<Item = OsString>) -> Result<Self, Error> {
        let mut read = Self { device: None, image: None, settings: Vec::new(), rest: Vec::new() };
        let mut all = all.into_iter();
        while let Some(argument) = all.next() {
            if argument == "--" {
                read.rest.extend(all);
                break;
            }
            let bytes = argument.as_bytes();
            let (name, value) = match bytes.iter().position(|byte| *byte == b'=') {
                Some(at) => (&bytes[..at], Some(OsStr::from_bytes(&bytes[at + 1..]).to_owned())),
                None => (bytes, None),
            };
            let known = ["--device", "--image", "--option"].into_iter().find(|known| known.as_bytes() == name);
            let Some(name) = known else {
                read.rest.push(argument);
                continue;
            };
            let value = value.or_else(|| all.next());
            let missing = || Error::InvalidConfig { option: name, expected: "a value".into(), got: "none".into() };
            let value = value.ok_or_else(missing)?;
            match name {
                "--device" => read.device = Some(text(name, value)?),
                "--image" => read.image = Some(value),
                _ => read.settings.push(text(name, value)?.parse()?),
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_own_arguments_are_left_to_it() {
        let read = |all: &[&str]| Arguments::read(all.iter().map(OsString::from));
        let all = ["a", "--device", "qemu:x86_64", "--devices=1", "--option=heap=1M", "-x", "--", "--device", "b"];
        let read_all = read(&all).expect("all are known or the program's");
        assert_eq!(read_all.device.as_deref(), Some("qemu:x86_64"));
        assert_eq!(read_all.rest, ["a", "--devices=1", "-x", "--device", "b"]);
        assert_eq!((read_all.settings.len(), read_all.image), (1, None));
        for (wrong, expected) in [("--device", "--device: expected a value"), ("--option=x", "--option: expected NAME")]
        {
            let error = read(&[wrong]).err().expect("refused").to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let odd = |text: &[u8]| OsStr::from_bytes(text).to_owned();
        let read_all = Arguments::read([odd(b"--image=caf\xe9"), odd(b"\xff"), odd(b"--x=\xff")]).expect("bytes");
        assert_eq!(read_all.image, Some(odd(b"caf\xe9")));
        assert_eq!(read_all.rest, [odd(b"\xff"), odd(b"--x=\xff")]);
        for wrong in [&[&b"--device=a\xff"[..]][..], &[b"--option", b"cpu=\xff"]] {
            let error = Arguments::read(wrong.iter().map(|text| odd(text))).err().expect("refused").to_string();
            assert!(error.contains(": expected text in UTF-8, got ") && error.ends_with("\\xff"), "{error}");
        }
    }
}
