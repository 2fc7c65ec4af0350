//! The two machines: a PC that runs Linux, and one that runs an image.

use super::MEMORY_OF_SMALL;
use super::script;
use super::server::Server;
use crate::Error;
use crate::child::Background;
use hamr_qemu::{Machine, Program};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Arguments of every machine that shares memory: if it could have only one processor, QEMU would
/// not translate atomics and fences (`docs/devices.md`).
const SHARING: [&str; 4] = ["-accel", "tcg,thread=multi", "-smp", "1,maxcpus=2"];
const BARE: [&str; 7] = ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-monitor", "none"];

/// Starts the machine with the image.
pub(super) fn device(machine: &Machine, image: &Path, server: &Server) -> Result<Background, Error> {
    let mut command = Program::find(machine)?.command();
    command.args(BARE).args(SHARING).args(["-M", machine.machine, "-m", "64"]).args(machine.args);
    if !machine.cpu.is_empty() {
        command.args(["-cpu", machine.cpu]);
    }
    command.args(server.arguments()).arg("-kernel").arg(image);
    Background::start(command.stdout(Stdio::null()))
}

/// The machine with the host, and its output.
pub(super) struct Guest {
    qemu: Background,
    lines: Receiver<String>,
    deadline: Instant,
}

/// An event of a guest.
pub(super) enum Said {
    /// It printed a line.
    Line(String),
    /// It and its QEMU ended.
    Ended(ExitStatus),
}

/// What a PC with Linux is started with.
pub(super) struct Pc<'a> {
    pub(super) kernel: &'a Path,
    pub(super) initramfs: &'a Path,
    /// Words for the kernel.
    pub(super) append: &'a str,
    /// QEMU's, for board, processors, memory and devices; [`SHARING`] among them where it shares memory.
    pub(super) arguments: Vec<String>,
}

/// Arguments of a PC with the card behind which a device is, and one that is too small for any.
pub(super) fn with_cards(server: &Server) -> Vec<String> {
    let mut arguments: Vec<String> = SHARING.map(String::from).into();
    // Linux gives functions to programs only behind an IOMMU.
    let board = ["-M", "q35,kernel-irqchip=split", "-device", "intel-iommu,intremap=on,caching-mode=on", "-m", "512"];
    arguments.extend(board.map(String::from));
    arguments.extend(server.arguments());
    let (small, at) = (format!("memory-backend-ram,id=small,size={MEMORY_OF_SMALL},share=on"), addr(script::SMALL));
    arguments.extend(["-object".into(), small, "-device".into(), format!("ivshmem-plain,memdev=small,addr={at}")]);
    arguments
}

impl Guest {
    /// Starts it. After `limit`, it is ended.
    pub(super) fn start(pc: Pc<'_>, limit: Duration) -> Result<Self, Error> {
        let mut command = Program::find(&Machine::X86_64)?.command();
        command.args(BARE).args(["-cpu", "max", "-serial", "stdio"]).args(pc.arguments);
        command.arg("-kernel").arg(pc.kernel).arg("-initrd").arg(pc.initramfs);
        command.args(["-append", &format!("console=ttyS0 quiet panic=-1 {}", pc.append)]);
        let mut qemu = Background::start(command.stdout(Stdio::piped()))?;
        let (sender, lines) = channel();
        if let Some(console) = qemu.stdout() {
            std::thread::spawn(move || {
                let mut console = BufReader::new(console);
                let mut bytes = Vec::new();
                while console.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
                    let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
                    bytes.clear();
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self { qemu, lines, deadline: Instant::now() + limit })
    }

    /// The next line, or the end.
    pub(super) fn hear(&mut self) -> Result<Said, Error> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => Ok(Said::Line(line)),
            Err(RecvTimeoutError::Timeout) => Err(Error::Failed("the guest is not done in time, ended".into())),
            Err(RecvTimeoutError::Disconnected) => {
                self.qemu.wait(Instant::now() + Duration::from_secs(10)).map(Said::Ended)
            }
        }
    }
}

/// The device's number in an address of bus 0.
fn addr(address: &str) -> &str {
    address.rsplit(':').next().unwrap_or(address)
}
