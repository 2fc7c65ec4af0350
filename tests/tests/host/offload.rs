//! The expansion of `#[offload]` and `register!`: calls, table entries, names, hashes
//! (docs/offload.md).
#![forbid(unsafe_code)]

use hamr_comm::abi::table::{hash, record_flag};
use hamr_comm::migrate::{Decoder, Encoder, NamedBuffer};
use hamr_comm::registry::Table;
use hamr_comm::testing::Heap;
use hamr_comm::{BufferPtr, Call, Context, Entry, Handler, HandlerResult, Migratable, offload, register};
use hamr_tests::handlers::{self, Point, Refusal};

// Generic handlers of another crate, registered here.
register!(handlers::fill::<u8>, handlers::echo::<[Point; 2]>);
register!(handlers::first::<Local, BufferPtr<f32>>);

#[derive(Clone, Copy, PartialEq, Debug, Migratable)]
struct Local(u8);

fn entry(name: &str) -> &'static Entry {
    let table = Table::of_this_image();
    let found = table.iter().find(|e| e.name == name);
    found.unwrap_or_else(|| panic!("no `{name}` among {:?}", table.iter().map(|e| e.name).collect::<Vec<_>>()))
}

/// Through bytes and back, as a call travels.
fn across<H: Handler>(call: &Call<H>) -> H::Args {
    let mut bytes = [0; 256];
    let mut out = Encoder::new(&mut bytes);
    call.args.encode(&mut out);
    let len = out.needed();
    assert_eq!(H::Args::SIZE.unwrap_or(len), len);
    H::Args::decode(&mut Decoder::new(&bytes[..len])).expect("decodes what was encoded")
}

#[test]
fn a_handler_is_a_plain_function_and_its_call_runs_the_same() {
    let mut heap = Heap::new(4096);
    let (x, y) = (heap.buffer(&[1.0, 2.0]), heap.buffer(&[10.0, 20.0]));
    handlers::axpy(&mut heap.context(), 3.0, x, y).expect("in the heap");
    assert_eq!(heap.read(y), [13.0, 26.0]);

    let call = handlers::axpy::with(-3.0, x, y);
    let args = across(&call);
    handlers::axpy::run(&mut heap.context(), args).expect("in the heap");
    assert_eq!(heap.read(y), [10.0, 20.0]);

    let mut named = Vec::new();
    call.args.visit_buffers(&mut |buffer: NamedBuffer| named.push(buffer.wire));
    assert_eq!(named, [x.wire(), y.wire()]);
}

#[test]
fn generic_calls_infer_their_type() {
    let mut heap = Heap::new(4096);
    let y = heap.zeroed::<f32>(3);
    let call = handlers::fill::with(1.5, y);
    handlers::fill::<f32>::run(&mut heap.context(), across(&call)).expect("in the heap");
    assert_eq!(heap.read(y), [1.5; 3]);
    assert_eq!(handlers::echo::<Local>::run(&mut heap.context(), (Local(4),)), Local(4));
}

#[test]
fn parameters_without_names_get_some() {
    let mut heap = Heap::new(64);
    let call = handlers::patterns::with(0, (1, 2), 0, 0, 3);
    assert_eq!(handlers::patterns::run(&mut heap.context(), across(&call)), 6);
}

#[test]
fn names_are_paths_with_the_types_of_instances_and_come_sorted() {
    for name in [
        "hamr_tests::handlers::axpy",
        "hamr_tests::handlers::fill<f32>",
        "hamr_tests::handlers::fill<f64>",
        "hamr_tests::handlers::fill<u8>",
        "hamr_tests::handlers::echo<[hamr_tests::handlers::Point; 2]>",
        "hamr_tests::handlers::first<u8, [u16; 2]>",
        "hamr_tests::handlers::first<hamr_tests::handlers::Point, u8>",
        "hamr_tests::handlers::first<host::offload::Local, BufferPtr<f32>>",
    ] {
        assert_eq!(entry(name).id, hash(name.as_bytes()));
    }
    let order = Table::of_this_image().iter().map(|e| e.order).collect::<Vec<_>>();
    assert!(order.is_sorted(), "{order:?}");
    let names = Table::of_this_image().iter().map(|e| e.name).collect::<Vec<_>>();
    assert!(!names.iter().any(|name| name.contains("absent")));
    assert_eq!(Table::of_this_image().check(), Ok(()));
}

#[test]
fn the_body_is_on_the_side_the_option_names() {
    let device = cfg!(feature = "device");
    assert_eq!(entry("hamr_tests::handlers::adc").has_body(), device);
    assert_eq!(entry("hamr_tests::handlers::clock").has_body(), !device);
    assert!(entry("hamr_tests::handlers::axpy").has_body());
    // Both sides can call a handler that only one of them runs.
    assert_eq!(across(&handlers::adc::with(3)), (3,));
    let absent = if device { handlers::clock::BODY } else { handlers::adc::BODY };
    assert_ne!(absent, 0);
}

