//! The serialise hook of `#[migratable(postcard)]`: any serde type, length-prefixed.

use super::bounded::{Bounded, Budget};
use super::{Decoder, Encoder, MAX_LONG, Malformed};
use serde::{Serialize, de::DeserializeOwned};

/// What the hook can carry: serde in both directions, owning its data.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has `#[migratable(postcard)]` but not serde's traits",
    note = "add `#[derive(serde::Serialize, serde::Deserialize)]`; fields must own their data"
)]
pub trait Owned: Serialize + DeserializeOwned {}
impl<T: Serialize + DeserializeOwned> Owned for T {}

struct Sink<'e, 'a>(&'e mut Encoder<'a>);

impl postcard::ser_flavors::Flavor for Sink<'_, '_> {
    type Output = ();
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.bytes(&[byte]);
        Ok(())
    }
    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Appends `value` behind its length. A value whose `Serialize` fails becomes a message that is too
/// long, which the sender refuses.
pub fn encode<T: Serialize>(value: &T, out: &mut Encoder<'_>) {
    let mut count = Encoder::new(&mut []);
    let failed = postcard::serialize_with_flavor(value, Sink(&mut count)).is_err();
    let len = if failed { MAX_LONG + 1 } else { count.needed() };
    out.bytes(&(len as u32).to_le_bytes());
    if failed || postcard::serialize_with_flavor(value, Sink(out)).is_err() {
        out.at = out.at.saturating_add(MAX_LONG + 1);
    }
}

/// Takes a length-prefixed value off the front. Whatever the bytes are, it ends soon and needs a
/// bounded stack: [`MAX_DEPTH`](super::MAX_DEPTH), [`MAX_ELEMENTS`](super::MAX_ELEMENTS).
pub fn decode<T: DeserializeOwned>(from: &mut Decoder<'_>) -> Result<T, Malformed> {
    let len = u32::from_le_bytes(from.array()?) as usize;
    let (mut bytes, budget) = (postcard::Deserializer::from_bytes(from.slice(len)?), Budget::of(len));
    T::deserialize(Bounded::new(&mut bytes, &budget)).map_err(|_| {
        from.refused = budget.refused();
        Malformed
    })
}
