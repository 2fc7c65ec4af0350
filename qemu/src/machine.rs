//! The machines, one row each, and the one function that makes a command line.

use crate::Error;
use hamr_shared_abi::ids::Isa;
use rustix::fd::{AsRawFd, BorrowedFd};
use std::ffi::OsString;
use std::path::Path;

/// A kind of machine: one row. The fields are public, so that a further board is a row of its own:
///
/// ```
/// use hamr_qemu::Machine;
/// let small = Machine { name: "microvm", machine: "microvm,pcie=on", ..Machine::X86_64 };
/// assert_eq!(small.program, "qemu-system-x86_64");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// The name in device specifications: `qemu:NAME`.
    pub name: &'static str,
    /// Instruction set of its processors.
    pub isa: Isa,
    /// Rust's target triple of its bare-metal images.
    pub triple: &'static str,
    /// The program's name; [`crate::Program::find`] finds its file.
    pub program: &'static str,
    /// The argument of `-M`.
    pub machine: &'static str,
    /// The argument of `-cpu`; empty for the machine's default.
    pub cpu: &'static str,
    /// Further arguments.
    pub args: &'static [&'static str],
    /// Number of processors that run at the start.
    pub cpus: u32,
    /// Main memory in MiB.
    pub memory: u32,
    /// Where the window is.
    pub window: Place,
    /// How an image ends the machine with a code.
    pub exit: Exit,
}

/// Where a machine has the memory that the host maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// On a PCI card.
    Card,
    /// It is all of the machine's main memory, which begins at this address. The machine has no bus and no doorbell. Nor may it have
    /// a second processor, so that QEMU translates it without fences: an x86-64 host keeps the order of loads and stores all the
    /// same, and no image without a doorbell needs more (abi §7.4).
    Memory(u64),
}

/// How QEMU's exit status carries the image's exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// The status is the code: semihosting, or the test device of RISC-V machines. Images do not
    /// use 1, because QEMU ends with it when it cannot start.
    Same,
    /// `isa-debug-exit`: a code becomes `2 * code + 1`. QEMU also ends with 1 when it cannot start.
    DebugExit,
}

impl Exit {
    /// The image's exit code, when the status carries one.
    pub fn code(self, status: i32) -> Option<i32> {
        match self {
            Self::Same => (status > 1).then_some(status),
            Self::DebugExit => (status > 1 && status % 2 == 1).then_some(status / 2),
        }
    }
}

/// One run of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The device's name in messages.
    pub device: &'a str,
    /// The image's file.
    pub image: &'a Path,
    /// Bytes of the card's memory: a power of two. Of a machine without one, all of [`Machine::memory`].
    pub memory_len: u64,
    /// A second card's memory, whose addresses follow the first one's, and its bytes: a power of two.
    pub host_memory: Option<(BorrowedFd<'a>, u64)>,
    /// Main memory of a machine with a card, which outlives the machine: all of [`Machine::memory`].
    pub main_memory: Option<BorrowedFd<'a>>,
    /// The machine's number among those that share the memory, from 1; this process has 0.
    pub peer: u16,
}

/// How the machine gets the PCI card: the number of a descriptor that the program inherits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Card {
    /// The memory itself. The card has no doorbell.
    Memory(i32),
    /// The connection to a server, which passes on the memory and the doorbells.
    Server(i32),
}

