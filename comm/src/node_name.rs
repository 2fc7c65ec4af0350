//! The names of the devices of a runtime, which a task asks the host for (abi §12.2).

use crate::fault::Fault;
use crate::handler::{Call, Handler, no_body};
use crate::host::Host;
use crate::host_call::HOST;
use crate::relay::{NEXT_NODE, NodeName};
use crate::task::Task;
use hamr_shared_abi::ids::NodeId;
use hamr_shared_abi::table::record_flag;

/// The handler of the host library that names devices: the open one of the lowest number from the argument on.
struct NextNode;

impl Handler for NextNode {
    const NAME: &'static str = NEXT_NODE;
    const FLAGS: u32 = record_flag::HOST;
    type Kind = Host<'static>;
    type Args = (NodeId,);
    type Output = Option<(NodeId, NodeName)>;
    fn run(_: &mut Host<'_>, _: (NodeId,)) -> Self::Output {
        no_body()
    }
}

impl Task<'_> {
    /// The name by which the host's program opened a device, this one (`task.node()`) or another of its runtime;
    /// `None`: no such device is open. For devices with `Options::relay`.
    ///
    /// # Errors
    /// Those of a call to the host; the device has not that option.
    #[track_caller]
    pub fn node_name(&self, node: NodeId) -> Result<Option<NodeName>, Fault> {
        Ok(self.next_node(node)?.filter(|(found, _)| *found == node).map(|(_, name)| name))
    }

    /// The open device of the lowest number from `from` on, with its name; from `NodeId(1)` on, all of them:
    ///
    /// ```
    /// # use hamr_comm::{Fault, NodeId, Task, info};
    /// fn list(task: &mut Task) -> Result<(), Fault> {
    ///     let mut from = NodeId(1);
    ///     while let Some((node, name)) = task.next_node(from)? {
    ///         info!("device {} is {}", node.0, name.as_str());
    ///         from = NodeId(node.0 + 1);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As of [`Self::node_name`].
    #[track_caller]
    pub fn next_node(&self, from: NodeId) -> Result<Option<(NodeId, NodeName)>, Fault> {
        Ok(self.sync(HOST, Call::<NextNode>::new((from,)))?)
    }
}
