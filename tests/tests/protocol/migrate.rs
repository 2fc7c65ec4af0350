//! Values survive the wire, and no bytes make a decoder panic (docs/offload.md "Migratable").
#![forbid(unsafe_code)]

use hamr_comm::migrate::{Decoder, Encoder, MAX_DEPTH, MAX_ELEMENTS, MAX_MESSAGE, Malformed, NamedBuffer};
use hamr_comm::{Bits, BufferPtr, Migratable};
use proptest::prelude::*;
use std::fmt::Debug;

#[derive(Clone, Copy, PartialEq, Debug, Default, Migratable)]
struct Unit;

#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
struct Packed {
    a: u8,
    b: u64,
    c: [i16; 3],
    r#type: bool,
}

#[derive(Clone, PartialEq, Debug, Migratable)]
struct Generic<T, U: Copy>(T, Option<U>, (U, char));

#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
enum Flat {
    A = 70,
    B,
    C = 5,
}

#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
enum SameSize {
    Word(u32),
    Bytes([u8; 4]),
    Halves { low: u16, high: u16 },
}

#[derive(Clone, PartialEq, Debug, Migratable)]
enum Mixed<T> {
    Empty,
    One(T),
    Named { x: f64, next: Option<T> },
    Text(heapless::String<12>),
}

#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
struct Vectors<T> {
    x: BufferPtr<T>,
    more: Option<BufferPtr<u8>>,
}

#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, Migratable)]
#[migratable(postcard)]
struct Owning {
    names: Vec<String>,
    table: std::collections::BTreeMap<u16, Option<i64>>,
}

#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, Migratable)]
#[migratable(postcard)]
enum OwningGeneric<T> {
    Many(Vec<T>),
    None,
}

fn encode<T: Migratable>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; MAX_MESSAGE];
    let mut out = Encoder::new(&mut bytes);
    value.encode(&mut out);
    assert!(out.fits());
    let len = out.needed();
    bytes.truncate(len);
    // A slice that is too short is filled no further, and the length is still known.
    let mut short = Encoder::new(&mut []);
    value.encode(&mut short);
    assert_eq!(short.needed(), len);
    bytes
}

fn survives<T: Migratable + PartialEq + Debug>(value: &T) {
    let bytes = encode(value);
    assert_eq!(T::SIZE.unwrap_or(bytes.len()), bytes.len());
    let mut from = Decoder::new(&bytes);
    assert_eq!(T::decode(&mut from).as_ref(), Ok(value));
    assert!(from.is_done());
    for cut in 0..bytes.len() {
        assert_eq!(T::decode(&mut Decoder::new(&bytes[..cut])), Err(Malformed), "cut at {cut} of {}", bytes.len());
    }
}

/// Any decoded value is an ordinary one: it encodes to bytes that decode to it.
fn takes_any<T: Migratable>(bytes: &[u8]) {
    let mut from = Decoder::new(bytes);
    if let Ok(value) = T::decode(&mut from) {
        let again = encode(&value);
        let same = T::decode(&mut Decoder::new(&again)).map(|value| encode(&value));
        assert_eq!(same.as_ref(), Ok(&again));
        value.visit_buffers(&mut |_: NamedBuffer| assert!(T::HAS_BUFFERS));
    }
}

fn text() -> impl Strategy<Value = heapless::String<12>> {
    "[a-zä]{0,6}".prop_map(|s| heapless::String::try_from(s.as_str()).expect("at most twelve bytes"))
}

fn mixed() -> impl Strategy<Value = Mixed<u16>> {
    prop_oneof![
        Just(Mixed::Empty),
        any::<u16>().prop_map(Mixed::One),
        (-1e9..1e9, any::<Option<u16>>()).prop_map(|(x, next)| Mixed::Named { x, next }),
        text().prop_map(Mixed::Text),
    ]
}

