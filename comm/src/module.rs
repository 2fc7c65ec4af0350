//! Modules: code with handlers that is loaded beside a running image (`docs/modules.md`).
//!
//! A module is a crate that says `hamr_comm::module!()`. It has a copy of its own of this crate and of
//! `core`, and shares no symbol with the image: the two meet in [`ModuleHeader`] alone. What Rust does
//! not promise (layouts, calls) is the same on both sides because [`Build`] is.
//!
//! The device's part is the handlers [`Reserve`], [`Load`] and [`Unload`], and [`KeepImage`] for a whole
//! image, which images have that name `modules`, and a [`Loader`], which knows what memory becomes code. They run in the serve loop, as
//! every inline handler: no other handler runs then.

// Contract "modules". `module!` puts the note of abi §10 into its section, defines `HAMR_MODULE`
// unmangled, and on bare metal the panic handler: a library with two does not link. Image and module
// call each other by Rust's conventions, and share `Context`, `Frame` and `Entry`: sound because
// `ModuleHeader::check`, of fields with C's layout, comes first and admits the same compiler, target
// and source only. Statics of `hamr-comm` exist twice: what handlers ask of the runtime is in one
// struct (`comm/src/shared.rs`), which a module copies from its image before each of its calls;
// `hamr_tests::modules::statics` finds any other. Ranks take no modules.

#[cfg(hamr_bare)]
#[path = "module/bare.rs"]
mod kind;
#[cfg(not(hamr_bare))]
#[path = "module/hosted.rs"]
mod kind;
mod mem;
mod refusal;

pub use refusal::Refusal;

use crate::claims;
use crate::context::Context;
use crate::frame::{Arguments, Frame, Reply};
use crate::handler::{Entry, Handler};
use crate::registry::Table;
use crate::shared::{IMAGE, SHARED};
pub use crate::shared::{ModuleImage, Panic};
use crate::{BufferPtr, Fault};
use hamr_comm_macros::Migratable;
use hamr_shared_abi::ids::{HandlerKey, Isa};
use hamr_shared_abi::image::ImageKind;
use hamr_shared_abi::table::{hash, record_flag};

/// The numbers that loaded modules have in keys: from here on.
pub const FIRST: u8 = 3;
/// Modules at the same time.
pub const MOST: usize = 13;

/// What two builds agree on that share layouts and calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Build {
    /// Hash of the compiler's version and of the target.
    pub compiler: u64,
    /// Hash of the source of this crate.
    pub source: u64,
}

impl Build {
    /// Of this crate.
    pub const THIS: Self = Self { compiler: number(env!("HAMR_COMPILER")), source: number(env!("HAMR_SOURCE")) };
}

const fn number(text: &str) -> u64 {
    match u64::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("the build script writes a number"),
    }
}

/// Runs a handler of the module, behind what the module's kind needs.
pub type Run = for<'a, 'c, 's> fn(&'static Entry, &'a mut Context<'c>, &'a mut Frame<'s>, Arguments<'a>) -> Reply;

/// What a module is entered by: the static `HAMR_MODULE`.
#[repr(C)]
pub struct ModuleHeader {
    /// [`Self::MAGIC`].
    pub magic: [u8; 8],
    /// The build. Of the fields below only one with the reader's own means anything.
    pub build: Build,
    /// An [`Isa`].
    pub isa: u32,
    /// An [`ImageKind`].
    pub kind: u32,
    /// Called once, before anything else.
    pub enter: fn(ModuleImage),
    /// Its handlers.
    pub table: fn() -> Table,
    /// How they run.
    pub run: Run,
}

impl ModuleImage {
    /// This image; `panic` is its way out of a panic.
    pub fn this(panic: Panic) -> Self {
        Self { panic, shared: &SHARED, check: claims::check_here }
    }
}

/// Runs when the module is entered.
fn enter(image: ModuleImage) {
    IMAGE.call_once(|| image);
    kind::enter();
}

