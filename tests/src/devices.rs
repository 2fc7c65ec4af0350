//! Opens devices for tests: any kind of device, with the image of the test handlers. A process
//! searches the image once.

use crate::far::{Driven, FarLauncher, Seen, Stubbed, key};
use crate::mirrored::{Far, MirroredLauncher};
use hamr::link::{Link, Protocol};
use hamr::qemu::{Machine, QemuLauncher};
use hamr::serve::Keeper;
use hamr::tcp::TcpLauncher;
use hamr::{
    Error, Features, Image, LaunchRequest, Launcher, Node, Options, Runtime, ShmLauncher, Target, WaitMode, World,
    WorldOptions,
};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_tests_kernels::variants::MARK;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The image of `tests/image`: the handlers of `hamr-kernels` and of `tests/kernels`.
pub const IMAGE: &str = "hamr-checks";

/// The start deadline of a machine, on a loaded host.
pub const START_TIMEOUT: Duration = Duration::from_secs(60);

/// `qemu:riscv64` without supervisor mode, and what needs it.
const MACHINE_MODE: Machine = Machine { name: "machine-mode", cpu: "rv64,h=false,s=false", ..Machine::RISCV64 };

/// What a launcher is asked for, for a device with these options that is attached by itself.
///
/// # Panics
/// There is no such layout.
pub fn request<'d>(device: &'d str, options: &Options) -> LaunchRequest<'d> {
    let plan = Plan {
        streams: options.streams.unwrap_or(8),
        ring: options.ring,
        tickets: options.tickets,
        chunk: options.chunk,
        heap: options.heap,
        ..Plan::default()
    };
    LaunchRequest::new(device, Layout::plan(&plan).expect("allowed").heap(), START_TIMEOUT)
}

/// The runtime of this process, which also knows the devices `machine-mode`, `mirrored`, `far:KIND`, `seen:KIND`, `driven:KIND` and
/// `stubbed:qemu:riscv64`.
///
/// # Panics
/// When it cannot be made.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut runtime = Runtime::new().expect("a runtime");
        runtime.register(MACHINE_MODE.name, QemuLauncher::machine(MACHINE_MODE));
        runtime.register(ONE_MEMORY, OneMemory);
        runtime.register("mirrored", MirroredLauncher(Far::Process));
        runtime.register("tcp", TcpLauncher::with_key(key()));
        runtime.register("far", FarLauncher);
        runtime.register("seen", Seen);
        runtime.register("driven", Driven);
        runtime.register("stubbed", Stubbed);
        if let Some(more) = MORE.get() {
            more(&mut runtime);
        }
        runtime
    })
}

static MORE: OnceLock<fn(&mut Runtime)> = OnceLock::new();

/// Adds kinds of devices that this package does not know to the runtime of this process, before it is asked for.
///
/// # Panics
/// It has others.
pub fn register(more: fn(&mut Runtime)) {
    assert!(MORE.set(more).is_ok(), "there are others");
}

/// Devices on shared memory whose hosts have no memory beside it.
struct OneMemory;
/// Their name.
pub const ONE_MEMORY: &str = "one-memory";

impl Launcher for OneMemory {
    fn describe(&self) -> String {
        ShmLauncher.describe()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        ShmLauncher.target(argument)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        ShmLauncher.launch(request)
    }
}

/// Opens a device whose host and image poll memory of their own each.
///
/// # Panics
/// When it does not open, or has another placement.
pub fn open_split(spec: &str, options: Options) -> Node {
    let options = Options { protocol: Some(Protocol::Split), start_deadline: START_TIMEOUT, ..options };
    let image = image(if spec == ONE_MEMORY { "shm" } else { spec });
    let node = runtime().open_with(spec, image, options).expect("a device");
    assert!(node.info().protocol == Protocol::Split && node.info().features.contains(Features::SPLIT));
    node
}

/// The variable in which `cargo xtask test` lists the images that it has just built, one line each:
/// name, spec of a device, path. Every test is a process of its own, and without the list
/// each would ask cargo whether its image is fresh, which takes longer than most tests.
const BUILT: &str = "HAMR_TEST_IMAGES";

/// The list for a process that this one starts: it builds nothing itself.
///
/// # Panics
/// When the image does not build.
pub fn built(spec: &str) -> (&'static str, String) {
    let target = runtime().target(spec).expect("a known device").expect("it takes an image");
    let file = image(spec).resolve(&target).expect("an image");
    (BUILT, format!("{IMAGE} {spec} {}", file.path.display()))
}

