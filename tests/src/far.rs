//! Devices at the other end of TCP, and a network between that can be cut.

use crate::devices;
use crate::mirrored::{keep, keep_own};
use hamr::gdb::GdbLauncher;
use hamr::link::{Link, Protocol};
use hamr::mirror::MirrorLink;
use hamr::qemu::{Machine, Place, QemuLauncher};
use hamr::serve::{Keeper, Listener};
use hamr::tcp::TcpLauncher;
use hamr::{
    CallError, Error, Image, LaunchRequest, Launcher, LoopbackLauncher, Node, Options, Pending, ShmLauncher, Target,
};
use hamr_tests_kernels::{append, echo};
use std::fs::File;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The key of this process's servers and hosts: a file that has no name any more.
///
/// # Panics
/// When it cannot be written.
pub fn key() -> PathBuf {
    static KEY: OnceLock<File> = OnceLock::new();
    let file = KEY.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        hamr_net::key::make(&path).expect("a key");
        File::open(path).expect("a file")
    });
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Starts devices of the kinds behind its colon, each of which a thread of this process serves at an address of its own, and
/// opens them there: `far:qemu:riscv64`. Without one it is `shm`.
pub struct FarLauncher;

impl Launcher for FarLauncher {
    fn describe(&self) -> String {
        "a device at the other end of TCP: for tests".into()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        devices::runtime().target(argument)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let &LaunchRequest { argument, window_len, image, start_deadline, silence, .. } = request;
        let argument = if argument.is_empty() { "shm" } else { argument };
        let image = Image::file(&image.expect("its kind takes one").path)?;
        // As long as the host's layout needs, and its own front.
        let options = Options { heap: window_len, start_deadline, silence, ..Options::default() };
        let at = serve_image(argument, image, &options)?.to_string();
        TcpLauncher::with_key(key()).launch(&LaunchRequest { argument: &at, ..*request })
    }
}

/// Starts the devices of the kind behind its colon, in whose windows a test may look.
pub struct Seen;

impl Seen {
    fn inner(argument: &str) -> (Box<dyn Launcher>, &str) {
        match argument.split_once(':').unwrap_or((argument, "")) {
            ("qemu", name) => {
                let machine = Machine::ALL.iter().find(|machine| machine.name == name).expect("a machine");
                (Box::new(QemuLauncher::machine(*machine)), "")
            }
            ("loopback", _) => (Box::new(LoopbackLauncher), ""),
            _ => (Box::new(ShmLauncher), ""),
        }
    }
}

impl Launcher for Seen {
    fn describe(&self) -> String {
        ShmLauncher.describe()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        devices::runtime().target(argument)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let (launcher, argument) = Self::inner(request.argument);
        let link = launcher.launch(&LaunchRequest { argument, ..*request })?;
        if request.drives {
            keep_own(request, own_window(request)?);
        } else {
            keep(&*link, request);
        }
        Ok(link)
    }
    fn protocols(&self) -> &'static [Protocol] {
        ShmLauncher.protocols()
    }
}

/// Where a device that drives its host's memory has its window in the memory that its launcher has made for it.
fn own_window(request: &LaunchRequest<'_>) -> Result<u64, Error> {
    let Some(name) = request.argument.strip_prefix("qemu:") else { return Ok(0) };
    let begins = match name {
        "riscv64" => RAM,
        "aarch64" => 0x4000_0000,
        _ => 0,
    };
    Ok(request.image.expect("it takes one").reserved_window()?.start - begins)
}

/// Starts the same devices, whose memory their host reads and writes.
pub struct Driven;

impl Launcher for Driven {
    fn describe(&self) -> String {
        "a device whose memory is read and written: for tests".into()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        devices::runtime().target(if argument.is_empty() { "shm" } else { argument })
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let &LaunchRequest { window_len, start_deadline, .. } = request;
        Ok(Box::new(MirrorLink::driven(
            Seen.launch(request)?.into(),
            |window, heap| (window, heap),
            window_len,
            start_deadline,
        )?))
    }
}

/// Starts machines of QEMU with a debugger's stub, and opens them through it: a card has a window, which this program does not
/// use, or there is no card, and the image has one.
pub struct Stubbed;

/// Where firmware maps the card's memory first: `virt_riscv64`.
const CARD: u64 = 0x4_0000_0000;
/// And its main memory.
const RAM: u64 = 0x8000_0000;

