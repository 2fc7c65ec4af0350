//! The handler by which a device calls another (abi §12.2): a body like those of a program, on the
//! threads that run these.
//!
//! The task's message has the handler by id and types, and its arguments with the buffers that they
//! name; they go into a message of the other device as they are, and its reply comes back likewise.

use crate::services::Services;
use crate::untyped::{Arguments, Bytes};
use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::abi::ids::NodeId;
use hamr_comm::migrate::{Decoder, Encoder, Malformed, Migratable, NamedBuffer};
use hamr_comm::registry::Table;
use hamr_comm::relay::{NAME, NEXT_NODE, NodeName, SIGNATURE, not_relayed};
use hamr_comm::{Entry, Handler, Host, Why};
use std::any::TypeId;
use std::sync::{Arc, OnceLock};

/// The devices of a runtime, which are beyond this module.
pub(crate) trait Devices: Send + Sync {
    /// The node with these services is open.
    fn add(&self, id: NodeId, services: &Arc<Services>);
    /// The services of those that are open, in the order of their numbers.
    fn open(&self) -> Vec<Arc<Services>>;
    /// The open device of the lowest number from this one on, and its name.
    fn next(&self, from: NodeId) -> Option<(NodeId, String)>;
    /// Calls the device that a request names.
    fn pass_on(&self, host: &Host<'_>, request: Request) -> Outcome;
}

/// A service of the runtime and of each of its nodes, which may outlive it.
#[derive(Clone)]
pub(crate) struct Relays(pub(crate) Arc<dyn Devices>);

/// The handlers of this program that a device can call which may call other devices.
pub(crate) fn handlers_with_relay() -> Table {
    static RELAY: Entry = Entry::of::<Relay>();
    static NEXT_NODE: Entry = Entry::of::<NextNode>();
    static TABLE: OnceLock<Table> = OnceLock::new();
    *TABLE.get_or_init(|| Table::of(Table::of_host_handlers().iter().chain([&RELAY, &NEXT_NODE]).collect()))
}

impl Relays {
    /// Those of a runtime.
    pub(crate) fn of(services: &Services) -> Option<&Self> {
        services.get(TypeId::of::<Self>())?.downcast_ref()
    }
}

struct Relay;

impl Handler for Relay {
    const NAME: &'static str = NAME;
    const SIGNATURE: u64 = SIGNATURE;
    type Kind = Host<'static>;
    type Args = Request;
    type Output = Outcome;
    fn run(host: &mut Host<'_>, request: Request) -> Outcome {
        match host.service::<Relays>() {
            Ok(relays) => relays.0.pass_on(host, request),
            Err(_) => request.no_node(),
        }
    }
}

/// Names devices for tasks.
struct NextNode;

impl Handler for NextNode {
    const NAME: &'static str = NEXT_NODE;
    type Kind = Host<'static>;
    type Args = (NodeId,);
    type Output = Option<(NodeId, NodeName)>;
    fn run(host: &mut Host<'_>, (from,): (NodeId,)) -> Self::Output {
        let (node, name) = host.service::<Relays>().ok()?.0.next(from)?;
        let mut fits = NodeName::new();
        // Until the first character that does not.
        let _ = name.chars().try_for_each(|c| fits.push(c));
        Some((node, fits))
    }
}

/// What a task asks for.
pub(crate) struct Request {
    pub(crate) node: u16,
    /// Bits of [`record_flag`](hamr_comm::abi::table::record_flag) of the handler's kind.
    pub(crate) kind: u32,
    pub(crate) id: u64,
    pub(crate) signature: u64,
    pub(crate) arguments: Arguments,
}

impl Request {
    /// No device of this number is open.
    pub(crate) fn no_node(&self) -> Outcome {
        Outcome::Fault(not_relayed(Why::NoNode, &format!("no device {} is open", self.node)))
    }
}

impl Migratable for Request {
    const SIZE: Option<usize> = None;
    const SHAPE: u64 = SIGNATURE;
    const TYPE_NAME: &'static str = NAME;
    fn encode(&self, _: &mut Encoder<'_>) {
        // Only tasks encode it.
    }
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (node, buffers, kind, _, id, signature) = <(u32, u32, u32, u32, u64, u64)>::decode(from)?;
        let node = u16::try_from(node).map_err(|_| Malformed)?;
        let buffer = |from: &mut Decoder<'_>| {
            let (low, high, bytes) = Migratable::decode(from)?;
            Ok(NamedBuffer { wire: WireBuffer::from_words([low, high]), bytes })
        };
        // Ends at the first that is not there.
        let buffers = (0..buffers).map(|_| buffer(from)).collect::<Result<_, Malformed>>()?;
        let arguments = Arguments { bytes: from.rest().to_vec(), buffers };
        Ok(Self { node, kind, id, signature, arguments })
    }
}

/// The other device's reply, or why there is none.
pub(crate) type Outcome = hamr_comm::relay::Relayed<Bytes>;
