//! Modules on devices of any kind: what must hold wherever they are loaded.

use crate::conformance::{Gate, driven, options, until};
use crate::devices;
use hamr::{
    BufferError, CallError, CallOptions, Error, FaultReport, Image, ImageFile, MemoryChange, MemoryHook, Module, Node,
    Options, SubmitError, Target,
};
use hamr_comm::abi::image::ImageKind;
use hamr_comm::abi::status::Status;
use hamr_comm::{BufferPtr, Context, Fault};
use hamr_tests_kernels::crashes::null;
use hamr_tests_kernels::wait_at;
use hamr_tests_xacc::claims::keeps;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The package of `tests/module`.
const MODULE: &str = "hamr-tests-module";
/// What nothing here takes, on a busy machine.
const LONG: Duration = Duration::from_secs(20);

type Twice = fn(&mut Context, i64) -> i64;
type Calls = fn(&mut Context) -> u64;
type Scale = fn(&mut Context, u8, BufferPtr<f64>) -> Result<(), Fault>;
type Sum = fn(&mut Context, [u64; 12]) -> u64;
type Panics = fn(&mut Context, u32) -> u32;
type UntilOpen = fn(&mut Context, BufferPtr<u32>) -> Result<u32, Fault>;

fn open(spec: &str) -> Node {
    devices::open(spec, options())
}

/// The module for the devices of `spec`. It is searched once, because each search asks cargo whether it is
/// fresh.
fn module(spec: &str) -> ImageFile {
    static MODULES: Mutex<BTreeMap<String, ImageFile>> = Mutex::new(BTreeMap::new());
    let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    let found = modules.entry(spec.into()).or_insert_with(|| {
        let target = devices::runtime().target(spec).expect("a known device").expect("it takes images");
        // What the kinds of modules are called by: those of images and 2.
        let target = Target { kind: ImageKind(target.kind.0 + 2), ..target };
        Image::module(MODULE).expect("a name").resolve(&target).expect("it builds")
    });
    found.clone()
}

fn load(node: &Node) -> Module<'_> {
    let file = module(&node.info().name);
    node.load_module(&Image::file(file.path).expect("a module")).expect("it loads")
}

fn path_of(handler: &str) -> String {
    format!("hamr_tests_module::{handler}")
}

fn is_unloaded<E: std::fmt::Debug>(error: CallError<E>) -> bool {
    matches!(error, CallError::Submit(why) if matches!(*why, SubmitError::Unloaded { .. }))
}

/// Calls by name, with arguments and buffers of every way; after the unload they are refused, and the
/// image's handlers work.
pub fn calls(spec: &str) {
    let node = open(spec);
    let module = load(&node);
    let names: Vec<&str> = module.handlers().iter().map(|handler| &*handler.name).collect();
    assert!(names.contains(&&*path_of("twice")) && names.is_sorted(), "{names:?}");
    let twice = module.named::<Twice>(&path_of("twice")).expect("it has it");
    let pending: Vec<_> = (0..100).map(|i| twice.offload((i,)).expect("sent")).collect();
    for (i, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.wait().expect("runs"), 2 * i as i64);
    }
    assert_eq!(twice.sync((21,)).expect("runs"), 42);
    let sum = module.named::<Sum>(&path_of("sum")).expect("it has it");
    assert_eq!(sum.sync(([7; 12],)).expect("runs"), 84);
    let scale = module.named::<Scale>(&path_of("scale")).expect("it has it");
    let x = node.buffer(&[1.0, 2.0, 3.0]).expect("room");
    scale.sync((0, x.ptr())).expect("runs");
    assert_eq!(x.read().expect("there"), [2.0, 4.0, 6.0]);
    scale.sync((1, x.ptr())).expect("runs");
    assert_eq!(x.read().expect("there"), [1.0, 2.0, 3.0]);
    let error = scale.sync((2, x.ptr())).expect_err("no such way").to_string();
    assert!(error.contains("no such way") && error.contains("hamr_tests_module::scale"), "{error}");
    assert!(matches!(module.named::<Calls>(&path_of("twice")).err(), Some(SubmitError::OtherSignature { .. })));
    assert!(matches!(module.named::<Twice>("nowhere").err(), Some(SubmitError::MissingHandler { .. })));
    assert!(node.named::<Twice>(&path_of("twice")).is_err(), "the image has it not");
    let live = node.live_buffers();
    module.unload().expect("nothing runs");
    assert_eq!(node.live_buffers(), live - 1, "the module's own");
    let error = twice.sync((1,)).expect_err("it is gone");
    assert!(error.to_string().contains("hamr_tests_module::twice") && is_unloaded(error));
    assert!(matches!(twice.offload((1,)).err(), Some(SubmitError::Unloaded { .. })));
    module.unload().expect("once more is nothing");
    assert_eq!(node.sync(hamr_tests_kernels::echo::with(7u64)).expect("the image works"), 7);
}

