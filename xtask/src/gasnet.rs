//! `cargo xtask gasnet`: builds the C interface of GASNet, installs it in a folder, compiles each
//! program of another folder against it with `pkg-config` and `cc`, and runs each at each number of
//! ranks.
//!
//! A program of ours says in its first comment what it expects:
//!
//! ```text
//! ranks: 2 3                          the numbers of ranks it is for; without it, all. Where none is asked for, the first
//! run: ARGUMENTS = exit 7             a run, by its exit code; without one, a run with code 0
//! run: ARGUMENTS = says TEXT          a run that fails, and says so
//! ```
//!
//! Other programs fail by another exit code than their first comment states (`Expected: exit code 4 at 2 and more ranks`, else
//! 0), or than `--exit NAME=CODE` does, or by a line with the word `ERROR`. A name with a `/` is the path of one.

mod run;

use crate::parallel::{each, lock};
use crate::{Error, child, root};
use run::{Case, Program, Tally};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// A build of the library.
const BUILD: Duration = Duration::from_secs(900);
const COMPILE: Duration = Duration::from_secs(120);

/// What was asked for.
struct Options {
    source: Option<PathBuf>,
    mode: String,
    ranks: Vec<u32>,
    is_shared: bool,
    /// The library is not optimised, and checks itself.
    is_dev: bool,
    /// Programs that are compiled, or run, at a time.
    jobs: usize,
    prefix: PathBuf,
    /// Exit codes that programs are expected to end with.
    codes: Vec<(String, i32)>,
    /// Programs, each with arguments; none: all.
    names: Vec<String>,
}

pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    check(&parse(arguments)?)
}

