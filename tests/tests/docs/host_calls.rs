//! `docs/tasks.md`.

use super::{Done, loopback};
use hamr_comm::{BufferPtr, Fault, HOST, Host, Task, offload};
use std::io::Write;
use std::os::unix::fs::FileExt;

hamr_comm::on_host! {
    extern crate std;
    pub struct Input(pub std::fs::File);
}

/// Copies a piece of a file into a buffer of the device.
#[offload]
pub fn read_piece(cx: &mut Host, at: u64, to: BufferPtr<u8>) -> Result<u32, Fault> {
    let mut bytes = [0; 64];
    let failed = |e| Fault::msg(&std::format!("reading the input: {e}"));
    let len = cx.service::<Input>()?.0.read_at(&mut bytes, at).map_err(failed)?;
    cx.write(&bytes[..len], to)?;
    Ok(len as u32)
}

/// On the device: waits for the result, and others run meanwhile.
#[offload]
pub fn checksum(task: &mut Task, piece: BufferPtr<u8>) -> Result<u64, Fault> {
    let read = task.sync(HOST, read_piece::with(0, piece))?;
    Ok(task.view(piece)?.iter().take(read as usize).map(|byte| u64::from(*byte)).sum())
}

#[test]
fn a_task_reads_a_file_of_the_host() -> Done {
    let mut file = tempfile::tempfile()?;
    file.write_all(&[1, 2, 3])?;
    let node = loopback();
    let piece = node.buffer(&[0u8; 64])?;
    node.provide(Input(file));
    node.sync(checksum::with(piece.ptr()))?;
    assert_eq!(node.sync(checksum::with(piece.ptr()))?, 6);
    Ok(())
}
