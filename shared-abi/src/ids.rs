//! Identifiers as newtypes, so that one is never passed for another (abi §2).

use crate::open::open_enum;

/// A node of one runtime: 0 is the host, devices count from 1. 12 bits travel in a
/// [`crate::buffer::WireBuffer`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u16);

impl NodeId {
    /// The host.
    pub const HOST: Self = Self(0);
    /// The largest id that a buffer pointer can name.
    pub const MAX: Self = Self(0xFFF);
}

impl core::fmt::Display for NodeId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A rank of a world, counted from 0 (abi §13).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RankId(pub u32);

impl core::fmt::Display for RankId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a request names: index in the device's handler table (12 bits) of a module (4 bits; 0 is
/// the image itself).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandlerKey(pub u16);

impl HandlerKey {
    /// Handlers per module.
    pub const PER_MODULE: usize = 1 << 12;
    /// A key no table reaches: marks a handler the device does not have.
    pub const MISSING: Self = Self(0xFFFF);

    /// The key of entry `index` of the image's own table.
    pub const fn of_index(index: u16) -> Self {
        Self(index & 0x0FFF)
    }

    /// The key of entry `index` of a loaded module's table.
    pub const fn of_module(module: u8, index: u16) -> Self {
        Self((module as u16) << 12 | index & 0x0FFF)
    }

    /// Index inside the module.
    pub const fn index(self) -> usize {
        (self.0 & 0x0FFF) as usize
    }

    /// The module; 0 is the image itself, from 3 on modules that were loaded; others are reserved.
    pub const fn module(self) -> u8 {
        (self.0 >> 12) as u8
    }
}

/// One epoch of a device: counted by the host from 1, never 0 (abi §8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The first epoch.
    pub const FIRST: Self = Self(1);

    /// The 8-bit tag that each published word carries: 1..=255, so that 0 means "never used".
    pub const fn tag(self) -> u8 {
        (self.0.wrapping_sub(1) % 255 + 1) as u8
    }

    /// The epoch after this one; skips 0 when the counter wraps.
    pub const fn next(self) -> Self {
        match self.0.wrapping_add(1) {
            0 => Self(1),
            next => Self(next),
        }
    }
}

open_enum! {
    /// The instruction set an image runs on.
    Isa(u32),
    /// The usual name.
    name or "unknown" {
        /// x86-64.
        X86_64 = 1 => "x86_64",
        /// 64-bit Arm.
        AARCH64 = 2 => "aarch64",
        /// 64-bit RISC-V.
        RISCV64 = 3 => "riscv64",
        /// 32-bit Arm (Cortex-M class).
        ARM32 = 4 => "arm",
    }
}

impl Isa {
    /// The instruction set this code was compiled for.
    pub const fn of_this_build() -> Self {
        if cfg!(target_arch = "x86_64") {
            Self::X86_64
        } else if cfg!(target_arch = "aarch64") {
            Self::AARCH64
        } else if cfg!(target_arch = "riscv64") {
            Self::RISCV64
        } else if cfg!(target_arch = "arm") {
            Self::ARM32
        } else {
            Self(0)
        }
    }
}

impl core::fmt::Display for Isa {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{Epoch, HandlerKey};

    #[test]
    fn epoch_tags_never_reach_zero() {
        assert_eq!(Epoch(1).tag(), 1);
        assert_eq!(Epoch(255).tag(), 255);
        assert_eq!(Epoch(256).tag(), 1);
        assert_eq!(Epoch(u32::MAX).next(), Epoch(1));
    }

    #[test]
    fn a_missing_key_is_beyond_every_index() {
        assert_eq!(HandlerKey::MISSING.module(), 15);
        assert_eq!(HandlerKey::of_index(7).index(), 7);
    }
}
