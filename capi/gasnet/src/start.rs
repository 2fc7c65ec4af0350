//! How a C program becomes a rank, or the launcher of ranks.
//!
//! The C library's start calls `__libc_start_main` with the program's `main`. This library defines that
//! name, too, and is linked before the C library: it hands on `begin` in the place of `main`. So a
//! program needs no change and no flag of the linker, and a static archive and a shared library do the
//! same. (`--wrap=main` does nothing for a shared library, whose references the linker does not rename.)

#![expect(unsafe_code)]
// UNSAFETY: a start of C programs is a C function that is given C functions.

use crate::die::{die, say};
use crate::{board, exit, job, progress};
use hamr::world::ProgramError;
use hamr::{Error, Image, Options, Runtime, World, WorldOptions};
use std::ffi::{CStr, OsString, c_char, c_int, c_void};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

type Main = unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
type Hook = Option<unsafe extern "C" fn()>;
type LibcStartMain = unsafe extern "C" fn(Main, c_int, *mut *mut c_char, Hook, Hook, Hook, *mut c_void) -> c_int;

/// The part of the host's memory that all segments may have together, if nothing else was said. The system gives memory only
/// where it is used.
const PART: f64 = 0.85;
/// The least that a rank gets by itself, if the system's limits allow it.
const LEAST: u64 = 63 << 20;
/// What a process of the job maps beside segments, at most: its libraries, stacks and buffers.
const BESIDE: usize = 128 << 20;
/// What the launcher allocates for itself and for each rank, as measured; that it gets no more, or no thread, it says.
const LAUNCHER: usize = 1 << 20;
const LAUNCHER_OF_RANK: usize = 5 << 19;
/// The library's own threads in a rank: its listener, and that of the image.
const THREADS: [&str; 2] = [exit::LISTENER, "hamr-watch"];

/// `main` of the program.
static MAIN: OnceLock<Main> = OnceLock::new();

/// Starts a program as the C library does, with `begin` for `main`.
///
/// # Safety
/// As the C library's; only its start code calls it.
#[unsafe(no_mangle)]
unsafe extern "C" fn __libc_start_main(
    main: Main,
    argc: c_int,
    argv: *mut *mut c_char,
    init: Hook,
    fini: Hook,
    rtld_fini: Hook,
    stack_end: *mut c_void,
) -> c_int {
    // It is called once.
    let _ = MAIN.set(main);
    // SAFETY: the name ends with a zero.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"__libc_start_main".as_ptr()) };
    if next.is_null() {
        die("the C library has no __libc_start_main: programs that are linked with -static cannot be ranks");
    }
    // SAFETY: the C library's function of this name has this type, on every processor that Linux has.
    let next: LibcStartMain = unsafe { std::mem::transmute(next) };
    // SAFETY: the arguments are the caller's, and `begin` has the type of `main`.
    unsafe { next(begin, argc, argv, init, fini, rtld_fini, stack_end) }
}

/// Runs `main` in the task of a rank; in a process that no launcher started, starts ranks.
extern "C" fn begin(argc: c_int, argv: *mut *mut c_char, envp: *mut *mut c_char) -> c_int {
    open_standard_streams();
    if !hamr::world::is_rank() {
        return launch(&arguments(argc, argv));
    }
    let program = Program { argc, argv, envp };
    hamr::world::serve(move |task| {
        job::enter(task, || {
            exit::prepare();
            let code = program.run();
            // The functions that the program has registered for its end run, and then `exit::at_exit`.
            exit::leave_by_exit(code)
        })
    })
}

/// What `main` gets.
struct Program {
    argc: c_int,
    argv: *mut *mut c_char,
    envp: *mut *mut c_char,
}

// SAFETY: the arguments and the environment live as long as the process, and only the program, on one
// thread, uses them.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Program {
    #[inline(never)]
    fn run(&self) -> c_int {
        let Some(main) = MAIN.get() else { die("the program has no main") };
        BEGIN.store(std::ptr::from_ref(&main).addr(), Relaxed);
        // SAFETY: it is the program's `main`, with what the C library passed for it.
        unsafe { main(self.argc, self.argv, self.envp) }
    }
}

/// Where the stack of `main` begins.
static BEGIN: AtomicUsize = AtomicUsize::new(0);

/// The addresses of this thread's stack: what of it is in use, as far as it is the program's.
pub(crate) fn stack() -> Range<usize> {
    let here = 0u8;
    let here = std::ptr::from_ref(&here).addr();
    if job::is_main() {
        return here..BEGIN.load(Relaxed).max(here);
    }
    // SAFETY: all zeros is a value of it.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: the function takes nothing.
    let thread = unsafe { libc::pthread_self() };
    // SAFETY: this thread, and a structure of its own.
    if unsafe { libc::pthread_getattr_np(thread, &raw mut attributes) } != 0 {
        return here..here;
    }
    let (mut base, mut len) = (null_mut(), 0);
    // SAFETY: the attributes that were just read, and places of their own.
    unsafe { libc::pthread_attr_getstack(&raw const attributes, &raw mut base, &raw mut len) };
    // SAFETY: they are used no more.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    base.addr()..base.addr() + len
}

