//! From a link to a node.

use super::Node;
use crate::device::Device;
use crate::keys::compare;
use crate::link::Link;
use crate::node_number::NodeNumber;
use crate::stream::QueuePairs;
use crate::{Error, ImageFile, Options};
use hamr_comm::registry::Table;
use std::sync::{Arc, Mutex};
use std::time::Instant;

impl Node {
    pub(crate) fn attach(
        name: &str,
        number: NodeNumber,
        link: Box<dyn Link>,
        image: Option<ImageFile>,
        options: Options,
        begin: Instant,
    ) -> Result<Self, Error> {
        let queues = Arc::new(QueuePairs::new(options.streams));
        let device = Device::attach(name, number, link, image, options, begin, queues.clone())?;
        let differences = compare(Table::of_this_image(), &device.handlers);
        let node = Self { device, queues, control: Mutex::new(None), differences };
        for warning in node.warnings() {
            tracing::warn!("{warning}");
        }
        Ok(node)
    }
}
