//! The numbers of devices and ranks, which travel as derived structs do (abi §11).

use super::{Decoder, Encoder, Malformed, Migratable, join_shapes};
use hamr_shared_abi::ids::{NodeId, RankId};
use hamr_shared_abi::table::hash;

macro_rules! ids {
    ($($id:ident($number:ident) $description:literal),*) => {$(
        impl Migratable for $id {
            const SIZE: Option<usize> = $number::SIZE;
            const SHAPE: u64 = join_shapes(stringify!($id), &[hash(b"0"), $number::SHAPE]);
            const TYPE_NAME: &'static str = stringify!($id);
            const DESCRIPTION: &'static str = $description;
            #[inline(always)]
            fn encode(&self, out: &mut Encoder<'_>) {
                self.0.encode(out);
            }
            #[inline(always)]
            fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
                $number::decode(from).map(Self)
            }
        }
    )*};
}
ids!(NodeId(u16) "NodeId{0: u16}", RankId(u32) "RankId{0: u32}");

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(hamr_comm_macros::Migratable)]
    struct Derived(u16);

    /// Apart from the name.
    #[test]
    fn ids_travel_as_derived_structs() {
        assert_eq!(NodeId::DESCRIPTION, Derived::DESCRIPTION.replace("Derived", "NodeId"));
        let parts = |name| join_shapes(name, &[hash(b"0"), u16::SHAPE]);
        assert_eq!((NodeId::SHAPE, Derived::SHAPE), (parts("NodeId"), parts("Derived")));
        assert_eq!(RankId::SHAPE, join_shapes("RankId", &[hash(b"0"), u32::SHAPE]));
        let mut bytes = [0; 2];
        NodeId(0x102).encode(&mut Encoder::new(&mut bytes));
        assert_eq!(NodeId::decode(&mut Decoder::new(&bytes)), Ok(NodeId(0x102)));
    }
}
