//! Two copies of a window and what carries published slots between them (`docs/model.md`), explored exhaustively: the
//! host's copy H, where the mirror is the responder, and the device's copy D, where it is the requester. Every order of
//! steps; fences are assumed where the rules have them. Each rule has a twin without it, which must fail as its test says.

mod ends;
mod epochs;
mod host_queues;
mod slots;
mod tickets;
mod turns;
