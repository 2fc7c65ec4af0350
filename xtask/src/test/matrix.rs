//! The conformance matrix: how many cases of the suite passed over each transport, protocol and processor.

use super::nextest::{is_summary, told};
use std::collections::BTreeMap;

/// Modules of the suite (`tests/src/conformance.rs`).
const SUITE: [&str; 16] = [
    "values",
    "outcomes",
    "order",
    "tasks",
    "claims",
    "host_calls",
    "pings",
    "ending",
    "streams",
    "host_functions",
    "puts",
    "memory",
    "transfers",
    "chains",
    "one_way",
    "restart",
];

/// Transport, protocol, processor and the module whose tests they are.
const ROWS: [[&str; 4]; 32] = [
    ["loopback", "mapped", "this machine", "host loopback"],
    ["shm", "mapped", "this machine", "shm plain"],
    ["qemu", "mapped", "riscv64", "qemu riscv64"],
    ["qemu", "mapped", "x86_64", "qemu x86_64"],
    ["qemu", "mapped", "aarch64", "qemu aarch64"],
    ["microvm", "mapped", "x86_64", "qemu microvm"],
    ["loopback", "host-driven", "this machine", "host loopback::driven"],
    ["no promises", "host-driven", "this machine", "host mirrored::careless"],
    ["shm", "host-driven", "this machine", "shm driven"],
    ["qemu", "host-driven", "riscv64", "qemu driven::riscv64"],
    ["qemu", "host-driven", "x86_64", "qemu driven::x86_64"],
    ["qemu", "host-driven", "aarch64", "qemu driven::aarch64"],
    ["gdb, qemu's stub", "host-driven", "riscv64", "qemu driven::gdb"],
    ["shm", "device-driven", "this machine", "shm device_driven"],
    ["qemu", "device-driven", "riscv64", "qemu device_driven::riscv64"],
    ["qemu", "device-driven", "x86_64", "qemu device_driven::x86_64"],
    ["qemu", "device-driven", "aarch64", "qemu device_driven::aarch64"],
    ["loopback", "split", "this machine", "host split"],
    ["shm, two memories", "split", "this machine", "shm split"],
    ["shm, one memory", "split", "this machine", "shm split::one_memory"],
    ["qemu, two cards", "split", "riscv64", "qemu split::riscv64"],
    ["qemu, two cards", "split", "x86_64", "qemu split::x86_64"],
    ["qemu, two cards", "split", "aarch64", "qemu split::aarch64"],
    ["qemu, no bus", "mapped", "arm", "qemu arm"],
    ["thread, polls", "message", "this machine", "host mirrored::polling"],
    ["thread, sleeps", "message", "this machine", "host mirrored::sleeping"],
    ["socket pair", "message", "this machine", "host mirrored::streamed"],
    ["shm, mirrored", "message", "this machine", "shm mirrored"],
    ["shm, TCP and TLS", "message", "this machine", "shm tcp"],
    ["qemu, TCP and TLS", "message", "riscv64", "qemu far::riscv64"],
    ["qemu, TCP and TLS", "message", "x86_64", "qemu far::x86_64"],
    ["qemu, TCP and TLS", "message", "aarch64", "qemu far::aarch64"],
];

/// The module of a test of the suite, with its binary, and whether it passed: from a line as
/// `PASS [   0.1s] (2/8) hamr-tests::qemu far::riscv64::values::inline`.
fn case(line: &str) -> Option<(String, bool)> {
    let (status, binary, test) = told(line)?;
    let binary = binary.strip_prefix("hamr-tests::")?;
    let (module, _) = test.rsplit_once("::")?;
    let (module, part) = module.rsplit_once("::")?;
    SUITE.contains(&part).then(|| (format!("{binary} {module}"), status == "PASS"))
}

/// Is the line one of which [`table`] makes something?
pub(super) fn is_case(line: &str) -> bool {
    case(line).is_some()
}

/// The matrix of a run with these lines, of which those behind the summary say nothing new. `None`: no case ran.
pub(super) fn table(lines: &[String]) -> Option<String> {
    let mut counts = BTreeMap::<String, (usize, usize)>::new();
    let run = lines.iter().take_while(|line| !is_summary(line));
    for (module, passed) in run.filter_map(|line| case(line)) {
        let count = counts.entry(module).or_default();
        (count.0, count.1) = (count.0 + usize::from(passed), count.1 + 1);
    }
    let mut text =
        format!("{:<18} {:<13} {:<13} {:>6} {:>6}\n", "TRANSPORT", "PROTOCOL", "PROCESSOR", "CASES", "PASSED");
    for [transport, protocol, processor, module] in ROWS {
        if let Some((passed, run)) = counts.get(module) {
            text += &format!("{transport:<18} {protocol:<13} {processor:<13} {run:>6} {passed:>6}\n");
        }
    }
    (!counts.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_counted_by_their_module() {
        let lines = [
            "        PASS [   0.041s] (   1/2931) hamr-tests::shm plain::values::inline",
            "        FAIL [   0.041s] (   2/2931) hamr-tests::shm plain::values::every_length",
            "        PASS [   0.041s] hamr-tests::qemu far::riscv64::memory::copies",
            "        PASS [   0.041s] hamr-tests::qemu far::riscv64::logs::arguments_arrive",
            "     Summary [   2.525s] 4 tests run: 3 passed, 1 failed, 0 skipped",
            "        FAIL [   0.041s] (   2/2931) hamr-tests::shm plain::values::every_length",
        ];
        let table = table(&lines.map(str::to_owned)).expect("cases");
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows.len(), 3, "{table}");
        assert_eq!(rows[1], ["shm", "mapped", "this", "machine", "2", "1"]);
        assert_eq!(rows[2], ["qemu,", "TCP", "and", "TLS", "message", "riscv64", "1", "1"]);
    }

    #[test]
    fn each_row_is_of_its_own_and_the_suite_is_what_it_is() {
        let source = include_str!("../../../tests/src/conformance.rs");
        assert!(SUITE.iter().all(|module| source.contains(&format!("            {module} {{"))));
        let mut modules: Vec<_> = ROWS.iter().map(|row| row[3]).collect();
        modules.sort_unstable();
        modules.dedup();
        assert_eq!(modules.len(), ROWS.len());
    }
}
