//! The sizes of stack frames in riscv64 code, read from its instructions. Stable compilers emit
//! neither stack probes for that instruction set nor the sizes of frames.

/// The register that is the stack pointer, of 32.
const SP: usize = 2;

/// One instruction that lowers the stack pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Address of the instruction.
    pub at: u64,
    /// The number of bytes; `None` when they come from a register whose value is not known.
    pub bytes: Option<u64>,
}

/// Every instruction of `code`, which begins at `address`, that lowers the stack pointer.
pub fn steps(code: &[u8], address: u64) -> Vec<Step> {
    let mut known: [Option<i64>; 32] = [None; 32];
    known[0] = Some(0);
    let (mut steps, mut at) = (Vec::new(), 0);
    while let Some(&[low, high]) = code.get(at..at + 2) {
        let short = u32::from(u16::from_le_bytes([low, high]));
        let (len, effect) = match code.get(at..at + 4) {
            Some(&[a, b, c, d]) if short & 3 == 3 => (4, long(u32::from_le_bytes([a, b, c, d]), &known)),
            _ => (2, compressed(short, &known)),
        };
        match effect {
            Effect::Set(SP, _) | Effect::Nothing => {}
            Effect::Lower(bytes) => {
                if bytes.is_none_or(|bytes| bytes > 0) {
                    steps.push(Step { at: address + at as u64, bytes: bytes.map(|bytes| bytes as u64) });
                }
            }
            Effect::Set(register, value) => known[register] = if register == 0 { Some(0) } else { value },
            Effect::Unknown => known = [None; 32].map(|none: Option<i64>| none),
        }
        known[0] = Some(0);
        at += len;
    }
    steps
}

/// The effect of an instruction on registers, as far as it matters here.
enum Effect {
    /// Sets one register, to a known value or not.
    Set(usize, Option<i64>),
    /// Lowers the stack pointer.
    Lower(Option<i64>),
    Nothing,
    /// May set any register.
    Unknown,
}

fn long(word: u32, known: &[Option<i64>; 32]) -> Effect {
    let field = |shift: u32| (word >> shift & 31) as usize;
    let (to, one, two) = (field(7), field(15), field(20));
    let immediate = i64::from(word as i32 >> 20);
    let upper = i64::from((word & 0xFFFF_F000) as i32);
    match (word & 0x7F, word >> 12 & 7) {
        // ADDI
        (0x13, 0) if to == SP && one == SP => Effect::Lower(Some(-immediate)),
        (0x13, 0) => Effect::Set(to, known[one].map(|value| value + immediate)),
        // ADDIW
        (0x1B, 0) => Effect::Set(to, known[one].map(|value| i64::from((value + immediate) as i32))),
        // SLLI
        (0x13, 1) => Effect::Set(to, known[one].map(|value| value << (word >> 20 & 63))),
        // LUI
        (0x37, _) => Effect::Set(to, Some(upper)),
        // SUB, ADD
        (0x33, 0) if to == SP && one == SP && word >> 25 == 0x20 => Effect::Lower(known[two]),
        (0x33, 0) if to == SP && one == SP && word >> 25 == 0 => Effect::Lower(known[two].map(|value| -value)),
        // Stores and branches set no register.
        (0x23 | 0x27 | 0x63, _) => Effect::Nothing,
        // A call sets the registers that a callee may change; the target of a jump may be reached
        // from elsewhere.
        (0x6F | 0x67, _) => Effect::Unknown,
        _ => Effect::Set(to, None),
    }
}

fn compressed(word: u32, known: &[Option<i64>; 32]) -> Effect {
    let to = (word >> 7 & 31) as usize;
    let small = (word >> 2 & 7) as usize + 8;
    let bit = |from: u32, to: u32| (word >> from & 1) << to;
    let six = i64::from(((bit(12, 5) | word >> 2 & 31) << 26) as i32 >> 26);
    match (word & 3, word >> 13) {
        // C.ADDI16SP
        (1, 3) if to == SP => {
            let raw = bit(12, 9) | bit(6, 4) | bit(5, 6) | bit(4, 8) | bit(3, 7) | bit(2, 5);
            Effect::Lower(Some(-i64::from((raw << 22) as i32 >> 22)))
        }
        (1, 0) if to == SP => Effect::Lower(Some(-six)),
        // C.ADDI, C.ADDIW, C.LI, C.LUI
        (1, 0 | 1) => Effect::Set(to, known[to].map(|value| value + six)),
        (1, 2) => Effect::Set(to, Some(six)),
        (1, 3) => Effect::Set(to, Some(six << 12)),
        // C.SLLI
        (2, 0) => Effect::Set(to, known[to].map(|value| value << (six & 63))),
        // Stores and branches.
        (0 | 2, 5..=7) | (1, 6 | 7) => Effect::Nothing,
        // C.ADDI4SPN and loads
        (0, _) => Effect::Set(small, None),
        // C.LDSP and its like
        (2, 1..=3) => Effect::Set(to, None),
        // C.MV, C.ADD, C.SUB and the rest are rare between a constant and its use.
        _ => Effect::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by an assembler: `addi sp,sp,-496; sd ra,488(sp); lui a1,5; addi a1,a1,-944; sub
    /// sp,sp,a1; addi sp,sp,496`, then `c.addi16sp sp,-64; c.addi sp,-16; sub sp,sp,a5`.
    #[test]
    fn prologues_are_read() {
        let words: [u32; 6] = [0xE101_0113, 0x1E11_3423, 0x0000_55B7, 0xC505_8593, 0x40B1_0133, 0x1F01_0113];
        let mut code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        code.extend([0x39, 0x71, 0x41, 0x11]);
        code.extend(0x40F1_0133_u32.to_le_bytes());
        let found = steps(&code, 0x8000_0000);
        let step = |at: u64, bytes| Step { at: 0x8000_0000 + at, bytes };
        assert_eq!(
            found,
            [step(0, Some(496)), step(16, Some(19_536)), step(24, Some(64)), step(26, Some(16)), step(28, None)]
        );
    }
}
