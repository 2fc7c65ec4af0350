//! From a link to a node.

use super::control::Control;
use super::relayed::Itself;
use super::{Common, Node};
use crate::device::service::ServiceSources;
use crate::device::{Device, Program};
use crate::link::{Capabilities, Link, Protocol};
use crate::node_number::NodeNumber;
use crate::relay::Relays;
use crate::services::Services;
use crate::stream::QueuePairs;
use crate::{Error, ImageFile, Options, processors};
use std::sync::Arc;
use std::time::Instant;

impl Node {
    pub(crate) fn attach(
        name: &str,
        number: NodeNumber,
        link: Box<dyn Link>,
        image: Option<ImageFile>,
        options: Options,
        begin: Instant,
        runtime: Arc<Services>,
    ) -> Result<Self, Error> {
        let Capabilities { doorbell, world, protocol, host_memory } = link.capabilities();
        let protocols = if world { &[Protocol::Mapped] } else { protocol.and_others() };
        Protocol::check(options.protocol, protocols, name)?;
        let options = options.within(host_memory, |heap| link.heap(heap.start, heap.end - heap.start).is_ok());
        let print_warnings = options.print_warnings;
        // One without a doorbell runs in this process's waits, and one on a bus has its own processor.
        let shares = doorbell && !world && !link.outlives_host();
        let options = if shares { processors::for_device(options) } else { options };
        let queues = Arc::new(QueuePairs::new(options.streams(), options.plan().body_streams()));
        let services = Arc::new(Services::default());
        let shared = Arc::downgrade(&services);
        let sources = ServiceSources { node: shared.clone(), runtime: Arc::downgrade(&runtime) };
        let program = Program { idle: queues.clone(), services: sources };
        let device = Device::attach(name, number, link, image, options, begin, program)?;
        let common = Arc::new(Common { control: Control::default() });
        let node = Self { device, queues, common, services: shared, owned: Some(services.clone()) };
        node.provide(node.lent());
        node.provide(Itself(node.lent()));
        if let Some(relays) = Relays::of(&runtime) {
            node.provide(relays.clone());
            relays.0.add(node.device.id, &services);
        }
        let warnings = node.warnings();
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        if print_warnings {
            crate::warning::print(&warnings);
        }
        Ok(node)
    }

    /// A handle of the same node. The device ends with the node, not with this.
    pub(crate) fn lent(&self) -> Self {
        let Self { device, queues, common, services, .. } = self;
        Self {
            device: device.clone(),
            queues: queues.clone(),
            common: common.clone(),
            services: services.clone(),
            owned: None,
        }
    }
}
