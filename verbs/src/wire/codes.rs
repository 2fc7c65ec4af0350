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
        /// A key or range of its own is wrong.
        LOC_PROT_ERR = 4;
        /// The queue pair is in error.
        WR_FLUSH_ERR = 5;
        /// The message is longer than the peer's receive request.
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
    /// The kind of a work request (`ibv_wr_opcode`), or of a completion (`ibv_wc_opcode`).
    Opcode {
        /// A completed send.
        WC_SEND = 0;
        /// To send.
        SEND = 2;
        /// A completed receive.
        WC_RECV = 0x80;
    }
    /// What may be done with a region (`ibv_access_flags`).
    Access {
        /// Only read, by this device's sends.
        READ = 0;
        /// Written by this device's receives.
        LOCAL_WRITE = 1;
    }
}