/// Gives the numbers 0 to 2 to `/dev/null` where they are closed, before anything that is opened gets them: a program in C
/// may be started so, and what it prints would go there.
fn open_standard_streams() {
    for number in 0..=2 {
        // SAFETY: it asks for a number's flags.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
            // SAFETY: the name ends with a zero. The lowest number that is free is this one.
            unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        }
    }
}

/// Ends a thread; of a rank's `main`, which is a task of the library's, only the program: the process goes on until its
/// other threads have ended.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_exit(value: *mut c_void) -> ! {
    if job::is_main() && exit::is_rank() {
        while other_threads() > 0 {
            // It serves the rank meanwhile.
            progress::poll_if_begun();
            std::thread::sleep(Duration::from_millis(1));
        }
        exit::leave_by_exit(0);
    }
    // SAFETY: the name ends with a zero.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_exit".as_ptr()) };
    if next.is_null() {
        die("the C library has no pthread_exit");
    }
    // SAFETY: the C library's function of this name has this type.
    let next: unsafe extern "C" fn(*mut c_void) -> ! = unsafe { std::mem::transmute(next) };
    // SAFETY: the caller's promise.
    unsafe { next(value) }
}

/// Threads of this process beside `main` and the library's own.
fn other_threads() -> usize {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let is_ours = |task: &std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| THREADS.contains(&name.trim_end()))
    };
    tasks.flatten().filter(|task| !is_ours(task)).count().saturating_sub(1)
}

/// The arguments behind the program's name.
fn arguments(argc: c_int, argv: *mut *mut c_char) -> Vec<OsString> {
    let argument = |i: usize| {
        // SAFETY: `i` is below `argc`, and the C library passes that many.
        let text = unsafe { *argv.wrapping_add(i) };
        // SAFETY: an argument ends with a zero.
        let text = unsafe { CStr::from_ptr(text) };
        std::ffi::OsStr::from_bytes(text.to_bytes()).to_owned()
    };
    (1..usize::try_from(argc).unwrap_or(0)).map(argument).collect()
}

/// Starts as many copies of this program as the environment says, as the ranks of a world, and returns
/// their exit code.
fn launch(arguments: &[OsString]) -> c_int {
    exit::prepare_launcher();
    match start(arguments) {
        Ok(code) => code.into(),
        Err(why) => {
            say(&why.to_string());
            2
        }
    }
}

fn start(arguments: &[OsString]) -> Result<u8, Box<dyn std::error::Error>> {
    let ranks = number("GASNET_PSHM_NODES")?.or(number("HAMR_NODES")?).unwrap_or(1);
    let path = std::fs::read_link("/proc/self/exe")?;
    has_memory(ranks)?;
    let segment = segment(ranks)?.unwrap_or_else(|| default_segment(ranks));
    let world = world(ranks, &path, arguments, segment)?;
    let why = match world.run_main("") {
        Ok(code) => return Ok(code),
        Err(why) => why,
    };
    let code = match &why {
        ProgramError::Lost(lost) => lost.code,
        ProgramError::Failed(failed) => world.node(failed.rank.0).last_crash().and_then(|crash| crash.exit_code()),
        ProgramError::Start(_) => None,
    };
    say(&why.to_string());
    Ok(code.filter(|code| *code != 0).unwrap_or(2))
}

/// Does the system let the launcher have the memory that it uses? An allocation that fails would abort it.
fn has_memory(ranks: usize) -> Result<(), String> {
    let len = LAUNCHER + ranks * LAUNCHER_OF_RANK;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new pages, wherever there is room; none is used.
    let mapped = unsafe { libc::mmap(null_mut(), len, access, kind, -1, 0) };
    // SAFETY: the pages that were mapped just now, if any.
    if mapped != libc::MAP_FAILED && unsafe { libc::munmap(mapped, len) } == 0 {
        return Ok(());
    }
    let mib = len.div_ceil(1 << 20);
    Err(format!(
        "GASNet: expected {mib} MiB of memory for the launcher of the ranks (`ulimit -d`, `ulimit -v`), got less"
    ))
}

/// Bytes of a rank's segment, if nothing was said: found before ranks start, so that whatever fails there is told.
fn default_segment(ranks: usize) -> u64 {
    let part = |of: f64| (of * PART / ranks as f64) as u64;
    let mut segment = part(installed()).max(LEAST).min(part(allowed()));
    // The system may allow still less.
    while segment > board::PAGE && !fits(ranks, segment) {
        segment /= 2;
    }
    segment
}