/// Every load is a new one: statics begin anew, and calls of the last are refused.
pub fn again(spec: &str) {
    let node = open(spec);
    let first = load(&node);
    let old = first.named::<Calls>(&path_of("calls")).expect("it has it");
    assert_eq!((old.sync(()).expect("runs"), old.sync(()).expect("runs")), (1, 2));
    first.unload().expect("nothing runs");
    for _ in 0..20 {
        let module = load(&node);
        let calls = module.named::<Calls>(&path_of("calls")).expect("it has it");
        assert_eq!((calls.sync(()).expect("runs"), calls.sync(()).expect("runs")), (1, 2));
        assert!(is_unloaded(old.sync(()).expect_err("gone")));
        module.unload().expect("nothing runs");
    }
}

/// A panic in a module fails its own call, with message and place.
pub fn panics(spec: &str) {
    let node = open(spec);
    let module = load(&node);
    let panics = module.named::<Panics>(&path_of("panics")).expect("it has it");
    for value in [1, 2] {
        let Err(CallError::Fault(report)) = panics.sync((value,)) else { panic!("it panics") };
        let report: &FaultReport = &report;
        let text = report.to_string();
        assert!(
            text.contains(&format!("the module was given {value}")) && text.contains("module/src/lib.rs"),
            "{text}"
        );
    }
    assert_eq!(panics.sync((0,)).expect("works again"), 0);
    module.unload().expect("nothing runs");
}

/// What a task of the image has claimed, a module's handlers are refused, as those of the image.
pub fn claims(spec: &str) {
    let node = open(spec);
    let module = load(&node);
    let scale = module.named::<Scale>(&path_of("scale")).expect("it has it");
    let (x, y) = (node.buffer(&[0u64; 8]).expect("room"), node.buffer(&[1.0]).expect("room"));
    let seen_by_module = BufferPtr::from_wire(x.ptr().wire());
    scale.sync((0, seen_by_module)).expect("it is free");
    let gate = Gate::new(&node);
    driven(&node, || {
        let held = node.offload(keeps::with(x.ptr(), gate.ptr(), 0)).expect("sent");
        gate.wait_for(1);
        let Err(CallError::Fault(report)) = scale.sync((0, seen_by_module)) else { panic!("it is claimed") };
        assert_eq!(report.status, Status::BUFFER_BUSY, "{report}");
        scale.sync((0, y.ptr())).expect("it is free");
        gate.open();
        held.wait().expect("goes on");
    });
    scale.sync((0, seen_by_module)).expect("it is free again");
    module.unload().expect("nothing runs");
}

