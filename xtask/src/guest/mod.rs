//! `cargo xtask guest`: a host on a real bus. A PC with Linux in one QEMU and a bare-metal image in
//! another share the memory of a PCI card. The host program, its tests and every refusal run in the
//! PC.
//!
//! Nothing is installed and no privileges are needed: kernel and busybox are unpacked below
//! `target/guest`, the initramfs is written here, and the outcome is the last line on the console.

mod initramfs;
mod libraries;
mod machine;
mod packages;
mod peer;
mod programs;
pub(crate) mod rdma;
mod script;
mod server;
mod tools;

use crate::machines::{MACHINES, can_run, device};
use crate::metadata::Metadata;
use crate::parallel::{each, lock};
use crate::test::Outcome;
use crate::{Error, child, image};
use hamr_qemu::Machine;
use initramfs::Archive;
use machine::{Guest, Pc, Said};
use packages::Packages;
use programs::Programs;
use script::Script;
use server::Server;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The time for one guest, from start to end. A quiet machine needs a tenth of it.
const LIMIT: Duration = Duration::from_secs(900);
/// Guests at a time: each boots on one processor, and then mostly waits, with its device, for what must be given up.
const AT_ONCE: usize = 2;
/// The time for a command outside of guests.
const SHORT: Duration = Duration::from_secs(300);

/// Bytes of the card that has a device, and of a card that is too small for any.
const MEMORY: u64 = 128 << 20;
const MEMORY_OF_SMALL: u64 = 4 << 20;

/// Folders of the initramfs.
const FOLDERS: [&str; 7] = ["bin", "dev", "proc", "sys", "tmp", "etc", "lib"];

/// `[--isa NAME]`: everything, on all machines or on one; `--rdma …`: [`rdma`].
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let expected = || format!("--isa and one of {}", MACHINES.map(|m| m.name).join(", "));
    let machines: Vec<&Machine> = match arguments {
        [] => MACHINES.iter().collect(),
        [flag, name] if flag == "--isa" => match MACHINES.iter().find(|machine| machine.name == name) {
            Some(machine) => vec![machine],
            None => return Err(Error::unknown(name, &expected())),
        },
        [flag, rest @ ..] if flag == "--rdma" => return rdma::task(rest),
        [other, ..] => return Err(Error::unknown(other, &format!("--rdma, or {}", expected()))),
    };
    told(run(&Metadata::read()?, &machines, Extent::All))
}

/// Prints an outcome, for a task.
fn told(outcome: Outcome) -> Result<(), Error> {
    match outcome {
        Outcome::Passed(note) => {
            println!("{note}");
            Ok(())
        }
        Outcome::Skipped(why) => {
            println!("skipped: {why}");
            Ok(())
        }
        Outcome::Failed(why) => Err(Error::Failed(why)),
    }
}

/// The same as a step of `cargo xtask test`: on each machine its own part, and on the first one
/// also what is the same on all.
pub(crate) fn step(metadata: &Metadata) -> Outcome {
    let machines: Vec<&Machine> = MACHINES.iter().collect();
    run(metadata, &machines, Extent::Short)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    All,
    /// The suite once per machine, over one of the two ways; the refusals with the first machine.
    Short,
}

fn run(metadata: &Metadata, machines: &[&Machine], extent: Extent) -> Outcome {
    // The PC is one of the machines.
    let pc = MACHINES.iter().filter(|machine| machine.name == "x86_64");
    for machine in machines.iter().copied().chain(pc) {
        if let Err(outcome) = can_run(machine) {
            return outcome;
        }
    }
    let cache = metadata.target.join("guest");
    let packages = match Packages::find(&cache, &packages::CLOUD) {
        Ok(packages) => packages,
        Err(outcome) => return outcome,
    };
    Outcome::noted(Lab::new(cache, packages).and_then(|lab| lab.run(machines, extent)))
}

/// The parts that guests are made of.
struct Lab {
    folder: PathBuf,
    kernel: PathBuf,
    packages: Packages,
    programs: Programs,
    vectors: [Vec<u8>; 2],
    /// The vectors' inner product, computed by a device on shm.
    dot: String,
}