/// Runs a handler of this module.
fn run(entry: &'static Entry, cx: &mut Context<'_>, frame: &mut Frame<'_>, args: Arguments<'_>) -> Reply {
    if let Some(image) = IMAGE.get() {
        SHARED.follow(image.shared);
    }
    kind::run(entry, cx, frame, args)
}

impl ModuleHeader {
    /// The first bytes.
    pub const MAGIC: [u8; 8] = *b"hamrmod1";

    /// Of a module built from this source.
    pub const fn of_this_build() -> Self {
        Self {
            magic: Self::MAGIC,
            build: Build::THIS,
            isa: Isa::of_this_build().0,
            kind: ImageKind::of_this_module().0,
            enter,
            table: Table::of_this_image,
            run,
        }
    }

    /// Is it a header of this very build?
    ///
    /// # Errors
    /// The difference.
    pub fn check(&self) -> Result<(), Refusal> {
        let own = Self::of_this_build();
        if self.magic != Self::MAGIC {
            return Err(Refusal::NoModule);
        }
        if (self.isa, self.kind) != (own.isa, own.kind) {
            return Err(Refusal::OtherMachine { module: self.isa, image: own.isa });
        }
        if self.build.compiler != own.build.compiler {
            return Err(Refusal::OtherCompiler { module: self.build.compiler, image: own.build.compiler });
        }
        if self.build.source != own.build.source {
            return Err(Refusal::OtherSource { module: self.build.source, image: own.build.source });
        }
        Ok(())
    }
}

/// What a device gives a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Migratable)]
pub struct Grant {
    /// Its number in keys.
    pub module: u8,
    /// The address that its bytes are to be made for; 0: they are a file, and the device's system
    /// finds one.
    pub address: u64,
}

/// Where an image without a system is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Migratable)]
pub struct ImagePlace {
    /// Address of its first byte.
    pub start: u64,
    /// That behind the memory that it uses.
    pub end: u64,
    /// That of its first instruction.
    pub entry: u64,
}

/// What of loading only a device's runtime can do. `slot` counts modules from 0.
pub trait Loader: Sync {
    /// Room for `bytes`, of which the first `code` become code and constants; its address.
    ///
    /// # Errors
    /// When there is none.
    fn reserve(&self, slot: usize, bytes: u64, code: u64) -> Result<u64, Refusal>;
    /// Makes code of these bytes, for which [`Self::reserve`] found room; `header` is where in them the
    /// header is, unless the system finds it. The header was checked, and entered.
    ///
    /// # Errors
    /// Nothing is left of the module.
    fn load(&self, slot: usize, image: &[u8], header: u64) -> Result<&'static ModuleHeader, Refusal>;
    /// Takes the room back. No code of the module runs or is called any more.
    fn unload(&self, slot: usize);
    /// Keeps these bytes of another image, which takes the place of this one at the end of the epoch. They
    /// were checked by the host alone.
    ///
    /// # Errors
    /// When it cannot: this image goes on.
    fn keep_image(&self, _image: &[u8], _place: ImagePlace) -> Result<(), Refusal> {
        Err(Refusal::NotHere)
    }
}

#[derive(Clone, Copy)]
enum State {
    Free,
    Reserved,
    Loaded { table: Table, run: Run },
}

struct Modules {
    loader: Option<&'static dyn Loader>,
    states: [State; MOST],
}

// One thread serves a device that takes modules, so the lock is free unless a call was abandoned while it
// had it: then nothing is loaded or found any more, and nothing waits.
static MODULES: spin::Mutex<Modules> = spin::Mutex::new(Modules { loader: None, states: [State::Free; MOST] });

/// Has modules loaded by `loader`, from now on.
pub fn use_loader(loader: &'static dyn Loader) {
    if let Some(mut modules) = MODULES.try_lock() {
        modules.loader = Some(loader);
    }
}

