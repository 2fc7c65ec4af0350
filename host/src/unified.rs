//! Memory of this program and of devices under one type: one copy for every pair of them.

use crate::{Buffer, BufferError, Error, Node};
use hamr_comm::{BufferPtr, Element};

/// Elements to read, wherever they are.
#[derive(Clone, Copy)]
pub enum Memory<'a, T: Element> {
    /// In this program.
    Host(&'a [T]),
    /// In a device's heap.
    Device(&'a Node, BufferPtr<T>),
}

/// Elements to write, wherever they are.
pub enum MemoryMut<'a, T: Element> {
    /// In this program.
    Host(&'a mut [T]),
    /// In a device's heap.
    Device(&'a Node, BufferPtr<T>),
}

impl<T: Element> Memory<'_, T> {
    /// Elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Host(slice) => slice.len(),
            Self::Device(_, pointer) => pointer.len(),
        }
    }

    /// No elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device that has them, if one has.
    pub fn device(&self) -> Option<&Node> {
        match self {
            Self::Host(_) => None,
            Self::Device(node, _) => Some(node),
        }
    }
}

impl<T: Element> MemoryMut<'_, T> {
    /// The same, to read.
    pub fn as_memory(&self) -> Memory<'_, T> {
        match self {
            Self::Host(slice) => Memory::Host(slice),
            Self::Device(node, pointer) => Memory::Device(node, *pointer),
        }
    }
}

/// Copies all of `from` to `to`, which has as many elements; each is in this program or on any
/// device. One copy, by the calling thread, ordered as [`Node::put`], [`Node::get`] and
/// [`Node::copy_to`] are.
///
/// ```no_run
/// # fn f(one: &hamr::Node, two: &hamr::Node, xs: &[f64], ys: &mut [f64]) -> Result<(), hamr::Error> {
/// let (x, y) = (one.allocate::<f64>(xs.len())?, two.allocate::<f64>(xs.len())?);
/// hamr::copy(xs, (one, &x))?;
/// hamr::copy((one, &x), (two, &y))?;
/// hamr::copy((two, &y), ys)
/// # }
/// ```
///
/// # Errors
/// Those of the three; [`BufferError::Overrun`] when the lengths differ, of two slices of this
/// program [`Error::InvalidConfig`].
pub fn copy<'f, 't, T: Element>(from: impl Into<Memory<'f, T>>, to: impl Into<MemoryMut<'t, T>>) -> Result<(), Error> {
    let (from, to) = (from.into(), to.into());
    let lengths = (from.len(), to.as_memory().len());
    match (from, to) {
        (Memory::Host(from), MemoryMut::Host(to)) if lengths.0 == lengths.1 => to.copy_from_slice(from),
        (Memory::Host(_), MemoryMut::Host(_)) => {
            let (expected, got) = (format!("{} elements to copy to", lengths.0), lengths.1.to_string());
            return Err(Error::InvalidConfig { option: "hamr::copy", expected, got });
        }
        (Memory::Device(from, x), MemoryMut::Device(to, y)) => from.copy_to(x, to, y)?,
        (Memory::Host(from), MemoryMut::Device(node, to)) => {
            check::<T>(lengths, node)?;
            node.put(from, to)?;
        }
        (Memory::Device(node, from), MemoryMut::Host(to)) => {
            check::<T>(lengths, node)?;
            node.get(from, to)?;
        }
    }
    Ok(())
}

fn check<T>((from, to): (usize, usize), node: &Node) -> Result<(), Error> {
    let bytes = |len: usize| len as u64 * size_of::<T>() as u64;
    if from == to {
        Ok(())
    } else {
        Err(node.buffer_error(BufferError::Overrun { wanted: bytes(from), has: bytes(to) }))
    }
}

impl<'a, T: Element> From<&'a [T]> for Memory<'a, T> {
    fn from(slice: &'a [T]) -> Self {
        Self::Host(slice)
    }
}

impl<'a, T: Element> From<(&'a Node, BufferPtr<T>)> for Memory<'a, T> {
    fn from((node, pointer): (&'a Node, BufferPtr<T>)) -> Self {
        Self::Device(node, pointer)
    }
}

impl<'a, T: Element> From<(&'a Node, &Buffer<T>)> for Memory<'a, T> {
    fn from((node, buffer): (&'a Node, &Buffer<T>)) -> Self {
        Self::Device(node, buffer.ptr())
    }
}

impl<'a, T: Element> From<&'a mut [T]> for MemoryMut<'a, T> {
    fn from(slice: &'a mut [T]) -> Self {
        Self::Host(slice)
    }
}

impl<'a, T: Element> From<(&'a Node, BufferPtr<T>)> for MemoryMut<'a, T> {
    fn from((node, pointer): (&'a Node, BufferPtr<T>)) -> Self {
        Self::Device(node, pointer)
    }
}

impl<'a, T: Element> From<(&'a Node, &Buffer<T>)> for MemoryMut<'a, T> {
    fn from((node, buffer): (&'a Node, &Buffer<T>)) -> Self {
        Self::Device(node, buffer.ptr())
    }
}
