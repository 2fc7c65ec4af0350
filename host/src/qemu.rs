//! Bare-metal images in QEMU: the window is the memory of a PCI card that both sides map, or of a machine without a bus a part of its
//! main memory.
//!
//! `qemu:x86_64`, `qemu:aarch64`, `qemu:riscv64` and `qemu:arm` are there in every runtime. A machine of one's
//! own is a row and a name:
//!
//! ```
//! use hamr::qemu::{Machine, QemuLauncher};
//! # fn main() -> Result<(), hamr::Error> {
//! let mut runtime = hamr::Runtime::new()?;
//! let row = Machine { name: "microvm", machine: "microvm,pcie=on", ..Machine::X86_64 };
//! runtime.register("microvm", QemuLauncher::machine(row));
//! assert_eq!(runtime.target("microvm")?.map(|t| t.isa), Some(row.isa));
//! # Ok(()) }
//! ```

use crate::doorbells::Doorbells;
use crate::launcher::{Home, LaunchRequest, Launcher, no_argument};
use crate::link::{Link, Protocol};
use crate::mapping::{map_two, map_window};
use crate::memfd::{make_device_memory, make_host_memory, make_window};
use crate::process::{Memory, Process, ProcessLink, pin};
use crate::text::Clean;
use crate::{Error, ImageFile, Target};
use hamr_comm::abi::image::ImageKind;
use hamr_comm::abi::window::{Shared, Window};
pub use hamr_qemu::{Exit, Machine, Place};
use hamr_qemu::{Run, Started};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long QEMU may take to make the thread that is to be pinned, on a machine that does much
/// else.
const VCPU_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts bare-metal images in QEMU.
#[derive(Clone, Debug)]
pub struct QemuLauncher {
    machines: Machines,
}

#[derive(Clone, Debug)]
enum Machines {
    /// The spec names one of these.
    Named(&'static [Machine]),
    /// The spec has no argument.
    One(Machine),
}

impl QemuLauncher {
    /// The built-in machines; the device spec names one: `qemu:riscv64`.
    pub(crate) fn built_in() -> Self {
        Self { machines: Machines::Named(&Machine::ALL) }
    }

    /// One machine, for a runtime to register under a name of its own.
    pub fn machine(machine: Machine) -> Self {
        Self { machines: Machines::One(machine) }
    }

    fn find(&self, argument: &str) -> Result<&Machine, Error> {
        match &self.machines {
            Machines::One(machine) => no_argument(machine.name, argument).map(|()| machine),
            Machines::Named(machines) => {
                machines.iter().find(|m| m.name == argument).ok_or_else(|| Error::UnknownDevice {
                    name: if argument.is_empty() { "qemu".into() } else { format!("qemu:{argument}") },
                    known: machines.iter().map(|m| format!("qemu:{}", m.name)).collect::<Vec<_>>().join(", "),
                })
            }
        }
    }
}

impl Launcher for QemuLauncher {
    fn describe(&self) -> String {
        match &self.machines {
            Machines::One(machine) => format!("a bare-metal image in {} -M {}", machine.program, machine.machine),
            Machines::Named(machines) => {
                let names: Vec<&str> = machines.iter().map(|m| m.name).collect();
                format!("a bare-metal image in a machine of its own: qemu:NAME, NAME one of {}", names.join(", "))
            }
        }
    }

    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        let machine = self.find(argument)?;
        Ok(Some(Target { triple: machine.triple.into(), kind: ImageKind::BARE, isa: machine.isa }))
    }