proptest! {
    #[test]
    fn scalars_and_composites_survive(
        v: (u8, i16, u32, i64, u128, bool, char, f32),
        list in proptest::collection::vec(any::<u32>(), 0..8),
    ) {
        // NaN does not equal itself; `floats_keep_their_bits` compares its bits.
        prop_assume!(!v.7.is_nan());
        survives(&v);
        survives(&[[v.0; 3], [7; 3]]);
        survives(&Some((v.1, v.6)));
        survives(&Option::<u8>::None);
        survives(&Bits([v.2; 4]));
        survives(&heapless::Vec::<u32, 8>::from_slice(&list).expect("at most eight"));
        survives(&Packed { a: v.0, b: v.3 as u64, c: [v.1; 3], r#type: v.5 });
        survives(&Generic(v.4, Some(v.3), (v.3, v.6)));
        survives(&SameSize::Halves { low: v.0.into(), high: 1 });
        survives(&SameSize::Word(v.2));
    }

    #[test]
    fn floats_keep_their_bits(bits: u64) {
        let bytes = encode(&f64::from_bits(bits));
        prop_assert_eq!(f64::decode(&mut Decoder::new(&bytes)).map(f64::to_bits), Ok(bits));
    }

    #[test]
    fn enums_survive(value in mixed()) {
        survives(&value);
    }

    #[test]
    fn owning_types_survive(
        names in proptest::collection::vec(".{0,9}", 0..4),
        table in proptest::collection::btree_map(any::<u16>(), any::<Option<i64>>(), 0..4),
    ) {
        survives(&OwningGeneric::Many(table.keys().copied().collect()));
        survives(&Owning { names, table });
        survives(&OwningGeneric::<u8>::None);
    }

    #[test]
    fn any_bytes_are_a_value_or_malformed(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        takes_any::<(bool, char, Option<u8>)>(&bytes);
        takes_any::<Packed>(&bytes);
        takes_any::<Generic<u8, i32>>(&bytes);
        takes_any::<Flat>(&bytes);
        takes_any::<SameSize>(&bytes);
        takes_any::<Mixed<[u8; 2]>>(&bytes);
        takes_any::<Vectors<f64>>(&bytes);
        takes_any::<heapless::String<6>>(&bytes);
        takes_any::<heapless::Vec<Mixed<u8>, 3>>(&bytes);
        takes_any::<Owning>(&bytes);
        takes_any::<OwningGeneric<u32>>(&bytes);
        takes_any::<hamr_tests::handlers::Refusal>(&bytes);
    }
}

#[test]
fn small_tags_and_lengths_decode_too() {
    // Random bytes seldom begin with a small tag: every first byte is tried on a long zero tail.
    for tag in 0..=u8::MAX {
        let mut bytes = [0; 40];
        bytes[0] = tag;
        takes_any::<Mixed<u32>>(&bytes);
        takes_any::<heapless::Vec<Flat, 40>>(&bytes);
        takes_any::<Owning>(&bytes);
        assert_eq!(Flat::decode(&mut Decoder::new(&bytes)).is_ok(), tag < 3);
    }
}

#[test]
fn the_wire_form_is_packed_little_endian_in_order() {
    let packed = Packed { a: 1, b: 0x0203, c: [-1, 4, 5], r#type: true };
    assert_eq!(encode(&packed), [1, 3, 2, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 4, 0, 5, 0, 1]);
    assert_eq!(encode(&Flat::C), [2], "the tag counts variants, not discriminants");
    assert_eq!(encode(&SameSize::Halves { low: 1, high: 2 }), [2, 1, 0, 2, 0]);
    assert_eq!(encode(&Unit), [0u8; 0]);
}

#[test]
fn sizes_are_known_where_all_values_have_one() {
    assert_eq!((Packed::SIZE, Unit::SIZE, Flat::SIZE, SameSize::SIZE), (Some(16), Some(0), Some(1), Some(5)));
    assert_eq!((Mixed::<u8>::SIZE, Owning::SIZE, Generic::<u8, u8>::SIZE), (None, None, None));
    assert_eq!(Vectors::<f32>::SIZE, None);
}

#[test]
fn buffers_are_found_inside_values() {
    let mut heap = hamr_comm::testing::Heap::new(256);
    let (x, more) = (heap.zeroed::<u32>(2), heap.zeroed::<u8>(3));
    let mut seen = Vec::new();
    Vectors { x, more: Some(more) }.visit_buffers(&mut |named: NamedBuffer| seen.push(named.wire));
    assert_eq!(seen, [x.wire(), more.wire()]);
    let flags = [Vectors::<u8>::HAS_BUFFERS, Packed::HAS_BUFFERS, Mixed::<u8>::HAS_BUFFERS];
    assert_eq!(flags, [true, false, false]);
}

#[test]
fn shapes_distinguish_types() {
    macro_rules! shape {
        ($($definition:tt)*) => {{
            #[derive(Migratable)]
            #[allow(dead_code, reason = "only the shape is compared")]
            $($definition)*
            S::SHAPE
        }};
    }
    let shapes = [
        shape! { struct S { x: f64, y: f64 } },
        shape! { struct S { y: f64, x: f64 } },
        shape! { struct S { x: f64, y: f32 } },
        shape! { struct S { x: f64 } },
        shape! { struct S(f64); },
        shape! { struct S(f64, f64); },
        shape! { struct S; },
        shape! { enum S { A, B } },
        shape! { enum S { B, A } },
        shape! { enum S { A(u8), B } },
        shape! { enum S { A, B(u8) } },
        shape! { enum S { A { x: u8 }, B } },
        Packed::SHAPE,
        Flat::SHAPE,
    ];
    for (i, a) in shapes.iter().enumerate() {
        assert!(!shapes[..i].contains(a), "{i}");
    }
    assert_ne!(OwningGeneric::<u8>::SHAPE, OwningGeneric::<u16>::SHAPE);
    assert_eq!(shape! { struct S { x: f64, y: f64 } }, shapes[0], "the module is no part of a shape");
    assert_eq!(shape! { #[doc = "Documented."] struct S { x: f64, #[doc = "Metres."] y: f64 } }, shapes[0]);
}

/// A value of a recursive type: an expression.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, Migratable)]
#[migratable(postcard)]
enum Tree {
    Number(f64),
    Add(Box<Tree>, Box<Tree>),
    Call { name: String, arguments: Vec<Tree> },
}

#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, Migratable)]
#[migratable(postcard)]
struct Marks {
    marks: Vec<()>,
}

/// Decodes `bytes` as the content of a postcard type.
fn decode_postcard<T: Migratable>(bytes: &[u8]) -> (Result<T, Malformed>, Option<&'static str>) {
    let message = [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
    let mut from = Decoder::new(&message);
    let value = T::decode(&mut from);
    (value, from.refused())
}

/// Each byte is an `Add`: without a bound the decoder recurses once for each, beyond any stack.
#[test]
fn a_value_that_nests_too_deep_is_refused_with_the_bound() {
    let (value, why) = decode_postcard::<Tree>(&[1; MAX_MESSAGE]);
    assert_eq!(value, Err(Malformed));
    assert!(why.is_some_and(|why| why.contains(&MAX_DEPTH.to_string())), "{why:?}");
}

/// A length of 2^64 - 1 of elements without bytes: without a bound the decoder never ends.
#[test]
fn a_sequence_without_bytes_is_refused_with_the_bound() {
    let (value, why) = decode_postcard::<Marks>(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01]);
    assert_eq!(value, Err(Malformed));
    assert!(why.is_some_and(|why| why.contains(&MAX_ELEMENTS.to_string())), "{why:?}");
}

#[test]
fn values_at_the_bounds_survive() {
    let deep =
        (1..MAX_DEPTH / 2).fold(Tree::Number(1.5), |tree, _| Tree::Add(Box::new(tree), Box::new(Tree::Number(2.0))));
    survives(&deep);
    let call = Tree::Call { name: "f".into(), arguments: vec![Tree::Number(1.0); 500] };
    survives(&call);
    survives(&Marks { marks: vec![(); MAX_ELEMENTS] });
    let (value, why) = decode_postcard::<Marks>(&[0x81, 0x80, 0x01]);
    assert_eq!((value, why.is_some()), (Err(Malformed), true), "one more");
}
