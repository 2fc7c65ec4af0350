//! What the runtime needs of the hardware around it.

use hamr_comm::abi::window::Window;

/// A board. Bare-metal boards live in `board/<name>`, users' own anywhere; the hosted process is one too.
pub trait Board {
    /// What keeps the window mapped; `()` where nothing unmaps it.
    type Keep: Clone;

    /// Name shown to hosts, at most 24 bytes.
    fn name(&self) -> &'static str;
    /// Bytes of the board's memory; 0 unknown.
    fn memory(&self) -> u64 {
        0
    }
    /// Process id of a hosted image; 0 otherwise.
    fn pid(&self) -> u32 {
        0
    }
    /// The image's build id; zero when it has none.
    fn build_id(&self) -> [u8; 20] {
        [0; 20]
    }
    /// The mapped window; asked for once.
    fn window(&mut self) -> Option<Window<Self::Keep>>;
    /// Rings the host.
    fn ring(&mut self) {}
    /// Nothing was there for `rounds` rounds in a row: spin, or sleep a little. Returning early is always right.
    fn idle(&mut self, rounds: u32);
}
