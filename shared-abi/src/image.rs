//! What an image file declares of itself before it is loaded: an ELF note (abi §10).

use crate::ids::Isa;
use crate::open::open_enum;
use crate::version::AbiVersion;
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// How an image runs.
    ImageKind(u32),
    /// A word for messages.
    text or "unknown kind of" {
        /// A process of the host's operating system.
        HOSTED = 1 => "hosted",
        /// Without an operating system.
        BARE = 2 => "bare-metal",
        /// A module for a hosted image.
        HOSTED_MODULE = 3 => "hosted",
        /// A module for a bare-metal image.
        BARE_MODULE = 4 => "bare-metal",
    }
}

impl ImageKind {
    /// The kind this code is compiled for.
    pub const fn of_this_build() -> Self {
        if cfg!(any(target_os = "none", hamr_bare)) { Self::BARE } else { Self::HOSTED }
    }

    /// The same of a module.
    pub const fn of_this_module() -> Self {
        Self(Self::of_this_build().0 + 2)
    }

    /// Is it without an operating system?
    pub const fn is_bare(self) -> bool {
        matches!(self, Self::BARE | Self::BARE_MODULE)
    }

    /// Is it a module, and no image?
    pub const fn is_module(self) -> bool {
        matches!(self, Self::HOSTED_MODULE | Self::BARE_MODULE)
    }
}

/// Section of the note.
pub const NOTE_SECTION: &str = ".note.hamr";
/// Type of the note.
pub const NOTE_TYPE: u32 = 1;
/// Owner of the note, with its terminating zero.
pub const NOTE_NAME: [u8; 8] = *b"hamr\0\0\0\0";

/// The note as it lies in the file: ELF's header, then ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct ImageNote {
    /// Bytes of the owner's name with its zero.
    pub name_size: u32,
    /// Bytes of what follows the name.
    pub desc_size: u32,
    /// [`NOTE_TYPE`].
    pub note_type: u32,
    /// [`NOTE_NAME`].
    pub name: [u8; 8],
    /// Oldest ABI the image speaks.
    pub abi_min: u32,
    /// Newest ABI the image speaks.
    pub abi_max: u32,
    /// An [`Isa`].
    pub isa: u32,
    /// An [`ImageKind`].
    pub kind: u32,
}
const _: () = assert!(size_of::<ImageNote>() == 36 && offset_of!(ImageNote, abi_min) == 20);

impl ImageNote {
    /// The note of an image built from this source.
    pub const fn of_this_build() -> Self {
        Self {
            name_size: 5,
            desc_size: 16,
            note_type: NOTE_TYPE,
            name: NOTE_NAME,
            abi_min: AbiVersion::MIN.to_wire(),
            abi_max: AbiVersion::CURRENT.to_wire(),
            isa: Isa::of_this_build().0,
            kind: ImageKind::of_this_build().0,
        }
    }

    /// The same of a module.
    pub const fn of_this_module() -> Self {
        Self { kind: ImageKind::of_this_module().0, ..Self::of_this_build() }
    }
}
