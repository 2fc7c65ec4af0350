//! Calls whose types this program does not link: their bytes come from a command line, or from a device.

use hamr_comm::Enter;
use hamr_comm::Handler;
use hamr_comm::abi::table::{hash, record_flag};
use hamr_comm::migrate::{Decoder, Encoder, Malformed, Migratable, NamedBuffer, VisitBuffer};

/// Such a handler; `TASK`: it is a task.
pub(crate) struct Untyped<const TASK: bool>;

impl<const TASK: bool> Handler for Untyped<TASK> {
    const NAME: &'static str = "the called handler";
    const FLAGS: u32 = if TASK { record_flag::TASK } else { 0 };
    type Kind = hamr_comm::Context<'static>;
    type Args = Arguments;
    type Output = Result<Bytes, Bytes>;
    fn run(_: &mut <Self::Kind as Enter>::This<'_>, _: Arguments) -> Result<Bytes, Bytes> {
        hamr_comm::handler::no_body()
    }
}

/// Encoded arguments, and the buffers that they name.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    pub(crate) bytes: Vec<u8>,
    pub(crate) buffers: Vec<NamedBuffer>,
}

impl Migratable for Arguments {
    const SIZE: Option<usize> = None;
    const SHAPE: u64 = hash(b"bytes");
    const TYPE_NAME: &'static str = "bytes";
    const HAS_BUFFERS: bool = true;
    fn encode(&self, out: &mut Encoder<'_>) {
        out.bytes(&self.bytes);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self { bytes: from.rest().to_vec(), buffers: Vec::new() })
    }
    fn visit_buffers(&self, visit: &mut impl VisitBuffer) {
        self.buffers.iter().for_each(|buffer| visit.visit(*buffer));
    }
}

/// An encoded value.
#[derive(Clone, Debug)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Migratable for Bytes {
    const SIZE: Option<usize> = None;
    const SHAPE: u64 = hash(b"bytes");
    const TYPE_NAME: &'static str = "bytes";
    fn encode(&self, out: &mut Encoder<'_>) {
        out.bytes(&self.0);
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self(from.rest().to_vec()))
    }
}
