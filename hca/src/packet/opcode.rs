//! Opcodes of reliable connections (RC) and datagrams (UD).

/// The parts of an opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opcode {
    /// What is done.
    pub operation: Operation,
    /// It begins a message, or an answer.
    pub is_first: bool,
    /// It ends one.
    pub is_last: bool,
    /// It carries an immediate value.
    pub has_immediate: bool,
    /// It carries a key that the peer gives up.
    pub has_invalidate: bool,
    /// It is of a datagram.
    pub is_datagram: bool,
}

/// What a packet does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Brings a part of a message for a receive request.
    Send,
    /// Brings a part of a message for an address.
    Write,
    /// Asks for memory.
    ReadRequest,
    /// Brings a part of it.
    ReadResponse,
    /// Says how far requests have come.
    Acknowledge,
    /// Brings what an atomic found.
    AtomicAcknowledge,
    /// An atomic.
    CompareSwap,
    /// An atomic.
    FetchAdd,
}

/// The type of a datagram's opcodes.
const UD: u8 = 0x60;

const fn row(operation: Operation, is_first: bool, is_last: bool) -> Opcode {
    Opcode { operation, is_first, is_last, has_immediate: false, has_invalidate: false, is_datagram: false }
}
const fn immediate(row: Opcode) -> Opcode {
    Opcode { has_immediate: true, ..row }
}
const fn invalidate(row: Opcode) -> Opcode {
    Opcode { has_invalidate: true, ..row }
}

/// Those of a reliable connection, in the order of their numbers. 21 is not used.
const ROWS: [Option<Opcode>; 24] = {
    use Operation::{Acknowledge, AtomicAcknowledge, CompareSwap, FetchAdd, ReadRequest, ReadResponse, Send, Write};
    [
        Some(row(Send, true, false)),
        Some(row(Send, false, false)),
        Some(row(Send, false, true)),
        Some(immediate(row(Send, false, true))),
        Some(row(Send, true, true)),
        Some(immediate(row(Send, true, true))),
        Some(row(Write, true, false)),
        Some(row(Write, false, false)),
        Some(row(Write, false, true)),
        Some(immediate(row(Write, false, true))),
        Some(row(Write, true, true)),
        Some(immediate(row(Write, true, true))),
        Some(row(ReadRequest, true, true)),
        Some(row(ReadResponse, true, false)),
        Some(row(ReadResponse, false, false)),
        Some(row(ReadResponse, false, true)),
        Some(row(ReadResponse, true, true)),
        Some(row(Acknowledge, true, true)),
        Some(row(AtomicAcknowledge, true, true)),
        Some(row(CompareSwap, true, true)),
        Some(row(FetchAdd, true, true)),
        None,
        Some(invalidate(row(Send, false, true))),
        Some(invalidate(row(Send, true, true))),
    ]
};

impl Opcode {
    /// A packet of a reliable connection.
    pub const fn new(operation: Operation, is_first: bool, is_last: bool) -> Self {
        row(operation, is_first, is_last)
    }

    /// The opcode of a number. `None`: it is of another type, or there is none.
    pub fn parse(number: u8) -> Option<Self> {
        let is_datagram = number & UD == UD;
        let opcode = (*ROWS.get(usize::from(if is_datagram { number ^ UD } else { number }))?)?;
        // A datagram is a message of one packet.
        let is_one = opcode.operation == Operation::Send && opcode.is_first && opcode.is_last && !opcode.has_invalidate;
        (!is_datagram || is_one).then_some(Self { is_datagram, ..opcode })
    }

    /// Its number. `None`: there is no such.
    pub fn number(&self) -> Option<u8> {
        let number = ROWS.iter().position(|row| *row == Some(Self { is_datagram: false, ..*self }))? as u8;
        Some(if self.is_datagram { number | UD } else { number })
    }

    /// It asks for something: it comes from a requester.
    pub const fn is_request(&self) -> bool {
        use Operation::{Acknowledge, AtomicAcknowledge, ReadResponse};
        !matches!(self.operation, ReadResponse | Acknowledge | AtomicAcknowledge)
    }

    /// It may have a payload.
    pub const fn has_payload(&self) -> bool {
        matches!(self.operation, Operation::Send | Operation::Write | Operation::ReadResponse)
    }

    /// It carries an address at the peer.
    pub(super) const fn has_reth(&self) -> bool {
        matches!((self.operation, self.is_first), (Operation::Write, true) | (Operation::ReadRequest, _))
    }

    /// It carries an acknowledgement.
    pub(super) const fn has_aeth(&self) -> bool {
        use Operation::{Acknowledge, AtomicAcknowledge, ReadResponse};
        match self.operation {
            ReadResponse => self.is_first || self.is_last,
            Acknowledge | AtomicAcknowledge => true,
            _ => false,
        }
    }

    /// It is an atomic.
    pub const fn is_atomic(&self) -> bool {
        matches!(self.operation, Operation::CompareSwap | Operation::FetchAdd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_of_one_opcode() {
        let known: Vec<u8> = (0..=255).filter(|number| Opcode::parse(*number).is_some()).collect();
        let numbers: Vec<u8> = known.iter().filter_map(|number| Opcode::parse(*number)?.number()).collect();
        assert_eq!(numbers, known);
        let expected: Vec<u8> = (0..=20).chain([22, 23, 0x64, 0x65]).collect();
        assert_eq!(known, expected);
    }
}
