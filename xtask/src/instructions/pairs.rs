//! Loads to which no store is forwarded: in the hot functions of the release binary, a load that is wider than a
//! store just before it to the same bytes, or lies across its end. It waits until that store, and with it every
//! earlier one, has left the processor: 5 ns behind a request that was just published, which no count of
//! instructions shows.

use crate::{Error, child};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The hot functions, by the ends of their names: those of the bench have the host's path in line. Beside each the
/// pairs that it may have: that of `poll_once` is of an error on its way out.
const HOT: [(&str, usize); 24] = [
    ("instructions::host_submit", 0),
    ("instructions::host_take", 0),
    ("instructions::host_sync", 0),
    ("instructions::host_32b", 0),
    ("instructions::host_112b", 0),
    ("instructions::host_512b", 0),
    ("instructions::host_pointers", 0),
    ("instructions::host_put_sync", 0),
    ("instructions::host_put", 0),
    ("instructions::host_notify", 0),
    ("instructions::host_shared", 0),
    ("instructions::host_offload", 0),
    ("instructions::host_get", 0),
    ("instructions::host_send", 0),
    ("instructions::host_send_batch", 0),
    ("Calls::move_out", 0),
    ("Calls::make_room", 0),
    ("Poller<K,F>::poll_one", 0),
    ("Poller<K,F>::poll_all", 0),
    ("::serve_long", 0),
    ("::run_tasks", 0),
    ("::run_slice", 0),
    ("gas_count::gas_request", 0),
    ("Rank<S>>::poll_once", 1),
];
/// Instructions from a store to a load that still waits for it.
const NEAR: usize = 60;
/// Registers that a call may change.
const CALLED: [&str; 9] = ["rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"];

/// Bytes of memory that an instruction accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Access {
    base: String,
    off: i64,
    size: i64,
}

impl Access {
    /// Of an operand `QWORD PTR [rsp+0x8]`. `None`: no memory, or not by a register and a constant.
    fn parse(operand: &str) -> Option<Self> {
        let (size, at) = operand.split_once(" PTR [")?;
        let sizes = [("BYTE", 1), ("WORD", 2), ("DWORD", 4), ("QWORD", 8), ("XMMWORD", 16), ("YMMWORD", 32)];
        let size = sizes.iter().find(|(name, _)| *name == size)?.1;
        let at = at.strip_suffix(']')?;
        let end = at.find(['+', '-']).unwrap_or(at.len());
        let (base, off) = at.split_at(end);
        let off = match off.get(1..) {
            None => 0,
            Some(digits) => i64::from_str_radix(digits.strip_prefix("0x")?, 16).ok()?,
        };
        Some(Self { base: base.into(), off: if at.contains('-') { -off } else { off }, size })
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.base == other.base && self.off < other.off + other.size && other.off < self.off + self.size
    }

    fn contains(&self, other: &Self) -> bool {
        self.off <= other.off && other.off + other.size <= self.off + self.size
    }
}

/// The 64-bit register that an operand names a part of.
fn register(operand: &str) -> Option<String> {
    let name = operand.trim_end_matches(['d', 'w', 'b']);
    if name.starts_with('r') && name.get(1..2).is_some_and(|c| c.starts_with(|c: char| c.is_ascii_digit())) {
        return Some(name.into());
    }
    let is_known = ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp"].iter().any(|known| operand.ends_with(known));
    (is_known && operand.len() <= 3).then(|| format!("r{}", &operand[operand.len() - 2..]))
}

/// The pairs in a function's disassembly in Intel syntax: of each what it is, for people.
fn pairs(disassembly: &str) -> Vec<String> {
    let (mut stores, mut found): (Vec<(usize, &str, Access)>, _) = (Vec::new(), Vec::new());
    for (index, line) in disassembly.lines().enumerate() {
        let Some((address, instruction)) = line.trim().split_once(":\t") else { continue };
        let (name, operands) = instruction.split_once(' ').unwrap_or((instruction, ""));
        let first = operands.trim().split(',').next().unwrap_or_default();
        let memory = operands.split(',').find_map(|operand| Access::parse(operand.trim()));
        let is_access = !["lea", "nop"].contains(&name) && !name.starts_with("prefetch");
        if let Some(access) = memory.filter(|_| is_access) {
            let is_target = first.contains(" PTR [") && !["cmp", "test", "call", "jmp", "push"].contains(&name);
            let only_stores = is_target && (name.contains("mov") || name.starts_with("set"));
            let before = stores.iter().rev().take_while(|(at, ..)| index - at <= NEAR);
            if !only_stores
                && let Some((_, at, store)) = before.into_iter().find(|(.., store)| store.overlaps(&access))
                && !store.contains(&access)
            {
                found.push(format!("{address}: {name} {operands}, behind a store of {} bytes at {at}", store.size));
            }
            if is_target {
                stores.push((index, address, access));
            }
        }
        match name {
            // What is behind is reached from elsewhere.
            "jmp" | "ret" | "ud2" => stores.clear(),
            "call" => stores.retain(|(.., store)| !CALLED.contains(&store.base.as_str())),
            "push" | "pop" => stores.retain(|(.., store)| store.base != "rsp"),
            "cmp" | "test" => {}
            _ => stores.retain(|(.., store)| register(first).is_none_or(|written| written != store.base)),
        }
    }
    found
}