/// An unload beside a running call says so, or waits for it.
pub fn waits(spec: &str) {
    let node = open(spec);
    let module = load(&node);
    let gate = Gate::new(&node);
    let until_open = module.named::<UntilOpen>(&path_of("until_open")).expect("it has it");
    let pending = until_open.offload((gate.ptr(),)).expect("sent");
    gate.wait_for(1);
    let error = module.unload_within(Duration::from_millis(30)).expect_err("a handler runs");
    assert!(matches!(error, Error::Module { .. }) && error.to_string().contains("in flight"), "{error}");
    assert!(matches!(until_open.offload((gate.ptr(),)).err(), Some(SubmitError::Unloaded { .. })));
    std::thread::scope(|scope| {
        let unload = scope.spawn(|| module.unload());
        // A limit counts beside another thread that waits longer.
        module.unload_within(Duration::from_millis(30)).expect_err("a handler runs");
        gate.open();
        assert_eq!(pending.wait().expect("it ends first"), 1);
        unload.join().expect("a thread").expect("unloaded");
    });
}

/// An unload that the device came to late took that module away: another one in its place stays.
pub fn late(spec: &str) {
    let node = open(spec);
    let module = load(&node);
    let gate = Gate::new(&node);
    let stream = node.shared_stream().expect("free");
    let busy = stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
    gate.wait_for(1);
    let error = module.unload_within(Duration::from_millis(10)).expect_err("the device is busy");
    assert!(matches!(error, Error::Module { .. }), "{error}");
    gate.open();
    assert_eq!(busy.wait().expect("runs"), 1);
    let other = load(&node);
    module.unload().expect("it may be unloaded again");
    let twice = other.named::<Twice>(&path_of("twice")).expect("it has it");
    assert_eq!(twice.sync((21,)).expect("it was not unloaded"), 42);
    other.unload().expect("nothing runs");
}

/// A load that the device came to late takes none of its places.
pub fn late_loads(spec: &str, most: usize) {
    let node = devices::open(spec, Options { deadline: Some(Duration::from_millis(300)), ..options() });
    let gate = Gate::new(&node);
    let stream = node.shared_stream().expect("free");
    let busy = stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
    gate.wait_for(1);
    let file = Image::file(module(spec).path).expect("a module");
    for _ in 0..3 {
        let error = node.load_module(&file).expect_err("the device is busy");
        let is_late = error.to_string().contains("the device has not come to it in 300ms");
        assert!(matches!(error, Error::Module { .. }) && is_late, "{error}");
    }
    gate.open();
    busy.wait_timeout(LONG).expect("runs");
    // Behind what the thread has sent before.
    node.sync_with(wait_at::with(gate.ptr(), 2), CallOptions::deadline(LONG)).expect("runs");
    let loaded = (0..most).map(|_| node.load_module(&file)).collect::<Result<Vec<_>, _>>();
    assert_eq!(loaded.expect("there is room").len(), most);
}

/// A memory hook that unloads the module whose buffer it is told of is refused at once.
pub fn hooks(spec: &str) {
    // A hook borrows nothing.
    let node: &'static Node = Box::leak(Box::new(open(spec)));
    let module: &'static Module<'static> = Box::leak(Box::new(load(node)));
    let (say, said) = std::sync::mpsc::channel();
    node.set_memory_hook(Some(MemoryHook::new(move |event| {
        if event.change == MemoryChange::Freed {
            let begin = Instant::now();
            let refused = module.unload_within(LONG).expect_err("it is being unloaded").to_string();
            say.send((refused, begin.elapsed())).expect("the test waits");
        }
    })));
    module.unload().expect("nothing runs");
    node.set_memory_hook(None);
    let (refused, took) = said.try_recv().expect("it was told");
    assert!(refused.contains("this thread is unloading it") && took < LONG / 2, "{refused} after {took:?}");
    module.unload().expect("it is gone");
    node.stop();
}

/// A module that is loaded where the last epoch ended by a fault is one of the next epoch.
pub fn behind_a_crash(spec: &str) {
    let node = open(spec);
    node.sync(null::with()).expect_err("it ends its device");
    let module = load(&node);
    let twice = module.named::<Twice>(&path_of("twice")).expect("it has it");
    assert_eq!(twice.sync((21,)).expect("it was loaded"), 42);
    module.unload().expect("nothing runs");
}