fn check(options: &Options) -> Result<(), Error> {
    let folder = options.source.clone().unwrap_or_else(|| root().join("capi/gasnet/tests"));
    install(options)?;
    let mut programs = programs(&folder, options)?;
    for (name, code) in &options.codes {
        let program = programs.iter_mut().find(|program| program.name == *name);
        program.ok_or_else(|| Error::unknown(name, "--exit with a program that is run"))?.expect(*code);
    }
    programs.retain(|program| match program.mode {
        Some(mode) if mode != options.mode => {
            println!("skip  {:<44} for --mode {mode}", program.name);
            false
        }
        _ => true,
    });
    let (tally, cases) = (Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    each(&programs, options.jobs, |program| match compile(program, options) {
        Ok(Some(path)) => lock(&cases).extend(Case::all(program, &path, &options.ranks)),
        Ok(None) => println!("skip  {:<44} no `main`", program.name),
        Err(why) => lock(&tally).not_compiled(&program.name, &why),
    });
    let mut cases = cases.into_inner().unwrap_or_default();
    cases.sort_by(|a, b| a.order().cmp(&b.order()));
    each(&cases, options.jobs, |case| {
        let ended = case.run();
        lock(&tally).row(case, ended);
    });
    tally.into_inner().map_err(|_| Error::Failed("a thread has panicked".into()))?.end()
}

fn parse(arguments: &[String]) -> Result<Options, Error> {
    let mut options = Options {
        source: None,
        mode: "seq".into(),
        ranks: vec![1, 2, 3, 4],
        is_shared: false,
        is_dev: false,
        jobs: 1,
        prefix: root().join("target/hamr/gasnet"),
        codes: Vec::new(),
        names: Vec::new(),
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || {
            arguments.next().cloned().ok_or_else(|| Error::Usage(format!("`{argument}`: expected a value behind it")))
        };
        match argument.as_str() {
            "--source" => options.source = Some(value()?.into()),
            "--mode" => {
                options.mode = value()?;
                if !matches!(options.mode.as_str(), "seq" | "par" | "parsync") {
                    return Err(Error::unknown(&options.mode, "--mode seq, par or parsync"));
                }
            }
            "--ranks" => {
                let list = value()?;
                let ranks = list.split(',').map(|ranks| ranks.parse().ok().filter(|ranks| (1..=64).contains(ranks)));
                options.ranks = ranks
                    .collect::<Option<_>>()
                    .ok_or_else(|| Error::unknown(&list, "--ranks with 1 to 64, as 1,2,4"))?;
            }
            "--shared" => options.is_shared = true,
            "--dev" => options.is_dev = true,
            "--jobs" => {
                let jobs = value()?;
                options.jobs = jobs
                    .parse()
                    .ok()
                    .filter(|jobs| (1..=64).contains(jobs))
                    .ok_or_else(|| Error::unknown(&jobs, "--jobs with 1 to 64"))?;
            }
            "--exit" => {
                let given = value()?;
                let code = given.split_once('=').and_then(|(name, code)| Some((name.to_owned(), code.parse().ok()?)));
                options.codes.push(code.ok_or_else(|| Error::unknown(&given, "--exit with NAME=CODE"))?);
            }
            "--prefix" => {
                options.prefix = std::path::absolute(value()?).map_err(|why| Error::Failed(why.to_string()))?;
            }
            flag if flag.starts_with('-') => {
                return Err(Error::unknown(
                    flag,
                    "--source, --mode, --ranks, --shared, --dev, --jobs, --exit or --prefix",
                ));
            }
            name => options.names.push(name.into()),
        }
    }
    Ok(options)
}

/// Builds both libraries, and puts them with the headers and the files for `pkg-config` below a folder.
fn install(options: &Options) -> Result<(), Error> {
    let prefix = &options.prefix;
    let (profile, folder) = if options.is_dev { ("dev", "debug") } else { ("release", "release") };
    child::run(child::cargo().args(["build", "--profile", profile, "--package", "hamr-gasnet"]), BUILD)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let (from, include, lib) = (root().join("capi/gasnet"), prefix.join("include"), prefix.join("lib"));
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| Error::Failed(format!("{}: {error}", path.display()))
    };
    let pkg_config = lib.join("pkgconfig");
    for folder in [&include, &pkg_config] {
        fs::create_dir_all(folder).map_err(failed(folder))?;
    }
    for header in files(&from.join("include"), &["h"])? {
        let to = include.join(header.file_name().unwrap_or_default());
        fs::copy(&header, &to).map_err(failed(&header))?;
    }
    for library in ["libhamr_gasnet.a", "libhamr_gasnet.so"] {
        let library = target.join(folder).join(library);
        // A running program may have it open.
        let to = lib.join(library.file_name().unwrap_or_default());
        let _ = fs::remove_file(&to);
        fs::copy(&library, &to).map_err(failed(&library))?;
    }
    // By these names makefiles find out which modes there are.
    let known = ["seq", "par", "parsync"].map(|mode| format!("libgasnet-smp-{mode}.a"));
    for name in known.iter().map(String::as_str).chain(["libgasnet_tools-seq.a", "libgasnet_tools-par.a"]) {
        let link = lib.join(name);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink("libhamr_gasnet.a", &link).map_err(failed(&link))?;
    }
    let fragments = include.join("smp-conduit");
    fs::create_dir_all(&fragments).map_err(failed(&fragments))?;
    for mode in ["seq", "par", "parsync"] {
        // The second name of each is the one that makefiles for GASNet know.
        let mut targets = vec![
            ("hamr-gasnet.pc.in", pkg_config.join(format!("hamr-gasnet-{mode}.pc"))),
            ("hamr-gasnet.pc.in", pkg_config.join(format!("gasnet-smp-{mode}.pc"))),
            ("smp.mak.in", fragments.join(format!("smp-{mode}.mak"))),
        ];
        if mode != "parsync" {
            targets.push(("gasnet_tools.pc.in", pkg_config.join(format!("gasnet_tools-{mode}.pc"))));
            targets.push(("gasnet_tools.mak.in", include.join(format!("gasnet_tools-{mode}.mak"))));
        }
        for (template, to) in targets {
            let template = from.join(template);
            let text = fs::read_to_string(&template).map_err(failed(&template))?;
            let text = text
                .replace("@PREFIX@", &prefix.to_string_lossy())
                .replace("@mode@", mode)
                .replace("@MODE@", &mode.to_uppercase())
                .replace("@SAFE@", if mode == "seq" { "0" } else { "1" })
                .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
            fs::write(&to, text).map_err(failed(&to))?;
        }
    }
    Ok(())
}

/// What `cc` compiles, and what `c++` does.
const C: &[&str] = &["c"];
const CXX: &[&str] = &["cc", "cpp", "cxx"];

fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, Error> {
    let entries =
        fs::read_dir(folder).map_err(|error| Error::Failed(format!("{}: {error}", folder.display())))?.flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| has_extension(path, extensions)).collect();
    files.sort();
    Ok(files)
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().is_some_and(|end| extensions.iter().any(|extension| end == *extension))
}

