//! What a device asks of its streams' side.

use super::QueuePairs;
use super::local::in_body;
use crate::device::{Device, IdleQueues};

impl IdleQueues for QueuePairs {
    fn poll(&self, device: &Device) {
        self.poll(device);
    }

    fn in_body(&self, body: &mut dyn FnMut()) {
        in_body(body);
    }
}
