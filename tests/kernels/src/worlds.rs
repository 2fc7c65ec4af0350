//! Handlers of ranks.

use hamr_comm::world::WorldRef;
use hamr_comm::{Context, Fault, offload};

fn world<'c>(cx: &'c Context<'_>) -> Result<WorldRef<'c>, Fault> {
    world_of(cx.world())
}

pub(crate) fn world_of(world: Option<WorldRef<'_>>) -> Result<WorldRef<'_>, Fault> {
    world.ok_or_else(|| Fault::msg("this device is no rank"))
}

/// This rank, and the number of ranks.
#[offload]
pub fn place(cx: &mut Context) -> Result<(u32, u32), Fault> {
    let world = world(cx)?;
    Ok((world.me().0, world.size()))
}

/// Ends the world.
#[offload]
pub fn leave(cx: &mut Context, code: u8) -> Result<(), Fault> {
    world(cx)?.exit(code)
}

/// Fills this rank's segment with a byte and returns its length.
#[offload]
pub fn fill(cx: &mut Context, byte: u8) -> Result<u64, Fault> {
    let segment = world(cx)?.segment();
    let bytes = cx.view_mut(segment)?;
    bytes.fill(byte);
    Ok(bytes.len() as u64)
}

/// The bytes of this rank's segment that differ from one.
#[offload]
pub fn others(cx: &mut Context, byte: u8) -> Result<u64, Fault> {
    let segment = world(cx)?.segment();
    Ok(cx.view(segment)?.iter().filter(|b| **b != byte).count() as u64)
}

/// What `hamr run` calls. The arguments are a word and the rank that does what it says; the others
/// return 0, or with `!` behind the rank never.
#[offload(name = "main")]
pub fn main(cx: &mut Context, args: heapless::String<64>) -> Result<u8, Fault> {
    let me = world(cx)?.me().0;
    let mut words = args.split_whitespace();
    let (what, who) = (words.next().unwrap_or_default(), words.next().unwrap_or("0"));
    let is_mine = who.trim_end_matches('!').parse() == Ok(me);
    match what {
        "" => Ok(0),
        _ if !is_mine && !who.ends_with('!') => Ok(0),
        "code" if is_mine => Ok(7),
        "exit" if is_mine => world(cx)?.exit(9),
        "fail" if is_mine => Err(Fault::msg("as asked")),
        "panic" if is_mine => panic!("rank {me} was asked to panic"),
        "null" if is_mine => Ok(crate::crashes::read_null() as u8),
        _ => loop {
            core::hint::spin_loop();
        },
    }
}