fn programs(folder: &Path, options: &Options) -> Result<Vec<Program>, Error> {
    let all = files(folder, &[C, CXX].concat())?;
    let read = |path: &Path, arguments, is_ours| Program::read(label(path), path, arguments, is_ours);
    let is_ours = options.source.is_none();
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if options.names.is_empty() {
        return all.iter().map(|path| read(path, None, is_ours)).collect();
    }
    let named = options.names.iter().map(|name| {
        let (name, arguments) = match name.split_once(':') {
            Some((name, arguments)) => (name, Some(arguments.split(',').map(str::to_owned).collect())),
            None => (name.as_str(), None),
        };
        if name.contains('/') {
            return read(Path::new(name), arguments, false);
        }
        let path =
            all.iter().find(|path| label(path) == name || stem(path) == name || stem(path) == format!("test{name}"));
        let path = path.ok_or_else(|| {
            Error::unknown(
                name,
                &format!(
                    "a program of {}: {}",
                    folder.display(),
                    all.iter().map(|path| label(path)).collect::<Vec<_>>().join(" ")
                ),
            )
        })?;
        read(path, arguments, is_ours)
    });
    named.collect()
}

/// A program's name: of C, without its ending.
fn label(path: &Path) -> String {
    let name = if has_extension(path, C) { path.file_stem() } else { path.file_name() };
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// Compiles a program; the path, or the compiler's first error. Without one: the source has no `main`.
fn compile(program: &Program, options: &Options) -> Result<Option<PathBuf>, String> {
    let folder = program.path.parent().unwrap_or(Path::new("."));
    let package = format!("hamr-gasnet-{}", options.mode);
    let path = options.prefix.join("lib/pkgconfig");
    let flags = |what: &str| {
        let mut command = Command::new("pkg-config");
        let flags = child::capture(command.args([what, &package]).env("PKG_CONFIG_PATH", &path), COMPILE);
        flags.map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).map_err(|e| e.to_string())
    };
    let out = options.prefix.join("bin").join(&options.mode);
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let binary = out.join(program.name.replace('.', "-"));
    let log = out.join(format!("{}.log", program.name));
    let file = fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let is_c = has_extension(&program.path, C);
    let mut command = Command::new(if is_c { "cc" } else { "c++" });
    // Programs of ours, and with them the headers, compile without a warning.
    let dialect: &[&str] = match (program.is_ours, is_c) {
        (false, true) => &["-std=gnu11", "-w"],
        (false, false) => &["-std=gnu++17", "-w"],
        (true, true) => &["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"],
        (true, false) => &["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic"],
    };
    command.args(dialect).args(["-O2", "-g"]).args(flags("--cflags")?).arg("-I").arg(folder);
    // Where the sources of GASNet's tests have a header of theirs.
    command.arg("-I").arg(folder.join("../other/amx")).arg(&program.path).arg("-o").arg(&binary);
    if options.is_shared {
        let lib = options.prefix.join("lib");
        command.arg("-L").arg(&lib).arg("-lhamr_gasnet").arg(format!("-Wl,-rpath,{}", lib.display()));
        command.args(["-lpthread", "-lm"]);
    } else {
        command.args(flags("--libs")?);
    }
    let status = child::status(command.stderr(file), COMPILE).map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok(Some(binary)),
        false => {
            let text = fs::read_to_string(&log).unwrap_or_default();
            if text.contains("undefined reference to `main'") {
                return Ok(None);
            }
            let line = text.lines().find(|line| line.contains("error") || line.contains("undefined"));
            Err(line.unwrap_or("the compiler failed").to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three at a time: most runs wait.
    #[test]
    fn our_programs_in_c_do_what_they_say() {
        if let Some(missing) = ["cc", "c++", "pkg-config"].into_iter().find(|name| !child::is_installed(name)) {
            assert!(!crate::in_ci(), "missing: {missing}");
            return println!("skipped: {missing}");
        }
        let prefix = root().join("target/hamr/gasnet-dev").display().to_string();
        let words = ["--dev", "--shared", "--jobs", "3", "--ranks", "2", "--prefix", &prefix];
        // What only threads of PAR can do.
        let in_par = ["--mode", "par", "exits", "handover", "locks", "room", "threads"];
        for words in [words.to_vec(), [&words[..], &in_par].concat()] {
            let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
            check(&parse(&words).expect("it is understood")).expect("all pass");
        }
    }
}
