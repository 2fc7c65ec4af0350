//! Calls of one device to another, which the host passes on.

use super::Node;
use crate::relay::{Devices, Outcome, Request};
use crate::services::Services;
use crate::stream::KnownKey;
use crate::untyped::{Bytes, Untyped};
use crate::{CallError, CallOptions, FaultReport, HandlerInfo, SubmitError};
use hamr_comm::abi::ids::NodeId;
use hamr_comm::abi::status::Status;
use hamr_comm::abi::table::record_flag;
use hamr_comm::relay::not_relayed;
use hamr_comm::{Call, Fault, Host, Why};
use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// The devices of a runtime. A node that was dropped is not found.
#[derive(Default)]
pub(crate) struct Nodes(Mutex<BTreeMap<u16, Weak<Services>>>);

impl Nodes {
    fn find(&self, id: u16) -> Option<Arc<Services>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id)?.upgrade()
    }
}

impl Devices for Nodes {
    fn add(&self, id: NodeId, services: &Arc<Services>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.0, Arc::downgrade(services));
    }

    fn open(&self) -> Vec<Arc<Services>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().filter_map(Weak::upgrade).collect()
    }

    fn next(&self, from: NodeId) -> Option<(NodeId, String)> {
        let nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open: Vec<_> = nodes.range(from.0..).filter_map(|(_, services)| services.upgrade()).collect();
        // What is dropped with the last of its users may look for devices.
        drop(nodes);
        let node = open.iter().find_map(|services| Node::of_services(services))?;
        Some((node.device().id, node.device().name.clone()))
    }

    fn pass_on(&self, host: &Host<'_>, request: Request) -> Outcome {
        let services = self.find(request.node);
        let Some(node) = services.as_deref().and_then(Node::of_services) else { return request.no_node() };
        let name = &node.device().name;
        let refused = |why, what: &str| Outcome::Fault(not_relayed(why, &format!("on {name}: {what}")));
        let kinds = record_flag::TASK | record_flag::HOST;
        let running = node.device().running();
        let Some(handler) = running.handlers.iter().find(|known| known.id == request.id) else {
            return refused(Why::NotThere, "no such handler");
        };
        if handler.signature != request.signature || handler.flags & kinds != request.kind & kinds {
            return refused(Why::OtherTypes, "the handler has other types");
        }
        if !handler.has_body() {
            return refused(Why::NotThere, "the handler has no body");
        }
        let has_time = host.deadline_us() != 0;
        let options = options(handler, running.number, host.deadline_us());
        let outcome = match handler.flags & record_flag::TASK != 0 {
            true => node.sync_with(Call::<Untyped<true>>::new(request.arguments), options),
            false => node.sync_with(Call::<Untyped<false>>::new(request.arguments), options),
        };
        outcome.map_or_else(|error| ended(error, name, has_time), Outcome::Value)
    }
}

/// The node among its own services. Of a type that programs do not have: they may serve a [`Node`].
pub(super) struct Itself(pub(super) Node);

impl Node {
    /// The node whose services these are.
    pub(crate) fn of_services(services: &Services) -> Option<&Self> {
        services.get(TypeId::of::<Itself>())?.downcast_ref::<Itself>().map(|Itself(node)| node)
    }
}

fn options(handler: &HandlerInfo, image: u32, deadline_us: u32) -> CallOptions {
    CallOptions {
        deadline: (deadline_us != 0).then(|| Duration::from_micros(deadline_us.into())),
        unordered: handler.flags & record_flag::UNORDERED != 0,
        key: Some(KnownKey::of_image(image, handler.key)),
        ..CallOptions::default()
    }
}

/// Why the call has no value; `device` is where it was made. Did the caller give it a time?
fn ended(error: CallError<Bytes>, device: &str, has_time: bool) -> Outcome {
    let on = |what: &dyn Display| format!("on {device}: {what}");
    let fault = |status, what: &dyn Display| Outcome::Fault(Fault::with_text(status, &on(what)));
    let lost = |why: &str| Outcome::Fault(not_relayed(Why::LostNode, &on(&why)));
    match error {
        CallError::Handler(bytes) => Outcome::Error(bytes),
        CallError::Fault(report) if report.status.has_trace() => {
            Outcome::Ended { status: report.status, text: on(&report.text), trace: report.trace }
        }
        CallError::Fault(report) if report.status == Status::REMOTE => Outcome::Fault(Fault {
            numbers: report.numbers,
            ..Fault::with_text(report.status, &further_on(&report, on))
        }),
        CallError::Fault(report) => {
            let text = if report.text.is_empty() { report.status.text() } else { &report.text };
            Outcome::Fault(Fault { numbers: report.numbers, ..Fault::with_text(report.status, &on(&text)) })
        }
        CallError::ResultTooLong { needed, .. } => Outcome::TooLong(needed),
        CallError::Deadline(_) if has_time => Outcome::Deadline,
        CallError::Deadline(_) => fault(Status::DEADLINE, &"the deadline passed"),
        CallError::Cancelled(_) => fault(Status::CANCELLED, &"cancelled"),
        CallError::PeerReset(_) => lost("the device was restarted"),
        CallError::DeviceLost(_, why) => lost(&why),
        CallError::Corrupt(_, why) => fault(Status::BAD_REQUEST, &why),
        CallError::Submit(error) => match *error {
            SubmitError::QueueFull { .. } => Outcome::Full,
            SubmitError::Deadline { .. } if has_time => Outcome::Deadline,
            SubmitError::DeviceLost { why, .. } => lost(&why),
            SubmitError::Buffer { why, .. } => fault(Status::BAD_BUFFER, &why),
            SubmitError::NoTasks { .. } | SubmitError::NoTickets { .. } => {
                fault(Status::NO_TASKS, &Status::NO_TASKS.text())
            }
            other => fault(Status::FAILED, &other),
        },
    }
}

/// What became of a call that the other device made in turn. What a relayed one says names the last
/// device, and why; that stays, however long the chain is.
fn further_on(report: &FaultReport, on: impl Fn(&dyn Display) -> String) -> String {
    match (report.text.split_once(": "), Why::of(report.status, report.numbers)) {
        (Some((_handler, said)), _) => said.into(),
        (None, Some(why)) => on(&why),
        (None, None) => on(&report.status.text()),
    }
}
