//! A machine that is used through its window alone.

use super::spec;
use crate::conformance::poll_interval;
use crate::devices;
use hamr::link::{Link, Peer};
use hamr::qemu::{Machine, QemuLauncher};
use hamr::{HandlerInfo, ImageFile, LaunchRequest, Launcher};
use hamr_comm::Handler;
use hamr_comm::abi::ids::{Epoch, HandlerKey, NodeId};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::{feature, word};
use hamr_comm::abi::slot::{RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{Queue, Shared, Window};
use hamr_comm::am::{Requester, SlotAccess, Slots};
use hamr_comm::handshake::{HostHandshake, Offer, OfferState};
use std::time::{Duration, Instant};

/// A machine with its image and without the host library, as a foreign host would use it.
pub(super) struct Rig {
    pub(super) link: Box<dyn Link>,
    pub(super) offer: Offer,
    /// The image's own table: a test program has other handlers as well.
    pub(super) handlers: Vec<HandlerInfo>,
}

impl Rig {
    pub(super) fn start(machine: &Machine) -> Self {
        let target = devices::runtime().target(&spec(machine)).expect("known").expect("takes an image");
        Self::start_with(machine, &devices::image(&spec(machine)).resolve(&target).expect("an image"))
    }

    pub(super) fn start_with(machine: &Machine, image: &ImageFile) -> Self {
        let plan = Plan { heap: 1 << 20, ..Plan::default() };
        let layout = Layout::plan(&plan).expect("allowed");
        let request = LaunchRequest::new("garbage", layout.heap(), devices::START_TIMEOUT);
        let request = LaunchRequest { image: Some(image), ..request };
        let link = QemuLauncher::machine(*machine).launch(&request).expect("starts");
        let features = feature::TICKETS | feature::DEADLINES;
        Self {
            link,
            handlers: image.handlers().expect("a table"),
            offer: Offer { features, ..Offer::new(plan, NodeId(1)) },
        }
    }

    pub(super) fn window(&self) -> &Window<Shared> {
        self.link.window()
    }

    pub(super) fn say(&self, off: u64, value: u32) {
        self.window().word(off).expect("in the preamble").publish(value);
    }

    /// Waits until the machine has done something, at most a minute.
    pub(super) fn wait<T>(&self, mut what: impl FnMut() -> Option<T>) -> Option<T> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(60) {
            if let Some(found) = what() {
                return Some(found);
            }
            assert_eq!(self.link.peer(), Peer::Alive);
            poll_interval(begin);
        }
        None
    }

    /// A complete handshake.
    pub(super) fn serve(&self, epoch: Epoch) -> (Layout, Requester<Queue<Shared>>) {
        let (hand, layout) = HostHandshake::offer(self.window(), &self.offer, epoch).expect("long enough");
        let serving = self.wait(|| match hand.step(self.window()) {
            OfferState::Accepted(_) => {
                hand.ready(self.window());
                None
            }
            OfferState::Serving => Some(()),
            OfferState::Waiting => None,
            other => panic!("{other:?}"),
        });
        serving.expect("the image serves");
        self.say(word::OPEN_QUEUES, layout.queues());
        let descriptor = layout.queue(self.window(), 1).expect("own descriptor");
        (layout, Requester::new(self.window().queue(&descriptor).expect("own queue"), epoch))
    }

    pub(super) fn expect_ping(&self, mut stream: Requester<Queue<Shared>>) {
        let ping = self.handlers.iter().find(|h| h.name == hamr_comm::builtin::ping::NAME).expect("built in").key;
        stream.submit_hot(ReqHdr::inline(HandlerKey::of_index(ping), 8), &[0x1234_5678_9ABC_DEF0]);
        let answer: RepHdr = self.wait(|| stream.hot_reply()).expect("a reply to a good request");
        assert_eq!((answer.status(), answer.len()), (Status::OK, 8));
        let mut words = [0];
        stream.slots().hot().read_reply(&mut words);
        assert_eq!(words, [0x1234_5678_9ABC_DEF0]);
    }
}
