//! Modules: handlers that are loaded beside a running image (`docs/modules.md`).
//!
//! The host checks the file's note (abi §10): a module, for this kind of device and instruction set. The device grants
//! a number (key module numbers, abi §2, 3 to 15), and on bare metal free pages; the host fills a buffer, hosted with
//! the file, a shared library, on bare metal with the module's memory, relocated from address 0 by relative
//! relocations only (`linker/scripts/module.x`). The device makes code of it, hosted by `dlopen` of a sealed memfd; it
//! checks the header and registers the table, whose fingerprint the host compares with the file's. A load that the
//! device comes to late fails, and keeps no number.

use super::named::{HandlerFn, Named};
use super::{Buffer, Node};
use crate::stream::{KnownKey, ModuleUse};
use crate::{CallError, CallOptions, Error, HandlerInfo, Image, SubmitError, Target};
use hamr_comm::abi::buffer::{BufferParts, WireBuffer};
use hamr_comm::abi::ids::HandlerKey;
use hamr_comm::module::{Grant, Load, Refusal, Reserve, Unload};
use hamr_comm::{Call, Handler, HandlerResult, ValueOf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Between two looks at calls in flight.
const PAUSE: Duration = Duration::from_micros(50);
/// How long the device has to take a module away of which no call is in flight, whatever the limit.
const SHORTEST_ASK: Duration = Duration::from_millis(100);
/// How long an unload waits for calls, without a deadline of the device's.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A module of handlers on a device: see [`Node::load_module`]. Dropping it leaves it loaded until the
/// device's epoch ends.
pub struct Module<'n> {
    node: &'n Node,
    name: String,
    number: u8,
    epoch: u32,
    /// Number of the image that it is beside.
    image: u32,
    handlers: Vec<HandlerInfo>,
    /// What calls of it name.
    wire: WireBuffer,
    state: Mutex<State>,
}

/// What is left of it.
enum State {
    /// Calls can be submitted. The buffer has no content: uses of it are counted.
    Loaded(#[expect(dead_code, reason = "its drop refuses calls")] Buffer<u8>),
    /// Calls are refused, those in flight have not ended.
    Leaving,
    /// The same, and this thread is unloading it, without the lock.
    InUnload(ThreadId),
    Gone,
}

impl Node {
    /// Loads a module beside the running image: its handlers can be called until [`Module::unload`].
    /// The image is built with the feature `modules` of `hamr-device-fw`; a name is built, as an image
    /// is.
    ///
    /// ```no_run
    /// # use hamr_comm::Context;
    /// # fn f(dev: &hamr::Node) -> Result<(), Box<dyn std::error::Error>> {
    /// let module = dev.load_module(&hamr::Image::module("my-module")?)?;
    /// let scaled = module.named::<fn(&mut Context, i64) -> i64>("my_module::scaled")?;
    /// assert_eq!(scaled.sync((21,))?, 42);
    /// module.unload()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A file that is no module, or one for another device; [`Error::Module`] with the device's reason:
    /// no room, another compiler or version of `hamr-comm`.
    pub fn load_module(&self, module: &Image) -> Result<Module<'_>, Error> {
        let device = self.device();
        let info = self.info();
        let kind = device.image_kind();
        let none = || self.module_error("a module", format!("there are none for a device of {}", info.isa));
        let target = Target::of_module(kind, info.isa).ok_or_else(none)?;
        let file = module.resolve(&target)?;
        let stem = file.path.file_stem().unwrap_or_default().to_string_lossy();
        let name = stem.strip_prefix("lib").unwrap_or(&stem).to_string();
        let code = file.module_code()?;
        let handlers = file.handlers()?;
        // What may fail goes first: a number that the device has given out is taken until the module is unloaded.
        let uses = self.allocate::<u8>(0)?;
        if device.is_lost() {
            device.restart();
        }
        let epoch = device.epoch.load(Ordering::Acquire);
        let image = device.running().number;
        let Grant { module: number, address } = self.reserve(&name, (code.len(), code.code_len()))?;
        let loaded = (|| {
            let (bytes, header) = code.at(address).map_err(|why| self.module_error(&name, why))?;
            let buffer = self.buffer(&bytes)?;
            self.ask::<Load>(&name, (number, buffer.ptr(), header))
        })();
        if device.epoch.load(Ordering::Acquire) != epoch {
            // The number may be another module's by now.
            return Err(self.module_error(&name, "the device's epoch has ended meanwhile; load it again".into()));
        }
        if loaded.as_ref().is_ok_and(|fingerprint| *fingerprint == file.fingerprint) {
            return Ok(Module {
                node: self,
                number,
                epoch,
                image,
                handlers,
                wire: WireBuffer::pack(uses.ptr().parts()),
                state: Mutex::new(State::Loaded(uses)),
                name,
            });
        }
        // The first error says more.
        let _ = self.ask::<Unload>(&name, (number,));
        loaded?;
        let why = "expected the handlers in its file, the device found others; build it again".to_owned();
        Err(self.module_error(&name, why))
    }

    /// A number, and a place. A call that is late takes none: it is cancelled before it runs, and where it has begun,
    /// its reply is about to come.
    fn reserve(&self, module: &str, sizes: (u64, u64)) -> Result<Grant, Error> {
        let (begin, limit) = (Instant::now(), self.device().options.deadline.unwrap_or(LONGEST_WAIT));
        let refused = |why| {
            let why = match why {
                CallError::Cancelled(_) | CallError::Deadline(_) => {
                    format!("the device has not come to it in {limit:?}")
                }
                why => text(why),
            };
            self.module_error(module, why)
        };
        let asked = self.offload(Call::<Reserve>::new(sizes)).map_err(|why| refused(why.into()))?;
        while !asked.is_done() && begin.elapsed() < limit {
            std::thread::sleep(PAUSE);
        }
        if !asked.is_done() {
            asked.cancel();
        }
        asked.wait_timeout(SHORTEST_ASK).map_err(refused)
    }

