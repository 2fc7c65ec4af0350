//! What a device reported of itself.

use super::{Features, Node};
use crate::device::{Device, EpochInfo};
use crate::link::Protocol;
use crate::{BuildId, StreamInfo, TaskInfo};
use hamr_comm::abi::ids::Isa;
use hamr_comm::abi::version::AbiVersion;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a device reported of itself, and what it was opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The spec it was opened by.
    pub name: String,
    /// Its id in this runtime.
    pub node: u16,
    /// Kind of link.
    pub link: String,
    /// How calls come to it.
    pub protocol: Protocol,
    /// The other end of a connection, where there is one: the address and port of a server.
    pub remote: Option<String>,
    /// Instruction set.
    pub isa: Isa,
    /// Board.
    pub board: String,
    /// Process id of a hosted image; 0 otherwise.
    pub pid: u32,
    /// ABI version in use.
    pub abi: AbiVersion,
    /// Features of the protocol that its image accepted.
    pub features: Features,
    /// Bytes of memory of its board; 0 when the device does not know.
    pub memory: u64,
    /// Tasks that it runs at the same time; 0: its image runs none.
    pub tasks: u32,
    /// Bytes of each task's stack, which the image has for all streams.
    pub task_stack: u32,
    /// Bytes of heap.
    pub heap: u64,
    /// Bytes of the window.
    pub window: u64,
    /// Handlers in its table.
    pub handlers: u32,
    /// Build id of the image.
    pub build_id: BuildId,
    /// Epoch of the device, counted from 1.
    pub epoch: u32,
    /// From its launch until it served, in this epoch.
    pub start: Duration,
    /// The image's file, where it is known: that which the runtime loaded, or that was named for a device of others.
    pub image: Option<std::path::PathBuf>,
}

/// What a program can know of an open device ([`Node::state`]).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeState {
    /// What it reported of itself.
    pub info: DeviceInfo,
    /// Why the device is gone; `None`: it is there.
    pub lost: Option<String>,
    /// Its streams.
    pub streams: Vec<StreamInfo>,
    /// Its tasks that wait, as [`Node::tasks`] has them.
    pub tasks: Vec<TaskInfo>,
}

impl Node {
    /// What the device reported of itself, whether it is there, its streams, and its tasks that wait.
    pub fn state(&self) -> NodeState {
        let lost = (!self.is_alive()).then(|| self.device.loss_reason());
        NodeState { info: self.info(), lost, streams: self.streams(), tasks: self.tasks() }
    }

    /// The time of a message to the program at the other end of a connection and back, measured now, with both threads that
    /// carry it. `None`: there is no connection, or no answer within half a second.
    pub fn round_trip(&self) -> Option<Duration> {
        self.device.link.round_trip()
    }

    /// What the device reported of itself.
    pub fn info(&self) -> DeviceInfo {
        let Device { name, id, link, layout, .. } = &*self.device;
        let EpochInfo { record: epoch_info, start, running, .. } = self.device.epoch_info();
        let build_id = BuildId::of(&epoch_info.build_id);
        // One that was named for a device of others may be another.
        let file = running.file.as_ref().filter(|file| file.build_id == build_id);
        DeviceInfo {
            name: name.clone(),
            node: id.0,
            link: link.kind().into(),
            protocol: if layout.at_host().is_empty() { link.capabilities().protocol } else { Protocol::Split },
            remote: link.remote().map(str::to_owned),
            isa: Isa(epoch_info.isa),
            board: epoch_info.board_name().into(),
            pid: epoch_info.pid,
            abi: AbiVersion::from_wire(epoch_info.abi),
            features: Features::from_wire(epoch_info.features),
            memory: epoch_info.memory,
            tasks: epoch_info.tasks,
            task_stack: epoch_info.task_stack,
            heap: self.device.memory.heap_len(),
            window: layout.window_len(),
            handlers: epoch_info.handlers,
            build_id,
            epoch: self.device.epoch.load(Ordering::Acquire),
            start,
            image: file.map(|file| file.path.clone()),
        }
    }
}
