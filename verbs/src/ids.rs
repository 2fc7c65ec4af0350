//! Names of objects, which the host gives to handlers.

use hamr_comm::Migratable;

/// Names of one device and epoch: an object of another is refused.
macro_rules! ids {
    ($($(#[$doc:meta])* $id:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Migratable)]
        pub struct $id {
            pub(crate) index: u16,
            pub(crate) generation: u16,
            pub(crate) node: u16,
            pub(crate) epoch: u16,
        }

        impl $id {
            /// The index among the objects of its kind: the place of its words in the section.
            pub fn index(self) -> u16 {
                self.index
            }

            pub(crate) fn name(self) -> Name {
                let Self { index, generation, node, epoch } = self;
                Name { index, generation, node, epoch }
            }
        }

        impl From<Name> for $id {
            fn from(Name { index, generation, node, epoch }: Name) -> Self {
                Self { index, generation, node, epoch }
            }
        }
    )*};
}

ids! {
    /// A memory region.
    MrId
    /// A completion queue.
    CqId
    /// A queue pair.
    QpId
    /// A shared receive queue.
    SrqId
    /// An address handle.
    AhId
}

/// Memory at the peer of a queue pair: an address of one of its regions, and the key of that. Programs get it from each
/// other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Migratable)]
pub struct Remote {
    /// The address.
    pub addr: u64,
    /// The key.
    pub rkey: u32,
}

impl Remote {
    /// That of a request which has none.
    pub(crate) const NONE: Self = Self { addr: 0, rkey: 0 };

    /// The memory so many bytes further on.
    pub const fn at(self, bytes: u64) -> Self {
        Self { addr: self.addr.wrapping_add(bytes), ..self }
    }
}

/// What they have in common.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name {
    pub index: u16,
    pub generation: u16,
    /// The device.
    pub node: u16,
    /// The low bits of its epoch.
    pub epoch: u16,
}