/// Unloads all: their epoch is over, no code of theirs runs.
pub fn unload_all() {
    for slot in 0..MOST {
        // What is not loaded is not unloaded.
        let _ = unload(slot);
    }
}

fn unload(slot: usize) -> Result<(), Refusal> {
    let mut modules = MODULES.try_lock().ok_or(Refusal::NotHere)?;
    let loader = modules.loader.ok_or(Refusal::NotHere)?;
    let state = modules.states.get_mut(slot).ok_or(Refusal::NotLoaded)?;
    match core::mem::replace(state, State::Free) {
        State::Free => Err(Refusal::NotLoaded),
        State::Reserved | State::Loaded { .. } => {
            drop(modules);
            loader.unload(slot);
            Ok(())
        }
    }
}

fn slot_of(module: u8) -> usize {
    usize::from(module.wrapping_sub(FIRST))
}

/// A handler, and how it runs.
pub(crate) fn find(key: HandlerKey) -> Option<(&'static Entry, Run)> {
    match MODULES.try_lock()?.states.get(slot_of(key.module()))? {
        State::Loaded { table, run } => table.get(key.index()).map(|entry| (entry, *run)),
        State::Free | State::Reserved => None,
    }
}

/// Puts the handlers of this module into an image's table.
#[macro_export]
macro_rules! takes_modules {
    () => {
        $crate::__entry!($crate::module::Reserve, "hamr_comm::module::Reserve");
        $crate::__entry!($crate::module::Load, "hamr_comm::module::Load");
        $crate::__entry!($crate::module::Unload, "hamr_comm::module::Unload");
        $crate::__entry!($crate::module::KeepImage, "hamr_comm::module::KeepImage");
    };
}

/// Finds room for a module of so many bytes, and how many of them are code and constants.
pub struct Reserve;

impl Handler for Reserve {
    const NAME: &'static str = "hamr_comm::module::Reserve";
    const PARAMETERS: &'static str = "bytes, code";
    const BODY: u64 = hash(b"hamr_comm::module::Reserve 1");
    type Kind = Context<'static>;
    type Args = (u64, u64);
    type Output = Result<Grant, Refusal>;
    fn run(_: &mut Context<'_>, (bytes, code): (u64, u64)) -> Result<Grant, Refusal> {
        let mut modules = MODULES.try_lock().ok_or(Refusal::NotHere)?;
        let loader = modules.loader.ok_or(Refusal::NotHere)?;
        let is_free = |state: &State| matches!(state, State::Free);
        let slot = modules.states.iter().position(is_free).ok_or(Refusal::TooMany)?;
        let address = loader.reserve(slot, bytes, code)?;
        if let Some(state) = modules.states.get_mut(slot) {
            *state = State::Reserved;
        }
        Ok(Grant { module: FIRST + slot as u8, address })
    }
}

/// Makes a module of bytes: its number, the bytes, and where in them the header is. Returns the
/// fingerprint of its table. After an error the number is free.
pub struct Load;

impl Handler for Load {
    const NAME: &'static str = "hamr_comm::module::Load";
    const PARAMETERS: &'static str = "module, image, header";
    const BODY: u64 = hash(b"hamr_comm::module::Load 1");
    type Kind = Context<'static>;
    type Args = (u8, BufferPtr<u8>, u64);
    type Output = Result<u64, Refusal>;
    fn run(cx: &mut Context<'_>, (module, image, header): (u8, BufferPtr<u8>, u64)) -> Result<u64, Refusal> {
        let slot = slot_of(module);
        let loaded = load(cx, slot, image, header);
        // A number that was not reserved is another module's, or free.
        if !matches!(loaded, Ok(_) | Err(Refusal::NotLoaded)) {
            // The error says more than a second one would.
            let _ = unload(slot);
        }
        loaded
    }
}

