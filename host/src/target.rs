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

    /// What a module must be to be loaded beside such an image. `None`: there are none for it.
    pub(crate) fn of_module(image: ImageKind, isa: Isa) -> Option<Self> {
        if image == ImageKind::HOSTED {
            return Some(Self { kind: ImageKind::HOSTED_MODULE, ..Self::hosted() });
        }
        Some(Self { kind: ImageKind::BARE_MODULE, ..Self::bare(isa)? })
    }

    /// What an image must be to take the place of one of this kind. `None`: there are none.
    pub(crate) fn of_image(image: ImageKind, isa: Isa) -> Option<Self> {
        if image == ImageKind::HOSTED { Some(Self::hosted()) } else { Self::bare(isa) }
    }

    fn bare(isa: Isa) -> Option<Self> {
        let triple = match isa {
            Isa::X86_64 => "x86_64-unknown-linux-gnu",
            Isa::AARCH64 => "aarch64-unknown-none",
            Isa::RISCV64 => "riscv64gc-unknown-none-elf",
            _ => return None,
        };
        Some(Self { triple: triple.into(), kind: ImageKind::BARE, isa })
    }
}