#[test]
fn policies_are_flags_of_the_entry() {
    let plain = entry("hamr_tests::handlers::axpy").flags;
    assert_eq!(plain, record_flag::HAS_BODY);
    let both = entry("hamr_tests::handlers::first<u8, [u16; 2]>").flags;
    assert_eq!(both, record_flag::HAS_BODY | record_flag::TASK | record_flag::UNORDERED);
}

/// Two functions with one path: the body of a function that contains them is not part of it.
fn same_path() -> [Entry; 3] {
    #[offload]
    fn twin(_cx: &mut Context, x: u8) -> u8 {
        x
    }
    fn renamed() -> [Entry; 2] {
        #[offload(name = "host::offload::second_twin")]
        fn twin(_cx: &mut Context, x: u8) -> u8 {
            x + 1
        }
        #[offload(name = "host::offload::second_many", instances(u8))]
        fn many<T: Migratable>(_cx: &mut Context, x: T) -> T {
            x
        }
        [Entry::of::<twin>(), Entry::of::<many<u8>>()]
    }
    let [second, many] = renamed();
    [Entry::of::<twin>(), second, many]
}

#[test]
fn a_name_resolves_a_clash() {
    let names = same_path().map(|e| e.name);
    assert_eq!(names, ["host::offload::twin", "host::offload::second_twin", "host::offload::second_many<u8>"]);
    assert_eq!(Table::of_this_image().check(), Ok(()), "the three stand in the table as well");
}

#[test]
fn a_duplicate_is_named() {
    static TWICE: [Entry; 2] = [Entry::of::<handlers::axpy>(), Entry::of::<handlers::axpy>()];
    let mut entries = TWICE.iter().collect::<Vec<_>>();
    entries.push(entry("hamr_tests::handlers::adc"));
    let duplicate = Table::of(entries).check().expect_err("twice the same");
    assert_eq!(duplicate.name, "hamr_tests::handlers::axpy");
    assert!(duplicate.to_string().contains("#[offload(name = "), "{duplicate}");
}

mod original {
    use super::{Context, offload};
    /// Documented.
    #[offload]
    pub(crate) fn step(_cx: &mut Context, x: u32) -> u32 {
        x + 1
    }
}
mod reformatted {
    use super::{Context, offload};
    #[offload]
    #[rustfmt::skip]
    pub(crate) fn step(_cx: &mut Context, x: u32) -> u32 { x+1 /* a remark */ }
}
mod changed {
    use super::{Context, offload};
    #[offload]
    pub(crate) fn step(_cx: &mut Context, x: u32) -> u32 {
        x + 2
    }
}
mod retyped {
    use super::{Context, offload};
    #[offload]
    pub(crate) fn step(_cx: &mut Context, x: u64) -> u32 {
        (x + 1) as u32
    }
}

#[test]
fn the_body_hash_follows_tokens_and_the_signature_hash_types() {
    assert_eq!(original::step::BODY, reformatted::step::BODY);
    assert_ne!(original::step::BODY, changed::step::BODY);
    assert_eq!(original::step::SIGNATURE, changed::step::SIGNATURE);
    assert_ne!(original::step::SIGNATURE, retyped::step::SIGNATURE);
    assert_ne!(handlers::fill::<f32>::SIGNATURE, handlers::fill::<u32>::SIGNATURE);
    assert_ne!(original::step::ID, changed::step::ID);
    // The macro computes the same hash as the wire crate: each token, then a zero byte.
    #[offload]
    fn bare(_cx: &mut Context) {}
    assert_eq!(bare::BODY, hash(b"fn\0bare\0(\0_cx\0:\0&\0mut\0Context\0)\0{\0}\0"));
}

#[test]
fn errors_of_handlers_are_part_of_the_signature_and_decode() {
    let mut bytes = [0; 32];
    let refusal = Refusal::At(Point { x: 1.0, y: -2.0 });
    refusal.encode(&mut Encoder::new(&mut bytes));
    let back = <handlers::refuse as Handler>::Output::decode_error(&mut Decoder::new(&bytes));
    assert_eq!(back, Ok(refusal));
    #[offload]
    fn refuse(_cx: &mut Context, at: Point) -> Result<u8, u8> {
        Err(at.x as u8)
    }
    assert_ne!(refuse::SIGNATURE, handlers::refuse::SIGNATURE);
}

