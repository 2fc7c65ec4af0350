//! Why a device does not load or unload a module.

use super::MOST;
use hamr_comm_macros::Migratable;
use hamr_shared_abi::ids::Isa;

/// Why a device does not load or unload a module.
#[derive(Clone, PartialEq, Eq, Debug, Migratable)]
pub enum Refusal {
    /// The image takes no modules, or none here.
    NotHere,
    /// Its room for modules.
    NoRoom {
        /// Bytes of the module.
        wanted: u64,
        /// Bytes free in one piece.
        free: u64,
    },
    /// All numbers are taken.
    TooMany,
    /// No module has this number, or it is in another state.
    NotLoaded,
    /// The bytes are none.
    NoModule,
    /// Instruction set or kind.
    OtherMachine {
        /// The module's instruction set.
        module: u32,
        /// The image's.
        image: u32,
    },
    /// The compiler or the target ([`super::Build`]).
    OtherCompiler {
        /// The module's.
        module: u64,
        /// The image's.
        image: u64,
    },
    /// The source of this crate.
    OtherSource {
        /// The module's.
        module: u64,
        /// The image's.
        image: u64,
    },
    /// A module has inline handlers only.
    HasTasks,
    /// An image that ends behind where its bytes can wait, or begins elsewhere than memory.
    ImagePlace {
        /// Its first address.
        start: u64,
        /// That behind its last.
        end: u64,
        /// Where memory for it starts.
        from: u64,
        /// And ends.
        to: u64,
    },
    /// The processor protects the image that runs until a reset.
    Protected,
    /// The system's message.
    System {
        /// Cut to what there is room for.
        text: heapless::String<100>,
    },
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotHere => f.write_str("modules are for devices that are no rank"),
            Self::NoRoom { wanted, free } => {
                write!(
                    f,
                    "expected room for {wanted} bytes, got {free}; unload another, or raise `modules` in `image!`"
                )
            }
            Self::TooMany => write!(f, "expected at most {MOST} modules; unload another"),
            Self::NotLoaded => f.write_str("expected a loaded module, got a number that none has"),
            Self::NoModule => f.write_str("expected a module, got other bytes; build it with `hamr image`"),
            Self::OtherMachine { module, image } => {
                write!(f, "expected a module for {}, got one for {}", Isa(*image), Isa(*module))
            }
            Self::OtherCompiler { module, image } => write!(
                f,
                "expected the compiler and target of the image ({image:016x}), got others ({module:016x}); build both with one"
            ),
            Self::OtherSource { module, image } => write!(
                f,
                "expected the image's version of hamr-comm ({image:016x}), got another ({module:016x}); build both from one"
            ),
            Self::HasTasks => f.write_str("expected inline handlers only, got a task or a handler of the host"),
            Self::ImagePlace { start, end, from, to } => write!(
                f,
                "expected an image between {from:#x} and {to:#x}, with room behind it for its bytes, got one from {start:#x} to {end:#x}"
            ),
            Self::Protected => f.write_str(
                "expected a processor that can end the protection of the old image's memory (riscv64: supervisor mode), got one that protects it until a reset",
            ),
            Self::System { text } => f.write_str(text),
        }
    }
}
impl core::error::Error for Refusal {}