/// What is submitted and not waited for runs before the module goes.
pub fn detached(spec: &str) {
    let node = open(spec);
    let module = load(&node);
    let x = node.buffer(&[1.0]).expect("room");
    let scale = module.named::<Scale>(&path_of("scale")).expect("it has it");
    for _ in 0..10 {
        drop(scale.offload((0, x.ptr())).expect("sent"));
    }
    module.unload().expect("all have run");
    until("the calls are taken in", || !matches!(x.read(), Err(Error::Buffer { why: BufferError::Busy, .. })));
    assert_eq!(x.read().expect("there"), [1024.0]);
}

/// A module ends with its epoch.
pub fn restarts(spec: &str) {
    let node = open(spec);
    let module = load(&node);
    let twice = module.named::<Twice>(&path_of("twice")).expect("it has it");
    assert_eq!(twice.sync((2,)).expect("runs"), 4);
    node.restart().expect("starts again");
    assert!(is_unloaded(twice.sync((2,)).expect_err("of the last epoch")));
    module.unload().expect("it is gone");
    let module = load(&node);
    assert_eq!(module.named::<Twice>(&path_of("twice")).expect("it has it").sync((3,)).expect("runs"), 6);
}

/// The device has room for so many, and says so of the next; an unloaded one makes room.
pub fn room(spec: &str, most: usize, says: &str) {
    let node = open(spec);
    let mut modules: Vec<Module<'_>> = (0..most).map(|_| load(&node)).collect();
    let next = Image::file(module(spec).path).expect("a module");
    let error = node.load_module(&next).expect_err("no room").to_string();
    assert!(error.contains(says), "{error}");
    modules.swap_remove(most / 2).unload().expect("nothing runs");
    let next = load(&node);
    for module in modules.iter().chain([&next]) {
        let calls = module.named::<Calls>(&path_of("calls")).expect("it has it");
        assert_eq!(calls.sync(()).expect("runs"), 1, "each has its own statics");
    }
}

/// Where the header is in a module's file.
fn header_in(file: &[u8]) -> usize {
    let elf = object::File::parse(file).expect("an ELF file");
    let symbol = elf.symbols().chain(elf.dynamic_symbols()).find(|symbol| symbol.name() == Ok("HAMR_MODULE"));
    let address = symbol.expect("it has one").address();
    let segment = elf.segments().find(|s| (s.address()..s.address() + s.size()).contains(&address));
    let segment = segment.expect("it is loaded");
    (segment.file_range().0 + (address - segment.address())) as usize
}

/// What was built otherwise is refused by name, and nothing is left of it.
pub fn refusals(spec: &str) {
    let node = open(spec);
    let bytes = std::fs::read(module(spec).path).expect("a file");
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        let image = Image::module(path.to_str().expect("text"));
        image.and_then(|image| node.load_module(&image).map(drop)).expect_err("refused").to_string()
    };
    let magic = header_in(&bytes);
    for (offset, says) in [(8, "compiler"), (16, "hamr-comm"), (0, "expected a module")] {
        let mut other = bytes.clone();
        other[magic + offset] ^= 1;
        let error = refused("other", &other);
        assert!(error.contains(says) && error.contains("other"), "{error}");
    }
    let error = refused("short", &bytes[..bytes.len() / 2]);
    assert!(error.contains("cut short"), "{error}");
    let error = refused("text", b"no module");
    assert!(error.contains("expected an ELF file"), "{error}");
    let image = devices::image(spec);
    let error = node.load_module(&image).expect_err("an image").to_string();
    assert!(error.contains("expected a module, got an image"), "{error}");
    assert_eq!(load(&node).named::<Twice>(&path_of("twice")).expect("it has it").sync((2,)).expect("runs"), 4);
}

