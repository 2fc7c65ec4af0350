//! Other systems between the same two processors: OpenMPI (`vader`: `MPI_Send` and `MPI_Recv` each way; batches of `MPI_Isend` that an
//! empty message answers) and UCX (`ucp_am_lat`, twice what it prints, `am_bw` with a flow control window), from Debian's packages.
//!
//! Their packages are unpacked below `target`, as QEMU's are. A system that cannot be brought or
//! built is left out, and named with what to install.

use super::system::Cpus;
use crate::child;
use hamr_qemu::{Error, Packages};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Their packages.
const NAMES: [&str; 3] = ["ucx-utils", "openmpi-bin", "libopenmpi-dev"];
/// The time for one program.
const LIMIT: Duration = Duration::from_secs(60);
/// Sizes of UCX's messages.
const SIZES: [usize; 4] = [8, 64, 512, 1024];
/// Its flow control windows.
const WINDOWS: [usize; 4] = [1, 4, 16, 64];
/// The transports within one machine, as OpenMPI's arguments and UCX's variables.
const SHARED_MPI: [&str; 3] = ["--mca", "btl", "self,vader"];
const SHARED_UCX: [(&str, &str); 1] = [("UCX_TLS", "posix,self")];
/// The last column that `ucx_perftest` prints: messages per second, over all.
const OVERALL_RATE: usize = 7;
/// Ports by which UCX's two sides find each other begin here, below those that the system lends.
const PORTS: u16 = 20_000;

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) system: &'static str,
    /// `size` in bytes, of a round trip in nanoseconds; `window`, of messages per second; or `put`, bytes of each, of puts
    /// per second.
    pub(super) what: &'static str,
    pub(super) number: usize,
    pub(super) value: f64,
}

/// The systems that this machine can run.
pub(super) struct Rivals {
    root: PathBuf,
    cpus: Cpus,
    mpi: Option<PathBuf>,
    /// The next of UCX's runs: the port of an ended server stays taken for a while.
    port: Cell<u16>,
    /// What is left out, and why.
    pub(super) missing: Vec<String>,
}

impl Rivals {
    /// Unpacks and builds what is not there yet.
    pub(super) fn prepare(target: &Path, cpus: Cpus) -> Self {
        let root = target.join("rivals");
        let mut rivals =
            Self { root: root.clone(), cpus, mpi: None, port: Cell::new(first_port()), missing: Vec::new() };
        let what = "Debian's packages of OpenMPI and UCX";
        let packages = Packages { folder: root, what, names: &NAMES, wanted };
        if let Err(why) = packages.provide(check, |what| println!("{what}")) {
            rivals.missing.push(format!("OpenMPI, UCX: {why} (install with: apt-get install {})", NAMES.join(" ")));
            return rivals;
        }
        match rivals.build_mpi(target) {
            Ok(program) => rivals.mpi = Some(program),
            Err(why) => rivals.missing.push(format!("OpenMPI: {why} (install with: apt-get install gcc libc6-dev)")),
        }
        rivals
    }

    fn libraries(&self) -> PathBuf {
        self.root.join("usr/lib").join(triple())
    }