impl Lab {
    fn new(cache: PathBuf, packages: Packages) -> Result<Self, Error> {
        let kernel = packages.kernel().ok_or_else(|| Error::Failed("the kernel's package has no kernel".into()))?;
        let folder = cache.join(format!("run-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|e| Error::Failed(format!("{}: {e}", folder.display())))?;
        // Made before the first step that can fail, so that the folder is removed with it.
        let mut lab =
            Self { folder, kernel, packages, programs: Programs::default(), vectors: vectors(), dot: String::new() };
        lab.programs = programs::build(&lab.folder)?;
        lab.dot = lab.dot_over_shm()?;
        Ok(lab)
    }

    fn run(&self, machines: &[&Machine], extent: Extent) -> Result<String, Error> {
        let images = machines.iter().map(|machine| image::build("hamr-checks", &device(machine)));
        let images: Vec<PathBuf> = images.collect::<Result<_, _>>()?;
        let guests: Vec<_> = machines.iter().copied().zip(images).enumerate().collect();
        let results = Mutex::new(BTreeMap::new());
        each(&guests, AT_ONCE, |(index, (machine, image))| {
            let begin = Instant::now();
            let result = self.host_and_device(machine, image, extent, *index == 0);
            let note = result.map(|()| format!("{} {:.1} s", machine.name, begin.elapsed().as_secs_f64()));
            lock(&results).insert(*index, note);
        });
        let notes: Vec<String> = std::mem::take(&mut *lock(&results)).into_values().collect::<Result<_, _>>()?;
        Ok(notes.join(", "))
    }

    /// Two machines over one memory.
    fn host_and_device(&self, machine: &Machine, image: &Path, extent: Extent, is_first: bool) -> Result<(), Error> {
        let mut script = Script::new();
        script.load(&script::UIO);
        script.load(&script::VFIO);
        if extent == Extent::All || is_first {
            script.refusals();
        }
        script.sysfs(machine.name, &self.dot);
        let all = extent == Extent::All || is_first;
        script.vfio(&self.dot, all);
        script.long_handler();
        if all {
            script.lost_and_found();
            script.removal();
        }
        let folder = self.folder.join(machine.name);
        std::fs::create_dir(&folder).map_err(|e| Error::Failed(format!("{}: {e}", folder.display())))?;
        let server = Server::start(&folder, MEMORY)?;
        let mut running = Some(machine::device(machine, image, &server)?);
        let mut guest = self.guest(script, &server, &folder)?;
        let react = |line: &str| {
            match line {
                script::KILL_DEVICE => running = None,
                script::START_DEVICE => {
                    running = None;
                    running = Some(machine::device(machine, image, &server)?);
                }
                _ => {}
            }
            Ok(())
        };
        watch(machine.name, &mut guest, react)
    }

    fn guest(&self, script: Script, server: &Server, folder: &Path) -> Result<Guest, Error> {
        let path = folder.join("initramfs");
        let archive = self.archive(script.finish())?;
        std::fs::write(&path, archive).map_err(|e| Error::Failed(format!("{}: {e}", path.display())))?;
        let arguments = machine::with_cards(server);
        Guest::start(Pc { kernel: &self.kernel, initramfs: &path, append: "intel_iommu=on", arguments }, LIMIT)
    }

    fn archive(&self, init: String) -> Result<Vec<u8>, Error> {
        let read = |path: &Path| std::fs::read(path).map_err(|e| Error::Failed(format!("{}: {e}", path.display())));
        let mut archive = Archive::new(&FOLDERS);
        archive.file("init", init.into());
        archive.file("etc/passwd", b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n".to_vec());
        archive.file("bin/busybox", read(&self.packages.busybox())?);
        for (path, file) in &self.programs.files {
            archive.file(path, read(file)?);
        }
        for module in script::VFIO.iter().chain(&script::UIO) {
            let missing = || Error::Failed(format!("the kernel's package has no module {module}"));
            archive.file(&format!("lib/{module}.ko"), read(&self.packages.module(module).ok_or_else(missing)?)?);
        }
        let [x, y] = &self.vectors;
        archive.file("x.npy", x.clone());
        archive.file("y.npy", y.clone());
        archive.finish().map_err(|e| Error::Failed(format!("the initramfs: {e}")))
    }

    fn dot_over_shm(&self) -> Result<String, Error> {
        let paths = [self.folder.join("x.npy"), self.folder.join("y.npy")];
        for (path, bytes) in paths.iter().zip(&self.vectors) {
            std::fs::write(path, bytes).map_err(|e| Error::Failed(format!("{}: {e}", path.display())))?;
        }
        // `hamr dot` asks cargo for the image.
        let mut command = Command::new(&self.programs.hamr);
        command.current_dir(crate::root()).arg("dot").args(&paths);
        let printed = child::capture(&mut command, SHORT)?;
        printed
            .lines()
            .next()
            .map(str::to_owned)
            .ok_or_else(|| Error::Failed("expected `hamr dot` to print a number, got nothing".into()))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Sockets, and files that each run makes.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Prints a guest's lines until it ends, and judges the run.
fn watch(name: &str, guest: &mut Guest, mut react: impl FnMut(&str) -> Result<(), Error>) -> Result<(), Error> {
    let mut heard = Heard::default();
    let begin = Instant::now();
    loop {
        let said = guest.hear().map_err(|e| Error::Failed(format!("{name}, after `{}`: {e}", heard.last)))?;
        match said {
            Said::Ended(qemu) => return heard.judge(qemu).map_err(|why| Error::Failed(format!("{name}: {why}"))),
            Said::Line(line) => {
                println!("{:>6.1} {name} | {line}", begin.elapsed().as_secs_f64());
                react(&line)?;
                heard.line(&line);
            }
        }
    }
}

/// The guest's lines that matter for the outcome.
#[derive(Default)]
struct Heard {
    /// The last check that began.
    last: String,
    /// The failures.
    wrong: Vec<String>,
    /// The number of failed checks that the guest prints at its end.
    status: Option<String>,
}

impl Heard {
    fn line(&mut self, line: &str) {
        if let Some(what) = line.strip_prefix(script::WRONG) {
            self.wrong.push(what.to_owned());
        } else if let Some(check) = line.strip_prefix(script::CHECK) {
            self.last = check.to_owned();
        } else if let Some(status) = line.strip_prefix(script::STATUS) {
            self.status = Some(status.to_owned());
        }
    }

    /// QEMU ends in the same way after a kernel panic and after power-off: only the printed number
    /// distinguishes the two.
    fn judge(self, qemu: ExitStatus) -> Result<(), String> {
        let Self { last, wrong, status } = self;
        match status.as_deref() {
            None => Err(format!("the guest ended without a status, after `{last}` ({qemu})")),
            Some("0") if qemu.success() && wrong.is_empty() => Ok(()),
            Some("0") if wrong.is_empty() => Err(format!("the guest's status is 0, QEMU's is {qemu}")),
            Some(status) => Err(format!("status {status}: {}", wrong.join("; "))),
        }
    }
}

/// Two vectors in NumPy's format, of numbers whose sums are not exact: the order of additions
/// shows.
fn vectors() -> [Vec<u8>; 2] {
    [1, 2].map(|first: u32| {
        let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({LENGTH},), }}");
        // Magic, version and length take ten bytes; the total is a multiple of 64 and ends in a
        // line feed.
        let room = (header.len() + 11).next_multiple_of(64) - 10;
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((room as u16).to_le_bytes());
        bytes.extend(format!("{header:<width$}\n", width = room - 1).bytes());
        let numbers = (0..LENGTH).map(|i| 1.0 / f64::from(i + first));
        bytes.extend(numbers.flat_map(f64::to_le_bytes));
        bytes
    })
}
/// Length of each vector.
const LENGTH: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_are_refused_before_anything_is_built() {
        for wrong in [&["--isa"][..], &["--isa", "sparc"], &["riscv64"], &["--isa", "riscv64", "more"]] {
            let arguments: Vec<String> = wrong.iter().map(|&word| word.to_owned()).collect();
            assert!(matches!(task(&arguments), Err(Error::Usage(_))), "{wrong:?}");
        }
    }

    #[test]
    fn guest_passes_with_status_0_only() {
        use std::os::unix::process::ExitStatusExt;
        let judge = |lines: &[&str], qemu: i32| {
            let mut heard = Heard::default();
            lines.iter().for_each(|line| heard.line(line));
            heard.judge(ExitStatus::from_raw(qemu << 8))
        };
        let power_down = "[    9.1] reboot: Power down";
        assert_eq!(judge(&["== a", "## status 0", power_down], 0), Ok(()));
        for (lines, qemu, words) in [
            (&["== a", "== b"][..], 0, "ended without a status, after `b`"),
            (&["== a", "Kernel panic - not syncing"], 0, "ended without a status, after `a`"),
            (&[], 1, "without a status"),
            (&["!! a: no", "!! b: no", "## status 2", power_down], 0, "status 2: a: no; b: no"),
            (&["!! a: no", "## status 0"], 0, "a: no"),
            (&["## status 3"], 0, "status 3"),
            (&["## status "], 0, "status "),
            (&["## status 0"], 1, "QEMU's is exit status: 1"),
        ] {
            let why = judge(lines, qemu).expect_err(words);
            assert!(why.contains(words), "expected `{words}` in `{why}`");
        }
    }

    #[test]
    fn vectors_are_whole() {
        for vector in vectors() {
            let header = 10 + usize::from(u16::from_le_bytes([vector[8], vector[9]]));
            assert!(header.is_multiple_of(64) && vector[header - 1] == b'\n');
            assert_eq!(vector.len(), header + 8 * LENGTH as usize);
        }
    }
}