/// Fails when a hot function of `binary` has more pairs than it may have. Returns how many there are.
pub(super) fn check(binary: &Path) -> Result<usize, Error> {
    let limit = Duration::from_secs(120);
    let symbols = child::capture(Command::new("nm").args(["-C", "-S", "--defined-only"]).arg(binary), limit)?;
    let (mut missing, mut all) = (HOT.map(|(name, _)| name).to_vec(), 0);
    for line in symbols.lines() {
        let [at, size, _, name] = *line.splitn(4, ' ').collect::<Vec<_>>() else { continue };
        let Some((hot, most)) = HOT.iter().find(|(hot, _)| name.ends_with(hot)) else { continue };
        missing.retain(|name| name != hot);
        let number = |digits| u64::from_str_radix(digits, 16).map_err(|e| Error::Failed(format!("nm: {line}: {e}")));
        let (start, size) = (number(at)?, number(size)?);
        let mut objdump = Command::new("objdump");
        objdump.args(["-d", "--no-show-raw-insn", "-M", "intel"]).arg(binary);
        objdump.args([format!("--start-address={start}"), format!("--stop-address={}", start + size)]);
        let found = pairs(&child::capture(&mut objdump, limit)?);
        all += found.len();
        if found.len() > *most {
            let what = "loads that wait for narrower stores";
            let list = found.join("\n  ");
            return Err(Error::Failed(format!("{name}: expected {most} {what}, got {}:\n  {list}", found.len())));
        }
    }
    match missing.is_empty() {
        true => Ok(all),
        false => Err(Error::Failed(format!("expected functions with these names in the binary: {missing:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(instructions: &[&str]) -> usize {
        let lines = instructions.iter().enumerate().map(|(at, text)| format!("  {at:x}:\t{text}\n"));
        pairs(&lines.collect::<String>()).len()
    }

    #[test]
    fn a_load_that_no_store_contains_is_a_pair() {
        let narrow = "mov    QWORD PTR [rsp+0x8],rax";
        for (load, count) in [
            ("movups xmm0,XMMWORD PTR [rsp+0x8]", 1),
            ("movups xmm0,XMMWORD PTR [rsp]", 1),
            ("mov    rcx,QWORD PTR [rsp+0xc]", 1),
            ("mov    rcx,QWORD PTR [rsp+0x4]", 1),
            ("cmp    QWORD PTR [rsp+0xc],0x1", 1),
            ("add    QWORD PTR [rsp+0xc],rax", 1),
            ("mov    rcx,QWORD PTR [rsp+0x8]", 0),
            ("mov    ecx,DWORD PTR [rsp+0xc]", 0),
            ("mov    rcx,QWORD PTR [rsp+0x10]", 0),
            ("mov    rcx,QWORD PTR [rsp-0x8]", 0),
            ("mov    rcx,QWORD PTR [rbx+0xc]", 0),
            ("lea    rcx,[rsp+0xc]", 0),
            ("mov    QWORD PTR [rsp+0xc],rcx", 0),
        ] {
            assert_eq!(of(&[narrow, load]), count, "{load}");
        }
    }

    #[test]
    fn what_is_between_decides() {
        let (store, load) = ("mov    DWORD PTR [rdi],eax", "mov    rcx,QWORD PTR [rdi]");
        for (between, count) in [
            ("mov    QWORD PTR [rdi],rax", 0),
            ("mov    edi,0x1", 0),
            ("add    rdi,0x8", 0),
            ("call   1000 <f>", 0),
            ("jmp    1000 <f>", 0),
            ("je     1000 <f>", 1),
            ("test   rdi,rdi", 1),
            ("mov    r8d,0x1", 1),
        ] {
            assert_eq!(of(&[store, between, load]), count, "{between}");
        }
        let far = [&[store][..], &["nop"; NEAR], &[load]].concat();
        assert_eq!(of(&far), 0);
    }

    #[test]
    fn parts_of_a_register_are_it() {
        for (part, whole) in [("eax", "rax"), ("rsp", "rsp"), ("r8d", "r8"), ("r15", "r15"), ("bp", "rbp")] {
            assert_eq!(register(part).as_deref(), Some(whole));
        }
        assert!(["xmm0", "QWORD PTR [rax]", "", "0x10"].iter().all(|other| register(other).is_none()));
    }
}
