//! `cargo xtask sloc`: the lines of the programs beside those of the XcalableACC paper (table 2) and of
//! the serial programs in C.
//!
//! The paper gives "source lines of code" without a rule. Here it is lines that are neither blank nor
//! only comment, of the program on the devices, of the host's main function and of the image: in the
//! project's format, and in rustfmt's own. The former are to be fewer than the serial program's, the
//! latter than the paper's.

use crate::Error;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

struct Program {
    name: &'static str,
    files: &'static [&'static str],
    /// Of the paper's table 2, and of the serial program there.
    paper: usize,
    serial: usize,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "himeno, global view",
        files: &["src/himeno.rs", "src/run.rs", "host/src/himeno.rs", "host/src/bin/himeno.rs", "image/src/main.rs"],
        paper: 198,
        serial: 146,
    },
    Program {
        name: "himeno, local view",
        files: &[
            "src/himeno_local.rs",
            "src/run.rs",
            "host/src/himeno.rs",
            "host/src/bin/himeno_local.rs",
            "image/src/main.rs",
        ],
        paper: 395,
        serial: 146,
    },
    Program {
        name: "cg, global view",
        files: &["src/cg.rs", "src/cg_matrix.rs", "host/src/cg.rs", "host/src/bin/cg.rs", "image/src/main.rs"],
        paper: 609,
        serial: 444,
    },
    Program {
        name: "cg, local view",
        files: &[
            "src/cg_local.rs",
            "src/cg_matrix.rs",
            "host/src/cg.rs",
            "host/src/bin/cg_local.rs",
            "image/src/main.rs",
        ],
        paper: 768,
        serial: 444,
    },
];

/// The task.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    if let Some(argument) = arguments.first() {
        return Err(Error::unknown(argument, "no argument"));
    }
    println!("{:24} {:>8} {:>8} {:>8} {:>8}", "program", "lines", "rustfmt", "paper", "serial C");
    let mut longer = Vec::new();
    for Program { name, files, paper, serial } in PROGRAMS {
        let (mut ours, mut plain) = (0, 0);
        for file in *files {
            let text = read(file)?;
            ours += lines(&text);
            plain += lines(&formatted(&text)?);
        }
        println!("{name:24} {ours:>8} {plain:>8} {paper:>8} {serial:>8}");
        if ours >= *serial || plain >= *paper {
            longer.push(*name);
        }
    }
    match longer[..] {
        [] => Ok(()),
        _ => Err(Error::Failed(format!("not shorter than the paper's and the serial program: {}", longer.join("; ")))),
    }
}

fn read(file: &str) -> Result<String, Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs").join(file);
    std::fs::read_to_string(&path).map_err(|e| Error::Failed(format!("{}: {e}", path.display())))
}

/// Lines that are neither blank nor only comment.
fn lines(text: &str) -> usize {
    text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with("//")).count()
}

/// In rustfmt's own format.
fn formatted(text: &str) -> Result<String, Error> {
    let failed = |e: &dyn std::fmt::Display| Error::Failed(format!("rustfmt: {e}"));
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024", "--config", "max_width=100,use_small_heuristics=Default"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| failed(&e))?;
    let mut input = rustfmt.stdin.take().ok_or_else(|| failed(&"no input"))?;
    input.write_all(text.as_bytes()).map_err(|e| failed(&e))?;
    drop(input);
    let output = rustfmt.wait_with_output().map_err(|e| failed(&e))?;
    if !output.status.success() {
        return Err(failed(&output.status));
    }
    String::from_utf8(output.stdout).map_err(|e| failed(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_shorter_than_serial_ones() {
        task(&[]).expect("shorter");
    }

    #[test]
    fn no_module_of_a_program_is_left_out() {
        for Program { name, files, .. } in PROGRAMS {
            for file in files.iter().filter(|file| file.starts_with("src/")) {
                let text = read(file).expect("a file");
                for used in text.lines().filter_map(|line| line.split_once("use crate::")) {
                    let module = used.1.split("::").next().unwrap_or_default();
                    assert!(files.contains(&&*format!("src/{module}.rs")), "{name}: {module}");
                }
            }
        }
    }

    #[test]
    fn blank_lines_and_comments_do_not_count() {
        assert_eq!(lines("//! A.\n\nuse b; // why\n    /// C.\n    }\n"), 2);
    }
}
