//! Chains: calls that run one behind the other in one message.

use super::{Open, Random, options};
use hamr::{CallError, SubmitError, chain};
use hamr_comm::abi::status::Status;
use hamr_comm::chain::{Link, MAX_CHAIN, MAX_LINK, Run, Stop};
use hamr_comm::migrate::{Decoder, Encoder, Malformed};
use hamr_comm::{Call, Context, Handler, Migratable};
use hamr_tests_kernels::chains::{
    add, add_to_all, behind_nothing, even, far_behind, first_of, huge, low, narrow, nothing, scaled, small_and_even,
    text, widen,
};

/// Results travel from call to call, whatever their length.
pub fn results_travel(open: Open) {
    let node = open(options());
    assert_eq!(node.sync_chain(chain(add::with(1, 2))).expect("one call"), 3);
    assert_eq!(node.sync_chain(chain(add::with(1, 2)).then(add::after(10)).then(add::after(100))).expect("runs"), 113);
    let wide: u64 = (0..20).map(|i| 5 + i).sum();
    let chained = chain(add::with(2, 3)).then(widen::after()).then(narrow::after(7)).then(add::after(1));
    assert_eq!(node.sync_chain(chained).expect("runs"), wide * 7 + 1);
    assert_eq!(node.sync_chain(chain(add::with(2, 3)).then(widen::after())).expect("a long value").values[19], 24);
    assert_eq!(&*node.sync_chain(chain(add::with(40, 2)).then(text::after())).expect("of variable size"), "42");
    // Of half a word, in front of arguments that fill no words, or a line; of no bytes.
    let chained = chain(add::with(5, 6)).then(low::after()).then(scaled::after(10, 7)).then(add::after(1));
    assert_eq!(node.sync_chain(chained).expect("runs"), 118);
    let chained = chain(low::with(1 << 32 | 9)).then(far_behind::after([1, 2, 3, 4, 5, 6]));
    assert_eq!(node.sync_chain(chained).expect("runs"), 30);
    assert_eq!(node.sync_chain(chain(add::with(5, 6)).then(low::after())).expect("runs"), 11);
    node.sync_chain(chain(add::with(1, 2)).then(nothing::after())).expect("runs");
    assert_eq!(node.sync_chain(chain(nothing::with(1)).then(behind_nothing::after(7))).expect("runs"), 7);
    // A call that does not want the result; many calls; several chains in flight.
    assert_eq!(node.sync_chain(chain(widen::with(1)).then_call(add::with(1, 1))).expect("runs"), 2);
    let many = (1..40).fold(chain(add::with(0, 0)), |so_far, i| so_far.then(add::after(i)));
    assert_eq!(node.sync_chain(many).expect("runs"), 780);
    let pending = (0..10u64).map(|i| node.offload_chain(chain(add::with(i, i)).then(add::after(1))).expect("sent"));
    let sums: Vec<u64> = pending.collect::<Vec<_>>().into_iter().map(|sum| sum.wait().expect("runs")).collect();
    assert_eq!(sums, (0..10).map(|i| 2 * i + 1).collect::<Vec<_>>());
}

/// Buffers of all calls are in use while the chain runs.
pub fn buffers(open: Open) {
    let node = open(options());
    let (all, one) = (node.buffer(&[1u64, 2, 3]).expect("room"), node.buffer(&[9u64]).expect("room"));
    let chained = chain(add::with(4, 6)).then(add_to_all::after(all.ptr())).then(first_of::after(all.ptr()));
    assert_eq!(node.sync_chain(chained).expect("runs"), 11);
    assert_eq!(all.read().expect("reads"), [11, 12, 13]);
    let gone = one.ptr();
    drop(one);
    let refused = node.sync_chain(chain(add::with(1, 1)).then(first_of::after(gone))).expect_err("it was freed");
    assert!(matches!(&refused, CallError::Submit(why) if matches!(**why, SubmitError::Buffer { .. })), "{refused}");
}

