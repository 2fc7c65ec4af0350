//! Runs of the binary, `PROGRAM` of the test, and files for it to read. The tests of `hamr-bench` use it, too.

use crate::PROGRAM;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program and its descendants carry this variable, so that the test finds those that outlive
/// it.
const MARK: &str = "HAMR_CLI_TEST";
/// The longest time for any condition on a busy machine.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// The image of the program, built once.
pub(crate) fn image() -> &'static Path {
    static IMAGE: OnceLock<PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let output = Command::new(PROGRAM).arg("image").output().expect("the binary runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end())
    })
}

/// A finished run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
    mark: String,
    shm: BTreeSet<PathBuf>,
}

impl Run {
    /// Asserts that the program of this name refused in one line with these words, and left nothing.
    pub(crate) fn was_refused(&self, name: &str, words: &[&str]) {
        assert_eq!(self.code, Some(2), "exit code of {self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "one line in {self:?}");
        assert!(self.stderr.starts_with(&format!("{name}: ")) && !self.stderr.contains("panicked"), "{self:?}");
        assert!(!self.stderr.trim_end().contains(char::is_control), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` in {self:?}");
        }
        self.left_nothing();
    }

    /// Asserts that no process and no file in /dev/shm outlived the run. A device ends by itself
    /// after its host is killed; it gets a short time for that.
    pub(crate) fn left_nothing(&self) {
        let wanted = format!("{MARK}={}", self.mark);
        until("every process of the run has ended", || {
            let entries = std::fs::read_dir("/proc").expect("a /proc").flatten();
            let mut environments = entries.filter_map(|e| std::fs::read(e.path().join("environ")).ok());
            (!environments.any(|env| env.split(|b| *b == 0).any(|v| v == wanted.as_bytes()))).then_some(())
        });
        let new: Vec<_> = shared_memory().difference(&self.shm).cloned().collect();
        assert!(!new.iter().any(|path| path.to_string_lossy().contains("hamr")), "{new:?}");
    }
}

fn shared_memory() -> BTreeSet<PathBuf> {
    std::fs::read_dir("/dev/shm").map(|d| d.flatten().map(|e| e.path()).collect()).unwrap_or_default()
}

/// A run in progress. It is killed when dropped.
pub(crate) struct Running {
    child: Option<Child>,
    /// The part of its standard output that was read.
    heard: Vec<u8>,
    begin: Instant,
    mark: String,
    shm: BTreeSet<PathBuf>,
}

/// Starts the binary with its image.
pub(crate) fn spawn(arguments: &[&str]) -> Running {
    spawn_with(arguments, &[])
}

/// [`spawn`] with variables of its environment.
pub(crate) fn spawn_with(arguments: &[&str], environment: &[(&str, &str)]) -> Running {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let image = image();
    let (begin, shm) = (Instant::now(), shared_memory());
    let child = Command::new(PROGRAM)
        .args(arguments)
        .env(MARK, &mark)
        // `hamr image` builds the image that this names; every other command loads the file without
        // asking cargo.
        .env("HAMR_IMAGE", image)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    Running { child: Some(child), heard: Vec::new(), begin, mark, shm }
}

/// Without the line that this machine has fewer processors than ranks.
fn without_processors(stderr: &str) -> String {
    stderr.split_inclusive('\n').filter(|line| !line.starts_with("hamr: oversubscribed: ")).collect()
}

/// Runs it to its end.
pub(crate) fn hamr(arguments: &[&str]) -> Run {
    let mut run = spawn(arguments).wait();
    if arguments.first() == Some(&"image") {
        run.stderr =
            run.stderr.lines().filter(|l| !l.starts_with("hamr: building image")).map(|l| format!("{l}\n")).collect();
    }
    run
}

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Closes the reading end of its standard output.
    pub(crate) fn close_stdout(mut self) -> Self {
        drop(self.child.as_mut().expect("it runs").stdout.take());
        self
    }

    /// Waits until the run has written `lines` lines in total to its standard output, or has closed
    /// it. Returns them.
    pub(crate) fn hear(&mut self, lines: usize) -> String {
        let stdout = self.child.as_mut().and_then(|child| child.stdout.as_mut()).expect("piped");
        // Byte by byte: what follows these lines is for `wait`.
        let mut byte = [0];
        while self.heard.iter().filter(|b| **b == b'\n').count() < lines && stdout.read(&mut byte).expect("a pipe") > 0
        {
            self.heard.extend(byte);
        }
        String::from_utf8_lossy(&self.heard).into_owned()
    }

    /// Kills it with SIGKILL, so that it cannot clean up.
    pub(crate) fn kill(mut self) -> Self {
        self.child.as_mut().expect("it runs").kill().expect("our own child");
        self
    }

    pub(crate) fn wait(mut self) -> Run {
        let output = self.child.take().expect("it runs").wait_with_output().expect("our own child");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Run {
            code: output.status.code(),
            stdout: text(&[&self.heard[..], &output.stdout].concat()),
            stderr: without_processors(&text(&output.stderr)),
            took: self.begin.elapsed(),
            mark: std::mem::take(&mut self.mark),
            shm: std::mem::take(&mut self.shm),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for a condition.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < COMMAND_TIMEOUT, "not within {COMMAND_TIMEOUT:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Asserts that something takes less than `limit`; it measures the time itself. A longer time is
/// measured again a few times: a busy machine only adds to some of them, and a delay of the program
/// is in each.
pub(crate) fn within(what: &str, limit: Duration, mut measure: impl FnMut() -> Duration) {
    let mut took = Vec::new();
    while took.last().is_none_or(|last| *last >= limit) {
        assert!(took.len() < 5, "expected less than {limit:?} for {what}, got {took:?}");
        took.push(measure());
    }
}

/// Sends a signal by name.
pub(crate) fn signal(pid: u32, name: &str) {
    let signal = match name {
        "STOP" => rustix::process::Signal::STOP,
        "INT" => rustix::process::Signal::INT,
        "TERM" => rustix::process::Signal::TERM,
        "HUP" => rustix::process::Signal::HUP,
        "QUIT" => rustix::process::Signal::QUIT,
        "TSTP" => rustix::process::Signal::TSTP,
        _ => rustix::process::Signal::KILL,
    };
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    rustix::process::kill_process(pid, signal).expect("a process of ours");
}

fn npy(descr: &str, shape: &str) -> Vec<u8> {
    let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes
}

/// Two vectors in files, as f64 (`a64`, `b64`) and as f32 (`a32`, `b32`), and a folder for bad
/// files.
pub(crate) struct Vectors {
    dir: TempDir,
    pub(crate) a: Vec<f64>,
    pub(crate) b: Vec<f64>,
}

impl Vectors {
    pub(crate) fn new(len: usize) -> Self {
        // Terms of very different size and sign: another order of the additions gives other bits.
        let term = |i: usize, by: u64| {
            let x = (i as u64 + 1).wrapping_mul(by).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11;
            (x as f64 / (1u64 << 53) as f64 - 0.5) * 10f64.powi((i % 13) as i32 - 6)
        };
        let a: Vec<f64> = (0..len).map(|i| term(i, 3)).collect();
        let b: Vec<f64> = (0..len).map(|i| term(i, 5)).collect();
        let v = Self { dir: TempDir::new().expect("a temporary folder"), a, b };
        let shape = format!("({len},)");
        for (name, values) in [("a", &v.a), ("b", &v.b)] {
            let wide: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            let narrow: Vec<u8> = values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
            v.write(&format!("{name}64"), "'<f8'", &shape, &wide);
            v.write(&format!("{name}32"), "'<f4'", &shape, &narrow);
        }
        v
    }

    pub(crate) fn dir(&self) -> String {
        self.dir.path().display().to_string()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(format!("{name}.npy")).display().to_string()
    }

    pub(crate) fn raw(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("room for a small file");
        path
    }

    pub(crate) fn write(&self, name: &str, descr: &str, shape: &str, elements: &[u8]) -> String {
        self.raw(name, &[&npy(descr, shape)[..], elements].concat())
    }
}

/// A sparse file with a vector of zeros, so long that its inner product takes seconds.
pub(crate) struct Sparse {
    dir: TempDir,
    pub(crate) path: String,
}

impl Sparse {
    pub(crate) fn new() -> Self {
        const LEN: u64 = 2_000_000_000;
        let dir = TempDir::new().expect("a temporary folder");
        let path = dir.path().join("zeros.npy");
        let header = npy("'<f8'", &format!("({LEN},)"));
        std::fs::write(&path, &header).expect("room for a header");
        let file = std::fs::File::options().write(true).open(&path).expect("just written");
        file.set_len(header.len() as u64 + 8 * LEN).expect("a file system with sparse files");
        Self { path: path.display().to_string(), dir }
    }

    pub(crate) fn beside(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }
}