impl Launcher for Stubbed {
    fn describe(&self) -> String {
        "a machine behind a debugger's stub: for tests".into()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        devices::runtime().target(argument)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let port =
            TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()).expect("a port").port();
        let stub: &'static str = format!("tcp:127.0.0.1:{port}").leak();
        let args = [Machine::RISCV64.args, &["-gdb", stub]].concat().leak();
        let own = request.image.expect("it takes one").reserved_window()?;
        let has_card = own.end - own.start != request.window_len;
        let window = if has_card { Place::Card } else { Place::Memory(RAM) };
        let machine = QemuLauncher::machine(Machine { args, window, ..Machine::RISCV64 });
        let link = machine.launch(&LaunchRequest { argument: "", ..*request })?;
        keep(&*link, request);
        // The machine runs as long as the test's process.
        Box::leak(Box::new(link));
        let argument = format!("127.0.0.1:{port}{}", if has_card { format!(",base={CARD:#x}") } else { String::new() });
        // Until QEMU listens.
        let begin = Instant::now();
        loop {
            let opened = GdbLauncher.launch(&LaunchRequest { argument: &argument, ..*request });
            if opened.is_ok() || begin.elapsed() > devices::START_TIMEOUT {
                return opened;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn serve_image(spec: &str, image: Image, options: &Options) -> Result<SocketAddr, Error> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("far-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let mut keeper = Keeper::start(devices::runtime(), &format!("seen:{spec}"), image, options, &name)?;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::open(any, Some(&key()), options.silence, |line| println!("{line}"))?;
    keeper.listen(&listener)?;
    let at = listener.address();
    std::thread::spawn(move || keeper.run(|event| println!("{event}")).expect("the device stays"));
    Ok(at)
}

/// A device of that kind, which a thread of this process gives to hosts at an address of its own, until the process ends.
///
/// # Panics
/// When it does not start.
pub fn serve(spec: &str, options: &Options) -> SocketAddr {
    serve_image(spec, devices::image(spec), options).expect("a device")
}

/// Opens the device that is served there.
///
/// # Panics
/// When it does not open.
pub fn open(at: SocketAddr, image: Image, options: Options) -> Node {
    devices::runtime().open_with(&format!("tcp:{at}"), image, options).expect("a device at the other end")
}

/// Everything that a call has returned has happened once, and what it has not, at most once, while a cable is cut in each of
/// some rounds, which `cut` says may have cost calls.
///
/// # Panics
/// When it has not, or no round ends.
pub fn calls_happen_once(node: &Node, rounds: u64, cut: impl Fn(u64) -> bool + Sync, heal: impl Fn()) {
    const LONG: Duration = Duration::from_secs(30);
    let log = node.buffer(&vec![0u64; 1 << 20]).expect("room");
    let words = log.ptr().wire().words();
    let (mut sent, mut returned, mut lost_in_all) = (0u64, Vec::new(), 0);
    for round in 0..rounds {
        let (mut calls, begin, mut lost) = (Vec::new(), Instant::now(), 0);
        let mut take = |value: u64, call: Pending<_, _>| match call.wait() {
            Ok(_) => {
                returned.push(value);
                true
            }
            Err(CallError::DeviceLost(..)) => false,
            Err(e) => panic!("expected a lost device, got {e}"),
        };
        let may_lose = std::thread::scope(|scope| {
            let cuts = scope.spawn(|| {
                std::thread::sleep(Duration::from_micros(500 * (1 + round * 7 % 13)));
                cut(round)
            });
            while !cuts.is_finished() || calls.len() <= 8 {
                assert!(begin.elapsed() < LONG, "the loss is seen");
                match node.offload(append::with(words, sent)) {
                    Ok(call) => calls.push((sent, call)),
                    Err(_) => break,
                }
                sent += 1;
                let many = calls.len() > 64;
                if let Some((value, call)) = calls.pop_if(|_| many || sent % 3 == 0)
                    && !take(value, call)
                {
                    lost += 1;
                    break;
                }
            }
            cuts.join().expect("it is cut")
        });
        lost += calls.into_iter().map(|(value, call)| u32::from(!take(value, call))).sum::<u32>();
        assert!(may_lose || lost == 0, "{lost} calls of round {round}");
        lost_in_all += lost;
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        heal();
        // The loss may be seen by a call only.
        while node.sync(echo::with(round)).is_err() {
            node.wait_until_back(LONG).expect("it comes back");
        }
    }
    let log = log.read().expect("there");
    let happened = &log[1..=log[0] as usize];
    let times = |value: u64| happened.iter().filter(|entry| **entry == value).count();
    for value in &returned {
        assert_eq!(times(*value), 1, "call {value} returned");
    }
    assert!((0..sent).all(|value| times(value) <= 1), "no call happens twice");
    println!(
        "{sent} calls in {rounds} rounds, {} returned, {} happened, {lost_in_all} lost",
        returned.len(),
        happened.len()
    );
    assert!(!returned.is_empty() && lost_in_all > 0);
}

/// A network between hosts and a server.
pub struct Cable {
    /// Where hosts connect to.
    pub at: SocketAddr,
    ends: Arc<Mutex<Ends>>,
}

struct Ends {
    server: SocketAddr,
    is_cut: bool,
    open: Vec<TcpStream>,
}

impl Cable {
    /// To this server.
    ///
    /// # Panics
    /// Without an address.
    pub fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let ends = Arc::new(Mutex::new(Ends { server, is_cut: false, open: Vec::new() }));
        let at = listener.local_addr().expect("bound");
        let theirs = ends.clone();
        std::thread::spawn(move || {
            for host in listener.incoming().flatten() {
                let mut ends = theirs.lock().unwrap_or_else(PoisonError::into_inner);
                if ends.is_cut {
                    continue;
                }
                let Ok(server) = TcpStream::connect(ends.server) else { continue };
                for (from, to) in [(&host, &server), (&server, &host)] {
                    let copy = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
                    let (mut from, mut to) = (copy(from), copy(to));
                    to.set_nodelay(true).expect("a socket");
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        // One end is that of the other.
                        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                    });
                }
                ends.open.extend([host, server]);
            }
        });
        Self { at, ends }
    }

    /// Nothing passes any more; what is on its way is gone.
    pub fn cut(&self) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.is_cut = true;
        for stream in ends.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// To another server, from the next connection on.
    pub fn plug_into(&self, server: SocketAddr) {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).server = server;
    }

    /// Something does again.
    pub fn heal(&self) {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).is_cut = false;
    }
}