impl Machine {
    /// A PC, entered by PVH.
    pub const X86_64: Self = Self {
        name: "x86_64",
        isa: Isa::X86_64,
        triple: "x86_64-unknown-linux-gnu",
        program: "qemu-system-x86_64",
        machine: "q35",
        cpu: "max",
        args: &["-device", "isa-debug-exit,iobase=0xf4,iosize=4"],
        cpus: 1,
        memory: 64,
        window: Place::Card,
        exit: Exit::DebugExit,
    };
    /// Arm's `virt`, entered at EL1. GICv2, because its message window needs no tables in memory.
    pub const AARCH64: Self = Self {
        name: "aarch64",
        isa: Isa::AARCH64,
        triple: "aarch64-unknown-none",
        program: "qemu-system-aarch64",
        machine: "virt,gic-version=2",
        cpu: "max",
        args: &["-semihosting-config", "enable=on,target=native"],
        cpus: 1,
        memory: 64,
        window: Place::Card,
        exit: Exit::Same,
    };
    /// RISC-V's `virt`, entered in machine mode: without firmware, which would occupy the addresses
    /// that images are linked to.
    pub const RISCV64: Self = Self {
        name: "riscv64",
        isa: Isa::RISCV64,
        triple: "riscv64gc-unknown-none-elf",
        program: "qemu-system-riscv64",
        // The interrupt controllers that receive a card's message interrupts.
        machine: "virt,aia=aplic-imsic",
        cpu: "",
        args: &["-bios", "none"],
        cpus: 1,
        memory: 64,
        window: Place::Card,
        exit: Exit::Same,
    };
    /// Arm's MPS2 with a Cortex-M4, whose PSRAM is the main memory.
    pub const ARM: Self = Self {
        name: "arm",
        isa: Isa::ARM32,
        triple: "thumbv7em-none-eabihf",
        program: "qemu-system-arm",
        machine: "mps2-an386",
        cpu: "",
        args: &["-semihosting-config", "enable=on,target=native", "-nic", "none"],
        cpus: 1,
        memory: 16,
        window: Place::Memory(0x2100_0000),
        exit: Exit::Same,
    };
    /// All of them.
    pub const ALL: [Self; 4] = [Self::X86_64, Self::AARCH64, Self::RISCV64, Self::ARM];

    /// Bytes of its main memory.
    pub fn memory_len(&self) -> u64 {
        u64::from(self.memory) << 20
    }

    /// The arguments of the program. Every machine gets its command line here.
    ///
    /// # Errors
    /// When the row contains an argument that only this function may set, or no card can have
    /// memory of this size.
    pub fn arguments(&self, run: &Run<'_>, card: Card) -> Result<Vec<OsString>, Error> {
        self.check()?;
        let Run { device, image, memory_len, host_memory, main_memory, .. } = *run;
        let is_possible = match self.window {
            Place::Card => memory_len.is_power_of_two() && memory_len >= 4096,
            Place::Memory(_) => {
                memory_len == self.memory_len() && matches!(card, Card::Memory(_)) && host_memory.is_none()
            }
        };
        let second = host_memory.map(|(_, len)| len).filter(|len| !len.is_power_of_two() || *len < 4096);
        if let Some(len) = second.or((!is_possible).then_some(memory_len)) {
            return Err(Error::Memory(len));
        }
        let mut all: Vec<OsString> = Vec::new();
        let mut say = |words: &[&str]| all.extend(words.iter().map(OsString::from));
        // A comma separates the fields of an option; a doubled one is a comma in the text.
        say(&["-name", &format!("guest={},debug-threads=on", device.replace(',', ",,"))]);
        say(&["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-monitor", "none"]);
        // QEMU translates a machine that can never have a second processor without fences and
        // without atomic instructions, which other processes over the same memory would observe.
        // The same is true with `-icount` or `thread=single`. Hence the machine may have at least
        // two processors, of which one runs. KVM is never chosen: how it runs ring-0 code differs
        // by host.
        let (most, backend) = match self.window {
            Place::Card if main_memory.is_some() => (self.cpus.max(2), ",memory-backend=main"),
            Place::Card => (self.cpus.max(2), ""),
            Place::Memory(_) => (self.cpus, ",memory-backend=hamr"),
        };
        say(&["-accel", "tcg,thread=multi", "-smp", &format!("{},maxcpus={most}", self.cpus)]);
        say(&["-M", &[self.machine, backend].concat(), "-m", &self.memory.to_string()]);
        if !self.cpu.is_empty() {
            say(&["-cpu", self.cpu]);
        }
        say(self.args);
        let backend = |id: &str, memory: i32, len: u64| {
            format!("memory-backend-file,id={id},mem-path=/proc/self/fd/{memory},size={len},share=on")
        };
        let plain = |say: &mut dyn FnMut(&[&str]), id: &str, memory: i32, len: u64| {
            say(&["-object", &backend(id, memory, len), "-device", &format!("ivshmem-plain,memdev={id}")]);
        };
        match card {
            Card::Memory(memory) if self.window == Place::Card => plain(&mut say, "hamr", memory, memory_len),
            Card::Memory(memory) => say(&["-object", &backend("hamr", memory, memory_len)]),
            Card::Server(socket) => {
                say(&["-chardev", &format!("socket,id=hamr,fd={socket}")]);
                say(&["-device", "ivshmem-doorbell,chardev=hamr,vectors=1"]);
            }
        }
        if let Some(memory) = main_memory {
            say(&["-object", &backend("main", memory.as_raw_fd(), self.memory_len())]);
        }
        // Behind the other on the bus, too.
        if let Some((memory, len)) = host_memory {
            plain(&mut say, "host", memory.as_raw_fd(), len);
        }
        // Not `-serial stdio`: that would read standard input.
        say(&["-chardev", "file,id=console,path=/proc/self/fd/1", "-serial", "chardev:console", "-kernel"]);
        all.push(image.into());
        Ok(all)
    }