/// The first call without a value ends the chain, and says which it was and why.
pub fn ends(open: Open) {
    let node = open(options());
    let kept = node.buffer(&[0u64]).expect("room");
    let stopped = |link, status: Status, text: &str| Stop {
        link,
        status: status.0,
        text: heapless::String::try_from(text).expect("short"),
    };
    let outcome = |first: u64| {
        let chained = chain(even::with(first)).then(small_and_even::after()).then(add_to_all::after(kept.ptr()));
        node.sync_chain(chained)
    };
    assert_eq!(outcome(8).expect("even and small"), 8);
    for (first, stop) in
        [(7, stopped(0, Status::HANDLER_ERROR, "")), (102, stopped(1, Status::FAILED, "more than a hundred"))]
    {
        let error = outcome(first).expect_err("refused");
        assert!(matches!(&error, CallError::Handler(got) if *got == stop), "{error:?}");
    }
    let error = outcome(1000).expect_err("panics");
    assert!(matches!(&error, CallError::Fault(report) if report.to_string().contains("a thousand")), "{error}");
    assert_eq!(kept.read().expect("reads"), [8], "nothing behind the end ran");

    let error = node.sync_chain(chain(huge::with(1))).expect_err("no room between calls");
    assert!(matches!(&error, CallError::Handler(got) if *got == stopped(0, Status::RESULT_TOO_LONG, "")), "{error:?}");
    let long = (0..MAX_CHAIN as u64 / 9).fold(chain(add::with(0, 0)), |so_far, i| so_far.then(add::after(i)));
    let error = node.sync_chain(long).expect_err("too many");
    assert!(error.to_string().contains("a message takes 1024"), "{error}");
    let wide = hamr_tests_kernels::chains::Wide { values: [0; 20] };
    assert!(size_of_val(&wide) < MAX_LINK);
    assert_eq!(node.sync_chain(chain(narrow::with(wide, 1))).expect("the next one runs"), 0);
}

/// Any bytes in the place of links.
struct Forged(Vec<u8>);

impl Migratable for Forged {
    const SIZE: Option<usize> = None;
    const SHAPE: u64 = 0;
    const TYPE_NAME: &'static str = "forged";
    fn encode(&self, out: &mut Encoder<'_>) {
        out.bytes(&self.0);
    }
    fn decode(_: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Err(Malformed)
    }
}

struct RunForged;

impl Handler for RunForged {
    const NAME: &'static str = Run::NAME;
    const SIGNATURE: u64 = Run::SIGNATURE;
    const BODY: u64 = Run::BODY;
    const FLAGS: u32 = Run::FLAGS;
    type Kind = Context<'static>;
    type Args = Forged;
    type Output = Result<u64, Stop>;
    fn run(_: &mut Context<'_>, _: Forged) -> Result<u64, Stop> {
        unreachable!("it runs on the device")
    }
}

/// Whatever the bytes of a chain are, it ends, and the device goes on.
pub fn forged_links_end(open: Open) {
    let node = open(options());
    let handlers = node.handlers();
    let links: Vec<_> = handlers.iter().filter(|h| h.name.starts_with("hamr_tests_kernels::chains::")).collect();
    assert!(links.len() > 10, "handlers for links");
    let mut random = Random(0xC4A1);
    let mut refused = 0;
    for n in 0..600 {
        let mut bytes = Vec::new();
        for _ in 0..random.below(9) {
            let handler = links[random.below(links.len() as u64) as usize];
            let len = [0, 1, 8, 12, 16, 24, 40, 48, 160, 600, 0x7FFF][random.below(11) as usize];
            let id = handler.id as u32 ^ u32::from(random.below(8) == 0);
            let link = Link { key: handler.key, len, takes: random.below(2) == 0, id };
            bytes.extend(link.to_word().to_le_bytes());
            // Small numbers: sums do not overflow.
            let words = if len > 600 { random.below(9) } else { u64::from(len).div_ceil(8) };
            bytes.extend((0..words).flat_map(|_| random.below(100).to_le_bytes()));
        }
        let cut = if n % 4 == 0 { random.below(bytes.len() as u64 + 1) as usize } else { bytes.len() };
        bytes.truncate(cut);
        if let Err(error) = node.sync(Call::<RunForged>::new(Forged(bytes))) {
            assert!(!matches!(error, CallError::DeviceLost(..) | CallError::Deadline(_)), "{n}: {error}");
            refused += 1;
        }
    }
    assert!(refused > 300, "{refused} chains were refused");
    assert_eq!(node.sync_chain(chain(add::with(1, 2)).then(add::after(10))).expect("runs"), 13);
}
