//! `cargo xtask programs`: the programs on devices in the sizes that the tests have no time for.
//! Himeno's field has to be the same on any number of devices, and `gosa` in both views; CG has to
//! find the eigenvalues that NPB gives, to 1e-10, which `cg` itself verifies. Laplace and STREAM have to end.

use crate::metadata::Metadata;
use crate::{Error, child};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// For one run. CG's class B takes a minute where two processors do nothing else.
const LIMIT: Duration = Duration::from_secs(900);
/// Shapes of the devices.
const SHAPES: [[u32; 2]; 6] = [[1, 1], [2, 1], [1, 2], [3, 1], [2, 2], [4, 2]];
/// Of size XS behind all iterations: a hash of the field, and its `gosa`.
const XS: (u64, f64) = (0x9e72_6b81_e758_fcd0, 2.268_030_065e-3);
/// What `gosa` may differ by where the sums of the devices are others.
const GOSA: f64 = 1e-9;

/// Where the programs are.
struct Programs(PathBuf);

/// Builds and runs.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let sizes: &[&str] = match arguments {
        [] => &["XS", "S", "M"],
        [large] if large == "--large" => &["XS", "S", "M", "L"],
        [other, ..] => return Err(Error::unknown(other, "--large")),
    };
    child::run(child::cargo().args(["build", "--release", "--package", "hamr-programs-host", "--bins"]), LIMIT)?;
    let target = Metadata::read()?.target;
    let programs = Programs(target.join("release"));
    let file = target.join(format!("himeno-{}.npy", std::process::id()));
    let done = sizes.iter().try_for_each(|size| himeno(&programs, size, &file));
    // There is none where the first run has failed.
    let _ = std::fs::remove_file(&file);
    done?;
    for class in ["S", "W", "A", "B"] {
        // A and B on two devices only: a run of B takes a minute.
        let shapes = if matches!(class, "S" | "W") { &SHAPES[..] } else { &SHAPES[1..3] };
        for [rows, columns] in shapes.iter().filter(|[rows, columns]| (rows * columns).is_power_of_two()) {
            let shape = [class.into(), rows.to_string(), columns.to_string()];
            let global = programs.run("cg", &shape)?;
            let local = programs.run("cg_local", &shape)?;
            same(class, "zeta", &value(&global, "zeta ")?, &value(&local, "zeta ")?)?;
        }
    }
    programs.run("laplace", &["1000", "2", "1", "200"].map(str::to_owned))?;
    programs.run("stream", &["2".to_owned(), "4000000".to_owned()])?;
    Ok(())
}

/// A size of Himeno's benchmark on all shapes.
fn himeno(programs: &Programs, size: &str, file: &Path) -> Result<(), Error> {
    let mut first: Option<(u64, f64)> = (size == "XS").then_some(XS);
    for [rows, columns] in SHAPES {
        let shape = [size.into(), rows.to_string(), columns.to_string()];
        let saved = [&shape[..], &["--npy".into(), file.display().to_string()]].concat();
        let gosa = value(&programs.run("himeno", &saved)?, "Gosa : ")?;
        same(size, "gosa", &gosa, &value(&programs.run("himeno_local", &shape)?, "Gosa : ")?)?;
        let bytes = std::fs::read(file).map_err(|e| Error::Failed(format!("{}: {e}", file.display())))?;
        let (hash, sum) = (hash(&bytes)?, gosa.parse().unwrap_or(f64::NAN));
        let (wanted, wanted_sum) = *first.get_or_insert((hash, sum));
        if hash != wanted {
            return Err(Error::Failed(format!(
                "himeno {size} {rows} {columns}: expected a field with hash {wanted:#x}, got {hash:#x}"
            )));
        }
        let error = (sum / wanted_sum - 1.0).abs();
        if error.is_nan() || error >= GOSA {
            return Err(Error::Failed(format!(
                "himeno {size} {rows} {columns}: expected gosa {wanted_sum:e}, got {sum:e}"
            )));
        }
    }
    Ok(())
}

impl Programs {
    /// What a program says; prints how long it took.
    fn run(&self, name: &str, arguments: &[String]) -> Result<String, Error> {
        let begin = Instant::now();
        let output = child::capture(Command::new(self.0.join(name)).args(arguments), LIMIT)?;
        let last = output.lines().rev().find(|line| line.contains("op/s") || line.contains("MFLOPS measured"));
        let shown = arguments.iter().take_while(|argument| !argument.starts_with("--")).cloned().collect::<Vec<_>>();
        println!(
            "{name} {}: {:.1} s; {}",
            shown.join(" "),
            begin.elapsed().as_secs_f64(),
            last.unwrap_or("done").trim()
        );
        Ok(output)
    }
}

/// The word behind a text.
fn value(output: &str, name: &str) -> Result<String, Error> {
    let word = output.lines().find_map(|line| line.split_once(name)?.1.split([' ', ',']).next());
    word.map(str::to_owned).ok_or_else(|| Error::Failed(format!("expected `{name}` of a program, got `{output}`")))
}

fn same(of: &str, what: &str, global: &str, local: &str) -> Result<(), Error> {
    if global == local {
        return Ok(());
    }
    Err(Error::Failed(format!("{of}: expected the same {what} in both views, got {global} and {local}")))
}

/// FNV's, by words, of the elements behind the header of a `.npy` file.
fn hash(file: &[u8]) -> Result<u64, Error> {
    let len = file.get(8..10).map(|len| usize::from(u16::from_le_bytes([len[0], len[1]])));
    let elements = len.and_then(|len| file.get(10 + len..)).ok_or_else(|| Error::Failed("no .npy file".into()))?;
    let words = elements.as_chunks::<4>().0.iter().map(|bytes| u64::from(u32::from_le_bytes(*bytes)));
    Ok(words.fold(1_469_598_103_934_665_603, |hash, word| (hash ^ word).wrapping_mul(1_099_511_628_211)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_behind_their_names() {
        let output = "rehearsal: MFLOPS: 3, gosa: 1\nGosa : 2.5e-3\nzeta 8.59e0, error 1e-14\n";
        assert_eq!(value(output, "Gosa : ").expect("there"), "2.5e-3");
        assert_eq!(value(output, "zeta ").expect("there"), "8.59e0");
        assert!(value(output, "residual ").is_err());
    }

    #[test]
    fn hashes_are_of_elements() {
        let file = |header: &str, x: f32| {
            [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), &x.to_le_bytes()]
                .concat()
        };
        assert_eq!(hash(&file("a", 1.0)).expect("a file"), hash(&file("bc", 1.0)).expect("a file"));
        assert_ne!(hash(&file("a", 1.0)).expect("a file"), hash(&file("a", 2.0)).expect("a file"));
        assert!(hash(b"\x93NUMPY").is_err());
    }
}
