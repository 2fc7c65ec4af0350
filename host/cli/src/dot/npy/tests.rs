//! Headers that NumPy writes, headers that it never writes, and random bytes.

use super::*;
use proptest::prelude::*;

/// A file of version `major` with this header and this many bytes behind it.
fn file(major: u8, header: &str, data: usize) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend([major, 0]);
    match major {
        1 => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn read(bytes: &[u8]) -> Result<Header, NpyError> {
    read_header(&mut &*bytes, bytes.len() as u64).expect("memory can be read")
}

fn dict(descr: &str, fortran: &str, shape: &str) -> String {
    format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}          \n")
}

#[test]
fn every_version_and_spelling_of_a_vector_is_read() {
    for major in [1, 2, 3] {
        let f64s = Header { dtype: Dtype::F64, len: 3 };
        assert_eq!(read(&file(major, &dict("'<f8'", "False", "(3,)"), 24)), Ok(f64s));
        assert_eq!(read(&file(major, &dict("'=f8'", "False", "(3,)"), 24)), Ok(f64s));
        let f32s = Header { dtype: Dtype::F32, len: 0 };
        assert_eq!(read(&file(major, &dict("\"<f4\"", "False", "(0,)"), 0)), Ok(f32s));
    }
    // One dimension has one order; Python 2 writes its text strings with a `u`.
    for descr in ["'<f8'", "u'<f8'", "u\"<f8\""] {
        for order in ["True", "False"] {
            let f64s = Header { dtype: Dtype::F64, len: 3 };
            assert_eq!(read(&file(1, &dict(descr, order, "(3,)"), 24)), Ok(f64s), "{descr} {order}");
        }
    }
    let keys = "{u'descr': '<f8', u'fortran_order': True, u'shape': (3L,)}";
    assert_eq!(read(&file(1, keys, 24)), Ok(Header { dtype: Dtype::F64, len: 3 }));
    let compact = "{\"shape\":(2L,),\"fortran_order\":False,\"descr\":\"<f4\"}";
    assert_eq!(read(&file(1, compact, 8)), Ok(Header { dtype: Dtype::F32, len: 2 }));
}

#[test]
fn a_file_without_a_vector_is_refused_with_the_reason() {
    let vector = dict("'<f8'", "False", "(3,)");
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "zero bytes"),
        (b"PK\x03\x04 a zip".to_vec(), "begins with PK"),
        (MAGIC[..3].to_vec(), "truncated"),
        (file(4, &vector, 24), "got 4.0"),
        (file(1, &vector, 24)[..9].to_vec(), "header length"),
        (file(1, &vector, 24)[..40].to_vec(), "truncated"),
        (file(1, &vector, 23), "expected 24 bytes of elements for its shape, got 23: the file is truncated"),
        (file(1, &vector, 25), "longer than its shape"),
        (file(1, &dict("'<i8'", "False", "(3,)"), 24), "<f8 or <f4 (float64 or float32), got <i8"),
        (file(1, &dict("'|O'", "False", "(3,)"), 24), "got |O"),
        (file(1, &dict("[('x', '<f8'), ('y', '<f8')]", "False", "(3,)"), 48), "got [('x', '<f8')"),
        (file(1, &dict("'>f8'", "False", "(3,)"), 24), "big-endian >f8"),
        (file(1, &dict("'<f8'", "True", "(3, 4)"), 96), "shape (3, 4)"),
        (file(1, &dict("u '<f8'", "False", "(3,)"), 24), "a string should stand"),
        (file(1, &dict("uu'<f8'", "False", "(3,)"), 24), "a string should stand"),
        (file(1, &dict("'<f8'", "False", "(3, 4)"), 96), "shape (3, 4)"),
        (file(1, &dict("'<f8'", "False", "()"), 8), "shape ()"),
        (file(1, &dict("'<f8'", "False", "(3)"), 24), "no tuple"),
        (file(1, &dict("'<f8'", "False", "(-3,)"), 24), "`-3,)"),
        (file(1, &dict("'<f8'", "False", "(2305843009213693952,)"), 24), "more than any file"),
        (file(1, &dict("'<f8'", "False", "(99999999999999999999,)"), 24), "20 digits"),
        (file(1, "{'descr': '<f8', 'shape': (3,)}", 24), "no key 'fortran_order'"),
        (file(1, "{'descr': '<f8', 'descr': '<f8'}", 24), "'descr' twice"),
        (file(1, "{'colour': 'red'}", 24), "unknown key 'colour'"),
        (file(1, "", 24), "too early"),
        (file(1, "{'descr': '<f8", 24), "a string should stand"),
    ];
    for (bytes, words) in cases {
        let why = read(&bytes).expect_err(words).to_string();
        assert!(why.contains(words), "expected `{words}` in `{why}`");
    }
}

#[test]
fn a_header_of_four_gigabytes_is_refused_before_it_is_read() {
    let mut bytes = file(2, &dict("'<f8'", "False", "(3,)"), 24);
    bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(read(&bytes), Err(NpyError::LongHeader(u64::from(u32::MAX))));
}

/// Counts the bytes that are asked of a reader: a header's memory may be allocated only for bytes
/// that were read.
struct Counted<'b> {
    bytes: &'b [u8],
    largest: usize,
}

impl Read for Counted<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        self.largest = self.largest.max(to.len());
        self.bytes.read(to)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_an_error_and_cost_no_memory(noise in proptest::collection::vec(any::<u8>(), 0..512), major in 1u8..4) {
        let mut with_magic = MAGIC.to_vec();
        with_magic.extend([major, 0]);
        with_magic.extend(&noise);
        for bytes in [&noise, &with_magic] {
            let mut from = Counted { bytes, largest: 0 };
            let outcome = read_header(&mut from, bytes.len() as u64).expect("memory can be read");
            prop_assert!(outcome.is_err());
            // `read_to_end` asks for at least 32 bytes, and doubles what it got.
            prop_assert!(from.largest <= 2 * bytes.len().max(32), "asked for {} of {}", from.largest, bytes.len());
        }
    }

    #[test]
    fn a_header_never_panics(header in "\\PC{0,80}", data in 0usize..64) {
        let _ = read(&file(1, &header, data));
    }

    #[test]
    fn nearly_a_header_never_panics(at in 0usize..70, with in "[ -~]{0,4}", data in 0usize..64) {
        let mut header = dict("'<f8'", "False", "(3,)");
        let at = at.min(header.len());
        header.insert_str(at, &with);
        let _ = read(&file(2, &header, data));
    }
}