    /// A program of the packages, with their libraries.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let libraries = self.libraries();
        let mut command = Command::new(self.root.join("usr/bin").join(program));
        let folders = [libraries.clone(), self.root.join("lib").join(triple()), libraries.join("openmpi/lib")];
        command.env("LD_LIBRARY_PATH", folders.map(|folder| folder.display().to_string()).join(":"));
        command
    }

    fn build_mpi(&self, target: &Path) -> Result<PathBuf, crate::Error> {
        let program = target.join("mpi_ping_pong");
        self.build(&crate::root().join("bench/rivals/mpi_ping_pong.c"), &program, &["-O2"])?;
        Ok(program)
    }

    /// OpenMPI is there, and a compiler.
    pub(super) fn has_mpi(&self) -> bool {
        self.mpi.is_some()
    }

    /// Builds a program in C for OpenMPI.
    pub(super) fn build(&self, source: &Path, program: &Path, flags: &[&str]) -> Result<(), crate::Error> {
        let libraries = self.libraries();
        let mut gcc = Command::new("gcc");
        gcc.args(flags).arg("-I").arg(libraries.join("openmpi/include")).arg(source).arg("-o").arg(program);
        gcc.arg("-L").arg(&libraries).args(["-l:libmpi.so.40", "-lm"]);
        gcc.arg(format!("-Wl,-rpath-link,{}", libraries.display()));
        child::run(&mut gcc, LIMIT)
    }

    /// What starts two processes of a program, whose name and arguments follow.
    pub(super) fn run_two(&self) -> Command {
        self.run_two_over(&SHARED_MPI)
    }

    /// The same over transports that these arguments name.
    fn run_two_over(&self, transports: &[&str]) -> Command {
        let mut run = self.command("orterun");
        run.env("OPAL_PREFIX", self.root.join("usr"));
        // Its launcher refuses the superuser otherwise, and complains of a library it does without.
        run.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        run.env("PMIX_MCA_pcompress_base_silence_warning", "1");
        run.args(["--bind-to", "none", "-n", "2", "--mca", "pml", "ob1"]).args(transports);
        run
    }

    /// OpenMPI's round trips and rates.
    pub(super) fn mpi(&self) -> Result<Vec<Value>, crate::Error> {
        self.mpi_over(&SHARED_MPI)
    }

    /// The same over other transports.
    pub(super) fn mpi_over(&self, transports: &[&str]) -> Result<Vec<Value>, crate::Error> {
        let Some(program) = &self.mpi else { return Ok(Vec::new()) };
        let mut run = self.run_two_over(transports);
        run.arg(program).args([self.cpus.host.to_string(), self.cpus.device.to_string()]);
        Ok(rows_of_mpi(&child::capture(&mut run, LIMIT)?))
    }

    /// The number of UCX's measurements.
    pub(super) fn ucx_tests(&self) -> usize {
        if self.root.is_dir() { SIZES.len() + WINDOWS.len() + 1 } else { 0 }
    }

    /// One measurement of UCX, of its active messages or of puts: each takes as long as a spell may last.
    pub(super) fn ucx(&self, which: usize) -> Result<Vec<Value>, crate::Error> {
        let value = match (SIZES.get(which), WINDOWS.get(which.wrapping_sub(SIZES.len()))) {
            (Some(&number), _) => {
                let value = self.ucx_latency(number, &SHARED_UCX)?;
                Value { system: "UCX", what: "size", number, value }
            }
            (None, Some(&number)) => {
                let window = number.to_string();
                let test = ["-t", "am_bw", "-x", "posix", "-d", "memory", "-n", "100000", "-w", "2000", "-s", "8"];
                let test = [&test[..], &["-W", &window]].concat();
                // The median time per message: a rate over all would count what else this machine does.
                let value = 1e6 / column(&self.ucx_once(&test, &SHARED_UCX)?, 1);
                Value { system: "UCX", what: "window", number, value }
            }
            (None, None) => {
                let number = 8;
                let test = ["-t", "ucp_put_bw", "-n", "1000000", "-w", "2000", "-s", "8"];
                // A put takes few of the microseconds' thousandths that the median has, so the rate is that over all.
                let value = column(&self.ucx_once(&test, &SHARED_UCX)?, OVERALL_RATE);
                Value { system: "UCX", what: "put", number, value }
            }
        };
        Ok(Some(value).into_iter().filter(|value| value.value.is_finite()).collect())
    }

    /// Nanoseconds of a round trip of active messages of so many bytes.
    pub(super) fn ucx_latency(&self, size: usize, transports: &[(&str, &str)]) -> Result<f64, crate::Error> {
        let test = ["-t", "ucp_am_lat", "-n", "20000", "-w", "2000", "-s", &size.to_string()];
        // What it calls latency is half of a round trip, in microseconds.
        Ok(column(&self.ucx_once(&test, transports)?, 1) * 2000.0)
    }

    fn ucx_once(&self, test: &[&str], transports: &[(&str, &str)]) -> Result<String, crate::Error> {
        let port = self.port.replace(self.port.get() + 1).to_string();
        let side = |cpu: usize| {
            let mut command = self.command("ucx_perftest");
            command.envs(transports.iter().copied()).env("UCX_LOG_LEVEL", "fatal");
            command.args(["-p", &port, "-f", "-c", &cpu.to_string()]).stderr(Stdio::null());
            command
        };
        let server = child::Background::start(side(self.cpus.device).stdout(Stdio::null()))?;
        // There is no other sign that it listens than that a client gets through.
        let deadline = Instant::now() + Duration::from_secs(5);
        let client = loop {
            let mut client = side(self.cpus.host);
            client.arg("127.0.0.1").args(test);
            match child::capture(&mut client, LIMIT) {
                Err(error) if Instant::now() >= deadline => break Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
                done => break done,
            }
        };
        drop(server);
        client
    }
}

