//! A serde deserializer around another that bounds what bytes of a peer can make it do: how deep
//! values nest, so that the stack suffices, and how many elements sequences have, since elements
//! without bytes are not bounded by the message's length.

use super::MAX_MESSAGE;
use core::cell::Cell;
use core::fmt;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};

/// Values inside of each other, at most: structs, variants, tuples, sequences, maps, options and
/// newtypes count one each.
pub const MAX_DEPTH: u32 = 128;
/// Elements of all sequences and maps of one value, at most, or as many as it has bytes: only
/// elements without bytes meet it.
pub const MAX_ELEMENTS: usize = MAX_MESSAGE;

const TOO_DEEP: &str = "a value that nests deeper than the 128 levels allowed";
const TOO_MANY: &str = "a value with more elements than bytes, and than the 16384 allowed";
const _: () = assert!(MAX_DEPTH == 128 && MAX_ELEMENTS == 16384, "the texts above say it");

/// What is left of both, for one value.
pub(super) struct Budget {
    depth: Cell<u32>,
    elements: Cell<usize>,
    refused: Cell<Option<&'static str>>,
}

impl Budget {
    /// For a value of `len` bytes.
    pub(super) fn of(len: usize) -> Self {
        Self { depth: Cell::new(MAX_DEPTH), elements: Cell::new(len.max(MAX_ELEMENTS)), refused: Cell::new(None) }
    }

    /// Which bound was met, if one was: errors of `postcard` carry no text.
    pub(super) fn refused(&self) -> Option<&'static str> {
        self.refused.get()
    }

    fn enter<E: Error>(&self) -> Result<Inside<'_>, E> {
        let Some(left) = self.depth.get().checked_sub(1) else { return Err(self.refuse(TOO_DEEP)) };
        self.depth.set(left);
        Ok(Inside(self))
    }

    fn count<E: Error>(&self) -> Result<(), E> {
        let Some(left) = self.elements.get().checked_sub(1) else { return Err(self.refuse(TOO_MANY)) };
        self.elements.set(left);
        Ok(())
    }

    #[cold]
    fn refuse<E: Error>(&self, why: &'static str) -> E {
        self.refused.set(Some(why));
        E::custom(why)
    }
}

/// One level deeper until it is dropped.
struct Inside<'b>(&'b Budget);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.depth.set(self.0.depth.get() + 1);
    }
}

/// `T` within the budget: a deserializer, a visitor, a seed, or what gives access to parts.
pub(super) struct Bounded<'b, T> {
    inner: T,
    budget: &'b Budget,
    /// Its parts are elements, as many as the bytes say, and not fields, as many as the type has.
    counts: bool,
}

impl<'b, T> Bounded<'b, T> {
    pub(super) fn new(inner: T, budget: &'b Budget) -> Self {
        Self { inner, budget, counts: false }
    }

    fn with<U>(&self, inner: U) -> Bounded<'b, U> {
        Bounded { inner, budget: self.budget, counts: self.counts }
    }

    fn part<U>(&self, inner: U) -> Bounded<'b, U> {
        Bounded::new(inner, self.budget)
    }
}

/// Methods that pass a bounded visitor on: of leaves, and of values that have others inside.
macro_rules! forward {
    (leaves $($leaf:ident)*; nests $($nest:ident($($arg:ident: $ty:ty),*))*) => {
        $(fn $leaf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$leaf(visitor)
        })*
        $(fn $nest<V: Visitor<'de>>(self, $($arg: $ty,)* visitor: V) -> Result<V::Value, D::Error> {
            let _inside = self.budget.enter()?;
            let counts = matches!(stringify!($nest), "deserialize_seq" | "deserialize_map");
            let visitor = Bounded { inner: visitor, budget: self.budget, counts };
            self.inner.$nest($($arg,)* visitor)
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Bounded<'_, D> {
    type Error = D::Error;

    forward! {
        leaves deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8
            deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char
            deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit deserialize_identifier;
        nests deserialize_any() deserialize_ignored_any() deserialize_option() deserialize_seq() deserialize_map()
            deserialize_tuple(len: usize)
            deserialize_newtype_struct(name: &'static str)
            deserialize_tuple_struct(name: &'static str, len: usize)
            deserialize_struct(name: &'static str, fields: &'static [&'static str])
            deserialize_enum(name: &'static str, variants: &'static [&'static str])
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_unit_struct(name, visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// Of values that have others inside: the visitor sees them bounded. `postcard` visits leaves
/// through their own methods, which this never meets but through `deserialize_any`, which it does
/// not have.
impl<'de, V: Visitor<'de>> Visitor<'de> for Bounded<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }
    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.part(inner);
        self.inner.visit_some(inner)
    }
    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.part(inner);
        self.inner.visit_newtype_struct(inner)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let access = self.with(access);
        self.inner.visit_seq(access)
    }
    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let access = self.with(access);
        self.inner.visit_map(access)
    }
    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let access = self.part(access);
        self.inner.visit_enum(access)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Bounded<'_, S> {
    type Value = S::Value;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        let from = self.part(from);
        self.inner.deserialize(from)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let seed = self.part(seed);
        let element = self.inner.next_element_seed(seed)?;
        if self.counts && element.is_some() {
            self.budget.count()?;
        }
        Ok(element)
    }
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;
    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let seed = self.part(seed);
        let key = self.inner.next_key_seed(seed)?;
        if self.counts && key.is_some() {
            self.budget.count()?;
        }
        Ok(key)
    }
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.part(seed);
        self.inner.next_value_seed(seed)
    }
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, 'b, A: EnumAccess<'de>> EnumAccess<'de> for Bounded<'b, A> {
    type Error = A::Error;
    type Variant = Bounded<'b, A::Variant>;
    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let budget = self.budget;
        let (value, inner) = self.inner.variant_seed(Bounded::new(seed, budget))?;
        Ok((value, Bounded::new(inner, budget)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;
    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }
    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.part(seed);
        self.inner.newtype_variant_seed(seed)
    }
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visitor = self.part(visitor);
        self.inner.tuple_variant(len, visitor)
    }
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = self.part(visitor);
        self.inner.struct_variant(fields, visitor)
    }
}
