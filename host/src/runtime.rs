//! The runtime: launchers by name, and opening devices.

use crate::debugger::{Debugger, free_port};
use crate::launcher::{LaunchRequest, Launcher, LoopbackLauncher};
use crate::link::{DrivenLink, Link, Protocol};
use crate::mirror::MirrorLink;
use crate::node::Nodes;
use crate::node_number::NodeNumber;
use crate::options::plan_of;
use crate::relay::Relays;
use crate::services::Services;
use crate::shm::ShmLauncher;
use crate::thread::ThreadLauncher;
use crate::{Error, Image, ImageFile, Node, Options, Target};
use hamr_comm::abi::layout::{Layout, Plan};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Opens devices by name: `shm`, `loopback`, `thread`, `qemu:MACHINE`, `pci:ADDRESS`, `at:NAME`, `gdb:HOST:PORT`, and
/// whatever [`Self::register`] added.
pub struct Runtime {
    launchers: BTreeMap<String, Box<dyn Launcher>>,
    pub(crate) services: Arc<Services>,
}

/// A device that was started.
pub(crate) struct Launched {
    pub(crate) link: Box<dyn Link>,
    /// What it was loaded with.
    pub(crate) image: Option<ImageFile>,
    /// With the sizes of its window.
    pub(crate) options: Options,
    /// Bytes of its window.
    pub(crate) window_len: u64,
    /// When its start began, without the search for its image.
    pub(crate) begin: Instant,
}

/// How a device waits for gdb.
pub(crate) struct Held {
    launcher: Box<dyn Launcher>,
    port: u16,
    debugger: Debugger,
}

impl Runtime {
    /// A runtime with the built-in launchers.
    ///
    /// # Errors
    /// None today; kinds that need the system's help to exist will have some.
    pub fn new() -> Result<Self, Error> {
        hamr_device_fw::hosted::reserve_stdio();
        // Here a process has mostly one thread yet.
        crate::memory::register_barrier();
        let mut runtime = Self { launchers: BTreeMap::new(), services: Arc::default() };
        runtime.provide(Relays(Arc::new(Nodes::default())));
        runtime.register("shm", ShmLauncher);
        runtime.register("loopback", LoopbackLauncher);
        runtime.register("thread", ThreadLauncher);
        runtime.register("pci", crate::pci::PciLauncher);
        runtime.register("at", crate::at::AtLauncher);
        runtime.register("gdb", crate::gdb::GdbLauncher);
        #[cfg(feature = "net")]
        runtime.register("tcp", crate::tcp::TcpLauncher::default());
        #[cfg(feature = "qemu")]
        runtime.register("qemu", crate::qemu::QemuLauncher::built_in());
        Ok(runtime)
    }

    /// Adds a kind of device under a name, or replaces one.
    pub fn register(&mut self, name: &str, launcher: impl Launcher + 'static) {
        self.launchers.insert(name.into(), Box::new(launcher));
    }

