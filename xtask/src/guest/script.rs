//! The guest's program: `/init`, a shell script of commands with their expected exit codes and
//! texts.
//!
//! Over sysfs: every refusal, the commands, the conformance suite, hosts one after the other, and 1000 calls that each find
//! the device asleep. Over vfio: the same suite and calls, a restart under the old window, a handler of 6 s, ends and returns
//! of device and function; at last the function's removal from the bus. Other machines than the first skip the refusals,
//! everything after the long handler, and the suite over vfio.

use std::fmt::Write;

/// The address on the guest's bus of the card with a device behind it, and of a card that is too
/// small for one.
pub(super) const CARD: &str = "0000:00:01.0";
pub(super) const SMALL: &str = "0000:00:02.0";

/// Lines by which the guest asks this program to end the device's machine, and to start it again.
pub(super) const KILL_DEVICE: &str = "## kill device";
pub(super) const START_DEVICE: &str = "## start device";
/// Prefix of the last line, which ends in the number of failed checks.
pub(super) const STATUS: &str = "## status ";
/// Prefix of the line of a check, and of a failed check.
pub(super) const CHECK: &str = "== ";
pub(super) const WRONG: &str = "!! ";

/// The beginning of every guest's script. A check runs one command and compares its exit code and
/// its output.
const HEAD: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
export PATH=/bin HOME=/tmp
cd /tmp
wrong=0
check() {
    name=$1 code=$2 words=$3
    shift 3
    echo "== $name"
    { "$@" 2>&1; echo $? > /tmp/code; } | tee /tmp/output
    if [ "$(cat /tmp/code)" != "$code" ]; then
        echo "!! $name: expected exit code $code, got $(cat /tmp/code)"
        wrong=$((wrong + 1))
    elif [ "$code" = 2 ] && [ "$(wc -l < /tmp/output)" != 1 ]; then
        echo "!! $name: expected one line, got $(wc -l < /tmp/output)"
        wrong=$((wrong + 1))
    elif [ -n "$words" ] && ! grep -qF -- "$words" /tmp/output; then
        echo "!! $name: expected the text: $words, got: $(cat /tmp/output)"
        wrong=$((wrong + 1))
    fi
}
as_nobody() { su nobody -s /bin/sh -c "$*"; }
without_bus() {
    mount -t tmpfs none /sys/bus/pci/devices
    "$@"
    code=$?
    umount /sys/bus/pci/devices
    return $code
}
give() {
    echo "$2" > /sys/bus/pci/devices/$1/driver_override
    echo "$1" > /sys/bus/pci/drivers_probe
    ls -l /sys/bus/pci/devices/$1/driver
}
load() { for module in "$@"; do insmod /lib/$module.ko; done; }
"#;

/// Modules of `vfio` and `sysfs`, each behind the ones that it needs.
pub(super) const VFIO: [&str; 6] =
    ["vfio", "vfio_virqfd", "irqbypass", "vfio-pci-core", "vfio-pci", "vfio_iommu_type1"];
pub(super) const UIO: [&str; 2] = ["uio", "uio_pci_generic"];

/// A script under construction.
pub(super) struct Script {
    text: String,
}

impl Script {
    pub(super) fn new() -> Self {
        Self { text: HEAD.to_owned() }
    }

    /// Adds lines of shell.
    pub(super) fn lines(&mut self, lines: &str) {
        let _ = writeln!(self.text, "{lines}");
    }

    /// Adds one command.
    pub(super) fn check(&mut self, name: &str, code: u8, words: &str, command: &str) {
        let _ = writeln!(self.text, "check '{name}' {code} '{words}' {command}");
    }

    /// Adds a line for the program that runs the machines.
    fn tell(&mut self, line: &str) {
        let _ = writeln!(self.text, "echo '{line}'");
    }

    /// Prints the outcome and ends the machine. `stty` returns when everything written has been
    /// sent: without it, the last line could be lost with the machine.
    pub(super) fn finish(self) -> String {
        let Self { text } = self;
        format!("{text}echo \"{STATUS}$wrong\"\nstty -echo\npoweroff -f\n")
    }

    /// The device through `resource2`: its description, the conformance suite, and the same result
    /// bits as elsewhere.
    pub(super) fn sysfs(&mut self, isa: &str, dot: &str) {
        self.lines(&format!("export HAMR_GUEST_DEVICE=pci:{CARD}"));
        let device = format!("--device pci:{CARD}");
        self.check("the device describes itself", 0, &format!("processor  {isa}"), &format!("hamr devices {device}"));
        self.check("it is a candidate", 0, &format!("{CARD}  128.0 MiB  no driver"), &format!("hamr devices {device}"));
        self.check("dot has the bits of shm", 0, dot, &format!("hamr dot /x.npy /y.npy {device}"));
        self.check("dot with both sides asleep", 0, dot, &format!("hamr dot /x.npy /y.npy --wait sleep {device}"));
        self.check("the demonstration names what is left", 0, "its image goes on", &format!("hamr {device}"));
        self.check("its window is inspected", 0, "device     stopped", &format!("hamr inspect {device}"));
        self.check("by root only", 2, "Permission denied", &format!("as_nobody hamr inspect {device}"));
        self.check("the conformance suite over sysfs", 0, "test result: ok", "guest --test-threads 1 --nocapture");
    }

