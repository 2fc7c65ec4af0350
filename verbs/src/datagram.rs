//! Where datagrams go: address handles.

use crate::error::VerbsError;
use crate::ids::{AhId, Remote};
use crate::memory::Memory;
use crate::verbs::Verbs;
use crate::wire::Kind;
use core::marker::PhantomData;

/// An address handle that was opened: an adapter that datagrams go to. Requests that name it fail when the host has destroyed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address<'c> {
    handle: u32,
    /// For the time of the call that has opened it.
    _call: PhantomData<&'c ()>,
}

impl<'c, M: Memory> Verbs<'c, M> {
    /// Opens an address handle.
    ///
    /// # Errors
    /// [`VerbsError::Stale`], [`VerbsError::Corrupt`].
    pub fn address(&self, id: AhId) -> Result<Address<'c>, VerbsError> {
        let handle = self.open(Kind::ADDRESS_HANDLE, id.name())?.handle();
        Ok(Address { handle, _call: PhantomData })
    }
}

impl Address<'_> {
    /// What a request says of a queue pair there that has this key.
    pub(crate) const fn remote(self, qp_number: u32, qkey: u32) -> Remote {
        Remote { addr: (qkey as u64) << 32 | qp_number as u64, rkey: self.handle }
    }
}