#[test]
fn fingerprints_do_not_depend_on_the_order_of_entries() {
    static ONE: [Entry; 2] = [Entry::of::<handlers::axpy>(), Entry::of::<handlers::adc>()];
    static OTHER: [Entry; 2] = [Entry::of::<handlers::adc>(), Entry::of::<handlers::axpy>()];
    let of = |entries: &'static [Entry]| Table::of(entries.iter().collect()).fingerprint();
    assert_eq!(of(&ONE), of(&OTHER));
    assert_ne!(of(&ONE), of(&ONE[..1]));
}

/// A crate that renames its dependency passes the new name.
mod renamed {
    use hamr_comm as other_name;
    use other_name::{Context, Migratable, offload, register};

    #[offload(crate = hamr_comm)]
    pub(crate) fn plain(_cx: &mut Context, pair: Pair<u8>) -> u8 {
        pair.0
    }
    #[offload(crate = super::renamed::other_name)]
    pub(crate) fn generic<T: Migratable>(_cx: &mut Context, x: T) -> T {
        x
    }
    #[derive(Migratable)]
    #[migratable(crate = other_name)]
    pub(crate) struct Pair<T>(pub(crate) T, pub(crate) T);

    register!(generic::<Pair<u16>>, crate = other_name);
}

#[test]
fn a_renamed_dependency_is_found() {
    let call = renamed::plain::with(renamed::Pair(5, 6));
    assert_eq!(across(&call).0.1, 6);
    let _ = entry("host::offload::renamed::generic<host::offload::renamed::Pair<u16>>");
}

/// Handlers from a `macro_rules!`, whose types arrive in invisible groups.
macro_rules! family {
    ($($name:ident: $cx:ty, $t:ty;)*) => {$(
        #[offload]
        fn $name(_cx: $cx, x: $t) -> Option<$t> {
            Some(x)
        }
    )*};
}
family! {
    of_bytes: &mut Context, [u8; 2];
    r#try: &mut Context<'_>, (u8, Local);
}

#[test]
fn handlers_come_out_of_macros_too() {
    let mut heap = Heap::new(64);
    assert_eq!(of_bytes::run(&mut heap.context(), across(&of_bytes::with([1, 2]))), Some([1, 2]));
    assert_eq!(r#try::NAME, "host::offload::try");
    assert_ne!(of_bytes::SIGNATURE, r#try::SIGNATURE);
}

/// The kind of a handler is the type of its first parameter, however that is spelled; levels of lints cover what
/// is made of the parameters.
mod spelled_otherwise {
    #![deny(warnings)]
    use hamr_comm::{Context as DeviceContext, Fault, Task, offload};

    type Cx<'c> = hamr_comm::Context<'c>;
    type Waits<'t> = Task<'t>;

    #[offload]
    pub(crate) fn renamed(_: &mut DeviceContext, values: &[u32]) -> u32 {
        values.len() as u32
    }

    #[offload]
    pub(crate) fn alias(_: &mut Cx, values: &mut [u32]) -> u32 {
        values.len() as u32
    }

    #[offload]
    pub(crate) fn task(task: &mut Waits, value: u32) -> Result<u32, Fault> {
        task.yield_now()?;
        Ok(value)
    }

    /// As in the paper.
    #[offload]
    #[allow(non_snake_case)]
    pub(crate) fn energy(_: &mut DeviceContext, T: f64, V: f64) -> f64 {
        T + V
    }

    #[offload]
    #[expect(non_snake_case, reason = "as in the paper")]
    pub(crate) fn work(_: &mut DeviceContext, F: f64, values: &[f64]) -> f64 {
        F * values.len() as f64
    }
}

#[test]
fn the_kind_of_a_handler_is_a_type() {
    let mut heap = Heap::new(4096);
    let values = heap.buffer(&[1u32, 2, 3]);
    assert_eq!(spelled_otherwise::renamed::run(&mut heap.context(), (values,)), Ok(3));
    assert_eq!(spelled_otherwise::alias::run(&mut heap.context(), (values,)), Ok(3));
    assert_eq!(
        spelled_otherwise::energy::run(&mut heap.context(), across(&spelled_otherwise::energy::with(1.0, 2.0))),
        3.0
    );
    let values = heap.buffer(&[1.0; 4]);
    assert_eq!(spelled_otherwise::work::run(&mut heap.context(), (2.0, values)), Ok(8.0));
    assert_eq!(spelled_otherwise::task::FLAGS & record_flag::TASK, record_flag::TASK);
    let _ = spelled_otherwise::renamed::after();
}

/// `()` is a type like another.
#[offload(instances(bool, (), ((u8, u8),)))]
fn nothing_too<T: Migratable>(_cx: &mut Context, x: T) -> T {
    x
}

#[test]
fn an_instance_may_be_of_the_empty_tuple() {
    for shown in ["bool", "()", "(u8, u8)"] {
        let _ = entry(&format!("host::offload::nothing_too<{shown}>"));
    }
}