    /// Every case in which a function is no device: each is one line and exit code 2.
    pub(super) fn refusals(&mut self) {
        let known = format!("this machine has {CARD}, {SMALL}");
        let nobody = format!("expected a function at 0000:00:09.0, found none; {known}");
        let other = "expected shared memory (ivshmem, 1af4:1110) at 0000:00:00.0, found 8086:29c0";
        let unread = "resource2 for writing (expected to run as root";
        let bound = format!("expected no driver at {SMALL}, or vfio-pci, found uio_pci_generic; free it with");
        for (name, words, command) in [
            ("no function", &*nobody, "hamr handlers --device pci:00:09.0".to_owned()),
            ("no function to inspect", &nobody, "hamr inspect --device pci:00:09.0".to_owned()),
            ("another function", other, "hamr handlers --device pci:00:00.0".to_owned()),
            ("no address", "no device is named `pci:toaster`", "hamr handlers --device pci:toaster".to_owned()),
            ("too small", "expected a BAR 2 of at least", format!("hamr handlers --device pci:{SMALL}")),
            ("no permission", unread, format!("as_nobody hamr handlers --device pci:{CARD}")),
            ("no bus", "expected a machine with a PCI bus", format!("without_bus hamr handlers --device pci:{CARD}")),
        ] {
            self.check(name, 2, words, &command);
        }
        self.check("another driver takes it", 0, "uio_pci_generic", &format!("give {SMALL} uio_pci_generic"));
        self.check("bound elsewhere", 2, &bound, &format!("hamr handlers --device pci:{SMALL}"));
    }

    /// Loads modules.
    pub(super) fn load(&mut self, modules: &[&str]) {
        self.check("modules load", 0, "", &format!("load {}", modules.join(" ")));
    }

    /// The device through vfio: notifications both ways, and with `all` the conformance suite.
    pub(super) fn vfio(&mut self, dot: &str, all: bool) {
        self.bind();
        // A resource that the suite poisoned stays so until the image starts again; and a reset
        // device must be as good as a new one.
        self.tell(START_DEVICE);
        let device = format!("--device pci:{CARD}");
        self.check("dot with both sides asleep", 0, dot, &format!("hamr dot /x.npy /y.npy --wait sleep {device}"));
        if !all {
            self.check("notifications over vfio", 0, "test result: ok", "guest --test-threads 1 --nocapture asleep::");
            return;
        }
        self.check("it is used through vfio", 0, "link       pci-vfio", &format!("hamr devices {device}"));
        let words = "expected that this user owns it";
        self.check("the group has one owner", 2, words, &format!("as_nobody hamr handlers {device}"));
        self.check("the conformance suite over vfio", 0, "test result: ok", "guest --test-threads 1 --nocapture");
    }

    fn bind(&mut self) {
        self.check("vfio takes it", 0, "vfio-pci", &format!("give {CARD} vfio-pci"));
    }

    /// A handler runs for longer than a device may be silent.
    pub(super) fn long_handler(&mut self) {
        self.ignored("a_long_handler_is_not_a_lost_device");
    }

    /// The device vanishes under its host, and comes back.
    pub(super) fn lost_and_found(&mut self) {
        let device = format!("--device pci:{CARD}");
        self.ignored("a_device_that_vanishes_ends_its_calls");
        let still = "neither alive nor progress moved: it does not run";
        self.check("a stopped device is inspected", 0, still, &format!("hamr inspect {device}"));
        self.check(
            "a stopped device is named",
            2,
            "no image runs there",
            &format!("env HAMR_START_DEADLINE=1s hamr handlers {device}"),
        );
        self.tell(START_DEVICE);
        self.check("a device that was reset serves again", 0, "same", &format!("hamr handlers {device}"));
    }

    /// The function is taken from vfio while a host uses it, and then removed from the bus.
    pub(super) fn removal(&mut self) {
        self.ignored("a_function_that_vfio_takes_back_is_released");
        self.ignored("a_function_that_is_removed_ends_its_calls");
    }

    fn ignored(&mut self, name: &str) {
        self.check(name, 0, "1 passed", &format!("guest --ignored --exact --nocapture {name}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_what_a_shell_reads() {
        let mut script = Script::new();
        script.refusals();
        script.load(&VFIO);
        script.sysfs("riscv64", "1.5");
        script.vfio("1.5", false);
        script.vfio("1.5", true);
        script.lost_and_found();
        script.long_handler();
        script.removal();
        let text = script.finish();
        let shell = std::process::Command::new("sh").args(["-n", "-c", &text]).status().expect("a shell");
        assert!(shell.success());
        // A name or text in quotes must not contain a quote.
        let checks = text.lines().filter(|line| line.starts_with("check '"));
        assert!(checks.clone().count() > 15);
        for line in checks {
            assert_eq!(line.matches('\'').count(), 4, "{line}");
        }
    }
}
