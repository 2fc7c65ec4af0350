//! The values that bodies on the host use, by their types.

use std::any::{Any, TypeId};
use std::sync::OnceLock;

/// Services, of a runtime or of one node. It only grows: what a body was lent stays there.
#[derive(Default)]
pub(crate) struct Services {
    first: Next,
}

type Next = OnceLock<Box<Service>>;

struct Service {
    value: Box<dyn Any + Send + Sync>,
    next: Next,
}

impl Services {
    /// Serves `value` from now on, in the place of an earlier one of its type.
    pub(crate) fn serve(&self, value: impl Any + Send + Sync) {
        let mut service = Box::new(Service { value: Box::new(value), next: OnceLock::new() });
        let mut end = &self.first;
        loop {
            match end.set(service) {
                Ok(()) => return,
                Err(back) => service = back,
            }
            // It is there: nothing could be set.
            let Some(there) = end.get() else { return };
            end = &there.next;
        }
    }

    /// The service of this type that was served last.
    pub(crate) fn get(&self, wanted: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        let all = std::iter::successors(self.first.get(), |service| service.next.get());
        all.map(|service| &*service.value).filter(|value| (**value).type_id() == wanted).last()
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
        services.serve(7u32);
        services.serve("seven");
        assert_eq!((found::<u32>(&services), found::<&str>(&services)), (Some(7), Some("seven")));
        services.serve(8u32);
        assert_eq!((found::<u32>(&services), found::<u64>(&services)), (Some(8), None));
    }

    #[test]
    fn threads_serve_at_the_same_time() {
        let services = Services::default();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..1000u32).for_each(|n| services.serve(n)));
            scope.spawn(|| (0..1000u64).for_each(|n| services.serve(n)));
        });
        assert_eq!((found::<u32>(&services), found::<u64>(&services)), (Some(999), Some(999)));
    }
}