fn load(cx: &mut Context<'_>, slot: usize, image: BufferPtr<u8>, header: u64) -> Result<u64, Refusal> {
    let loader = {
        let modules = MODULES.try_lock().ok_or(Refusal::NotHere)?;
        match modules.states.get(slot) {
            Some(State::Reserved) => modules.loader.ok_or(Refusal::NotHere)?,
            _ => return Err(Refusal::NotLoaded),
        }
    };
    let bytes = cx.view(image).map_err(|_: Fault| Refusal::NoModule)?;
    let header = loader.load(slot, bytes, header)?;
    let table = (header.table)();
    let is_inline = |entry: &Entry| entry.flags & (record_flag::TASK | record_flag::HOST) == 0;
    if !table.iter().all(is_inline) {
        return Err(Refusal::HasTasks);
    }
    let mut modules = MODULES.try_lock().ok_or(Refusal::NotHere)?;
    if let Some(state) = modules.states.get_mut(slot) {
        *state = State::Loaded { table, run: header.run };
    }
    Ok(table.fingerprint())
}

/// Takes a module away. The host calls it when no call of the module is in flight.
pub struct Unload;

impl Handler for Unload {
    const NAME: &'static str = "hamr_comm::module::Unload";
    const PARAMETERS: &'static str = "module";
    const BODY: u64 = hash(b"hamr_comm::module::Unload 1");
    type Kind = Context<'static>;
    type Args = (u8,);
    type Output = Result<(), Refusal>;
    fn run(_: &mut Context<'_>, (module,): (u8,)) -> Result<(), Refusal> {
        unload(slot_of(module))
    }
}

/// Keeps the bytes of another image, in whole words, which takes the place of the device's at the end of
/// the epoch. The host calls it when no other call is in flight, and then ends the epoch.
pub struct KeepImage;

impl Handler for KeepImage {
    const NAME: &'static str = "hamr_comm::module::KeepImage";
    const PARAMETERS: &'static str = "image, place";
    const BODY: u64 = hash(b"hamr_comm::module::KeepImage 1");
    type Kind = Context<'static>;
    type Args = (BufferPtr<u8>, ImagePlace);
    type Output = Result<(), Refusal>;
    fn run(cx: &mut Context<'_>, (image, place): (BufferPtr<u8>, ImagePlace)) -> Result<(), Refusal> {
        let loader = MODULES.try_lock().ok_or(Refusal::NotHere)?.loader.ok_or(Refusal::NotHere)?;
        let bytes = cx.view(image).map_err(|_: Fault| Refusal::NoModule)?;
        loader.keep_image(bytes, place)
    }
}

/// Makes a library a module: what it is entered by, and the note that describes the build.
#[macro_export]
macro_rules! module {
    () => {
        /// Found by its name.
        #[used]
        #[unsafe(no_mangle)]
        pub static HAMR_MODULE: $crate::module::ModuleHeader = $crate::module::ModuleHeader::of_this_build();
        #[used]
        #[unsafe(link_section = ".note.hamr")]
        static HAMR_MODULE_NOTE: $crate::abi::image::ImageNote = $crate::abi::image::ImageNote::of_this_module();
        $crate::__module_panic!();
        $crate::__module_mem!();
    };
}

/// A module's panics end in its image.
#[cfg(hamr_bare)]
#[doc(hidden)]
#[macro_export]
macro_rules! __module_panic {
    () => {
        #[panic_handler]
        fn hamr_module_panic(info: &::core::panic::PanicInfo<'_>) -> ! {
            $crate::module::panic(info)
        }
    };
}

/// See the bare-metal definition.
#[cfg(not(hamr_bare))]
#[doc(hidden)]
#[macro_export]
macro_rules! __module_panic {
    () => {};
}

/// Leaves the running call by the image's way.
#[cfg(hamr_bare)]
#[doc(hidden)]
pub fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    match IMAGE.get() {
        Some(image) => (image.panic)(info),
        // Before `enter`, which the image calls first, no code of the module runs.
        None => loop {
            core::hint::spin_loop();
        },
    }
}
