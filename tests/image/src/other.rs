//! Another program than `hamr-checks`, for ranks: its `main` is a task, and handlers have the names of others with
//! other types.
#![no_std]
#![no_main]

use hamr_kernels as _;

#[cfg(not(any(target_os = "none", hamr_bare)))]
mod ranks {
    use hamr_comm::{Context, Fault, Task, offload};

    /// What `hamr run` calls: all ranks meet, and the last one has the code.
    #[offload(name = "main")]
    pub(crate) fn main(task: &mut Task, args: heapless::String<64>) -> Result<u8, Fault> {
        task.barrier()?;
        let world = task.world().ok_or_else(|| Fault::msg("this device is no rank"))?;
        let code = args.parse().map_err(|_| Fault::msg("expected a code"))?;
        Ok(if world.me().0 + 1 == world.size() { code } else { 0 })
    }

    /// The name of another program's handler, with other types.
    #[offload(name = "hamr_tests_kernels::lanes::step_bytes")]
    pub(crate) fn step_bytes(_cx: &mut Context, byte: u8) -> u8 {
        byte
    }

    /// The name and types of another program's task, inline.
    #[offload(name = "hamr_tests_kernels::lanes::waits_for_cancel")]
    pub(crate) fn waits_for_cancel(_cx: &mut Context) -> Result<u32, Fault> {
        Ok(0)
    }
}

hamr_device_fw::image!();