    /// The names that exist, each with a line of description.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, String)> {
        self.launchers.iter().map(|(name, l)| (name.as_str(), l.describe()))
    }

    /// The devices of this runtime that are open, also ranks of worlds, in the order of their numbers: each a
    /// handle, through which it is called as through its own [`Node`]. A device ends with that one, not with
    /// the handle, whose calls then fail with [`CallError::DeviceLost`](crate::CallError::DeviceLost).
    ///
    /// ```
    /// # use hamr_comm::{Context, offload};
    /// # #[offload]
    /// # fn greet(cx: &mut Context) -> u16 { cx.node().0 }
    /// # let runtime = hamr::Runtime::new()?;
    /// for node in runtime.nodes() {
    ///     println!("{}: {}", node.info().name, node.sync(greet::with())?);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn nodes(&self) -> Vec<Node> {
        let open = Relays::of(&self.services).map(|relays| relays.0.open()).unwrap_or_default();
        open.iter().filter_map(|services| Some(Node::of_services(services)?.lent())).collect()
    }

    /// Provides `value` to the bodies that devices of this runtime call
    /// ([`hamr_comm::Host::service`]), by its type, until the runtime is dropped; of two of a type the
    /// last. It may own a node of this runtime.
    pub fn provide(&self, value: impl std::any::Any + Send + Sync) {
        self.services.provide(value);
    }

    /// Starts a device, loads the image, shakes hands. The spec is `kind` or `kind:argument`.
    ///
    /// # Errors
    /// An unknown name, an image that is missing or made for something else, a device that does not
    /// start or refuses.
    pub fn open(&self, spec: &str, image: Image) -> Result<Node, Error> {
        self.open_with(spec, image, Options::default())
    }

    /// [`Self::open`] with sizes of one's own.
    ///
    /// # Errors
    /// As for [`Self::open`], and sizes that cannot be laid out.
    pub fn open_with(&self, spec: &str, image: Image, options: Options) -> Result<Node, Error> {
        if let Some(debugger) = Debugger::from_environment()?
            && let Some(held) = self.held(spec, debugger)?
        {
            let say = |command: &str| {
                crate::io::note(format_args!("hamr: device {spec} waits for gdb: {command}"));
                Ok(())
            };
            return self.open_held(spec, &held, image, options, say);
        }
        // Before a device is started that there is no number for.
        let number = NodeNumber::take(spec)?;
        let is_theirs = self.launcher(spec)?.0.has_window();
        let options = match options.streams {
            None if is_theirs => Options { streams: Some(Plan::default().streams), ..options },
            _ => options,
        };
        let given = Some(image.clone()).filter(|_| is_theirs);
        let (launcher, argument) = self.launcher(spec)?;
        let image = resolve(launcher, argument, image)?;
        let host_memory = launcher.has_host_memory();
        let Launched { link, image, options, begin, .. } =
            start(launcher, spec, argument, image, &options, host_memory)?;
        // Of a device that others have started, its texts and names.
        let image = image.or_else(|| link.image()).or_else(|| given?.as_it_is());
        Node::attach(spec, number, link, image, options, begin, self.services.clone())
    }

    /// How devices of `spec` wait for gdb; `None` where a debugger cannot hold them.
    pub(crate) fn held(&self, spec: &str, debugger: Debugger) -> Result<Option<Held>, Error> {
        let port = free_port()?;
        let launcher = self.launcher(spec)?.0.for_debugger(port)?;
        Ok(launcher.map(|launcher| Held { launcher, port, debugger }))
    }

    /// [`Self::open_with`] of a device that waits for gdb. `say` is told the command that attaches
    /// it, before the device starts.
    pub(crate) fn open_held<E: From<Error>>(
        &self,
        spec: &str,
        held: &Held,
        image: Image,
        options: Options,
        say: impl FnOnce(&str) -> Result<(), E>,
    ) -> Result<Node, E> {
        let Held { launcher, port, debugger } = held;
        let (_, argument) = self.launcher(spec)?;
        let number = NodeNumber::take(spec)?;
        let (options, image) = (Debugger::options(options), resolve(&**launcher, argument, image)?);
        if let Some(image) = &image {
            say(&debugger.command(image, *port))?;
        }
        let host_memory = launcher.has_host_memory();
        let Launched { link, image, options, begin, .. } =
            start(&**launcher, spec, argument, image, &options, host_memory)?;
        Ok(Node::attach(spec, number, link, image, options, begin, self.services.clone())?)
    }

    /// Starts a device for hosts that come later, without shaking hands. It is called `name`, also in its window. All
    /// of its memory is its own.
    pub(crate) fn launch_as(&self, name: &str, spec: &str, image: Image, options: &Options) -> Result<Launched, Error> {
        let (launcher, argument) = self.launcher(spec)?;
        let image = resolve(launcher, argument, image)?;
        start(launcher, name, argument, image, options, false)
    }

    /// Attaches to a device over a link that the caller made: a fault decorator around another
    /// link, a board of one's own.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn attach(&self, name: &str, link: Box<dyn Link>, options: Options) -> Result<Node, Error> {
        Node::attach(name, NodeNumber::take(name)?, link, None, options, Instant::now(), self.services.clone())
    }

    /// What images must be made for to run on the devices of `spec`; `None` when they take none.
    ///
    /// # Errors
    /// An unknown name, or an argument that the kind does not take.
    pub fn target(&self, spec: &str) -> Result<Option<Target>, Error> {
        let (launcher, argument) = self.launcher(spec)?;
        launcher.target(argument)
    }

    /// Is there a device of this name, and what starts it? Nothing is started.
    #[cfg(feature = "cli")]
    pub(crate) fn check(&self, spec: &str) -> Result<(), Error> {
        let (launcher, argument) = self.launcher(spec)?;
        launcher.target(argument)?;
        launcher.check(argument)
    }

    pub(crate) fn launcher<'s>(&self, spec: &'s str) -> Result<(&dyn Launcher, &'s str), Error> {
        let (kind, argument) = spec.split_once(':').unwrap_or((spec, ""));
        let launcher = self.launchers.get(kind).ok_or_else(|| Error::UnknownDevice {
            name: spec.into(),
            known: self.launchers.keys().cloned().collect::<Vec<_>>().join(", "),
        })?;
        Ok((launcher.as_ref(), argument))
    }
}

