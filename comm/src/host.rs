//! Handlers whose bodies are on the host: what such a body is given as its first parameter, and how
//! one source has it in host programs and in no image.
//!
//! The values behind it are the host crate's, which this crate does not know: they come through
//! [`HostCall`].

use crate::buffer::{BufferPtr, Element};
use crate::fault::Fault;
use crate::migrate::NamedBuffer;
use core::any::{Any, TypeId, type_name};
use hamr_shared_abi::ids::NodeId;
use hamr_shared_abi::status::Status;

/// Is this program a host, where the bodies of `&mut Host` handlers are? An image has their
/// signatures only.
#[doc(hidden)]
pub const ON_HOST: bool = cfg!(not(any(hamr_bare, hamr_image)));

/// Items that exist in host programs and in no image: what bodies on the host import and call.
///
/// ```
/// hamr_comm::on_host! {
///     extern crate std;
///     use std::time::SystemTime;
/// }
/// # fn main() {}
/// ```
#[cfg(not(any(hamr_bare, hamr_image)))]
#[macro_export]
macro_rules! on_host {
    ($($item:item)*) => { $($item)* };
}

/// See the definition of host programs: in an image the items do not exist.
#[cfg(any(hamr_bare, hamr_image))]
#[macro_export]
macro_rules! on_host {
    ($($item:item)*) => {};
}

/// Calls a body on the host: `here` where it exists, else `absent`.
#[cfg(not(any(hamr_bare, hamr_image)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __in_host {
    ($here:block $absent:block) => {
        $here
    };
}

/// See the definition of host programs.
#[cfg(any(hamr_bare, hamr_image))]
#[doc(hidden)]
#[macro_export]
macro_rules! __in_host {
    ($here:block $absent:block) => {
        $absent
    };
}

/// Handed to every body on the host as its first parameter.
pub struct Host<'h> {
    call: &'h dyn HostCall,
}

/// Who called a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The device.
    pub node: NodeId,
    /// The place of the task that waits for the call; `None` when it was sent and nothing waits.
    pub place: Option<u32>,
}

/// One call, as the host crate has it.
pub trait HostCall {
    /// The service of this type, if the program provides one.
    fn service(&self, wanted: TypeId) -> Option<&(dyn Any + Send + Sync)>;
    /// Who calls.
    fn caller(&self) -> Caller;
    /// Copies the front of a buffer of the calling device out.
    ///
    /// # Errors
    /// The pointer names no buffer that exists, or fewer bytes.
    fn read(&self, from: NamedBuffer, to: &mut [u8]) -> Result<(), Fault>;
    /// Copies to the front of a buffer of the calling device.
    ///
    /// # Errors
    /// As of [`Self::read`].
    fn write(&self, from: &[u8], to: NamedBuffer) -> Result<(), Fault>;
    /// Was the call cancelled?
    fn cancelled(&self) -> bool;
    /// Microseconds that the caller gives the call; 0: no limit.
    fn deadline_us(&self) -> u32;
}

impl<'h> Host<'h> {
    /// The first parameter of one call, for the host crate and for tests of bodies.
    pub fn new(call: &'h dyn HostCall) -> Self {
        Self { call }
    }

    /// The value of this type that the program provides, `Runtime::provide` or `Node::provide`; that of
    /// the calling node comes first.
    ///
    /// # Errors
    /// A fault that names the type: the program provides none.
    pub fn service<T: Any + Send + Sync>(&self) -> Result<&'h T, Fault> {
        let service = self.call.service(TypeId::of::<T>()).and_then(|service| service.downcast_ref());
        service.ok_or_else(|| no_service(type_name::<T>()))
    }

    /// The device that calls.
    pub fn node(&self) -> NodeId {
        self.caller().node
    }

    /// Who calls.
    pub fn caller(&self) -> Caller {
        self.call.caller()
    }

    /// Copies the front of a buffer that the call names out: `to.len()` elements. The device has
    /// lent it for the call; what the device writes to it meanwhile may be half there.
    ///
    /// # Errors
    /// A pointer that names no buffer of the calling device, or fewer elements.
    pub fn read<T: Element>(&self, from: BufferPtr<T>, to: &mut [T]) -> Result<(), Fault> {
        self.call.read(NamedBuffer { wire: from.wire(), bytes: from.bytes() }, bytemuck::cast_slice_mut(to))
    }

    /// Copies to the front of a buffer that the call names.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub fn write<T: Element>(&self, from: &[T], to: BufferPtr<T>) -> Result<(), Fault> {
        self.call.write(bytemuck::cast_slice(from), NamedBuffer { wire: to.wire(), bytes: to.bytes() })
    }

    /// Was the call cancelled? As of [`crate::Context::cancelled`]: once the result was true, the
    /// outcome is `Cancelled`.
    pub fn cancelled(&self) -> bool {
        self.call.cancelled()
    }

    /// The time that the caller gives the call, in microseconds; 0 for none.
    pub fn deadline_us(&self) -> u32 {
        self.call.deadline_us()
    }
}

/// The name of the type without its path, for which there is little room.
#[cold]
fn no_service(name: &str) -> Fault {
    let path = name.split('<').next().unwrap_or_default();
    let start = path.rfind("::").map_or(0, |at| at + 2);
    let mut fault = Fault::with_text(Status::FAILED, "the host provides no ");
    fault.append(name.get(start..).unwrap_or_default());
    fault
}
