//! What an image file says of itself before anybody loads it: an ELF note (abi §10).

use crate::ids::Isa;
use crate::version::AbiVersion;

/// How an image runs. Open: unknown values survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageKind(pub u32);

impl ImageKind {
    /// A process of the host's operating system.
    pub const HOSTED: Self = Self(1);
    /// Without an operating system.
    pub const BARE: Self = Self(2);

    /// The kind this code is compiled for.
    pub const fn of_this_build() -> Self {
        if cfg!(any(target_os = "none", hamr_bare)) { Self::BARE } else { Self::HOSTED }
    }

    /// A word for messages.
    pub const fn text(self) -> &'static str {
        match self {
            Self::HOSTED => "hosted",
            Self::BARE => "bare-metal",
            _ => "unknown kind of",
        }
    }
}

/// Section of the note.
pub const NOTE_SECTION: &str = ".note.hamr";
/// Type of the note.
pub const NOTE_TYPE: u32 = 1;
/// Owner of the note, with its terminating zero.
pub const NOTE_NAME: [u8; 8] = *b"hamr\0\0\0\0";

/// The note as it lies in the file: ELF's header, then ours.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::KnownLayout,
    zerocopy::Immutable,
)]
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
const _: () = assert!(size_of::<ImageNote>() == 36 && core::mem::offset_of!(ImageNote, abi_min) == 20);

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
}
