//! Who sends, and what a connection is at.

/// An end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The end that makes calls.
    Host,
    /// The end beside the device.
    Server,
}

/// What a connection is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Both have proved the key; HELLO and its answer.
    Opening,
    /// Granted, for messages.
    Messages,
    /// Granted, for transfers.
    Transfers,
}