/// Another one for each run of this task.
fn first_port() -> u16 {
    PORTS + (std::process::id() % 40) as u16 * 250
}

fn triple() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

/// Libraries, and the programs that are run. The system's loader fits only the system's C library.
fn wanted(name: &str) -> bool {
    let is_library = name.starts_with("lib") && !name.starts_with("libc6") && !name.ends_with("-dev");
    is_library || NAMES.contains(&name) || name == "openmpi-common"
}

fn check(root: &Path) -> Result<(), Error> {
    match ["orterun", "ucx_perftest"].iter().all(|program| root.join("usr/bin").join(program).exists()) {
        true => Ok(()),
        false => Err(Error::Incomplete { what: "OpenMPI and UCX" }),
    }
}

/// The rows that `mpi_ping_pong` prints.
fn rows_of_mpi(text: &str) -> Vec<Value> {
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let what = match words.next()? {
            "size" => "size",
            "window" => "window",
            _ => return None,
        };
        let (number, value) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Value { system: "OpenMPI", what, number, value })
    };
    text.lines().filter_map(row).collect()
}

/// A column of the last line of numbers that `ucx_perftest` prints.
fn column(text: &str, index: usize) -> f64 {
    let numbers = |line: &str| line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>().ok();
    let last = text.lines().filter_map(numbers).rfind(|numbers| !numbers.is_empty());
    last.and_then(|numbers| numbers.get(index).copied()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_unpacked_and_compilers_are_not() {
        let wanted = |name| super::wanted(name);
        assert!(wanted("libucx0") && wanted("openmpi-bin") && wanted("libopenmpi-dev") && wanted("libhwloc15"));
        assert!(!wanted("libc6") && !wanted("libc6-dev") && !wanted("gcc-12") && !wanted("libgcc-12-dev"));
    }

    /// Nothing can be made below /proc, as on a system without network.
    #[test]
    fn systems_that_cannot_be_brought_are_left_out_with_what_to_install() {
        let rivals = Rivals::prepare(Path::new("/proc/none"), Cpus { host: 0, device: 1 });
        assert_eq!(rivals.missing.len(), 1);
        assert!(
            rivals.missing[0].ends_with("apt-get install ucx-utils openmpi-bin libopenmpi-dev)"),
            "{:?}",
            rivals.missing
        );
        assert_eq!((rivals.mpi().expect("none"), rivals.ucx_tests()), (Vec::new(), 0));
    }

    #[test]
    fn rows_are_read_and_other_lines_are_not() {
        let text = "a warning\nsize 8 481.5\nwindow 64 11900000\nsize x 1\n";
        let row = |what, number, value| Value { system: "OpenMPI", what, number, value };
        assert_eq!(rows_of_mpi(text), [row("size", 8, 481.5), row("window", 64, 11_900_000.0)]);
        let text = "+---+\n|  x  |\n 20000 0.486 15.651 15.651 0.49 0.49 63893 63894\n| Message size: 8 |\n";
        assert_eq!((column(text, 0), column(text, 1)), (20_000.0, 0.486));
        assert_eq!(column(text, OVERALL_RATE), 63894.0);
        assert!(column("nothing", 1).is_nan());
    }
}