/// Has cargo build an image for the devices of `spec`, or say that it is fresh.
///
/// # Panics
/// When it does not build.
pub fn build(name: &str, spec: &str) -> Image {
    let target = runtime().target(spec).expect("a known device").expect("it takes an image");
    let file = Image::find(name).expect("a name").resolve(&target).expect("the image builds");
    Image::file(file.path).expect("an image")
}

fn just_built(name: &str, spec: &str) -> Option<Image> {
    let built = std::env::var(BUILT).ok()?;
    // Kinds of tests have another kind in them: `far:qemu:riscv64`; alone it is `shm`.
    let is_it = |listed: &str| match spec.strip_suffix(listed) {
        Some(outer) => outer.is_empty() || outer.ends_with(':'),
        None => listed == "shm" && ["far", "driven", "mirrored", "seen"].contains(&spec),
    };
    let path = built.lines().find_map(|line| {
        let mut fields = line.splitn(3, ' ');
        (fields.next() == Some(name) && fields.next().is_some_and(is_it)).then(|| fields.next())?
    })?;
    Image::file(path).ok()
}

/// That image for the devices of `spec`.
///
/// # Panics
/// When it does not build.
pub fn image(spec: &str) -> Image {
    image_of(IMAGE, spec)
}

/// An image for the devices of `spec`. It is searched once, because each search asks cargo whether
/// it is fresh.
///
/// # Panics
/// When it does not build.
pub fn image_of(name: &str, spec: &str) -> Image {
    static IMAGES: Mutex<BTreeMap<(String, String), Image>> = Mutex::new(BTreeMap::new());
    let mut images = IMAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let found = images.entry((name.into(), spec.into())).or_insert_with(|| {
        if let Some(image) = just_built(name, spec) {
            return image;
        }
        build(name, spec)
    });
    found.clone()
}

/// A variant of that image ([`hamr_tests_kernels::variants`]): a copy of its file, beside it.
///
/// # Panics
/// When the image does not build, or has no byte for its variant.
pub fn variant(spec: &str, variant: u8) -> Image {
    let target = runtime().target(spec).expect("a known device").expect("it takes an image");
    let file = image(spec).resolve(&target).expect("an image").path;
    let mut bytes = std::fs::read(&file).expect("a file");
    let marks = || bytes.windows(MARK.len()).enumerate().filter(|(_, bytes)| *bytes == MARK).map(|(at, _)| at);
    let (at, count) = (marks().next().expect("a mark"), marks().count());
    assert_eq!((count, bytes[at + MARK.len()]), (1, 0), "marks in {}", file.display());
    bytes[at + MARK.len()] = variant;
    let copy = file.with_file_name(format!("{IMAGE}-{variant}"));
    // Another test may run it.
    if std::fs::read(&copy).ok().as_ref() != Some(&bytes) {
        let folder = file.parent().expect("it has one");
        // Closed before it has its name: a file that is written cannot be run.
        let own = tempfile::NamedTempFile::new_in(folder).expect("a file").into_temp_path();
        std::fs::write(&own, bytes).expect("written");
        let permissions = std::fs::metadata(&file).expect("a file").permissions();
        std::fs::set_permissions(&own, permissions).expect("it is ours");
        own.persist(&copy).expect("renamed");
    }
    Image::file(copy).expect("an image")
}

/// Opens a device with that image.
///
/// # Panics
/// When it does not open.
pub fn open(spec: &str, options: Options) -> Node {
    let options = Options { start_deadline: START_TIMEOUT, ..options };
    runtime().open_with(spec, image(spec), options).expect("a device")
}

/// A device with that image which outlives its hosts. Behind [`Keeper::run`] of it hosts open
/// `at:NAME`.
///
/// # Panics
/// When it does not start.
pub fn keeper(spec: &str, options: &Options, name: &str) -> Keeper {
    Keeper::start(runtime(), spec, image(spec), options, name).expect("a device")
}

/// [`keeper`] on a thread, until this process ends. Returns the spec by which hosts open it.
pub fn keep(spec: &str, options: &Options) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let mut keeper = keeper(spec, options, &name);
    std::thread::spawn(move || keeper.run(|_| ()).expect("the device stays"));
    format!("at:{name}")
}

/// A world of processes in which nothing but a notification ends the sleep of a rank.
///
/// # Panics
/// When it does not start.
pub fn world(ranks: usize, wait: WaitMode) -> World {
    let WorldOptions { rank, .. } = WorldOptions::default();
    let rank = Options { start_deadline: START_TIMEOUT, segment: 1 << 20, wait, longest_sleep: None, ..rank };
    let options = WorldOptions { rank, ..WorldOptions::default() };
    runtime().world_with(&vec!["shm"; ranks], image("shm"), options).expect("a world")
}
