//! The values that bodies on the host use, by their types.

use crate::wait_queue::contain;
use std::any::{Any, TypeId};
use std::sync::{Mutex, OnceLock, PoisonError};

type Values = List<Box<dyn Any + Send + Sync>>;

/// Services, of a runtime or of one node. It only grows: what a body was lent stays there.
#[derive(Default)]
pub(crate) struct Services {
    types: List<OfType>,
    /// Locked while one is added.
    growing: Mutex<()>,
}

/// Those of one type, in the order in which they were provided.
struct OfType {
    id: TypeId,
    values: Values,
}

impl Services {
    /// Provides `value` from now on, in the place of an earlier one of its type.
    pub(crate) fn provide<T: Any + Send + Sync>(&self, value: T) {
        let id = TypeId::of::<T>();
        let _one = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.of(id).is_none() {
            self.types.push(OfType { id, values: List::default() });
        }
        if let Some(values) = self.of(id) {
            values.push(Box::new(value));
        }
    }

    /// The service of this type that was provided last.
    pub(crate) fn get(&self, wanted: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        self.of(wanted)?.iter().last().map(|value| &**value)
    }

    fn of(&self, id: TypeId) -> Option<&Values> {
        self.types.iter().find(|of_type| of_type.id == id).map(|of_type| &of_type.values)
    }
}

/// A list that only grows, so that its values can be lent.
struct List<T> {
    first: OnceLock<Box<Item<T>>>,
}

struct Item<T> {
    value: T,
    next: OnceLock<Box<Item<T>>>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { first: OnceLock::new() }
    }
}

impl<T> List<T> {
    fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::successors(self.first.get(), |item| item.next.get()).map(|item| &item.value)
    }

    /// For one thread at a time.
    fn push(&self, value: T) {
        let mut end = &self.first;
        while let Some(item) = end.get() {
            end = &item.next;
        }
        end.get_or_init(|| Box::new(Item { value, next: OnceLock::new() }));
    }
}

/// Drops one value after the other. A destructor of the program that panics keeps no other one from
/// running, and ends no thread of the library: the panic hook has reported it by then.
impl<T> Drop for List<T> {
    fn drop(&mut self) {
        let mut rest = self.first.take();
        while let Some(item) = rest {
            let Item { value, next } = *item;
            rest = next.into_inner();
            contain(Some(|| drop(value)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<T: Any + Copy>(services: &Services) -> Option<T> {
        services.get(TypeId::of::<T>()).and_then(|value| value.downcast_ref().copied())
    }

    #[test]
    fn services_are_found_by_their_types() {
        let services = Services::default();
        assert_eq!(found::<u32>(&services), None);
        services.provide(7u32);
        services.provide("seven");
        assert_eq!((found::<u32>(&services), found::<&str>(&services)), (Some(7), Some("seven")));
        services.provide(8u32);
        assert_eq!((found::<u32>(&services), found::<u64>(&services)), (Some(8), None));
    }

    #[test]
    fn threads_provide_at_the_same_time() {
        let services = Services::default();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..1000u32).for_each(|n| services.provide(n)));
            scope.spawn(|| (0..1000u64).for_each(|n| services.provide(n)));
        });
        assert_eq!((found::<u32>(&services), found::<u64>(&services)), (Some(999), Some(999)));
    }

    #[test]
    fn services_are_dropped_one_by_one() {
        struct Panics(std::sync::Arc<std::sync::atomic::AtomicU32>);
        impl Drop for Panics {
            fn drop(&mut self) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                std::panic::resume_unwind(Box::new("asked to"));
            }
        }
        // A stack that a chain of destructors would not fit.
        let many = std::thread::Builder::new().stack_size(256 << 10).spawn(|| {
            let services = Services::default();
            (0..5000u32).for_each(|n| services.provide(n));
            let dropped = std::sync::Arc::default();
            (0..3).for_each(|_| services.provide(Panics(std::sync::Arc::clone(&dropped))));
            drop(services);
            dropped.load(std::sync::atomic::Ordering::Relaxed)
        });
        assert_eq!(many.map(|thread| thread.join().ok()).ok(), Some(Some(3)));
    }
}
