//! The conformance suite over the loopback device where each side polls slots of its own.

use hamr::link::{Link, Loopback, Protocol};
use hamr::{Error, Features, Image, Node, Options, Runtime};
use hamr_comm::abi::layout::{Layout, Placement, Plan};
use hamr_comm::abi::preamble::feature;
use hamr_comm::registry::Table;
use hamr_tests::conformance::options;
use std::sync::OnceLock;

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"))
}

fn split() -> Options {
    Options { protocol: Some(Protocol::Split), ..options() }
}

fn open(options: Options) -> Node {
    let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
    let options = Options { protocol: Some(Protocol::Split), ..options };
    let node = runtime().open_with("loopback", image, options).expect("a loopback device");
    assert!(node.info().protocol == Protocol::Split && node.info().features.contains(Features::SPLIT));
    node
}

hamr_tests::conformance!(smoke: open);

/// What a program asks for is what it has, or it is told what there is.
#[test]
fn a_protocol_that_a_device_cannot_have_is_refused() {
    let image = || Image::find(hamr_tests::devices::IMAGE).expect("a name");
    let open = |spec: &str, protocol| {
        let options = Options { protocol: Some(protocol), ..options() };
        runtime().open_with(spec, image(), options).map(|node| node.info().protocol)
    };
    assert_eq!(open("loopback", Protocol::Mapped).expect("it can"), Protocol::Mapped);
    for (spec, protocol, said) in [
        (
            "loopback",
            Protocol::Message,
            "Options::protocol: expected one of mapped, split, host-driven for loopback, got message",
        ),
        ("pci:0000:00:01.0", Protocol::Message, "one of mapped, split for pci:0000:00:01.0, got message"),
        ("tcp:127.0.0.1:1", Protocol::Split, "expected message for tcp:127.0.0.1:1, got split"),
    ] {
        let error = open(spec, protocol).expect_err("it cannot").to_string();
        assert!(error.ends_with(said), "{error}");
    }
    let rank = Options { protocol: Some(Protocol::Split), ..options() };
    let options = hamr::WorldOptions { rank, ..hamr::WorldOptions::default() };
    let error = runtime().world_with(&["shm"], image(), options).map(drop).expect_err("it cannot").to_string();
    assert!(error.ends_with("expected mapped for ranks of a world, got split"), "{error}");
}

#[test]
fn an_image_without_the_feature_says_so() {
    let plan = Plan { heap: options().heap, placement: Placement::OneMemory, ..Plan::default() };
    let heap = Layout::plan(&plan).expect("allowed").heap();
    let attach = |link: Loopback| runtime().attach("older", Box::new(link), split());
    assert_eq!(
        attach(Loopback::new(heap.clone(), Table::of_this_image())).expect("it can").info().protocol,
        Protocol::Split
    );
    let link = Loopback::new(heap, Table::of_this_image()).without(feature::SPLIT);
    assert!(!link.window().is_empty());
    match attach(link) {
        Err(Error::Refused { why, .. }) => assert!(why.contains("the image has no split"), "{why}"),
        other => panic!("{:?}", other.map(|node| node.info())),
    }
}
