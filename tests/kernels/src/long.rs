//! A value of any length, without an allocator.

use hamr_comm::abi::table::hash;
use hamr_comm::migrate::{Decoder, Encoder, Malformed};
use hamr_comm::{Context, Fault, Migratable, Task, offload};

/// So many bytes on the wire, behind their number, each checked when it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ramp(pub u32);

impl Ramp {
    fn byte(self, at: u32) -> u8 {
        (at ^ at >> 8 ^ at >> 16).wrapping_add(self.0) as u8
    }
}

impl Migratable for Ramp {
    const SIZE: Option<usize> = None;
    const SHAPE: u64 = hash(b"ramp");
    const TYPE_NAME: &'static str = "hamr_tests_kernels::long::Ramp";

    fn encode(&self, out: &mut Encoder<'_>) {
        self.0.encode(out);
        (0..self.0).for_each(|at| out.bytes(&[self.byte(at)]));
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let ramp = Self(u32::decode(from)?);
        let bytes = from.slice(ramp.0 as usize)?;
        let is_right = (0..).zip(bytes).all(|(at, byte)| ramp.byte(at) == *byte);
        if is_right { Ok(ramp) } else { Err(Malformed) }
    }
}

/// Its own length behind both ends of the way.
#[offload]
pub fn ramp_length(_: &mut Context, ramp: Ramp) -> u32 {
    ramp.0
}

/// Back what came, behind a wait in which others may run.
#[offload]
pub fn ramp_later(task: &mut Task, ramp: Ramp) -> Result<Ramp, Fault> {
    task.yield_now()?;
    Ok(ramp)
}

/// A result of that length.
#[offload]
pub fn ramp_of(_: &mut Context, length: u32) -> Ramp {
    Ramp(length)
}