    fn check(&self, argument: &str) -> Result<(), Error> {
        let machine = self.find(argument)?;
        let device = match &self.machines {
            Machines::Named(_) => format!("qemu:{argument}"),
            Machines::One(_) => machine.name.into(),
        };
        let found = hamr_qemu::Program::find(machine);
        found.map(drop).map_err(|why| Error::Launch { device, why: why.to_string() })
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let &LaunchRequest { device, argument, window_len, .. } = request;
        let machine = self.find(argument)?;
        if let Place::Memory(base) = machine.window {
            if request.host_memory.is_some() || request.drives {
                let expected = format!("one of mapped, host-driven for {device}");
                let got = if request.drives { Protocol::DeviceDriven } else { Protocol::Split };
                return Err(Error::InvalidConfig { option: "Options::protocol", expected, got: got.to_string() });
            }
            if !cfg!(target_arch = "x86_64") {
                // Its one processor has no fences in QEMU (docs/devices.md).
                let why = "expected an x86-64 machine, whose order of loads and stores it needs".into();
                return Err(Error::Launch { device: device.into(), why });
            }
            let len = machine.memory_len();
            let memfd = Arc::new(make_window(device, len)?);
            let (off, bytes) = image_window(device, request.image, base, len)?;
            let whole = map_window(&memfd, len, true)?;
            let window =
                whole.part(off, bytes).map_err(|e| Error::Launch { device: device.into(), why: e.to_string() })?;
            let card =
                Card { memfd, len, host_memory: None, main_memory: None, peer: ALONE, rank_doorbells: [].into() };
            return self.start_over(request, Memory::Part, window, Arc::new(Doorbells::new()?), card);
        }
        let mut main_memory = None;
        if request.drives
            && let Some(image) = request.image
        {
            check_own_memory(device, image, window_len)?;
            main_memory = Some(make_device_memory(device, machine.memory_len())?);
        }
        // What a card's memory must be. No code touches the memory behind the window, so it takes
        // no room.
        let card = window_len.checked_next_power_of_two().ok_or_else(|| Error::InvalidConfig {
            option: "Options::{heap, streams}",
            expected: "a window of at most 2^63 bytes, the largest memory of a card".into(),
            got: format!("{window_len} bytes"),
        })?;
        let memfd = Arc::new(make_window(device, card)?);
        let (window, host_memory) = match request.host_memory {
            None => (map_window(&memfd, window_len, true)?, None),
            Some((_, len)) => {
                // The layout has it where the first card ends.
                let len = len.next_power_of_two();
                let memory = make_host_memory(&memfd, len)?;
                (map_two(&memfd, card, Some(&memory), len, true)?, Some((memory, len)))
            }
        };
        let card = Card { memfd, len: card, host_memory, main_memory, peer: ALONE, rank_doorbells: [].into() };
        let doorbells = Doorbells::new()?;
        let has_side = request.has_side && card.host_memory.is_none() && card.main_memory.is_none();
        let doorbells = Arc::new(if has_side { doorbells.with_side()? } else { doorbells });
        self.start_over(request, Memory::File(card.memfd.clone()), window, doorbells, card)
    }

    fn has_host_memory(&self) -> bool {
        true
    }

    fn for_debugger(&self, port: u16) -> Result<Option<Box<dyn Launcher>>, Error> {
        let server: &'static str = format!("tcp:127.0.0.1:{port}").leak();
        // The rows are never freed: a program debugs a few devices.
        let held = |machine: &Machine| {
            let args: &'static [&'static str] = [machine.args, &["-S", "-gdb", server]].concat().leak();
            Machine { args, ..*machine }
        };
        let machines = match &self.machines {
            Machines::One(machine) => Machines::One(held(machine)),
            Machines::Named(machines) => Machines::Named(machines.iter().map(held).collect::<Vec<_>>().leak()),
        };
        Ok(Some(Box::new(Self { machines })))
    }

    fn protocols(&self) -> &'static [Protocol] {
        &Protocol::CHOICES
    }

    fn window_of(&self, argument: &str, image: &ImageFile, protocol: Option<Protocol>) -> Result<Option<u64>, Error> {
        match self.find(argument)?.window {
            Place::Card if protocol != Some(Protocol::DeviceDriven) => Ok(None),
            _ => image.reserved_window().map(|window| Some(window.end - window.start)),
        }
    }

    fn launch_rank(&self, request: &LaunchRequest<'_>, home: Home) -> Result<Box<dyn Link>, Error> {
        let machine = self.find(request.argument)?;
        if machine.window != Place::Card {
            let why = format!("expected a machine with a card as a rank of a world, {} has none", machine.name);
            return Err(Error::Launch { device: request.device.into(), why });
        }
        // The image finds its rank by this number.
        let peer = home.rank.0 as u16 + 1;
        let rank_doorbells = home.rank_doorbells;
        let card =
            Card { memfd: home.world, len: home.world_len, host_memory: None, main_memory: None, peer, rank_doorbells };
        self.start_over(request, Memory::World, home.window, home.doorbells, card)
    }
}

/// The memory that a machine has behind its PCI function.
struct Card {
    memfd: Arc<OwnedFd>,
    len: u64,
    /// A second card's, for what the host polls, and its bytes.
    host_memory: Option<(OwnedFd, u64)>,
    /// The machine's own, of one that drives this card's; its heap outlives it.
    main_memory: Option<OwnedFd>,
    peer: u16,
    /// Of a rank: what ranks notify each other by.
    rank_doorbells: Arc<[OwnedFd]>,
}

/// [`Card::peer`] of a machine that shares its memory with this process only.
const ALONE: u16 = 1;
/// The peer of such a machine that serves a section beside this process.
const SIDE: u16 = 2;

