//! What a device takes: the kind of image, and what it is compiled for.

use hamr_comm::abi::ids::Isa;
use hamr_comm::abi::image::ImageKind;

/// What an image must be to run on some device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Rust's target triple.
    pub triple: String,
    /// Hosted or bare.
    pub kind: ImageKind,
    /// Instruction set.
    pub isa: Isa,
}

impl Target {
    /// The machine this program runs on, as a process.
    pub fn hosted() -> Self {
        Self { triple: env!("HAMR_HOST_TARGET").into(), kind: ImageKind::HOSTED, isa: Isa::of_this_build() }
    }
}