/// The file to load, where the launcher takes one.
fn resolve(launcher: &dyn Launcher, argument: &str, image: Image) -> Result<Option<ImageFile>, Error> {
    let target = launcher.target(argument)?;
    launcher.check(argument)?;
    match target {
        Some(target) => image.resolve(&target).map(Some),
        None => Ok(image.as_it_is().filter(|_| launcher.reads_image())),
    }
}

/// The link as it is, or what reads and writes the memory that it maps, or what has its device drive that.
fn by_protocol(
    request: &LaunchRequest<'_>,
    link: Box<dyn Link>,
    wanted: Option<Protocol>,
    layout: &Layout,
) -> Result<Box<dyn Link>, Error> {
    if request.drives {
        return Ok(Box::new(DrivenLink::new(link, layout, request.silence)));
    }
    if wanted != Some(Protocol::HostDriven) || link.capabilities().protocol != Protocol::Mapped {
        return Ok(link);
    }
    let &LaunchRequest { window_len, start_deadline, .. } = request;
    Ok(Box::new(MirrorLink::driven(link.into(), |window, heap| (window, heap), window_len, start_deadline)?))
}

fn start(
    launcher: &dyn Launcher,
    device: &str,
    argument: &str,
    image: Option<ImageFile>,
    options: &Options,
    host_memory: bool,
) -> Result<Launched, Error> {
    Protocol::check(options.protocol, launcher.protocols(), device)?;
    let begin = Instant::now();
    let window = image.as_ref().map_or(Ok(None), |image| launcher.window_of(argument, image, options.protocol))?;
    let options = window.map_or_else(|| Ok(options.clone()), |bytes| options.clone().in_window(bytes))?;
    let layout = plan_of(&options, host_memory)?;
    let std::ops::Range { start: heap_off, end: window_len } = layout.heap();
    let Options { cpu, start_deadline, silence, .. } = options;
    let (image_file, host_memory) =
        (image.as_ref(), layout.host_memory().map(|host| (host.start, host.end - host.start)));
    let request = LaunchRequest {
        device,
        argument,
        image: image_file,
        window_len,
        heap_off,
        host_memory,
        drives: options.protocol == Some(Protocol::DeviceDriven),
        has_side: options.verbs != 0,
        cpu,
        start_deadline,
        silence,
    };
    let link = by_protocol(&request, launcher.launch(&request)?, options.protocol, &layout)?;
    Ok(Launched { link, image, options, window_len, begin })
}
