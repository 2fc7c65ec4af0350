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
