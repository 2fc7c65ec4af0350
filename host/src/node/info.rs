//! What a device said of itself, for people.

use super::Node;
use crate::device::{Device, EpochInfo};
use crate::window::build_id;
use hamr_comm::abi::ids::Isa;
use hamr_comm::abi::preamble::feature;
use hamr_comm::abi::version::AbiVersion;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a device said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The spec it was opened by.
    pub name: String,
    /// Its id in this runtime.
    pub node: u16,
    /// Kind of link.
    pub link: String,
    /// Instruction set.
    pub isa: &'static str,
    /// Board.
    pub board: String,
    /// Process id of a hosted image; 0 otherwise.
    pub pid: u32,
    /// ABI version in use.
    pub abi: AbiVersion,
    /// Names of the accepted features.
    pub features: Vec<&'static str>,
    /// Bytes of memory of its board; 0 when it does not know.
    pub memory: u64,
    /// Bytes of heap.
    pub heap: u64,
    /// Bytes of the window.
    pub window: u64,
    /// Handlers in its table.
    pub handlers: u32,
    /// Build id of the image, hexadecimal; empty when it has none.
    pub build_id: String,
    /// Epoch of the device, counted from 1.
    pub epoch: u32,
    /// From its launch until it served, in this epoch.
    pub start: Duration,
    /// The image's file, when the runtime loaded it.
    pub image: Option<std::path::PathBuf>,
}

impl Node {
    /// What the device said of itself.
    pub fn info(&self) -> DeviceInfo {
        let Device { name, id, link, layout, image, .. } = &*self.device;
        let EpochInfo { record: epoch_info, start, .. } = self.device.epoch_info();
        DeviceInfo {
            name: name.clone(),
            node: id.0,
            link: link.kind().into(),
            isa: Isa(epoch_info.isa).name(),
            board: epoch_info.board_name().into(),
            pid: epoch_info.pid,
            abi: AbiVersion::from_wire(epoch_info.abi),
            features: feature_names(epoch_info.features),
            memory: epoch_info.memory,
            heap: self.device.memory.heap_len(),
            window: layout.window_len(),
            handlers: epoch_info.handlers,
            build_id: build_id(&epoch_info),
            epoch: self.device.epoch.load(Ordering::Acquire),
            start,
            image: image.as_ref().map(|i| i.path.clone()),
        }
    }
}

fn feature_names(bits: u32) -> Vec<&'static str> {
    feature::NAMES.iter().enumerate().filter(|(i, _)| bits & (1 << i) != 0).map(|(_, n)| *n).collect()
}