impl QemuLauncher {
    /// Starts a machine whose image has its window in the memory of `card`.
    fn start_over(
        &self,
        request: &LaunchRequest<'_>,
        memory: Memory,
        window: Window<Shared>,
        doorbells: Arc<Doorbells>,
        card: Card,
    ) -> Result<Box<dyn Link>, Error> {
        let &LaunchRequest { device, argument, cpu, .. } = request;
        let machine = *self.find(argument)?;
        let name = device.to_owned();
        let theirs = doorbells.clone();
        let start = move |image: &ImageFile, limit: Duration| {
            let host_memory = card.host_memory.as_ref().map(|(memory, len)| (memory.as_fd(), *len));
            let main_memory = card.main_memory.as_ref().map(AsFd::as_fd);
            let run = Run {
                device: &name,
                image: &image.path,
                memory_len: card.len,
                host_memory,
                main_memory,
                peer: card.peer,
            };
            let cpu = cpu.map(|cpu| (cpu, limit.min(VCPU_TIMEOUT)));
            start(&machine, &run, image, &card, &theirs, cpu)
        };
        Ok(Box::new(ProcessLink::start("qemu", request, window, doorbells, memory, start)?))
    }
}

/// Refuses an image that has no memory of its own for a window of `len` bytes.
fn check_own_memory(device: &str, image: &ImageFile, len: u64) -> Result<(), Error> {
    let own = image.reserved_window()?;
    let own = own.end - own.start;
    if own >= len {
        return Ok(());
    }
    let why = format!(
        "expected an image with {len} bytes of its own for what its host lays out, got {own}: say `image!(window = BYTES, driven = BYTES)`, \
         or lower Options::heap"
    );
    Err(Error::Launch { device: device.into(), why })
}

/// Where an image has its window in a machine's memory, `len` bytes from the address `base` on: its offset and length.
fn image_window(device: &str, image: Option<&ImageFile>, base: u64, len: u64) -> Result<(u64, u64), Error> {
    let window = image.map_or(Ok(0..0), ImageFile::reserved_window)?;
    let off = window.start.checked_sub(base).filter(|off| off.is_multiple_of(64));
    let is_inside = !window.is_empty() && window.end - base.min(window.end) <= len;
    off.filter(|_| is_inside).map(|off| (off, window.end - window.start)).ok_or_else(|| Error::Launch {
        device: device.into(),
        why: match window.is_empty() {
            true => "expected an image with a window in its own memory, got one without: say `image!(window = BYTES)`"
                .into(),
            false => format!(
                "expected an image with its window in {base:#x}..{:#x}, got one at {window:#x?}: correct its memory.x",
                base + len
            ),
        },
    })
}

fn start(
    machine: &Machine,
    run: &Run<'_>,
    image: &ImageFile,
    card: &Card,
    doorbells: &Doorbells,
    cpu: Option<(usize, Duration)>,
) -> Result<Process, Error> {
    let fail = |e: hamr_qemu::Error| Error::Launch { device: run.device.into(), why: e.to_string() };
    let [own, host] = doorbells.theirs();
    // Rank r is peer r + 1.
    let ranks = (1..).zip(card.rank_doorbells.iter().map(OwnedFd::as_fd)).filter(|(peer, _)| *peer != card.peer);
    let peers: Vec<_> = ranks.chain(doorbells.for_device().map(|side| (SIDE, side))).collect();
    let all =
        (machine.window == Place::Card).then_some(hamr_qemu::MachineDoorbells { host, machine: own, peers: &peers });
    let Started { child, console, server } =
        hamr_qemu::start(machine, run, image.opened(), &*card.memfd, all).map_err(fail)?;
    let exit = machine.exit;
    let process = Process::watch(child, server, move |status| {
        // QEMU has exit codes of its own for its failures, and writes a message with them.
        let code = status.code().and_then(|status| exit.code(status)).map(|code| format!(" (the image's code {code})"));
        format!("{}{}", code.unwrap_or_default(), Clean(&console.last_words()))
    })?;
    if let Some((cpu, limit)) = cpu {
        pin_vcpu(&process, cpu, limit)?;
    }
    Ok(process)
}

/// A machine that has ended is not an error here: the handshake reports how it ended.
fn pin_vcpu(process: &Process, cpu: usize, limit: Duration) -> Result<(), Error> {
    let begin = Instant::now();
    while !process.has_exited() {
        if let Some(thread) = hamr_qemu::vcpu_thread(process.id()) {
            return pin(thread, cpu);
        }
        if begin.elapsed() > limit {
            let what = format!("pinning the device to processor {cpu}: looking for its thread `CPU 0/TCG`");
            return Err(Error::Os { what, source: std::io::ErrorKind::TimedOut.into() });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_or_missing_machine_is_answered_with_those_there_are() {
        for argument in ["", "sparc", "x86_64 "] {
            let said = QemuLauncher::built_in().target(argument).expect_err("no such machine").to_string();
            assert!(said.contains("`qemu") && said.contains("qemu:x86_64, qemu:aarch64, qemu:riscv64"), "{said}");
        }
        let own = QemuLauncher::machine(Machine { name: "mine", ..Machine::RISCV64 });
        assert!(own.target("").is_ok_and(|t| t.is_some()));
        let said = own.target("more").expect_err("no argument").to_string();
        assert!(said.contains("`mine:more`") && said.contains("no argument"), "{said}");
    }
}