/// A call of a module that is abandoned inside of a resource poisons it, as one of the image does.
pub fn poisons(spec: &str) {
    let node = open(spec);
    let module = load(&node);
    let within =
        module.named::<fn(&mut Context, bool) -> Result<u32, Fault>>(&path_of("in_resource")).expect("it has it");
    let clear = module.named::<fn(&mut Context) -> bool>(&path_of("clear_resource")).expect("it has it");
    assert_eq!(within.sync((false,)).expect("free"), 8);
    assert!(within.sync((true,)).is_err(), "it panics");
    let Err(CallError::Fault(report)) = within.sync((false,)) else { panic!("half changed") };
    let (status, was_poisoned) = (report.status, clear.sync(()).expect("runs"));
    let after = within.sync((false,)).map_err(|e| e.to_string());
    assert_eq!((status, was_poisoned, after), (Status::POISONED, true, Ok(2)));
}

/// A load of a module is a new one, also behind handlers that left a destructor with their thread.
pub fn forgets(spec: &str) {
    let node = open(spec);
    for round in 0..3 {
        let module = load(&node);
        let of_thread = module.named::<Calls>(&path_of("of_thread")).expect("it has it");
        let calls = module.named::<Calls>(&path_of("calls")).expect("it has it");
        assert_eq!(of_thread.sync(()).expect("runs"), 5);
        assert_eq!(calls.sync(()).expect("runs"), 1, "load {round} has the statics of the one before");
        module.unload().expect("nothing runs");
    }
}

/// Another module behind such a one is that module.
pub fn takes_no_other(spec: &str) {
    let node = open(spec);
    let module = load(&node);
    let of_thread = module.named::<Calls>(&path_of("of_thread")).expect("it has it");
    assert_eq!(of_thread.sync(()).expect("runs"), 5);
    module.unload().expect("nothing runs");
    let other = Image::module("hamr-tests-module-2").expect("a name");
    let other = node.load_module(&other).map_err(|e| e.to_string()).expect("another module");
    let answer = other.named::<Calls>("hamr_tests_module_2::answer").expect("it has it");
    assert_eq!(answer.sync(()).expect("runs"), 42);
}

/// The module has no writable static of hamr's crates but those that are made for it: any other would be a second copy
/// of the image's state, which the image does not change.
pub fn statics(spec: &str) {
    const KNOWN: [&str; 7] = [
        // What `enter` keeps, what each call begins with, and in a process the text of a panic.
        "5image5IMAGE",
        "6shared6SHARED",
        "4kind4LAST",
        // No rank takes modules, and no module has tasks, which claim; what the image's have claimed is asked of it.
        "5world4RANK",
        "6ranges6RANGES",
        // The table of a process, sorted where it is asked for first, and its entries, which are not written.
        "6SORTED",
        "_5ENTRY",
    ];
    let file = std::fs::read(module(spec).path).expect("it was built");
    let elf = object::File::parse(&*file).expect("an ELF file");
    let is_writable = |section: &object::Section<'_, '_>| {
        // The table is read-only where it is loaded.
        !section.name().is_ok_and(|name| name.contains(".rel.ro") || name == ".hamr.handlers")
            && matches!(section.flags(), object::SectionFlags::Elf { sh_flags } if sh_flags & u64::from(object::elf::SHF_WRITE) != 0)
    };
    let of_hamr: Vec<&str> = elf
        .symbols()
        .filter(|symbol| symbol.size() != 0 && symbol.kind() != object::SymbolKind::Section)
        .filter(|symbol| {
            symbol.section_index().and_then(|at| elf.section_by_index(at).ok()).is_some_and(|at| is_writable(&at))
        })
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| ["9hamr_comm", "15hamr_shared_abi"].iter().any(|name_of| name.contains(name_of)))
        .collect();
    assert!(of_hamr.iter().any(|name| name.contains(KNOWN[1])), "a module uses a resource: {of_hamr:?}");
    let others: Vec<&&str> = of_hamr.iter().filter(|name| !KNOWN.iter().any(|known| name.contains(known))).collect();
    assert!(others.is_empty(), "state belongs into `hamr_comm::shared`, which modules follow: {others:?}");
}