    /// One of the calls that load.
    fn ask<H>(&self, module: &str, args: H::Args) -> Result<ValueOf<H>, Error>
    where
        H: Handler,
        H::Output: HandlerResult<Error = Refusal>,
    {
        self.sync(Call::<H>::new(args)).map_err(|why| self.module_error(module, text(why)))
    }

    fn module_error(&self, module: &str, why: String) -> Error {
        Error::Module { device: self.device().name.clone(), module: module.into(), why }
    }
}

fn text(why: CallError<Refusal>) -> String {
    match why {
        CallError::Handler(refusal) => refusal.to_string(),
        CallError::Submit(why) if matches!(*why, SubmitError::MissingHandler { .. }) => {
            "its image takes no modules; build it with the feature `modules` of hamr-device-fw".into()
        }
        other => other.to_string(),
    }
}

impl Module<'_> {
    /// The module's file, without `lib` and what is behind the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its handlers, in the order of their keys.
    pub fn handlers(&self) -> &[HandlerInfo] {
        &self.handlers
    }

    /// [`Node::named`] of a handler of the module.
    ///
    /// # Errors
    /// As [`Node::named`].
    pub fn named<F: HandlerFn>(&self, name: &str) -> Result<Named<'_, F>, SubmitError> {
        let found = self.node.find_named::<F>(&self.handlers, name)?;
        Ok(Named::new(self.node, name, self.key(found)))
    }

    /// What calls of a handler of the module are submitted with.
    pub(crate) fn key(&self, handler: &HandlerInfo) -> KnownKey {
        KnownKey {
            key: HandlerKey::of_module(self.number, handler.key),
            image: self.image,
            module: Some(ModuleUse { epoch: self.epoch, buffer: self.wire }),
        }
    }

    /// [`Self::unload_within`] the device's deadline.
    ///
    /// # Errors
    /// As that.
    pub fn unload(&self) -> Result<(), Error> {
        self.unload_within(self.node.device().options.deadline.unwrap_or(LONGEST_WAIT))
    }

    /// Takes the module away. From now on its calls are refused; those in flight end first, and their
    /// results stay readable. A call without a reply for which no thread waits ends when its stream is
    /// used next, or dropped.
    ///
    /// # Errors
    /// [`Error::Module`] when calls are in flight after `limit`: the module stays loaded, without being
    /// callable, and may be unloaded again. The same when the device has not come to the unload by then: it
    /// takes the module away later. At once in a memory hook that this unload runs.
    pub fn unload_within(&self, limit: Duration) -> Result<(), Error> {
        if !self.node.device().is_here() {
            // Of a copy of the process no device has modules, and another thread's unload does not go on there.
            return Ok(());
        }
        let begin = Instant::now();
        let me = std::thread::current().id();
        // Its drop may run code of the program: a memory hook is told of the buffer.
        let before = loop {
            let mut state = self.state();
            match *state {
                State::Gone => return Ok(()),
                State::InUnload(thread) if thread == me => {
                    let why = "this thread is unloading it, and has called code of the program meanwhile".into();
                    return Err(self.node.module_error(&self.name, why));
                }
                State::InUnload(_) if begin.elapsed() >= limit => {
                    let why = format!("another thread is unloading it after {limit:?}");
                    return Err(self.node.module_error(&self.name, why));
                }
                State::InUnload(_) => {}
                State::Loaded(_) | State::Leaving => break std::mem::replace(&mut *state, State::InUnload(me)),
            }
            drop(state);
            std::thread::sleep(PAUSE);
        };
        let unloading = Unloading { module: self, is_gone: false };
        // Behind the drop of the buffer every new use of it is refused.
        drop(before);
        unloading.finish(begin, limit)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An epoch that ends takes its modules with it.
    fn is_of_this_epoch(&self) -> bool {
        self.node.device().epoch.load(Ordering::Acquire) == self.epoch
    }
}

/// An unload under way. What it did not finish may be tried again.
struct Unloading<'m> {
    module: &'m Module<'m>,
    is_gone: bool,
}

impl Unloading<'_> {
    /// Waits for calls in flight and takes the module away, `limit` behind `begin` at most.
    fn finish(mut self, begin: Instant, limit: Duration) -> Result<(), Error> {
        let Module { node, name, number, wire, .. } = self.module;
        let parts: BufferParts = wire.unpack();
        let device = node.device();
        while self.module.is_of_this_epoch() && device.memory.is_awaited(parts) {
            if begin.elapsed() >= limit {
                let why = format!("a call of it is in flight after {limit:?}; get its result, then unload again");
                return Err(node.module_error(name, why));
            }
            device.reap_unread();
            std::thread::sleep(PAUSE);
        }
        if self.module.is_of_this_epoch() {
            let left = limit.saturating_sub(begin.elapsed()).max(SHORTEST_ASK);
            let asked = node.sync_with(Call::<Unload>::new((*number,)), CallOptions::deadline(left));
            // Sent, it takes the module away once the device comes to it. A second one would be of the module that has the
            // number by then.
            self.is_gone = matches!(asked, Err(CallError::Deadline(_)));
            asked.map_err(|why| node.module_error(name, text(why)))?;
        }
        self.is_gone = true;
        Ok(())
    }
}

impl Drop for Unloading<'_> {
    fn drop(&mut self) {
        *self.module.state() = if self.is_gone { State::Gone } else { State::Leaving };
    }
}

impl std::fmt::Debug for Module<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Module({} on {:?})", self.name, self.node)
    }
}