    /// Refuses a row that would undo what [`Self::arguments`] sets for processors, or whose machine
    /// could outlive this process.
    fn check(&self) -> Result<(), Error> {
        let no = |argument: &str, why| Err(Error::Forbidden { machine: self.name, argument: argument.to_owned(), why });
        const ATOMIC: &str =
            "shared memory needs `-accel tcg,thread=multi` and `-smp` with at least two possible processors";
        const TIED: &str = "it would take the machine away from the process that started it";
        for word in [self.machine, self.cpu].iter().chain(self.args) {
            // QEMU takes options with one dash and with two.
            let option = word.strip_prefix('-').map(|rest| rest.strip_prefix('-').unwrap_or(rest));
            match option {
                Some("accel" | "smp" | "enable-kvm" | "icount" | "readconfig") => return no(word, ATOMIC),
                Some("daemonize" | "runas") => return no(word, TIED),
                _ => {}
            }
            let sets = |key: &str| word.split(',').any(|field| field.trim_start().starts_with(key));
            if sets("accel=") || sets("smp.") {
                return no(word, ATOMIC);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROVM: Machine = Machine {
        name: "microvm",
        machine: "microvm,pcie=on",
        args: &["-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-d", "guest_errors"],
        cpus: 4,
        ..Machine::X86_64
    };

    fn words(machine: &Machine, card: Card) -> Vec<String> {
        let run = Run {
            device: "qemu:here,there",
            image: Path::new("/some/image"),
            memory_len: 1 << 27,
            host_memory: None,
            main_memory: None,
            peer: 1,
        };
        let words = machine.arguments(&run, card).expect("a good row");
        words.into_iter().map(|w| w.into_string().expect("UTF-8")).collect()
    }

    #[test]
    fn every_row_keeps_atomics_and_has_the_window() {
        for machine in Machine::ALL.iter().filter(|machine| machine.window == Place::Card).chain([&MICROVM]) {
            let words = words(machine, Card::Memory(17));
            let follows = |option: &str| -> Vec<&str> {
                let at = words.windows(2).filter(|pair| pair[0] == option);
                at.map(|pair| pair[1].as_str()).collect()
            };
            assert_eq!(follows("-accel"), ["tcg,thread=multi"], "{words:?}");
            assert_eq!(follows("-smp"), [if machine.cpus == 4 { "4,maxcpus=4" } else { "1,maxcpus=2" }]);
            assert_eq!(follows("-M"), [machine.machine]);
            assert_eq!(follows("-m"), ["64"]);
            assert_eq!(follows("-name"), ["guest=qemu:here,,there,debug-threads=on"]);
            assert_eq!(follows("-monitor"), ["none"]);
            assert_eq!(follows("-display"), ["none"]);
            for flag in ["-nodefaults", "-no-user-config", "-no-reboot"] {
                assert!(words.iter().any(|w| w == flag), "{flag} in {words:?}");
            }
            let object = "memory-backend-file,id=hamr,mem-path=/proc/self/fd/17,size=134217728,share=on";
            assert_eq!(follows("-object"), [object]);
            assert!(follows("-device").contains(&"ivshmem-plain,memdev=hamr"));
            assert_eq!(follows("-kernel"), ["/some/image"]);
            let with_doorbells = self::words(machine, Card::Server(18)).join(" ");
            let card = "-chardev socket,id=hamr,fd=18 -device ivshmem-doorbell,chardev=hamr,vectors=1";
            assert!(with_doorbells.contains(card) && !with_doorbells.contains("-object"), "{with_doorbells}");
            assert!(
                !words.iter().any(|w| w.contains("kvm") || w.contains("icount") || w.contains("stdio")),
                "{words:?}"
            );
        }
    }

    #[test]
    fn rows_must_not_set_how_processors_run() {
        let rows: [&'static [&'static str]; 11] = [
            &["-accel", "kvm"],
            &["--accel", "tcg"],
            &["-smp", "1"],
            &["-enable-kvm"],
            &["--enable-kvm"],
            &["-icount", "shift=0"],
            &["-machine", "accel=kvm:tcg"],
            &["-M", "virt,accel=kvm"],
            &["-M", "smp.maxcpus=1"],
            &["-daemonize"],
            &["-readconfig", "file"],
        ];
        let run =
            Run { device: "d", image: Path::new("i"), memory_len: 4096, host_memory: None, main_memory: None, peer: 1 };
        for args in rows {
            match (Machine { args, ..MICROVM }).arguments(&run, Card::Memory(3)) {
                Err(e @ Error::Forbidden { .. }) => assert!(e.to_string().contains("machine microvm: `"), "{e}"),
                other => panic!("{args:?}: {other:?}"),
            }
        }
        let error = (Machine { machine: "q35,accel=kvm", ..MICROVM }).arguments(&run, Card::Memory(3));
        assert!(matches!(error, Err(Error::Forbidden { .. })), "{error:?}");
    }

    #[test]
    fn a_machine_without_a_card_has_the_window_as_its_memory() {
        let run = Run {
            device: "d",
            image: Path::new("/some/image"),
            memory_len: 16 << 20,
            host_memory: None,
            main_memory: None,
            peer: 1,
        };
        let words = Machine::ARM.arguments(&run, Card::Memory(17)).expect("a good row");
        let words: Vec<_> = words.iter().map(|word| word.to_str().expect("UTF-8")).collect();
        let words = words.join(" ");
        let object = "memory-backend-file,id=hamr,mem-path=/proc/self/fd/17,size=16777216,share=on";
        for part in ["-M mps2-an386,memory-backend=hamr -m 16", &format!("-object {object}"), "-smp 1,maxcpus=1"] {
            assert!(words.contains(part), "{part} in {words}");
        }
        assert!(!words.contains("ivshmem"), "{words}");
        for (memory_len, card) in [(8 << 20, Card::Memory(17)), (16 << 20, Card::Server(17))] {
            let refused = Machine::ARM.arguments(&Run { memory_len, ..run }, card);
            assert!(matches!(refused, Err(Error::Memory(n)) if n == memory_len), "{refused:?}");
        }
    }

    #[test]
    fn a_cards_memory_is_a_power_of_two() {
        for memory_len in [0, 1, 2048, 4097, 3 << 20] {
            let run =
                Run { device: "d", image: Path::new("i"), memory_len, host_memory: None, main_memory: None, peer: 1 };
            assert!(matches!(MICROVM.arguments(&run, Card::Memory(3)), Err(Error::Memory(n)) if n == memory_len));
        }
    }

    #[test]
    fn statuses_carry_codes() {
        assert_eq!((Exit::Same.code(0), Exit::Same.code(1), Exit::Same.code(7)), (None, None, Some(7)));
        assert_eq!((Exit::DebugExit.code(15), Exit::DebugExit.code(3)), (Some(7), Some(1)));
        assert_eq!([0, 1, 2, 14].map(|status| Exit::DebugExit.code(status)), [None; 4]);
    }
}
