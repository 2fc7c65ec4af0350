//! Variants of the image `hamr-checks`. A byte of its file says which one it is, so a test makes a variant of a copy of
//! the file, without a build (`hamr_tests::devices::variant`).

/// What the byte stands behind, once in the file.
pub const MARK: [u8; 23] = *b"the variant of an image";

/// It begins a new epoch after each fault, and no call may take longer than 200 ms.
pub const RESETS: u8 = 1;
/// It has no places for tasks: hosted only, since on bare metal they are memory of the build.
pub const NO_TASKS: u8 = 2;
/// On bare metal, its board fails before it has found the window.
pub const FAILS_EARLY: u8 = 3;
/// On bare metal, its board fails after it has found the window, and before a host is served.
pub const FAILS_LATE: u8 = 4;