/// Does the system map the segments of all ranks twice, as the launcher does, and what a process has beside them?
fn fits(ranks: usize, segment: u64) -> bool {
    let len = (segment + board::BYTES).checked_mul(ranks as u64);
    // Beyond the limit the system would end this process by a signal.
    let Some(len) = len.filter(|len| *len as f64 <= limit(libc::RLIMIT_FSIZE)) else { return false };
    // SAFETY: the name ends with a zero.
    let file = unsafe { libc::memfd_create(c"segments".as_ptr(), libc::MFD_CLOEXEC) };
    if file == -1 {
        return false;
    }
    // SAFETY: it was opened above, and nothing else has it.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    // SAFETY: a file of its own.
    if unsafe { libc::ftruncate(file.as_raw_fd(), len as libc::off_t) } != 0 {
        return false;
    }
    let (len, access) = (2 * len as usize + BESIDE, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: new pages, wherever there is room; none is used.
    let mapped = unsafe { libc::mmap(null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    // SAFETY: the pages that were mapped just now, if any.
    mapped != libc::MAP_FAILED && unsafe { libc::munmap(mapped, len) } == 0
}

/// Starts a world of ranks whose segments have so many bytes, beside the board.
fn world(ranks: usize, path: &Path, arguments: &[OsString], segment: u64) -> Result<World, Error> {
    let options = WorldOptions::default();
    let segment = segment.next_multiple_of(board::PAGE) + board::BYTES;
    // A program may take as long as it likes.
    let rank = Options { deadline: None, segment, ..options.rank };
    Runtime::new()?.world_with(&vec!["shm"; ranks], Image::program(path, arguments)?, WorldOptions { rank, ..options })
}

/// A variable that is set. Bytes that are no text, or that a terminal would follow, are refused as a value is.
fn variable(name: &str) -> Option<String> {
    let text = std::env::var_os(name).filter(|text| !text.is_empty())?;
    let plain = text.to_str().filter(|text| !text.contains(char::is_control));
    Some(plain.map_or_else(|| format!("{text:?}"), str::to_owned))
}

fn number(name: &str) -> Result<Option<usize>, String> {
    let Some(text) = variable(name) else { return Ok(None) };
    match text.parse() {
        Ok(ranks) if (1..=64).contains(&ranks) => Ok(Some(ranks)),
        _ => Err(format!("{name}: expected 1 to 64 ranks, got {text}")),
    }
}

/// Bytes of a rank's segment, if that was said.
pub(crate) fn segment(ranks: usize) -> Result<Option<u64>, String> {
    let Some(text) = variable("GASNET_MAX_SEGSIZE") else { return Ok(None) };
    let bytes = memory(&text, ranks).ok_or_else(|| {
        format!("GASNET_MAX_SEGSIZE: expected 1 to 1024G, or a part of the memory as 0.5, and /P or /H behind it, got {text}")
    })?;
    Ok(Some(bytes.next_multiple_of(board::PAGE)))
}

/// `64M`, `0.5GB/P`: bytes of each process. `4G/H`: of all processes of the host. `0.5/H`, a fraction without a unit: of the
/// host's memory.
fn memory(text: &str, ranks: usize) -> Option<u64> {
    let (size, sharers) = match text.rsplit_once('/') {
        None => (text, 1),
        Some((size, to)) if to.eq_ignore_ascii_case("p") => (size, 1),
        Some((size, to)) if to.eq_ignore_ascii_case("h") => (size, ranks),
        Some(_) => return None,
    };
    let end = size.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(size.len());
    let (number, unit) = size.split_at(end);
    let number: f64 = number.parse().ok()?;
    let unit = match unit.trim().trim_end_matches(['B', 'b']).to_ascii_uppercase().as_str() {
        "" if number < 1.0 => installed(),
        "" => 1.0,
        "K" => 1024.0,
        "M" => 1024.0 * 1024.0,
        "G" => 1024.0 * 1024.0 * 1024.0,
        "T" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = number * unit / sharers as f64;
    (1.0..=1024.0 * 1024.0 * 1024.0 * 1024.0).contains(&bytes).then_some(bytes as u64)
}

/// Bytes that this process may map, and that a file may have, which its ranks inherit; infinite: there is no limit.
fn allowed() -> f64 {
    let limits = [libc::RLIMIT_AS, libc::RLIMIT_DATA, libc::RLIMIT_FSIZE].map(|of| limit(of) / 2.0);
    limits.into_iter().fold(f64::INFINITY, f64::min)
}

/// What the system lets this process have of a resource.
fn limit(of: libc::__rlimit_resource_t) -> f64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a structure of its own.
    unsafe { libc::getrlimit(of, &raw mut limit) };
    if limit.rlim_cur == libc::RLIM_INFINITY { f64::INFINITY } else { limit.rlim_cur as f64 }
}

/// Bytes of the host's memory.
fn installed() -> f64 {
    // SAFETY: it reads a number of the system.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    pages as f64 * board::PAGE as f64
}
