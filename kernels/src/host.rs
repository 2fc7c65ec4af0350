//! What a device asks of its host: pieces of a file, the time, a line of progress. The bodies are in
//! host programs; [`checksum()`] is a task of the device that calls them.

use hamr_comm::{BufferPtr, Fault, HOST, Host, Task, offload};

hamr_comm::on_host! {
    extern crate std;
    use std::boxed::Box;

    /// A service: the file that devices read.
    pub struct Input(pub std::fs::File);

    /// A service: shows that so many of so many bytes are done.
    pub struct Progress(pub Box<dyn Fn(u64, u64) + Send + Sync>);
}

/// The longest piece of a file, in bytes.
pub const PIECE: usize = 64 << 10;

/// Copies what the file of the service `Input` has from byte `at` on into a buffer, up to its length
/// and [`PIECE`]; how many bytes that were.
#[offload]
pub fn read_piece(cx: &mut Host, at: u64, to: BufferPtr<u8>) -> Result<u32, Fault> {
    let file = &cx.service::<Input>()?.0;
    let mut bytes = std::vec![0; to.len().min(PIECE)];
    let failed = |e: std::io::Error| Fault::msg(&std::format!("reading the input: {e}"));
    let len = std::os::unix::fs::FileExt::read_at(file, &mut bytes, at).map_err(failed)?;
    cx.write(bytes.get(..len).unwrap_or_default(), to)?;
    Ok(len as u32)
}

/// Microseconds since 1970.
#[offload]
pub fn clock(_cx: &mut Host) -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// Shows that `done` of `all` bytes are done, by the service `Progress`.
#[offload]
pub fn progress(cx: &mut Host, done: u64, all: u64) -> Result<(), Fault> {
    (cx.service::<Progress>()?.0)(done, all);
    Ok(())
}

/// The sum of the `len` bytes of the host's file, read piece by piece through `piece`, and the
/// microseconds that it took by the host's clock. Sends its progress.
#[offload]
pub fn checksum(task: &mut Task, piece: BufferPtr<u8>, len: u64) -> Result<(u64, u64), Fault> {
    let begin = now(task)?;
    let (mut sum, mut done) = (0u64, 0);
    while done < len {
        let got = task.sync(HOST, read_piece::with(done, piece))?;
        let read = piece.slice(0..got as usize).filter(|read| !read.is_empty());
        let read = read.ok_or_else(|| Fault::msg("the file is shorter"))?;
        sum = task.view(read)?.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)));
        done += u64::from(got);
        // What finds no room is not shown.
        let _ = task.send(HOST, progress::with(done, len));
    }
    Ok((sum, now(task)?.saturating_sub(begin)))
}

/// The host's clock.
#[inline(never)]
fn now(task: &Task) -> Result<u64, Fault> {
    Ok(task.sync(HOST, clock::with())?)
}
