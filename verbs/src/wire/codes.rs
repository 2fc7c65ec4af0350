//! Numbers of ibverbs: states, outcomes, opcodes, rights. Open, so that unknown ones survive.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Newtypes of a word with named values.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $number:expr;)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$value_doc])* pub const $value: Self = Self($number);)*
        }
    )*};
}

codes! {
    /// The state of a queue pair (`ibv_qp_state`).
    QpState {
        /// It does not exist.
        RESET = 0;
        /// Receive requests may be posted.
        INIT = 1;
        /// It sends and receives.
        RTS = 3;
        /// Its requests are flushed.
        ERR = 6;
    }
    /// The outcome of a work request (`ibv_wc_status`).
    WcStatus {
        /// Done.
        SUCCESS = 0;
        /// The message is longer than its receive request, or than any message.
        LOC_LEN_ERR = 1;
        /// The request is malformed.
        LOC_QP_OP_ERR = 2;
        /// A key, range or right of its own is wrong.
        LOC_PROT_ERR = 4;
        /// The queue pair is in error.
        WR_FLUSH_ERR = 5;
        /// The message is longer than the peer's receive request, or an atomic access is not aligned.
        REM_INV_REQ_ERR = 9;
        /// A remote key, range or right is wrong.
        REM_ACCESS_ERR = 10;
        /// The peer's receive request is wrong.
        REM_OP_ERR = 11;
        /// The peer does not answer.
        RETRY_EXC_ERR = 12;
        /// The peer has no receive request.
        RNR_RETRY_EXC_ERR = 13;
    }
    /// The kind of a work request (`ibv_wr_opcode`).
    Opcode {
        /// Writes to the peer's memory.
        WRITE = 0;
        /// The same, with an immediate value for a receive request.
        WRITE_IMM = 1;
        /// Sends to a receive request.
        SEND = 2;
        /// The same, with an immediate value.
        SEND_IMM = 3;
        /// Reads the peer's memory.
        READ = 4;
        /// Sets eight bytes at the peer if they have a value.
        COMPARE_SWAP = 5;
        /// Adds to eight bytes at the peer.
        FETCH_ADD = 6;
    }
    /// The kind of a completed work request (`ibv_wc_opcode`).
    WcOpcode {
        /// A send.
        SEND = 0;
        /// A write.
        WRITE = 1;
        /// A read.
        READ = 2;
        /// A compare and swap.
        COMPARE_SWAP = 3;
        /// A fetch and add.
        FETCH_ADD = 4;
        /// A receive.
        RECV = 0x80;
        /// A receive that a write with an immediate value has used up.
        RECV_WITH_IMM = 0x81;
    }
    /// What may be done with a region (`ibv_access_flags`). Remote writes and atomics need [`Self::LOCAL_WRITE`], too, and
    /// do not go with [`Self::VIEW`].
    Access {
        /// Only read, by this device's own requests.
        READ = 0;
        /// Written by this device's own requests.
        LOCAL_WRITE = 1;
        /// Written by peers.
        REMOTE_WRITE = 2;
        /// Read by peers.
        REMOTE_READ = 4;
        /// Accessed by peers' atomics.
        REMOTE_ATOMIC = 8;
        /// Viewed by handlers ([`crate::Verbs::view`]): neither peers nor the host's program write it. Not one of ibverbs.
        VIEW = 0x1_0000;
    }
}

impl QpState {
    /// What the adapter shows of a queue pair of this generation in this state.
    pub const fn word(self, generation: u16) -> u32 {
        (generation as u32) << 16 | self.0
    }

    /// The state that a word shows of a queue pair. `None`: it is of another generation.
    #[inline]
    pub const fn of(word: u32, generation: u16) -> Option<Self> {
        if word >> 16 == generation as u32 { Some(Self(word & 0xF)) } else { None }
    }
}

impl Opcode {
    /// The completion of such a request. `None`: there is no such request.
    pub const fn completion(self) -> Option<WcOpcode> {
        Some(match self {
            Self::WRITE | Self::WRITE_IMM => WcOpcode::WRITE,
            Self::SEND | Self::SEND_IMM => WcOpcode::SEND,
            Self::READ => WcOpcode::READ,
            Self::COMPARE_SWAP => WcOpcode::COMPARE_SWAP,
            Self::FETCH_ADD => WcOpcode::FETCH_ADD,
            _ => return None,
        })
    }

    /// It brings an immediate value.
    pub const fn has_immediate(self) -> bool {
        matches!(self, Self::WRITE_IMM | Self::SEND_IMM)
    }

    /// It is an atomic access.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::COMPARE_SWAP | Self::FETCH_ADD)
    }
}

impl WcOpcode {
    /// The request was one to receive.
    pub const fn is_receive(self) -> bool {
        matches!(self, Self::RECV | Self::RECV_WITH_IMM)
    }

    /// The request brought bytes to its peer, and no answer but that.
    pub const fn brings(self) -> bool {
        matches!(self, Self::SEND | Self::WRITE)
    }

    /// The request was one to send.
    pub const fn is_send(self) -> bool {
        self.0 <= Self::FETCH_ADD.0
    }
}

impl Access {
    /// All of `other` are among these.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// A region may have these.
    pub const fn is_valid(self) -> bool {
        let by_peers = self.0 & (Self::REMOTE_WRITE.0 | Self::REMOTE_ATOMIC.0) != 0;
        self.0 & !Self::VIEW.0 < 16 && (!by_peers || self.has(Self::LOCAL_WRITE) && !self.has(Self::VIEW))
    }
}

impl core::ops::BitOr for Access {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
